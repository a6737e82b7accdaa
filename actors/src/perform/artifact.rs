//! Artifacts owe the world nothing: whoever shows them as files follows the log.

use crate::departure::Dispatch;
use crate::host::Hosted;
use events::artifact::{Artifacts, Command, Never};
use events::project::Project;
use std::{sync::Arc, time::Duration};

impl Hosted for Artifacts {
    type World = ();
    const INBOX: usize = 64;
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
