//! The table of prices: what is in force, what another one would change, and that a node takes it.

use serde_json::Value;
use std::path::Path;
use tests::process::command;

/// A verb's exit code and what it printed.
fn say(data: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = command(data).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn another_table_of_prices_is_compared_checked_and_taken() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let (code, shipped, _) = say(data, &["prices", "ls", "--json"]);
    let shipped: Value = serde_json::from_str(&shipped).unwrap();
    assert_eq!((code, shipped["retrieved"].as_str()), (0, Some("2026-11-30")));
    let file = data.join("mine.json");
    let path = file.display().to_string();
    let table = |input: &str| {
        format!(
            r#"{{"schema": 1, "retrieved": "2026-12-01", "source": "ours", "models": [
            {{"provider": "openai", "model": "gpt-4o-mini", "input": {input}, "output": 2000000}}]}}"#
        )
    };
    std::fs::write(&file, table("1000000")).unwrap();
    let (code, changes, said) = say(data, &["prices", "diff", "--file", &path, "--json"]);
    let changes: Value = serde_json::from_str(&changes).unwrap();
    let changed =
        changes.as_array().unwrap().iter().find(|row| row["name"] == "openai:gpt-4o-mini");
    let (before, after) = (&changed.unwrap()["before"], &changed.unwrap()["after"]);
    assert_eq!((code, &before["input_usd_per_million"]), (0, &Value::from(0.15)), "{said}");
    assert_eq!(after["input_usd_per_million"], 1.0);
    let (code, _, said) = say(data, &["prices", "update", "--file", &path]);
    assert!(code == 0 && said.contains("next start"), "{said}");
    let (_, mine, _) = say(data, &["prices", "ls", "--json"]);
    let mine: Value = serde_json::from_str(&mine).unwrap();
    assert_eq!((&mine["source"], mine["data"].as_array().unwrap().len()), (&"ours".into(), 1));
    // One that means nothing is refused, and the one in force stays.
    std::fs::write(&file, table("null")).unwrap();
    let (code, _, said) = say(data, &["prices", "update", "--file", &path]);
    assert!(code == 2 && said.contains("openai:gpt-4o-mini"), "{code} {said}");
    let (_, still, _) = say(data, &["prices", "ls", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&still).unwrap(), mine);
}

#[tokio::test]
async fn a_node_with_a_broken_table_of_prices_does_not_start_on_wrong_ones() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("prices.json"), "{}").unwrap();
    let (status, said) = tests::Node::refused(folder.path(), &["--demo"]).await;
    assert_eq!(status.code(), Some(3), "{said}");
    assert!(said.contains("prices.json") && said.contains("schema"), "{said}");
}
