//! What can be typed after `piton`: verbs, flags, and help that says what each is for.
//!
//! Only shapes stand here; a verb does its work in the module that has its name.

mod approvals;
mod artifacts;
mod auth;
mod budget;
mod cluster;
mod gates;
mod grants;
mod harness;
mod prices;
mod run;
mod scripted;
mod serve;
mod tools;

pub use approvals::{Approvals, Approve, Deny, Edit, Inbox, Watch};
pub use artifacts::Artifacts;
pub use auth::{Auth, Import, Login, Profile, Secret};
pub use budget::{Budget, BudgetScope, BudgetSet, Per, Unpriced};
pub use cluster::{Cluster, ClusterInit, ClusterJoin, Drain, Fence, Nodes, UpgradeSchema};
pub use gates::{Gates, Waive};
pub use grants::{GrantAdd, Grants};
pub use harness::{Providers, ProvidersTest, Selection};
pub use prices::Prices;
pub use run::{Events, Export, Ls, OneRun, Replay, Run, Start, Tail, Wait};
pub use scripted::Scripted;
pub use serve::Serve;
pub use tools::Tools;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// A durable harness for language model agents: one node, one journal, one command line.
#[derive(Debug, Parser)]
#[command(
    name = "piton",
    version,
    propagate_version = false,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "Examples:\n  piton serve --demo                    start a node that needs no provider\n  \
                  piton chat --once \"What is a piton?\"  ask once\n  piton run start --wait \"Say hello\"    \
                  start a run and wait for its end\n  piton journal verify                  check every stored byte\n\n\
                  Exit codes: 0 ok, 1 failure, 2 usage, 3 configuration, 4 authentication, 5 not found, 6 conflict,\n\
                  7 denied, 8 budget, 9 providers exhausted, 10 needs reconciliation, 11 time-out, 12 integrity"
)]
pub struct Arguments {
    /// What goes with every verb.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What goes with every verb.
#[derive(Debug, Clone, Default, Args)]
pub struct Global {
    /// The node's address; else PITON_URL, else the node recorded in the data folder
    #[arg(long, global = true, value_name = "URL", help_heading = "Global options")]
    pub url: Option<String>,
    /// The folder of the journal and the keys [default: ~/.piton]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub data_dir: Option<PathBuf>,
    /// The configuration file; else PITON_CONFIG, ./piton.toml, DATA/piton.toml
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub config: Option<PathBuf>,
    /// How answers are printed [default: table]
    #[arg(long, global = true, value_name = "FORMAT", help_heading = "Global options")]
    pub output: Option<Output>,
    /// The same as --output json
    #[arg(long, global = true, conflicts_with = "output", help_heading = "Global options")]
    pub json: bool,
    /// No progress and no remarks on standard error
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// No colours; NO_COLOR says the same
    #[arg(long, global = true, help_heading = "Global options")]
    pub no_color: bool,
}

impl Global {
    /// How answers are printed.
    #[must_use]
    pub fn output(&self) -> Output {
        if self.json { Output::Json } else { self.output.unwrap_or(Output::Table) }
    }
}

/// How answers are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Columns, for people
    Table,
    /// One JSON document
    Json,
    /// One JSON document a line
    Jsonl,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Start a node and serve until it is stopped
    #[command(after_help = "Examples:\n  piton serve --demo\n  OPENAI_API_KEY=... piton serve\n  \
                            piton serve --data-dir /srv/piton --bind 127.0.0.1:8000")]
    Serve(Serve),
    /// Write a commented configuration into the data folder and say what was found
    #[command(after_help = "Examples:\n  piton init\n  piton init --data-dir ./piton-data")]
    Init(Init),
    /// Check configuration, keys, store, disk, clock and ports, and say how to mend each
    #[command(after_help = "Examples:\n  piton doctor\n  piton doctor --json")]
    Doctor,
    /// Talk to a model
    #[command(after_help = "Examples:\n  piton chat\n  piton chat --once \"Say hello\"\n  \
                            echo \"Say hello\" | piton chat --once -\n  piton chat --session ses_... --model openai:gpt-5.4-mini")]
    Chat(Chat),
    /// Start, watch, check and stop runs
    #[command(subcommand)]
    Run(Run),
    /// Check, copy and measure the journal
    #[command(subcommand)]
    Journal(Journal),
    /// Issue, list and revoke access keys
    #[command(subcommand)]
    Keys(Keys),
    /// List, drain and fence the nodes of a cluster
    #[command(subcommand)]
    Nodes(Nodes),
    /// Make what the three machines of a cluster need, set one of them up, change the cluster's key
    #[command(subcommand)]
    Cluster(Cluster),
    /// Show which model serves which role, and why
    #[command(subcommand)]
    Routes(Routes),
    /// List, look at and ask the providers and their models
    #[command(subcommand)]
    Providers(Providers),
    /// Which model serves every role without a route
    #[command(subcommand)]
    Selection(Selection),
    /// Provider credentials: several profiles for each provider
    #[command(subcommand)]
    Auth(Auth),
    /// List, compare and replace the table of prices
    #[command(subcommand)]
    Prices(Prices),
    /// Hard limits on what models may cost, by session, key, project or all
    #[command(subcommand)]
    Budget(Budget),
    /// Calls that wait for somebody to agree
    #[command(subcommand)]
    Approvals(Approvals),
    /// List, look at and call the tools of a node
    #[command(subcommand)]
    Tools(Tools),
    /// The preconditions of a project's tools: whether they are open, why not, and waivers
    #[command(subcommand)]
    Gates(Gates),
    /// The texts that runs and people write for a project
    #[command(subcommand)]
    Artifacts(Artifacts),
    /// Tokens and cost
    #[command(after_help = "Examples:\n  piton usage\n  piton usage --window-hours 168 --json")]
    Usage(Usage),
    /// Show or check the configuration
    #[command(subcommand)]
    Config(Config),
    /// Play a provider that follows a script, faults and all, for drills against one's own settings
    #[command(after_help = scripted::EXAMPLES)]
    Scripted(Scripted),
    /// Print a completion script for a shell
    #[command(
        after_help = "Examples:\n  piton completion bash > ~/.local/share/bash-completion/completions/piton\n  \
                            piton completion zsh > ~/.zfunc/_piton"
    )]
    Completion(Completion),
    /// Print the version
    Version,
}

