//! One row a hold of a run: what was asked, until when, and who answered. The inbox of whoever approves. Depends on the
//! run's own stream only.
//!
//! A list may be behind: whoever answers is judged by the run's owner, and the first answer wins there.

use crate::batch::Decoded;
use crate::column::{Cells, Word, instant, marks, maybe, position, signed, text, unsigned, words};
use crate::numbered::{Numbered, Projects};
use crate::reader::{page_rows, stands_at};
use crate::tables::Tables;
use crate::writer::FoldError;
use crate::{Mark, Name, Reach};
use events::aggregate::{Aggregate, IllegalEvent};
use events::catalogue::Fact;
use events::id::RunId;
use events::quantity::Instant;
use events::record::{Actor, Hash, Position};
use events::run::approval::{ApprovalAsked, ApprovalResolved, Resolution};
use events::run::{Event, Run};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

/// The number of this fold: raised by every change of what it makes of a fact.
pub const CODE: u32 = 1;
/// Bytes of a hold's arguments that a row keeps (4 KiB): enough to see what it is about, and a page stays small.
pub const ARGUMENTS_BYTES_MAX: usize = 4 << 10;
/// The projects of runs.
const OPEN: &str = "approvals_open";

/// Where a hold stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Nobody has answered.
    Waiting,
    /// The call may run.
    Approved,
    /// It may not.
    Denied,
    /// Nobody answered in time.
    Expired,
    /// The run ended first.
    Voided,
    /// It could not run any more.
    Orphaned,
}

words!(Standing {
    Waiting = "waiting",
    Approved = "approved",
    Denied = "denied",
    Expired = "expired",
    Voided = "voided",
    Orphaned = "orphaned",
});

impl Standing {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Approved, Self::Denied, Self::Expired, Self::Voided, Self::Orphaned];

    /// The word in filters.
    #[must_use]
    pub fn word(self) -> &'static str {
        Word::word(self)
    }

    const fn of(resolution: &Resolution) -> Self {
        match resolution {
            Resolution::Approved { .. } => Self::Approved,
            Resolution::Denied { .. } => Self::Denied,
            Resolution::Expired => Self::Expired,
            Resolution::Voided => Self::Voided,
            Resolution::Orphaned { .. } => Self::Orphaned,
        }
    }
}

/// One hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Of which run, and which of it.
    pub id: Numbered,
    /// The run's project.
    pub project: String,
    /// The model-facing name.
    pub tool: String,
    /// Names the tool with its arguments; an answer may be bound to it.
    pub subject: Hash,
    /// Canonical arguments, at most [`ARGUMENTS_BYTES_MAX`] of them.
    pub arguments: String,
    /// How many bytes they have in full.
    pub arguments_bytes: u64,
    /// When it was asked; holds are listed in this order.
    pub asked: Instant,
    /// Without an answer it is denied then.
    pub until: Instant,
    /// Where it stands.
    pub standing: Standing,
    /// Since when it does, once it does not wait.
    pub answered: Option<Instant>,
    /// Who answered; nobody where a time passed or the run ended.
    pub by: Option<Actor>,
    /// Its newest commit.
    pub last: Position,
}

/// Which holds to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// Only those that stand so.
    pub standing: Option<Standing>,
    /// Only those of this project.
    pub project: Option<String>,
    /// Only those after this one: [`Page::next`] of the page before.
    pub before: Option<Mark<Numbered>>,
    /// Rows of the page, 1 to 200; zero means 200, and more is cut to it.
    pub limit: u16,
}

/// Some holds, the newest first, by the time at which they were asked and then by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The holds.
    pub rows: Vec<Row>,
    /// How many there are on all pages.
    pub count: u64,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<Mark<Numbered>>,
    /// Where the rows stand in the log.
    pub at: Reach,
}

/// The first bytes of a text, ending with a whole character.
fn cut(whole: &str) -> &str {
    let end =
        (0..=ARGUMENTS_BYTES_MAX.min(whole.len())).rev().find(|at| whole.is_char_boundary(*at));
    end.and_then(|end| whole.get(..end)).unwrap_or_default()
}

fn opened(run: RunId, project: String, event: &ApprovalAsked, commit: &Decoded) -> Row {
    let whole = event.arguments.as_str();
    Row {
        id: Numbered { run, number: event.approval.0 },
        project,
        tool: event.name.clone(),
        subject: event.subject,
        arguments: cut(whole).to_owned(),
        arguments_bytes: u64::try_from(whole.len()).unwrap_or(u64::MAX),
        asked: commit.at,
        until: event.until,
        standing: Standing::Waiting,
        answered: None,
        by: None,
        last: commit.position,
    }
}

