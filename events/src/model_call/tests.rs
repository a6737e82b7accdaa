//! The rule by example, and over every class, place in the route, hint and state of the profiles.

use super::*;

const NOW: Instant = Instant(1_000_000);
/// The same family and no window known, so that every row may move on to it, but for another family.
const RUNG: Rung<'static> = Rung { family: "a", window: None, barred: false };
const OTHER: Rung<'static> = Rung { family: "b", window: None, barred: false };
const RETRIES: u32 = 2;

const NOTHING: Failed = Failed {
    class: Class::Unknown,
    hint: None,
    others: 0,
    renewed: false,
    tools_max: None,
    bytes_max: None,
};

fn failed(class: Class, hint: Option<Millis>, others: u32) -> Outcome {
    Outcome::Failed(Failed { class, hint, others, renewed: false, ..NOTHING })
}

#[track_caller]
fn check(attempts: Attempts, outcome: Outcome, route: &[Rung<'_>], then: Action) -> Attempts {
    let (action, after) = next(&attempts, outcome, route, &Limits::default(), 0, NOW);
    assert_eq!(action, then);
    assert_eq!(after.total, attempts.total + 1);
    after
}

fn ask(candidate: usize, pause: u64) -> Action {
    Action::Ask { candidate, not_before: NOW.after(Millis(pause)) }
}

fn wake(candidate: usize, pause: u64) -> Action {
    Action::WaitUntil { candidate, until: NOW.after(Millis(pause)) }
}

/// The policy table of the design, in its own words and not in the product's.
fn table() -> Vec<(&'static str, &'static [Class])> {
    vec![
        ("refresh, rotate, next", &[Class::AuthExpired]),
        ("rotate, next", &[Class::AuthInvalid, Class::Billing, Class::QuotaExhausted]),
        ("rotate, next, wait", &[Class::RateLimited]),
        ("next", &[Class::UpstreamRateLimited, Class::ModelNotFound]),
        (
            "same, next",
            &[
                Class::Overloaded,
                Class::ServerError,
                Class::Timeout,
                Class::Transport,
                Class::StreamTruncated,
                Class::StreamError,
            ],
        ),
        ("shrink, next", &[Class::ToolsTooMany]),
        ("drop, next", &[Class::ReplayRejected]),
        ("fold, larger", &[Class::ContextOverflow, Class::PayloadTooLarge]),
        ("family", &[Class::InvalidRequest]),
        ("surface", &[Class::ContentPolicy, Class::Tls]),
        ("once, next", &[Class::Unknown]),
    ]
}

fn row(class: Class) -> &'static str {
    let all = table();
    all.iter().find(|(_, classes)| classes.contains(&class)).map(|(row, _)| *row).unwrap()
}

#[test]
fn every_class_has_one_row() {
    let all: Vec<Class> = table().into_iter().flat_map(|(_, classes)| classes.to_vec()).collect();
    let (mut sorted, mut expected) = (all.clone(), Class::ALL.to_vec());
    sorted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
}

/// What comes next in one place, said by the words of the row: other profiles ready, a candidate after this one, tries
/// of the same one used up, a hint.
fn said(
    row: &str,
    (others, renewed): (u32, bool),
    following: Option<usize>,
    used: u32,
    hint: Option<Millis>,
) -> Action {
    let pause = hint.unwrap_or_default();
    let move_on = following.map_or(Action::Surface, |candidate| ask(candidate, 0));
    let words: Vec<&str> = row.split(", ").collect();
    if ["drop", "shrink", "fold"].contains(&words[0]) {
        return ask(0, 0);
    }
    if words[0] == "refresh" && renewed {
        return ask(0, 0);
    }
    if words.contains(&"rotate") && others > 0 {
        return ask(0, 0);
    }
    let left = match words[0] {
        "same" => used < RETRIES,
        "once" => used < 1,
        _ => false,
    };
    let paused = match pause.0 {
        ..=10_000 => ask(0, pause.0),
        10_001..=900_000 => wake(0, pause.0),
        _ => Action::Surface,
    };
    if left && (following.is_none() || pause.0 <= 1_000) {
        return paused;
    }
    match *words.last().unwrap() {
        "wait" if following.is_none() => paused,
        "surface" => Action::Surface,
        _ => move_on,
    }
}

