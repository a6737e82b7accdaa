//! What a model costs and how much it reads and writes, from a dated table of facts (`prices.json`).
//!
//! A model that is not in it has no price, and an unknown price is never zero: local models too are unpriced here.
//! Names are exact; a dated snapshot can cost another price than the name without a date.

use events::quantity::{MicroUsd, Tokens};
use events::usage::{LongInput, Price, Rates};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// The table as shipped. Micro-USD per million tokens.
const TABLE: &str = include_str!("prices.json");

/// What the table says of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Its price; `None` where the table has none.
    pub price: Option<Price>,
    /// The most input it reads.
    pub context_max: Option<Tokens>,
    /// The most output it produces in one call.
    pub output_max: Option<Tokens>,
}

/// The shape of a table that this build reads.
const SCHEMA: u64 = 1;

#[derive(Deserialize)]
struct Table {
    schema: u64,
    retrieved: String,
    source: String,
    models: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    provider: String,
    model: String,
    #[serde(flatten)]
    cost: Cost,
    context_max: Option<u64>,
    output_max: Option<u64>,
    #[serde(default)]
    above: Option<RowAbove>,
}

#[derive(Deserialize)]
struct RowAbove {
    tokens: u64,
    #[serde(flatten)]
    cost: Cost,
}

#[derive(Deserialize)]
struct Cost {
    input: Option<u64>,
    output: Option<u64>,
    cached_input: Option<u64>,
    cache_write: Option<u64>,
}

impl Cost {
    fn rates(&self) -> Option<Rates> {
        Some(Rates {
            input: MicroUsd(self.input?),
            output: MicroUsd(self.output?),
            cached_input: self.cached_input.map(MicroUsd),
            cache_write: self.cache_write.map(MicroUsd),
        })
    }
}

/// A table of models: what each costs, and how much it reads and writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prices {
    models: BTreeMap<(String, String), Facts>,
    retrieved: String,
    source: String,
}

/// The text is no table of prices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotPrices {
    /// It does not read.
    #[error(
        "not a table of prices: {0}; write {{\"schema\": 1, \"retrieved\": DAY, \"source\": TEXT, \"models\": [{{\"provider\": ID, \
         \"model\": NAME, \"input\": N, \"output\": N}}]}} with micro-USD per million tokens"
    )]
    Unreadable(String),
    /// It is of another shape than this build reads.
    #[error("the table has schema {0}, and this build reads schema {SCHEMA}")]
    Schema(u64),
    /// A model stands twice in it.
    #[error("{0}:{1} stands twice in the table")]
    Twice(String, String),
    /// A model has one of the two prices that only mean something together.
    #[error("{0}:{1} has a price for input or for output only: give both, or null for both")]
    Half(String, String),
}

/// What one table says of a model and the other does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<'a> {
    /// Provider id.
    pub provider: &'a str,
    /// Model name at that provider.
    pub model: &'a str,
    /// In the older table.
    pub before: Option<&'a Facts>,
    /// In the newer one.
    pub after: Option<&'a Facts>,
}

impl Prices {
    /// Reads a table.
    ///
    /// # Errors
    ///
    /// [`NotPrices`], which names the model and the rule.
    pub fn read(text: &str) -> Result<Self, NotPrices> {
        let table: Table =
            serde_json::from_str(text).map_err(|error| NotPrices::Unreadable(error.to_string()))?;
        if table.schema != SCHEMA {
            return Err(NotPrices::Schema(table.schema));
        }
        let mut models = BTreeMap::new();
        for row in table.models {
            let half = row.cost.input.is_some() != row.cost.output.is_some();
            let ((provider, model), facts) = entry(row);
            if half {
                return Err(NotPrices::Half(provider, model));
            }
            if models.contains_key(&(provider.clone(), model.clone())) {
                return Err(NotPrices::Twice(provider, model));
            }
            models.insert((provider, model), facts);
        }
        Ok(Self { models, retrieved: table.retrieved, source: table.source })
    }

    /// The table as shipped.
    #[must_use]
    pub fn shipped() -> Self {
        // A table that does not read leaves every model unpriced; a test below does not let it ship.
        Self::read(TABLE).unwrap_or_default()
    }

    /// Every model: provider, name and what is known of it, sorted.
    pub fn models(&self) -> impl Iterator<Item = (&str, &str, &Facts)> {
        self.models.iter().map(|((provider, model), facts)| (&**provider, &**model, facts))
    }

    /// The day on which the table was read, and where.
    #[must_use]
    pub fn source(&self) -> (&str, &str) {
        (&self.retrieved, &self.source)
    }

    /// What this table says otherwise than an older one, sorted.
    #[must_use]
    pub fn changes<'a>(&'a self, older: &'a Self) -> Vec<Change<'a>> {
        let all: BTreeSet<_> = older.models.keys().chain(self.models.keys()).collect();
        let change = |key: &'a (String, String)| {
            let (before, after) = (older.models.get(key), self.models.get(key));
            (before != after).then_some(Change { provider: &key.0, model: &key.1, before, after })
        };
        all.into_iter().filter_map(change).collect()
    }
}

static LOADED: OnceLock<Prices> = OnceLock::new();

fn loaded() -> &'static Prices {
    LOADED.get_or_init(Prices::shipped)
}

