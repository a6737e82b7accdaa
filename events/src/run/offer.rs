//! What a request offers of the run's tools: chosen anew whenever what is known changes, and recorded when it is another
//! choice than before, so that a replay makes the same request.

use super::choose::{Keep, TooMany};
use super::chosen::{Choosing, ToolsChosen, note_body};
use super::spec::{Candidate, Spec};
use super::{Event, State};
use crate::message::Body;
use crate::prompt::Catalogue;

/// What one request offers.
pub(super) struct Offer {
    /// What has to be recorded first, if something does.
    pub event: Option<Event>,
    /// The tools.
    pub tools: Catalogue,
    /// What the model is told of those that are left out.
    pub note: Option<Body>,
}

/// What a request to that candidate offers.
pub(super) fn offer(
    state: &State,
    spec: &Spec,
    (place, who): (usize, &Candidate),
) -> Result<Offer, TooMany> {
    if spec.plan.lines.is_empty() {
        return Ok(Offer { event: None, tools: spec.tools.clone(), note: None });
    }
    // What its provider said in this step, too.
    let learnt = state.attempts.without.tools_max.filter(|_| state.attempts.candidate == place);
    let cap = who.tools_max.into_iter().chain(learnt).min();
    let cap = cap.and_then(|cap| usize::try_from(cap).ok());
    let event = state.choosing.decide(&spec.plan, cap)?;
    let mut choosing = state.choosing.clone();
    if let Some(chosen) = &event {
        // Whatever was chosen may be: the rules of both are one.
        let _legal = choosing.on_chosen(chosen);
    }
    let (tools, note) = sent(&choosing, spec);
    Ok(Offer { event: event.map(Event::ToolsChosen), tools, note })
}

/// The tools of the request in flight, and what its model is told of the others.
pub(super) fn sent(choosing: &Choosing, spec: &Spec) -> (Catalogue, Option<Body>) {
    let search = spec.plan.lines.iter().find(|line| line.keep == Keep::Search);
    let search = search.map(|line| line.name.as_str());
    let note = choosing.now.as_ref().and_then(|chosen| note_body(chosen, search));
    (choosing.of(&spec.tools), note)
}

pub(super) fn on_chosen(state: &mut State, event: &ToolsChosen) -> Option<()> {
    if !super::owed::at_work(state) {
        return None;
    }
    state.choosing.on_chosen(event)
}

/// What a call that succeeded says of the tools that are wanted.
pub(super) fn on_success(state: &mut State, name: &str, content: &str) {
    let is_search = |spec: &Spec| {
        spec.plan.lines.iter().any(|line| line.keep == Keep::Search && line.name == name)
    };
    state.choosing.on_used(name);
    if state.spec.as_ref().is_some_and(|spec| is_search(spec)) {
        state.choosing.on_found(content);
    }
}
