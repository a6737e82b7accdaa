//! Hooks that pass, block, fail, hang and leave children behind, as real commands.

use super::*;
use events::id::Place;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn hooks(folder: &TempDir, all: &[(&str, &str)]) -> Hooks {
    let hook = |(matcher, command): &(&str, &str)| Hook {
        matcher: matcher.parse().unwrap(),
        command: (*command).to_owned(),
    };
    let path = ("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    Hooks::new(all.iter().map(hook).collect(), folder.path().to_owned(), vec![path])
}

async fn asked(hooks: &Hooks) -> Result<(), Blocked> {
    let arguments = Json::from_bytes(br#"{"text":"hi"}"#);
    let run = RunId::new(Place::default(), 7);
    let call = HookCall { run, project: "lab", tool: "note_append", arguments: &arguments };
    hooks.pre_tool_use(&call).await
}

fn read(folder: &TempDir, name: &str) -> String {
    fs::read_to_string(folder.path().join(name)).unwrap()
}

/// Waits until a process has gone; what is dead and not yet buried has.
async fn gone(pid: &str) {
    let stat = format!("/proc/{}/stat", pid.trim());
    let alive = || fs::read_to_string(Path::new(&stat)).is_ok_and(|stat| !stat.contains(") Z "));
    let look = async {
        while alive() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), look).await.unwrap();
}

#[tokio::test]
async fn a_hook_reads_the_call_on_its_standard_input_and_nothing_of_the_environment_but_what_it_was_given()
 {
    let folder = tempfile::tempdir().unwrap();
    let all = hooks(&folder, &[("note_*", "cat > told.json; env > env.txt")]);
    assert_eq!(asked(&all).await, Ok(()));
    let told: Value = serde_json::from_str(&read(&folder, "told.json")).unwrap();
    let run = RunId::new(Place::default(), 7).to_string();
    let expected = json!({
        "session_id": run,
        "hook_event_name": "PreToolUse",
        "permission_mode": "default",
        "cwd": folder.path(),
        "tool_name": "note_append",
        "tool_input": {"text": "hi"},
        "run_id": run,
        "project": "lab",
    });
    assert_eq!(told, expected);
    let environment = read(&folder, "env.txt");
    let names: Vec<&str> =
        environment.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert!(names.contains(&"PATH"), "{environment}");
    let ours = |name: &&str| matches!(*name, "PATH" | "PWD" | "OLDPWD" | "SHLVL" | "_");
    assert!(names.iter().all(ours), "{environment}");
}

#[tokio::test]
async fn the_first_that_blocks_is_the_last_that_runs_and_one_of_another_tool_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let all = hooks(
        &folder,
        &[
            ("other", "exit 2"),
            ("*", "echo one >> ran.txt"),
            ("note_append", "echo 'not on Sundays' >&2; exit 2"),
            ("*", "echo three >> ran.txt"),
        ],
    );
    assert_eq!(asked(&all).await, Err(Blocked::Said("not on Sundays".into())));
    assert_eq!(read(&folder, "ran.txt"), "one\n");
}

#[tokio::test]
async fn a_hook_that_fails_in_any_way_blocks() {
    let folder = tempfile::tempdir().unwrap();
    for command in [
        "exit 1",
        "no-such-command-of-anybody",
        "kill -9 $$",
        "yes",
        "yes >&2",
        "echo '{\"decision\":'",
    ] {
        let found = asked(&hooks(&folder, &[("*", command)])).await;
        assert!(matches!(found, Err(Blocked::Failed(_))), "{command}: {found:?}");
    }
    let gone = Hooks { folder: folder.path().join("none"), ..hooks(&folder, &[("*", "exit 0")]) };
    let found = asked(&gone).await;
    assert!(matches!(&found, Err(Blocked::Failed(why)) if why.contains("started")), "{found:?}");
    let long = format!("printf 'x%.0s' $(seq {}) >&2; exit 2", REASON_CHARS_MAX + 10);
    let Err(Blocked::Said(said)) = asked(&hooks(&folder, &[("*", &long)])).await else { panic!() };
    assert_eq!(said.chars().count(), REASON_CHARS_MAX + 1);
}

#[tokio::test]
async fn a_late_hook_blocks_and_dies_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let command = "sleep 1000 & echo $! > child.txt; echo $$ > shell.txt; wait";
    let all = Hooks { budget: Duration::from_secs(1), ..hooks(&folder, &[("*", command)]) };
    let found = asked(&all).await;
    assert!(matches!(&found, Err(Blocked::Failed(why)) if why.contains("longer")), "{found:?}");
    for file in ["child.txt", "shell.txt"] {
        gone(&read(&folder, file)).await;
    }
}

#[tokio::test]
async fn what_a_hook_leaves_behind_is_killed_and_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let all = hooks(&folder, &[("*", "sleep 1000 & echo $! > child.txt; exit 0")]);
    assert_eq!(asked(&all).await, Ok(()));
    gone(&read(&folder, "child.txt")).await;
}

#[tokio::test]
async fn whoever_stops_waiting_stops_the_hook() {
    let folder = tempfile::tempdir().unwrap();
    let all = hooks(
        &folder,
        &[("*", "echo $$ > shell.txt.part; mv shell.txt.part shell.txt; exec sleep 1000")],
    );
    let path = folder.path().join("shell.txt");
    let there = async {
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        found = asked(&all) => panic!("{found:?}"),
        () = there => {}
    }
    gone(&read(&folder, "shell.txt")).await;
}