/// Takes another table than the shipped one, for the life of this process. False when one is in use already: it is to be
/// done before the first price is asked for.
pub fn install(prices: Prices) -> bool {
    LOADED.set(prices).is_ok()
}

fn entry(row: Row) -> ((String, String), Facts) {
    let long = row.above.and_then(|above| {
        Some(LongInput { above: Tokens(above.tokens), rates: above.cost.rates()? })
    });
    let facts = Facts {
        price: row.cost.rates().map(|usual| Price { usual, long }),
        context_max: row.context_max.map(Tokens),
        output_max: row.output_max.map(Tokens),
    };
    ((row.provider, row.model), facts)
}

/// Every model of the table in use: provider and model, sorted.
pub fn models() -> impl Iterator<Item = (&'static str, &'static str)> {
    loaded().models.keys().map(|(provider, model)| (provider.as_str(), model.as_str()))
}

/// What is known of a model at a provider; `None` when the table does not have it.
#[must_use]
pub fn facts(provider: &str, model: &str) -> Option<&'static Facts> {
    loaded().models.get(&(provider.to_owned(), model.to_owned()))
}

/// The price of a model; `None` is unknown, never free.
#[must_use]
pub fn price(provider: &str, model: &str) -> Option<Price> {
    facts(provider, model)?.price
}

/// The day on which the table in use was read, and where.
#[must_use]
pub fn source() -> (&'static str, &'static str) {
    loaded().source()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;
    use events::usage::Usage;

    #[test]
    fn the_shipped_table_reads_and_names_known_providers_only() {
        assert!(loaded().models.len() >= 25, "{}", loaded().models.len());
        assert_eq!(source().0, "2026-11-30");
        for (provider, model) in loaded().models.keys() {
            assert!(
                registry::provider(provider).is_ok_and(|known| known.id == provider),
                "{provider} {model}"
            );
        }
    }

    #[test]
    fn a_table_that_is_none_is_refused_by_name_and_a_change_is_told() {
        let table = |models: &str| {
            Prices::read(&format!(
                r#"{{"schema": 1, "retrieved": "2026-12-01", "source": "test", "models": [{models}]}}"#
            ))
        };
        let row = |input: &str| {
            format!(r#"{{"provider": "openai", "model": "x", "input": {input}, "output": 2}}"#)
        };
        let (old, new) = (table(&row("1")).unwrap(), table(&row("3")).unwrap());
        let changes = new.changes(&old);
        let [change] = changes.as_slice() else { panic!("{changes:?}") };
        let input = |facts: Option<&Facts>| facts.unwrap().price.unwrap().usual.input;
        assert_eq!((change.provider, change.model), ("openai", "x"));
        assert_eq!((input(change.before), input(change.after)), (MicroUsd(1), MicroUsd(3)));
        assert_eq!(new.changes(&new), []);
        let empty = table("").unwrap();
        assert!(empty.changes(&old).first().unwrap().after.is_none(), "it is gone");
        let twice = table(&[row("1"), row("2")].join(","));
        assert_eq!(twice, Err(NotPrices::Twice("openai".into(), "x".into())));
        assert!(matches!(table(&row("null")), Err(NotPrices::Half(..))));
        let other = r#"{"schema": 2, "retrieved": "", "source": "", "models": []}"#;
        assert_eq!(Prices::read(other), Err(NotPrices::Schema(2)));
        assert!(matches!(Prices::read("[]"), Err(NotPrices::Unreadable(_))));
    }

    #[test]
    fn prices_are_in_millionths() {
        let price = price("openai", "gpt-4o-mini").unwrap();
        assert_eq!((price.usual.input, price.usual.output), (MicroUsd(150_000), MicroUsd(600_000)));
        let usage = Usage {
            prompt: Some(Tokens(1_000_000)),
            completion: Some(Tokens(1_000_000)),
            ..Usage::default()
        };
        assert_eq!(price.cost(&usage), Some(MicroUsd(750_000)));
    }

    #[test]
    fn what_is_not_listed_has_no_price() {
        assert_eq!(price("openai", "gpt-4o-mini-2024-07-18"), None);
        assert_eq!(price("ollama", "llama3"), None);
        assert_eq!(price("openrouter", "gpt-4o-mini"), None);
        let unpriced = facts("alibaba", "qwen3.7-plus").unwrap();
        assert_eq!((unpriced.price, unpriced.context_max), (None, Some(Tokens(991_808))));
    }

    #[test]
    fn a_cache_write_listed_as_free_is_priced_as_input() {
        assert_eq!(price("zai", "glm-5.3").unwrap().usual.cache_write, None);
    }

    #[test]
    fn long_inputs_cost_their_own_price() {
        let cost = |model, input| {
            let usage = Usage {
                prompt: Some(Tokens(input)),
                completion: Some(Tokens(0)),
                ..Usage::default()
            };
            price("openai", model).unwrap().cost(&usage)
        };
        assert_eq!(cost("gpt-6-sol", 272_000), Some(MicroUsd(544_000)));
        assert_eq!(cost("gpt-6-sol", 272_001), Some(MicroUsd(1_088_004)));
        assert_eq!(cost("gpt-4o", 272_001), Some(MicroUsd(680_003)));
    }
}
