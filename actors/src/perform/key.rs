//! A key owes the world nothing.

use crate::departure::Dispatch;
use crate::host::Hosted;
use events::id::KeyId;
use events::key::{Command, Key, Never};
use std::{sync::Arc, time::Duration};

impl Hosted for Key {
    type World = ();
    const INBOX: usize = 16;
    const IDLE: Duration = Duration::from_secs(30);

    fn word(effect: &Never) -> &'static str {
        match *effect {}
    }

    async fn perform(
        _world: &Arc<()>,
        _id: KeyId,
        _effect: Never,
        what: Never,
        _dispatch: Dispatch,
    ) -> Command {
        match what {}
    }
}
