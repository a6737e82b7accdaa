//! The whole command line, without a node: what is typed, what is printed where, and which exit code comes out.

use super::*;
use clap::CommandFactory;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

/// What came of one call.
struct Ran {
    exit: Exit,
    out: String,
    err: String,
}

/// Calls the program with a home of its own.
fn piton(home: &Path, words: &[&str]) -> Ran {
    let folder = home.join("data").display().to_string();
    let words = ["piton"].into_iter().chain(words.iter().copied()).chain(["--data-dir", &folder]);
    let Arguments { global, verb } = Arguments::try_parse_from(words).unwrap();
    let environment = Environment::of([("HOME", home.display().to_string())]);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (out_is_terminal, err_is_terminal) = (false, false);
    let mut ctx = Context {
        out: &mut out,
        err: &mut err,
        out_is_terminal,
        err_is_terminal,
        global,
        environment,
    };
    let exit = run(&mut ctx, verb);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { exit, out: text(out), err: text(err) }
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Every verb that does something, as it is typed.
fn leaves(command: &clap::Command, above: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for verb in command.get_subcommands() {
        let name = format!("{above}{}", verb.get_name());
        if verb.has_subcommands() {
            found.extend(leaves(verb, &format!("{name} ")));
        } else {
            found.insert(name);
        }
    }
    found
}

/// All of them.
const VERBS: [&str; 80] = [
    "serve",
    "init",
    "doctor",
    "chat",
    "run start",
    "run ls",
    "run show",
    "run wait",
    "run tail",
    "run events",
    "run replay",
    "run export",
    "run stop",
    "run resume",
    "approvals ls",
    "approvals watch",
    "approvals show",
    "approvals approve",
    "approvals deny",
    "approvals edit",
    "journal verify",
    "journal backup",
    "journal restore",
    "journal stats",
    "keys issue",
    "keys ls",
    "keys revoke",
    "nodes ls",
    "nodes drain",
    "nodes fence",
    "nodes upgrade-schema",
    "cluster init",
    "cluster join",
    "prices ls",
    "prices diff",
    "prices update",
    "routes ls",
    "routes explain",
    "providers ls",
    "providers test",
    "providers models",
    "providers health",
    "selection show",
    "selection set",
    "selection clear",
    "cluster rotate-key",
    "auth ls",
    "auth login",
    "auth add",
    "auth rotate",
    "auth mark-dead",
    "auth revive",
    "auth rm",
    "auth import",
    "artifacts ls",
    "artifacts show",
    "budget set",
    "budget ls",
    "budget show",
    "budget rm",
    "tools ls",
    "tools show",
    "tools test",
    "tools policy",
    "tools configure-policy",
    "approvals grants ls",
    "approvals grants add",
    "approvals grants rm",
    "gates ls",
    "gates show",
    "gates evidence",
    "gates waive",
    "tools invocations",
    "tools abandon",
    "usage",
    "scripted",
    "config show",
    "config validate",
    "completion",
    "version",
];

#[test]
fn the_verbs_are_these_and_each_says_what_it_is_for() {
    Arguments::command().debug_assert();
    assert_eq!(leaves(&Arguments::command(), ""), VERBS.map(str::to_owned).into());
    fn silent(command: &clap::Command) -> Vec<String> {
        let below = command.get_subcommands().flat_map(silent);
        let arguments =
            command.get_arguments().filter(|one| one.get_help().is_none() && !one.is_hide_set());
        let arguments = arguments.map(|one| format!("{} {}", command.get_name(), one.get_id()));
        let own = command.get_about().is_none().then(|| command.get_name().to_owned());
        below.chain(arguments).chain(own).collect()
    }
    assert_eq!(silent(&Arguments::command()), [] as [String; 0]);
}

#[test]
fn help_has_examples_and_the_exit_codes_and_says_what_a_drill_needs() {
    let help = |words: &[&str]| Arguments::try_parse_from(words).unwrap_err().to_string();
    let whole = help(&["piton", "--help"]);
    assert!(whole.contains("Examples:") && whole.contains("12 integrity"), "{whole}");
    for words in [
        &["piton", "serve", "--help"][..],
        &["piton", "run", "start", "--help"],
        &["piton", "keys", "issue", "--help"],
    ] {
        assert!(help(words).contains("Examples:"), "{words:?}");
    }
    assert!(help(&["piton", "serve", "--help"]).contains("FAULTS-ALLOWED"));
    assert!(Arguments::try_parse_from(["piton", "serve", "--faults", "x"]).is_ok());
}

#[test]
fn a_replay_without_check_and_two_formats_at_once_are_refused() {
    for words in [
        &["piton", "run", "replay", "run_1"][..],
        &["piton", "version", "--json", "--output", "table"],
        &["piton", "chat", "--plain", "--once", "x"],
        &["piton", "keys", "issue", "--role", "root", "--name", "x"],
        &["piton", "run", "ls", "--limit", "0"],
        &["piton", "frobnicate"],
    ] {
        assert!(Arguments::try_parse_from(words).unwrap_err().use_stderr(), "{words:?}");
    }
}

#[test]
fn a_version_is_a_line_or_a_document() {
    let home = home();
    let plain = piton(home.path(), &["version"]);
    assert_eq!(
        (plain.exit, plain.out),
        (Exit::Ok, format!("piton {}\n", env!("CARGO_PKG_VERSION")))
    );
    let document: Value =
        serde_json::from_str(&piton(home.path(), &["version", "--json"]).out).unwrap();
    assert_eq!(document["name"], "piton");
}

#[test]
fn each_shell_gets_a_completion() {
    let home = home();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = piton(home.path(), &["completion", shell]);
        assert_eq!(ran.exit, Exit::Ok);
        assert!(ran.out.contains("piton") && ran.out.contains("journal"), "{shell}");
    }
}

