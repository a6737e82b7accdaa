//! Lists: filters, pages, bounds.

use super::facts::{NOW, reach, run, session, used};
use super::journal::{Dice, Journal, answer};
use super::views::{Folder, Rows, caught_up, during};
use crate::runs::{self, Standing};
use crate::usage::By;
use crate::{Handle, approvals, invocations, sessions};
use events::quantity::Instant;
use std::collections::BTreeSet;

async fn follow(journal: &Journal, folder: &Folder) -> Handle {
    let (handle, runner) = folder.start(&journal.store).await;
    during(runner, caught_up(&handle, journal.end())).await;
    handle
}

/// All pages of a query, and how many runs it says there are.
async fn pages(handle: &Handle, query: &runs::Query) -> (Vec<runs::Row>, u64) {
    let (mut all, mut query) = (vec![], query.clone());
    loop {
        let page = handle.runs(query.clone()).await.unwrap();
        all.extend(page.rows);
        match page.next {
            Some(next) => query.before = Some(next),
            None => return (all, page.count),
        }
    }
}

#[tokio::test]
async fn a_filter_keeps_exactly_what_it_names_on_all_pages() {
    let (mut journal, folder) = (Journal::new(40), Folder::new());
    journal.wander(&mut Dice::new(40), 900).await;
    let handle = follow(&journal, &folder).await;
    let base = runs::Query { limit: 7, ..runs::Query::default() };
    let (all, count) = pages(&handle, &base).await;
    assert_eq!((all.len() as u64, all.len()), (count, journal.runs.len()));
    assert!(all.is_sorted_by(|newer, older| (newer.created, newer.id) > (older.created, older.id)));

    let since = Instant(NOW.0 + (journal.now.0 - NOW.0) / 2);
    let some = Some(session(2));
    let mut queries = vec![
        runs::Query { session: some, ..base.clone() },
        runs::Query { since: Some(since), ..base.clone() },
        runs::Query { project: Some("other".into()), ..base.clone() },
        runs::Query {
            session: some,
            standing: Some(Standing::Ended),
            since: Some(since),
            ..base.clone()
        },
    ];
    queries.extend(
        Standing::ALL.map(|standing| runs::Query { standing: Some(standing), ..base.clone() }),
    );
    let mut kept = BTreeSet::new();
    for query in queries {
        let keeps = |row: &&runs::Row| {
            query.standing.is_none_or(|standing| row.phase.standing() == standing)
                && query.session.is_none_or(|session| row.session == Some(session))
                && query.project.as_ref().is_none_or(|project| row.project == *project)
                && query.since.is_none_or(|since| row.created >= since)
        };
        let expected: Vec<_> = all.iter().filter(keeps).cloned().collect();
        let (found, count) = pages(&handle, &query).await;
        assert_eq!((count, &found), (expected.len() as u64, &expected), "{query:?}");
        kept.insert(expected.len());
    }
    assert!(kept.len() > 3, "the filters were tried on too little: {kept:?}");
}

#[tokio::test]
async fn no_page_is_longer_than_two_hundred_rows() {
    let (mut journal, folder) = (Journal::new(41), Folder::new());
    for id in 0..250 {
        journal.open_run(run(id), "hi").await;
        journal.tell_run(run(id), &answer(0, used(1, 1, Some(u64::try_from(id).unwrap())))).await;
    }
    let handle = follow(&journal, &folder).await;
    for limit in [0, 200, u16::MAX] {
        let page = handle.runs(runs::Query { limit, ..runs::Query::default() }).await.unwrap();
        assert_eq!((page.rows.len(), page.count, page.at), (200, 250, journal.reach()));
    }
    let totals = handle.usage(By::Run).await.unwrap();
    assert_eq!((totals.lines.len(), totals.left_off), (200, 50));
    assert_eq!(totals.all.calls, 250);
    let costs: Vec<_> = totals.lines.iter().map(|line| line.total.cost).collect();
    assert!(costs.is_sorted_by(|dearer, cheaper| dearer > cheaper));
}

