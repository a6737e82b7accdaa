//! How a node stops: it accepts nothing more, lets what is in flight finish within a bound, and closes its parts in
//! the reverse of the order in which they were started. What is cut is found open at the next start.

use super::NODE_FILE;
use super::cluster::Cluster;
use crate::app::App;
use std::fs;
use std::io;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// How long connections get to take their last bytes once the runs are at rest.
const GOODBYE: Duration = Duration::from_secs(2);

/// The parts that have to be stopped.
#[derive(Debug)]
pub struct Stop {
    stopping: watch::Sender<bool>,
    server: Option<JoinHandle<io::Result<()>>>,
    views: Option<JoinHandle<()>>,
    helpers: Vec<JoinHandle<()>>,
    cluster: Option<Cluster>,
}

impl Stop {
    pub(super) const fn new(stopping: watch::Sender<bool>, cluster: Option<Cluster>) -> Self {
        Self { stopping, server: None, views: None, helpers: Vec::new(), cluster }
    }

    pub(super) fn server(&mut self, server: JoinHandle<io::Result<()>>) {
        self.server = Some(server);
    }

    pub(super) fn views(&mut self, views: JoinHandle<()>) {
        self.views = Some(views);
    }

    pub(super) fn helper(&mut self, helper: JoinHandle<()>) {
        self.helpers.push(helper);
    }

    pub(super) async fn stop(self, app: &App) {
        self.stopping.send_replace(true);
        if let Some(cluster) = self.cluster {
            Box::pin(cluster.leave()).await;
        }
        app.node.agenda.stop();
        let now = app.clock().now();
        let deadline = now.after(app.config.limits.drain);
        let cut = app.directory.drain(app.clock(), deadline).await;
        if cut > 0 {
            warn!(hosts = cut, "drain_cut: the rest goes on at the next start");
        }
        if let Some(server) = self.server {
            let abort = server.abort_handle();
            if tokio::time::timeout(GOODBYE, server).await.is_err() {
                abort.abort();
            }
        }
        app.projections.stop().await;
        if let Some(views) = self.views {
            views.abort();
        }
        for helper in self.helpers {
            helper.abort();
        }
        app.store().clone().close().await;
        // The command line would otherwise ask a node that is gone; a note that is left only costs a clear error.
        let _left = fs::remove_file(app.config.data_dir.join(NODE_FILE));
        info!("stopped");
    }
}
