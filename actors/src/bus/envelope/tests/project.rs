//! What is said to the owners of a project's grants, gates and artifacts, and of what it says of itself.

use super::{lines, run_id};
use events::json::Json;
use events::quantity::Instant;
use events::record::Actor;
use events::{about, artifact, gate, grant};

pub(super) fn words(out: &mut Vec<String>) {
    of_grants(out);
    of_gates(out);
    of_artifacts_and_itself(out);
}

fn of_grants(out: &mut Vec<String>) {
    use grant::{BadPattern, Command, GrantId, Pattern, Refusal, Revoked, Wanted};
    let (id, by) = (GrantId(300), Actor::Admin);
    let mut pattern = Pattern::exact(&Json::from_bytes(br#"{"a":1}"#));
    pattern.glob.insert("/b".into(), "*.md".into());
    let tool = "note_append".to_owned();
    let wanted = Wanted { id, tool, pattern, by, until: Some(Instant(300)) };
    lines(&[Command::Grant(wanted), Command::Revoke(Revoked { id, by })], out);
    let bad = |why| Refusal::BadPattern(why);
    let refusals = [
        Refusal::Exists,
        Refusal::NoSuchGrant,
        Refusal::Past,
        Refusal::Full,
        Refusal::BadTool,
        bad(BadPattern::Empty),
        bad(BadPattern::TooLarge),
        bad(BadPattern::NotAPointer("a".into())),
        bad(BadPattern::Twice("/a".into())),
        bad(BadPattern::NotJson("/a".into())),
    ];
    lines(&refusals, out);
}

fn of_gates(out: &mut Vec<String>) {
    use gate::{
        Command, Declaration, Evaluator, Evidence, Hardness, Refusal, Said, Surface, Verdict,
    };
    let (name, by, run) = (|| "g".to_owned(), Actor::Admin, run_id());
    let declaration = Declaration { evaluator: Evaluator::Evidence, hardness: Hardness::Soft };
    let said = Said { declared: Some(declaration), surface: Surface::ReadOnly };
    let evidence = Evidence { text: "t".into(), reference: Some("r".into()) };
    let (verdict, reason) = (Verdict::Failed, "why".to_owned());
    let commands = [
        Command::Evaluate { name: name(), said, verdict, evidence, by },
        Command::Waive { name: name(), said: Said::NOTHING, run, reason, by },
    ];
    lines(&commands, out);
    let refusals = [
        Refusal::BadName,
        Refusal::NoSuchGate(name()),
        Refusal::TakesNone(name()),
        Refusal::BadEvidence,
        Refusal::BadReason,
        Refusal::Hard(name()),
        Refusal::ReadOnly(name()),
        Refusal::IsOpen(name()),
        Refusal::Full,
    ];
    lines(&refusals, out);
}

fn of_artifacts_and_itself(out: &mut Vec<String>) {
    let by = Actor::Admin;
    let write = artifact::Write {
        name: "plan".parse().unwrap(),
        content: "x".into(),
        over: Some(300),
        source: artifact::Source::Hand,
        by,
    };
    lines(&[artifact::Command::Write(write)], out);
    let name = || String::from("plan");
    let moved = artifact::Refusal::Moved { name: name(), have: 300, over: 1 };
    let long = artifact::Refusal::TooLong { bytes: 600_000 };
    let many = artifact::Refusal::ManyVersions { name: name() };
    lines(&[moved, long, many, artifact::Refusal::Full], out);
    let (name, description) = (String::from("lab"), String::from("ropes"));
    lines(&[about::Command::Describe { name, description, by }], out);
    lines(&[about::Refusal::TooLong], out);
}
