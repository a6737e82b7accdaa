//! Following: agreement with the rules, halting, and going on exactly after any end.

use super::facts::{here, run, spec, used};
use super::journal::{Dice, Journal, answer};
use super::views::{Folder, LONG, caught_up, during, rows, state};
use crate::calls::Served;
use crate::runner::Build;
use crate::runs::{Phase, Standing};
use crate::usage::{By, Key};
use crate::{Handle, Name, NotThere, State};
use events::catalogue::{self, Fact};
use events::codec::CodecError;
use events::record::{StreamKey, StreamKind};
use events::run::Command;
use events::run::approval;
use events::run::halt::Halt;
use events::run::life::Life;
use events::usage::Total;
use std::time::Duration;

/// A build that does not know of tools yet.
fn older(stream: &StreamKey, kind: u16, schema: u16, bytes: &[u8]) -> Result<Fact, CodecError> {
    if stream.kind() == StreamKind::Run && kind == 203 {
        return Err(CodecError::Unknown { kind, schema });
    }
    catalogue::decode(stream, kind, schema, bytes)
}

async fn agrees(handle: &Handle, journal: &Journal) {
    of_projects_agree(handle, journal).await;
    let mut all = Total::default();
    for (id, state) in &journal.runs {
        let row = handle.run(*id).await.unwrap().unwrap();
        assert_eq!(row.total, state.total, "{id}");
        assert_eq!((row.steps, row.model_calls), (state.step, state.next_call.0), "{id}");
        assert_eq!((row.tools_asked, row.tools_unknown), (state.next_tool.0, state.tools_unknown));
        let served = state
            .served_by
            .as_ref()
            .map(|one| Served { provider: one.provider.clone(), model: one.model.clone() });
        assert_eq!((row.served, row.session), (served, state.session));
        match (&state.life, row.phase) {
            (Life::Ended(end), Phase::Ended(row)) => {
                assert_eq!(
                    (row.outcome, row.reason, row.detail),
                    (end.outcome, end.reason.clone(), end.detail.clone())
                );
            }
            (Life::Running, phase) => {
                let held = matches!(phase, Phase::WaitingForClient { .. });
                assert_eq!(held, state.held.is_some(), "{id}");
                let pauses = state.delayed.is_some() || matches!(state.halt, Some(Halt::Paused(_)));
                assert_eq!(matches!(phase, Phase::Paused { .. }), pauses, "{id}");
                let unknown = matches!(state.halt, Some(Halt::Reconciliation));
                assert_eq!(phase == Phase::NeedsReconciliation, unknown, "{id}");
                let waits = approval::open(state).next().is_some() && state.halt.is_none();
                assert_eq!(matches!(phase, Phase::WaitingForApproval { .. }), waits, "{id}");
            }
            (life, phase) => assert_eq!(life.word(), phase.standing().word(), "{id}"),
        }
        let mut by_model = Total::default();
        let lines = handle.usage_of(*id, By::Model).await.unwrap();
        lines.iter().for_each(|line| by_model.add(&line.total));
        assert_eq!(by_model, state.total, "{id}");
        let mut by_candidate = Total::default();
        state.by_candidate.values().for_each(|total| by_candidate.add(total));
        assert_eq!(by_candidate, state.total, "{id}");
        all.add(&state.total);
    }
    for by in
        [By::Run, By::Project, By::Provider, By::Model, By::Role, By::Phase, By::Caller, By::Day]
    {
        let totals = handle.usage(by).await.unwrap();
        assert_eq!((totals.all, totals.at), (all, journal.reach()), "{by:?}");
        if totals.left_off == 0 {
            let mut sum = Total::default();
            totals.lines.iter().for_each(|line| sum.add(&line.total));
            assert_eq!(sum, all, "{by:?}");
        }
    }
    for (id, state) in &journal.sessions {
        let row = handle.session(*id).await.unwrap().unwrap();
        assert_eq!(row.messages as usize, state.messages.len());
        assert_eq!(row.holder, state.lock.as_ref().map(|lock| lock.run));
        assert_eq!((row.waiting as usize, row.parent), (state.inbox.len(), state.parent));
    }
    for (id, state) in &journal.credentials {
        let rows = handle.credentials().await.unwrap().rows;
        let of = rows.iter().filter(|row| row.provider == *id && row.profile.is_some());
        let known = of.map(|row| (row.name.clone(), row.profile.clone().unwrap())).collect();
        assert_eq!(state.profiles, known, "{id}");
    }
    keys_agree(handle, journal).await;
}

async fn keys_agree(handle: &Handle, journal: &Journal) {
    let keys = handle.keys(None).await.unwrap().rows;
    assert_eq!(keys.len(), journal.keys.len());
    for key in keys {
        let state = &journal.keys[&key.id];
        let issued = state.issued.as_ref().unwrap();
        assert_eq!((key.role, key.hash), (issued.role, issued.hash));
        assert_eq!(key.revoked.is_some(), state.revoked);
    }
}