#[tokio::test]
async fn holds_and_invocations_are_filtered_and_turned_page_by_page() {
    let (mut journal, folder) = (Journal::new(44), Folder::new());
    journal.wander(&mut Dice::new(44), 2_500).await;
    let handle = follow(&journal, &folder).await;
    let mut seen = BTreeSet::new();
    for standing in std::iter::once(None).chain(approvals::Standing::ALL.map(Some)) {
        let base = approvals::Query { standing, limit: 3, ..approvals::Query::default() };
        let (mut query, mut all) = (base, vec![]);
        let count = loop {
            let page = handle.approvals(query.clone()).await.unwrap();
            all.extend(page.rows);
            query.before = page.next;
            if page.next.is_none() {
                break page.count;
            }
        };
        assert_eq!(all.len() as u64, count);
        let order = |row: &approvals::Row| (row.asked, row.id.to_string());
        assert!(all.is_sorted_by(|newer, older| order(newer) > order(older)));
        assert!(all.iter().all(|row| standing.is_none_or(|only| row.standing == only)));
        seen.extend(all.iter().map(|row| row.standing.word()));
        // What the owners of the runs say.
        let of_runs = journal.runs.values().flat_map(|state| &state.approvals);
        let wanted = of_runs.filter(|one| {
            let word = one.resolved.as_ref().map_or("waiting", |done| done.resolution.word());
            standing.is_none_or(|only| only.word() == word)
        });
        assert_eq!(wanted.count(), all.len(), "{standing:?}");
    }
    assert!(seen.len() >= 4, "too few kinds of holds were tried: {seen:?}");
    let mut states = BTreeSet::new();
    for standing in std::iter::once(None).chain(invocations::Standing::ALL.map(Some)) {
        let query = invocations::Query { standing, ..invocations::Query::default() };
        let page = handle.invocations(query).await.unwrap();
        states.extend(page.rows.iter().map(|row| row.standing.word()));
        let of_runs = journal.runs.values().flat_map(|state| &state.invocations);
        let wanted =
            of_runs.filter(|one| standing.is_none_or(|only| only.word() == one.disposition.word()));
        assert_eq!(wanted.count() as u64, page.count, "{standing:?}");
    }
    assert!(states.len() >= 4, "too few states were tried: {states:?}");
    let project = Some(String::from("nobody's"));
    let none = handle.approvals(approvals::Query { project, ..approvals::Query::default() }).await;
    assert_eq!(none.unwrap().rows, vec![]);
}

#[tokio::test]
async fn sessions_are_listed_by_what_happened_last() {
    let (mut journal, folder) = (Journal::new(42), Folder::new());
    journal.wander(&mut Dice::new(42), 400).await;
    let handle = follow(&journal, &folder).await;
    let (mut query, mut all) = (sessions::Query { limit: 2, ..sessions::Query::default() }, vec![]);
    loop {
        let page = handle.sessions(query.clone()).await.unwrap();
        all.extend(page.rows);
        query.before = page.next;
        if page.next.is_none() {
            break;
        }
    }
    assert_eq!(all.len(), journal.sessions.len());
    assert!(all.is_sorted_by(|newer, older| (newer.active, newer.id) > (older.active, older.id)));
    let project = Some(String::from("nobody's"));
    let none = handle.sessions(sessions::Query { project, ..sessions::Query::default() }).await;
    assert_eq!(none.unwrap().rows, vec![]);
}

#[tokio::test]
async fn an_empty_journal_has_empty_lists() {
    let (journal, folder) = (Journal::new(43), Folder::new());
    let handle = follow(&journal, &folder).await;
    let page = handle.runs(runs::Query::default()).await.unwrap();
    assert_eq!((page.rows.len(), page.count, page.next, page.at), (0, 0, None, reach(0)));
    assert_eq!(handle.usage_summary(24, NOW).await.unwrap().all.cost, None);
    let rows: Rows = super::views::rows(&folder.path());
    assert_eq!(rows.len(), crate::Name::ALL.len());
}
