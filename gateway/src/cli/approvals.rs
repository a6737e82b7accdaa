//! `piton approvals`: calls that wait for somebody to agree.

use super::arguments::{Approvals, Approve, Deny, Edit};
use super::client::Ask;
use super::context::Context;
use super::failure::CliError;
use crate::error::Exit;
use reqwest::Method;
use serde_json::{Value, json};

pub(super) async fn approvals(ctx: &mut Context<'_>, verb: Approvals) -> Result<Exit, CliError> {
    match verb {
        Approvals::Grants(verb) => super::grants::grants(ctx, verb).await,
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
