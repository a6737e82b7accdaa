//! Which API a client speaks: the one place where an answer takes a shape. Whoever drives an answer knows doors and
//! no API.

use super::chat;
use super::embeddings;
use super::finish::Finish;
use super::messages;
use super::responses;
use bytes::Bytes;
use events::id::RunId;
use events::message::Message;
use events::model_call::Class;
use events::quantity::Instant;
use events::run::spec::{Delivery, Plane, Spec};
use events::usage::Usage;
use providers::Delta;

/// An API, and how this request wants to be answered in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Door {
    /// OpenAI chat completions.
    Chat(chat::Stream),
    /// Anthropic Messages.
    Messages(messages::Style),
    /// OpenAI Responses.
    Responses(Box<responses::Style>),
    /// OpenAI embeddings: no conversation, and never in pieces.
    Embeddings,
}

/// What every answer says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// The run that answers.
    pub run: RunId,
    /// When.
    pub created: Instant,
    /// The model that was asked for.
    pub model: &'a str,
}

/// An answer that is complete.
#[derive(Debug, Clone, Copy)]
pub struct Ending<'a> {
    /// What was said.
    pub message: &'a Message,
    /// Why it ends.
    pub finish: Finish,
    /// What it used.
    pub usage: &'a Usage,
}

/// What went wrong after a stream began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure<'a> {
    /// The status that it would have had.
    pub status: u16,
    /// The class of the model call that failed, if one did.
    pub class: Option<Class>,
    /// For a person.
    pub message: &'a str,
    /// OpenAI's coarse word.
    pub kind: &'a str,
    /// The word that a program may act on.
    pub code: &'a str,
}

impl Door {
    /// Its name, under which idempotency keys are apart from those of other doors.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Chat(_) => "chat",
            Self::Messages(_) => "messages",
            Self::Responses(_) => "responses",
            Self::Embeddings => "embeddings",
        }
    }

    /// Which plane its runs belong to.
    #[must_use]
    pub const fn plane(&self) -> Plane {
        match self {
            Self::Chat(_) | Self::Messages(_) | Self::Responses(_) => Plane::Model,
            Self::Embeddings => Plane::Embeddings,
        }
    }

    /// The same as it was frozen with the run: a repeat is answered as its first was.
    #[must_use]
    pub fn frozen(self, spec: Option<&Spec>) -> Self {
        match self {
            Self::Responses(style) => {
                let frozen = spec.and_then(responses::Style::frozen);
                Self::Responses(frozen.map_or(style, Box::new))
            }
            Self::Chat(_) | Self::Messages(_) | Self::Embeddings => self,
        }
    }

    /// How the answer is read.
    #[must_use]
    pub const fn delivery(&self) -> Delivery {
        match self {
            Self::Chat(chat::Stream::Whole) | Self::Embeddings => Delivery::Whole,
            Self::Chat(chat::Stream::Events { .. }) => Delivery::Live,
            Self::Messages(style) => style.delivery,
            Self::Responses(style) => style.delivery(),
        }
    }

    /// Where a message of the neutral conversation stood in the request, for people.
    #[must_use]
    pub fn place(&self, at: usize) -> String {
        match self {
            Self::Chat(_) => format!("messages[{at}]"),
            // One message of this API may be several of ours.
            Self::Messages(_) => {
                format!("messages: number {at} (system and each tool result count as one)")
            }
            Self::Responses(_) => format!("input: message {at}"),
            Self::Embeddings => format!("input[{at}]"),
        }
    }

    /// The whole answer.
    #[must_use]
    pub fn whole(&self, head: &Head<'_>, end: &Ending<'_>) -> Bytes {
        match self {
            Self::Chat(_) => {
                let head = chat::answer::Head::of(head.run, head.created, head.model);
                chat::answer::whole(&head, end.message, end.finish, end.usage)
            }
            Self::Messages(style) => messages::answer::whole(head, end, style.thoughts),
            Self::Responses(style) => responses::object::whole(head.run, end, style),
            Self::Embeddings => embeddings::whole(head.model, end),
        }
    }

    /// The writer of a stream; none where answers do not come in pieces.
    #[must_use]
    pub fn frames(&self, head: &Head<'_>) -> Option<Frames> {
        Some(match self {
            Self::Chat(stream) => {
                let usage = match stream {
                    chat::Stream::Events { usage } => *usage,
                    chat::Stream::Whole => chat::UsageChunk::Unwanted,
                };
                let head = chat::answer::Head::of(head.run, head.created, head.model);
                Frames::Chat(chat::frames::Frames::new(&head, usage))
            }
            Self::Messages(style) => {
                let frames = messages::frames::Frames::new(head, style.thoughts);
                Frames::Messages(Box::new(frames))
            }
            Self::Responses(style) => {
                Frames::Responses(Box::new(responses::frames::Frames::new(head, style)))
            }
            Self::Embeddings => return None,
        })
    }
}

/// Writes the frames of one answer. Each call gives the bytes to send next, none when there is nothing to say; the
/// end takes the writer with it.
#[derive(Debug)]
pub enum Frames {
    /// Of OpenAI chat completions.
    Chat(chat::frames::Frames),
    /// Of Anthropic Messages.
    Messages(Box<messages::frames::Frames>),
    /// Of OpenAI Responses.
    Responses(Box<responses::frames::Frames>),
}

