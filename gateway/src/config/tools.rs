//! The tables `[tools]`, `[origins.<name>]` and `[domains.<name>]`: what an operator rules about tools.
//!
//! A rule that is misspelt is refused by name, for the one that was meant may be the one that holds a tool back. Names
//! in a table are tools as they call themselves, so most of them want quotes: `[tools."note.append"]`.

use super::file::segment;
use super::merge::{Problem, Reader};
use super::rule::{self, Broken, Raw};
use ::tools::name::Style;
use ::tools::settings::{Domain, Kept, OBSERVATION_CHARS, OfOrigin, Overlay, Settings};
use ::tools::tool::{ReplayClass, Tier};
use events::quantity::Millis;
use std::collections::{BTreeMap, BTreeSet};

/// The keys of `[tools]` that are no tool; the tables `outbound` and `web_search` are read by [`super::outbound`].
const OWN: [&str; 6] = [
    "names",
    "session_critical_verbs",
    "companion_groups",
    "niche_servers",
    "outbound",
    "web_search",
];
/// Entries of one list.
const LIST_MAX: usize = 256;
/// The most bytes of a result that a rule may set: what the largest policy admits.
const RESULT_BYTES: u64 = 750_000;
/// Bytes of one entry.
const ENTRY_BYTES_MAX: usize = 256;

/// Asks for every key about tools. None when one of those with a default is wrong.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<Settings> {
    let chars = OBSERVATION_CHARS.to_string();
    let chars =
        reader.take_or("observation_chars", &chars, rule::count(1_000, 1_000_000, "characters"));
    let style = reader.take_or("tools.names", "mcp_", style);
    let keep = Kept {
        session_critical_verbs: reader
            .take("tools.session_critical_verbs", list)
            .unwrap_or_default(),
        companion_groups: reader.take_table("tools.companion_groups", list),
        niche_servers: set(reader.take("tools.niche_servers", list)),
    };
    let mut tools = BTreeMap::new();
    for name in tables(reader, "tools").into_iter().filter(|name| !OWN.contains(&name.as_str())) {
        let overlay = overlay(reader, &format!("tools.{}", segment(&name)));
        tools.insert(name, overlay);
    }
    let mut origins = BTreeMap::new();
    for name in tables(reader, "origins") {
        let table = format!("origins.{}", segment(&name));
        let [include, exclude] = ["include", "exclude"]
            .map(|key| reader.take(&format!("{table}.{key}"), list).unwrap_or_default());
        origins.insert(name, OfOrigin { include, exclude, overlay: overlay(reader, &table) });
    }
    let mut domains = BTreeMap::new();
    for name in tables(reader, "domains") {
        let mut of = |key: &str| {
            reader.take(&format!("domains.{}.{key}", segment(&name)), list).unwrap_or_default()
        };
        let domain = Domain {
            artifact_kinds: of("artifact_kinds").into_iter().collect(),
            keywords: of("keywords"),
            servers: of("servers").into_iter().collect(),
        };
        if domain == Domain::default() {
            let (key, at) = (format!("domains.{name}"), reader.origin("domains"));
            let rule = "give artifact_kinds, keywords or servers".to_owned();
            reader.problems.push(Problem::Wrong { at, key, value: "nothing".to_owned(), rule });
        }
        domains.insert(name, domain);
    }
    Some(Settings { style: style?, observation_chars: chars?, origins, tools, keep, domains })
}

fn set(list: Option<Vec<String>>) -> BTreeSet<String> {
    list.unwrap_or_default().into_iter().collect()
}

/// The names of the tables below a table of the file, quotes taken off. A key with a value of its own is no table: it is
/// left to be refused by its name.
fn tables(reader: &Reader<'_>, above: &str) -> BTreeSet<String> {
    let prefix = format!("{above}.");
    let below = reader.file.iter().filter_map(|(key, given)| {
        let rest = key.strip_prefix(&prefix)?;
        let (name, more) = match rest.strip_prefix('"') {
            None => rest.split_once('.').unwrap_or((rest, "")),
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
        };
        (!more.is_empty() || given.raw == Raw::EmptyTable).then(|| name.to_owned())
    });
    below.collect()
}

