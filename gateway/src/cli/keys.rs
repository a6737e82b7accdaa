//! `piton keys`: issue, list and revoke. A key is printed once, alone on standard output, so that a script can take it.

use super::arguments::{Issue, Keys, Output, Revoke};
use super::client::{Ask, Client};
use super::context::Context;
use super::failure::CliError;
use super::print::{self, Column, field};
use crate::error::Exit;
use reqwest::Method;
use serde_json::json;

const KEYS: [Column; 4] = [
    ("KEY", |key| field(key, "id")),
    ("ROLE", |key| field(key, "role")),
    ("NAME", |key| field(key, "name")),
    ("REVOKED", |key| field(key, "revoked")),
];

pub(super) async fn keys(ctx: &mut Context<'_>, verb: Keys) -> Result<Exit, CliError> {
    let client = ctx.client()?;
    match verb {
        Keys::Issue(issue) => issued(ctx, &client, issue).await,
        Keys::Ls => {
            let page = client.ask(Method::GET, Ask::at(&["v1", "keys"])).await?;
            print::list(ctx.out, ctx.global.output(), &page, &KEYS)?;
            Ok(Exit::Ok)
        }
        Keys::Revoke(Revoke { id }) => {
            client.ask(Method::DELETE, Ask::at(&["v1", "keys", &id])).await?;
            ctx.remark(&format!("revoked {id}"))?;
            Ok(Exit::Ok)
        }
    }
}

async fn issued(ctx: &mut Context<'_>, client: &Client, issue: Issue) -> Result<Exit, CliError> {
    let Issue { role, name } = issue;
    let mut ask = Ask::at(&["v1", "keys"]);
    ask.body = Some(json!({"role": role, "name": name}));
    let key = client.ask(Method::POST, ask).await?;
    match ctx.output() {
        Output::Table => {
            writeln!(ctx.out, "{}", field(&key, "key"))?;
            ctx.remark(&format!(
                "issued {} ({role}, {name}); it is not shown again",
                field(&key, "id")
            ))?;
        }
        Output::Json | Output::Jsonl => ctx.object(&key)?,
    }
    Ok(Exit::Ok)
}
