//! How our values stand in columns, one way for every projection.
//!
//! Guards against sums that wrap: `SQLite` has 64 signed bits and turns an overflow into a float, so every amount is
//! capped far below that, and far above anything real.

use events::id::KeyId;
use events::key::Role;
use events::quantity::{Instant, MicroUsd, Tokens};
use events::record::{Actor, Position, Shard};
use events::run::life::Outcome;
use events::run::spec::Plane;
use events::usage::Total;
use rusqlite::types::{FromSql, Type, Value};
use rusqlite::{Error, Row};
use serde::{Serialize, de::DeserializeOwned};
use std::str::FromStr;

/// The largest stored amount: 2^53 - 1, below which `TOTAL()` adds exactly. In micro-USD: nine billion dollars.
pub(crate) const AMOUNT_MAX: i64 = (1 << 53) - 1;

/// The columns of a [`Total`], in the order they are written and read.
const TOTALS: [&str; 10] = [
    "calls",
    "calls_without_usage",
    "calls_unpriced",
    "calls_subscription",
    "calls_unknown",
    "prompt",
    "completion",
    "cached_input",
    "cache_write",
    "reasoning",
];
/// Those that are null while nothing is known.
const COSTS: [&str; 2] = ["cost", "cost_upper"];

/// An amount as it is stored.
pub(crate) fn amount(value: u64) -> Value {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX).min(AMOUNT_MAX))
}

/// A number that is no amount: a sequence, a count of restores.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(value: i64) -> u64 {
    value.max(0).unsigned_abs()
}

pub(crate) fn text(value: impl ToString) -> Value {
    Value::Text(value.to_string())
}

pub(crate) fn maybe<T>(value: Option<T>, write: impl FnOnce(T) -> Value) -> Value {
    value.map_or(Value::Null, write)
}

pub(crate) fn instant(value: Instant) -> Value {
    Value::Integer(value.0)
}

pub(crate) fn position(value: Position) -> [Value; 2] {
    [Value::Integer(i64::from(value.shard.0)), Value::Integer(signed(value.sequence))]
}

/// A value that only our folds read again. The file is made anew when its shape changes.
pub(crate) fn packed(value: &impl Serialize) -> rusqlite::Result<Value> {
    let bytes = postcard::to_stdvec(value);
    bytes.map(Value::Blob).map_err(|error| Error::ToSqlConversionFailure(Box::new(error)))
}

/// The values of [`TOTALS`] and [`COSTS`].
pub(crate) fn totals(total: &Total) -> Vec<Value> {
    let counts = [
        total.calls,
        total.calls_without_usage,
        total.calls_unpriced,
        total.calls_subscription,
        total.calls_unknown,
        total.prompt.0,
        total.completion.0,
        total.cached_input.0,
        total.cache_write.0,
        total.reasoning.0,
    ];
    let costs = [total.cost, total.cost_upper];
    let costs = costs.map(|cost| maybe(cost, |cost| amount(cost.0)));
    counts.map(amount).into_iter().chain(costs).collect()
}

/// The definition of the columns of a [`Total`].
pub(crate) fn totals_definition() -> String {
    let counts = TOTALS.map(|column| format!("{column} INTEGER NOT NULL"));
    let costs = COSTS.map(|column| format!("{column} INTEGER"));
    [counts.join(", "), costs.join(", ")].join(", ")
}

/// What adds the excluded row of an upsert to the one that stands. Commutative: two rows of any order add up alike.
pub(crate) fn totals_upsert() -> String {
    let counts =
        TOTALS.map(|column| format!("{column} = MIN({column} + excluded.{column}, {AMOUNT_MAX})"));
    let costs = COSTS.map(|column| {
        format!(
            "{column} = CASE WHEN {column} IS NULL THEN excluded.{column} \
             WHEN excluded.{column} IS NULL THEN {column} \
             ELSE MIN({column} + excluded.{column}, {AMOUNT_MAX}) END"
        )
    });
    [counts.join(", "), costs.join(", ")].join(", ")
}

/// The sums of a group of rows, under the names of the columns. `SUM` would fail at 64 bits; a cost of nothing priced
/// stays null.
pub(crate) fn totals_sum() -> String {
    let sum = |column: &str| format!("CAST(MIN(TOTAL({column}), {AMOUNT_MAX}) AS INTEGER)");
    let counts = TOTALS.map(|column| format!("{} AS {column}", sum(column)));
    let costs = COSTS.map(|column| {
        format!("CASE WHEN COUNT({column}) > 0 THEN {} END AS {column}", sum(column))
    });
    [counts.join(", "), costs.join(", ")].join(", ")
}

