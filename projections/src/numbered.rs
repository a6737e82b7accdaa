//! Names what a run has several of, a hold or a call: `<run>.<n>`. And of which project such a run is, while it goes on:
//! its first fact alone says it.

use crate::tables::Tables;
use events::id::RunId;
use rusqlite::OptionalExtension;
use std::fmt;
use std::str::FromStr;

/// The n-th of a run, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Numbered {
    /// Whose.
    pub run: RunId,
    /// Which.
    pub number: u32,
}

/// The text names nothing of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("give a run and a number: run_….0")]
pub struct NotNumbered;

impl fmt::Display for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.run, self.number)
    }
}

impl FromStr for Numbered {
    type Err = NotNumbered;

    fn from_str(text: &str) -> Result<Self, NotNumbered> {
        let (run, number) = text.rsplit_once('.').ok_or(NotNumbered)?;
        let (run, number) = (run.parse(), number.parse());
        Ok(Self { run: run.map_err(|_| NotNumbered)?, number: number.map_err(|_| NotNumbered)? })
    }
}

/// The projects of the runs that go on, in a table of their own.
#[derive(Clone, Copy)]
pub(crate) struct Projects<'a> {
    pub(crate) tables: Tables<'a>,
    pub(crate) table: &'static str,
}

impl Projects<'_> {
    pub(crate) fn begin(self, run: RunId, project: &str) -> rusqlite::Result<()> {
        let insert = format!("INSERT INTO {{t}}{} VALUES (?, ?)", self.table);
        self.tables.statement(&insert)?.execute((run.to_string(), project)).map(drop)
    }

    pub(crate) fn of(self, run: RunId) -> rusqlite::Result<Option<String>> {
        let select = format!("SELECT project FROM {{t}}{} WHERE run = ?", self.table);
        let mut statement = self.tables.statement(&select)?;
        statement.query_row([run.to_string()], |row| row.get(0)).optional()
    }

    pub(crate) fn end(self, run: RunId) -> rusqlite::Result<()> {
        let delete = format!("DELETE FROM {{t}}{} WHERE run = ?", self.table);
        self.tables.statement(&delete)?.execute([run.to_string()]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::id::Place;

    #[test]
    fn a_name_reads_back_and_another_text_is_none() {
        let one = Numbered { run: RunId::new(Place::default(), 7), number: 12 };
        assert_eq!(one.to_string().parse(), Ok(one));
        for text in ["", "run_1", "run_00000000000000000000000000000007.x", ".1"] {
            assert_eq!(text.parse::<Numbered>(), Err(NotNumbered), "{text}");
        }
    }
}
