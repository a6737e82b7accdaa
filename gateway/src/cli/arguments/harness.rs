//! What can be typed after `piton providers` and `piton selection`.

use clap::{Args, Subcommand};

/// Providers.
#[derive(Debug, Subcommand)]
pub enum Providers {
    /// List the providers: what they can do, how many of their profiles are well, and which one is the default
    #[command(visible_alias = "list")]
    Ls,
    /// Ask a provider for its models with each of its profiles: whether address and key are right, at no cost
    #[command(
        after_help = "Examples:\n  piton providers test openai\n  piton providers test openai --profile work\n  \
                      piton providers test openai --call gpt-6-luna   # one real call of a few tokens, in the journal"
    )]
    Test(ProvidersTest),
    /// List the models that are known by name: context window, output cap, prices and their day
    Models {
        /// Of this provider
        #[arg(value_name = "PROVIDER")]
        provider: Option<String>,
    },
    /// Show how each profile and each of its models fares, why, and when it is tried next
    Health,
}

/// Look whether a provider answers.
#[derive(Debug, Args)]
pub struct ProvidersTest {
    /// Which provider
    #[arg(value_name = "PROVIDER")]
    pub provider: String,
    /// With this profile only
    #[arg(long, value_name = "NAME", conflicts_with = "call")]
    pub profile: Option<String>,
    /// Make one real call to this model instead: a run of a few tokens, with its intent and its cost in the journal
    #[arg(long, value_name = "MODEL")]
    pub call: Option<String>,
}

/// The durable selection.
#[derive(Debug, Subcommand)]
pub enum Selection {
    /// Show what is selected, and what serves a role without a route
    Show,
    /// Let a model serve every role without a route, on every node
    #[command(after_help = "Examples:\n  piton selection set anthropic:claude-sonnet-5-5")]
    Set {
        /// PROVIDER:MODEL
        #[arg(value_name = "MODEL")]
        model: String,
    },
    /// Select none: whatever has no route runs on what the node found
    Clear,
}
