//! The stored bytes of every event of a run, pinned.

use super::*;

fn samples() -> Vec<Event> {
    let asks = vec![
        ask("a", server(ReplayClass::Effectful)),
        ask("b", Verdict::Refused("no".into())),
        ask("c", Verdict::Client),
    ];
    let fence = Some(Fence(3));
    let finished = Finished {
        outcome: Outcome::Completed,
        reason: Reason::Answered,
        detail: "d".into(),
        fence,
    };
    let mut all = Run::decide(&State::default(), &open_in_session(), NOW).unwrap();
    let state = after(&[open_in_session()]);
    all.extend(Run::decide(&state, &answered(0, asks.clone()), NOW).unwrap());
    let state = after(&[open_in_session(), answered(0, asks)]);
    all.extend(Run::decide(&state, &receipt(0, 0), NOW).unwrap());
    all.extend(Run::decide(&state, &Command::stop(), NOW).unwrap());
    all.push(Event::ClientAnswered(hold::ClientAnswered {
        results: vec![Message::tool_result("c", "1".into()).body()],
    }));
    all.push(Event::ToolRetried(ledger::ToolRetried { call: ToolNo(1), attempt: 2 }));
    all.push(Event::ModelDelayed(step::ModelDelayed { until: NOW, candidate: 1 }));
    all.extend(
        Run::decide(&after(&[open(Plane::Run)]), &failed(0, Class::RateLimited, 7), NOW).unwrap(),
    );
    all.extend(Run::awake(&after(&[open(Plane::Run)])));
    all.push(Event::Finished(finished));
    all.push(Event::Withheld(withhold::Withheld {}));
    all.push(Event::ModelNotSent(unsent::ModelNotSent { call: CallNo(3), why: LATE }));
    let (alert, spent) = (MicroUsd(30), MicroUsd(40));
    all.push(Event::SpendCrossed(account::SpendCrossed { alert, spent }));
    let why = NotSent::LeaseOver;
    all.push(Event::ToolNotSent(ledger::ToolNotSent { call: ToolNo(2), why }));
    all.extend(draws::samples());
    all.extend(brokered::samples());
    let (id, name, content) = ("a".to_owned(), "t".to_owned(), "c".to_owned());
    all.push(Event::ToolRepeated(ledger::ToolRepeated { index: 1, id, name, content }));
    let (offered, dropped) = (vec!["a".to_owned()], vec!["b".to_owned()]);
    all.push(Event::ToolsChosen(chosen::ToolsChosen { offered, dropped, cap: Some(1) }));
    all.extend(approvals::samples());
    all
}

#[test]
fn the_bytes_of_an_event_do_not_change() {
    let samples: Vec<_> =
        samples().iter().map(|event| (event.name(), Run::encode(event).unwrap())).collect();
    golden::check(
        "run.txt",
        include_str!("../../golden/run.txt"),
        Event::TABLE,
        &samples,
        |kind, schema, bytes| Event::decode(kind, schema, bytes).is_ok(),
    );
}
