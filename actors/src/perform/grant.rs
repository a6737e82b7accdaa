//! Grants owe the world nothing.

use crate::departure::Dispatch;
use crate::host::Hosted;
use events::grant::{Command, Grant, Never};
use events::project::Project;
use std::{sync::Arc, time::Duration};

impl Hosted for Grant {
    type World = ();
    /// People who grant something in one project at the same time.
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
