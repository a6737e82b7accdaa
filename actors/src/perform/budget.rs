//! A budget owes the world nothing: whoever holds a slice of it brings that back.

use crate::departure::Dispatch;
use crate::host::Hosted;
use events::budget::{Budget, Command, Never, Scope};
use std::{sync::Arc, time::Duration};

impl Hosted for Budget {
    type World = ();
    /// Runs that ask one budget at the same time; more wait a moment and ask again.
    const INBOX: usize = 256;
    const IDLE: Duration = Duration::from_secs(30);

    fn word(effect: &Never) -> &'static str {
        match *effect {}
    }

    async fn perform(
        _world: &Arc<()>,
        _id: Scope,
        _effect: Never,
        what: Never,
        _dispatch: Dispatch,
    ) -> Command {
        match what {}
    }
}
