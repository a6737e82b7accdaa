//! How sums are kept and asked for.

use super::{
    By, DAY_MICROS, Day, Fallback, Key, Line, MINUTE_MICROS, Open, Summary, Totals,
    WINDOW_HOURS_MAX, evolve, profile,
};
use crate::Name;
use crate::batch::Decoded;
use crate::calls::Served;
use crate::column::{Cells, marks, packed, text, totals, totals_sum, totals_upsert};
use crate::reader::{ROWS_MAX, stands_at};
use crate::tables::Tables;
use crate::writer::FoldError;
use events::aggregate::IllegalEvent;
use events::catalogue::Fact;
use events::id::RunId;
use events::quantity::Instant;
use events::usage::Total;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

fn open(tables: Tables<'_>, run: &str) -> rusqlite::Result<Option<Open>> {
    let select = "SELECT project, caller, role, phase, pending FROM {t}usage_open WHERE run = ?";
    let read = |row: &rusqlite::Row<'_>| {
        let mut cells = Cells::of(row);
        let (project, caller) = (cells.take()?, cells.actor()?);
        let (role, phase) = (cells.take()?, cells.take()?);
        let calls = cells.packed_maybe()?.unwrap_or_default();
        Ok(Open { project, caller, role, phase, calls })
    };
    tables.statement(select)?.query_row([run], read).optional()
}

fn keep(tables: Tables<'_>, run: &str, open: Option<&Open>) -> rusqlite::Result<()> {
    let Some(open) = open else {
        tables.statement("DELETE FROM {t}usage_open WHERE run = ?")?.execute([run])?;
        return Ok(());
    };
    let calls = packed(&open.calls)?;
    let mut insert =
        tables.statement("INSERT OR REPLACE INTO {t}usage_open VALUES (?, ?, ?, ?, ?, ?)")?;
    let caller = open.caller.to_string();
    insert.execute(params![run, open.project, caller, open.role, open.phase, calls])?;
    Ok(())
}

fn add(
    tables: Tables<'_>,
    table: &str,
    key: impl IntoIterator<Item = Value>,
    total: &Total,
) -> rusqlite::Result<()> {
    let values: Vec<Value> = key.into_iter().chain(totals(total)).collect();
    let upsert = format!(
        "INSERT INTO {{t}}{table} VALUES ({}) ON CONFLICT DO UPDATE SET {}",
        marks(values.len()),
        totals_upsert()
    );
    tables.statement(&upsert)?.execute(params_from_iter(values))?;
    Ok(())
}

pub(crate) fn fold(tables: Tables<'_>, commit: &Decoded, facts: &[Fact]) -> Result<(), FoldError> {
    let run = commit.stream.id();
    let mut now = open(tables, run)?;
    for fact in facts {
        let event = match fact {
            Fact::Run(event) => event,
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
                let before = format!("the name of stream {}", commit.stream);
                return Err(IllegalEvent { event: fact.name().to_owned(), before }.into());
            }
        };
        let owner = now.as_ref().map(|open| {
            let phase = text(open.phase.as_deref().unwrap_or_default());
            [text(&open.project), text(open.caller), text(&open.role), phase]
        });
        let step = evolve(now, event)?;
        now = step.open;
        if let (Some((served, settled)), Some([project, caller, role, phase])) =
            (step.settled, owner)
        {
            let mut total = Total::default();
            settled.count(&mut total);
            if let Some((meant, reason)) = step.instead_of {
                fell_back(tables, [&meant, &served], [&role, &text(reason)], commit.at)?;
            }
            if let Some(profile) = profile(event) {
                let of_profile = [text(&served.provider), text(profile)];
                add(tables, "usage_profiles", of_profile, &total)?;
            }
            let (provider, model) = (text(served.provider), text(served.model));
            let (day, minute) = (Day::of(commit.at).0, commit.at.0.div_euclid(MINUTE_MICROS));
            let (day, minute) = (Value::Integer(day), Value::Integer(minute));
            let what = [provider, model, role, phase];
            let [provider, model, role, phase] = what.clone();
            let of_day = [day, project, provider, model, caller, role, phase];
            let of = |first: Value| std::iter::once(first).chain(what.clone());
            add(tables, "usage_runs", of(text(run)), &total)?;
            add(tables, "usage_days", of_day, &total)?;
            add(tables, "usage_minutes", of(minute), &total)?;
        }
    }
    keep(tables, run, now.as_ref())?;
    Ok(())
}

/// Commutative: a count, and the newest of the times.
fn fell_back(
    tables: Tables<'_>,
    [primary, fallback]: [&Served; 2],
    [role, reason]: [&Value; 2],
    at: Instant,
) -> rusqlite::Result<()> {
    let upsert = "INSERT INTO {t}usage_fallbacks VALUES (?, ?, ?, ?, ?, ?, 1, ?) ON CONFLICT DO UPDATE \
                  SET count = count + 1, last = MAX(last, excluded.last)";
    let (Served { provider, model }, by) = (primary, fallback);
    let row = params![provider, model, by.provider, by.model, role, reason, at.0];
    tables.statement(upsert)?.execute(row)?;
    Ok(())
}

