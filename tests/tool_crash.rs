//! The crash table of tools: a node is killed while a call of each kind stands at a labelled point, and started again
//! with no command sent. What the world saw happened once at most, every intent has an end or is said to be unknown,
//! nothing effectful is repeated, and the model is told the truth.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use tests::brokered::{Brokered, FETCH, named};

/// The points of a call, in order (`deploy/drills.md`).
const POINTS: [&str; 7] = [
    "before_intent",
    "after_intent",
    "before_first_byte",
    "after_first_byte",
    "after_effect",
    "before_outcome",
    "after_outcome",
];

/// What the tool says of itself, or what is ruled of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `note.append`: each call is a line.
    Effectful,
    /// `clock.now`: nothing of it is left.
    ReadOnly,
    /// `http.fetch`, through the broker: each call is a request.
    Mediated,
    /// `note.append`, if it may be made again under its id.
    Idempotent,
    /// `note.append` through the broker.
    MediatedEffect,
}

/// Kinds that are one node's, and what is ruled there.
const NODES: [(&str, &[Kind]); 3] = [
    ("", &[Kind::Effectful, Kind::ReadOnly, Kind::Mediated]),
    ("[tools.\"note.append\"]\nclass = \"idempotent\"\n", &[Kind::Idempotent]),
    ("[tools.\"note.append\"]\nmediated = true\n", &[Kind::MediatedEffect]),
];

impl Kind {
    /// What a run is asked so that its model makes the one call.
    fn asked(self, broker: &Brokered) -> Value {
        let input = match self {
            Self::Effectful | Self::Idempotent | Self::MediatedEffect => "note: rope".to_owned(),
            Self::ReadOnly => "clock".to_owned(),
            Self::Mediated => format!("tool {FETCH} {}", broker.at("ok")),
        };
        json!({ "input": input })
    }

    /// Whether a call of it comes by a point: what asks nobody has no first byte that leaves.
    fn visits(self, point: &str) -> bool {
        !(self == Self::ReadOnly && point == "after_first_byte")
    }

    /// How often it happened, as the world outside has it; none where nothing is left of it. The same call again under
    /// its id is the same.
    fn effects(self, broker: &Brokered) -> Option<usize> {
        let ids = || {
            let notes = broker.notes();
            let ids = notes.iter().map(|line| line.split('\t').next().map(str::to_owned));
            ids.collect::<BTreeSet<_>>().len()
        };
        match self {
            Self::Effectful | Self::MediatedEffect => Some(broker.notes().len()),
            Self::Idempotent => Some(ids()),
            Self::ReadOnly => None,
            Self::Mediated => Some(broker.site.asked("/ok")),
        }
    }

    fn is_mediated(self) -> bool {
        matches!(self, Self::Mediated | Self::MediatedEffect)
    }

    /// What the journal says in the end of a call that was killed at a point.
    fn outcome(self, point: &str) -> &'static str {
        let is_open = !matches!(point, "before_intent" | "after_outcome");
        let is_made_again = matches!(self, Self::ReadOnly | Self::Idempotent);
        if is_open && !is_made_again { "tool_unknown" } else { "tool_receipt" }
    }

    /// How often it may have happened.
    fn possible(self, point: &str) -> std::ops::RangeInclusive<usize> {
        match (self, point) {
            (_, "before_intent" | "after_outcome") | (Self::Idempotent, _) => 1..=1,
            (_, "after_intent" | "before_first_byte") => 0..=0,
            // It has left, or is leaving.
            (_, "after_first_byte") => 0..=1,
            _ => 1..=1,
        }
    }
}

async fn crash(point: &str) {
    for (rules, kinds) in NODES {
        crash_of(point, rules, kinds).await;
    }
}

async fn crash_of(point: &str, rules: &str, kinds: &[Kind]) {
    let mut broker = Brokered::over_web(rules).await;
    let mut runs = vec![];
    broker.hold(point);
    for kind in kinds.iter().copied().filter(|kind| kind.visits(point)) {
        let run = broker.node.start_run(&kind.asked(&broker)).await;
        broker.reached(point, &run).await;
        runs.push((kind, run));
    }
    broker.kill();
    broker.rise().await;
    for (kind, run) in &runs {
        let what = format!("{kind:?} at {point}");
        let outcome = kind.outcome(point);
        let halts = kind.is_mediated() && outcome == "tool_unknown";
        let found = if halts {
            broker.shows(run, "needs_reconciliation").await
        } else {
            broker.node.ended(run).await
        };
        assert_eq!(found["outcome"].is_null(), halts, "{what}: {found}");
        let effects = kind.effects(&broker);
        let possible = kind.possible(point);
        assert!(effects.is_none_or(|count| possible.contains(&count)), "{what}: {effects:?}");
        truth(&broker, run, (outcome, &what), &found).await;
    }
}

/// What the journal and the model say of the one call of a run.
async fn truth(broker: &Brokered, run: &str, (outcome, what): (&str, &str), found: &Value) {
    let journal = broker.node.journal(run).await;
    let ends = ["tool_receipt", "tool_unknown"].map(|name| (name, named(&journal, name).len()));
    let then = ends.map(|(name, _)| (name, usize::from(name == outcome)));
    assert_eq!((named(&journal, "tool_intent").len(), ends), (1, then), "{what}: {journal:?}");
    let output = found["output"].as_str().unwrap_or_default();
    if found["outcome"].is_string() {
        assert_eq!(
            output.contains("outcome unknown"),
            outcome == "tool_unknown",
            "{what}: {found}"
        );
    }
    broker.is_true(run).await;
}

#[tokio::test]
async fn a_tool_call_is_killed_before_and_after_its_intent() {
    for point in &POINTS[..2] {
        crash(point).await;
    }
}

#[tokio::test]
async fn a_tool_call_is_killed_before_and_after_its_first_byte() {
    for point in &POINTS[2..4] {
        crash(point).await;
    }
}

#[tokio::test]
async fn a_tool_call_is_killed_after_its_effect_and_around_its_outcome() {
    for point in &POINTS[4..] {
        crash(point).await;
    }
}

/// Each point of the table stands in the page that tells users of it.
#[test]
fn the_page_of_drills_has_every_point() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/drills.md"));
    let page = page.unwrap();
    let (_, table) = page.split_once("## Tools: what a kill leaves").unwrap();
    for point in POINTS {
        assert!(table.contains(&format!("`{point}`")), "{point}");
    }
}
