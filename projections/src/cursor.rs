//! Where a set of tables stands in each shard of the log. Written in the transaction of its rows, so that neither is
//! ever ahead.

use crate::column::{signed, unsigned};
use crate::tables::Set;
use crate::{Name, Reach};
use events::record::{Hash, JournalId, Position, Shard};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeMap;

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
    pub(crate) at: Position,
    pub(crate) reason: String,
}

/// The last commit of a shard that was folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place {
    /// Zero for none.
    pub(crate) sequence: u64,
    /// Its hash, so that a log that was cut and has grown again shows.
    pub(crate) hash: Hash,
}

/// All that is known of one set of tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// One for each shard of the log.
    pub(crate) places: BTreeMap<Shard, Place>,
    pub(crate) history: History,
    /// The number of the fold.
    pub(crate) code: u32,
    /// Which tables of the projection these are, counted; part of the names of their indexes.
    pub(crate) generation: u32,
    /// A halt in one shard is a halt of all: rows that stand still in one place only would look whole.
    pub(crate) halt: Option<Halt>,
}

impl Cursor {
    /// Before the first commit of each shard.
    pub(crate) fn start(shards: &[Shard], history: History, code: u32) -> Self {
        let places = shards.iter().map(|shard| (*shard, Place::default())).collect();
        Self { places, history, code, generation: 0, halt: None }
    }

    pub(crate) fn reach(&self) -> Reach {
        let places = self.places.iter();
        places.map(|(shard, place)| Position { shard: *shard, sequence: place.sequence }).collect()
    }

    /// Whether it is of the very shards that a log has.
    pub(crate) fn is_of(&self, shards: &[Shard]) -> bool {
        self.places.len() == shards.len()
            && shards.iter().all(|shard| self.places.contains_key(shard))
    }
}

fn position(shard: i64, sequence: i64) -> Position {
    Position { shard: self::shard(shard), sequence: unsigned(sequence) }
}

fn shard(number: i64) -> Shard {
    Shard(u16::try_from(number).unwrap_or(u16::MAX))
}

pub(crate) fn load(
    connection: &Connection,
    name: Name,
    set: Set,
) -> rusqlite::Result<Option<Cursor>> {
    let mut statement = connection.prepare_cached(
        "SELECT journal, restores, code, generation, halted_shard, halted_at, halted_reason \
         FROM sets WHERE projection = ? AND tables = ?",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        let halted: (Option<i64>, Option<i64>) = (row.get(4)?, row.get(5)?);
        let reason: Option<String> = row.get(6)?;
        let at = halted.0.zip(halted.1).map(|(shard, sequence)| position(shard, sequence));
        Ok(Cursor {
            places: BTreeMap::new(),
            history: History {
                journal: JournalId(u128::from_be_bytes(row.get(0)?)),
                restores: unsigned(row.get(1)?),
            },
            code: row.get(2)?,
            generation: row.get(3)?,
            halt: at.zip(reason).map(|(at, reason)| Halt { at, reason }),
        })
    };
    let found = statement.query_row(params![name.word(), set.word()], read).optional()?;
    let Some(mut cursor) = found else { return Ok(None) };
    cursor.places = places(connection, name, set)?;
    Ok(Some(cursor))
}

fn places(
    connection: &Connection,
    name: Name,
    set: Set,
) -> rusqlite::Result<BTreeMap<Shard, Place>> {
    let mut statement = connection.prepare_cached(
        "SELECT shard, sequence, hash FROM cursors WHERE projection = ? AND tables = ?",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        let place = Place { sequence: unsigned(row.get(1)?), hash: Hash(row.get(2)?) };
        Ok((shard(row.get(0)?), place))
    };
    statement.query_map(params![name.word(), set.word()], read)?.collect()
}

/// How far a set of tables has got; nowhere when there is none.
pub(crate) fn reach(connection: &Connection, name: Name, set: Set) -> rusqlite::Result<Reach> {
    let places = places(connection, name, set)?.into_iter();
    Ok(places.map(|(shard, place)| Position { shard, sequence: place.sequence }).collect())
}

