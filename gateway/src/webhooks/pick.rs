//! What of a commit a webhook is told, as the message that it gets. A repeat is the same to the byte, id included.

use super::Hook;
use super::sustained::{Key, Spell};
use crate::config::HookEvent;
use crate::wire::call;
use crate::wire::fact;
use crate::wire::time::rfc3339;
use events::budget;
use events::catalogue::{self, Fact};
use events::id::digest;
use events::quantity::Instant;
use events::record::{Recorded, StreamKey, StreamKind, Version};
use events::run::ledger::UnknownReason;
use events::run::served::Why;
use events::run::spec::Spec;
use events::run::{self, step::ModelAnswered};
use serde_json::{Value, json};
use std::sync::{Arc, PoisonError};
use store::{Store, StoreError};

/// The number of the message's shape.
const FORMAT: u32 = 1;
/// Bytes of a message (256 KiB); the data of a larger one is left out, and the journal has it.
const BYTES_MAX: usize = 256 << 10;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Delivery {
    /// Its id: of the webhook, the event's place in its stream, and the word.
    pub(super) id: String,
    pub(super) event: HookEvent,
    /// When it happened.
    pub(super) at: Instant,
    pub(super) body: String,
}

/// Picks for one webhook.
pub(super) struct Picker<'a> {
    pub(super) store: &'a Store,
    pub(super) hook: &'a Hook,
}

/// Of what a fact tells by itself.
fn event_of(fact: &Fact) -> Option<HookEvent> {
    if let Fact::Budget(event) = fact {
        let is_mark = matches!(event, budget::Event::Crossed(_));
        return is_mark.then_some(HookEvent::BudgetCrossed);
    }
    let Fact::Run(event) = fact else { return None };
    if let run::Event::ApprovalAsked(_) = &**event {
        return Some(HookEvent::ApprovalAsked);
    }
    if let run::Event::Finished(_) = &**event {
        return Some(HookEvent::RunFinished);
    }
    if let run::Event::ToolUnknown(unknown) = &**event {
        // A run that was stopped has ended, which is told by itself.
        let halts = unknown.lease_until.is_some() && unknown.reason != UnknownReason::Stopped;
        return halts.then_some(HookEvent::RunNeedsReconciliation);
    }
    None
}

/// The answer of a fact that another model gave than was meant to, and not because the one that was can not do it at all.
fn fallback_of(fact: &Fact) -> Option<&ModelAnswered> {
    let Fact::Run(event) = fact else { return None };
    let run::Event::ModelAnswered(answered) = &**event else { return None };
    let instead_of = answered.served_by.instead_of.as_ref()?;
    (instead_of.why != Why::CapabilityUnsupported).then_some(answered)
}

impl Picker<'_> {
    /// The messages of a commit, in its order.
    pub(super) async fn pick(&self, recorded: &Recorded) -> Result<Vec<Delivery>, StoreError> {
        let commit = &recorded.commit;
        let mut picked = vec![];
        if !matches!(commit.stream.kind(), StreamKind::Run | StreamKind::Budget) {
            return Ok(picked);
        }
        for (version, entry) in (commit.first_version.0..).zip(&commit.entries) {
            let payload = self.store.payload(entry).await?;
            let decoded = catalogue::decode(&commit.stream, entry.kind, entry.schema, &payload);
            // What only a newer build knows is told by a newer build; nobody waits for this one.
            let Ok(fact) = decoded else { continue };
            let told = match (event_of(&fact), fallback_of(&fact)) {
                (Some(event), _) => Some((event, self.data(&commit.stream, &fact))),
                (None, Some(answered)) => {
                    self.sustained(&commit.stream, answered, commit.at).await?
                }
                (None, None) => None,
            };
            let Some((event, data)) = told else { continue };
            if !self.hook.events.contains(&event) {
                continue;
            }
            let project = self.spec(&commit.stream).await?.map(|spec| spec.project.clone());
            let about = About { stream: &commit.stream, version, recorded, project };
            picked.push(self.delivery(&about, event, data));
        }
        Ok(picked)
    }

    fn data(&self, stream: &StreamKey, fact: &Fact) -> Value {
        let mut data = fact::told(fact, self.hook.bodies);
        call::name_in(stream, fact, &mut data);
        data
    }

    async fn sustained(
        &self,
        stream: &StreamKey,
        answered: &ModelAnswered,
        at: Instant,
    ) -> Result<Option<(HookEvent, Value)>, StoreError> {
        let wanted = HookEvent::FallbackSustained;
        let by = &answered.served_by;
        let Some(meant) = by.instead_of.as_ref().filter(|_| self.hook.events.contains(&wanted))
        else {
            return Ok(None);
        };
        let Some(spec) = self.spec(stream).await? else { return Ok(None) };
        let primary = format!("{}:{}", meant.provider, meant.model);
        let fallback = format!("{}:{}", by.provider, by.model);
        let key: Key = (primary.clone(), fallback.clone(), spec.role.as_str().to_owned());
        let mut seen = self.hook.sustained.lock().unwrap_or_else(PoisonError::into_inner);
        let spell: Option<Spell> = seen.note(key, at);
        Ok(spell.map(|spell| {
            let data = json!({
                "role": spec.role.as_str(),
                "primary": primary,
                "fallback": fallback,
                "reason": meant.why.name(),
                "since": rfc3339(spell.since),
                "answers": spell.count,
            });
            (wanted, data)
        }))
    }

    /// What a run was asked; its first event says it.
    async fn spec(&self, stream: &StreamKey) -> Result<Option<Arc<Spec>>, StoreError> {
        if stream.kind() != StreamKind::Run {
            return Ok(None);
        }
        let first = self.store.read(stream, Version::EMPTY, 1).await?;
        let Some(entry) = first.first().and_then(|recorded| recorded.commit.entries.first()) else {
            return Ok(None);
        };
        let payload = self.store.payload(entry).await?;
        match catalogue::decode(stream, entry.kind, entry.schema, &payload) {
            Ok(Fact::Run(event)) => match *event {
                run::Event::Queued(queued) => Ok(Some(queued.spec)),
                _ => Ok(None),
            },
            Ok(_) | Err(_) => Ok(None),
        }
    }

    fn delivery(&self, about: &About<'_>, event: HookEvent, data: Value) -> Delivery {
        let (hook, version) = (self.hook.id.to_le_bytes(), about.version.to_le_bytes());
        let stream = about.stream.to_string();
        let parts: [&[u8]; 5] =
            [b"piton/delivery", &hook, stream.as_bytes(), &version, event.word().as_bytes()];
        let id = format!("whd_{:032x}", digest(&parts));
        let at = about.recorded.commit.at;
        let whole = about.message(&id, event, at, data).to_string();
        let body = if whole.len() <= BYTES_MAX {
            whole
        } else {
            about.message(&id, event, at, Value::Null).to_string()
        };
        Delivery { id, event, at, body }
    }
}

/// What a message is about.
struct About<'a> {
    stream: &'a StreamKey,
    version: u64,
    recorded: &'a Recorded,
    project: Option<String>,
}

impl About<'_> {
    fn message(&self, id: &str, event: HookEvent, at: Instant, data: Value) -> Value {
        json!({
            "format": FORMAT,
            "id": id,
            "event": event.word(),
            "at": rfc3339(at),
            "project_id": self.project,
            "kind": self.stream.kind().name(),
            "stream_id": self.stream.id(),
            "version": self.version,
            "position": self.recorded.position.to_string(),
            "data": data,
        })
    }
}
