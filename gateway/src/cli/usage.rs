//! `piton usage`: tokens and cost of a trailing window. What is unknown is said to be, and a sum over it is a bound.

use super::arguments::{Output, Usage};
use super::client::Ask;
use super::context::Context;
use super::failure::CliError;
use super::print::{self, Column, field};
use crate::error::Exit;
use reqwest::Method;
use serde_json::Value;

const MODELS: [Column; 6] = [
    ("MODEL", |row| field(row, "name")),
    ("CALLS", |row| field(row, "calls")),
    ("INPUT", |row| tokens(row, "prompt_tokens")),
    ("OUTPUT", |row| tokens(row, "completion_tokens")),
    ("CACHED", |row| tokens(row, "cached_input_tokens")),
    ("USD", usd),
];

/// The cost; `>=` before it where some of the calls have none that is known, and nothing where none has.
fn usd(row: &Value) -> String {
    let cost = field(row, "cost_usd");
    if !cost.is_empty() && field(row, "lower_bound") == "true" { format!(">={cost}") } else { cost }
}

/// A count of tokens; `>=` before it where not all calls reported theirs, or were cut before they did.
fn tokens(row: &Value, name: &str) -> String {
    let (count, unknown) = (field(row, name), field(row, "calls_without_usage"));
    if unknown.is_empty() || unknown == "0" { count } else { format!(">={count}") }
}

pub(super) async fn usage(ctx: &mut Context<'_>, usage: &Usage) -> Result<Exit, CliError> {
    let client = ctx.client()?;
    let mut ask = Ask::at(&["v1", "usage"]);
    ask.query = vec![("window_hours", usage.window_hours.to_string())];
    let mut summary = client.ask(Method::GET, ask).await?;
    if ctx.output() != Output::Table {
        ctx.object(&summary)?;
        return Ok(Exit::Ok);
    }
    let of = |name: &str| summary.get(name).cloned().unwrap_or_default();
    print::list(ctx.out, Output::Table, &of("by_model"), &MODELS)?;
    writeln!(ctx.out)?;
    if let Some(map) = summary.as_object_mut() {
        map.retain(|_, value| !value.is_array());
    }
    ctx.object(&summary)?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_sum_over_unknowns_is_marked_and_an_unknown_is_not_zero() {
        assert_eq!(usd(&json!({"cost_usd": 0.5, "lower_bound": true})), ">=0.5");
        assert_eq!(usd(&json!({"cost_usd": 0.5, "lower_bound": false})), "0.5");
        assert_eq!(usd(&json!({"cost_usd": null, "lower_bound": true})), "");
        let row = |without: u64| json!({"prompt_tokens": 7, "calls_without_usage": without});
        assert_eq!(tokens(&row(1), "prompt_tokens"), ">=7");
        assert_eq!(tokens(&row(0), "prompt_tokens"), "7");
    }
}
