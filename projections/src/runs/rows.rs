//! How runs are kept and listed.

use super::{End, Kept, Phase, Row, Standing, When, evolve};
use crate::batch::Decoded;
use crate::calls::Served;
use crate::column::{Cells, Word, instant, marks, maybe, packed, position, text, totals, unsigned};
use crate::reader::{page_rows, stands_at};
use crate::tables::Tables;
use crate::writer::FoldError;
use crate::{Mark, Name, Reach};
use events::aggregate::{Aggregate, IllegalEvent};
use events::catalogue::Fact;
use events::id::{RunId, SessionId};
use events::quantity::Instant;
use events::run::Run;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

/// Which runs to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// Only those that stand so; `None` for any.
    pub standing: Option<Standing>,
    /// Only those of this session.
    pub session: Option<SessionId>,
    /// Only those of this project.
    pub project: Option<String>,
    /// Only those that were queued then or later.
    pub since: Option<Instant>,
    /// Only those after this one: [`Page::next`] of the page before.
    pub before: Option<Mark<RunId>>,
    /// Rows of the page, 1 to 200; zero means 200, and more is cut to it.
    pub limit: u16,
}

/// Some runs, newest first, by the time at which they were queued and then by id. Their order never changes, so going
/// through all pages shows each run once. One that another shard hands over late is where its time belongs: perhaps on
/// a page that was turned already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The runs.
    pub rows: Vec<Row>,
    /// How many there are on all pages.
    pub count: u64,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<Mark<RunId>>,
    /// Where the rows stand in the log.
    pub at: Reach,
}

fn served(served: Option<&Served>) -> [Value; 2] {
    [maybe(served, |served| text(&served.provider)), maybe(served, |served| text(&served.model))]
}

fn values(kept: &Kept) -> rusqlite::Result<Vec<Value>> {
    let row = &kept.row;
    let (until, end) = match &row.phase {
        Phase::WaitingForClient { until } | Phase::WaitingForApproval { until } => {
            (Some(*until), None)
        }
        Phase::Paused { until } => (*until, None),
        Phase::Ended(end) => (None, Some(end)),
        Phase::Queued | Phase::Running | Phase::NeedsReconciliation => (None, None),
    };
    let reason = end.map(|end| packed(&end.reason)).transpose()?;
    let calls = match end {
        Some(_) => Value::Null,
        None => packed(&kept.calls)?,
    };
    let mut values = vec![
        text(row.id),
        maybe(row.session, text),
        text(&row.project),
        text(row.caller),
        text(row.plane.word()),
        text(row.phase.standing().word()),
        maybe(until, instant),
        maybe(end, |end| text(end.outcome.word())),
        reason.unwrap_or(Value::Null),
        maybe(end, |end| text(&end.detail)),
        maybe(end, |end| instant(end.at)),
    ];
    values.extend(served(row.primary.as_ref()));
    values.extend(served(row.served.as_ref()));
    values.extend([instant(row.created), maybe(row.started, instant)]);
    let counts = [row.steps, row.model_calls, row.tools_asked, row.tools_unknown];
    values.extend(counts.map(|count| Value::Integer(i64::from(count))));
    values.extend(totals(&row.total));
    values.extend(position(row.opened));
    values.extend(position(row.last));
    values.push(calls);
    Ok(values)
}

fn served_of(cells: &mut Cells<'_>) -> rusqlite::Result<Option<Served>> {
    let provider: Option<String> = cells.take()?;
    let model: Option<String> = cells.take()?;
    Ok(provider.zip(model).map(|(provider, model)| Served { provider, model }))
}

