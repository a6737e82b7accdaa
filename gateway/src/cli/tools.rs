//! `piton tools`: what models may call here, what is ruled of it, and whether it works.

mod invocations;
mod policy;

use super::arguments::Tools;
use super::client::Ask;
use super::context::Context;
use super::failure::CliError;
use super::print::{self, Column, field};
use crate::error::Exit;
use reqwest::Method;
use serde_json::{Value, json};

const TOOLS: [Column; 8] = [
    ("TOOL", |row| field(row, "name")),
    ("ORIGIN", |row| field(row, "origin")),
    ("STATE", state),
    ("CLASS", |row| field(row, "class")),
    ("APPROVAL", |row| field(row, "tier")),
    ("MEDIATED", |row| field(row, "mediated")),
    ("GATES", gates),
    ("REASON", reason),
];

/// Ready, ready for some providers only, or not at all.
fn state(row: &Value) -> String {
    let unfit = row.get("quarantined_for").and_then(Value::as_object);
    match unfit {
        Some(unfit) if !unfit.is_empty() => "partly".to_owned(),
        Some(_) | None => field(row, "state"),
    }
}

fn gates(row: &Value) -> String {
    let gates = row.get("gates").and_then(Value::as_array).into_iter().flatten();
    gates.filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}

fn reason(row: &Value) -> String {
    let unfit = row.get("quarantined_for").and_then(Value::as_object).into_iter().flatten();
    let unfit: Vec<String> = unfit
        .map(|(family, why)| format!("{family}: {}", why.as_str().unwrap_or_default()))
        .collect();
    if unfit.is_empty() { field(row, "reason") } else { unfit.join("; ") }
}

pub(super) async fn tools(ctx: &mut Context<'_>, verb: Tools) -> Result<Exit, CliError> {
    match verb {
        Tools::Policy => policy::show(ctx).await,
        Tools::ConfigurePolicy { file } => policy::configure(ctx, &file).await,
        Tools::Invocations { run } => invocations::list(ctx, &run).await,
        Tools::Abandon { run, invocation, request_id } => {
            invocations::abandon(ctx, (&run, &invocation), &request_id).await
        }
        Tools::Ls => {
            let all = ctx.client()?.ask(Method::GET, Ask::at(&["v1", "tools"])).await?;
            print::list(ctx.out, ctx.global.output(), &all, &TOOLS)?;
            Ok(Exit::Ok)
        }
        Tools::Show { tool } => {
            let one = ctx.client()?.ask(Method::GET, Ask::at(&["v1", "tools", &tool])).await?;
            ctx.object(&one)?;
            Ok(Exit::Ok)
        }
        Tools::Test { tool, arguments } => {
            let arguments: Value = serde_json::from_str(&arguments).map_err(|error| {
                CliError::Usage(format!("--arguments: {error}: give a JSON object"))
            })?;
            let mut ask = Ask::at(&["v1", "tools", &tool, "test"]);
            ask.body = Some(json!({"arguments": arguments}));
            let answer = ctx.client()?.ask(Method::POST, ask).await?;
            ctx.object(&answer)?;
            let is_well = answer.get("ok") == Some(&Value::Bool(true));
            let is_unknown = field(&answer, "outcome") == "unknown";
            Ok(match (is_well, is_unknown) {
                (true, _) => Exit::Ok,
                (false, true) => Exit::NeedsReconciliation,
                (false, false) => Exit::Failure,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_some_providers_are_not_offered_says_which_and_why() {
        let row = json!({"state": "ready", "quarantined_for": {"gemini": "is deeper"}, "gates": ["a", "b"]});
        assert_eq!(
            (state(&row), reason(&row), gates(&row)),
            ("partly".into(), "gemini: is deeper".into(), "a,b".into())
        );
        let row = json!({"state": "quarantined", "reason": "not JSON"});
        assert_eq!(
            (state(&row), reason(&row), gates(&row)),
            ("quarantined".into(), "not JSON".into(), String::new())
        );
    }
}
