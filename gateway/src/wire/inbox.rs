//! Pages of what runs hold for people and of what they did through the broker.

use super::call::approval_id;
use super::list::{cursor, next};
use super::time::rfc3339;
use events::run::approval::ApprovalNo;
use events::run::mediated::invocation_id;
use projections::{approvals as holds, invocations as calls};
use serde_json::{Value, json};

/// The filter of a list of holds.
///
/// # Errors
///
/// What a caller is told of a filter that means nothing.
pub fn approvals_filter(
    status: Option<&str>,
    project: Option<&str>,
    limit: u16,
    after: Option<&str>,
) -> Result<holds::Query, String> {
    let named = |word: &str| {
        let found = holds::Standing::ALL.into_iter().find(|standing| standing.word() == word);
        let words = || holds::Standing::ALL.map(holds::Standing::word).join(", ");
        found.ok_or_else(|| format!("status: {word:?} is none of {}", words()))
    };
    let standing = status.map(named).transpose()?;
    Ok(holds::Query {
        standing,
        project: project.map(str::to_owned),
        before: cursor(after)?,
        limit,
    })
}

/// A page of holds.
#[must_use]
pub fn approvals(page: &holds::Page) -> Value {
    json!({
        "object": "list",
        "data": page.rows.iter().map(approval).collect::<Value>(),
        "count": page.count,
        "position": page.at.to_string(),
        "next": next(page.next.as_ref()),
    })
}

fn approval(row: &holds::Row) -> Value {
    // What was cut is text and no JSON any more.
    let whole = serde_json::from_str(&row.arguments).ok();
    json!({
        "object": "approval",
        "approval_id": approval_id(row.id.run, ApprovalNo(row.id.number)),
        "run_id": row.id.run.to_string(),
        "project_id": row.project,
        "tool": row.tool,
        "arguments": whole.unwrap_or_else(|| Value::from(row.arguments.as_str())),
        "arguments_bytes": row.arguments_bytes,
        "subject": row.subject.to_string(),
        "asked_at": rfc3339(row.asked),
        "until": rfc3339(row.until),
        "status": row.standing.word(),
        "answered_at": row.answered.map(rfc3339),
        "by": row.by.map(|by| by.to_string()),
        "position": row.last.to_string(),
    })
}

/// The filter of a list of invocations.
///
/// # Errors
///
/// What a caller is told of a filter that means nothing.
pub fn invocations_filter(
    state: Option<&str>,
    project: Option<&str>,
    limit: u16,
    after: Option<&str>,
) -> Result<calls::Query, String> {
    let named = |word: &str| {
        let found = calls::Standing::ALL.into_iter().find(|standing| standing.word() == word);
        let words = || calls::Standing::ALL.map(calls::Standing::word).join(", ");
        found.ok_or_else(|| format!("state: {word:?} is none of {}", words()))
    };
    let standing = state.map(named).transpose()?;
    Ok(calls::Query {
        standing,
        project: project.map(str::to_owned),
        before: cursor(after)?,
        limit,
    })
}

/// A page of invocations.
#[must_use]
pub fn invocations(page: &calls::Page) -> Value {
    json!({
        "object": "list",
        "data": page.rows.iter().map(invocation).collect::<Value>(),
        "count": page.count,
        "position": page.at.to_string(),
        "next": next(page.next.as_ref()),
    })
}

fn invocation(row: &calls::Row) -> Value {
    json!({
        "object": "tool_invocation",
        "invocation_id": invocation_id(row.id.run.unique(), row.correlation),
        "correlation_id": format!("{:032x}", row.correlation),
        "run_id": row.id.run.to_string(),
        "call": row.id.number,
        "project_id": row.project,
        "tool": row.tool,
        "stage": row.stage,
        "state": row.standing.word(),
        "why": row.why,
        "policy_revision": row.policy_revision,
        "asked_at": rfc3339(row.asked),
        "settled_at": row.settled.map(rfc3339),
        "lease_until": rfc3339(row.lease_until),
        "by": row.by,
        "position": row.last.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::id::{Place, RunId};
    use events::quantity::Instant;
    use events::record::{Hash, Position, Shard};
    use projections::{Numbered, Reach};

    #[test]
    fn a_word_that_is_none_is_refused_with_those_that_are() {
        let refused = approvals_filter(Some("open"), None, 1, None).unwrap_err();
        assert!(refused.contains("waiting, approved, denied, expired"), "{refused}");
        let refused = invocations_filter(Some("lost"), None, 1, None).unwrap_err();
        assert!(refused.contains("pending, succeeded, rejected, unknown"), "{refused}");
        assert!(approvals_filter(Some("waiting"), Some("p"), 1, Some("5.run_1.0")).is_err());
        let query = approvals_filter(Some("waiting"), Some("p"), 1, None).unwrap();
        assert_eq!(query.standing, Some(holds::Standing::Waiting));
    }

    #[test]
    fn a_page_of_holds_leads_to_the_next_and_keeps_long_arguments_as_text() {
        let run = RunId::new(Place::default(), 1);
        let row = holds::Row {
            id: Numbered { run, number: 3 },
            project: "p".into(),
            tool: "t".into(),
            subject: Hash([1; 32]),
            arguments: r#"{"a":"#.into(),
            arguments_bytes: 9_000,
            asked: Instant(5),
            until: Instant(9),
            standing: holds::Standing::Waiting,
            answered: None,
            by: None,
            last: Position { shard: Shard(0), sequence: 2 },
        };
        let mark = projections::Mark { at: row.asked, id: row.id };
        let whole = holds::Row { arguments: r#"{"a":1}"#.into(), ..row.clone() };
        let (rows, next) = (vec![row, whole], Some(mark));
        let page = approvals(&holds::Page { rows, count: 7, next, at: Reach::default() });
        assert_eq!(page["data"][0]["approval_id"], format!("{run}.3"));
        assert_eq!(page["data"][0]["arguments"], r#"{"a":"#);
        assert_eq!(page["data"][1]["arguments"]["a"], 1);
        let query = approvals_filter(None, None, 1, page["next"].as_str()).unwrap();
        assert_eq!(query.before, Some(mark));
    }
}
