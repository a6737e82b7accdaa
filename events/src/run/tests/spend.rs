//! What a run says of what it has cost.

use super::*;

/// An answer costs 20 here: the first stays below the mark, the second goes over it, and the third says nothing more.
#[test]
fn a_cost_beyond_its_mark_is_said_once() {
    let mut spec = Spec::clone(&spec(Plane::Run));
    spec.limits = Limits { spend_alert: Some(MicroUsd(30)), ..Limits::default() };
    let open = Command::Open { spec: Arc::new(spec), session: None, grant: None };
    let tool = |n| vec![nth(n, ask("a", server(ReplayClass::ReadOnly)))];
    let mut given = vec![open];
    for (call, said) in [(0, false), (1, true), (2, false)] {
        let events = Run::decide(&after(&given), &answered(call, tool(call)), NOW).unwrap();
        let names: Vec<_> = events.iter().map(Event::name).collect();
        assert_eq!(names.contains(&"spend_crossed"), said, "{call}: {names:?}");
        given.extend([answered(call, tool(call)), receipt(call, 0)]);
    }
    let state = after(&given);
    assert!(state.spend_crossed && state.answered == 3);
    let total = state.by_candidate[&0];
    assert_eq!((total.cost, total), (Some(MicroUsd(60)), state.total));
}
