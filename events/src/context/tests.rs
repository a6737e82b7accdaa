//! The fold by example, and over conversations of chance under every bound.

use super::*;
use crate::message::{Message, Part, Seal, ToolCall};

/// Dice that are always the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

fn user(text: &str) -> Body {
    Message::text(Role::User, text).body()
}

fn says(text: &str) -> Body {
    Message::text(Role::Assistant, text).body()
}

fn calls(id: &str) -> Body {
    let (name, arguments) = ("look_up".to_owned(), format!(r#"{{"of":"{id}"}}"#));
    let call = Part::ToolCall(ToolCall { id: id.to_owned(), name, arguments });
    Message { role: Role::Assistant, name: None, parts: vec![call] }.body()
}

fn answers(id: &str, content: &str) -> Body {
    Message::tool_result(id, content.to_owned()).body()
}

fn refs(all: &[Body]) -> Vec<MessageRef> {
    all.iter().map(MessageRef::from).collect()
}

fn length(all: &[Body]) -> u64 {
    all.iter().map(|body| body.json().as_bytes().len() as u64).sum()
}

/// Plans and renders, and compares the two.
#[track_caller]
fn folded(all: &[Body], bounds: &Bounds) -> (Plan, Vec<Body>) {
    let plan = plan(&refs(all), bounds);
    let sent = render(all.to_vec(), plan.fold.as_ref());
    assert_eq!(plan.names.len(), sent.len(), "{:?}", plan.fold);
    assert!(length(&sent) <= plan.bytes, "{} > {}: {:?}", length(&sent), plan.bytes, plan.fold);
    assert!(plan.bytes <= length(all), "a fold never makes it longer: {:?}", plan.fold);
    if plan.fold.is_none() {
        assert_eq!((sent.as_slice(), plan.bytes), (all, length(all)));
    }
    (plan, sent)
}

/// So many turns of a question of so many bytes and an answer of the same.
fn talk(turns: usize, bytes: usize) -> Vec<Body> {
    let long = |word: String| word.clone() + &".".repeat(bytes.saturating_sub(word.len()));
    let turn =
        |n: usize| [user(&long(format!("question {n} "))), says(&long(format!("answer {n} ")))];
    let all = std::iter::once(Message::text(Role::System, "be brief").body());
    all.chain((0..turns).flat_map(turn)).collect()
}

fn of_session(history: usize, max: u64) -> Bounds {
    Bounds { history, history_max: Some(max), window: None }
}

#[test]
fn a_session_within_its_budget_is_sent_whole_and_beyond_it_its_newest_turns_are() {
    let mut all = talk(10, 1_000);
    let history = all.len();
    all.push(user("and now?"));
    let whole = length(&all[1..history]);
    assert_eq!(folded(&all, &of_session(history, whole)).0.fold, None);
    let (plan, sent) = folded(&all, &of_session(history, whole - 1));
    let turns = plan.fold.unwrap().turns.unwrap();
    assert_eq!((turns.from, turns.to % 2), (0, 1), "cut where a turn begins");
    // System text first and as it was, the synopsis, then whole turns and the question.
    assert_eq!(sent[0], all[0]);
    assert_eq!(sent[2..], all[usize::try_from(turns.to).unwrap()..]);
    let kept = length(&all[usize::try_from(turns.to).unwrap()..history]);
    assert!(kept <= whole / 2 && kept > whole / 4, "the newest half: {kept} of {whole}");
    let text = sent[1].message().unwrap();
    assert_eq!(text.role, Role::User);
    for said in ["question 0", "answer 0", "question 3", "a record of what was said"] {
        assert!(text.plain().contains(said), "{said}: {}", text.plain());
    }
    // What a caller sends itself is not the session's, and has no budget of history.
    assert_eq!(folded(&all, &of_session(0, 1)).0.fold, None);
}

#[test]
fn a_newest_turn_that_is_too_large_is_cut_between_its_exchanges() {
    let big = "x".repeat(3_000);
    let mut all = vec![user("do it")];
    for id in ["a", "b", "c"] {
        all.extend([calls(id), answers(id, &big)]);
    }
    all.push(says("done"));
    let history = all.len();
    all.push(user("and now?"));
    let (plan, sent) = folded(&all, &of_session(history, 4_000));
    assert_eq!(plan.fold.unwrap().turns.unwrap().to, 5, "the last exchange stays: {sent:?}");
    assert_eq!(sent[1..], all[5..]);
    let text = sent[0].message().unwrap().plain();
    for said in ["user: do it", r#"assistant calls look_up: {"of":"a"}"#, "look_up answers: xxx"] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

/// A run at work: a question, exchanges of so many bytes each, none of them settled into a turn.
fn work(exchanges: usize, bytes: usize) -> Vec<Body> {
    let mut all = vec![Message::text(Role::System, "be brief").body(), user("do it")];
    for n in 0..exchanges {
        let id = format!("call_{n}");
        all.extend([calls(&id), answers(&id, &format!("{n} {}", "y".repeat(bytes)))]);
    }
    all
}

fn within(window: u64) -> Bounds {
    Bounds { window: Some(window), ..Bounds::default() }
}

#[test]
fn older_exchanges_of_a_turn_fold_and_question_and_newest_exchange_stay() {
    let all = work(12, 2_000);
    let (plan, sent) = folded(&all, &within(15_000));
    let fold = plan.fold.unwrap();
    let exchanges = fold.exchanges.unwrap();
    assert_eq!((fold.turns, fold.results, exchanges.from, exchanges.to % 2), (None, None, 2, 0));
    assert_eq!(sent[..2], all[..2]);
    assert_eq!(sent[3..], all[usize::try_from(exchanges.to).unwrap()..]);
    assert!(plan.bytes <= 15_000);
    // However small the window: the newest exchange stays, with its results cut.
    let all = work(12, 20_000);
    let (plan, sent) = folded(&all, &within(100));
    let cut = plan.fold.unwrap().results.unwrap();
    assert_eq!((cut.from, cut.max, sent.len()), (2, RESULTS_MIN, 5));
    assert_eq!((&sent[..2], &sent[3]), (&all[..2], &all[24]));
    let results = sent[4].message().unwrap();
    let result = results.results().next().unwrap();
    assert_eq!(result.call, "call_11");
    assert!(result.content.starts_with("11 yyy") && result.content.contains("…[truncated "));
}

#[test]
fn a_large_past_gives_way_to_the_work_of_this_turn() {
    let mut all = talk(20, 1_000);
    all.extend(work(3, 2_000).into_iter().skip(1));
    let (plan, _) = folded(&all, &within(20_000));
    let fold = plan.fold.unwrap();
    assert!(fold.turns.is_some() && fold.exchanges.is_none(), "{fold:?}");
    assert!(plan.bytes <= 20_000);
}

#[test]
fn nobody_who_asked_nothing_and_nothing_that_is_small_is_folded() {
    let silent = [says(&"a".repeat(9_000)), says(&"b".repeat(9_000))];
    assert_eq!(folded(&silent, &within(100)).0.fold, None);
    assert_eq!(folded(&[user(&"a".repeat(9_000))], &within(100)).0.fold, None);
    let mut small = talk(5, 100);
    small.push(user("and now?"));
    assert_eq!(folded(&small, &within(100)).0.fold, None, "a synopsis would save too little");
    assert_eq!(plan(&[], &within(100)).fold, None);
}

/// Over many turns and steps the same is sent again in the same form, and folded anew only now and then.
#[test]
fn what_is_folded_stays_as_it_is_until_the_upper_mark_is_passed_again() {
    let (all, max) = (refs(&talk(200, 500)), 12_000);
    let mut before: Vec<Hash> = vec![];
    let mut changes = 0;
    for turn in 1..200 {
        let history = 1 + 2 * (turn - 1);
        let plan = plan(&all[..=history], &of_session(history, max));
        changes += usize::from(!plan.names.starts_with(&before));
        before = plan.names;
    }
    // Each fold takes away at least half of the budget: about eleven messages.
    assert!((10..=40).contains(&changes), "{changes}");
    let all = refs(&work(200, 500));
    let (mut before, mut changes) = (vec![], 0);
    for step in 1..200 {
        let plan = plan(&all[..2 + 2 * step], &within(20_000));
        changes += usize::from(!plan.names.starts_with(&before));
        before = plan.names;
    }
    assert!((5..=30).contains(&changes), "{changes}");
}

#[test]
fn a_synopsis_is_another_one_for_other_messages_and_another_room() {
    let all = work(12, 2_000);
    let at = |bounds| plan(&refs(&all), &bounds);
    let names = at(within(15_000)).names;
    assert_eq!(names, at(within(15_000)).names);
    let mut other = all.clone();
    other[2] = calls("another");
    assert_ne!(names, plan(&refs(&other), &within(15_000)).names, "one folded message is another");
    let span = at(within(15_000)).fold.unwrap().exchanges.unwrap();
    let wider = Fold { exchanges: Some(Span { room: span.room + 1, ..span }), ..Fold::default() };
    assert_ne!(names, super::names(&refs(&all), Some(&wider)));
}

/// Other words are another request: raise `WORDING` with this text.
#[test]
fn the_words_of_a_synopsis_do_not_change() {
    let seal = Seal {
        family: "f".into(),
        endpoint: "e".into(),
        profile: String::new(),
        model: "m".into(),
    };
    let thought = Part::Reasoning { text: "secret".into(), seal, sealed: None };
    let refusal = Part::Refusal { text: "I will not".into() };
    let parts = vec![thought, Part::Text { text: "so\n\"so\"".into() }, refusal];
    let image = Part::Image { url: "data:image/png;base64,AAAA".into(), detail: None };
    let all = [
        user("what is it?"),
        Message { role: Role::Assistant, name: None, parts }.body(),
        calls("a"),
        answers("a", &"long ".repeat(300)),
        Message { role: Role::User, name: None, parts: vec![image] }.body(),
    ];
    let text = fold::synopsis(all.iter(), 1_100).message().unwrap().plain();
    assert_eq!(text, include_str!("../golden/synopsis.txt"));
    assert_eq!(WORDING, 1);
}

#[test]
fn of_too_many_the_first_and_the_newest_are_told() {
    let many: Vec<Body> =
        (0..500).map(|n| user(&format!("number {n} {}", "z".repeat(99)))).collect();
    let body = fold::synopsis(many.iter(), 2_000);
    let text = body.message().unwrap().plain();
    assert!(body.json().as_bytes().len() <= 2_000);
    for said in ["500 earlier messages", "number 0 ", "number 499", " are left out here]"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!text.contains("number 1 "));
}

fn any(dice: &mut Dice) -> Vec<Body> {
    let mut all = vec![];
    let text = |dice: &mut Dice| {
        let unit = ["w", "\n", "\"", "é", "\u{1F9D7}", "\u{1}"][dice.roll(6)];
        unit.repeat([0, 1, 40, 500, 2_500][dice.roll(5)])
    };
    for n in 0..dice.roll(30) {
        let said = text(dice);
        match dice.roll(6) {
            0 => all.push(Message::text(Role::System, &said).body()),
            1 | 2 => all.push(user(&said)),
            3 => all.push(says(&said)),
            _ => {
                let ids = [format!("a{n}"), format!("b{n}")];
                let call = |id: &String| {
                    let (id, name) = (id.clone(), "f".to_owned());
                    Part::ToolCall(ToolCall { id, name, arguments: said.clone() })
                };
                let parts = ids.iter().map(call).collect();
                all.push(Message { role: Role::Assistant, name: None, parts }.body());
                all.extend(ids.iter().map(|id| answers(id, &text(dice))));
            }
        }
    }
    all
}

#[test]
fn whatever_was_said_and_whatever_the_bounds_calls_and_results_stay_together_and_sizes_hold() {
    let mut dice = Dice(11);
    let mut folds = [0; 3];
    for _ in 0..300 {
        let all = any(&mut dice);
        let bounds = Bounds {
            history: dice.roll(all.len() + 1),
            history_max: [None, Some(0), Some(3_000), Some(20_000)][dice.roll(4)],
            window: [None, Some(0), Some(2_000), Some(9_000), Some(60_000)][dice.roll(5)],
        };
        let (plan, sent) = folded(&all, &bounds);
        let Some(fold) = plan.fold else { continue };
        let one = [fold.turns.is_some(), fold.exchanges.is_some(), fold.results.is_some()];
        for (count, is) in folds.iter_mut().zip(one) {
            *count += i32::from(is);
        }
        let mut open: Vec<String> = vec![];
        for message in sent.iter().map(|body| body.message().unwrap()) {
            for result in message.results() {
                let at = open.iter().position(|id| *id == result.call);
                open.remove(at.unwrap_or_else(|| panic!("{} without its call", result.call)));
            }
            assert!(message.role == Role::Tool || open.is_empty(), "{open:?} has no result");
            open.extend(message.calls().map(|call| call.id.clone()));
        }
        assert!(open.is_empty(), "{open:?}");
        // What the operator said, what was asked, and who spoke last.
        let of = |all: &[Body]| -> Vec<Body> {
            all.iter().filter(|body| body.speaker() == Role::System).cloned().collect()
        };
        assert_eq!(of(&sent), of(&all));
        let question = history::question(&refs(&all)).unwrap();
        assert!(all[question].iter().all(|body| sent.contains(body)));
        assert_eq!(sent.last().unwrap().speaker(), all.last().unwrap().speaker());
        let stats = stats::stats(&refs(&all), 0, Some(&fold));
        assert!(stats.folded > 0 || fold.results.is_some());
        assert!(stats.total().0 >= plan.bytes / TOKEN_BYTES);
    }
    assert!(folds.iter().all(|count| *count > 9), "{folds:?}");
}