impl Frames {
    /// The first frame: who speaks.
    pub fn open(&mut self) -> Bytes {
        match self {
            Self::Chat(frames) => frames.open(),
            Self::Messages(frames) => frames.open(),
            Self::Responses(frames) => frames.open(),
        }
    }

    /// A piece of the answer.
    pub fn piece(&mut self, piece: &Delta) -> Bytes {
        match self {
            Self::Chat(frames) => frames.piece(piece),
            Self::Messages(frames) => frames.piece(piece),
            Self::Responses(frames) => frames.piece(piece),
        }
    }

    /// All that a finished message says, for an answer whose pieces nobody saw.
    pub fn said(&mut self, message: &Message) -> Bytes {
        match self {
            Self::Chat(frames) => frames.said(message),
            Self::Messages(frames) => frames.said(message),
            Self::Responses(frames) => frames.said(message),
        }
    }

    /// What shows that the answer is still being worked on.
    #[must_use]
    pub fn keep_alive(&self) -> Bytes {
        match self {
            Self::Chat(_) | Self::Responses(_) => crate::stream::sse::keep_alive(),
            Self::Messages(_) => messages::frames::ping(),
        }
    }

    /// The end of an answer.
    #[must_use]
    pub fn finish(self, end: &Ending<'_>) -> Bytes {
        match self {
            Self::Chat(frames) => frames.finish(end.finish, end.usage),
            Self::Messages(frames) => frames.finish(end),
            Self::Responses(frames) => frames.finish(end),
        }
    }

    /// The end of an answer that went wrong after it began, so that nobody takes it for complete.
    #[must_use]
    pub fn fail(self, failure: &Failure<'_>) -> Bytes {
        match self {
            Self::Chat(frames) => {
                let Failure { message, kind, code, .. } = *failure;
                let problem =
                    chat::problem::Problem { message, kind, param: None, code: Some(code) };
                frames.fail(&problem)
            }
            Self::Messages(frames) => frames.fail(failure),
            Self::Responses(frames) => frames.fail(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::responses::{Mark, Request, Style};
    use events::prompt::{Catalogue, Params};
    use events::record::{Actor, Hash};
    use events::role::Role;
    use events::run::spec::{LOGIC, Limits};

    const FIRST: Instant = Instant(1_700_000_000_000_000);
    const LATER: Instant = Instant(1_700_000_900_000_000);

    fn asked(text: &str) -> Request {
        responses::parse(text.as_bytes()).unwrap()
    }

    fn door(request: &Request, at: Instant) -> Door {
        Door::Responses(Box::new(Style::of(request, Mark::of(request, at))))
    }

    /// What a run keeps of a request.
    fn spec(request: &Request, at: Instant) -> Spec {
        let mut metadata = request.metadata.clone();
        Mark::of(request, at).keep(&mut metadata);
        crate::front::created::keep(at, &mut metadata);
        Spec {
            plane: Plane::Model,
            delivery: request.delivery,
            project: "default".into(),
            caller: Actor::Admin,
            role: Role::chat(),
            phase: None,
            route: vec![],
            dropped: vec![],
            independence: events::role::Independence::Off,
            route_source: "call".into(),
            tools: Catalogue::default(),
            plan: Default::default(),
            server_tools: vec![],
            params: Params::default(),
            input: vec![],
            limits: Limits::default(),
            approval_mode: Default::default(),
            source: Default::default(),
            budgets: vec![],
            tool_policy: events::tool_policy::Frozen::FIRST,
            campaign: None,
            logic: LOGIC,
            metadata,
            seed: 0,
            input_hash: Hash([1; 32]),
        }
    }

    #[test]
    fn a_door_is_frozen_with_its_run_and_a_repeat_goes_through_the_first_ones() {
        let body = r#"{"model": "demo", "input": "hi", "metadata": {"k": "v"}}"#;
        let request = asked(body);
        let (first, again) = (door(&request, FIRST), door(&request, LATER));
        let spec = spec(&request, FIRST);
        assert_ne!(again, first, "the second one came later");
        assert_eq!(again.clone().frozen(Some(&spec)), first);
        assert_eq!(first.clone().frozen(Some(&spec)), first);
        // Nothing is frozen before the run is there, and a run of another door has frozen nothing for this one.
        assert_eq!(again.clone().frozen(None), again);
        let other = Spec { metadata: std::collections::BTreeMap::new(), ..spec.clone() };
        assert_eq!(again.clone().frozen(Some(&other)), again);
        let written = Spec { plane: Plane::Run, ..spec.clone() };
        assert_eq!(again.clone().frozen(Some(&written)), again, "a run's metadata is its caller's");
    }

    #[test]
    fn the_other_doors_ask_their_request_how_it_is_to_be_answered() {
        let request = asked(r#"{"model": "demo", "input": "hi"}"#);
        let spec = spec(&request, FIRST);
        for door in [
            Door::Chat(chat::Stream::Whole),
            Door::Chat(chat::Stream::Events { usage: chat::UsageChunk::Wanted }),
            Door::Embeddings,
        ] {
            assert_eq!(door.clone().frozen(Some(&spec)), door);
        }
    }
}
