//! What can be typed after `piton run`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Runs.
#[derive(Debug, Subcommand)]
pub enum Run {
    /// Start a run
    #[command(after_help = "Examples:\n  piton run start --wait \"Say hello\"\n  \
                            piton run start --session ses_... --model openai:gpt-5.4-mini - < task.txt")]
    Start(Start),
    /// List runs, the newest first
    #[command(
        after_help = "Examples:\n  piton run ls --state running\n  piton run ls --output jsonl | jq .id"
    )]
    #[command(visible_alias = "list")]
    Ls(Ls),
    /// Show one run
    Show(OneRun),
    /// Wait until a run has ended; the exit code says how
    Wait(Wait),
    /// Follow a run as it goes on
    #[command(
        after_help = "Examples:\n  piton run tail run_...\n  piton run tail run_... --from 12 --output jsonl"
    )]
    Tail(Tail),
    /// Print the events of a run that are stored so far
    Events(Events),
    /// Take a run's decisions again from its journal and compare them
    #[command(after_help = "Examples:\n  piton run replay run_... --check")]
    Replay(Replay),
    /// Write a run's journal as JSON lines
    Export(Export),
    /// Stop a run
    Stop(OneRun),
    /// Let a halted run go on: after a pause, or once no outcome is unknown
    Resume(OneRun),
}

/// Start a run.
#[derive(Debug, Args)]
pub struct Start {
    /// What to do; - reads it from standard input
    #[arg(value_name = "INPUT", allow_hyphen_values = true)]
    pub input: String,
    /// The session that the run belongs to; a new one without it
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Who answers: PROVIDER:MODEL, PROVIDER/MODEL or MODEL
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Instructions that stand before the session's messages
    #[arg(long, value_name = "TEXT")]
    pub instructions: Option<String>,
    /// What to do when the session is busy
    #[arg(long, value_name = "POLICY", value_parser = ["queue", "reject"])]
    pub on_busy: Option<String>,
    /// Names this piece of work, so that a repeat starts nothing twice; drawn at random without it
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// Wait until the run has ended; the exit code says how
    #[arg(long)]
    pub wait: bool,
}

/// List runs.
#[derive(Debug, Args)]
pub struct Ls {
    /// Only runs in this state
    #[arg(long, value_name = "STATE", value_parser = [
        "queued", "running", "waiting_for_client_tools", "waiting_for_approval", "paused",
        "needs_reconciliation", "completed", "failed", "cancelled",
    ])]
    pub state: Option<String>,
    /// Only runs of this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub limit: u16,
    /// Go on after this page: the `next` of the answer before
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
}

/// One run.
#[derive(Debug, Args)]
pub struct OneRun {
    /// The run's id
    #[arg(value_name = "RUN")]
    pub run: String,
}

/// Wait for a run.
#[derive(Debug, Args)]
pub struct Wait {
    /// The run's id
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Give up after so many seconds, with exit code 11; the run goes on
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
}

/// Follow a run.
#[derive(Debug, Args)]
pub struct Tail {
    /// The run's id
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Begin after this version instead of at the start
    #[arg(long, value_name = "VERSION")]
    pub from: Option<String>,
}

/// Print a run's events.
#[derive(Debug, Args)]
pub struct Events {
    /// The run's id
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Begin after this version instead of at the start
    #[arg(long, value_name = "VERSION", default_value_t = 0)]
    pub from: u64,
}

/// Replay a run.
#[derive(Debug, Args)]
pub struct Replay {
    /// The run's id
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Compare every decision and every request's hash
    #[arg(long, required = true)]
    pub check: bool,
    /// Accept a run that was started under other rules, when its structure still fits
    #[arg(long)]
    pub allow_logic: bool,
}

/// Export a run.
#[derive(Debug, Args)]
pub struct Export {
    /// The run's id
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
}
