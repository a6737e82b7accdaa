//! `piton gates`: whether the preconditions of a project's tools hold.

use super::arguments::{Gates, Waive};
use super::client::Ask;
use super::context::Context;
use super::failure::CliError;
use super::print::{self, Column, field};
use crate::error::Exit;
use reqwest::Method;
use serde_json::json;

const GATES: [Column; 7] = [
    ("GATE", |row| field(row, "name")),
    ("PROJECT", |row| field(row, "project")),
    ("STATE", |row| field(row, "state")),
    ("EVALUATOR", |row| field(row, "evaluator")),
    ("HARDNESS", |row| field(row, "hardness")),
    ("VERSION", |row| field(row, "version")),
    ("WHY", |row| field(row, "why")),
];

pub(super) async fn gates(ctx: &mut Context<'_>, verb: Gates) -> Result<Exit, CliError> {
    let client = ctx.client()?;
    let one = match verb {
        Gates::Ls { project } => {
            let mut ask = Ask::at(&["v1", "gates"]);
            ask.query.extend(project.map(|project| ("project", project)));
            let all = client.ask(Method::GET, ask).await?;
            print::list(ctx.out, ctx.global.output(), &all, &GATES)?;
            return Ok(Exit::Ok);
        }
        Gates::Show(gate) => {
            client.ask(Method::GET, Ask::at(&["v1", "gates", &gate.project, &gate.name])).await?
        }
        Gates::Evidence(given) => {
            let path = ["v1", "gates", &given.gate.project, &given.gate.name, "evidence"];
            let mut ask = Ask::at(&path);
            let verdict = if given.passed { "passed" } else { "failed" };
            let (text, reference) = (given.text, given.reference);
            ask.body = Some(json!({"verdict": verdict, "text": text, "reference": reference}));
            client.ask(Method::POST, ask).await?
        }
        Gates::Waive(Waive { name, run, reason }) => {
            let mut ask = Ask::at(&["v1", "runs", &run, "gates", &name, "waive"]);
            ask.body = Some(json!({"reason": reason}));
            client.ask(Method::POST, ask).await?
        }
    };
    ctx.object(&one)?;
    Ok(Exit::Ok)
}