/// Writes all of it; shards that it does not have are forgotten.
pub(crate) fn save(
    connection: &Connection,
    name: Name,
    set: Set,
    cursor: &Cursor,
) -> rusqlite::Result<()> {
    remove(connection, name, set)?;
    let mut statement = connection.prepare_cached(
        "INSERT INTO sets (projection, tables, journal, restores, code, generation) \
         VALUES (?, ?, ?, ?, ?, ?)",
    )?;
    statement.execute(params![
        name.word(),
        set.word(),
        cursor.history.journal.0.to_be_bytes(),
        signed(cursor.history.restores),
        cursor.code,
        cursor.generation,
    ])?;
    if let Some(halt) = &cursor.halt {
        save_halt(connection, name, set, halt)?;
    }
    let places = cursor.places.iter();
    places
        .into_iter()
        .try_for_each(|(shard, place)| save_place(connection, name, set, *shard, place))
}

/// Moves one shard on.
pub(crate) fn save_place(
    connection: &Connection,
    name: Name,
    set: Set,
    shard: Shard,
    place: &Place,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO cursors (projection, tables, shard, sequence, hash) \
         VALUES (?, ?, ?, ?, ?)",
    )?;
    let sequence = signed(place.sequence);
    statement.execute(params![name.word(), set.word(), shard.0, sequence, place.hash.0])?;
    Ok(())
}

/// Notes where it stays.
pub(crate) fn save_halt(
    connection: &Connection,
    name: Name,
    set: Set,
    halt: &Halt,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "UPDATE sets SET halted_shard = ?, halted_at = ?, halted_reason = ? \
         WHERE projection = ? AND tables = ?",
    )?;
    let (shard, sequence) = (halt.at.shard.0, signed(halt.at.sequence));
    statement.execute(params![shard, sequence, halt.reason, name.word(), set.word()])?;
    Ok(())
}

pub(crate) fn remove(connection: &Connection, name: Name, set: Set) -> rusqlite::Result<()> {
    for table in ["cursors", "sets"] {
        let delete = format!("DELETE FROM {table} WHERE projection = ? AND tables = ?");
        connection.prepare_cached(&delete)?.execute(params![name.word(), set.word()])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HISTORY: History = History { journal: JournalId(u128::MAX - 7), restores: 3 };

    fn kept(cursor: &Cursor) -> Cursor {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("sql/cursors.sql")).unwrap();
        // What stood there before leaves nothing.
        let halt =
            Some(Halt { at: Position { shard: Shard(9), sequence: 1 }, reason: "old".into() });
        let old = Cursor { halt, ..Cursor::start(&[Shard(9)], HISTORY, 1) };
        save(&connection, Name::Keys, Set::Live, &old).unwrap();
        save(&connection, Name::Keys, Set::Live, cursor).unwrap();
        let reach = reach(&connection, Name::Keys, Set::Live).unwrap();
        let loaded = load(&connection, Name::Keys, Set::Live).unwrap().unwrap();
        assert_eq!(reach, loaded.reach());
        for (name, set) in [(Name::Runs, Set::Live), (Name::Keys, Set::Shadow)] {
            assert_eq!(load(&connection, name, set).unwrap(), None);
        }
        remove(&connection, Name::Keys, Set::Live).unwrap();
        assert_eq!(load(&connection, Name::Keys, Set::Live).unwrap(), None);
        loaded
    }

    #[test]
    fn a_cursor_reads_back_with_every_shard_of_it() {
        let mut cursor = Cursor::start(&[Shard(0), Shard(3)], HISTORY, 7);
        assert_eq!(kept(&cursor), cursor);
        cursor.places.insert(Shard(3), Place { sequence: 5, hash: Hash([4; 32]) });
        cursor.generation = 2;
        assert_eq!(kept(&cursor), cursor);
        let at = Position { shard: Shard(3), sequence: 6 };
        cursor.halt = Some(Halt { at, reason: "why".into() });
        assert_eq!(kept(&cursor), cursor);
        assert_eq!(cursor.reach().to_string(), "3.5");
    }

    #[test]
    fn a_cursor_is_of_a_log_with_the_very_same_shards() {
        let cursor = Cursor::start(&[Shard(0), Shard(1)], HISTORY, 1);
        assert!(cursor.is_of(&[Shard(0), Shard(1)]));
        for other in [&[Shard(0)][..], &[], &[Shard(0), Shard(2)], &[Shard(0), Shard(1), Shard(2)]]
        {
            assert!(!cursor.is_of(other), "{other:?}");
        }
    }
}
