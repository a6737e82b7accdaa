//! Finds the journal on servers that are fit for it, and looks again and again whether they are.

use super::api::Tries;
use super::error::{ConnectError, Unsafe};
use super::found::{self, Found};
use super::settings::{Connect, HEARD_WITHIN, LazySync, PROOF_AGAIN, PROOF_EVERY};
use super::sync::{self, Keeper};
use super::{Shared, Sync};
use crate::{Outage, metric};
use async_nats::Client;
use std::sync::Arc;

/// Finds the journal or makes it, and says what is proved of its servers. A server that died a moment ago is still taken
/// for one that is heard; that is waited for.
pub(super) async fn find(
    client: &Client,
    connect: &Connect,
) -> Result<(Found, Sync), ConnectError> {
    let info = client.server_info();
    sync::new_enough(&info.server_name, &info.version)?;
    let missing = missing(connect).await?;
    let mut tries = Tries::within(2 * HEARD_WITHIN);
    loop {
        let mut found = found::found(client, connect, missing.as_ref()).await?;
        if found.keepers.is_empty() {
            found.keepers.push(Keeper { name: info.server_name.clone(), heard: true });
        }
        let said = sync::ask_all(&connect.monitors).await;
        let most =
            said.as_ref().is_ok_and(|said| said.silent.is_some() && said.most(&found.keepers));
        match (said.and_then(|said| said.of(&found.keepers)), connect.lazy_sync) {
            (Ok(sync), _) => return Ok((found, sync)),
            (Err(ConnectError::Unsafe(why)), LazySync::Allow) => {
                return Ok((found, Sync::Lazy(why.to_string())));
            }
            (Err(_), LazySync::Refuse) if most && tries.again().await => {}
            (Err(error), _) => return Err(error),
        }
    }
}

/// What must be there before a journal is made anew. Refuses before anything is made on servers that are not fit.
async fn missing(connect: &Connect) -> Result<Option<Unsafe>, ConnectError> {
    match (sync::ask_all(&connect.monitors).await, connect.lazy_sync) {
        (Ok(_) | Err(ConnectError::Unsafe(_)), LazySync::Allow) => Ok(None),
        (Err(error), _) => Err(error),
        (Ok(said), LazySync::Refuse) => match &said.silent {
            Some(silent) if !said.some() => Err(ConnectError::Unsafe(silent.clone())),
            Some(_) | None => Ok(said.silent),
        },
    }
}

/// Says in the metrics what is proved.
pub(super) fn tell(sync: &Sync) {
    let proved = if *sync == Sync::Proved { 1.0 } else { 0.0 };
    metrics::gauge!(metric::SYNC_PROVED).set(proved);
}

/// Takes the proof again and again: a server may be restarted with other settings, most of all one that was down.
pub(super) async fn prove_again(shared: Arc<Shared>) {
    loop {
        let silent = matches!(&*shared.sync.borrow(), Sync::Silent(_));
        tokio::time::sleep(if silent { PROOF_AGAIN } else { PROOF_EVERY }).await;
        let said = sync::ask_all(&shared.monitors).await;
        let sync = match said.and_then(|said| said.of(&shared.keepers)) {
            Ok(sync) => sync,
            Err(ConnectError::Unsafe(why @ Unsafe::Silent { .. })) => Sync::Silent(why.to_string()),
            Err(error) => Sync::Lazy(error.to_string()),
        };
        shared.sync.send_if_modified(|before| {
            // What was lazy and does not answer is lazy still.
            let stays = matches!((&*before, &sync), (Sync::Lazy(_), Sync::Silent(_)));
            let changes = !stays && *before != sync;
            if changes {
                tracing::warn!(?sync, "the proof of syncing has changed");
                tell(&sync);
                *before = sync;
            }
            changes
        });
    }
}

impl Shared {
    /// While a server is known to acknowledge too early, nothing is appended unless that is allowed.
    pub(super) fn lazy_outage(&self) -> Option<Outage> {
        match (&*self.sync.borrow(), self.lazy_sync) {
            (Sync::Lazy(why), LazySync::Refuse) => Some(Outage::Unavailable(why.clone())),
            (Sync::Proved | Sync::Silent(_) | Sync::Lazy(_), _) => None,
        }
    }
}