/// It was answered, or nobody will; a hold is answered once.
fn closed(row: Row, event: &ApprovalResolved, commit: &Decoded) -> Option<Row> {
    let standing = Standing::of(&event.resolution);
    let (answered, by, last) = (Some(commit.at), event.by, commit.position);
    (row.standing == Standing::Waiting).then_some(Row { standing, answered, by, last, ..row })
}

fn values(row: &Row) -> Vec<Value> {
    let mut values = vec![
        text(row.id),
        text(&row.project),
        text(&row.tool),
        Value::Blob(row.subject.0.to_vec()),
        text(&row.arguments),
        Value::Integer(signed(row.arguments_bytes)),
        instant(row.asked),
        instant(row.until),
        text(row.standing.word()),
        maybe(row.answered, instant),
        maybe(row.by, text),
    ];
    values.extend(position(row.last));
    values
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let mut cells = Cells::of(row);
    Ok(Row {
        id: cells.parse()?,
        project: cells.take()?,
        tool: cells.take()?,
        subject: Hash(cells.take()?),
        arguments: cells.take()?,
        arguments_bytes: cells.unsigned()?,
        asked: cells.instant()?,
        until: cells.instant()?,
        standing: cells.word()?,
        answered: cells.instant_maybe()?,
        by: cells.actor_maybe()?,
        last: cells.position()?,
    })
}

fn keep(tables: Tables<'_>, row: &Row) -> rusqlite::Result<()> {
    let values = values(row);
    let insert = format!("INSERT OR REPLACE INTO {{t}}approvals VALUES ({})", marks(values.len()));
    tables.statement(&insert)?.execute(params_from_iter(values)).map(drop)
}

fn kept(tables: Tables<'_>, id: Numbered) -> rusqlite::Result<Option<Row>> {
    let mut statement = tables.statement("SELECT * FROM {t}approvals WHERE id = ?")?;
    statement.query_row([id.to_string()], read).optional()
}

pub(crate) fn fold(tables: Tables<'_>, commit: &Decoded, facts: &[Fact]) -> Result<(), FoldError> {
    let illegal = |event: &str, before: &str| IllegalEvent {
        event: event.to_owned(),
        before: format!("{before} of stream {}", commit.stream),
    };
    let run = Run::id(&commit.stream).ok_or_else(|| illegal("a commit", "the name"))?;
    let projects = Projects { tables, table: OPEN };
    for fact in facts {
        let Fact::Run(event) = fact else {
            return Err(illegal(fact.name(), "the name").into());
        };
        if let Event::Queued(queued) = &**event {
            projects.begin(run, &queued.spec.project)?;
        } else if let Event::Finished(_) = &**event {
            projects.end(run)?;
        } else if let Event::ApprovalAsked(asked) = &**event {
            let project = projects.of(run)?;
            let project = project.ok_or_else(|| illegal(event.name(), "no open run"))?;
            keep(tables, &opened(run, project, asked, commit))?;
        } else if let Event::ApprovalResolved(done) = &**event {
            let before = kept(tables, Numbered { run, number: done.approval.0 })?;
            let row = before.and_then(|row| closed(row, done, commit));
            keep(tables, &row.ok_or_else(|| illegal(event.name(), "no waiting hold"))?)?;
        }
    }
    Ok(())
}

pub(crate) fn list(connection: &Connection, query: &Query) -> rusqlite::Result<Page> {
    let mut filters = vec![];
    let mut values = vec![];
    let mut filter = |condition, value: Option<Value>| {
        if let Some(value) = value {
            filters.push(condition);
            values.push(value);
        }
    };
    filter("status = ?", query.standing.map(|standing| text(standing.word())));
    filter("project = ?", query.project.as_ref().map(text));
    filters.push("1");
    let all = filters.join(" AND ");
    let mut statement =
        connection.prepare_cached(&format!("SELECT COUNT(*) FROM approvals WHERE {all}"))?;
    let count: i64 = statement.query_row(params_from_iter(values.clone()), |row| row.get(0))?;

    let before = query.before.map(|mark| mark.values());
    let turned = if before.is_some() { "(asked, id) < (?, ?)" } else { "1" };
    values.extend(before.into_iter().flatten());
    let limit = page_rows(query.limit);
    values.push(Value::Integer(i64::from(limit)));
    let mut statement = connection.prepare_cached(&format!(
        "SELECT * FROM approvals WHERE {all} AND {turned} ORDER BY asked DESC, id DESC LIMIT ?"
    ))?;
    let rows = statement.query_map(params_from_iter(values), read)?;
    let rows: Vec<Row> = rows.collect::<rusqlite::Result<_>>()?;
    let full = rows.len() >= usize::from(limit);
    let next = rows.last().map(|row| Mark { at: row.asked, id: row.id }).filter(|_| full);
    Ok(Page { rows, count: unsigned(count), next, at: stands_at(connection, Name::Approvals)? })
}

#[cfg(test)]
mod tests;
