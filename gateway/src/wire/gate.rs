//! Gates and what happens to them, as JSON.

use super::time::rfc3339;
use events::gate::{Declaration, Event, Gate, Judgement, Standing, Waiver};
use serde_json::{Value, json};

fn judgement(one: &Judgement) -> Value {
    json!({
        "verdict": one.verdict.name(),
        "text": one.evidence.text,
        "reference": one.evidence.reference,
        "by": one.by.to_string(),
        "at": rfc3339(one.at),
    })
}

fn waiver(one: &Waiver) -> Value {
    json!({
        "run": one.run.to_string(),
        "reason": one.reason,
        "by": one.by.to_string(),
        "at": rfc3339(one.at),
    })
}

/// The words for whether a gate is open, and why it is not.
#[must_use]
pub fn standing(standing: &Standing) -> (&'static str, Option<String>) {
    match standing {
        Standing::Open { .. } => ("open", None),
        Standing::Closed { why } => ("closed", Some(why.to_string())),
        Standing::NoEvaluator => {
            ("no_evaluator", Some("nobody says whether it is open".to_owned()))
        }
    }
}

/// One gate of a project, as this node meets it: how it works, whether it is open, and what was said of it.
#[must_use]
pub fn object(
    (project, name): (&str, &str),
    declaration: Option<Declaration>,
    stands: &Standing,
    gate: Option<&Gate>,
) -> Value {
    let (state, why) = standing(stands);
    let waivers = gate.map(|gate| gate.waivers.iter().map(waiver).collect::<Vec<Value>>());
    json!({
        "object": "gate",
        "project": project,
        "name": name,
        "evaluator": declaration.map(|one| one.evaluator.name()),
        "hardness": declaration.map(|one| one.hardness.name()),
        "state": state,
        "why": why,
        "version": gate.map_or(0, |gate| gate.version),
        "evidence": gate.and_then(|gate| gate.judgement.as_ref()).map(judgement),
        "waivers": waivers.unwrap_or_default(),
    })
}

/// What an event says.
#[must_use]
pub fn event(event: &Event) -> Value {
    match event {
        Event::Declared(declared) => json!({
            "name": declared.name,
            "version": declared.version,
            "evaluator": declared.declaration.evaluator.name(),
            "hardness": declared.declaration.hardness.name(),
        }),
        Event::Evaluated(evaluated) => json!({
            "name": evaluated.name,
            "version": evaluated.version,
            "evidence": judgement(&evaluated.judgement),
        }),
        Event::Waived(waived) => json!({
            "name": waived.name,
            "version": waived.version,
            "waiver": waiver(&waived.waiver),
        }),
    }
}
