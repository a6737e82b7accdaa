//! `piton nodes`: list, drain and fence. Any node is asked; it passes on what another one has to do.

use super::arguments::{Drain, Fence, Nodes, Output, UpgradeSchema};
use super::client::{Ask, Client};
use super::context::Context;
use super::failure::CliError;
use super::print::{self, Column, field};
use super::progress::Progress;
use crate::error::Exit;
use reqwest::Method;
use serde_json::{Value, json};
use std::io::{BufRead, Read};
use std::time::Duration;

/// Between two looks at a node that drains.
const LOOK: Duration = Duration::from_millis(250);
/// Bytes of an answer at the terminal.
const ANSWER_BYTES_MAX: u64 = 64;

const COLUMNS: [Column; 9] = [
    (
        "NODE",
        |row| if field(row, "name").is_empty() { "(alone)".to_owned() } else { field(row, "name") },
    ),
    ("", |row| if field(row, "this") == "true" { "*".to_owned() } else { String::new() }),
    ("STATE", |row| field(row, "state")),
    ("HOLDS", |row| field(row, "holds")),
    ("SERVES", |row| field(row, "serves")),
    ("BUILD", |row| field(row, "build")),
    ("SINCE", |row| field(row, "since").split('.').next().unwrap_or_default().to_owned()),
    ("HEARD", |row| ago(row, "heard_ms")),
    ("HORIZON", |row| ago(row, "horizon_ms")),
];

/// Milliseconds as seconds with a tenth.
fn ago(row: &Value, name: &str) -> String {
    let millis = row.get(name).and_then(Value::as_u64);
    millis
        .map_or_else(String::new, |millis| format!("{}.{} s", millis / 1_000, millis % 1_000 / 100))
}

pub(super) async fn nodes(ctx: &mut Context<'_>, verb: Nodes) -> Result<Exit, CliError> {
    let client = ctx.client()?;
    match verb {
        Nodes::Ls => ls(ctx, &client).await,
        Nodes::Drain(drain) => drained(ctx, &client, drain).await,
        Nodes::Fence(fence) => fenced(ctx, &client, fence).await,
        Nodes::UpgradeSchema(upgrade) => upgraded(ctx, &client, upgrade).await,
    }
}

async fn ls(ctx: &mut Context<'_>, client: &Client) -> Result<Exit, CliError> {
    let list = client.ask(Method::GET, Ask::at(&["v1", "nodes"])).await?;
    print::list(ctx.out, ctx.global.output(), &list, &COLUMNS)?;
    let unowned = field(&list, "unowned");
    if ctx.output() == Output::Table && unowned != "0" {
        ctx.remark(&format!("{unowned} of 64 partitions have no owner that this node sees"))?;
    }
    Ok(Exit::Ok)
}

async fn drained(ctx: &mut Context<'_>, client: &Client, drain: Drain) -> Result<Exit, CliError> {
    let Drain { name, undo, no_wait, timeout } = drain;
    let method = if undo { Method::DELETE } else { Method::POST };
    let wished = client.ask(method, Ask::at(&["v1", "nodes", &name, "drain"])).await?;
    if undo || no_wait {
        return said(ctx, &wished, if undo { "takes its share again" } else { "hands over" });
    }
    let empty = until_empty(ctx, client, &name);
    let row = tokio::time::timeout(Duration::from_secs(timeout), empty).await.map_err(|_late| {
        CliError::TimedOut(format!(
            "{name} still holds partitions after {timeout} s: it goes on handing over, look with `piton nodes ls`"
        ))
    })??;
    said(ctx, &row, "holds nothing and may be stopped; it takes its share again when it is started")
}

/// Waits until nobody sees a node hold anything. One that is gone meanwhile holds nothing either.
async fn until_empty(
    ctx: &mut Context<'_>,
    client: &Client,
    name: &str,
) -> Result<Value, CliError> {
    let watched = ctx.watched();
    let mut progress = Progress::new(ctx.err, watched, "hand over", "partitions");
    let mut first = None;
    loop {
        let list = client.ask(Method::GET, Ask::at(&["v1", "nodes"])).await?;
        let row = print::rows(&list).iter().find(|row| field(row, "name") == name);
        let Some(row) = row else { return Ok(json!({"name": name, "state": "gone", "holds": 0})) };
        let of = |key| row.get(key).and_then(Value::as_u64).unwrap_or(0);
        let left = of("holds").max(of("serves"));
        if left == 0 {
            return Ok(row.clone());
        }
        let total = *first.get_or_insert(left);
        progress.at(total.saturating_sub(left), total);
        tokio::time::sleep(LOOK).await;
    }
}