/// What a table rules of a tool, or of all tools of an origin.
fn overlay(reader: &mut Reader<'_>, table: &str) -> Overlay {
    let key = |name: &str| format!("{table}.{name}");
    Overlay {
        tier: reader.take(&key("approval"), tier),
        mediated: reader.take(&key("mediated"), mediated).is_some(),
        gates: reader.take(&key("gates"), gates).unwrap_or_default(),
        class: reader.take(&key("class"), class),
        timeout: reader.take(&key("timeout_seconds"), rule::seconds(1, 3_600)),
        result_max: reader
            .take(&key("result_bytes_max"), rule::count(1_024, RESULT_BYTES, "bytes")),
        pinned: reader.take(&key("pinned"), rule::switch),
    }
}

fn broken<T>(rule: &str) -> Result<T, Broken> {
    Err(Broken::Shown(rule.to_owned()))
}

fn style(raw: &Raw) -> Result<Style, Broken> {
    match rule::text(raw) {
        Some("mcp_") => Ok(Style::Single),
        Some("mcp__") => Ok(Style::Double),
        _ => broken("give mcp_ or mcp__: what the names of servers' tools begin with"),
    }
}

fn tier(raw: &Raw) -> Result<Tier, Broken> {
    match rule::text(raw) {
        Some("free") => Ok(Tier::Free),
        Some("required") => Ok(Tier::Approval),
        _ => broken("give required or free"),
    }
}

/// A tool can be put behind the broker and not taken out.
fn mediated(raw: &Raw) -> Result<(), Broken> {
    match rule::switch(raw) {
        Ok(true) => Ok(()),
        Ok(false) | Err(_) => {
            broken("give true, or leave it out: what is mediated by itself stays so")
        }
    }
}

fn class(raw: &Raw) -> Result<ReplayClass, Broken> {
    match rule::text(raw) {
        Some("read_only") => Ok(ReplayClass::ReadOnly),
        Some("idempotent") => Ok(ReplayClass::Idempotent),
        Some("effectful") => Ok(ReplayClass::Effectful),
        _ => broken("give read_only, idempotent or effectful"),
    }
}

/// Names of gates: they become parts of variables and of streams.
fn gates(raw: &Raw) -> Result<Vec<String>, Broken> {
    let names = list(raw)?;
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_name = |name: &String| name.len() <= 64 && name.chars().all(allowed);
    if names.iter().all(is_name) {
        Ok(names)
    } else {
        broken("give names of gates: 1 to 64 characters of a-z, 0-9 and _, such as twin_write")
    }
}

/// Texts: a list of the file, or one text with commas between them.
fn list(raw: &Raw) -> Result<Vec<String>, Broken> {
    let texts: Option<Vec<String>> = match raw {
        Raw::List(texts) => Some(texts.iter().map(|text| text.trim().to_owned()).collect()),
        Raw::Spoken(text) => Some(text.split(',').map(|text| text.trim().to_owned()).collect()),
        Raw::Text(_) | Raw::Integer(_) | Raw::Switch(_) | Raw::EmptyTable | Raw::Other(_) => None,
    };
    let is_entry = |text: &String| (1..=ENTRY_BYTES_MAX).contains(&text.len());
    match texts.filter(|all| all.len() <= LIST_MAX && all.iter().all(is_entry)) {
        Some(texts) => Ok(texts),
        None => broken(&format!(
            "give a list of at most {LIST_MAX} texts of 1 to {ENTRY_BYTES_MAX} bytes"
        )),
    }
}

