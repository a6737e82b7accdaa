//! Pages of lists and totals, each with the positions it was folded up to: one for each shard, `0.12,3.7`.

use super::{fact, time::rfc3339, usage as sums};
use events::model_call::Class;
use events::quantity::Instant;
use events::run::life::Outcome;
use projections::calls::Served;
use projections::runs::{Phase, Query, Standing};
use projections::usage::{Fallback, Key, Line, Summary, Totals};
use projections::{
    Mark, Status, keys as key_rows, runs as run_rows, sessions as session_rows, status,
};
use serde_json::{Value, json};
use std::fmt::Display;
use std::str::FromStr;

/// A cursor of ours, `TIME.ID` of the last row of a page, the time in microseconds. Callers take it as it is.
///
/// # Errors
///
/// What a caller is told of text that is none.
pub fn cursor<I: FromStr>(text: Option<&str>) -> Result<Option<Mark<I>>, String> {
    let Some(text) = text else { return Ok(None) };
    let parts =
        text.split_once('.').and_then(|(at, id)| Some((at.parse().ok()?, id.parse().ok()?)));
    match parts {
        Some((at, id)) => Ok(Some(Mark { at: Instant(at), id })),
        None => Err(format!("after: {text:?} is not a cursor: give the `next` of the page before")),
    }
}

pub(super) fn next<I: Display>(mark: Option<&Mark<I>>) -> Option<String> {
    mark.map(|mark| format!("{}.{}", mark.at.0, mark.id))
}

/// The filter of a list of runs.
///
/// # Errors
///
/// What a caller is told of a filter that means nothing.
pub fn runs_filter(
    state: Option<&str>,
    session: Option<&str>,
    limit: u16,
    after: Option<&str>,
) -> Result<Query, String> {
    let standing = match state {
        None => None,
        Some(word) => {
            let words = Standing::ALL.map(Standing::word).join(", ");
            let found = Standing::ALL.into_iter().find(|standing| standing.word() == word);
            Some(found.ok_or_else(|| format!("state: {word:?} is none of {words}"))?)
        }
    };
    let session = session
        .map(str::parse)
        .transpose()
        .map_err(|error: events::id::NotAnId| error.to_string())?;
    Ok(Query { standing, session, project: None, since: None, before: cursor(after)?, limit })
}

/// A page of runs.
#[must_use]
pub fn runs(page: &run_rows::Page) -> Value {
    json!({
        "object": "list",
        "data": page.rows.iter().map(run).collect::<Value>(),
        "count": page.count,
        "position": page.at.to_string(),
        "next": next(page.next.as_ref()),
    })
}

fn run(row: &run_rows::Row) -> Value {
    let end = match &row.phase {
        Phase::Ended(end) => Some(end),
        Phase::Queued
        | Phase::Running
        | Phase::WaitingForClient { .. }
        | Phase::WaitingForApproval { .. }
        | Phase::Paused { .. }
        | Phase::NeedsReconciliation => None,
    };
    let status = match (&row.phase, end.map(|end| end.outcome)) {
        (_, Some(Outcome::Completed)) => "completed",
        (_, Some(Outcome::Exhausted | Outcome::Errored)) => "failed",
        (_, Some(Outcome::Cancelled)) => "cancelled",
        (Phase::Queued, None) => "queued",
        (Phase::WaitingForClient { .. }, None) => "waiting_for_client_tools",
        (Phase::WaitingForApproval { .. }, None) => "waiting_for_approval",
        (Phase::Paused { .. }, None) => "paused",
        (Phase::NeedsReconciliation, None) => "needs_reconciliation",
        (Phase::Running | Phase::Ended(_), None) => "running",
    };
    let served = |one: &Option<Served>| {
        one.as_ref().map(|served| format!("{}:{}", served.provider, served.model))
    };
    json!({
        "id": row.id.to_string(),
        "object": "run",
        "status": status,
        "outcome": end.map(|end| fact::outcome(end.outcome)),
        "reason": end.map(|end| fact::reason(&end.reason)),
        "class": end.and_then(|end| fact::class(&end.reason)).map(Class::name),
        "session_id": row.session.map(|id| id.to_string()),
        "project_id": row.project,
        "model": served(&row.primary),
        "served_by": served(&row.served),
        "created_at": rfc3339(row.created),
        "finished_at": end.map(|end| rfc3339(end.at)),
        "steps": row.steps,
        "model_calls": row.model_calls,
        "tool_calls": row.tools_asked,
        "tool_calls_unknown": row.tools_unknown,
        "usage": sums::total(&row.total),
        "position": row.last.to_string(),
    })
}

/// A page of sessions.
#[must_use]
pub fn sessions(page: &session_rows::Page) -> Value {
    let row = |row: &session_rows::Row| {
        json!({
            "id": row.id.to_string(),
            "object": "session",
            "project_id": row.project,
            "parent": row.parent.map(|(parent, at)| json!({"session_id": parent.to_string(), "messages": at})),
            "title": row.title,
            "messages": row.messages,
            "running": row.holder.map(|run| run.to_string()),
            "waiting": row.waiting,
            "created_at": rfc3339(row.opened),
            "active_at": rfc3339(row.active),
            "position": row.last.to_string(),
        })
    };
    json!({
        "object": "list",
        "data": page.rows.iter().map(row).collect::<Value>(),
        "position": page.at.to_string(),
        "next": next(page.next.as_ref()),
    })
}

