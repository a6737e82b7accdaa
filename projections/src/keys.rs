//! One row an access key: what it may do and the hash that its secret must have. No secret is ever stored.
//!
//! A verifier is loaded from here at the start and told of each change by whoever makes it: a list may be behind, and
//! a revoked key must not open anything for that long.

use crate::batch::Decoded;
use crate::column::{Cells, Word, instant, marks, maybe, position, text};
use crate::reader::{ROWS_MAX, stands_at};
use crate::tables::Tables;
use crate::writer::FoldError;
use crate::{Name, Reach};
use events::aggregate::{Aggregate, IllegalEvent};
use events::catalogue::Fact;
use events::id::KeyId;
use events::key::{Event, Key, Role};
use events::quantity::Instant;
use events::record::{Hash, Position};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

/// The number of this fold: raised by every change of what it makes of a fact.
pub const CODE: u32 = 1;

/// One key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Which one.
    pub id: KeyId,
    /// For people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// SHA-256 of the secret text.
    pub hash: Hash,
    /// When it was issued.
    pub issued: Instant,
    /// When it was revoked; it opens nothing since.
    pub revoked: Option<Instant>,
    /// Its newest commit.
    pub last: Position,
}

/// Some keys by id, at most 200.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The keys.
    pub rows: Vec<Row>,
    /// After which key the next page begins; `None` after the last one.
    pub next: Option<KeyId>,
    /// Where the rows stand in the log.
    pub at: Reach,
}

/// One fact more. Total over the facts of a key.
fn evolve(
    before: Option<Row>,
    id: KeyId,
    event: &Event,
    at: Instant,
    last: Position,
) -> Result<Row, IllegalEvent> {
    match (event, before) {
        (Event::Issued(issued), None) => {
            let (name, role, hash) = (issued.name.clone(), issued.role, issued.hash);
            Ok(Row { id, name, role, hash, issued: at, revoked: None, last })
        }
        (Event::Revoked(_), Some(row)) if row.revoked.is_none() => {
            Ok(Row { revoked: Some(at), last, ..row })
        }
        (Event::Issued(_) | Event::Revoked(_), before) => Err(IllegalEvent {
            event: event.name().to_owned(),
            before: before.map_or("no key", |_| "a key, perhaps revoked").to_owned(),
        }),
    }
}

fn values(row: &Row) -> Vec<Value> {
    let mut values = vec![
        text(row.id),
        text(&row.name),
        text(row.role.word()),
        Value::Blob(row.hash.0.to_vec()),
        instant(row.issued),
        maybe(row.revoked, instant),
    ];
    values.extend(position(row.last));
    values
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let mut cells = Cells::of(row);
    Ok(Row {
        id: cells.parse()?,
        name: cells.take()?,
        role: cells.word()?,
        hash: Hash(cells.take()?),
        issued: cells.instant()?,
        revoked: cells.instant_maybe()?,
        last: cells.position()?,
    })
}

pub(crate) fn fold(tables: Tables<'_>, commit: &Decoded, facts: &[Fact]) -> Result<(), FoldError> {
    let illegal = |event: &str| IllegalEvent {
        event: event.to_owned(),
        before: format!("the name of stream {}", commit.stream),
    };
    let id = Key::id(&commit.stream).ok_or_else(|| illegal("a commit"))?;
    let mut statement = tables.statement("SELECT * FROM {t}keys WHERE id = ?")?;
    let mut row = statement.query_row([commit.stream.id()], read).optional()?;
    for fact in facts {
        row = Some(match fact {
            Fact::Key(event) => evolve(row, id, event, commit.at, commit.position)?,
            Fact::Run(_)
            | Fact::Session(_)
            | Fact::Settings(_)
            | Fact::Credential(_)
            | Fact::Budget(_)
            | Fact::Grant(_)
            | Fact::Gates(_)
            | Fact::Artifact(_)
            | Fact::Project(_)
            | Fact::Probe => {
                return Err(illegal(fact.name()).into());
            }
        });
    }
    if let Some(row) = &row {
        let values = values(row);
        let insert = format!("INSERT OR REPLACE INTO {{t}}keys VALUES ({})", marks(values.len()));
        tables.statement(&insert)?.execute(params_from_iter(values))?;
    }
    Ok(())
}

pub(crate) fn list(connection: &Connection, after: Option<KeyId>) -> rusqlite::Result<Page> {
    let after = after.map(|id| id.to_string()).unwrap_or_default();
    let select = "SELECT * FROM keys WHERE id > ? ORDER BY id LIMIT ?";
    let mut statement = connection.prepare_cached(select)?;
    let rows = statement.query_map(params![after, ROWS_MAX], read)?;
    let rows: Vec<Row> = rows.collect::<rusqlite::Result<_>>()?;
    let full = rows.len() >= usize::from(ROWS_MAX);
    let next = rows.last().map(|row| row.id).filter(|_| full);
    Ok(Page { rows, next, at: stands_at(connection, Name::Keys)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::id::Place;
    use events::key::{Issued, Revoked};
    use events::record::Shard;

    const AT: Instant = Instant(5);
    const HERE: Position = Position { shard: Shard(0), sequence: 7 };

    fn id() -> KeyId {
        KeyId::new(Place::default(), 1)
    }

    fn issued() -> Event {
        Event::Issued(Issued { name: "a".into(), role: Role::Runner, hash: Hash([3; 32]) })
    }

    fn row(revoked: Option<Instant>) -> Row {
        let (name, role, hash) = ("a".into(), Role::Runner, Hash([3; 32]));
        Row { id: id(), name, role, hash, issued: AT, revoked, last: HERE }
    }

    #[track_caller]
    fn check(given: &[Event], then: Option<&Row>) {
        let folded =
            given.iter().try_fold(None, |row, event| evolve(row, id(), event, AT, HERE).map(Some));
        assert_eq!(folded.ok().flatten().as_ref(), then);
    }

    #[test]
    fn an_issued_key_opens_until_it_is_revoked() {
        check(&[issued()], Some(&row(None)));
        check(&[issued(), Event::Revoked(Revoked {})], Some(&row(Some(AT))));
    }

    #[test]
    fn a_fact_out_of_order_is_not_folded() {
        check(&[Event::Revoked(Revoked {})], None);
        check(&[issued(), issued()], None);
        let revoked = Event::Revoked(Revoked {});
        check(&[issued(), revoked.clone(), revoked], None);
    }
}
