//! A run asks models and runs tools. What comes back is a command; what to do about it is for the rules.

mod account;
mod desk;
mod in_flight;
#[cfg(test)]
mod layout;
mod slices;
mod tool;
mod whom;

pub use account::{Fallbacks, Fallen};
pub use desk::Approvers;
pub use in_flight::InFlight;

use super::room::Room;
use crate::clock::Clock;
use crate::credentials::Credentials;
use crate::departure::Dispatch;
use crate::entropy::Entropy;
use crate::host::Hosted;
use crate::judge::Judge;
use crate::live::Live;
use crate::order::NoDecision;
use crate::table::Table;
use events::context;
use events::id::RunId;
use events::leave::NotSent;
use events::message::Body;
use events::model_call::Class;
use events::prompt::Request;
use events::quantity::{Instant, Millis};
use events::run::life::MessageRef;
use events::run::spec::{Delivery, Plane, ReplayClass, Spec};
use events::run::step::{self, Charge, Failure, Settled, Stop};
use events::run::{self, AskModel, Command, Effect, EffectId, Run};
use events::session::Session;
use events::usage::Usage;
use providers::{Client, Endpoint, Mode, Unanswered};
pub use slices::Budgets;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tools::{Leave, Registry};

/// Model calls in flight of one node; each holds a connection and perhaps a long answer. More wait as what they are:
/// intents in the log.
pub const MODEL_CALLS_MAX: usize = 1_024;
/// What may lie between the last look at the dispatch window and the first byte of a model call: a connection that is
/// made. Only a node that is stopped just then is later than its window, and its lease bounds it still; within the window
/// alone, a provider that is slow to connect to would never be asked, and no other one instead.
const CONNECT: Millis = Millis(providers::transport::CONNECT.as_secs() * 1_000);
/// The pause before a session that had no room is asked again for its history.
const PAUSE: Millis = Millis(100);

/// How many effects of runs are at work: what a node's doors ask before they let one more run in.
#[derive(Debug, Clone, Default)]
pub struct AtWork(Arc<AtomicUsize>);

impl AtWork {
    /// So many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn enter(&self) -> Working {
        self.0.fetch_add(1, Ordering::Relaxed);
        Working(self.clone())
    }
}

/// One of them; it counts until it is dropped, also when it is aborted.
struct Working(AtWork);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What runs need.
pub struct World {
    /// Speaks to providers.
    pub client: Client,
    /// Where each provider is, by id.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// Providers that lack nothing but a key, which a profile may give.
    pub lent: BTreeMap<String, Endpoint>,
    /// The profiles of the providers; none where only the endpoints' own keys are used.
    pub credentials: Option<Arc<Credentials>>,
    /// The tools that run here.
    pub tools: Arc<Registry>,
    /// What is found about a call before it may be intended.
    pub judge: Judge,
    /// Where text goes while it comes.
    pub live: Arc<Live>,
    /// Where the conversations are; set once both tables exist.
    pub sessions: OnceLock<Weak<Table<Session>>>,
    /// The way to the owners of budgets; set once there is a bus.
    pub budgets: OnceLock<Budgets>,
    /// How much is at work.
    pub at_work: AtWork,
    /// What was served by another model than the one that was meant to.
    pub fallbacks: Arc<Fallbacks>,
    /// Who could answer a hold.
    pub approvers: Approvers,
    /// Room for model calls in flight; see [`MODEL_CALLS_MAX`].
    pub calls: Room,
    /// What was reported of them so far.
    pub in_flight: InFlight,
    /// What time it is.
    pub clock: Clock,
    /// For ids.
    pub entropy: Entropy,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("endpoints", &self.endpoints.keys()).finish_non_exhaustive()
    }
}

impl Hosted for Run {
    type World = World;
    const INBOX: usize = 64;
    const IDLE: Duration = Duration::from_secs(30);

