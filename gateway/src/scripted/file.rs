//! The file of a script: TOML, read to the end before anything is played, so that a slip of the pen is found at once
//! and where it stands.

use super::fault::{Fault, class_named, is_said};
use super::script::{Does, How, Line, Provider, Script, ScriptError, Turn};
use crate::config::nearest;
use events::quantity::{MicroUsd, Millis, Tokens};
use events::usage::{CostSource, Usage};
use providers::play::{Complaint, Pieces, Place};
use providers::{Class, Family, Stop};
use serde::Deserialize;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::Duration;
use toml::Spanned;

/// Providers of one script: 64.
const PROVIDERS_MAX: usize = 64;
/// Between two frames: at most 10 minutes, the longest that a stall lasts.
const PACE_MS_MAX: u64 = 600_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    provider: Vec<Spanned<ProviderFile>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderFile {
    name: Spanned<String>,
    family: Option<Spanned<String>>,
    listen: Option<Spanned<String>>,
    #[serde(default)]
    models: Vec<String>,
    #[serde(default)]
    refuse: bool,
    #[serde(default)]
    turn: Vec<Spanned<TurnFile>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnFile {
    times: Option<NonZeroU64>,
    one_in: Option<NonZeroU64>,
    #[serde(default)]
    talk: bool,
    say: Option<String>,
    think: Option<String>,
    signature: Option<String>,
    refusal: Option<String>,
    #[serde(default)]
    calls: Vec<CallFile>,
    stop: Option<Spanned<String>>,
    usage: Option<UsageFile>,
    fail: Option<Spanned<String>>,
    status: Option<Spanned<u16>>,
    hint_ms: Option<Spanned<u64>>,
    hint_in: Option<Spanned<String>>,
    words: Option<String>,
    fault: Option<Spanned<String>>,
    after: Option<usize>,
    error: Option<Spanned<String>>,
    pace_ms: Option<Spanned<u64>>,
    piece_bytes: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallFile {
    name: String,
    arguments: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UsageFile {
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    written: Option<u64>,
    reasoning: Option<u64>,
    cost_micro_usd: Option<u64>,
}

/// Reads a script's text.
pub(super) fn read(text: &str) -> Result<Script, ScriptError> {
    let lines = Lines { text };
    let file: File = toml::from_str(text).map_err(|error| {
        let fault = error.message().lines().next().unwrap_or("it is no TOML").to_owned();
        let at = error.span().map_or(0, |span| span.start);
        lines.wrong(at, fault, "deploy/scripted.md has every key of a script")
    })?;
    if file.provider.is_empty() {
        let mend = "write [[provider]] with a name";
        return Err(lines.wrong(0, "the script has no provider".to_owned(), mend));
    }
    let mut providers: Vec<Provider> = Vec::with_capacity(file.provider.len());
    for provider in file.provider {
        let at = provider.span().start;
        if providers.len() == PROVIDERS_MAX {
            let fault = format!("the script has more than {PROVIDERS_MAX} providers");
            return Err(lines.wrong(at, fault, "make two scripts of it"));
        }
        let provider = lines.provider(provider)?;
        if providers.iter().any(|other| other.name == provider.name) {
            let fault = format!("two providers are called {:?}", provider.name);
            return Err(lines.wrong(at, fault, "give one of them another name"));
        }
        providers.push(provider);
    }
    Ok(Script { seed: file.seed, providers })
}

/// Where things stand in the text.
struct Lines<'a> {
    text: &'a str,
}

impl Lines<'_> {
    fn wrong(&self, at: usize, fault: String, mend: &str) -> ScriptError {
        let line = 1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        ScriptError { line, fault, mend: mend.to_owned() }
    }

    /// A word that is one of these.
    fn word<T>(
        &self,
        key: &str,
        word: &Spanned<String>,
        known: &[&str],
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, ScriptError> {
        let said = word.get_ref();
        read(said).ok_or_else(|| {
            let fault = format!("{key} = {said:?} is not known");
            let near = nearest(said, known.iter().copied());
            let near = near.map(|word| format!("{word:?} is the nearest of ")).unwrap_or_default();
            let mend = format!("{near}{}", known.join(", "));
            self.wrong(word.span().start, fault, &mend)
        })
    }

    fn provider(&self, provider: Spanned<ProviderFile>) -> Result<Provider, ScriptError> {
        let at = provider.span().start;
        let ProviderFile { name, family, listen, models, refuse, turn } = provider.into_inner();
        if name.get_ref().trim().is_empty() {
            let at = name.span().start;
            return Err(self.wrong(at, "name is empty".to_owned(), "give the provider a name"));
        }
        let names = Family::ALL.map(Family::name);
        let family = family.map(|word| self.word("family", &word, &names, Family::named));
        let family = family.transpose()?;
        let mut turns = Vec::with_capacity(turn.len());
        for turn in turn {
            turns.push(self.turn(turn)?);
        }
        if turns.is_empty() {
            if !refuse {
                let fault = format!("provider {:?} has no turn", name.get_ref());
                return Err(self.wrong(at, fault, "write [[provider.turn]] behind it"));
            }
            turns.push(Turn::once(Does::Talk));
        }
        let mut provider = Provider::new(name.get_ref(), family, turns);
        (provider.models, provider.refuses) = (models, refuse);
        if let Some(listen) = listen {
            provider.listen = listen.get_ref().parse::<SocketAddr>().map_err(|_| {
                let fault = format!("listen = {:?} is no address", listen.get_ref());
                let mend = "write an address and a port, as 127.0.0.1:0";
                self.wrong(listen.span().start, fault, mend)
            })?;
        }
        Ok(provider)
    }

    fn turn(&self, turn: Spanned<TurnFile>) -> Result<Turn, ScriptError> {
        let at = turn.span().start;
        let turn = turn.into_inner();
        let how = self.how(&turn)?;
        let (times, one_in) = (turn.times, turn.one_in);
        let is_line = turn.say.is_some()
            || turn.think.is_some()
            || turn.signature.is_some()
            || turn.refusal.is_some()
            || !turn.calls.is_empty();
        let does = match (&turn.fail, turn.talk, is_line) {
            (Some(fail), false, false) => {
                if how.fault.is_some() {
                    let fault = "a turn that fails has no answer that a fault could strike";
                    let mend = "leave out fail or fault";
                    return Err(self.wrong(fail.span().start, fault.to_owned(), mend));
                }
                Does::Refuse(self.complaint(&turn, fail)?)
            }
            (None, true, false) => Does::Talk,
            (None, false, _) => Does::Say(self.line(turn)?),
            (Some(_), true, _) | (Some(_), _, true) | (None, true, true) => {
                let fault = "a turn talks, says or fails, and only one of them";
                return Err(self.wrong(at, fault.to_owned(), "make several turns of it"));
            }
        };
        let number = |given: Option<NonZeroU64>| given.unwrap_or(NonZeroU64::MIN);
        Ok(Turn { times: number(times), one_in: number(one_in), does, how })
    }

    fn how(&self, turn: &TurnFile) -> Result<How, ScriptError> {
        let mut how = How { after: turn.after, ..How::default() };
        if let Some(word) = &turn.fault {
            let names = Fault::ALL.map(Fault::name);
            how.fault = Some(self.word("fault", word, &names, Fault::named)?);
        }
        if let Some(word) = &turn.error {
            how.error = self.class("error", word)?;
        }
        if let Some(pace) = &turn.pace_ms {
            if *pace.get_ref() > PACE_MS_MAX {
                let fault = format!("pace_ms is more than {PACE_MS_MAX}");
                return Err(self.wrong(pace.span().start, fault, "use the fault stall instead"));
            }
            how.pace = Duration::from_millis(*pace.get_ref());
        }
        how.pieces = turn.piece_bytes.map_or(Pieces::Words, Pieces::Bytes);
        Ok(how)
    }

    fn class(&self, key: &str, word: &Spanned<String>) -> Result<Class, ScriptError> {
        let classes = Class::ALL.into_iter().filter(|class| is_said(*class));
        let names: Vec<&str> = classes.map(Class::name).collect();
        self.word(key, word, &names, class_named)
    }

    fn complaint(&self, turn: &TurnFile, fail: &Spanned<String>) -> Result<Complaint, ScriptError> {
        let mut complaint = Complaint::of(self.class("fail", fail)?);
        if let Some(status) = &turn.status {
            if !(300..1_000).contains(status.get_ref()) {
                let fault = format!("status = {} is none of a refusal", status.get_ref());
                let mend = "give one from 300 to 999, or leave it to the family";
                return Err(self.wrong(status.span().start, fault, mend));
            }
            complaint.status = Some(*status.get_ref());
        }
        let place = match &turn.hint_in {
            Some(word) => {
                let names = Place::ALL.map(Place::name);
                let named = |word: &str| Place::ALL.into_iter().find(|place| place.name() == word);
                self.word("hint_in", word, &names, named)?
            }
            None => Place::RetryAfter,
        };
        complaint.hint = turn.hint_ms.as_ref().map(|wait| (Millis(*wait.get_ref()), place));
        if let (Some(word), None) = (&turn.hint_in, &turn.hint_ms) {
            let fault = "hint_in says where a hint stands, and there is none".to_owned();
            return Err(self.wrong(word.span().start, fault, "give hint_ms too"));
        }
        complaint.words = turn.words.clone().unwrap_or_default();
        Ok(complaint)
    }

    fn line(&self, turn: TurnFile) -> Result<Line, ScriptError> {
        let stop = match &turn.stop {
            None => None,
            Some(word) => {
                let names = ["end", "length", "tool_calls", "content_filter"];
                Some(self.word("stop", word, &names, |word| match word {
                    "end" => Some(Stop::End),
                    "length" => Some(Stop::Length),
                    "tool_calls" => Some(Stop::ToolCalls),
                    "content_filter" => Some(Stop::ContentFilter),
                    _ => None,
                })?)
            }
        };
        let call = |call: CallFile| (call.name, call.arguments.unwrap_or_else(|| "{}".to_owned()));
        let is_silent = turn.say.is_none()
            && turn.think.is_none()
            && turn.refusal.is_none()
            && turn.calls.is_empty();
        let usual = is_silent.then(|| SAID.to_owned());
        Ok(Line {
            thought: turn.think.unwrap_or_default(),
            signature: turn.signature.unwrap_or_default(),
            text: turn.say.or(usual).unwrap_or_default(),
            refusal: turn.refusal.unwrap_or_default(),
            calls: turn.calls.into_iter().map(call).collect(),
            stop,
            usage: turn.usage.map(UsageFile::usage),
        })
    }
}

/// What a turn says that has no words of its own.
const SAID: &str = "[scripted] This is an answer of a script, long enough to be cut in its middle.";

impl UsageFile {
    fn usage(self) -> Usage {
        let Self { input, output, cached, written, reasoning, cost_micro_usd } = self;
        Usage {
            prompt: input.map(Tokens),
            completion: output.map(Tokens),
            cached_input: cached.map(Tokens),
            cache_write: written.map(Tokens),
            reasoning: reasoning.map(Tokens),
            cost: cost_micro_usd.map(MicroUsd),
            cost_source: cost_micro_usd.map(|_| CostSource::Reported),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
seed = 7

[[provider]]
name = "first"
family = "openai_chat"
listen = "127.0.0.1:9101"
models = ["m"]

[[provider.turn]]
times = 2
one_in = 3
fail = "rate_limited"
status = 429
hint_ms = 2000
hint_in = "prose"
words = "slow down"

[[provider.turn]]
think = "Hm."
signature = "S"
say = "So."
calls = [{ name = "clock_now" }, { name = "note_append", arguments = '{"text":"x"}' }]
stop = "length"
usage = { input = 10, cached = 0, cost_micro_usd = 5 }
fault = "cut_in_frame"
after = 3
pace_ms = 20
piece_bytes = 4

[[provider]]
name = "second"
refuse = true

[[provider]]
name = "third"
[[provider.turn]]
fault = "error"
error = "server_error"
[[provider.turn]]
talk = true
"#;

    #[test]
    fn every_key_of_a_script_is_read() {
        let script = Script::read(WHOLE).unwrap();
        assert_eq!(script.seed, 7);
        let [first, second, third] = script.providers.as_slice() else { panic!("three") };
        assert_eq!((first.name.as_str(), first.family), ("first", Some(Family::OpenaiChat)));
        assert_eq!((first.listen.port(), first.models.as_slice()), (9_101, &["m".to_owned()][..]));
        let [limited, said] = first.turns.as_slice() else { panic!("two") };
        assert_eq!((limited.times.get(), limited.one_in.get()), (2, 3));
        let complaint = Complaint {
            class: Class::RateLimited,
            hint: Some((Millis(2_000), Place::Prose)),
            status: Some(429),
            words: "slow down".into(),
        };
        assert_eq!(limited.does, Does::Refuse(complaint));
        let line = Line {
            thought: "Hm.".into(),
            signature: "S".into(),
            text: "So.".into(),
            refusal: String::new(),
            calls: vec![
                ("clock_now".into(), "{}".into()),
                ("note_append".into(), r#"{"text":"x"}"#.into()),
            ],
            stop: Some(Stop::Length),
            usage: Some(Usage {
                prompt: Some(Tokens(10)),
                cached_input: Some(Tokens(0)),
                cost: Some(MicroUsd(5)),
                cost_source: Some(CostSource::Reported),
                ..Usage::default()
            }),
        };
        assert_eq!(said.does, Does::Say(line));
        let how = How {
            fault: Some(Fault::CutInFrame),
            after: Some(3),
            pace: Duration::from_millis(20),
            pieces: Pieces::Bytes(4),
            ..How::default()
        };
        assert_eq!(said.how, how);
        assert!(second.refuses && second.family.is_none() && second.listen.port() == 0);
        let [broken, talks] = third.turns.as_slice() else { panic!("two") };
        assert_eq!((broken.how.fault, broken.how.error), (Some(Fault::Error), Class::ServerError));
        assert!(matches!(&broken.does, Does::Say(line) if line.text == SAID));
        assert_eq!(talks.does, Does::Talk);
    }

    #[track_caller]
    fn wrong(text: &str, line: usize, fault: &str, mend: &str) {
        let found = Script::read(text).unwrap_err();
        assert_eq!(found.line, line, "{found}");
        assert!(found.fault.contains(fault) && found.mend.contains(mend), "{found}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_its_mend() {
        let of = |turn: &str| format!("[[provider]]\nname = \"p\"\n[[provider.turn]]\n{turn}\n");
        wrong("", 1, "no provider", "[[provider]]");
        wrong("[[provider]]\nname = \"p\"\n", 1, "no turn", "[[provider.turn]]");
        wrong("[[provider]]\nname = \" \"\n", 2, "empty", "name");
        wrong("seed = \n", 1, "", "scripted.md");
        wrong(&of("sy = \"x\""), 4, "unknown field `sy`", "scripted.md");
        wrong(&of("times = 0"), 4, "", "scripted.md");
        wrong(&of("fail = \"rate_limit\""), 4, "rate_limit", "\"rate_limited\" is the nearest");
        wrong(&of("fail = \"stream_truncated\""), 4, "not known", "rate_limited");
        wrong(&of("fault = \"cutt\""), 4, "cutt", "\"cut\" is the nearest");
        wrong(&of("fail = \"billing\"\nstatus = 200"), 5, "status = 200", "300");
        wrong(&of("fail = \"billing\"\nhint_in = \"date\""), 5, "there is none", "hint_ms");
        wrong(&of("fail = \"billing\"\nhint_ms = 1\nhint_in = \"x\""), 6, "hint_in", "retry-after");
        wrong(&of("fail = \"billing\"\nfault = \"cut\""), 4, "no answer", "leave out");
        wrong(&of("fail = \"billing\"\nsay = \"x\""), 3, "only one", "several turns");
        wrong(&of("talk = true\nsay = \"x\""), 3, "only one", "several turns");
        wrong(&of("stop = \"stop\""), 4, "stop", "end");
        wrong(&of("pace_ms = 600001"), 4, "600000", "stall");
        wrong("[[provider]]\nname = \"p\"\nfamily = \"openai\"\n", 3, "openai", "openai_chat");
        wrong(
            "[[provider]]\nname = \"p\"\nlisten = \"9101\"\nrefuse = true",
            3,
            "9101",
            "127.0.0.1:0",
        );
        let two = "[[provider]]\nname = \"p\"\nrefuse = true\n".repeat(2);
        wrong(&two, 4, "two providers", "another name");
        let many: String = (0..=PROVIDERS_MAX)
            .map(|at| format!("[[provider]]\nname = \"p{at}\"\nrefuse = true\n"))
            .collect();
        wrong(&many, 3 * PROVIDERS_MAX + 1, "more than 64", "two scripts");
    }
}