/// A page of keys, without secrets.
#[must_use]
pub fn keys(page: &key_rows::Page) -> Value {
    let row = |row: &key_rows::Row| {
        json!({
            "id": row.id.to_string(),
            "object": "key",
            "name": row.name,
            "role": fact::role(row.role),
            "created_at": rfc3339(row.issued),
            "revoked_at": row.revoked.map(rfc3339),
            "revoked": row.revoked.is_some(),
        })
    };
    json!({
        "object": "list",
        "data": page.rows.iter().map(row).collect::<Value>(),
        "position": page.at.to_string(),
        "next": page.next.map(|next| next.to_string()),
    })
}

fn lines(lines: &[Line]) -> Value {
    let line = |line: &Line| {
        let name = match &line.key {
            Key::Run(id) => id.to_string(),
            Key::Project(name) | Key::Provider(name) | Key::Role(name) => name.clone(),
            Key::Phase(phase) => phase.clone().unwrap_or_default(),
            Key::Model(served) => format!("{}:{}", served.provider, served.model),
            Key::Caller(actor) => actor.to_string(),
            Key::Profile { provider, profile } => format!("{provider}:{profile}"),
            Key::Day(day) => day.to_string(),
        };
        let mut sum = sums::total(&line.total);
        if let Some(map) = sum.as_object_mut() {
            map.insert("name".to_owned(), Value::from(name));
        }
        sum
    };
    lines.iter().map(line).collect()
}

/// Who was served by another model than the one that was meant to.
#[must_use]
pub fn fallback(one: &Fallback) -> Value {
    let name = |served: &Served| format!("{}:{}", served.provider, served.model);
    json!({
        "primary": name(&one.primary), "fallback": name(&one.fallback), "role": one.role, "reason": one.reason,
        "count": one.count, "last_at": rfc3339(one.last),
    })
}

/// Totals of a trailing window.
#[must_use]
pub fn usage(hours: u32, summary: &Summary) -> Value {
    let mut sum = sums::total(&summary.all);
    if let Some(map) = sum.as_object_mut() {
        map.insert("window_hours".to_owned(), Value::from(hours));
        map.insert("since".to_owned(), Value::from(rfc3339(summary.since)));
        map.insert("by_model".to_owned(), lines(&summary.by_model));
        map.insert("by_provider".to_owned(), lines(&summary.by_provider));
        map.insert("by_role".to_owned(), lines(&summary.by_role));
        map.insert("by_phase".to_owned(), lines(&summary.by_phase));
        map.insert("position".to_owned(), Value::from(summary.at.to_string()));
    }
    sum
}

/// Totals since the first day, by one property.
#[must_use]
pub fn totals(totals: &Totals) -> Value {
    let mut sum = sums::total(&totals.all);
    if let Some(map) = sum.as_object_mut() {
        map.insert("lines".to_owned(), lines(&totals.lines));
        map.insert("left_off".to_owned(), Value::from(totals.left_off));
        map.insert("position".to_owned(), Value::from(totals.at.to_string()));
    }
    sum
}

/// Where a projection stands.
#[must_use]
pub fn view(view: &Status) -> Value {
    let (word, halted) = match &view.state {
        status::State::Running => ("running", None),
        status::State::Halted { at, reason } => ("halted", Some(format!("{at}: {reason}"))),
        status::State::Rebuilding => ("rebuilding", None),
        status::State::Stopped => ("stopped", None),
    };
    json!({
        "name": view.name.to_string(),
        "state": word,
        "position": view.position.to_string(),
        "lag": view.lag,
        "halted": halted,
        "trouble": view.trouble,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::id::{Place, RunId, SessionId};

    #[test]
    fn a_cursor_reads_back_and_its_text_does_not_change() {
        let mark = Mark { at: Instant(1_700_000_000_000_000), id: RunId::new(Place::default(), 1) };
        let text = next(Some(&mark)).unwrap();
        assert_eq!(text, "1700000000000000.run_000000000000000000000000000001");
        assert_eq!(cursor(Some(&text)), Ok(Some(mark)));
        let early = Mark { at: Instant(-5), ..mark };
        assert_eq!(cursor(next(Some(&early)).as_deref()), Ok(Some(early)));
        assert_eq!(cursor::<RunId>(None), Ok(None));
        assert_eq!(next::<RunId>(None), None);
    }

    #[test]
    fn what_is_no_cursor_of_the_list_is_refused() {
        let of_a_run = "1.run_000000000000000000000000000001";
        assert!(cursor::<SessionId>(Some(of_a_run)).is_err());
        for text in ["", ".", "0.12", "1", "x.run_000000000000000000000000000001", "1."] {
            let refused = cursor::<RunId>(Some(text)).unwrap_err();
            assert!(refused.contains("give the `next` of the page before"), "{refused}");
        }
    }
}