async fn of_projects_agree(handle: &Handle, journal: &Journal) {
    for (id, state) in &journal.grants {
        let rows = handle.grants().await.unwrap().rows;
        let of = || rows.iter().filter(|row| row.project == *id);
        let standing = of().filter(|row| row.stands(journal.now)).map(|row| &row.granted);
        assert!(standing.eq(state.standing(journal.now)), "{id}");
        let revoked = of().filter(|row| row.revoked.is_some()).count();
        assert_eq!(revoked, state.revoked.len(), "{id}");
    }
    for (id, state) in &journal.gates {
        let rows = handle.gates().await.unwrap().rows;
        let of = rows.iter().filter(|row| row.project == *id);
        let known = of.map(|row| (row.name.clone(), row.gate.clone())).collect();
        assert_eq!(state.gates, known, "{id}");
    }
}

#[tokio::test]
async fn rows_agree_with_the_folds_that_decide() {
    for seed in 1..=4 {
        let (mut journal, folder) = (Journal::new(seed.into()), Folder::new());
        let mut dice = Dice::new(seed);
        journal.wander(&mut dice, 400).await;
        let (handle, runner) = folder.start(&journal.store).await;
        during(runner, async {
            caught_up(&handle, journal.end()).await;
            agrees(&handle, &journal).await;
            // What comes while it follows is folded by the same code.
            journal.wander(&mut dice, 200).await;
            caught_up(&handle, journal.end()).await;
            agrees(&handle, &journal).await;
        })
        .await;
        let reached = |is: fn(&Total) -> bool| journal.runs.values().any(|run| is(&run.total));
        assert!(reached(|total| total.calls_unknown > 0 && total.cost_upper.is_some()));
        assert!(reached(|total| total.calls_unpriced > 0) && reached(|total| total.cost.is_some()));
    }
}

/// A process may end between any two steps: here the loops are dropped wherever they are, again and again, at times
/// with a batch still on its way to the file while the next runner is already at work.
#[tokio::test]
async fn a_runner_that_is_dropped_anywhere_goes_on_exactly() {
    let (mut journal, mut dice, folder) = (Journal::new(7), Dice::new(7), Folder::new());
    for drops in 0..40 {
        journal.wander(&mut dice, 30).await;
        let (handle, runner) = folder.start(&journal.store).await;
        let late = Duration::from_micros(dice.below(3_000));
        let (name, wait) = (Name::ALL[drops % 4], if drops % 3 == 0 { LONG } else { late });
        let reached = during(runner, handle.at_least(name, journal.end(), wait)).await;
        assert!(matches!(reached, Ok(()) | Err(NotThere::Late { .. })), "{reached:?}");
    }
    let whole = Folder::new().follow(&journal).await;
    assert_eq!(folder.follow(&journal).await, whole);
}

#[tokio::test]
async fn two_runners_of_one_file_fold_each_commit_once() {
    let mut journal = Journal::new(8);
    journal.wander(&mut Dice::new(8), 700).await;
    let whole = Folder::new().follow(&journal).await;
    let folder = Folder::new();
    let (one, first) = folder.start(&journal.store).await;
    let (other, second) = folder.start(&journal.store).await;
    let both = async {
        tokio::join!(caught_up(&one, journal.end()), caught_up(&other, journal.end()));
    };
    during(first, Box::pin(during(second, both))).await;
    assert_eq!(rows(&folder.path()), whole);
}

#[tokio::test]
async fn what_a_build_can_not_read_halts_it_there_and_a_newer_build_goes_on() {
    let (mut journal, folder) = (Journal::new(9), Folder::new());
    journal.open_run(run(1), "hi").await;
    journal.tell_run(run(1), &answer(0, used(3, 4, Some(5)))).await;
    journal.wander(&mut Dice::new(9), 200).await;
    let whole = Folder::new().follow(&journal).await;

    for _ in 0..2 {
        let build = Build { decode: older, ..Build::THIS };
        let (handle, runner) = folder.start_as(&journal.store, build).await;
        during(runner, async {
            // Only whoever folds runs is halted.
            handle.at_least(Name::Keys, journal.end(), LONG).await.unwrap();
            handle.at_least(Name::Sessions, journal.end(), LONG).await.unwrap();
            for name in [Name::Runs, Name::Usage] {
                let late = handle.at_least(name, here(2), LONG).await;
                assert!(
                    matches!(&late, Err(NotThere::Halted { at, .. }) if *at == here(2)),
                    "{late:?}"
                );
                let State::Halted { at, reason } = state(&handle, name) else { panic!("{name}") };
                assert_eq!(at, here(2));
                assert!(reason.ends_with("kind 203 schema 1 is unknown to this build"), "{reason}");
                assert!(reason.contains(&run(1).to_string()), "{reason}");
            }
            let row = handle.run(run(1)).await.unwrap().unwrap();
            assert_eq!((row.last, row.phase), (here(1), Phase::Running));
            assert_eq!(state(&handle, Name::Keys), State::Running);
        })
        .await;
    }
    assert_eq!(folder.follow(&journal).await, whole);
}

