//! `piton tools invocations` and `piton tools abandon`: what a run's mediated calls came to, and giving one up.

use super::super::client::Ask;
use super::super::context::Context;
use super::super::failure::CliError;
use super::super::print::{self, Column, field};
use crate::error::Exit;
use reqwest::Method;
use serde_json::{Value, json};

const INVOCATIONS: [Column; 6] = [
    ("INVOCATION", |row| field(row, "invocation_id")),
    ("TOOL", |row| field(row, "tool")),
    ("STATE", |row| field(row, "state")),
    ("WHY", why),
    ("ASKED BY", |row| field(row, "asked_by")),
    ("LEASE UNTIL", |row| {
        row.get("admission").map(|one| field(one, "lease_until")).unwrap_or_default()
    }),
];

/// The class of a rejection, the reason of an unknown outcome, or who gave it up.
fn why(row: &Value) -> String {
    let by = || row.get("reconciliation").map(|one| field(one, "by")).unwrap_or_default();
    let said = ["class", "reason"].map(|name| field(row, name));
    said.into_iter().find(|word| !word.is_empty()).unwrap_or_else(by)
}

/// Lists them. The exit code says whether one is unresolved.
pub(super) async fn list(ctx: &mut Context<'_>, run: &str) -> Result<Exit, CliError> {
    let path = Ask::at(&["v1", "runs", run, "tool-invocations"]);
    let all = ctx.client()?.ask(Method::GET, path).await?;
    print::list(ctx.out, ctx.global.output(), &all, &INVOCATIONS)?;
    let mut rows = all.get("data").and_then(Value::as_array).into_iter().flatten();
    let is_unknown = |row: &Value| field(row, "state") == "unknown";
    Ok(if rows.any(is_unknown) { Exit::NeedsReconciliation } else { Exit::Ok })
}

/// Gives one up: nothing is sent, and no budget comes back.
pub(super) async fn abandon(
    ctx: &mut Context<'_>,
    (run, invocation): (&str, &str),
    request_id: &str,
) -> Result<Exit, CliError> {
    let mut ask = Ask::at(&["v1", "runs", run, "tool-invocations", invocation, "reconcile"]);
    ask.body = Some(json!({ "request_id": request_id }));
    let settled = ctx.client()?.ask(Method::POST, ask).await?;
    ctx.object(&settled)?;
    Ok(Exit::Ok)
}