/// Its keys with their values as the file would spell them; of tables only what somebody wrote.
pub(super) fn spoken(settings: &Settings) -> Vec<(String, String)> {
    let names = match settings.style {
        Style::Single => "mcp_",
        Style::Double => "mcp__",
    };
    let joined = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(",");
    let keep = &settings.keep;
    let mut rows = vec![
        ("observation_chars".to_owned(), settings.observation_chars.to_string()),
        ("tools.names".to_owned(), names.to_owned()),
        ("tools.session_critical_verbs".to_owned(), keep.session_critical_verbs.join(",")),
        ("tools.niche_servers".to_owned(), joined(&keep.niche_servers)),
    ];
    for (group, members) in &keep.companion_groups {
        rows.push((format!("tools.companion_groups.{}", segment(group)), members.join(",")));
    }
    for (name, overlay) in &settings.tools {
        rows.extend(of_overlay(&format!("tools.{}", segment(name)), overlay));
    }
    for (name, of) in &settings.origins {
        let table = format!("origins.{}", segment(name));
        rows.push((format!("{table}.include"), of.include.join(",")));
        rows.push((format!("{table}.exclude"), of.exclude.join(",")));
        rows.extend(of_overlay(&table, &of.overlay));
    }
    for (name, domain) in &settings.domains {
        let table = format!("domains.{}", segment(name));
        rows.push((format!("{table}.artifact_kinds"), joined(&domain.artifact_kinds)));
        rows.push((format!("{table}.keywords"), domain.keywords.join(",")));
        rows.push((format!("{table}.servers"), joined(&domain.servers)));
    }
    rows
}