/// `?, ?, ?`.
pub(crate) fn marks(count: usize) -> String {
    vec!["?"; count].join(", ")
}

/// An enum of `events` that stands in a column as a word.
pub(crate) trait Word: Copy + 'static {
    /// Every variant with its word. The words stand in `views.db`: a change of one is a new shape.
    const WORDS: &'static [(Self, &'static str)];

    fn word(self) -> &'static str;
}

/// Says each variant's word once, both ways.
macro_rules! words {
    ($type:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $crate::column::Word for $type {
            const WORDS: &'static [(Self, &'static str)] = &[$(($type::$variant, $word)),+];

            fn word(self) -> &'static str {
                match self { $($type::$variant => $word),+ }
            }
        }
    };
}
pub(crate) use words;

words!(Outcome {
    Completed = "completed",
    Exhausted = "exhausted",
    Errored = "errored",
    Cancelled = "cancelled",
});
words!(Plane { Model = "model", Run = "run", Embeddings = "embeddings" });
words!(Role {
    Reader = "reader",
    Runner = "runner",
    Approver = "approver",
    Operator = "operator",
    Admin = "admin",
});

/// A stored text is not what its column holds: another build wrote it.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} does not read as what its column holds")]
struct NotInColumn(String);

/// The columns of a row, one after the other, in the order they were written.
pub(crate) struct Cells<'a> {
    row: &'a Row<'a>,
    at: usize,
}

impl<'a> Cells<'a> {
    pub(crate) fn of(row: &'a Row<'a>) -> Self {
        Self { row, at: 0 }
    }

