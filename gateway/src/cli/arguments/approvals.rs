//! What can be typed after `piton approvals`.

use super::Grants;
use clap::{Args, Subcommand};

/// Calls that wait for somebody to agree.
#[derive(Debug, Subcommand)]
pub enum Approvals {
    /// List the holds of every run, the newest first
    #[command(
        visible_alias = "list",
        after_help = "Examples:\n  piton approvals ls\n  piton approvals ls --status denied --project rocket"
    )]
    Ls(Inbox),
    /// Print each call that begins to wait, until Ctrl-C
    #[command(after_help = "Examples:\n  piton approvals watch --bell")]
    Watch(Watch),
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

/// List holds.
#[derive(Debug, Args)]
pub struct Inbox {
    /// Only those that stand so, or all
    #[arg(long, value_name = "STATUS", default_value = "waiting", value_parser = [
        "waiting", "approved", "denied", "expired", "voided", "orphaned", "all",
    ])]
    pub status: String,
    /// Only those of this project
    #[arg(long, value_name = "ID")]
    pub project: Option<String>,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub limit: u16,
    /// Go on after this page: the `next` of the answer before
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
}

/// Follow the inbox.
#[derive(Debug, Args)]
pub struct Watch {
    /// Ring the terminal's bell for each
    #[arg(long)]
    pub bell: bool,
    /// Only those of this project
    #[arg(long, value_name = "ID")]
    pub project: Option<String>,
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
