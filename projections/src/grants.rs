//! One row a standing grant: what it covers, and whether it was taken back. Depends on the project's own stream only.

use crate::batch::Decoded;
use crate::column::{Cells, packed, position, text};
use crate::reader::{ROWS_MAX, stands_at};
use crate::tables::Tables;
use crate::writer::FoldError;
use crate::{Name, Reach};
use events::aggregate::{Aggregate, IllegalEvent};
use events::catalogue::Fact;
use events::grant::{Event, Grant, GrantId, Granted};
use events::project::Project;
use events::quantity::Instant;
use events::record::{Actor, Position};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

/// The number of this fold: raised by every change of what it makes of a fact.
pub const CODE: u32 = 1;

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Whose.
    pub project: Project,
    /// What was granted.
    pub granted: Granted,
    /// Who took it back, and when.
    pub revoked: Option<(Actor, Instant)>,
    /// Its newest commit.
    pub last: Position,
}

impl Row {
    /// Whether it covers calls then.
    #[must_use]
    pub fn stands(&self, now: Instant) -> bool {
        self.revoked.is_none() && self.granted.until.is_none_or(|until| now < until)
    }
}

/// The grants by project and id, at most 200.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The grants.
    pub rows: Vec<Row>,
    /// Where the rows stand in the log.
    pub at: Reach,
}

fn values(row: &Row) -> rusqlite::Result<Vec<Value>> {
    let kept = packed(&(&row.granted, &row.revoked))?;
    let mut values = vec![text(row.project), text(row.granted.id), kept];
    values.extend(position(row.last));
    Ok(values)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let mut cells = Cells::of(row);
    let (project, _id): (Project, GrantId) = (cells.parse()?, cells.parse()?);
    let (granted, revoked) = cells.packed()?;
    Ok(Row { project, granted, revoked, last: cells.position()? })
}

pub(crate) fn fold(tables: Tables<'_>, commit: &Decoded, facts: &[Fact]) -> Result<(), FoldError> {
    let illegal = |event: &str| IllegalEvent {
        event: event.to_owned(),
        before: format!("the rows of stream {}", commit.stream),
    };
    let project = Grant::id(&commit.stream).ok_or_else(|| illegal("a commit"))?;
    for fact in facts {
        let event = match fact {
            Fact::Grant(event) => event,
            Fact::Run(_)
            | Fact::Session(_)
            | Fact::Key(_)
            | Fact::Settings(_)
            | Fact::Credential(_)
            | Fact::Budget(_)
            | Fact::Gates(_)
            | Fact::Artifact(_)
            | Fact::Project(_)
            | Fact::Probe => return Err(illegal(fact.name()).into()),
        };
        let row = match event {
            Event::Granted(granted) => {
                let (granted, last) = (granted.clone(), commit.position);
                Row { project, granted, revoked: None, last }
            }
            Event::Revoked(revoked) => {
                let select = "SELECT * FROM {t}grants WHERE project = ? AND grant_id = ?";
                let of = [project.to_string(), revoked.id.to_string()];
                let found = tables.statement(select)?.query_row(of, read).optional()?;
                let before = found.ok_or_else(|| illegal(fact.name()))?;
                let revoked = Some((revoked.by, commit.at));
                Row { revoked, last: commit.position, ..before }
            }
        };
        let insert = "INSERT OR REPLACE INTO {t}grants VALUES (?, ?, ?, ?, ?)";
        tables.statement(insert)?.execute(params_from_iter(values(&row)?))?;
    }
    Ok(())
}

pub(crate) fn list(connection: &Connection) -> rusqlite::Result<Page> {
    let select = "SELECT * FROM grants ORDER BY project, grant_id LIMIT ?";
    let mut statement = connection.prepare_cached(select)?;
    let rows = statement.query_map([ROWS_MAX], read)?;
    let rows = rows.collect::<rusqlite::Result<_>>()?;
    Ok(Page { rows, at: stands_at(connection, Name::Grants)? })
}
