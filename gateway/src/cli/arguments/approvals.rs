//! What can be typed after `piton approvals`.

use super::Grants;
use clap::{Args, Subcommand};

/// Calls that wait for somebody to agree.
#[derive(Debug, Subcommand)]
pub enum Approvals {
    /// Show one, with the arguments of its call
    Show {
        /// RUN.N, as the list and the run show it
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Agree: the call runs
    #[command(
        after_help = "Examples:\n  piton approvals approve run_....0\n  piton approvals approve run_....0 --reach run"
    )]
    Approve(Approve),
    /// Refuse: the call is not run, and the model is told why
    Deny(Deny),
    /// Standing grants: calls that need not be asked for again
    #[command(subcommand)]
    Grants(Grants),
    /// Agree with other arguments, which are checked again
    #[command(
        after_help = "Examples:\n  piton approvals edit run_....0 --arguments '{\"text\":\"shorter\"}'"
    )]
    Edit(Edit),
}

/// Agree.
#[derive(Debug, Args)]
pub struct Approve {
    /// RUN.N
    #[arg(value_name = "ID")]
    pub id: String,
    /// How far it reaches: this call, or the same call for the rest of the run
    #[arg(long, value_name = "REACH", value_parser = ["call", "run"], default_value = "call")]
    pub reach: String,
    /// What you saw: refused when the call is another one by now
    #[arg(long, value_name = "HASH")]
    pub subject: Option<String>,
}

/// Refuse.
#[derive(Debug, Args)]
pub struct Deny {
    /// RUN.N
    #[arg(value_name = "ID")]
    pub id: String,
    /// Why; the model is told
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

/// Agree with other arguments.
#[derive(Debug, Args)]
pub struct Edit {
    /// RUN.N
    #[arg(value_name = "ID")]
    pub id: String,
    /// The arguments to run it with: a JSON object
    #[arg(long, value_name = "JSON")]
    pub arguments: String,
}
