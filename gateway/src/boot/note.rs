//! `<data>/node.json`: where the command line finds the node of a data folder.

use super::BootError;
use crate::app::App;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

/// Its name in the data folder.
pub const FILE: &str = "node.json";

/// What it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeNote {
    /// Where the node answers.
    pub url: String,
    /// Its process.
    pub pid: u32,
}

impl NodeNote {
    /// This process at an address.
    #[must_use]
    pub fn here(address: SocketAddr) -> Self {
        Self { url: format!("http://{address}"), pid: std::process::id() }
    }

    /// Writes it; a reader sees the old one or the new one, never half of one.
    ///
    /// # Errors
    ///
    /// When the folder can not be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let fresh = path.with_extension("json.new");
        fs::write(&fresh, serde_json::to_vec(self)?)?;
        fs::rename(&fresh, path)
    }

    /// Reads it; `None` when there is none.
    ///
    /// # Errors
    ///
    /// When it is there and can not be read.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        match fs::read(path) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Leaves the note of a node that serves.
pub(super) fn leave(app: &App, address: SocketAddr) -> Result<(), BootError> {
    let path = app.config.data_dir.join(FILE);
    NodeNote::here(address).write(&path).map_err(|source| BootError::Note { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_back_and_none_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        assert_eq!(NodeNote::read(&path).unwrap(), None);
        let note = NodeNote::here("127.0.0.1:7486".parse().unwrap());
        note.write(&path).unwrap();
        assert_eq!(NodeNote::read(&path).unwrap(), Some(note));
    }
}