    pub(crate) fn take<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        let value = self.row.get(self.at)?;
        self.at += 1;
        Ok(value)
    }

    pub(crate) fn stray(&self, text: &str) -> Error {
        let shown = NotInColumn(text.chars().take(80).collect());
        Error::FromSqlConversionFailure(self.at.saturating_sub(1), Type::Text, Box::new(shown))
    }

    pub(crate) fn parse<T: FromStr>(&mut self) -> rusqlite::Result<T> {
        let text: String = self.take()?;
        text.parse().map_err(|_| self.stray(&text))
    }

    pub(crate) fn parse_maybe<T: FromStr>(&mut self) -> rusqlite::Result<Option<T>> {
        let text: Option<String> = self.take()?;
        text.map(|text| text.parse().map_err(|_| self.stray(&text))).transpose()
    }

    pub(crate) fn word<T: Word>(&mut self) -> rusqlite::Result<T> {
        let text: String = self.take()?;
        self.read_word(&text)
    }

    pub(crate) fn word_maybe<T: Word>(&mut self) -> rusqlite::Result<Option<T>> {
        let text: Option<String> = self.take()?;
        text.map(|text| self.read_word(&text)).transpose()
    }

    fn read_word<T: Word>(&self, text: &str) -> rusqlite::Result<T> {
        let found = T::WORDS.iter().find(|(_, word)| *word == text);
        found.map(|(value, _)| *value).ok_or_else(|| self.stray(text))
    }

    pub(crate) fn packed<T: DeserializeOwned>(&mut self) -> rusqlite::Result<T> {
        let found = self.packed_maybe()?;
        found.ok_or_else(|| self.stray("nothing"))
    }

    pub(crate) fn packed_maybe<T: DeserializeOwned>(&mut self) -> rusqlite::Result<Option<T>> {
        let bytes: Option<Vec<u8>> = self.take()?;
        let read = bytes.map(|bytes| postcard::from_bytes(&bytes)).transpose();
        read.map_err(|error| {
            Error::FromSqlConversionFailure(self.at.saturating_sub(1), Type::Blob, Box::new(error))
        })
    }

    pub(crate) fn actor(&mut self) -> rusqlite::Result<Actor> {
        let text: String = self.take()?;
        self.read_actor(&text)
    }

    pub(crate) fn actor_maybe(&mut self) -> rusqlite::Result<Option<Actor>> {
        let text: Option<String> = self.take()?;
        text.map(|text| self.read_actor(&text)).transpose()
    }

    fn read_actor(&self, text: &str) -> rusqlite::Result<Actor> {
        match text {
            "admin" => Ok(Actor::Admin),
            "node" => Ok(Actor::Node),
            key => key.parse::<KeyId>().map(Actor::Key).map_err(|_| self.stray(key)),
        }
    }

    pub(crate) fn unsigned(&mut self) -> rusqlite::Result<u64> {
        Ok(unsigned(self.take()?))
    }

    pub(crate) fn small(&mut self) -> rusqlite::Result<u32> {
        Ok(u32::try_from(self.unsigned()?).unwrap_or(u32::MAX))
    }

    pub(crate) fn instant(&mut self) -> rusqlite::Result<Instant> {
        Ok(Instant(self.take()?))
    }

    pub(crate) fn instant_maybe(&mut self) -> rusqlite::Result<Option<Instant>> {
        Ok(self.take::<Option<i64>>()?.map(Instant))
    }

    pub(crate) fn position(&mut self) -> rusqlite::Result<Position> {
        let shard: i64 = self.take()?;
        let shard = Shard(u16::try_from(shard).unwrap_or(u16::MAX));
        Ok(Position { shard, sequence: self.unsigned()? })
    }

    pub(crate) fn total(&mut self) -> rusqlite::Result<Total> {
        Ok(Total {
            calls: self.unsigned()?,
            calls_without_usage: self.unsigned()?,
            calls_unpriced: self.unsigned()?,
            calls_subscription: self.unsigned()?,
            calls_unknown: self.unsigned()?,
            prompt: Tokens(self.unsigned()?),
            completion: Tokens(self.unsigned()?),
            cached_input: Tokens(self.unsigned()?),
            cache_write: Tokens(self.unsigned()?),
            reasoning: Tokens(self.unsigned()?),
            cost: self.take::<Option<i64>>()?.map(|cost| MicroUsd(unsigned(cost))),
            cost_upper: self.take::<Option<i64>>()?.map(|cost| MicroUsd(unsigned(cost))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::{Connection, params_from_iter};

    fn total(tokens: u64, cost: Option<u64>) -> Total {
        let (prompt, cost) = (Tokens(tokens), cost.map(MicroUsd));
        Total { calls: 1, prompt, cost, ..Total::default() }
    }

    /// Upserts these into one row of a table, and reads that row and the sum over two such rows.
    fn stored(given: &[Total]) -> (Total, Total) {
        let connection = Connection::open_in_memory().unwrap();
        let definition = totals_definition();
        let table = format!("CREATE TABLE t (id INTEGER PRIMARY KEY, {definition}) STRICT");
        connection.execute_batch(&table).unwrap();
        let upsert = format!(
            "INSERT INTO t VALUES (?, {}) ON CONFLICT DO UPDATE SET {}",
            marks(12),
            totals_upsert()
        );
        for (id, one) in given.iter().flat_map(|one| [(1, one), (2, one)]) {
            let values = std::iter::once(Value::Integer(id)).chain(totals(one));
            connection.execute(&upsert, params_from_iter(values)).unwrap();
        }
        let read = |sql: &str| connection.query_row(sql, [], |row| Cells::of(row).total()).unwrap();
        let columns = [TOTALS.join(", "), COSTS.join(", ")].join(", ");
        let row = read(&format!("SELECT {columns} FROM t WHERE id = 1"));
        (row, read(&format!("SELECT {} FROM t", totals_sum())))
    }

    #[test]
    fn rows_add_up_as_totals_do_and_no_cost_stays_none() {
        let (row, sum) = stored(&[total(3, None), total(4, None)]);
        assert_eq!(row, Total { calls: 2, ..total(7, None) });
        assert_eq!(sum, Total { calls: 4, ..total(14, None) });
        let (row, sum) = stored(&[total(3, None), total(4, Some(5))]);
        assert_eq!((row.cost, sum.cost), (Some(MicroUsd(5)), Some(MicroUsd(10))));
    }

    /// What a provider reports is not to be trusted with our arithmetic.
    #[test]
    fn an_absurd_amount_is_capped_and_breaks_no_sum() {
        let (row, sum) = stored(&[total(u64::MAX, Some(u64::MAX)), total(u64::MAX, Some(1))]);
        let cap = AMOUNT_MAX.unsigned_abs();
        assert_eq!((row.prompt, row.cost), (Tokens(cap), Some(MicroUsd(cap))));
        assert_eq!((sum.prompt, sum.cost), (Tokens(cap), Some(MicroUsd(cap))));
    }
}
