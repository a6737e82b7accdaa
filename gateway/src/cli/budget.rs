//! `piton budget`: hard limits on what models may cost.

use super::arguments::{Budget, BudgetScope, BudgetSet, Per, Unpriced};
use super::client::{Ask, Client};
use super::context::Context;
use super::failure::CliError;
use super::print::{self, Column, field};
use crate::error::{Code, Exit};
use reqwest::Method;
use serde_json::{Map, Value, json};

const BUDGETS: [Column; 8] = [
    ("SCOPE", |row| field(row, "scope")),
    ("USD", |row| within(row, "limit", "usd")),
    ("SPENT", |row| within(row, "spent", "usd")),
    ("RESERVED", |row| within(row, "reserved", "usd")),
    ("CALLS", |row| within(row, "limit", "calls")),
    ("MADE", |row| within(row, "spent", "calls")),
    ("PER", |row| within(row, "limit", "per")),
    ("RENEWS", |row| field(row, "renews_at")),
];

fn within(row: &Value, part: &str, name: &str) -> String {
    row.get(part).map(|part| field(part, name)).unwrap_or_default()
}

pub(super) async fn budget(ctx: &mut Context<'_>, verb: Budget) -> Result<Exit, CliError> {
    let client = ctx.client()?;
    match verb {
        Budget::Set(set) => changed(ctx, &client, set).await,
        Budget::Ls => {
            let all = client.ask(Method::GET, Ask::at(&["v1", "budgets"])).await?;
            print::list(ctx.out, ctx.global.output(), &all, &BUDGETS)?;
            Ok(Exit::Ok)
        }
        Budget::Show(BudgetScope { scope }) => {
            let one = client.ask(Method::GET, Ask::at(&["v1", "budgets", &scope])).await?;
            ctx.object(&one)?;
            Ok(Exit::Ok)
        }
        Budget::Rm(BudgetScope { scope }) => {
            client.ask(Method::DELETE, Ask::at(&["v1", "budgets", &scope])).await?;
            ctx.remark(&format!("removed the budget {scope}: nothing limits it any more"))?;
            Ok(Exit::Ok)
        }
    }
}

/// What was not given stays as it is.
async fn changed(ctx: &mut Context<'_>, client: &Client, set: BudgetSet) -> Result<Exit, CliError> {
    let path = ["v1", "budgets", &set.scope];
    let mut terms = match client.ask(Method::GET, Ask::at(&path)).await {
        Ok(one) => one.get("limit").and_then(Value::as_object).cloned().unwrap_or_default(),
        Err(CliError::Api { code: Some(Code::NotFound), .. }) => Map::new(),
        Err(error) => return Err(error),
    };
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            terms.insert(name.to_owned(), value);
        }
    };
    put("usd", set.usd.map(Value::from));
    put("calls", set.calls.map(Value::from));
    put("warn_at", set.warn_at.map(Value::from));
    put(
        "per",
        set.per.map(|per| match per {
            Per::Hour => json!("hour"),
            Per::Day => json!("day"),
            Per::Never => Value::Null,
        }),
    );
    put(
        "unpriced",
        set.unpriced.map(|policy| match policy {
            Unpriced::Refuse => json!("refuse"),
            Unpriced::Allow => json!("allow"),
        }),
    );
    let mut ask = Ask::at(&path);
    ask.body = Some(Value::Object(terms));
    let one = client.ask(Method::PUT, ask).await?;
    ctx.object(&one)?;
    Ok(Exit::Ok)
}
