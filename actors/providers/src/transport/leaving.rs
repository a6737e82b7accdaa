//! The body of a request that may only leave in time: it asks when the connection stands and the first byte is about to
//! be written.
//!
//! Name look-up, connection and TLS can take ten seconds, so whoever asked before them would know nothing. On HTTP/1 the
//! head waits in the same buffer and is never written; on HTTP/2 it may be, but a request without its body is one that
//! nobody works on.

use crate::class::Failure;
use bytes::Bytes;
use events::leave::{Leave, NotSent};
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

/// A model call that gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// Nothing left, so nothing was asked of anybody.
    #[error(transparent)]
    NotSent(#[from] NotSent),
    /// It was asked and failed, or could not be.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// Why the body of a request did not leave, if it was refused.
#[derive(Debug, Clone, Default)]
pub(super) struct Refused(Arc<OnceLock<NotSent>>);

impl Refused {
    /// What a failure to send was.
    pub(super) fn or(&self, failure: Failure) -> Unanswered {
        self.0.get().map_or(Unanswered::Failed(failure), |why| Unanswered::NotSent(*why))
    }
}

/// A body in one piece.
pub(super) struct Leaving {
    body: Option<Bytes>,
    leave: Leave,
    refused: Refused,
}

impl Leaving {
    pub(super) const fn new(body: Bytes, leave: Leave, refused: Refused) -> Self {
        Self { body: Some(body), leave, refused }
    }
}

impl Body for Leaving {
    type Data = Bytes;
    type Error = NotSent;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, NotSent>>> {
        let Self { body, leave, refused } = self.get_mut();
        let frame = body.take().map(|body| {
            leave.ask().map(|()| Frame::data(body)).inspect_err(|why| {
                // The first refusal; there is no second question.
                let _first = refused.0.set(*why);
            })
        });
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let length = self.body.as_ref().map_or(0, Bytes::len);
        SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
    }
}
