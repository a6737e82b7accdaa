//! Where the journal is: a file in the data folder, or streams on the servers of a cluster.

use super::{BootError, JOURNAL};
use crate::auth::private;
use crate::config::nats::{NODE_NAME_FILE, Nats};
use crate::config::{Config, Secret};
use actors::cluster::NodeName;
use actors::entropy::Entropy;
use events::record::{Boot, JournalId};
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use store::jetstream::{Connect, Credentials, LazySync, OUTAGE_MAX, Servers};
use store::{Faults, Open, Store};

/// The file that is locked while a node of a cluster uses a data folder; an embedded journal locks itself.
const LOCK: &str = "node.lock";

/// The file that names the newest life of a node: the next one knows that it is over.
const BOOT: &str = "node-boot";

/// The data folder can not be this node's.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Stop the other node, or give this one a folder of its own.
    #[error("another node uses {}: give this one a folder of its own, --data-dir", .0.display())]
    Taken(PathBuf),
    /// Mend the folder or the disk.
    #[error("{} can not be locked", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Take the file out, and another name is drawn.
    #[error("{} does not hold a node's name: remove it, or give --node", .0.display())]
    Name(PathBuf),
}

/// The journal, and what a node of a cluster needs beside it.
pub(super) struct Journal {
    pub(super) store: Store,
    pub(super) boot: Boot,
    pub(super) cluster: Option<Clustered>,
}

/// What a node of a cluster has before anything runs.
pub(super) struct Clustered {
    pub(super) node: NodeName,
    pub(super) nats: Nats,
    pub(super) servers: Servers,
    /// Held as long as the node lives.
    pub(super) lock: File,
    /// The life before this one. It is over, for its lock was free.
    pub(super) former: Option<Boot>,
}

pub(super) async fn open(
    config: &Config,
    entropy: &Entropy,
    faults: Faults,
) -> Result<Journal, BootError> {
    let (boot, fresh) = (Boot(entropy.draw()), JournalId(entropy.draw()));
    let Some(nats) = &config.nats else {
        let path = config.data_dir.join(JOURNAL);
        let store = Store::open(Open { path, boot, fresh, faults })?;
        return Ok(Journal { store, boot, cluster: None });
    };
    let lock = lock(&config.data_dir.join(LOCK))?;
    let node = name(&config.data_dir, nats.node.as_deref(), entropy)?;
    let servers = servers(nats);
    let connect = Connect {
        servers: servers.clone(),
        monitors: nats.monitors.clone(),
        namespace: nats.namespace.clone(),
        boot,
        fresh,
        replicas: nats.replicas,
        shard_bytes_max: nats.shard_bytes_max,
        lazy_sync: if nats.allow_lazy_fsync { LazySync::Allow } else { LazySync::Refuse },
        faults,
    };
    let store = Store::connect(connect).await?;
    let former = former(&config.data_dir.join(BOOT), boot)?;
    let cluster = Some(Clustered { node, nats: nats.clone(), servers, lock, former });
    Ok(Journal { store, boot, cluster })
}

fn servers(nats: &Nats) -> Servers {
    let credentials = match &nats.user {
        None => Credentials::None,
        Some((user, password)) => Credentials::Password {
            user: user.clone(),
            password: Secret::expose(password).to_owned(),
        },
    };
    Servers {
        urls: nats.urls.clone(),
        credentials,
        roots: nats.roots.clone(),
        outage_max: OUTAGE_MAX,
    }
}

/// Two nodes in one folder would share a name and the read models.
fn lock(path: &Path) -> Result<File, FolderError> {
    let failed = |source| FolderError::Lock { path: path.to_owned(), source };
    let file = File::options().create(true).append(true).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(FolderError::Taken(path.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Which life was the last one in this folder; from now on it is `boot`.
fn former(path: &Path, boot: Boot) -> Result<Option<Boot>, private::PrivateError> {
    let kept = private::read(path, private::Readers::Owner)?;
    private::write(path, &format!("{:032x}\n", boot.0))?;
    // A file that does not read costs the wait for a lease that ends by itself.
    Ok(kept.and_then(|text| u128::from_str_radix(text.trim(), 16).ok()).map(Boot))
}

/// The name that was given, or the one that was drawn at the first start.
fn name(folder: &Path, given: Option<&str>, entropy: &Entropy) -> Result<NodeName, BootError> {
    let path = folder.join(NODE_NAME_FILE);
    let wrong = || BootError::Folder(FolderError::Name(path.clone()));
    if let Some(given) = given {
        return given.parse().map_err(|_| wrong());
    }
    if let Some(kept) = private::read(&path, private::Readers::Owner)? {
        return kept.trim().parse().map_err(|_| wrong());
    }
    let drawn = format!("node-{:012x}", entropy.draw() & 0xffff_ffff_ffff);
    private::write(&path, &format!("{drawn}\n"))?;
    drawn.parse().map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_drawn_once_and_a_given_one_wins() {
        let folder = tempfile::tempdir().unwrap();
        let entropy = Entropy::seeded(1);
        let drawn = name(folder.path(), None, &entropy).unwrap();
        assert_eq!(name(folder.path(), None, &entropy).unwrap(), drawn);
        assert_eq!(name(folder.path(), Some("n1"), &entropy).unwrap().as_str(), "n1");
    }

    #[test]
    fn a_life_knows_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(BOOT);
        assert_eq!(former(&path, Boot(7)).unwrap(), None);
        assert_eq!(former(&path, Boot(8)).unwrap(), Some(Boot(7)));
    }

    #[test]
    fn a_folder_has_one_node() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK);
        let first = lock(&path).unwrap();
        assert!(matches!(lock(&path), Err(FolderError::Taken(_))));
        drop(first);
        assert!(lock(&path).is_ok());
    }
}
