//! What can be typed after `piton budget`.

use clap::{Args, Subcommand, ValueEnum};

/// Budgets.
#[derive(Debug, Subcommand)]
pub enum Budget {
    /// Set or change a budget; what is not given stays as it is
    #[command(
        after_help = "Examples:\n  piton budget set all --usd 50 --per day --warn-at 50,80\n  \
                      piton budget set project~lab --usd 5\n  piton budget set key~key_... --calls 1000 --per hour"
    )]
    Set(BudgetSet),
    /// List the budgets: what each allows, what is spent and what runs hold
    #[command(visible_alias = "list")]
    Ls,
    /// Show one budget
    Show(BudgetScope),
    /// Limit nothing any more, and forget what was spent
    Rm(BudgetScope),
}

/// Which budget.
#[derive(Debug, Args)]
pub struct BudgetScope {
    /// all, project~NAME, key~KEY-ID or session~SESSION-ID
    #[arg(value_name = "SCOPE")]
    pub scope: String,
}

/// How much.
#[derive(Debug, Args)]
pub struct BudgetSet {
    /// all, project~NAME, key~KEY-ID or session~SESSION-ID
    #[arg(value_name = "SCOPE")]
    pub scope: String,
    /// The most that its model calls may cost, in dollars
    #[arg(long, value_name = "DOLLARS")]
    pub usd: Option<f64>,
    /// The most model calls
    #[arg(long, value_name = "N")]
    pub calls: Option<u64>,
    /// How often it begins anew, in UTC
    #[arg(long, value_name = "WINDOW")]
    pub per: Option<Per>,
    /// Percent of the limit, ascending; each is recorded once when it is crossed
    #[arg(long, value_name = "PERCENT", value_delimiter = ',')]
    pub warn_at: Option<Vec<u8>>,
    /// What happens to a model without a price where money is limited
    #[arg(long, value_name = "POLICY")]
    pub unpriced: Option<Unpriced>,
}

/// How often a budget begins anew.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Per {
    /// With each hour
    Hour,
    /// With each day
    Day,
    /// Never
    Never,
}

/// What happens to a model without a price.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Unpriced {
    /// It is not asked
    Refuse,
    /// It is asked, and only its calls count
    Allow,
}
