//! What a project says of itself owes the world nothing.

use crate::departure::Dispatch;
use crate::host::Hosted;
use events::about::{About, Command, Never};
use events::project::Project;
use std::{sync::Arc, time::Duration};

impl Hosted for About {
    type World = ();
    const INBOX: usize = 16;
    const IDLE: Duration = Duration::from_secs(30);

    fn word(effect: &Never) -> &'static str {
        match *effect {}
    }

    async fn perform(
        _world: &Arc<()>,
        _id: Project,
        _effect: Never,
        what: Never,
        _dispatch: Dispatch,
    ) -> Command {
        match what {}
    }
}
