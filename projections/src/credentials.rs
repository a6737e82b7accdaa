//! One row a profile of a provider: how it fares by the rules that decide, and what happened to it so far. No secret is
//! in any of it. Depends on the provider's own stream only.

use crate::batch::Decoded;
use crate::column::{Cells, packed, position, text};
use crate::reader::{ROWS_MAX, stands_at};
use crate::tables::Tables;
use crate::writer::FoldError;
use crate::{Name, Reach};
use events::aggregate::{Aggregate, IllegalEvent};
use events::catalogue::Fact;
use events::credential::{Credential, Event, Profile, ProviderId, State};
use events::model_call::Class;
use events::quantity::Instant;
use events::record::Position;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The number of this fold: raised by every change of what it makes of a fact.
pub const CODE: u32 = 1;

/// What happened to a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct History {
    /// When it was added, the last time.
    pub added: Instant,
    /// When it was removed; it is not used since.
    pub removed: Option<Instant>,
    /// How often its secret was changed.
    pub rotated: u64,
    /// How often it was left alone.
    pub cooled: u64,
    /// How often a 401 was seen.
    pub struck: u64,
    /// How often it was given up.
    pub died: u64,
    /// How often it was used again.
    pub revived: u64,
    /// How often its token was had anew.
    pub refreshed: u64,
    /// How often that failed, or nobody knows whether it did.
    pub refresh_failed: u64,
    /// The newest failure that changed something, and when.
    pub failed: Option<(Class, Instant)>,
}

/// One profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Whose.
    pub provider: ProviderId,
    /// Its name.
    pub name: String,
    /// How it fares; none where it was removed.
    pub profile: Option<Profile>,
    /// What happened to it.
    pub history: History,
    /// Its newest commit.
    pub last: Position,
}

/// The profiles by provider and name, at most 200.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The profiles.
    pub rows: Vec<Row>,
    /// Where the rows stand in the log.
    pub at: Reach,
}

/// Of which profile a fact tells.
fn named(event: &Event) -> &str {
    match event {
        Event::Added(added) => &added.profile,
        Event::Rotated(rotated) => &rotated.profile,
        Event::Removed(removed) => &removed.profile,
        Event::Cooled(cooled) => &cooled.profile,
        Event::Probed(probed) => &probed.profile,
        Event::Recovered(recovered) => &recovered.profile,
        Event::Struck(struck) => &struck.profile,
        Event::Died(died) => &died.profile,
        Event::Revived(revived) => &revived.profile,
        Event::Refreshing(refreshing) => &refreshing.profile,
        Event::Refreshed(refreshed) => &refreshed.profile,
        Event::RefreshFailed(failed) => &failed.profile,
        Event::RefreshLost(lost) => &lost.profile,
    }
}

/// One fact more.
fn evolve(before: History, event: &Event, at: Instant) -> History {
    let more = |count: u64| count.saturating_add(1);
    match event {
        Event::Added(_) => History { added: at, removed: None, ..before },
        Event::Rotated(_) => History { rotated: more(before.rotated), ..before },
        Event::Removed(_) => History { removed: Some(at), ..before },
        Event::Cooled(cooled) => {
            History { cooled: more(before.cooled), failed: Some((cooled.class, at)), ..before }
        }
        Event::Struck(struck) => {
            History { struck: more(before.struck), failed: Some((struck.class, at)), ..before }
        }
        Event::Died(_) => History { died: more(before.died), ..before },
        Event::Revived(_) => History { revived: more(before.revived), ..before },
        Event::Refreshed(_) => History { refreshed: more(before.refreshed), ..before },
        Event::RefreshFailed(_) | Event::RefreshLost(_) => {
            History { refresh_failed: more(before.refresh_failed), ..before }
        }
        Event::Probed(_) | Event::Recovered(_) | Event::Refreshing(_) => before,
    }
}

fn values(row: &Row) -> rusqlite::Result<Vec<Value>> {
    let kept = packed(&(&row.profile, &row.history))?;
    let mut values = vec![text(row.provider), text(&row.name), kept];
    values.extend(position(row.last));
    Ok(values)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let mut cells = Cells::of(row);
    let (provider, name) = (cells.parse()?, cells.take()?);
    let (profile, history) = cells.packed_maybe()?.unwrap_or_default();
    Ok(Row { provider, name, profile, history, last: cells.position()? })
}

pub(crate) fn fold(tables: Tables<'_>, commit: &Decoded, facts: &[Fact]) -> Result<(), FoldError> {
    let illegal = |event: &str| IllegalEvent {
        event: event.to_owned(),
        before: format!("the name of stream {}", commit.stream),
    };
    let provider = Credential::id(&commit.stream).ok_or_else(|| illegal("a commit"))?;
    let mut statement = tables.statement("SELECT * FROM {t}credentials WHERE provider = ?")?;
    let found = statement.query_map([commit.stream.id()], read)?;
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for row in found {
        let row = row?;
        rows.insert(row.name.clone(), row);
    }
    let alive = rows.iter().filter_map(|(name, row)| Some((name.clone(), row.profile.clone()?)));
    let mut state = State { profiles: alive.collect() };
    let mut touched: BTreeMap<String, Row> = BTreeMap::new();
    for fact in facts {
        let event = match fact {
            Fact::Credential(event) => event,
            Fact::Run(_)
            | Fact::Session(_)
            | Fact::Key(_)
            | Fact::Settings(_)
            | Fact::Budget(_)
            | Fact::Grant(_)
            | Fact::Gates(_)
            | Fact::Artifact(_)
            | Fact::Project(_)
            | Fact::Probe => return Err(illegal(fact.name()).into()),
        };
        // The rules that decide say how it fares, so that a list and they never disagree.
        state = Credential::evolve(state, event)?;
        let name = named(event).to_owned();
        let before = touched.remove(&name).or_else(|| rows.remove(&name));
        let history = before.map(|row| row.history).unwrap_or_default();
        let (profile, history) =
            (state.profiles.get(&name).cloned(), evolve(history, event, commit.at));
        let row = Row { provider, name: name.clone(), profile, history, last: commit.position };
        touched.insert(name, row);
    }
    for row in touched.values() {
        let insert = "INSERT OR REPLACE INTO {t}credentials VALUES (?, ?, ?, ?, ?)";
        tables.statement(insert)?.execute(params_from_iter(values(row)?))?;
    }
    Ok(())
}

pub(crate) fn list(connection: &Connection) -> rusqlite::Result<Page> {
    let select = "SELECT * FROM credentials ORDER BY provider, profile LIMIT ?";
    let mut statement = connection.prepare_cached(select)?;
    let rows = statement.query_map([ROWS_MAX], read)?;
    let rows = rows.collect::<rusqlite::Result<_>>()?;
    Ok(Page { rows, at: stands_at(connection, Name::Credentials)? })
}
