//! `piton approvals grants`: calls that need not be asked for again.

use super::arguments::{GrantAdd, Grants};
use super::client::{Ask, Client};
use super::context::Context;
use super::failure::CliError;
use super::print::{self, Column, field};
use crate::error::Exit;
use reqwest::Method;
use serde_json::{Map, Value, json};

const GRANTS: [Column; 6] = [
    ("GRANT", |row| field(row, "id")),
    ("PROJECT", |row| field(row, "project")),
    ("TOOL", |row| field(row, "tool")),
    ("ARGUMENTS", |row| arguments(row).unwrap_or_default()),
    ("UNTIL", |row| field(row, "until")),
    ("BY", |row| field(row, "by")),
];

/// A pattern in one line: `POINTER=JSON` and `POINTER~GLOB`.
fn arguments(row: &Value) -> Option<String> {
    let pattern = row.get("pattern")?;
    let equal = pattern.get("equal")?.as_object()?.iter();
    let glob = pattern.get("glob")?.as_object()?.iter();
    let equal = equal.map(|(pointer, value)| format!("{pointer}={value}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = equal.chain(glob.map(|(pointer, value)| format!("{pointer}~{}", text(value))));
    Some(all.collect::<Vec<_>>().join(" "))
}

pub(super) async fn grants(ctx: &mut Context<'_>, verb: Grants) -> Result<Exit, CliError> {
    let client = ctx.client()?;
    match verb {
        Grants::Ls { project } => {
            let mut ask = Ask::at(&["v1", "approvals", "grants"]);
            ask.query.extend(project.map(|project| ("project", project)));
            let all = client.ask(Method::GET, ask).await?;
            print::list(ctx.out, ctx.global.output(), &all, &GRANTS)?;
            Ok(Exit::Ok)
        }
        Grants::Add(add) => added(ctx, &client, add).await,
        Grants::Rm { id, project } => {
            let path = ["v1", "approvals", "grants", &project, &id];
            client.ask(Method::DELETE, Ask::at(&path)).await?;
            ctx.remark(&format!("took back {id}: calls like these are asked for again"))?;
            Ok(Exit::Ok)
        }
    }
}

async fn added(ctx: &mut Context<'_>, client: &Client, add: GrantAdd) -> Result<Exit, CliError> {
    let mut ask = Ask::at(&["v1", "approvals", "grants"]);
    ask.body = Some(body(add)?);
    let granted = client.ask(Method::POST, ask).await?;
    ctx.object(&granted)?;
    Ok(Exit::Ok)
}

fn body(add: GrantAdd) -> Result<Value, CliError> {
    let mut equal = Map::new();
    for text in &add.equal {
        let (pointer, value) = pair("--equal", text)?;
        let value = serde_json::from_str(value).map_err(|error| {
            let why = format!("--equal {text}: {error}: texts stand in double quotes");
            CliError::Usage(why)
        })?;
        equal.insert(pointer.to_owned(), value);
    }
    let mut glob = Map::new();
    for text in &add.glob {
        let (pointer, value) = pair("--glob", text)?;
        glob.insert(pointer.to_owned(), json!(value));
    }
    Ok(json!({
        "project": add.project,
        "tool": add.tool,
        "equal": equal,
        "glob": glob,
        "expires_in_seconds": add.expires,
    }))
}

fn pair<'t>(flag: &str, text: &'t str) -> Result<(&'t str, &'t str), CliError> {
    let none =
        || CliError::Usage(format!("{flag} {text}: write POINTER=VALUE, such as /path=VALUE"));
    text.split_once('=').ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(equal: &[&str], glob: &[&str]) -> GrantAdd {
        let all = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let (equal, glob) = (all(equal), all(glob));
        GrantAdd { project: "lab".into(), tool: "t".into(), equal, glob, expires: Some(7) }
    }

    #[test]
    fn what_is_typed_becomes_a_pattern_and_reads_back_in_one_line() {
        let body = body(add(&["/a=1", "/b=\"x=y\""], &["/path=notes/*.md"])).unwrap();
        let pattern = json!({"equal": body["equal"], "glob": body["glob"]});
        assert_eq!(
            pattern,
            json!({"equal": {"/a": 1, "/b": "x=y"}, "glob": {"/path": "notes/*.md"}})
        );
        assert_eq!((&body["expires_in_seconds"], &body["project"]), (&json!(7), &json!("lab")));
        let line = arguments(&json!({"pattern": pattern})).unwrap();
        assert_eq!(line, r#"/a=1 /b="x=y" /path~notes/*.md"#);
    }

    #[test]
    fn what_is_no_pair_is_refused() {
        for bad in [add(&["/a"], &[]), add(&["/a=x"], &[]), add(&[], &["x"])] {
            assert!(matches!(body(bad), Err(CliError::Usage(_))));
        }
    }
}