/// 21 classes, with other profiles ready or not, another candidate or not, tries left or not, and each kind of hint.
#[test]
fn the_policy_table_holds_in_every_place() {
    let hints = [None, Some(0), Some(900), Some(2_000), Some(60_000), Some(3_600_000)];
    let mut places = 0;
    for class in Class::ALL {
        for (others, renewed) in
            [0, 1, u32::MAX].into_iter().flat_map(|others| [(others, false), (others, true)])
        {
            for following in [None, Some(1)] {
                for used in 0..=RETRIES {
                    for hint in hints.map(|hint| hint.map(Millis)) {
                        let route =
                            if following.is_some() { &[RUNG, OTHER][..] } else { &[RUNG][..] };
                        let attempts =
                            Attempts { failed: used, total: used, ..Attempts::default() };
                        let (tools_max, bytes_max) = (Some(9), Some(9));
                        let outcome = Failed { class, hint, others, renewed, tools_max, bytes_max };
                        let (action, after) = next(
                            &attempts,
                            Outcome::Failed(outcome),
                            route,
                            &Limits::default(),
                            0,
                            NOW,
                        );
                        let expected = said(row(class), (others, renewed), following, used, hint);
                        let place = format!("{class:?} {others} {following:?} {used} {hint:?}");
                        assert_eq!(action, expected, "{place}");
                        // A ready route is preferred over any sleep longer than a second.
                        let slept = match action {
                            Action::Ask { not_before: until, .. }
                            | Action::WaitUntil { until, .. } => until.since(NOW),
                            Action::Surface => Millis(0),
                        };
                        let rotates = row(class).contains("rotate") && others > 0;
                        assert!(
                            !(following.is_some() || rotates) || slept <= Millis(1_000),
                            "{place}"
                        );
                        assert_eq!(after.total, used + 1, "{place}");
                        assert_eq!(after.ready_at, hint.map(|hint| NOW.after(hint)), "{place}");
                        places += 1;
                    }
                }
            }
        }
    }
    assert_eq!(places, 21 * 6 * 2 * 3 * 6);
}

#[test]
fn a_server_error_is_tried_twice_more_and_then_the_next_candidate() {
    let outcome = failed(Class::ServerError, None, 0);
    let route = [RUNG, RUNG];
    let one = check(Attempts::default(), outcome, &route, ask(0, 0));
    let two = check(one, outcome, &route, ask(0, 0));
    let three = check(two, outcome, &route, ask(1, 0));
    let four = check(check(three, outcome, &route, ask(1, 0)), outcome, &route, ask(1, 0));
    check(four, outcome, &route, Action::Surface);
}

#[test]
fn another_profile_is_asked_before_another_candidate_and_before_any_sleep() {
    let limited = |others| failed(Class::RateLimited, Some(Millis(60_000)), others);
    let route = [RUNG, RUNG];
    let one = check(Attempts::default(), limited(2), &route, ask(0, 0));
    let two = check(one, limited(1), &route, ask(0, 0));
    assert_eq!((one.rotated, two.rotated), (1, 2));
    let three = check(two, limited(0), &route, ask(1, 0));
    assert_eq!((three.candidate, three.rotated), (1, 0));
    // A provider's own trouble is no key's: the same profile is tried again.
    let broken = failed(Class::ServerError, None, 5);
    assert_eq!(check(Attempts::default(), broken, &route, ask(0, 0)).rotated, 0);
    // Rotation has a bound of its own, which retries do not use up.
    let many = (0..ROTATIONS_MAX)
        .fold(Attempts::default(), |attempts, _| check(attempts, limited(9), &route, ask(0, 0)));
    assert_eq!(many.failed, 0);
    check(many, limited(9), &route, ask(1, 0));
}

