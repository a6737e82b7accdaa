//! One row a session: what it is called, how long it is, who is at work in it. Depends on its own stream only.
//!
//! The text of a title is all that is kept of what was said.

mod rows;

pub use rows::{Page, Query};
pub(crate) use rows::{fold, list, one};

use events::aggregate::IllegalEvent;
use events::id::{RunId, SessionId};
use events::message::{Body, Role};
use events::quantity::Instant;
use events::record::{Actor, Position};
use events::session::Event;

/// The number of this fold: raised by every change of what it makes of a fact.
pub const CODE: u32 = 1;
/// Characters of a title, one line of a list.
pub const TITLE_CHARS: usize = 80;

/// One session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Which one.
    pub id: SessionId,
    /// Its project.
    pub project: String,
    /// Who opened it.
    pub opened_by: Actor,
    /// The session it was forked from, and how many of its messages it began with.
    pub parent: Option<(SessionId, u32)>,
    /// The first 80 characters of the first text that a user said; `None` while nobody has.
    pub title: Option<String>,
    /// Messages of the conversation.
    pub messages: u32,
    /// Runs that wait for the lock.
    pub waiting: u32,
    /// The run that holds the lock.
    pub holder: Option<RunId>,
    /// When it was opened.
    pub opened: Instant,
    /// When something last happened in it; sessions are listed in this order.
    pub active: Instant,
    /// When it was closed.
    pub closed: Option<Instant>,
    /// Its newest commit.
    pub last: Position,
}

fn title(messages: &[Body]) -> Option<String> {
    // A body that does not read as a message has no text for a title, and is none of this fold's business.
    let messages = messages.iter().filter_map(|body| body.message().ok());
    let texts = messages.filter(|message| message.role == Role::User);
    let first = texts.map(|message| message.plain()).find(|text| !text.trim().is_empty())?;
    Some(first.trim_start().chars().take(TITLE_CHARS).collect())
}

/// One fact more. Total over the facts of a session; knows only what it rests on, for the session's own rules have
/// been kept.
fn evolve(
    before: Option<Row>,
    id: SessionId,
    event: &Event,
    at: Instant,
    position: Position,
) -> Result<Row, IllegalEvent> {
    let word = if before.is_some() { "a session" } else { "no session" };
    let illegal = || IllegalEvent { event: event.name().to_owned(), before: word.to_owned() };
    let mut row = match (before, event) {
        (None, Event::Opened(opened)) => Row {
            id,
            project: opened.project.clone(),
            opened_by: opened.by,
            parent: None,
            title: None,
            messages: 0,
            waiting: 0,
            holder: None,
            opened: at,
            active: at,
            closed: None,
            last: position,
        },
        (Some(row), _) => apply(row, event, at).ok_or_else(illegal)?,
        (None, _) => return Err(illegal()),
    };
    (row.active, row.last) = (at, position);
    Ok(row)
}

fn apply(mut row: Row, event: &Event, at: Instant) -> Option<Row> {
    match event {
        Event::Opened(_) => return None,
        Event::Forked(forked) => {
            row.parent = Some((forked.parent, forked.at));
            say(&mut row, &forked.messages);
        }
        Event::Queued(queued) => {
            row.waiting = row.waiting.saturating_add(1);
            row.title = row.title.or_else(|| title(&queued.spec.input));
        }
        Event::Granted(granted) => {
            row.waiting = row.waiting.checked_sub(1)?;
            row.holder = Some(granted.run);
        }
        Event::Committed(committed) => say(&mut row, &committed.messages),
        Event::Released(released) => {
            row.holder.take_if(|holder| *holder == released.run)?;
        }
        Event::Closed(_) => row.closed = Some(at),
        // It stays in the project that it was opened in.
        Event::ScopeSet(_) => {}
    }
    Some(row)
}

fn say(row: &mut Row, messages: &[Body]) {
    let more = u32::try_from(messages.len()).unwrap_or(u32::MAX);
    row.messages = row.messages.saturating_add(more);
    if row.title.is_none() {
        row.title = title(messages);
    }
}

#[cfg(test)]
mod tests;
