//! `piton usage`: tokens and cost of a trailing window. What is unknown is said to be, and a sum over it is a bound.

use super::arguments::Usage;
use super::client::Ask;
use super::context::Context;
use super::failure::CliError;
use crate::error::Exit;
use reqwest::Method;

pub(super) async fn usage(ctx: &mut Context<'_>, usage: &Usage) -> Result<Exit, CliError> {
    let client = ctx.client()?;
    let mut ask = Ask::at(&["v1", "usage"]);
    ask.query = vec![("window_hours", usage.window_hours.to_string())];
    let summary = client.ask(Method::GET, ask).await?;
    ctx.object(&summary)?;
    Ok(Exit::Ok)
}
