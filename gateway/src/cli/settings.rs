//! `piton config`: what is in force and who said so, or what is wrong with it.

use super::arguments::{Config, Output};
use super::context::Context;
use super::failure::CliError;
use super::print;
use crate::config::{Loaded, Shown};
use crate::error::Exit;
use serde_json::{Value, json};

pub(super) fn config(ctx: &mut Context<'_>, verb: &Config) -> Result<Exit, CliError> {
    let loaded = ctx.load()?;
    match verb {
        Config::Show(show) if show.origin => with_origin(ctx, &loaded)?,
        Config::Show(_) => without(ctx, &loaded)?,
        Config::Validate => {
            let file = loaded.file.as_ref().map(|path| path.display().to_string());
            let said = match &file {
                Some(file) => format!("{file} is valid"),
                None => {
                    "there is no configuration file; the defaults and the environment are valid"
                        .to_owned()
                }
            };
            match ctx.output() {
                Output::Table => writeln!(ctx.out, "{said}")?,
                Output::Json | Output::Jsonl => {
                    ctx.object(&json!({"valid": true, "file": file}))?;
                }
            }
        }
    }
    Ok(Exit::Ok)
}

fn with_origin(ctx: &mut Context<'_>, loaded: &Loaded) -> std::io::Result<()> {
    let row =
        |row: Shown| json!({"key": row.key, "value": row.value, "origin": row.origin.to_string()});
    let rows: Value = loaded.rows().into_iter().map(row).collect();
    let columns: [print::Column; 3] = [
        ("KEY", |row| print::field(row, "key")),
        ("VALUE", |row| print::field(row, "value")),
        ("ORIGIN", |row| print::field(row, "origin")),
    ];
    print::list(ctx.out, ctx.global.output(), &rows, &columns)
}

fn without(ctx: &mut Context<'_>, loaded: &Loaded) -> std::io::Result<()> {
    let rows = loaded.rows().into_iter().map(|row| (row.key, Value::from(row.value)));
    ctx.object(&Value::Object(rows.collect()))
}
