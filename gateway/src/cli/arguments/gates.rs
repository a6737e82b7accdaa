//! What can be typed after `piton gates`.

use clap::{Args, Subcommand};

/// Gates.
#[derive(Debug, Subcommand)]
pub enum Gates {
    /// List the gates of a project, or those of all that have a history
    #[command(visible_alias = "list")]
    Ls {
        /// Only of this project
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
    },
    /// Show one gate: how it works, whether it is open and why not, its evidence and waivers
    Show(Gate),
    /// Give evidence that a gate may be passed, or may not
    #[command(
        after_help = "Example:\n  piton gates evidence tests_pass --passed --text '412 passed' --reference build-7"
    )]
    Evidence(GateEvidence),
    /// Let one run through a soft gate, with a reason
    #[command(
        after_help = "Example:\n  piton gates waive tests_pass --run run_... --reason 'known flake, see issue 7'"
    )]
    Waive(Waive),
}

/// One gate.
#[derive(Debug, Args)]
pub struct Gate {
    /// The gate's name
    #[arg(value_name = "GATE")]
    pub name: String,
    /// Its project
    #[arg(long, value_name = "PROJECT", default_value = "default")]
    pub project: String,
}

/// Evidence.
#[derive(Debug, Args)]
pub struct GateEvidence {
    /// Which gate.
    #[command(flatten)]
    pub gate: Gate,
    /// It may be passed
    #[arg(long, required_unless_present = "failed", conflicts_with = "failed")]
    pub passed: bool,
    /// It may not
    #[arg(long)]
    pub failed: bool,
    /// What was found, in words
    #[arg(long, value_name = "TEXT")]
    pub text: String,
    /// Where the whole of it is: an address, a commit, the number of a build
    #[arg(long, value_name = "TEXT")]
    pub reference: Option<String>,
}

/// A waiver.
#[derive(Debug, Args)]
pub struct Waive {
    /// The gate's name
    #[arg(value_name = "GATE")]
    pub name: String,
    /// The run that is let through
    #[arg(long, value_name = "RUN")]
    pub run: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
}