/// Write a commented configuration.
#[derive(Debug, Args)]
pub struct Init {
    /// Write over a file that exists
    #[arg(long)]
    pub force: bool,
}

/// Talk to a model.
#[derive(Debug, Args)]
pub struct Chat {
    /// Line by line, for pipes and screen readers
    #[arg(long, conflicts_with = "once")]
    pub plain: bool,
    /// Ask this once and end; - reads it from standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub once: Option<String>,
    /// Go on in this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Who answers: PROVIDER:MODEL, PROVIDER/MODEL or MODEL
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
}

/// The journal.
#[derive(Debug, Subcommand)]
pub enum Journal {
    /// Check every stored byte: hashes, links, order; also beside a running node, or on a copy
    #[command(
        after_help = "Examples:\n  piton journal verify\n  piton journal verify /backups/monday.db --json"
    )]
    Verify(Verify),
    /// Have the running node copy its journal to a new file, and check the copy
    #[command(after_help = "Examples:\n  piton journal backup /backups/monday.db")]
    Backup(Backup),
    /// Put a copy back; needs a stopped node
    #[command(after_help = "Examples:\n  piton journal restore /backups/monday.db")]
    Restore(Restore),
    /// Count what the journal holds
    Stats,
}

/// Check a journal.
#[derive(Debug, Args)]
pub struct Verify {
    /// The journal's file; without it, that of the data folder
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Copy the journal.
#[derive(Debug, Args)]
pub struct Backup {
    /// The new file, as the node sees it
    #[arg(value_name = "FILE")]
    pub to: PathBuf,
}

/// Put a copy back.
#[derive(Debug, Args)]
pub struct Restore {
    /// The copy
    #[arg(value_name = "FILE")]
    pub from: PathBuf,
}

/// Keys.
#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Issue a key; it is printed once and only its hash is kept
    #[command(after_help = "Examples:\n  piton keys issue --role runner --name ci")]
    Issue(Issue),
    /// List the keys
    #[command(visible_alias = "list")]
    Ls,
    /// Revoke a key at once
    Revoke(Revoke),
}

/// Issue a key.
#[derive(Debug, Args)]
pub struct Issue {
    /// What the key may do
    #[arg(long, value_name = "ROLE", value_parser = ["reader", "runner", "approver", "operator", "admin"])]
    pub role: String,
    /// Who or what it is for
    #[arg(long, value_name = "NAME")]
    pub name: String,
}

/// Revoke a key.
#[derive(Debug, Args)]
pub struct Revoke {
    /// The key's id
    #[arg(value_name = "KEY")]
    pub id: String,
}

/// Routes of roles.
#[derive(Debug, Subcommand)]
pub enum Routes {
    /// List the roles that a route is configured for
    #[command(visible_alias = "list")]
    Ls {
        /// As it is for this project
        #[arg(long, value_name = "ID")]
        project: Option<String>,
    },
    /// Say for one role what each place says, the strongest first, and who wins
    #[command(
        after_help = "Examples:\n  piton routes explain planner\n  piton routes explain phase_brain:mechanical --project rocket"
    )]
    Explain {
        /// The role
        #[arg(value_name = "ROLE")]
        role: String,
        /// As it is for this project
        #[arg(long, value_name = "ID")]
        project: Option<String>,
    },
}

/// Tokens and cost.
#[derive(Debug, Args)]
pub struct Usage {
    /// Of the last so many hours
    #[arg(long, value_name = "N", default_value_t = 24)]
    pub window_hours: u32,
}

/// The configuration.
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Print what is in force
    #[command(after_help = "Examples:\n  piton config show --origin")]
    Show(Show),
    /// Check the configuration and say what is wrong, with line and nearest name
    Validate,
}

/// Print the configuration.
#[derive(Debug, Args)]
pub struct Show {
    /// Say for each value who set it: flag, environment, file or default
    #[arg(long)]
    pub origin: bool,
}

/// Print a completion script.
#[derive(Debug, Args)]
pub struct Completion {
    /// Which shell
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}