#[test]
fn a_token_that_was_had_anew_is_asked_with_once_and_then_the_profile_is_at_fault() {
    let ended = |renewed| {
        Outcome::Failed(Failed { class: Class::AuthExpired, others: 1, renewed, ..NOTHING })
    };
    let route = [RUNG, RUNG];
    let fresh = check(Attempts::default(), ended(true), &route, ask(0, 0));
    assert_eq!((fresh.renewed, fresh.rotated, fresh.failed), (true, 0, 0));
    assert_eq!(check(fresh, ended(true), &route, ask(0, 0)).rotated, 1);
    assert_eq!(check(Attempts::default(), ended(false), &route, ask(0, 0)).rotated, 1);
    // The next candidate has a token of its own.
    let moved = check(fresh, failed(Class::ModelNotFound, None, 0), &route, ask(1, 0));
    assert!(!moved.renewed);
}

#[test]
fn with_nobody_ready_whoever_is_ready_first_is_waited_for() {
    let limited = |seconds: u64| failed(Class::RateLimited, Some(Millis(seconds * 1_000)), 0);
    let (alone, both) = ([RUNG], [RUNG, RUNG]);
    check(Attempts::default(), limited(2), &alone, ask(0, 2_000));
    check(Attempts::default(), limited(60), &alone, wake(0, 60_000));
    check(Attempts::default(), limited(3_600), &alone, Action::Surface);
    let second = check(Attempts::default(), limited(5), &both, ask(1, 0));
    let back = check(second, limited(60), &both, ask(0, 5_000));
    assert_eq!(
        (back.candidate, back.waits, back.waited, back.soonest),
        (0, 1, Millis(5_000), None)
    );
    let second = check(Attempts::default(), limited(60), &both, ask(1, 0));
    check(second, limited(5), &both, ask(1, 5_000));
    // Also when the last one is broken and not limited; not when the request is at fault.
    check(second, failed(Class::AuthInvalid, None, 0), &both, wake(0, 60_000));
    check(second, failed(Class::ContentPolicy, None, 0), &both, Action::Surface);
    check(second, failed(Class::InvalidRequest, None, 0), &both, Action::Surface);
}

#[test]
fn in_the_end_a_caller_is_told_the_earliest_time_that_anybody_named() {
    let limited = |seconds: u64| failed(Class::QuotaExhausted, Some(Millis(seconds * 1_000)), 0);
    let second = check(Attempts::default(), limited(60), &[RUNG, RUNG, RUNG], ask(1, 0));
    let third = check(second, limited(600), &[RUNG, RUNG, RUNG], ask(2, 0));
    let end = check(third, failed(Class::ServerError, None, 0), &[RUNG, RUNG], ask(2, 0));
    assert_eq!(end.ready_at, Some(NOW.after(Millis(60_000))));
    // A time that has come says nothing of what failed after it.
    let later = NOW.after(Millis(60_000));
    let (_, late) = next(&end, limited(5), &[RUNG, RUNG], &Limits::default(), 0, later);
    assert_eq!(late.ready_at, Some(later.after(Millis(5_000))));
}

#[test]
fn waits_for_a_rate_limit_are_bounded_together() {
    let limited = failed(Class::RateLimited, Some(Millis(400_000)), 0);
    let one = check(Attempts::default(), limited, &[RUNG], wake(0, 400_000));
    let two = check(one, limited, &[RUNG], wake(0, 400_000));
    check(two, limited, &[RUNG], Action::Surface);
}

#[test]
fn only_a_candidate_that_may_fare_better_is_asked() {
    let window = |window| Rung { family: "a", window: Some(Tokens(window)), barred: false };
    let route = [window(100), window(100), window(50), window(200), RUNG];
    let long = failed(Class::ContextOverflow, None, 0);
    let fourth = check(Attempts::default(), long, &route, ask(3, 0));
    // Of the last one nothing is known, so it is tried.
    let last = check(fourth, long, &route, ask(4, 0));
    check(last, long, &route, Action::Surface);
    check(Attempts::default(), long, &route[..3], Action::Surface);
    let invalid = failed(Class::InvalidRequest, None, 0);
    check(Attempts::default(), invalid, &[RUNG, RUNG, OTHER], ask(2, 0));
    check(Attempts::default(), invalid, &[RUNG, RUNG], Action::Surface);
}

