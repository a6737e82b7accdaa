//! How the requests of one conversation are laid out, step after step and turn after turn: what was sent before is sent
//! again byte for byte, whatever the time, so that a provider's cache stays warm.

use super::request;
use events::aggregate::Aggregate;
use events::id::{Place, SessionId};
use events::json::Json;
use events::message::{Body, Message, Part, Role, ToolCall};
use events::prompt::{Catalogue, Params, Request};
use events::quantity::{Instant, Millis, Tokens};
use events::record::{Actor, Hash};
use events::run::ledger::{self, Ask, ToolOutcome, Verdict};
use events::run::life::{Fence, MessageRef};
use events::run::spec::{Candidate, Delivery, LOGIC, Limits, Plane, ReplayClass, Spec};
use events::run::step::{self, Stop};
use events::run::terms::Terms;
use events::run::{Command, Effect, Grant, Run, State};
use events::usage::{Billing, Usage};
use providers::endpoint::CacheKey;
use providers::{Endpoint, Family, Mode, Quirks};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;

const NOW: Instant = Instant(1_700_000_000_000_000);
/// What a mark of the Messages family looks like; it is no part of the prefix and moves.
const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// A conversation that a session leads, and each request that it came to.
struct Talk {
    said: Vec<Body>,
    now: Instant,
    /// Between two turns.
    pace: Millis,
    requests: Vec<Request>,
}

fn spec(input: Vec<Body>) -> Arc<Spec> {
    let tools = r#"[{"description":"now","name":"clock_now","parameters":{"type":"object"}},{"name":"zero"}]"#;
    Arc::new(Spec {
        plane: Plane::Run,
        delivery: Delivery::Live,
        project: "default".into(),
        caller: Actor::Admin,
        route: vec![Candidate {
            provider: "p".into(),
            model: "m".into(),
            price: None,
            billing: Billing::Metered,
            output_max: Tokens(100),
            family: "openai_chat".into(),
            context_max: None,
            tools_max: None,
        }],
        route_source: "call".into(),
        role: events::role::Role::chat(),
        phase: None,
        dropped: vec![],
        independence: events::role::Independence::Off,
        tools: Catalogue::new(Json::from_bytes(tools.as_bytes())),
        plan: Default::default(),
        server_tools: vec!["clock_now".into()],
        params: Params::default(),
        input,
        limits: Limits::default(),
        approval_mode: Default::default(),
        source: Default::default(),
        budgets: vec![],
        tool_policy: events::tool_policy::Frozen::FIRST,
        campaign: None,
        logic: LOGIC,
        metadata: BTreeMap::new(),
        seed: 7,
        input_hash: Hash([1; 32]),
    })
}

fn answer(call: Option<&str>) -> step::Answer {
    let (text, mut asks) = ("so".to_owned(), vec![]);
    let mut message = Message::text(Role::Assistant, &text);
    if let Some(id) = call {
        let (id, name, arguments) = (id.to_owned(), "clock_now".to_owned(), "{}".to_owned());
        message.parts.push(Part::ToolCall(ToolCall {
            id: id.clone(),
            name: name.clone(),
            arguments: arguments.clone(),
        }));
        let verdict = Verdict::Server(Box::new(Terms::plain(ReplayClass::ReadOnly, Millis(5_000))));
        asks.push(Ask { id, name, arguments: Json::from(arguments), verdict });
    }
    step::Answer {
        body: message.body(),
        stop: if asks.is_empty() { Stop::End } else { Stop::ToolCalls },
        asks,
        usage: Usage::default(),
        served_model: None,
        request_id: None,
        profile: None,
    }
}

impl Talk {
    fn take(&self, state: State, command: &Command) -> State {
        let events = Run::decide(&state, command, self.now).unwrap();
        events.iter().try_fold(state, Run::evolve).unwrap()
    }

    /// One turn: a tool is called and answered, and then the turn's end is said.
    fn turn(mut self, fence: u64, input: Vec<Message>) -> Self {
        let session = Some(SessionId::new(Place::default(), 1));
        let history = self.said.iter().map(MessageRef::from).collect();
        let grant = Some(Grant { fence: Fence(fence), history, generated_by: None });
        let spec = spec(input.iter().map(Message::body).collect());
        let mut state = self.take(State::default(), &Command::Open { spec, session, grant });
        for call in [Some("call_1"), None] {
            let pending = Run::pending(&state);
            let [(_, Effect::AskModel(ask))] = &pending[..] else { panic!("{state:?}") };
            let messages = [self.said.clone(), ask.transcript.clone()].concat();
            let asked = request(ask, messages);
            assert_eq!(asked.hash("p"), ask.asked.request, "it is the one that was intended");
            self.requests.push(asked);
            let outcome = step::Settled::Answered(answer(call));
            state = self.take(state, &Command::Model { call: ask.asked.call, outcome });
            let pending = Run::pending(&state);
            if let [(_, Effect::RunTool(tool))] = &pending[..] {
                let receipt = ledger::Settled::Receipt(ToolOutcome::Succeeded, "noon".into());
                let (call, attempt) = (tool.call, tool.attempt);
                state = self.take(state, &Command::Tool { call, attempt, outcome: receipt });
            }
        }
        assert!(state.ended().is_some(), "{state:?}");
        self.said.extend(state.transcript.iter().cloned());
        self.now = self.now.after(self.pace);
        self
    }
}

