//! What must hold before a tool call: `[gates.NAME]`, the variables that make a surface read-only, and
//! `[[hooks.pre_tool_use]]`.

use super::environment::Environment;
use super::merge::{Problem, Reader};
use super::origin::Origin;
use super::rule::{self, Broken, Raw};
use actors::hooks::{HOOKS_MAX, Hook, Matcher};
use events::gate::{self, Declaration, Evaluator, GATES_MAX, Hardness, Surfaces};

/// Bytes of the longest command of a hook (4 KiB); what is longer is a script of its own.
const COMMAND_BYTES_MAX: usize = 4_096;

/// Variables that hooks get, where the node has them: what a shell needs to find programs and to write times and texts.
/// Nothing else, for the rest may hold keys.
const HANDED_ON: [&str; 8] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "SHELL"];

/// What must hold before a tool call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// What is said of gates.
    pub surfaces: Surfaces,
    /// What looks at every call, in order.
    pub hooks: Vec<Hook>,
    /// All of the hooks' environment.
    pub environment: Vec<(String, String)>,
}

/// Reads them. Faults are remembered by the reader.
pub(super) fn read(reader: &mut Reader<'_>) -> Preconditions {
    let handed = |name: &str| {
        let value = reader.environment.get(name)?;
        Some((name.to_owned(), value.to_owned()))
    };
    let environment = HANDED_ON.into_iter().filter_map(handed).collect();
    Preconditions { surfaces: surfaces(reader), hooks: hooks(reader), environment }
}

/// The variables that close gates, so that nobody takes them for misspelt ones.
pub(super) fn variables(environment: &Environment) -> impl Iterator<Item = &str> {
    environment.ours().filter(|name| gate::of_variable(name).is_some())
}

fn surfaces(reader: &mut Reader<'_>) -> Surfaces {
    let mut surfaces = Surfaces::default();
    for name in reader.below("gates") {
        if !gate::is_name(&name) || surfaces.declared.len() >= GATES_MAX {
            let at = reader.remove(&format!("gates.{}", super::file::segment(&name)));
            let rule = format!(
                "at most {GATES_MAX} gates, whose names have 1 to {} characters of a-z 0-9 _ -",
                gate::NAME_BYTES_MAX
            );
            reader.problems.push(Problem::Wrong { at, key: "gates".to_owned(), value: name, rule });
            continue;
        }
        let evaluator = reader.take_or(&format!("gates.{name}.evaluator"), "evidence", evaluator);
        let hardness = reader.take_or(&format!("gates.{name}.hardness"), "hard", hardness);
        if let Some((evaluator, hardness)) = evaluator.zip(hardness) {
            surfaces.declared.insert(name, Declaration { evaluator, hardness });
        }
    }
    let environment = reader.environment;
    for name in variables(environment) {
        let value = environment.get(name).unwrap_or_default();
        match rule::switch(&Raw::Spoken(value.to_owned())) {
            Ok(false) => surfaces.read_only.extend(gate::of_variable(name)),
            Ok(true) => {}
            Err(_) => reader.problems.push(Problem::Wrong {
                at: Origin::Environment(name.to_owned()),
                key: name.to_owned(),
                value: value.to_owned(),
                rule: "give 0 to make it read-only, or 1".to_owned(),
            }),
        }
    }
    surfaces
}

fn hooks(reader: &mut Reader<'_>) -> Vec<Hook> {
    const TABLE: &str = "hooks.pre_tool_use";
    let numbered = reader.below(TABLE);
    let mut numbers: Vec<usize> = numbered.iter().filter_map(|nth| nth.parse().ok()).collect();
    numbers.sort_unstable();
    let mut all = Vec::new();
    for nth in numbers {
        let table = format!("{TABLE}.{nth}");
        let matcher = reader.take_or(&format!("{table}.matcher"), "*", matcher);
        let command = reader.take(&format!("{table}.command"), command);
        match (matcher, command) {
            (Some(matcher), Some(command)) => all.push(Hook { matcher, command }),
            // Without its command it would let pass what it was written to look at.
            (_, None) => reader.problems.push(Problem::Wrong {
                at: reader.origin(&format!("{table}.matcher")),
                key: format!("{table}.command"),
                value: "nothing".to_owned(),
                rule: format!("give a command of 1 to {COMMAND_BYTES_MAX} bytes"),
            }),
            (None, Some(_)) => {}
        }
    }
    if all.len() > HOOKS_MAX {
        reader.problems.push(Problem::Wrong {
            at: reader.origin(&format!("{TABLE}.0.command")),
            key: TABLE.to_owned(),
            value: format!("{} hooks", all.len()),
            rule: format!("give at most {HOOKS_MAX}"),
        });
    }
    all
}

fn word<T: Copy>(raw: &Raw, all: &[T], name: impl Fn(T) -> &'static str) -> Result<T, Broken> {
    let spoken = rule::text(raw);
    let found = all.iter().copied().find(|one| spoken == Some(name(*one)));
    let names: Vec<&str> = all.iter().copied().map(name).collect();
    found.ok_or_else(|| Broken::Shown(format!("give one of {}", names.join(", "))))
}

fn evaluator(raw: &Raw) -> Result<Evaluator, Broken> {
    word(raw, &Evaluator::ALL, Evaluator::name)
}

fn hardness(raw: &Raw) -> Result<Hardness, Broken> {
    word(raw, &Hardness::ALL, Hardness::name)
}