#[test]
fn what_was_refused_is_left_out_once_and_for_that_candidate_only() {
    let replay = failed(Class::ReplayRejected, None, 0);
    let route = [RUNG, RUNG];
    let without = check(Attempts::default(), replay, &route, ask(0, 0));
    assert_eq!(
        without.without,
        Without { reasoning: lighten::Reasoning::Dropped, ..Without::default() }
    );
    let moved = check(without, replay, &route, ask(1, 0));
    assert_eq!(moved.without, Without::default());
    let tools =
        |tools_max| Outcome::Failed(Failed { class: Class::ToolsTooMany, tools_max, ..NOTHING });
    let fewer = check(without, tools(Some(64)), &route, ask(0, 0));
    assert_eq!(fewer.without.tools_max, Some(64));
    assert_eq!(fewer.without.reasoning, lighten::Reasoning::Dropped);
    check(fewer, tools(Some(32)), &route, ask(1, 0));
    // Nobody named a number, so there is nothing to shrink to.
    check(Attempts::default(), tools(None), &route, ask(1, 0));
}

#[test]
fn what_is_too_long_is_folded_once_a_step_and_the_bound_that_was_learnt_holds_on() {
    for class in [Class::ContextOverflow, Class::PayloadTooLarge] {
        let long = |bytes_max| Outcome::Failed(Failed { class, bytes_max, ..NOTHING });
        let route = [RUNG, RUNG];
        let folded = check(Attempts::default(), long(Some(500)), &route, ask(0, 0));
        assert_eq!((folded.without.bytes_max, folded.without.folded), (Some(500), true));
        assert_eq!(folded.failed, 0, "it was no retry");
        // Not twice in one step, however much a second fold would save.
        let moved = check(folded, long(Some(250)), &route, ask(1, 0));
        assert_eq!(moved.without, Without::default());
        // The other one has a fold of its own, and then nobody is left.
        let other = check(moved, long(Some(250)), &route, ask(1, 0));
        check(other, long(Some(100)), &route, Action::Surface);
        // The next step begins below what was refused, and may fold once more.
        let next_step = Attempts::after(&folded, 0).without;
        assert_eq!((next_step.bytes_max, next_step.folded), (Some(500), false));
        assert_eq!(Attempts::after(&folded, 1).without, Without::default());
        // Where no fold helps nothing is asked again for it.
        check(Attempts::default(), long(None), &route, ask(1, 0));
        check(Attempts::default(), long(None), &[RUNG], Action::Surface);
    }
}

#[test]
fn a_policy_falls_back_only_where_the_operator_wants_it() {
    let limits = Limits { on_policy: OnPolicy::Fall, ..Limits::default() };
    for class in [Class::ContentPolicy, Class::Tls] {
        let outcome = failed(class, None, 0);
        check(Attempts::default(), outcome, &[RUNG, RUNG], Action::Surface);
        let (action, _) = next(&Attempts::default(), outcome, &[RUNG, RUNG], &limits, 0, NOW);
        assert_eq!(action, ask(1, 0));
    }
}

#[test]
fn a_lost_outcome_is_asked_again_until_it_was_lost_too_often() {
    let mut attempts = Attempts::default();
    for _ in 1..Limits::default().unknown_max {
        attempts = check(attempts, Outcome::Unknown, &[RUNG], ask(0, 0));
    }
    check(attempts, Outcome::Unknown, &[RUNG], Action::Surface);
}

/// The most calls of one step without a wait: each candidate with its retries, its rotations, its three mends and its one new
/// token.
fn calls_max(candidates: usize) -> u32 {
    let each = 1 + RETRIES + 2 * ROTATIONS_MAX + 3 + 1;
    u32::try_from(candidates).unwrap() * each + Limits::default().unknown_max
}

#[test]
fn of_several_keys_the_one_that_is_ready_first_is_waited_for() {
    let limited = |hint, others| Failed {
        class: Class::RateLimited,
        hint: Some(Millis(hint)),
        others,
        ..NOTHING
    };
    let now = Instant(0);
    let say = |attempts: &Attempts, failed| {
        next(attempts, Outcome::Failed(failed), &[RUNG], &Limits::default(), 0, now)
    };
    let (action, attempts) = say(&Attempts::default(), limited(2_000, 1));
    assert_eq!(action, Action::Ask { candidate: 0, not_before: now });
    let (action, _) = say(&attempts, limited(90_000, 0));
    assert_eq!(action, Action::Ask { candidate: 0, not_before: now.after(Millis(2_000)) });
}

