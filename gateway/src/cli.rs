//! The command line: what was typed becomes a verb, a verb becomes an exit code.
//!
//! Every verb but `serve` is a client of the node or a reader of files. Data goes to standard output, everything else to
//! standard error, so that a pipe never carries a remark.

mod about;
mod approvals;
pub mod arguments;
mod artifacts;
mod auth;
mod budget;
mod chat;
mod client;
mod cluster;
mod context;
mod detect;
mod doctor;
mod failure;
mod follow;
mod gates;
mod grants;
mod init;
mod journal;
mod keys;
mod nodes;
mod own;
mod prices;
mod print;
mod progress;
mod providers;
mod routes;
mod run;
mod scripted;
mod selection;
mod serve;
mod settings;
mod sse;
mod tools;
mod usage;

pub use context::Context;
pub use failure::CliError;
pub use progress::{Progress, Watched};

use crate::config::Environment;
use crate::error::{Exit, chain};
use arguments::{Arguments, Output, Verb};
use clap::Parser;
use serde_json::json;
use std::future::Future;
use std::io::{self, ErrorKind, IsTerminal};
use std::process::ExitCode;

/// The whole program.
#[must_use]
pub fn main() -> ExitCode {
    let environment = Environment::read();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(told) => {
            // Help goes to standard output and is no fault. That it could not be printed changes nothing about that.
            let _unseen = told.print();
            let exit = if told.use_stderr() { Exit::Usage } else { Exit::Ok };
            return exit.into();
        }
    };
    let (mut out, mut err) = (io::stdout().lock(), io::stderr());
    let (out_is_terminal, err_is_terminal) = (out.is_terminal(), err.is_terminal());
    let Arguments { global, verb } = arguments;
    let mut ctx = Context {
        out: &mut out,
        err: &mut err,
        out_is_terminal,
        err_is_terminal,
        global,
        environment,
    };
    run(&mut ctx, verb).into()
}

/// Does what a verb says. An error is said on standard error and becomes the exit code.
pub fn run(ctx: &mut Context<'_>, verb: Verb) -> Exit {
    let done = dispatch(ctx, verb).and_then(|exit| {
        ctx.out.flush()?;
        Ok(exit)
    });
    match done {
        Ok(exit) => exit,
        // Whoever read our output has enough, as `head` does.
        Err(CliError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Exit::Ok,
        Err(error) => {
            // There is nobody left to tell when this fails.
            let _unseen = tell(ctx, &error);
            error.exit()
        }
    }
}

fn tell(ctx: &mut Context<'_>, error: &CliError) -> io::Result<()> {
    let (said, runbook) = (chain(error), error.runbook());
    match ctx.global.output() {
        Output::Table => {
            writeln!(ctx.err, "error: {}", print::escape_text(&said))?;
            runbook.map_or(Ok(()), |page| writeln!(ctx.err, "see {page}"))
        }
        Output::Json | Output::Jsonl => {
            let error = json!({"message": said, "exit": error.exit().number(), "runbook": runbook});
            print::line(ctx.err, &json!({"error": error}))
        }
    }
}

fn dispatch(ctx: &mut Context<'_>, verb: Verb) -> Result<Exit, CliError> {
    match verb {
        Verb::Serve(serve) => serve::serve(ctx, serve),
        Verb::Init(init) => wait(init::init(ctx, &init)),
        Verb::Doctor => wait(doctor::doctor(ctx)),
        Verb::Chat(chat) => beside_a_node(chat::chat(ctx, chat)),
        Verb::Run(verb) => beside_a_node(run::run(ctx, verb)),
        Verb::Journal(verb) => wait(journal::journal(ctx, verb)),
        Verb::Keys(verb) => wait(keys::keys(ctx, verb)),
        Verb::Nodes(verb) => wait(nodes::nodes(ctx, verb)),
        Verb::Cluster(verb) => cluster::cluster(ctx, verb),
        Verb::Routes(verb) => wait(routes::routes(ctx, verb)),
        Verb::Providers(verb) => wait(providers::providers(ctx, verb)),
        Verb::Selection(verb) => wait(selection::selection(ctx, verb)),
        Verb::Auth(verb) => wait(auth::auth(ctx, verb)),
        Verb::Prices(verb) => prices::prices(ctx, &verb),
        Verb::Artifacts(verb) => wait(artifacts::artifacts(ctx, verb)),
        Verb::Budget(verb) => wait(budget::budget(ctx, verb)),
        Verb::Approvals(verb) => wait(approvals::approvals(ctx, verb)),
        Verb::Tools(verb) => wait(tools::tools(ctx, verb)),
        Verb::Gates(verb) => wait(gates::gates(ctx, verb)),
        Verb::Usage(usage) => wait(usage::usage(ctx, &usage)),
        Verb::Config(verb) => settings::config(ctx, &verb),
        Verb::Scripted(typed) => beside_a_node(scripted::scripted(ctx, typed)),
        Verb::Completion(completion) => about::completion(ctx, &completion),
        Verb::Version => about::version(ctx),
    }
}

/// Runs a client's verb on this thread alone: it waits for one answer at a time.
fn wait(verb: impl Future<Output = Result<Exit, CliError>>) -> Result<Exit, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::Node(format!("no runtime: {error}")))?;
    runtime.block_on(verb)
}

/// Runs a verb that may have to be a node itself: that one goes on while the verb waits for a person.
fn beside_a_node(verb: impl Future<Output = Result<Exit, CliError>>) -> Result<Exit, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::Node(format!("no runtime: {error}")))?;
    runtime.block_on(verb)
}

#[cfg(test)]
mod tests;
