//! Gates owe the world nothing.

use crate::departure::Dispatch;
use crate::host::Hosted;
use events::gate::{Command, Gates, Never};
use events::project::Project;
use std::{sync::Arc, time::Duration};

impl Hosted for Gates {
    type World = ();
    /// People and build machines that judge one project at the same time.
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