    fn word(effect: &EffectId) -> &'static str {
        match effect {
            EffectId::Model(_) => "model",
            EffectId::Tool(..) => "tool",
            EffectId::Slice(_) => "slice",
            EffectId::Return(_) => "slice_return",
        }
    }

    /// A model call is asked again at once, for it costs money at most, and so is a tool that may be repeated. One that is
    /// called lost is told to the model, who looks whether it happened: that must not happen after the look.
    fn lasts(_world: &World, what: &Effect) -> Option<Millis> {
        let Effect::RunTool(tool) = what else { return None };
        match tool.terms.class {
            ReplayClass::ReadOnly | ReplayClass::Idempotent if tool.mediated.is_none() => None,
            ReplayClass::ReadOnly | ReplayClass::Idempotent | ReplayClass::Effectful => {
                Some(tool.timeout)
            }
        }
    }

    fn noted(world: &World, run: &RunId, before: &run::State, after: &run::State) {
        let now = world.clock.now();
        account::tell(&world.fallbacks, *run, (before, after), now);
        desk::tell(&world.approvers, *run, (before, after), now);
        dropped(run, before, after);
    }

    /// A run that is ended keeps what was seen of the call in flight, and pays nothing for one that has not left.
    fn informed(world: &World, run: &RunId, command: &Command) -> Option<Command> {
        let stops = matches!(command, Command::Stop { .. });
        let withholds = matches!(command, Command::Withhold { .. });
        let seen = (stops || withholds).then(|| world.in_flight.call_off(*run))?;
        Some(if stops { Command::Stop { seen } } else { Command::Withhold { seen } })
    }

    async fn perform(
        world: &Arc<World>,
        run: RunId,
        _effect: EffectId,
        what: Effect,
        dispatch: Dispatch,
    ) -> Command {
        let _working = world.at_work.enter();
        match what {
            Effect::AskModel(ask) => {
                let call = ask.asked.call;
                let outcome = ask_model(world, run, *ask, &dispatch).await;
                Command::Model { call, outcome }
            }
            Effect::RunTool(tool) => {
                let (call, attempt) = (tool.call, tool.attempt);
                let outcome = tool::run(world, run, tool, &dispatch).await;
                Command::Tool { call, attempt, outcome }
            }
            Effect::AskSlice(asked) => {
                let outcome = slices::ask(world, run, &asked).await;
                Command::Slice { ask: asked.ask, outcome }
            }
            Effect::ReturnSlice(scope, used) => {
                slices::give_back(world, run, scope, used).await;
                Command::Returned { scope }
            }
        }
    }
}

/// Says which tools do not fit into what a provider takes: once in a run for each set of them.
fn dropped(run: &RunId, before: &run::State, after: &run::State) {
    let Some(chosen) = after.choosing.now.as_ref().filter(|now| before.choosing.is_news(now))
    else {
        return;
    };
    let (kept, count, names) =
        (chosen.offered.len(), chosen.dropped.len(), chosen.dropped.join(","));
    let limit = chosen.cap;
    tracing::warn!(%run, limit, kept, dropped = count, tools = names, "tool_schemas_truncated");
    tracing::info!(%run, dropped = count, tools = names, "chat_tools_dropped");
}

fn refused(class: Class, message: String) -> Settled {
    Settled::Failed(Failure {
        class,
        status: None,
        request_id: None,
        hint: None,
        charge: Charge::Nothing,
        handed_out: 0,
        message,
        profile: None,
        others: 0,
        renewed: false,
        took: Millis(0),
        partial: Usage::default(),
    })
}

async fn ask_model(world: &World, run: RunId, ask: AskModel, dispatch: &Dispatch) -> Settled {
    let dispatch = dispatch.after(ask.asked.not_before.since(world.clock.now()));
    let waits = world.in_flight.wait(run, ask.asked.call);
    world.clock.sleep_until(ask.asked.not_before).await;
    let messages = match conversation(world, &ask).await {
        Ok(messages) => messages,
        // Ours to answer for, not the caller's.
        Err(why) => return refused(Class::ServerError, why),
    };
    let Some(request) = intended(&ask, messages) else {
        return refused(
            Class::InvalidRequest,
            "the request is not the one that was intended".to_owned(),
        );
    };
    let request = ask.without.of(request);
    let Some(place) = world.calls.enter(run).await else {
        return refused(Class::ServerError, "the node is stopping".to_owned());
    };
    // It may have waited long: then it is intended anew, and finds its place kept.
    if let Err(why) = dispatch.may_leave() {
        world.calls.keep(run, place);
        return Settled::NotSent(why);
    }
    let whom = match whom::whom(world, run, &ask).await {
        Ok(whom) => whom,
        Err(settled) => return settled,
    };
    let mode = mode(&ask.spec);
    let writer = world.live.writer(run, &ask.spec.project, ask.asked.call);
    let mut handed_out = 0_u64;
    let mut sink = |delta: providers::Delta| {
        handed_out = handed_out.saturating_add(characters(&delta));
        writer.push(delta);
    };
    let began = world.clock.now();
    let Some(flight) = waits.over() else { return Settled::NotSent(NotSent::CalledOff) };
    let client = &world.client.telling(flight.seen.clone());
    let (endpoint, asked, sink) = (&whom.endpoint, &request, &mut sink);
    let plane = ask.spec.plane;
    let call = move |leave: Leave| async move {
        match plane {
            Plane::Model | Plane::Run => client.call(endpoint, asked, mode, &leave, sink).await,
            Plane::Embeddings => client.embed(endpoint, asked, &leave).await,
        }
    };
    let answer = match dispatch.begin(CONNECT, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(Unanswered::Failed(failure))) => Err(failure),
        // Nothing was asked of anybody, so nothing is learnt of a credential either; and the place is kept here too.
        Ok(Err(Unanswered::NotSent(why))) | Err(why) => {
            world.calls.keep(run, place);
            return Settled::NotSent(why);
        }
    };
    ended(world, (run, &ask), whom, began, answer, handed_out).await
}

