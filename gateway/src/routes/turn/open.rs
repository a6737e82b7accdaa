//! A stream that has begun: pieces as frames, a comment when nothing comes, and an honest end.

use super::reply::{Reply, Wait, answer, is_answered};
use crate::error::{ApiError, Code};
use crate::front::door::{Ending, Failure, Frames};
use crate::stream::sse;
use actors::live::{Found, Whole};
use actors::order::Observed;
use bytes::{Bytes, BytesMut};
use events::message::{Message, Part};
use events::run::Run;
use events::run::step::CallNo;
use providers::Delta as Piece;

/// What has gone out so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    /// Not even who speaks.
    Nothing,
    /// Who speaks.
    Opened,
    /// Pieces of this call; those of another one can not follow.
    Of(CallNo),
    /// The beginning was dropped before anybody read it: the message goes out whole, at the end.
    Late,
}

/// A stream that has begun.
pub(super) struct Open {
    reply: Reply,
    wait: Wait,
    newest: Observed<Run>,
    /// Taken by the last frame.
    frames: Option<Frames>,
    said: Said,
    /// Bytes of text that have gone out.
    text: usize,
    found: Vec<Found>,
}

impl Open {
    pub(super) const fn new(
        reply: Reply,
        wait: Wait,
        newest: Observed<Run>,
        frames: Frames,
        found: Vec<Found>,
    ) -> Self {
        Self { reply, wait, newest, frames: Some(frames), said: Said::Nothing, text: 0, found }
    }

    /// The next bytes to send; `None` after the last ones.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            let mut out = BytesMut::new();
            if let Err(error) = self.pieces(&mut out) {
                out.extend_from_slice(&self.fail(&error));
            }
            if !out.is_empty() {
                return Some(out.freeze());
            }
            // A stream that has had its last frame has no writer any more.
            self.frames.as_ref()?;
            if is_answered(&self.newest.state) {
                let whole = self.reply.reader.whole().await;
                self.found = self.reply.reader.take();
                if self.found.is_empty() {
                    return Some(self.end(whole));
                }
                continue;
            }
            match self.wait().await {
                Ok(true) => self.found = self.reply.reader.take(),
                Ok(false) => return self.frames.as_ref().map(Frames::keep_alive),
                Err(error) => return Some(self.fail(&error)),
            }
        }
    }

    /// Renders what was found.
    fn pieces(&mut self, out: &mut BytesMut) -> Result<(), ApiError> {
        let Some(frames) = self.frames.as_mut() else { return Ok(()) };
        if self.said == Said::Nothing {
            out.extend_from_slice(&frames.open());
            self.said = Said::Opened;
        }
        for found in std::mem::take(&mut self.found) {
            match (&found, self.said) {
                (_, Said::Late) => (),
                (Found::Gap, Said::Nothing | Said::Opened) => self.said = Said::Late,
                (Found::Gap, Said::Of(_)) => return Err(lagged()),
                (Found::Delta(delta), Said::Of(call)) if delta.call != call => {
                    return Err(begun_again());
                }
                (Found::Delta(delta), Said::Nothing | Said::Opened | Said::Of(_)) => {
                    let bytes = frames.piece(&delta.piece);
                    if let Piece::Text(text) = &delta.piece {
                        self.text = self.text.saturating_add(text.len());
                    }
                    if !bytes.is_empty() {
                        self.said = Said::Of(delta.call);
                        out.extend_from_slice(&bytes);
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits for something new; false when nothing came for a while.
    async fn wait(&mut self) -> Result<bool, ApiError> {
        let seen = self.newest.clone();
        let change = self.wait.change(&mut self.reply.reader, seen);
        match tokio::time::timeout(sse::KEEP_ALIVE_EVERY, change).await {
            Ok(newest) => {
                self.newest = newest?;
                Ok(true)
            }
            Err(_quiet) => Ok(false),
        }
    }

    /// The last frames, once the run has answered and every piece has gone out.
    fn end(&mut self, whole: Whole) -> Bytes {
        match answer(&self.newest.state) {
            Ok((message, finish)) => {
                let rest = match (self.said, whole) {
                    (Said::Nothing | Said::Opened | Said::Late, _) => Rest::All,
                    (Said::Of(_), Whole::Yes) => Rest::Text(String::new()),
                    (Said::Of(_), Whole::Unsure) => match rest(&message, self.text) {
                        Some(rest) => Rest::Text(rest),
                        None => return self.fail(&lagged()),
                    },
                };
                let Some(mut frames) = self.frames.take() else { return Bytes::new() };
                let mut out = BytesMut::new();
                match rest {
                    Rest::All => out.extend_from_slice(&frames.said(&message)),
                    Rest::Text(rest) if rest.is_empty() => (),
                    Rest::Text(rest) => out.extend_from_slice(&frames.piece(&Piece::Text(rest))),
                }
                let usage = &self.newest.state.usage;
                let end = Ending { message: &message, finish, usage };
                out.extend_from_slice(&frames.finish(&end));
                out.freeze()
            }
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &ApiError) -> Bytes {
        let Some(frames) = self.frames.take() else { return Bytes::new() };
        let (kind, code) = error.words();
        let (status, message) = (error.status().as_u16(), error.message());
        frames.fail(&Failure { status, class: error.failed(), message, kind, code })
    }
}

/// What of the message has not gone out.
enum Rest {
    All,
    Text(String),
}

/// The end of a text whose last pieces did not come; there is no such end of calls and refusals.
fn rest(message: &Message, said: usize) -> Option<String> {
    let is_text = |part: &Part| matches!(part, Part::Text { .. } | Part::Reasoning { .. });
    let plain = message.plain();
    message.parts.iter().all(is_text).then(|| plain.get(said..).map(str::to_owned)).flatten()
}

fn lagged() -> ApiError {
    let why = "the reader was too slow for the answer's text: read the run's answer instead";
    ApiError::new(Code::Lost, why)
}

fn begun_again() -> ApiError {
    let why =
        "the answer was lost in the middle and is asked for again: read the run's answer instead";
    ApiError::new(Code::Lost, why)
}