fn matcher(raw: &Raw) -> Result<Matcher, Broken> {
    let text = rule::text(raw).unwrap_or_default();
    text.parse().map_err(|error: actors::hooks::NotAMatcher| Broken::Shown(error.to_string()))
}

/// The value is not printed: people put keys into commands.
fn command(raw: &Raw) -> Result<String, Broken> {
    let text = rule::text(raw).filter(|text| text.len() <= COMMAND_BYTES_MAX);
    let rule = || Broken::Hidden(format!("give a command of 1 to {COMMAND_BYTES_MAX} bytes"));
    text.map(str::to_owned).ok_or_else(rule)
}

impl Preconditions {
    /// What is said in the file, as it would spell it.
    pub(super) fn spoken(&self) -> Vec<(String, String)> {
        let declared = self.surfaces.declared.iter().flat_map(|(name, one)| {
            [
                (format!("gates.{name}.evaluator"), one.evaluator.name().to_owned()),
                (format!("gates.{name}.hardness"), one.hardness.name().to_owned()),
            ]
        });
        let hooks = self.hooks.iter().enumerate().flat_map(|(nth, hook)| {
            let table = format!("hooks.pre_tool_use.{nth}");
            [
                (format!("{table}.matcher"), hook.matcher.to_string()),
                (format!("{table}.command"), "set".to_owned()),
            ]
        });
        declared.chain(hooks).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ConfigError, Flags, Loaded, Sources, load};
    use super::*;
    use std::path::Path;

    fn loaded(toml: &str, variables: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("piton.toml"), toml).unwrap();
        let data = folder.path().join("data").display().to_string();
        let own = [("PITON_DATA_DIR", data.as_str()), ("HOME", "/home/ada")];
        let all = variables.iter().copied().chain(own);
        let environment = Environment::of(all);
        let (flags, here): (_, &Path) = (Flags::default(), folder.path());
        load(&Sources { flags: &flags, environment: &environment, known: &[], here })
    }

    #[test]
    fn gates_and_hooks_are_read_in_order_and_a_variable_makes_a_surface_read_only() {
        let hook = |nth: usize| {
            format!("[[hooks.pre_tool_use]]\nmatcher = \"t{nth}_*\"\ncommand = \"run {nth}\"\n")
        };
        let hooks: String = (0..12).map(hook).collect();
        let toml = format!(
            "[gates.tests_pass]\nhardness = \"soft\"\n[gates.frozen]\nevaluator = \"closed\"\n{hooks}"
        );
        let variables = [
            ("PITON_CHAT_ARTIFACT_WRITES", "0"),
            ("PITON_CHAT_TWIN_WRITES", "1"),
            ("PATH", "/bin"),
            ("OPENAI_API_KEY", "planted"),
        ];
        let loaded = loaded(&toml, &variables).unwrap();
        assert_eq!(loaded.warnings, [] as [String; 0]);
        let Preconditions { surfaces, hooks, environment } = loaded.config.preconditions.clone();
        assert_eq!(surfaces.read_only, ["artifact_write".to_owned()].into());
        let soft = Declaration { evaluator: Evaluator::Evidence, hardness: Hardness::Soft };
        let hard = Declaration { evaluator: Evaluator::Closed, hardness: Hardness::Hard };
        let declared = [("tests_pass".to_owned(), soft), ("frozen".to_owned(), hard)];
        assert_eq!(surfaces.declared, declared.into());
        let commands: Vec<&str> = hooks.iter().map(|hook| hook.command.as_str()).collect();
        let expected: Vec<String> = (0..12).map(|nth| format!("run {nth}")).collect();
        assert_eq!(commands, expected);
        assert!(hooks[11].matcher.matches("t11_x") && !hooks[11].matcher.matches("t1_x"));
        let handed = [("PATH", "/bin"), ("HOME", "/home/ada")];
        assert_eq!(environment, handed.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let rows = loaded.rows();
        let shown = |key: &str| rows.iter().find(|row| row.key == key).map(|row| row.value.clone());
        assert_eq!(shown("gates.tests_pass.hardness").as_deref(), Some("soft"));
        assert_eq!(shown("hooks.pre_tool_use.11.command").as_deref(), Some("set"));
    }

    #[test]
    fn what_makes_no_sense_is_an_error_with_its_rule() {
        for (toml, variables, says) in [
            ("[gates.x]\nhardness = \"firm\"\n", &[][..], "give one of hard, soft"),
            ("[gates.x]\nevaluator = \"me\"\n", &[], "give one of open, closed, evidence"),
            ("[gates.x]\nhard = true\n", &[], "hard"),
            ("[gates.\"No Name\"]\nhardness = \"soft\"\n", &[], "a-z 0-9 _ -"),
            ("[[hooks.pre_tool_use]]\nmatcher = \"a\"\n", &[], "command"),
            ("[[hooks.pre_tool_use]]\n", &[], "command"),
            ("[[hooks.pre_tool_use]]\nmatcher = \"(a\"\ncommand = \"x\"\n", &[], "no matcher"),
            ("[[hooks.pre_tool_use]]\ncommand = \"x\"\nwhen = \"y\"\n", &[], "when"),
            ("", &[("PITON_CHAT_TWIN_WRITES", "maybe")], "read-only"),
        ] {
            let said = loaded(toml, variables).unwrap_err().to_string();
            assert!(said.contains(says), "{toml}: {said}");
        }
        let many = "[[hooks.pre_tool_use]]\ncommand = \"x\"\n".repeat(HOOKS_MAX + 1);
        assert!(loaded(&many, &[]).unwrap_err().to_string().contains("at most 32"));
    }
}