/// Every pair with its role and reason, the newest first.
pub(crate) fn fallbacks(connection: &Connection) -> rusqlite::Result<Vec<Fallback>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT * FROM usage_fallbacks ORDER BY last DESC, 1, 2, 3, 4, 5, 6 LIMIT {ROWS_MAX}"
    ))?;
    let read = |row: &rusqlite::Row<'_>| {
        let mut cells = Cells::of(row);
        Ok(Fallback {
            primary: Served { provider: cells.take()?, model: cells.take()? },
            fallback: Served { provider: cells.take()?, model: cells.take()? },
            role: cells.take()?,
            reason: cells.take()?,
            count: cells.unsigned()?,
            last: Instant(cells.take()?),
        })
    };
    statement.query_map([], read)?.collect()
}

fn key(by: By, cells: &mut Cells<'_>) -> rusqlite::Result<Key> {
    Ok(match by {
        By::Run => Key::Run(cells.parse()?),
        By::Project => Key::Project(cells.take()?),
        By::Provider => Key::Provider(cells.take()?),
        By::Model => Key::Model(Served { provider: cells.take()?, model: cells.take()? }),
        By::Role => Key::Role(cells.take()?),
        By::Phase => Key::Phase(Some(cells.take::<String>()?).filter(|phase| !phase.is_empty())),
        By::Caller | By::Key => Key::Caller(cells.actor()?),
        By::Profile => Key::Profile { provider: cells.take()?, profile: cells.take()? },
        By::Day => Key::Day(Day(cells.take()?)),
    })
}

/// The columns of the property, and the order of its lines.
const fn columns(by: By) -> (&'static str, &'static str) {
    let dearest = "cost DESC NULLS LAST, calls DESC, 1, 2";
    match by {
        By::Run => ("run", dearest),
        By::Project => ("project", dearest),
        By::Provider => ("provider", dearest),
        By::Model => ("provider, model", dearest),
        By::Role => ("role", dearest),
        By::Phase => ("phase", dearest),
        By::Caller | By::Key => ("caller", dearest),
        By::Profile => ("provider, profile", dearest),
        By::Day => ("day", "day DESC"),
    }
}

/// Lines of a table by a property, where a condition with these values holds; and how many there are.
fn lines(
    connection: &Connection,
    by: By,
    from: &str,
    values: &[Value],
) -> rusqlite::Result<(Vec<Line>, u64)> {
    let (columns, order) = columns(by);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {columns}, {}, COUNT(*) OVER () FROM {from} GROUP BY {columns} \
         ORDER BY {order} LIMIT {ROWS_MAX}",
        totals_sum()
    ))?;
    let read = |row: &rusqlite::Row<'_>| {
        let mut cells = Cells::of(row);
        let line = Line { key: key(by, &mut cells)?, total: cells.total()? };
        Ok((line, cells.unsigned()?))
    };
    let found = statement.query_map(params_from_iter(values), read)?;
    let found: Vec<(Line, u64)> = found.collect::<rusqlite::Result<_>>()?;
    let count = found.first().map_or(0, |(_, count)| *count);
    Ok((found.into_iter().map(|(line, _)| line).collect(), count))
}

fn sum(connection: &Connection, from: &str, values: &[Value]) -> rusqlite::Result<Total> {
    let sum = format!("SELECT {} FROM {from}", totals_sum());
    let mut statement = connection.prepare_cached(&sum)?;
    statement.query_row(params_from_iter(values), |row| Cells::of(row).total())
}

pub(crate) fn total(connection: &Connection, by: By) -> rusqlite::Result<Totals> {
    let from = match by {
        By::Run => "usage_runs",
        By::Profile => "usage_profiles",
        By::Key => "usage_days WHERE caller NOT IN ('admin', 'node')",
        By::Project | By::Provider | By::Model | By::Role | By::Phase | By::Caller | By::Day => {
            "usage_days"
        }
    };
    let (lines, count) = lines(connection, by, from, &[])?;
    let shown = u64::try_from(lines.len()).unwrap_or(u64::MAX);
    let (left_off, all) = (count.saturating_sub(shown), sum(connection, from, &[])?);
    Ok(Totals { lines, left_off, all, at: stands_at(connection, Name::Usage)? })
}

pub(crate) fn of_run(connection: &Connection, run: RunId, by: By) -> rusqlite::Result<Vec<Line>> {
    Ok(lines(connection, by, "usage_runs WHERE run = ?", &[text(run)])?.0)
}

pub(crate) fn summary(
    connection: &Connection,
    window_hours: u32,
    now: Instant,
) -> rusqlite::Result<Summary> {
    let hours = i64::from(window_hours.clamp(1, WINDOW_HOURS_MAX));
    let first = now.0.saturating_sub(hours * (DAY_MICROS / 24)).div_euclid(MINUTE_MICROS);
    let last = now.0.div_euclid(MINUTE_MICROS);
    let from = "usage_minutes WHERE minute BETWEEN ? AND ?";
    let window = [Value::Integer(first), Value::Integer(last)];
    Ok(Summary {
        since: Instant(first.saturating_mul(MINUTE_MICROS)),
        all: sum(connection, from, &window)?,
        by_model: lines(connection, By::Model, from, &window)?.0,
        by_provider: lines(connection, By::Provider, from, &window)?.0,
        by_role: lines(connection, By::Role, from, &window)?.0,
        by_phase: {
            let of_one = format!("{from} AND phase <> ''");
            lines(connection, By::Phase, &of_one, &window)?.0
        },
        at: stands_at(connection, Name::Usage)?,
    })
}