#[test]
fn the_configuration_is_shown_with_its_origins() {
    let home = home();
    let file = home.path().join("other.toml");
    std::fs::write(&file, "[limits]\nmax_connections = 7\n").unwrap();
    let file = file.display().to_string();
    let ran = piton(home.path(), &["config", "show", "--origin", "--json", "--config", &file]);
    let rows: Value = serde_json::from_str(&ran.out).unwrap();
    let row =
        rows.as_array().unwrap().iter().find(|row| row["key"] == "limits.max_connections").unwrap();
    assert_eq!(
        (row["value"].as_str(), row["origin"].as_str()),
        (Some("7"), Some(format!("{file}:2").as_str()))
    );
    let plain = piton(home.path(), &["config", "show"]).out;
    assert!(
        plain.lines().any(|line| line.starts_with("bind ") && line.ends_with("127.0.0.1:7486")),
        "{plain}"
    );
}

#[test]
fn a_wrong_configuration_is_named_on_standard_error_and_exits_with_three() {
    let home = home();
    let file = home.path().join("wrong.toml");
    std::fs::write(&file, "bnd = \"x\"\n").unwrap();
    let file = file.display().to_string();
    for words in [&["config", "validate"][..], &["run", "ls"], &["doctor"]] {
        let ran = piton(home.path(), &[words, &["--config", &file]].concat());
        assert_eq!(ran.exit, Exit::Configuration, "{words:?}");
    }
    let ran = piton(home.path(), &["config", "validate", "--config", &file]);
    let expected =
        format!("error: {file}:1: bnd is not a setting; bind is the nearest that is known\n");
    assert_eq!((ran.out.as_str(), ran.err), ("", expected));
    let as_json = piton(home.path(), &["config", "validate", "--config", &file, "--json"]);
    let error: Value = serde_json::from_str(&as_json.err).unwrap();
    assert_eq!(error["error"]["exit"], 3);
}

#[test]
fn init_writes_a_file_that_the_node_reads_and_does_not_write_over_it() {
    let home = home();
    let first = piton(home.path(), &["init"]);
    assert_eq!(first.exit, Exit::Ok, "{}", first.err);
    assert!(first.out.contains("next: piton serve"), "{}", first.out);
    let again = piton(home.path(), &["init"]);
    assert_eq!(again.exit, Exit::Conflict);
    assert!(again.err.contains("--force"), "{}", again.err);
    assert_eq!(piton(home.path(), &["init", "--force"]).exit, Exit::Ok);
    let valid = piton(home.path(), &["config", "validate"]);
    assert!(valid.out.ends_with("data/piton.toml is valid\n"), "{} {}", valid.out, valid.err);
}

