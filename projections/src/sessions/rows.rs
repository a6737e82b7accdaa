//! How sessions are kept and listed.

use super::{Row, evolve};
use crate::batch::Decoded;
use crate::column::{Cells, instant, marks, maybe, position, text};
use crate::reader::{page_rows, stands_at};
use crate::tables::Tables;
use crate::writer::FoldError;
use crate::{Mark, Name, Reach};
use events::aggregate::{Aggregate, IllegalEvent};
use events::catalogue::Fact;
use events::id::SessionId;
use events::session::Session;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

/// Which sessions to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// Only those of this project; `None` for any.
    pub project: Option<String>,
    /// Only those after this one: [`Page::next`] of the page before.
    pub before: Option<Mark<SessionId>>,
    /// Rows of the page, 1 to 200; zero means 200, and more is cut to it.
    pub limit: u16,
}

/// Some sessions, the most recently active first, then by id. One that becomes active while pages are turned moves to
/// the front, and is not met again further back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The sessions.
    pub rows: Vec<Row>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<Mark<SessionId>>,
    /// Where the rows stand in the log.
    pub at: Reach,
}

fn values(row: &Row) -> Vec<Value> {
    let number = |number: u32| Value::Integer(i64::from(number));
    let mut values = vec![
        text(row.id),
        text(&row.project),
        text(row.opened_by),
        maybe(row.parent, |(parent, _)| text(parent)),
        maybe(row.parent, |(_, at)| number(at)),
        maybe(row.title.as_ref(), text),
        number(row.messages),
        number(row.waiting),
        maybe(row.holder, text),
        maybe(row.closed, instant),
        instant(row.opened),
        instant(row.active),
    ];
    values.extend(position(row.last));
    values
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let mut cells = Cells::of(row);
    let (id, project, opened_by) = (cells.parse()?, cells.take()?, cells.actor()?);
    let parent: Option<SessionId> = cells.parse_maybe()?;
    let parent_at: Option<u32> = cells.take()?;
    Ok(Row {
        id,
        project,
        opened_by,
        parent: parent.zip(parent_at),
        title: cells.take()?,
        messages: cells.small()?,
        waiting: cells.small()?,
        holder: cells.parse_maybe()?,
        closed: cells.instant_maybe()?,
        opened: cells.instant()?,
        active: cells.instant()?,
        last: cells.position()?,
    })
}

fn kept(tables: Tables<'_>, id: &str) -> rusqlite::Result<Option<Row>> {
    let mut statement = tables.statement("SELECT * FROM {t}sessions WHERE id = ?")?;
    statement.query_row([id], read).optional()
}

pub(crate) fn fold(tables: Tables<'_>, commit: &Decoded, facts: &[Fact]) -> Result<(), FoldError> {
    let illegal = |event: &str| IllegalEvent {
        event: event.to_owned(),
        before: format!("the name of stream {}", commit.stream),
    };
    let id = Session::id(&commit.stream).ok_or_else(|| illegal("a commit"))?;
    let mut row = kept(tables, commit.stream.id())?;
    for fact in facts {
        row = Some(match fact {
            Fact::Session(event) => evolve(row, id, event, commit.at, commit.position)?,
            Fact::Run(_)
            | Fact::Key(_)
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
        let insert =
            format!("INSERT OR REPLACE INTO {{t}}sessions VALUES ({})", marks(values.len()));
        tables.statement(&insert)?.execute(params_from_iter(values))?;
    }
    Ok(())
}

pub(crate) fn one(connection: &Connection, id: SessionId) -> rusqlite::Result<Option<Row>> {
    kept(Tables::live(connection), &id.to_string())
}

pub(crate) fn list(connection: &Connection, query: &Query) -> rusqlite::Result<Page> {
    let before = query.before.map(|mark| mark.values());
    let limit = page_rows(query.limit);
    let project = query.project.as_ref();
    let condition = if project.is_some() { "project = ?" } else { "1" };
    let turned = if before.is_some() { "(active, id) < (?, ?)" } else { "1" };
    let values = project.map(text).into_iter().chain(before.into_iter().flatten());
    let values = values.chain([Value::Integer(i64::from(limit))]);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT * FROM sessions WHERE {condition} AND {turned} \
         ORDER BY active DESC, id DESC LIMIT ?"
    ))?;
    let rows = statement.query_map(params_from_iter(values), read)?;
    let rows: Vec<Row> = rows.collect::<rusqlite::Result<_>>()?;
    let full = rows.len() >= usize::from(limit);
    let next = rows.last().map(|row| Mark { at: row.active, id: row.id }).filter(|_| full);
    Ok(Page { rows, next, at: stands_at(connection, Name::Sessions)? })
}
