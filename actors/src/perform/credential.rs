//! A provider's credentials owe the world nothing.

use crate::departure::Dispatch;
use crate::host::Hosted;
use events::credential::{Command, Credential, Never, ProviderId};
use std::{sync::Arc, time::Duration};

impl Hosted for Credential {
    type World = ();
    /// What all nodes see of a provider in one burst: each is one of very few that change anything.
    const INBOX: usize = 256;
    const IDLE: Duration = Duration::from_secs(30);

    fn word(effect: &Never) -> &'static str {
        match *effect {}
    }

    async fn perform(
        _world: &Arc<()>,
        _id: ProviderId,
        _effect: Never,
        what: Never,
        _dispatch: Dispatch,
    ) -> Command {
        match what {}
    }
}
