//! One row a tool call that went through the broker: where it stands, under which policy, and until when nobody may give
//! it up. Depends on the run's own stream only.

use crate::batch::Decoded;
use crate::column::{Cells, Word, instant, marks, maybe, position, text, unsigned, words};
use crate::numbered::{Numbered, Projects};
use crate::reader::{page_rows, stands_at};
use crate::tables::Tables;
use crate::writer::FoldError;
use crate::{Mark, Name, Reach};
use events::aggregate::{Aggregate, IllegalEvent};
use events::catalogue::Fact;
use events::id::RunId;
use events::quantity::Instant;
use events::record::Position;
use events::run::halt::Decider;
use events::run::ledger::{ToolAsked, ToolNo, ToolOutcome, correlation};
use events::run::mediated::Admission;
use events::run::rejection::Rejection;
use events::run::{Event, Run};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

/// The number of this fold: raised by every change of what it makes of a fact.
pub const CODE: u32 = 1;
/// The projects of runs.
const OPEN: &str = "invocations_open";

/// Where an invocation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It was admitted; nobody has said what came of it.
    Pending,
    /// It answered.
    Succeeded,
    /// The provider refused it, or it never left.
    Rejected,
    /// Nobody knows: its run needs reconciliation.
    Unknown,
    /// Somebody has given it up.
    Abandoned,
}

words!(Standing {
    Pending = "pending",
    Succeeded = "succeeded",
    Rejected = "rejected",
    Unknown = "unknown",
    Abandoned = "abandoned",
});

impl Standing {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Succeeded, Self::Rejected, Self::Unknown, Self::Abandoned];

    /// The word in filters.
    #[must_use]
    pub fn word(self) -> &'static str {
        Word::word(self)
    }
}

/// One invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Of which run, and which call of it.
    pub id: Numbered,
    /// What its caller named it, or what follows from the run and its number.
    pub correlation: u128,
    /// The run's project.
    pub project: String,
    /// The model-facing name.
    pub tool: String,
    /// The stage of the run.
    pub stage: String,
    /// Where it stands.
    pub standing: Standing,
    /// The class of a rejection, or why nobody knows.
    pub why: Option<String>,
    /// The policy that its run was queued with.
    pub policy_revision: u32,
    /// When it was admitted; invocations are listed in this order.
    pub asked: Instant,
    /// Since when it stands so, once it is not pending.
    pub settled: Option<Instant>,
    /// Nobody may give it up before then.
    pub lease_until: Instant,
    /// Who gave it up.
    pub by: Option<String>,
    /// Its newest commit.
    pub last: Position,
}

/// Which invocations to list.
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

/// Some invocations, the newest first, by the time at which they were admitted and then by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The invocations.
    pub rows: Vec<Row>,
    /// How many there are on all pages.
    pub count: u64,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<Mark<Numbered>>,
    /// Where the rows stand in the log.
    pub at: Reach,
}

fn opened(
    run: RunId,
    project: String,
    (event, admission): (&ToolAsked, &Admission),
    commit: &Decoded,
) -> Row {
    Row {
        id: Numbered { run, number: event.call.0 },
        correlation: admission.correlation.unwrap_or_else(|| correlation(run.unique(), event.call)),
        project,
        tool: event.name.clone(),
        stage: admission.stage.clone(),
        standing: Standing::Pending,
        why: None,
        policy_revision: admission.policy_revision,
        asked: commit.at,
        settled: None,
        lease_until: admission.lease_until,
        by: None,
        last: commit.position,
    }
}

/// What a fact says of which call: where it stands from then on, why, and who decided. Nothing where it settles none.
fn settles(event: &Event) -> Option<(ToolNo, Standing, Option<&'static str>, Option<String>)> {
    if let Event::ToolReceipt(receipt) = event {
        let (standing, why) = match receipt.outcome {
            ToolOutcome::Succeeded => (Standing::Succeeded, None),
            ToolOutcome::Failed => (Standing::Rejected, Some(Rejection::Other.word())),
            ToolOutcome::Rejected(class) => (Standing::Rejected, Some(class.word())),
        };
        return Some((receipt.call, standing, why, None));
    }
    if let Event::ToolUnknown(unknown) = event {
        return Some((unknown.call, Standing::Unknown, Some(unknown.reason.word()), None));
    }
    if let Event::ToolNotSent(unsent) = event {
        return Some((unsent.call, Standing::Rejected, Some(Rejection::Other.word()), None));
    }
    let Event::ToolReconciled(given_up) = event else { return None };
    let by = match given_up.by {
        Decider::Actor(actor) => actor.to_string(),
        Decider::Policy(revision) => format!("policy:{revision}"),
        Decider::Time => "time".to_owned(),
    };
    Some((given_up.call, Standing::Abandoned, None, Some(by)))
}