#[tokio::test]
async fn a_kind_that_nobody_knows_is_never_skipped() {
    let (mut journal, folder) = (Journal::new(10), Folder::new());
    journal.open_run(run(1), "hi").await;
    journal.append_stranger(run(1)).await;
    journal.open_run(run(2), "hi").await;
    let (handle, runner) = folder.start(&journal.store).await;
    during(runner, async {
        let late = handle.at_least(Name::Runs, journal.end(), LONG).await;
        assert!(matches!(&late, Err(NotThere::Halted { at, .. }) if *at == here(2)), "{late:?}");
        assert_eq!(handle.run(run(2)).await.unwrap(), None);
        handle.at_least(Name::Sessions, journal.end(), LONG).await.unwrap();
    })
    .await;
}

/// A fact that decodes but may not follow: the half of the commit that was folded before it leaves no trace.
#[tokio::test]
async fn a_commit_that_contradicts_the_fold_changes_no_row() {
    let (mut journal, folder) = (Journal::new(11), Folder::new());
    journal.open_run(run(1), "hi").await;
    let facts = [super::facts::answered(0, used(1, 1, None)), super::facts::queued()];
    let entries = facts.iter().map(|event| event.encode().unwrap()).collect();
    let stream = StreamKey::rooted(StreamKind::Run, run(1).place().partition, &run(1));
    journal.append(&stream, entries, events::aggregate::Wake::OnCommand).await;
    let (handle, runner) = folder.start(&journal.store).await;
    during(runner, async {
        for name in [Name::Runs, Name::Usage] {
            let late = handle.at_least(name, journal.end(), LONG).await;
            assert!(matches!(&late, Err(NotThere::Halted { at, .. }) if *at == here(2)));
        }
        assert_eq!(handle.run(run(1)).await.unwrap().unwrap().total, Total::default());
        assert_eq!(handle.usage(By::Day).await.unwrap().all, Total::default());
    })
    .await;
}

#[tokio::test]
async fn a_payload_in_a_blob_is_fetched() {
    let (mut journal, folder) = (Journal::new(12), Folder::new());
    let text = "x".repeat(store::PAYLOAD_INLINE_MAX + 1);
    let command = Command::Open { spec: spec("large", &text), session: None, grant: None };
    journal.tell_run(run(1), &command).await;
    let (handle, runner) = folder.start(&journal.store).await;
    during(runner, caught_up(&handle, journal.end())).await;
    assert_eq!(handle.run(run(1)).await.unwrap().unwrap().project, "large");
    assert_eq!(journal.store.stats().await.unwrap().blobs, 1);
}

#[tokio::test]
async fn usage_is_found_in_its_minute_and_day() {
    let (mut journal, folder) = (Journal::new(13), Folder::new());
    journal.open_run(run(1), "hi").await;
    journal.tell_run(run(1), &answer(0, used(3, 4, Some(5)))).await;
    let settled = journal.now;
    let (handle, runner) = folder.start(&journal.store).await;
    during(runner, caught_up(&handle, journal.end())).await;
    let hours = |hours: i64| events::quantity::Instant(settled.0 + hours * 3_600_000_000);
    let summary = handle.usage_summary(2, hours(2)).await.unwrap();
    assert_eq!((summary.all.calls, summary.at), (1, journal.reach()));
    assert_eq!(summary.by_provider[0].key, Key::Provider("openai".into()));
    assert_eq!(summary.by_model[0].total, summary.all);
    assert_eq!(handle.usage_summary(2, hours(3)).await.unwrap().all.calls, 0);
    assert_eq!(handle.usage_summary(2, hours(-1)).await.unwrap().all.calls, 0);
    let days = handle.usage(By::Day).await.unwrap().lines;
    assert!(
        matches!(&days[..], [line] if matches!(line.key, Key::Day(day) if day.to_string() == "2023-11-14"))
    );
}

#[tokio::test]
async fn a_wait_for_a_position_ends_in_time_and_with_the_runner() {
    let (mut journal, folder) = (Journal::new(14), Folder::new());
    journal.open_run(run(1), "hi").await;
    let (handle, runner) = folder.start(&journal.store).await;
    let after = here(journal.newest + 1);
    let body = async {
        let late = handle.at_least(Name::Runs, after, Duration::from_millis(1)).await;
        assert!(matches!(late, Err(NotThere::Late { .. })), "{late:?}");
        let waits = handle.at_least(Name::Runs, after, LONG);
        let (waited, ()) = tokio::join!(waits, handle.stop());
        assert_eq!(waited, Err(NotThere::Stopped(after)));
        assert_eq!(state(&handle, Name::Runs), State::Stopped);
    };
    tokio::join!(runner.run(), body);
    // What is there is still read.
    let row = handle.run(run(1)).await.unwrap();
    assert!(row.is_none_or(|row| row.phase.standing() == Standing::Running));
}
