//! `piton prices`: the table that costs are worked out by, what another one would change, and taking another one.
//!
//! Nothing is fetched: a table is a file that somebody has looked at. A node reads its table when it starts, and a run
//! keeps the prices of the moment in which it was queued.

use super::arguments::{Output, Prices};
use super::context::Context;
use super::failure::CliError;
use super::print::{self, Column, field};
use crate::auth::private;
use crate::boot::prices::{self, FILE};
use crate::error::Exit;
use crate::wire::provider::facts as row;
use providers::pricing::{self, Facts};
use serde_json::{Value, json};
use std::path::Path;

const ROWS: [Column; 7] = [
    ("MODEL", |row| field(row, "name")),
    ("INPUT", |row| field(row, "input_usd_per_million")),
    ("OUTPUT", |row| field(row, "output_usd_per_million")),
    ("CACHED", |row| field(row, "cached_input_usd_per_million")),
    ("WRITE", |row| field(row, "cache_write_usd_per_million")),
    ("LONG ABOVE", |row| field(row, "long_above_tokens")),
    ("LONG INPUT", |row| field(row, "long_input_usd_per_million")),
];
const CHANGES: [Column; 5] = [
    ("MODEL", |row| field(row, "name")),
    ("INPUT", |row| field(row, "before.input_usd_per_million")),
    ("NEW INPUT", |row| field(row, "after.input_usd_per_million")),
    ("OUTPUT", |row| field(row, "before.output_usd_per_million")),
    ("NEW OUTPUT", |row| field(row, "after.output_usd_per_million")),
];

pub(super) fn prices(ctx: &mut Context<'_>, verb: &Prices) -> Result<Exit, CliError> {
    let data = ctx.load()?.config.data_dir;
    let current = prices::read(&data).map_err(|error| CliError::Usage(error.to_string()))?;
    match verb {
        Prices::Ls => ls(ctx, &current),
        Prices::Diff { file } => {
            let newer = from_file(file)?;
            let changed = diff(ctx, &current, &newer)?;
            ctx.remark(&format!("{changed} models differ"))?;
            Ok(Exit::Ok)
        }
        Prices::Update { file } => {
            // What is checked is what is written.
            let text = prices::text_of(file).map_err(|error| CliError::Usage(error.to_string()))?;
            let newer = pricing::Prices::read(&text).map_err(|error| unreadable(file, &error))?;
            let changed = newer.changes(&current).len();
            private::folder(&data)?;
            private::write(&data.join(FILE), &text)?;
            ctx.remark(&format!(
                "{changed} models differ; {} is in force from the next start of the node, for runs that are queued from then on",
                data.join(FILE).display()
            ))?;
            Ok(Exit::Ok)
        }
    }
}

fn unreadable(file: &Path, why: &dyn std::fmt::Display) -> CliError {
    CliError::Usage(format!("{}: {why}", file.display()))
}

fn from_file(file: &Path) -> Result<pricing::Prices, CliError> {
    prices::of_file(file).map_err(|error| CliError::Usage(error.to_string()))
}

fn ls(ctx: &mut Context<'_>, prices: &pricing::Prices) -> Result<Exit, CliError> {
    let named = |(provider, model, facts): (&str, &str, &Facts)| {
        let mut row = row(facts);
        if let Some(map) = row.as_object_mut() {
            map.insert("name".to_owned(), Value::from(format!("{provider}:{model}")));
        }
        row
    };
    let rows: Value = prices.models().map(named).collect();
    let (day, source) = prices.source();
    if ctx.output() == Output::Json {
        ctx.object(&json!({"object": "list", "retrieved": day, "source": source, "data": rows}))?;
        return Ok(Exit::Ok);
    }
    print::list(ctx.out, ctx.global.output(), &rows, &ROWS)?;
    ctx.remark(&format!("as of {day}: {source}"))?;
    Ok(Exit::Ok)
}

fn diff(
    ctx: &mut Context<'_>,
    old: &pricing::Prices,
    new: &pricing::Prices,
) -> Result<usize, CliError> {
    let changes = new.changes(old);
    let told = changes.iter().map(|change| {
        json!({
            "name": format!("{}:{}", change.provider, change.model),
            "before": change.before.map(row), "after": change.after.map(row),
        })
    });
    let rows: Value = told.collect();
    print::list(ctx.out, ctx.global.output(), &rows, &CHANGES)?;
    Ok(changes.len())
}