/// Whether one standing may follow another: an outcome follows the intent, and only what is unknown is given up.
const fn follows(before: Standing, after: Standing) -> bool {
    match after {
        Standing::Pending => false,
        Standing::Succeeded | Standing::Rejected | Standing::Unknown => {
            matches!(before, Standing::Pending)
        }
        Standing::Abandoned => matches!(before, Standing::Unknown),
    }
}

fn values(row: &Row) -> Vec<Value> {
    let mut values = vec![
        text(row.id),
        Value::Blob(row.correlation.to_be_bytes().to_vec()),
        text(&row.project),
        text(&row.tool),
        text(&row.stage),
        text(row.standing.word()),
        maybe(row.why.as_ref(), text),
        Value::Integer(i64::from(row.policy_revision)),
        instant(row.asked),
        maybe(row.settled, instant),
        instant(row.lease_until),
        maybe(row.by.as_ref(), text),
    ];
    values.extend(position(row.last));
    values
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let mut cells = Cells::of(row);
    Ok(Row {
        id: cells.parse()?,
        correlation: u128::from_be_bytes(cells.take()?),
        project: cells.take()?,
        tool: cells.take()?,
        stage: cells.take()?,
        standing: cells.word()?,
        why: cells.take()?,
        policy_revision: cells.small()?,
        asked: cells.instant()?,
        settled: cells.instant_maybe()?,
        lease_until: cells.instant()?,
        by: cells.take()?,
        last: cells.position()?,
    })
}

fn keep(tables: Tables<'_>, row: &Row) -> rusqlite::Result<()> {
    let values = values(row);
    let insert =
        format!("INSERT OR REPLACE INTO {{t}}invocations VALUES ({})", marks(values.len()));
    tables.statement(&insert)?.execute(params_from_iter(values)).map(drop)
}

fn kept(tables: Tables<'_>, id: Numbered) -> rusqlite::Result<Option<Row>> {
    let mut statement = tables.statement("SELECT * FROM {t}invocations WHERE id = ?")?;
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
        } else if let Event::ToolAsked(asked) = &**event {
            let Some(admission) = &asked.admission else { continue };
            let project = projects.of(run)?;
            let project = project.ok_or_else(|| illegal(event.name(), "no open run"))?;
            keep(tables, &opened(run, project, (asked, admission), commit))?;
        } else if let Some((call, standing, why, by)) = settles(event) {
            // Most calls go through no broker and have no row.
            let Some(row) = kept(tables, Numbered { run, number: call.0 })? else { continue };
            if !follows(row.standing, standing) {
                return Err(illegal(event.name(), row.standing.word()).into());
            }
            let (why, settled) = (why.map(str::to_owned).or(row.why), Some(commit.at));
            keep(tables, &Row { standing, why, by, settled, last: commit.position, ..row })?;
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
    filter("state = ?", query.standing.map(|standing| text(standing.word())));
    filter("project = ?", query.project.as_ref().map(text));
    filters.push("1");
    let all = filters.join(" AND ");
    let mut statement =
        connection.prepare_cached(&format!("SELECT COUNT(*) FROM invocations WHERE {all}"))?;
    let count: i64 = statement.query_row(params_from_iter(values.clone()), |row| row.get(0))?;

    let before = query.before.map(|mark| mark.values());
    let turned = if before.is_some() { "(asked, id) < (?, ?)" } else { "1" };
    values.extend(before.into_iter().flatten());
    let limit = page_rows(query.limit);
    values.push(Value::Integer(i64::from(limit)));
    let mut statement = connection.prepare_cached(&format!(
        "SELECT * FROM invocations WHERE {all} AND {turned} ORDER BY asked DESC, id DESC LIMIT ?"
    ))?;
    let rows = statement.query_map(params_from_iter(values), read)?;
    let rows: Vec<Row> = rows.collect::<rusqlite::Result<_>>()?;
    let full = rows.len() >= usize::from(limit);
    let next = rows.last().map(|row| Mark { at: row.asked, id: row.id }).filter(|_| full);
    Ok(Page { rows, count: unsigned(count), next, at: stands_at(connection, Name::Invocations)? })
}

#[cfg(test)]
mod tests;
