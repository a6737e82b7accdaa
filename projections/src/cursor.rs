//! Where a set of tables stands in the log. Written in the transaction of its rows, so that neither is ever ahead.

use crate::Name;
use crate::column::{signed, unsigned};
use crate::tables::Set;
use events::record::{Hash, JournalId, Shard};
use rusqlite::{Connection, OptionalExtension, params};

/// The one shard of a store with a file or a memory.
pub(crate) const SHARD: Shard = Shard(0);

/// Which history rows were folded from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) journal: JournalId,
    /// How often that journal was restored from a copy.
    pub(crate) restores: u64,
}

/// A commit that the fold could not read, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Halt {
    pub(crate) at: u64,
    pub(crate) reason: String,
}

/// One row of the table of cursors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The last commit that was folded; zero for none.
    pub(crate) sequence: u64,
    /// Its hash, so that a log that was cut and has grown again shows.
    pub(crate) hash: Hash,
    pub(crate) history: History,
    /// The number of the fold.
    pub(crate) code: u32,
    /// Which tables of the projection these are, counted; part of the names of their indexes.
    pub(crate) generation: u32,
    pub(crate) halt: Option<Halt>,
}

impl Cursor {
    pub(crate) fn start(history: History, code: u32, generation: u32) -> Self {
        Self { sequence: 0, hash: Hash::default(), history, code, generation, halt: None }
    }
}

pub(crate) fn load(
    connection: &Connection,
    name: Name,
    set: Set,
) -> rusqlite::Result<Option<Cursor>> {
    let mut statement = connection.prepare_cached(
        "SELECT sequence, hash, journal, restores, code, generation, halted_at, halted_reason \
         FROM cursors WHERE projection = ? AND tables = ?",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        let halted_at: Option<i64> = row.get(6)?;
        let reason: Option<String> = row.get(7)?;
        Ok(Cursor {
            sequence: unsigned(row.get(0)?),
            hash: Hash(row.get(1)?),
            history: History {
                journal: JournalId(u128::from_be_bytes(row.get(2)?)),
                restores: unsigned(row.get(3)?),
            },
            code: row.get(4)?,
            generation: row.get(5)?,
            halt: halted_at.zip(reason).map(|(at, reason)| Halt { at: unsigned(at), reason }),
        })
    };
    statement.query_row(params![name.word(), set.word()], read).optional()
}

pub(crate) fn save(
    connection: &Connection,
    name: Name,
    set: Set,
    cursor: &Cursor,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO cursors (projection, tables, shard, sequence, hash, journal, \
         restores, code, generation, halted_at, halted_reason) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    let halt = cursor.halt.as_ref();
    statement.execute(params![
        name.word(),
        set.word(),
        SHARD.0,
        signed(cursor.sequence),
        cursor.hash.0,
        cursor.history.journal.0.to_be_bytes(),
        signed(cursor.history.restores),
        cursor.code,
        cursor.generation,
        halt.map(|halt| signed(halt.at)),
        halt.map(|halt| halt.reason.as_str()),
    ])?;
    Ok(())
}

pub(crate) fn remove(connection: &Connection, name: Name, set: Set) -> rusqlite::Result<()> {
    let delete = "DELETE FROM cursors WHERE projection = ? AND tables = ?";
    connection.execute(delete, params![name.word(), set.word()])?;
    Ok(())
}
