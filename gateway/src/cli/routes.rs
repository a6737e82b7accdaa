//! `piton routes`: who serves which role, and for one role which place said what.

use super::arguments::{Output, Routes};
use super::client::Ask;
use super::context::Context;
use super::failure::CliError;
use super::print::{self, Column, field};
use crate::error::Exit;
use reqwest::Method;
use serde_json::Value;

const ROUTES: [Column; 5] = [
    ("ROLE", |row| field(row, "role")),
    ("ROUTE", |row| field(row, "route")),
    ("SOURCE", |row| field(row, "source")),
    ("FALLBACKS", |row| listed(row, "fallbacks")),
    ("PROBLEM", |row| field(row, "problem")),
];
const PLACES: [Column; 2] =
    [("PLACE", |row| field(row, "source")), ("ROUTE", |row| field(row, "route"))];

fn listed(row: &Value, name: &str) -> String {
    let list = row.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
}

pub(super) async fn routes(ctx: &mut Context<'_>, verb: Routes) -> Result<Exit, CliError> {
    let client = ctx.client()?;
    let mut ask = Ask::at(&["v1", "harness", "routing"]);
    let (role, project) = match verb {
        Routes::Ls { project } => (None, project),
        Routes::Explain { role, project } => (Some(role), project),
    };
    ask.query.extend(project.map(|project| ("project_id", project)));
    let explains = role.is_some();
    ask.query.extend(role.map(|role| ("role", role)));
    let answer = client.ask(Method::GET, ask).await?;
    if ctx.output() != Output::Table {
        ctx.object(&answer)?;
        return Ok(Exit::Ok);
    }
    print::list(ctx.out, Output::Table, &answer, &ROUTES)?;
    if explains {
        let places = answer.pointer("/data/0/places").cloned().unwrap_or_default();
        writeln!(ctx.out)?;
        print::list(ctx.out, Output::Table, &places, &PLACES)?;
    } else {
        let (provider, model) =
            (field(&answer, "default_provider"), field(&answer, "default_model"));
        ctx.remark(&format!("every other role is served by {provider}:{model}"))?;
    }
    let problems = answer.get("problems").and_then(Value::as_array).cloned().unwrap_or_default();
    for problem in problems.iter().filter_map(Value::as_str) {
        ctx.remark(&format!("problem: {problem}"))?;
    }
    Ok(Exit::Ok)
}
