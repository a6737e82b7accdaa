//! One row a gate of a project, by the rules that decide: how it was declared last, its newest evidence, whom it lets
//! through by a waiver, and how often each was said. Depends on the project's own stream only.

use crate::batch::Decoded;
use crate::column::{Cells, packed, position, text};
use crate::reader::{ROWS_MAX, stands_at};
use crate::tables::Tables;
use crate::writer::FoldError;
use crate::{Name, Reach};
use events::aggregate::{Aggregate, IllegalEvent};
use events::catalogue::Fact;
use events::gate::{Event, Gate, Gates, State};
use events::project::Project;
use events::record::Position;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The number of this fold: raised by every change of what it makes of a fact.
pub const CODE: u32 = 1;

/// How often something was said of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct History {
    /// Declarations.
    pub declared: u64,
    /// Verdicts.
    pub evaluated: u64,
    /// Waivers.
    pub waived: u64,
}

/// One gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Whose.
    pub project: Project,
    /// Its name.
    pub name: String,
    /// How it stands.
    pub gate: Gate,
    /// How often something was said of it.
    pub history: History,
    /// Its newest commit.
    pub last: Position,
}

/// The gates by project and name, at most 200.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The gates.
    pub rows: Vec<Row>,
    /// Where the rows stand in the log.
    pub at: Reach,
}

/// Of which gate a fact tells.
fn named(event: &Event) -> &String {
    match event {
        Event::Declared(declared) => &declared.name,
        Event::Evaluated(evaluated) => &evaluated.name,
        Event::Waived(waived) => &waived.name,
    }
}

fn counted(before: History, event: &Event) -> History {
    let more = |count: u64| count.saturating_add(1);
    match event {
        Event::Declared(_) => History { declared: more(before.declared), ..before },
        Event::Evaluated(_) => History { evaluated: more(before.evaluated), ..before },
        Event::Waived(_) => History { waived: more(before.waived), ..before },
    }
}

fn values(row: &Row) -> rusqlite::Result<Vec<Value>> {
    let kept = packed(&(&row.gate, &row.history))?;
    let mut values = vec![text(row.project), text(&row.name), kept];
    values.extend(position(row.last));
    Ok(values)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let mut cells = Cells::of(row);
    let (project, name) = (cells.parse()?, cells.take()?);
    let (gate, history) = cells.packed()?;
    Ok(Row { project, name, gate, history, last: cells.position()? })
}

pub(crate) fn fold(tables: Tables<'_>, commit: &Decoded, facts: &[Fact]) -> Result<(), FoldError> {
    let illegal = |event: &str| IllegalEvent {
        event: event.to_owned(),
        before: format!("the rows of stream {}", commit.stream),
    };
    let project = Gates::id(&commit.stream).ok_or_else(|| illegal("a commit"))?;
    let mut statement = tables.statement("SELECT * FROM {t}gates WHERE project = ?")?;
    let found = statement.query_map([commit.stream.id()], read)?;
    let mut histories: BTreeMap<String, History> = BTreeMap::new();
    let mut state = State::default();
    for row in found {
        let row = row?;
        histories.insert(row.name.clone(), row.history);
        state.gates.insert(row.name, row.gate);
    }
    let mut touched: BTreeSet<&String> = BTreeSet::new();
    for fact in facts {
        let event = match fact {
            Fact::Gates(event) => event,
            Fact::Run(_)
            | Fact::Session(_)
            | Fact::Key(_)
            | Fact::Settings(_)
            | Fact::Credential(_)
            | Fact::Budget(_)
            | Fact::Grant(_)
            | Fact::Artifact(_)
            | Fact::Project(_)
            | Fact::Probe => return Err(illegal(fact.name()).into()),
        };
        // The rules that decide say how it stands, so that a list and they never disagree.
        state = Gates::evolve(state, event)?;
        let history = histories.entry(named(event).clone()).or_default();
        *history = counted(*history, event);
        touched.insert(named(event));
    }
    for name in touched {
        let Some(gate) = state.gates.remove(name) else { continue };
        let history = histories.get(name).copied().unwrap_or_default();
        let row = Row { project, name: name.clone(), gate, history, last: commit.position };
        let insert = "INSERT OR REPLACE INTO {t}gates VALUES (?, ?, ?, ?, ?)";
        tables.statement(insert)?.execute(params_from_iter(values(&row)?))?;
    }
    Ok(())
}

pub(crate) fn list(connection: &Connection) -> rusqlite::Result<Page> {
    let select = "SELECT * FROM gates ORDER BY project, gate LIMIT ?";
    let mut statement = connection.prepare_cached(select)?;
    let rows = statement.query_map([ROWS_MAX], read)?;
    let rows = rows.collect::<rusqlite::Result<_>>()?;
    Ok(Page { rows, at: stands_at(connection, Name::Gates)? })
}