#[test]
fn without_a_node_its_verbs_say_how_to_start_one() {
    let home = home();
    for words in [&["run", "ls"][..], &["keys", "ls"], &["usage"], &["run", "show", "run_1"]] {
        let ran = piton(home.path(), words);
        assert_eq!((ran.exit, ran.out.as_str()), (Exit::Failure, ""), "{words:?}");
        assert!(ran.err.contains("start one with `piton serve`"), "{words:?}: {}", ran.err);
    }
}

#[test]
fn a_journal_is_checked_without_a_node() {
    let home = home();
    let none = piton(home.path(), &["journal", "verify"]);
    assert_eq!((none.exit, none.out.as_str()), (Exit::NotFound, ""), "{}", none.err);
    let folder = home.path().join("data");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join(crate::boot::JOURNAL);
    let boot = events::record::Boot(1);
    let fresh = events::record::JournalId(2);
    drop(
        store::Store::open(store::Open { path, boot, fresh, faults: store::Faults::none() })
            .unwrap(),
    );
    let empty = piton(home.path(), &["journal", "verify", "--json"]);
    assert_eq!(empty.exit, Exit::Ok, "{}", empty.err);
    let report: Value = serde_json::from_str(&empty.out).unwrap();
    assert_eq!((report["ok"].as_bool(), report["commits"].as_u64()), (Some(true), Some(0)));
    assert_eq!(piton(home.path(), &["journal", "stats"]).exit, Exit::Ok);
}

#[test]
fn doctor_looks_at_everything_and_says_how_to_mend() {
    let home = home();
    let ran = piton(home.path(), &["doctor", "--json"]);
    let rows: Value = serde_json::from_str(&ran.out).unwrap();
    let checks: Vec<&str> =
        rows.as_array().unwrap().iter().map(|row| row["check"].as_str().unwrap()).collect();
    for check in ["configuration", "clock", "data folder", "keys", "journal", "node", "models"] {
        assert!(checks.contains(&check), "{check}: {checks:?}");
    }
    for row in rows.as_array().unwrap() {
        assert_eq!(row["state"] == "ok", row["mend"] == "", "{row}");
    }
}

#[test]
fn a_closed_pipe_is_no_failure_and_a_full_disk_is() {
    struct Gone(ErrorKind);
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for (kind, exit) in [(ErrorKind::BrokenPipe, Exit::Ok), (ErrorKind::StorageFull, Exit::Failure)]
    {
        let (mut out, mut err) = (Gone(kind), Vec::new());
        let (out_is_terminal, err_is_terminal) = (false, false);
        let (global, environment) = (arguments::Global::default(), Environment::default());
        let mut ctx = Context {
            out: &mut out,
            err: &mut err,
            out_is_terminal,
            err_is_terminal,
            global,
            environment,
        };
        assert_eq!(run(&mut ctx, Verb::Version), exit, "{kind}");
    }
}

#[test]
fn a_script_is_checked_and_what_is_wrong_with_it_is_named() {
    let home = home();
    let file = home.path().join("drill.toml");
    let typed = file.display().to_string();
    std::fs::write(&file, "[[provider]]\nname = \"p\"\nrefuse = true\n").unwrap();
    let sound = piton(home.path(), &["scripted", "--script", &typed, "--check"]);
    assert_eq!(sound.exit, Exit::Ok, "{}", sound.err);
    std::fs::write(&file, "[[provider]]\nname = \"p\"\n[[provider.turn]]\nfail = \"limited\"\n")
        .unwrap();
    let wrong = piton(home.path(), &["scripted", "--script", &typed, "--check"]);
    assert_eq!(wrong.exit, Exit::Usage);
    assert!(wrong.err.contains("drill.toml: line 4: fail = \"limited\""), "{}", wrong.err);
    let none = piton(home.path(), &["scripted", "--script", "/nowhere.toml"]);
    assert_eq!(none.exit, Exit::Failure);
    assert!(none.err.contains("cannot read /nowhere.toml"), "{}", none.err);
}
