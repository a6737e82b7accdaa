//! `piton version` and `piton completion`: what this program is, and how a shell completes its verbs.

use super::arguments::{Arguments, Completion, Output};
use super::context::Context;
use super::failure::CliError;
use crate::error::Exit;
use clap::CommandFactory;
use events::run::spec::LOGIC;
use serde_json::json;

pub(super) fn version(ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let version = env!("CARGO_PKG_VERSION");
    match ctx.output() {
        Output::Table => writeln!(ctx.out, "piton {version}")?,
        Output::Json | Output::Jsonl => {
            ctx.object(&json!({"name": "piton", "version": version, "logic": LOGIC}))?;
        }
    }
    Ok(Exit::Ok)
}

pub(super) fn completion(ctx: &mut Context<'_>, completion: &Completion) -> Result<Exit, CliError> {
    // The generator panics when its writer fails, as a closed pipe does; memory does not.
    let mut script = Vec::new();
    clap_complete::generate(completion.shell, &mut Arguments::command(), "piton", &mut script);
    ctx.out.write_all(&script)?;
    Ok(Exit::Ok)
}