/// Evenly spread bits of a walk.
fn bits(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    *seed >> 24
}

/// Walks of outcomes that are as unkind as can be: whatever they are, each ends within its bound, asks in range, and
/// goes back to an earlier candidate only after a wait.
#[test]
fn recovery_always_ends_within_its_bound() {
    let hints = [None, None, Some(0), Some(500), Some(5_000), Some(60_000), Some(u64::MAX)];
    for seed in 0..4_000_u64 {
        let mut bits_of = seed;
        let candidates = 1 + usize::try_from(seed % 3).unwrap();
        let route = &[RUNG, OTHER, RUNG][..candidates];
        // Some walks stay with one class, the others mix them.
        let only = (seed % 2 == 0).then(|| Class::ALL[usize::try_from(seed / 2 % 21).unwrap()]);
        let (mut attempts, mut now) = (Attempts::default(), NOW);
        loop {
            let drawn = bits(&mut bits_of);
            let of = |most: usize| usize::try_from(drawn).unwrap() % most;
            let class = only.unwrap_or(Class::ALL[of(21)]);
            let hint = hints[of(hints.len())].map(Millis);
            let others = u32::try_from(of(3)).unwrap();
            let outcome = match of(23) {
                0 if only.is_none() => Outcome::Unknown,
                _ => {
                    let renewed = of(2) == 0;
                    let (tools_max, bytes_max) = (Some(3), Some(3));
                    Outcome::Failed(Failed { class, hint, others, renewed, tools_max, bytes_max })
                }
            };
            let (action, after) =
                next(&attempts, outcome, route, &Limits::default(), bits(&mut bits_of), now);
            assert_eq!(after.total, attempts.total + 1);
            let most = calls_max(candidates) * (after.waits + 1);
            assert!(after.total <= most, "seed {seed}: {after:?}");
            assert!(after.waits <= WAITS_MAX && after.waited <= Limits::default().wait_max);
            match action {
                Action::Surface => break,
                Action::Ask { candidate, not_before: until }
                | Action::WaitUntil { candidate, until } => {
                    assert_eq!(candidate, after.candidate);
                    assert!(candidate < candidates && until >= now, "seed {seed}: {action:?}");
                    let waited = after.waits > attempts.waits;
                    assert!(waited || candidate >= attempts.candidate, "seed {seed}: {action:?}");
                    now = until;
                }
            }
            attempts = after;
        }
    }
}

#[test]
fn a_hint_is_a_floor_and_a_pause_is_full_jitter() {
    let limits = Limits::default();
    for jitter in [0, 1, 77, u64::MAX] {
        for class in [Class::Overloaded, Class::Timeout, Class::RateLimited] {
            let outcome = failed(class, Some(Millis(700)), 0);
            let (action, _) = next(&Attempts::default(), outcome, &[RUNG], &limits, jitter, NOW);
            let Action::Ask { not_before, .. } = action else { panic!("{action:?}") };
            assert!(not_before >= NOW.after(Millis(700)), "{class:?} {jitter}");
        }
    }
    let pauses: Vec<Millis> = (0..=500).map(|jitter| backoff(&limits, 1, jitter)).collect();
    assert_eq!((pauses[0], pauses[500]), (Millis(0), Millis(500)), "the whole range");
    assert!((1..100).all(|failed| backoff(&limits, failed, u64::MAX) <= limits.retry_cap));
}

#[test]
fn what_never_left_is_asked_again_at_once_and_then_at_a_pace() {
    let limits = Limits::default();
    for jitter in [0, 77, u64::MAX] {
        assert_eq!(again(0, &limits, jitter, NOW), NOW);
        for in_a_row in 1..200 {
            let most = NOW.after(Millis(ceiling(&limits, in_a_row)));
            let least = NOW.after(Millis(ceiling(&limits, in_a_row) / 2));
            let at = again(in_a_row, &limits, jitter, NOW);
            assert!(least >= NOW.after(Millis(250)) && least <= at && at <= most, "{at:?}");
        }
    }
    assert_eq!(ceiling(&limits, 200), limits.retry_cap.0);
}

#[test]
fn class_names_are_distinct() {
    let mut names: Vec<_> = Class::ALL.iter().map(|class| class.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Class::ALL.len());
}