fn of_overlay(table: &str, overlay: &Overlay) -> Vec<(String, String)> {
    let Overlay { tier, mediated, gates, class, timeout, result_max, pinned } = overlay;
    let class = class.map(|class| match class {
        ReplayClass::ReadOnly => "read_only",
        ReplayClass::Idempotent => "idempotent",
        ReplayClass::Effectful => "effectful",
    });
    let tier = tier.map(|tier| match tier {
        Tier::Free => "free",
        Tier::Approval => "required",
    });
    let said = [
        ("approval", tier.map(str::to_owned)),
        ("mediated", mediated.then(|| "true".to_owned())),
        ("gates", (!gates.is_empty()).then(|| gates.join(","))),
        ("class", class.map(str::to_owned)),
        ("timeout_seconds", timeout.map(|Millis(millis)| (millis / 1_000).to_string())),
        ("result_bytes_max", result_max.map(|max| max.to_string())),
        ("pinned", pinned.map(|pinned| pinned.to_string())),
    ];
    said.into_iter().filter_map(|(key, value)| Some((format!("{table}.{key}"), value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::file::parse;
    use super::super::{Environment, Flags};
    use super::*;
    use std::path::Path;

    fn told(text: &str) -> Result<Settings, Vec<String>> {
        let environment = Environment::default();
        let flags = Flags::default();
        let keys = parse(text, Path::new("p.toml")).unwrap();
        let mut reader = Reader::new(keys, &environment, &flags);
        let settings = read(&mut reader);
        reader.refuse_the_rest();
        let problems: Vec<String> = reader.problems.iter().map(ToString::to_string).collect();
        if problems.is_empty() { Ok(settings.unwrap()) } else { Err(problems) }
    }

    const ALL: &str = r#"
observation_chars = 8000
[tools]
names = "mcp__"
session_critical_verbs = ["pad_sketch"]
niche_servers = ["gazebo"]
[tools.companion_groups]
commit = ["cad/export", "twin/commit"]
[tools."note.append"]
approval = "required"
mediated = true
gates = ["note_write"]
class = "effectful"
timeout_seconds = 9
result_bytes_max = 2048
pinned = true
[origins.cad]
include = ["part.*"]
exclude = ["*.delete"]
class = "read_only"
[domains.mechanical]
artifact_kinds = ["cad_model"]
keywords = ["sheet metal"]
servers = ["cad"]
"#;

    #[test]
    fn what_is_ruled_about_tools_is_read_whole_and_said_again() {
        let settings = told(ALL).unwrap();
        let overlay = &settings.tools["note.append"];
        assert_eq!(
            (overlay.tier, overlay.mediated, overlay.pinned),
            (Some(Tier::Approval), true, Some(true))
        );
        assert_eq!(
            (overlay.gates.as_slice(), overlay.timeout),
            (&["note_write".to_owned()][..], Some(Millis(9_000)))
        );
        assert_eq!(
            (overlay.class, overlay.result_max),
            (Some(ReplayClass::Effectful), Some(2_048))
        );
        assert_eq!(settings.tools.len(), 1);
        assert_eq!(settings.origins["cad"].include, ["part.*"]);
        assert_eq!(settings.origins["cad"].overlay.class, Some(ReplayClass::ReadOnly));
        assert_eq!(settings.keep.companion_groups["commit"], ["cad/export", "twin/commit"]);
        assert_eq!(settings.domains["mechanical"].keywords, ["sheet metal"]);
        assert_eq!((settings.style, settings.observation_chars), (Style::Double, 8_000));
        let spoken = spoken(&settings);
        for (key, value) in [
            ("observation_chars", "8000"),
            ("tools.\"note.append\".approval", "required"),
            ("tools.companion_groups.commit", "cad/export,twin/commit"),
            ("origins.cad.exclude", "*.delete"),
            ("domains.mechanical.servers", "cad"),
        ] {
            assert!(spoken.contains(&(key.to_owned(), value.to_owned())), "{key}: {spoken:?}");
        }
        assert_eq!(told("").unwrap(), Settings::default());
    }

    #[test]
    fn the_example_for_many_tools_is_read_whole() {
        let settings = told(include_str!("../../../deploy/tools.example.toml")).unwrap();
        assert_eq!((settings.keep.companion_groups.len(), settings.domains.len()), (3, 3));
        assert_eq!(settings.keep.session_critical_verbs.len(), 6);
        assert_eq!(settings.tools["twin/commit_geometry"].tier, Some(Tier::Approval));
        assert_eq!(settings.origins["twin"].overlay.gates, ["twin_write"]);
    }

    #[test]
    fn a_misspelt_rule_about_a_tool_is_an_error_that_names_the_key() {
        for (text, about) in [
            (
                "[tools.\"note.append\"]\naproval = \"required\"\n",
                "p.toml:2: tools.\"note.append\".aproval is not a setting; tools.\"note.append\".approval is the nearest",
            ),
            (
                "[tools.t]\napproval = \"yes\"\n",
                "tools.t.approval = \"yes\": give required or free",
            ),
            ("[tools.t]\nmediated = false\n", "stays so"),
            ("[tools.t]\ngates = [\"Not A Gate\"]\n", "give names of gates"),
            ("[tools.t]\nclass = \"harmless\"\n", "give read_only, idempotent or effectful"),
            ("[tools.t]\ntimeout_seconds = 0\n", "tools.t.timeout_seconds"),
            (
                "[tools]\nsession_critical_verb = [\"x\"]\n",
                "tools.session_critical_verb is not a setting",
            ),
            (
                "[origins.cad]\nincludes = [\"x\"]\n",
                "origins.cad.includes is not a setting; origins.cad.include",
            ),
            (
                "[domains.d]\nkeyword = [\"x\"]\n",
                "domains.d.keyword is not a setting; domains.d.keywords",
            ),
            ("[origins]\ncad = \"x\"\n", "origins.cad is not a setting"),
            ("[domains.d]\n", "give artifact_kinds, keywords or servers"),
            ("observation_chars = 10\n", "give a whole number of characters from 1000 to 1000000"),
        ] {
            let problems = told(text).unwrap_err();
            assert!(problems.iter().any(|one| one.contains(about)), "{text}: {problems:?}");
        }
    }
}