/// What is reported of a call that left, once its profile was told.
async fn ended(
    world: &World,
    (run, ask): (RunId, &AskModel),
    whom: whom::Whom,
    began: Instant,
    answer: Result<providers::Answer, providers::Failure>,
    handed_out: u64,
) -> Settled {
    let took = world.clock.now().since(began);
    let renewed = whom::renewed(world, &whom, ask, answer.as_ref().err()).await;
    if !renewed {
        whom::tell(world, &whom, ask, began, answer.as_ref());
    }
    match answer {
        Ok(answer) => {
            let profile = whom.used.map(|used| used.profile);
            Settled::Answered(step::Answer {
                profile,
                ..answered(world, run, &ask.spec, answer).await
            })
        }
        Err(failure) => {
            let (profile, others) = whom.used.map(|used| (used.profile, used.others)).unzip();
            let others = others.unwrap_or(0);
            // Whatever the provider calls a token that there is a newer one of.
            let class = if renewed { Class::AuthExpired } else { failure.class };
            let failed = failed(failure, handed_out);
            Settled::Failed(Failure { class, profile, others, renewed, took, ..failed })
        }
    }
}

/// The request that was intended, folded as it was; none when these messages do not give it.
fn intended(ask: &AskModel, messages: Vec<Body>) -> Option<Request> {
    let refs: Vec<MessageRef> = messages.iter().map(MessageRef::from).collect();
    let fold = ask.asked.fold.as_ref();
    let mut names = context::names(&refs, fold);
    names.extend(ask.note.iter().map(Body::hash));
    let mut messages = context::render(messages, fold);
    messages.extend(ask.note.iter().cloned());
    let request = request(ask, messages);
    let hash = request.hash_of(&ask.candidate.provider, &names);
    (hash == ask.asked.request).then_some(request)
}

/// What a call asks: tools and system text first, and nothing of the time or of an id.
fn request(ask: &AskModel, messages: Vec<Body>) -> Request {
    Request {
        model: ask.candidate.model.clone(),
        tools: ask.tools.clone(),
        messages,
        params: ask.spec.params.clone(),
    }
}

const fn mode(spec: &Spec) -> Mode {
    match spec.delivery {
        Delivery::Live => Mode::Stream,
        Delivery::Whole => Mode::Whole,
    }
}

/// How much of what a reader sees and can not be made to forget: a call that was seen to begin, or a thought, is that too.
fn characters(delta: &providers::Delta) -> u64 {
    let count = match delta {
        providers::Delta::Text(text) | providers::Delta::Refusal(text) => text.chars().count(),
        providers::Delta::ToolCallStarted { .. } | providers::Delta::Reasoning(_) => 1,
        providers::Delta::ToolCallArguments { .. } => 0,
    };
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// What the session said before, and what this run said. Each message of the session is checked against its name.
async fn conversation(world: &World, ask: &AskModel) -> Result<Vec<Body>, String> {
    let Some((session, refs)) = &ask.history else { return Ok(ask.transcript.clone()) };
    let state = loop {
        let Some(sessions) = world.sessions.get().and_then(Weak::upgrade) else {
            return Err("the node is stopping".to_owned());
        };
        match sessions.observe(*session).await {
            Ok(observed) => break observed.state,
            Err(NoDecision::Parked { .. } | NoDecision::NobodyThere) => {
                return Err(format!("session {session} can not be read now"));
            }
            Err(_again) => world.clock.pause(PAUSE).await,
        }
    };
    let mut messages = Vec::with_capacity(refs.len() + ask.transcript.len());
    for (place, named) in refs.iter().enumerate() {
        match state.messages.get(place).filter(|body| body.hash() == named.hash) {
            Some(body) => messages.push(body.clone()),
            None => {
                return Err(format!(
                    "message {place} of session {session} is not the one that was named"
                ));
            }
        }
    }
    messages.extend(ask.transcript.iter().cloned());
    Ok(messages)
}

async fn answered(
    world: &World,
    run: RunId,
    spec: &Spec,
    answer: providers::Answer,
) -> step::Answer {
    let mut asks = vec![];
    for call in answer.message.calls() {
        asks.push(world.judge.ask(run, spec, call).await);
    }
    let stop = match answer.stop {
        providers::Stop::End | providers::Stop::Other(_) => Stop::End,
        providers::Stop::Length => Stop::Length,
        providers::Stop::ToolCalls => Stop::ToolCalls,
        providers::Stop::ContentFilter => Stop::ContentFilter,
    };
    step::Answer {
        body: answer.message.body(),
        asks,
        stop,
        usage: answer.usage,
        served_model: answer.served_model,
        request_id: answer.request_id,
        profile: None,
    }
}

fn failed(failure: providers::Failure, handed_out: u64) -> Failure {
    let charge = match failure.charge {
        providers::Charge::NotCharged => Charge::Nothing,
        providers::Charge::Unknown => Charge::Reserved,
    };
    Failure {
        class: failure.class,
        status: failure.status,
        request_id: failure.request_id,
        hint: failure.hint,
        charge,
        handed_out,
        message: failure.message,
        profile: None,
        others: 0,
        renewed: false,
        took: Millis(0),
        partial: failure.partial,
    }
}
