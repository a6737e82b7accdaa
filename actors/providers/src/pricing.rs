//! What a model costs and how much it reads and writes, from a dated table of facts (`prices.json`).
//!
//! A model that is not in it has no price, and an unknown price is never zero: local models too are unpriced here.
//! Names are exact; a dated snapshot can cost another price than the name without a date.

use events::quantity::{MicroUsd, Tokens};
use events::usage::{LongInput, Price, Rates};
use serde::Deserialize;
use std::collections::BTreeMap;
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

#[derive(Deserialize)]
struct Table {
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

struct Loaded {
    models: BTreeMap<(String, String), Facts>,
    retrieved: String,
    source: String,
}

fn loaded() -> &'static Loaded {
    static LOADED: OnceLock<Loaded> = OnceLock::new();
    // A shipped table that does not read leaves every model unpriced; a test below does not let it ship.
    LOADED.get_or_init(|| {
        let table: Result<Table, _> = serde_json::from_str(TABLE);
        table.map_or_else(
            |_| Loaded { models: BTreeMap::new(), retrieved: String::new(), source: String::new() },
            |table| Loaded {
                models: table.models.into_iter().map(entry).collect(),
                retrieved: table.retrieved,
                source: table.source,
            },
        )
    })
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

/// Every model of the table: provider and model, sorted.
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

/// The day on which the table was read, and where.
#[must_use]
pub fn source() -> (&'static str, &'static str) {
    (&loaded().retrieved, &loaded().source)
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
