//! What people are told of runs, beside what programs are: webhooks, gauges of what waits for a person, and who could
//! answer a hold.

use super::stop::Stop;
use crate::app::App;
use crate::auth::Right;
use crate::metric;
use crate::webhooks::{self, Hook, Marks, Teller};
use actors::bus::Outside;
use actors::task;
use events::quantity::Millis;
use projections::{ReadError, approvals, runs};
use std::sync::Arc;

/// How often what waits for people is counted (5 s): two indexed questions.
const COUNT: Millis = Millis(5_000);
/// The folder of the webhooks' marks in the data folder.
const MARKS: &str = "webhooks";

/// Says who could answer, and counts what waits.
pub(super) fn begin(app: &App, stop: &mut Stop) {
    let told = webhooks::tells_of_holds(&app.config.webhooks);
    let keyed = app.verifier.anybody_who_may(Right::HoldAnswer);
    app.approvers.are(move || told || keyed());
    let app = app.clone();
    stop.helper(task::spawn(task::Kind::Sweep, async move {
        loop {
            match waiting(&app).await {
                Ok((holds, unknown)) => metric::waiting(holds, unknown),
                Err(error) => tracing::debug!(%error, "what waits is not counted"),
            }
            app.clock().pause(COUNT).await;
        }
    }));
}

/// How many holds and how many runs with an unknown outcome there are.
async fn waiting(app: &App) -> Result<(u64, u64), ReadError> {
    let standing = Some(approvals::Standing::Waiting);
    let holds = approvals::Query { standing, limit: 1, ..approvals::Query::default() };
    let standing = Some(runs::Standing::NeedsReconciliation);
    let unknown = runs::Query { standing, limit: 1, ..runs::Query::default() };
    let (holds, unknown) = (app.projections.approvals(holds), app.projections.runs(unknown));
    Ok((holds.await?.count, unknown.await?.count))
}

/// Tells each webhook of each shard from here, whenever it is this node's to tell.
pub(super) fn tell(app: &App, out: Option<Outside>, stop: &mut Stop) {
    let hooks = match Hook::all(&app.config.webhooks) {
        Ok(hooks) => hooks,
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            return tracing::error!(
                error,
                "no webhook is told: the HTTP library refuses its settings"
            );
        }
    };
    let store = app.store();
    let folder = app.config.data_dir.join(MARKS);
    let marks = out
        .map_or_else(|| Marks::Folder(folder, store.journal()), |out| Marks::Beside(Box::new(out)));
    for hook in hooks {
        for shard in store.shards() {
            let (store, clock, marks) = (store.clone(), app.clock().clone(), marks.clone());
            let teller = Teller::new(Arc::clone(&hook), store, clock, marks, shard);
            stop.helper(task::spawn(task::Kind::Follow, teller.run(app.served.clone())));
        }
    }
}
