//! `piton approvals`: calls that wait for somebody to agree.

use super::arguments::{Approvals, Approve, Deny, Edit, Inbox, Output, Watch};
use super::client::{Ask, Client};
use super::context::Context;
use super::failure::CliError;
use super::print::{self, Column, cut, field, time};
use super::serve::Signals;
use crate::error::Exit;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// The pause between two looks at the inbox (2 s): a person answers more slowly, and a look is one indexed question.
const LOOK: Duration = Duration::from_secs(2);
/// Holds that a watch remembers to have shown; beyond it, only those of the newest page.
const SHOWN_MAX: usize = 10_000;

const HOLDS: [Column; 7] = [
    ("APPROVAL", |held| field(held, "approval_id")),
    ("STATUS", |held| field(held, "status")),
    ("TOOL", |held| field(held, "tool")),
    ("PROJECT", |held| field(held, "project_id")),
    ("ASKED", |held| time(&field(held, "asked_at"))),
    ("UNTIL", |held| time(&field(held, "until"))),
    ("BY", |held| field(held, "by")),
];

pub(super) async fn approvals(ctx: &mut Context<'_>, verb: Approvals) -> Result<Exit, CliError> {
    match verb {
        Approvals::Grants(verb) => super::grants::grants(ctx, verb).await,
        Approvals::Ls(inbox) => list(ctx, inbox).await,
        Approvals::Watch(wanted) => watch(ctx, wanted).await,
        Approvals::Show { id } => {
            let held = ctx.client()?.ask(Method::GET, Ask::at(&["v1", "approvals", &id])).await?;
            ctx.object(&held)?;
            Ok(Exit::Ok)
        }
        Approvals::Approve(Approve { id, reach, subject }) => {
            answer(ctx, &id, "approve", json!({"reach": reach, "subject": subject})).await
        }
        Approvals::Deny(Deny { id, reason }) => {
            answer(ctx, &id, "deny", json!({"reason": reason})).await
        }
        Approvals::Edit(Edit { id, arguments }) => {
            let arguments: Value = serde_json::from_str(&arguments).map_err(|error| {
                CliError::Usage(format!("--arguments: {error}: give a JSON object"))
            })?;
            answer(ctx, &id, "approve", json!({"arguments": arguments})).await
        }
    }
}

async fn list(ctx: &mut Context<'_>, inbox: Inbox) -> Result<Exit, CliError> {
    let Inbox { status, project, limit, after } = inbox;
    let status = Some(status).filter(|status| status != "all");
    let mut ask = Ask::at(&["v1", "approvals"]);
    let chosen = [
        ("status", status),
        ("project", project),
        ("after", after),
        ("limit", Some(limit.to_string())),
    ];
    ask.query = chosen.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let page = ctx.client()?.ask(Method::GET, ask).await?;
    print::list(ctx.out, ctx.global.output(), &page, &HOLDS)?;
    let next = field(&page, "next");
    if !next.is_empty() && ctx.global.output() == Output::Table {
        ctx.remark(&format!("there are more: --after {next}"))?;
    }
    Ok(Exit::Ok)
}

/// Prints what begins to wait until a signal comes. A node that is away for a while is asked again.
async fn watch(ctx: &mut Context<'_>, wanted: Watch) -> Result<Exit, CliError> {
    let client = ctx.client()?;
    let mut signals = Signals::listen()?;
    let (mut shown, mut is_away) = (BTreeSet::new(), false);
    loop {
        let looked = tokio::select! {
            () = signals.next() => return Ok(Exit::Ok),
            looked = look(&client, wanted.project.as_deref()) => looked,
        };
        match looked {
            Ok(page) => {
                is_away = false;
                tell(ctx, &page, &mut shown, &wanted)?;
            }
            Err(error @ (CliError::NoNode { .. } | CliError::Cut(_))) => {
                if !is_away {
                    ctx.remark(&format!("{error}; it is asked again"))?;
                }
                is_away = true;
            }
            Err(error) => return Err(error),
        }
        tokio::select! {
            () = signals.next() => return Ok(Exit::Ok),
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

async fn look(client: &Client, project: Option<&str>) -> Result<Value, CliError> {
    let mut ask = Ask::at(&["v1", "approvals"]);
    ask.query = vec![("status", "waiting".to_owned()), ("limit", "200".to_owned())];
    ask.query.extend(project.map(|project| ("project", project.to_owned())));
    client.ask(Method::GET, ask).await
}

/// A line for each that was not shown before, the oldest first.
fn tell(
    ctx: &mut Context<'_>,
    page: &Value,
    shown: &mut BTreeSet<String>,
    wanted: &Watch,
) -> Result<(), CliError> {
    if shown.len() > SHOWN_MAX {
        *shown = print::rows(page).iter().map(|held| field(held, "approval_id")).collect();
    }
    for held in print::rows(page).iter().rev() {
        let id = field(held, "approval_id");
        if !shown.insert(id.clone()) {
            continue;
        }
        match ctx.output() {
            Output::Table => {
                let until = time(&field(held, "until"));
                let (tool, arguments) = (field(held, "tool"), field(held, "arguments"));
                let told = [id, cut(&tool), format!("until {until}"), cut(&arguments)];
                writeln!(ctx.out, "{}", told.join("  "))?;
            }
            Output::Json | Output::Jsonl => print::line(ctx.out, held)?,
        }
        ctx.out.flush()?;
        if wanted.bell {
            // To the terminal, and never into data that somebody keeps.
            write!(ctx.err, "\u{7}")?;
            ctx.err.flush()?;
        }
    }
    Ok(())
}

async fn answer(
    ctx: &mut Context<'_>,
    id: &str,
    verb: &str,
    body: Value,
) -> Result<Exit, CliError> {
    let mut ask = Ask::at(&["v1", "approvals", id, verb]);
    ask.body = Some(body);
    let held = ctx.client()?.ask(Method::POST, ask).await?;
    ctx.object(&held)?;
    Ok(Exit::Ok)
}