/// Three turns of two steps each.
fn talk(pace: Millis) -> Vec<Request> {
    let talk = Talk { said: vec![], now: NOW, pace, requests: vec![] };
    let first =
        vec![Message::text(Role::System, "be brief"), Message::text(Role::User, "what time?")];
    let talk = talk.turn(1, first);
    let talk = talk.turn(2, vec![Message::text(Role::User, "and now?")]);
    talk.turn(3, vec![Message::text(Role::User, "and now?")]).requests
}

fn endpoint(family: Family) -> Endpoint {
    let quirks = Quirks { cache_key: CacheKey::Sent, ..Quirks::STANDARD };
    Endpoint::new("p", family, "http://127.0.0.1:1/v1".parse().unwrap(), None, quirks)
}

fn bytes(family: Family, request: &Request) -> String {
    let body = family.encode(&endpoint(family), request, Mode::Stream).unwrap();
    String::from_utf8(body).unwrap()
}

/// A body by its fields, each as it was written, less the marks.
fn fields(body: &str) -> BTreeMap<String, String> {
    let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(body).unwrap();
    let text = |(name, value): (String, Box<RawValue>)| (name, value.get().replace(MARK, ""));
    fields.into_iter().map(text).collect()
}

fn list(text: &str) -> Vec<String> {
    let all: Vec<Box<RawValue>> = serde_json::from_str(text).unwrap();
    all.into_iter().map(|one| one.get().to_owned()).collect()
}

/// Where a family has what was said.
const fn conversation(family: Family) -> &'static str {
    match family {
        Family::OpenaiChat | Family::AnthropicMessages | Family::Bedrock => "messages",
        Family::Gemini => "contents",
        Family::OpenaiResponses => "input",
    }
}

#[test]
fn what_was_sent_is_sent_again_byte_for_byte_over_steps_and_turns_61_seconds_apart() {
    let requests = talk(Millis(61_000));
    assert_eq!(requests.len(), 6);
    for family in Family::ALL {
        let said = conversation(family);
        for two in requests.windows(2) {
            let (mut shorter, mut longer) =
                (fields(&bytes(family, &two[0])), fields(&bytes(family, &two[1])));
            let before = list(&shorter.remove(said).unwrap());
            let after = list(&longer.remove(said).unwrap());
            assert!(after.len() > before.len(), "{family:?}");
            assert_eq!(after[..before.len()], before[..], "{family:?}");
            // Tools, system text, cache key and every wish.
            assert_eq!(longer, shorter, "{family:?}");
        }
    }
}

#[test]
fn no_request_depends_on_the_time() {
    let (fast, slow) = (talk(Millis(0)), talk(Millis(61_000)));
    for family in Family::ALL {
        let all = |requests: &[Request]| -> Vec<String> {
            requests.iter().map(|request| bytes(family, request)).collect()
        };
        assert_eq!(all(&fast), all(&slow), "{family:?}");
    }
}

#[test]
fn the_messages_family_is_told_to_cache_up_to_the_last_tool_the_system_text_and_the_last_message() {
    for request in talk(Millis(61_000)) {
        let body = bytes(Family::AnthropicMessages, &request);
        let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&body).unwrap();
        let marked = |name: &str| -> Vec<bool> {
            list(fields[name].get()).iter().map(|one| one.contains(MARK)).collect()
        };
        assert_eq!(marked("tools"), [false, true]);
        assert_eq!(marked("system"), [true]);
        let messages = marked("messages");
        let (last, before) = messages.split_last().unwrap();
        assert!(*last && before.iter().all(|marked| !marked), "{body}");
        assert_eq!(body.matches(MARK).count(), 3, "{body}");
    }
}

#[test]
fn who_knows_a_cache_key_gets_the_same_one_for_the_same_tools_and_system_text() {
    let key =
        |family, request: &Request| fields(&bytes(family, request)).remove("prompt_cache_key");
    let requests = talk(Millis(61_000));
    for family in [Family::OpenaiChat, Family::OpenaiResponses] {
        let first = key(family, &requests[0]);
        assert!(first.is_some() && requests.iter().all(|request| key(family, request) == first));
        let mut other = requests[0].clone();
        other.tools = Catalogue::default();
        assert_ne!(key(family, &other), first, "{family:?}");
    }
}
