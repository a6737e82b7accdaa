//! What the end of a hook means. Only an end that plainly says yes lets a call pass.

use super::child::Ended;
use super::{Blocked, reason};
use serde_json::Value;

/// The exit code that blocks.
const BLOCKS: i32 = 2;

pub(super) fn of(ended: &Ended) -> Result<(), Blocked> {
    match ended.code {
        Some(0) => of_success(&ended.out),
        Some(BLOCKS) => Err(Blocked::Said(said(&ended.err))),
        Some(code) => Err(Blocked::Failed(format!("it ended with {code}: {}", said(&ended.err)))),
        None => Err(Blocked::Failed("it was killed".to_owned())),
    }
}

fn said(text: &str) -> String {
    let text = reason(text);
    if text.is_empty() { "it gave no reason".to_owned() } else { text }
}

/// A hook that ends well may still say no, in Claude Code's JSON. Other text is for people.
fn of_success(out: &str) -> Result<(), Blocked> {
    if !out.trim_start().starts_with('{') {
        return Ok(());
    }
    let answer: Value = serde_json::from_str(out)
        .map_err(|_| Blocked::Failed("its answer begins like JSON and is none".to_owned()))?;
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str);
    let blocks = |why: &str| Err(Blocked::Said(said(text(why).unwrap_or_default())));
    if answer.get("continue") == Some(&Value::Bool(false)) {
        return blocks("/stopReason");
    }
    match text("/decision") {
        None | Some("approve") => {}
        Some(_) => return blocks("/reason"),
    }
    match text("/hookSpecificOutput/permissionDecision") {
        None | Some("allow") => {}
        Some(_) => return blocks("/hookSpecificOutput/permissionDecisionReason"),
    }
    if answer.pointer("/hookSpecificOutput/updatedInput").is_some() {
        let why =
            "it wants other arguments, which were not checked: a hook may only let pass or block";
        return Err(Blocked::Failed(why.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: Option<i32>, out: &str, err: &str) -> Ended {
        Ended { code, out: out.into(), err: err.into() }
    }

    #[test]
    fn only_a_plain_yes_lets_a_call_pass() {
        let decision = |word: &str| {
            format!(
                r#"{{"hookSpecificOutput":{{"permissionDecision":"{word}","permissionDecisionReason":"r"}}}}"#
            )
        };
        let (allow, deny, ask) = (decision("allow"), decision("deny"), decision("ask"));
        for out in
            ["", "looked at it", "{}", r#"{"continue":true}"#, r#"{"decision":"approve"}"#, &allow]
        {
            assert_eq!(of(&ended(Some(0), out, "")), Ok(()), "{out}");
        }
        let r = || Err(Blocked::Said("r".into()));
        for out in [
            &deny,
            &ask,
            r#"{"decision":"block","reason":"r"}"#,
            r#"{"continue":false,"stopReason":"r"}"#,
        ] {
            assert_eq!(of(&ended(Some(0), out, "")), r(), "{out}");
        }
        assert_eq!(of(&ended(Some(2), &allow, " r\n")), r());
        assert_eq!(of(&ended(Some(2), "", "")), Err(Blocked::Said("it gave no reason".into())));
        for (code, out) in [
            (Some(1), "{}"),
            (Some(127), ""),
            (None, ""),
            (Some(0), "{\"decision\":"),
            (Some(0), r#"{"hookSpecificOutput":{"updatedInput":{}}}"#),
        ] {
            let found = of(&ended(code, out, "boom"));
            assert!(matches!(found, Err(Blocked::Failed(_))), "{code:?} {out}: {found:?}");
        }
    }
}
