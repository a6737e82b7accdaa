//! The way to a stream's owner, wherever it is: one set of answers for every wire, checked by one suite.
//!
//! A command is repeated under its id until somebody decides; only an answer means that it counted.

mod envelope;
mod far;
pub mod life;
mod local;
mod nats;
pub mod node;
mod outside;
mod pieces;
mod refold;
mod vocabulary;

use crate::directory::Serves;
use crate::host::Hosted;
use crate::order::{Answer, NoDecision, Observed, Order};
use serde::Serialize;
use tokio::sync::watch;

pub use envelope::{Ask, Belief, Body, Carried, INLINE_BYTES_MAX, Message, Parcel, Urgency};
pub use local::{COMMAND_BYTES_MAX, Local};
pub use nats::{ANSWERS_MAX, Nats, NotServed};
pub use outside::{Announcement, EVENT_BYTES_MAX, Mark, NotTold, Outside};
pub use pieces::{PIECE_BYTES_MAX, PIECES_BYTES_MAX, Pieces, Ring, Told, What};

/// A closed set.
#[derive(Debug)]
pub enum Bus<D> {
    /// Calls into this process's own directory.
    Local(Local<D>),
    /// The same for partitions of this node, and requests to the owners of the others.
    Nats(Nats<D>),
}

impl<D> Clone for Bus<D> {
    fn clone(&self) -> Self {
        match self {
            Self::Local(local) => Self::Local(local.clone()),
            Self::Nats(nats) => Self::Nats(nats.clone()),
        }
    }
}

impl<D> Bus<D> {
    /// Asks the owner of a stream for a decision. Whoever stops waiting does not take the command back.
    ///
    /// # Errors
    ///
    /// The outer one when nobody decided, see [`NoDecision`]; the inner one when the rules say no.
    pub async fn decide<A>(&self, id: A::Id, order: Order<A::Command>) -> Answer<A>
    where
        A: Hosted,
        A::Command: Serialize,
        D: Serves<A>,
    {
        match self {
            Self::Local(local) => local.decide(id, order).await,
            Self::Nats(nats) => nats.decide(id, order).await,
        }
    }

    /// What the owner of a stream believes.
    ///
    /// # Errors
    ///
    /// When nobody could be asked, or nobody answered in time.
    pub async fn observe<A>(&self, id: A::Id) -> Result<Observed<A>, NoDecision>
    where
        A: Hosted,
        D: Serves<A>,
    {
        match self {
            Self::Local(local) => local.observe(id).await,
            Self::Nats(nats) => nats.observe(id).await,
        }
    }

    /// What the owner believes now, and then each belief that follows; those in between may be left out. Closed when
    /// nobody can say any more: then it is asked again.
    ///
    /// # Errors
    ///
    /// As [`Self::observe`].
    pub async fn watch<A>(&self, id: A::Id) -> Result<watch::Receiver<Observed<A>>, NoDecision>
    where
        A: Hosted,
        D: Serves<A>,
    {
        match self {
            Self::Local(local) => local.watch(id).await,
            Self::Nats(nats) => nats.watch(id).await,
        }
    }
}
