//! `piton selection`: the model that serves every role without a route.

use super::arguments::{Output, Selection};
use super::client::Ask;
use super::context::Context;
use super::failure::CliError;
use super::print::field;
use crate::error::Exit;
use reqwest::Method;
use serde_json::json;

pub(super) async fn selection(ctx: &mut Context<'_>, verb: Selection) -> Result<Exit, CliError> {
    let client = ctx.client()?;
    let mut ask = Ask::at(&["v1", "harness", "selection"]);
    let method = match verb {
        Selection::Show => Method::GET,
        Selection::Clear => Method::DELETE,
        Selection::Set { model } => {
            let Some((provider, model)) = model.split_once(':') else {
                let why = format!("{model:?} names no provider: write PROVIDER:MODEL");
                return Err(CliError::Usage(why));
            };
            ask.body = Some(json!({"provider": provider, "model": model}));
            Method::PUT
        }
    };
    let answer = client.ask(method, ask).await?;
    ctx.object(&answer)?;
    if ctx.output() == Output::Table {
        let problem = field(&answer, "problem");
        if !problem.is_empty() {
            ctx.remark(&format!("problem: {problem}"))?;
        }
    }
    Ok(Exit::Ok)
}