async fn fenced(ctx: &mut Context<'_>, client: &Client, fence: Fence) -> Result<Exit, CliError> {
    let Fence { name, yes } = fence;
    if !yes && !confirmed(ctx, &name)? {
        return Err(CliError::Usage(format!("{name} was not fenced: answer yes, or give --yes")));
    }
    let done = client.ask(Method::POST, Ask::at(&["v1", "nodes", &name, "fence"])).await?;
    let left = field(&done, "holds");
    if left != "0" {
        ctx.remark(&format!(
            "{left} of its partitions are not taken yet: look with `piton nodes ls`"
        ))?;
    }
    said(ctx, &done, "is fenced: start it again to let it back in")
}

fn confirmed(ctx: &mut Context<'_>, name: &str) -> Result<bool, CliError> {
    ctx.remark(&format!(
        "Fencing {name} takes its partitions from it at once, whatever it is doing. From then on its writes are refused, and \
         if it hears of it, it stops.\n\
         It does not call back what is on its way: a model call or a tool's request that {name} has sent already goes on; \
         the new owners record it as unknown and never repeat it by themselves."
    ))?;
    asked(ctx, &format!("Fence {name}? [yes/no] "))
}

fn asked(ctx: &mut Context<'_>, question: &str) -> Result<bool, CliError> {
    ctx.prompt(question)?;
    let mut answer = String::new();
    let read = std::io::stdin().lock().take(ANSWER_BYTES_MAX).read_line(&mut answer);
    read.map_err(|source| CliError::File {
        what: "can not read",
        path: "standard input".into(),
        source,
    })?;
    Ok(answer.trim().eq_ignore_ascii_case("yes"))
}

async fn upgraded(
    ctx: &mut Context<'_>,
    client: &Client,
    upgrade: UpgradeSchema,
) -> Result<Exit, CliError> {
    if !upgrade.yes {
        ctx.remark(
            "Every node must run the build that is asked. From then on no older one is let into this journal, and its nodes may \
             write what older ones can not read.\nThere is no way back: what was written so stays, and a backup from before is \
             the only journal that an older build can read.",
        )?;
        if !asked(ctx, "Upgrade? [yes/no] ")? {
            return Err(CliError::Usage(
                "nothing was upgraded: answer yes, or give --yes".to_owned(),
            ));
        }
    }
    let done = client.ask(Method::POST, Ask::at(&["v1", "nodes", "upgrade-schema"])).await?;
    match ctx.output() {
        Output::Table => {
            let (reader, build) = (field(&done, "minimum_reader"), field(&done, "build"));
            writeln!(ctx.out, "the minimum reader is {reader}, which build {build} reads")?;
        }
        Output::Json | Output::Jsonl => ctx.object(&done)?,
    }
    Ok(Exit::Ok)
}

/// The answer for programs, a sentence for people.
fn said(ctx: &mut Context<'_>, row: &Value, what: &str) -> Result<Exit, CliError> {
    match ctx.output() {
        Output::Table => writeln!(ctx.out, "{} {what}", print::escape(&field(row, "name")))?,
        Output::Json | Output::Jsonl => ctx.object(row)?,
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_marks_the_node_that_was_asked_and_leaves_out_what_is_not_known() {
        let list = json!({"data": [
            {"name": "a", "this": true, "state": "serving", "holds": 32, "serves": 32, "build": "0.1.0",
             "since": "2026-12-01T10:00:00.000001Z", "heard_ms": 1_250, "horizon_ms": 9_000},
            {"name": "b", "this": false, "state": "silent", "holds": 32, "serves": null, "build": null,
             "since": null, "heard_ms": 12_000, "horizon_ms": null},
        ]});
        let mut out = Vec::new();
        print::list(&mut out, Output::Table, &list, &COLUMNS).unwrap();
        let expected = "\
NODE     STATE    HOLDS  SERVES  BUILD  SINCE                HEARD   HORIZON
a     *  serving  32     32      0.1.0  2026-12-01T10:00:00  1.2 s   9.0 s
b        silent   32                                         12.0 s
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
