//! Settings owe the world nothing.

use crate::departure::Dispatch;
use crate::host::Hosted;
use events::settings::{Command, Never, Settings, SettingsId};
use std::{sync::Arc, time::Duration};

impl Hosted for Settings {
    type World = ();
    const INBOX: usize = 16;
    const IDLE: Duration = Duration::from_secs(30);

    fn word(effect: &Never) -> &'static str {
        match *effect {}
    }

    async fn perform(
        _world: &Arc<()>,
        _id: SettingsId,
        _effect: Never,
        what: Never,
        _dispatch: Dispatch,
    ) -> Command {
        match what {}
    }
}