/// The phase, from its word to the time of the end.
fn phase_of(cells: &mut Cells<'_>) -> rusqlite::Result<Phase> {
    let standing: Standing = cells.word()?;
    let named = cells.instant_maybe()?;
    let until = named.unwrap_or_default();
    let (outcome, reason) = (cells.word_maybe()?, cells.packed_maybe()?);
    let detail: Option<String> = cells.take()?;
    let finished = cells.instant_maybe()?;
    Ok(match (standing, outcome.zip(reason).zip(finished)) {
        (Standing::Ended, Some(((outcome, reason), at))) => {
            Phase::Ended(End { outcome, reason, detail: detail.unwrap_or_default(), at })
        }
        (Standing::Queued, _) => Phase::Queued,
        (Standing::Running, _) => Phase::Running,
        (Standing::WaitingForClient, _) => Phase::WaitingForClient { until },
        (Standing::WaitingForApproval, _) => Phase::WaitingForApproval { until },
        (Standing::Paused, _) => Phase::Paused { until: named },
        (Standing::NeedsReconciliation, _) => Phase::NeedsReconciliation,
        (Standing::Ended, None) => return Err(cells.stray("an end without its reason")),
    })
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Kept> {
    let mut cells = Cells::of(row);
    let row = Row {
        id: cells.parse()?,
        session: cells.parse_maybe()?,
        project: cells.take()?,
        caller: cells.actor()?,
        plane: cells.word()?,
        phase: phase_of(&mut cells)?,
        primary: served_of(&mut cells)?,
        served: served_of(&mut cells)?,
        created: cells.instant()?,
        started: cells.instant_maybe()?,
        steps: cells.small()?,
        model_calls: cells.small()?,
        tools_asked: cells.small()?,
        tools_unknown: cells.small()?,
        total: cells.total()?,
        opened: cells.position()?,
        last: cells.position()?,
    };
    Ok(Kept { row, calls: cells.packed_maybe()?.unwrap_or_default() })
}

fn kept(tables: Tables<'_>, id: &str) -> rusqlite::Result<Option<Kept>> {
    let mut statement = tables.statement("SELECT * FROM {t}runs WHERE id = ?")?;
    statement.query_row([id], read).optional()
}

pub(crate) fn fold(tables: Tables<'_>, commit: &Decoded, facts: &[Fact]) -> Result<(), FoldError> {
    let illegal = |event: &str| IllegalEvent {
        event: event.to_owned(),
        before: format!("the name of stream {}", commit.stream),
    };
    let id = Run::id(&commit.stream).ok_or_else(|| illegal("a commit"))?;
    let when = When { at: commit.at, position: commit.position };
    let mut row = kept(tables, commit.stream.id())?;
    for fact in facts {
        row = Some(match fact {
            Fact::Run(event) => evolve(row, id, event, when)?,
            Fact::Session(_)
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
        let values = values(row)?;
        let insert = format!("INSERT OR REPLACE INTO {{t}}runs VALUES ({})", marks(values.len()));
        tables.statement(&insert)?.execute(params_from_iter(values))?;
    }
    Ok(())
}

pub(crate) fn one(connection: &Connection, id: RunId) -> rusqlite::Result<Option<Row>> {
    Ok(kept(Tables::live(connection), &id.to_string())?.map(|kept| kept.row))
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
    filter("phase = ?", query.standing.map(|standing| text(standing.word())));
    filter("session = ?", query.session.map(text));
    filter("project = ?", query.project.as_ref().map(text));
    filter("created >= ?", query.since.map(instant));
    filters.push("1");
    let all = filters.join(" AND ");
    let mut statement =
        connection.prepare_cached(&format!("SELECT COUNT(*) FROM runs WHERE {all}"))?;
    let count: i64 = statement.query_row(params_from_iter(values.clone()), |row| row.get(0))?;

    let before = query.before.map(|mark| mark.values());
    let turned = if before.is_some() { "(created, id) < (?, ?)" } else { "1" };
    values.extend(before.into_iter().flatten());
    let limit = page_rows(query.limit);
    values.push(Value::Integer(i64::from(limit)));
    let mut statement = connection.prepare_cached(&format!(
        "SELECT * FROM runs WHERE {all} AND {turned} ORDER BY created DESC, id DESC LIMIT ?"
    ))?;
    let read = statement.query_map(params_from_iter(values), |row| Ok(read(row)?.row))?;
    let rows: Vec<Row> = read.collect::<rusqlite::Result<_>>()?;
    let full = rows.len() >= usize::from(limit);
    let next = rows.last().map(|row| Mark { at: row.created, id: row.id }).filter(|_| full);
    let at = stands_at(connection, Name::Runs)?;
    Ok(Page { rows, count: unsigned(count), next, at })
}
