//! What this node answers to other nodes' questions.

use super::View;
use actors::bus::node::{Answer, Answering, Described, Question};
use actors::cluster::bucket::uptime;
use actors::cluster::dispatch::Horizon;
use actors::cluster::member::Wish;
use actors::order::Build;
use actors::served::Served;
use events::quantity::Millis;
use std::sync::Arc;
use tokio::sync::watch;

/// How this node is, for whoever asks.
pub(super) fn answering(
    view: &View,
    wish: watch::Sender<Wish>,
    serves: watch::Receiver<Served>,
) -> Answering {
    let view = view.clone();
    Arc::new(move |question| {
        let answer = match question {
            Question::Describe(_) => Answer::Described(view.describe(*serves.borrow())),
            Question::Drain => wished(&wish, Wish::Drain),
            Question::Undrain => wished(&wish, Wish::Take),
        };
        Box::pin(std::future::ready(answer))
    })
}

fn wished(wish: &watch::Sender<Wish>, now: Wish) -> Answer {
    tracing::info!(wish = ?now, "node_wish");
    wish.send_replace(now);
    Answer::Done
}

impl View {
    /// How this node is, for whoever asks.
    #[must_use]
    pub fn describe(&self, serves: Served) -> Described {
        let now = uptime();
        let left = |horizon: Horizon| match horizon {
            Horizon::Until(until) => Some(Millis(until.0.saturating_sub(now.0))),
            Horizon::Embedded | Horizon::Over => None,
        };
        let horizon = self.owns.borrow().values().filter_map(|owned| left(owned.horizon)).min();
        let serves = u16::try_from(serves.count()).unwrap_or(u16::MAX);
        Described { build: Build::OURS, boot: self.boot, since: self.since, serves, horizon }
    }
}
