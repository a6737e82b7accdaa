//! A drill says that it is one: a node that fails on purpose must not be taken for one that fails by itself.

use super::stop::Stop;
use crate::app::App;
use actors::task;
use events::quantity::Millis;

/// How often whoever reads the log is reminded.
const REMINDER: Millis = Millis(60_000);

/// Reminds, where something goes wrong on purpose.
pub(super) fn remind(app: &App, stop: &mut Stop) {
    if !app.store().faults().armed() {
        return;
    }
    let clock = app.clock().clone();
    stop.helper(task::spawn(task::Kind::Sweep, async move {
        loop {
            tracing::warn!("faults_armed: this node fails on purpose");
            clock.pause(REMINDER).await;
        }
    }));
}
