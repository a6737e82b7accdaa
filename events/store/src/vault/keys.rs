//! The cluster's keys: one file, the same on every node, that only its owner may read.
//!
//! A line for each key, `id:` and 64 hexadecimal digits, the newest first; empty lines and those that begin with `#`
//! are skipped. Values are sealed under the key that the vault itself names, so a new key may be put into the files of
//! all nodes in any order, and nothing uses it before `piton cluster rotate-key` says so. The file is read again when
//! a value asks for a key that was not in it, so no node has to be started anew.

use crate::private::{self, PrivateError, Readers};
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// Keys of one file (8): two while one is rotated, and some that were forgotten.
const KEYS_MAX: usize = 8;
/// Characters of the longest id.
const ID_CHARS_MAX: usize = 32;
/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// One key. It prints as its id and is overwritten when it goes.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterKey {
    id: String,
    bytes: [u8; KEY_BYTES],
}

impl ClusterKey {
    /// What it is called.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) const fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.bytes
    }

    /// Tells two keys of one id apart and gives neither away.
    pub(super) fn check(&self) -> [u8; 8] {
        let hash: [u8; 32] = Sha256::new()
            .chain_update(b"piton cluster key check\0")
            .chain_update(self.bytes)
            .finalize()
            .into();
        let (check, _) = hash.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        *check
    }
}

impl Drop for ClusterKey {
    fn drop(&mut self) {
        self.bytes.fill(0);
        std::hint::black_box(&self.bytes);
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterKey({})", self.id)
    }
}

/// The keys of a cluster, the newest first; there is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterKeys {
    newest: ClusterKey,
    older: Vec<ClusterKey>,
}

/// The file of cluster keys can not be used. No message holds a part of a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// Make one with `piton cluster init`, and copy it to every node.
    #[error("there is no cluster key file at {}: copy it from another node, or make one with `piton cluster init`", .0.display())]
    Missing(PathBuf),
    /// Mend its mode, as the text says.
    #[error(transparent)]
    Private(#[from] PrivateError),
    /// Mend the line.
    #[error("{}:{line}: {why}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// Put a key into it.
    #[error("{} holds no key: give a line of ID:64 hexadecimal digits", .0.display())]
    Empty(PathBuf),
    /// The machine gives no random numbers.
    #[error("no random numbers for a new cluster key")]
    NoChance,
}

impl ClusterKeys {
    /// Reads the text of a key file; `path` is for messages.
    ///
    /// # Errors
    ///
    /// [`KeyFileError`], which names the line.
    pub fn parse(text: &str, path: &Path) -> Result<Self, KeyFileError> {
        let mut keys: Vec<ClusterKey> = Vec::new();
        for (nth, line) in text.lines().enumerate() {
            let wrong = |why| KeyFileError::Line { path: path.to_owned(), line: nth + 1, why };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = one(line).map_err(wrong)?;
            if keys.iter().any(|before| before.id == key.id) {
                return Err(wrong("this id stands twice"));
            }
            if keys.len() == KEYS_MAX {
                return Err(wrong("more than 8 keys: drop those that no value needs"));
            }
            keys.push(key);
        }
        let mut keys = keys.into_iter();
        let newest = keys.next().ok_or_else(|| KeyFileError::Empty(path.to_owned()))?;
        Ok(Self { newest, older: keys.collect() })
    }

    /// The newest.
    #[must_use]
    pub const fn newest(&self) -> &ClusterKey {
        &self.newest
    }

    /// The key of this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&ClusterKey> {
        std::iter::once(&self.newest).chain(&self.older).find(|key| key.id == id)
    }

    /// The ids of all but the newest.
    pub fn older(&self) -> impl Iterator<Item = &str> {
        self.older.iter().map(|key| key.id.as_str())
    }
}

/// A line for a key file with a key that nobody else has; the line is the secret.
///
/// # Errors
///
/// [`KeyFileError::NoChance`] when the machine gives no random numbers.
pub fn draw(id: &str) -> Result<String, KeyFileError> {
    let mut bytes = [0; KEY_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyFileError::NoChance)?;
    let mut line = format!("{id}:");
    for byte in bytes {
        // Writing to a string does not fail.
        let _written = write!(line, "{byte:02x}");
    }
    Ok(line)
}

fn one(line: &str) -> Result<ClusterKey, &'static str> {
    const FORM: &str = "give ID:64 hexadecimal digits";
    let (id, digits) = line.split_once(':').ok_or(FORM)?;
    let (id, digits) = (id.trim(), digits.trim());
    let allowed = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_');
    if !(1..=ID_CHARS_MAX).contains(&id.len()) || !id.chars().all(allowed) {
        return Err("an id has 1 to 32 characters of a-z 0-9 _ -");
    }
    let mut key = ClusterKey { id: id.to_owned(), bytes: [0; KEY_BYTES] };
    if digits.len() != 2 * KEY_BYTES || !digits.is_ascii() {
        return Err(FORM);
    }
    for (nth, byte) in key.bytes.iter_mut().enumerate() {
        let pair = digits.get(2 * nth..2 * nth + 2).ok_or(FORM)?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| FORM)?;
    }
    if key.bytes == [0; KEY_BYTES] {
        return Err("a key of zeros is none");
    }
    Ok(key)
}

/// A key file and what was last read of it. Clones are the same.
#[derive(Debug, Clone)]
pub struct KeyFile {
    path: PathBuf,
    /// Held over no await.
    keys: Arc<RwLock<Arc<ClusterKeys>>>,
}

impl KeyFile {
    /// Reads a key file.
    ///
    /// # Errors
    ///
    /// [`KeyFileError`] when it is missing, when others may read it, or when a line is wrong.
    pub fn open(path: &Path) -> Result<Self, KeyFileError> {
        let keys = Arc::new(RwLock::new(Arc::new(read(path)?)));
        Ok(Self { path: path.to_owned(), keys })
    }

    /// What was last read.
    #[must_use]
    pub fn keys(&self) -> Arc<ClusterKeys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads it again. What was read before stays when it can not be used now.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn reload(&self) -> Result<Arc<ClusterKeys>, KeyFileError> {
        let keys = Arc::new(read(&self.path)?);
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&keys);
        Ok(keys)
    }
}

fn read(path: &Path) -> Result<ClusterKeys, KeyFileError> {
    let text = private::read(path, Readers::Owner)?;
    let text = text.ok_or_else(|| KeyFileError::Missing(path.to_owned()))?;
    // The text holds the keys: it goes as they do.
    let text = super::Plain::new(text.into_bytes());
    ClusterKeys::parse(std::str::from_utf8(text.expose()).unwrap_or_default(), path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const OLD: &str = "old:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn parse(text: &str) -> Result<ClusterKeys, KeyFileError> {
        ClusterKeys::parse(text, Path::new("cluster.key"))
    }

    #[test]
    fn a_file_has_the_newest_key_first() {
        let new = draw("new").unwrap();
        let keys = parse(&format!("# of the cluster\n\n{new}\n {OLD} \n")).unwrap();
        assert_eq!(keys.newest().id(), "new");
        assert_eq!(keys.older().collect::<Vec<_>>(), ["old"]);
        assert_eq!(keys.get("old").unwrap().bytes()[..3], [0, 0x11, 0x22]);
        assert!(keys.get("other").is_none());
        assert_ne!(draw("new").unwrap(), new);
    }

    #[test]
    fn a_wrong_line_is_named_and_not_shown() {
        let cut = OLD.strip_suffix('f').unwrap();
        let zeros = format!("z:{}", "0".repeat(64));
        for (text, then) in [
            (cut.to_owned(), "cluster.key:1: give ID:64"),
            (format!("# a\n{OLD}\n{OLD}"), "cluster.key:3: this id stands twice"),
            (OLD.replace("old", "Old"), "an id has"),
            (OLD.replace('3', "x"), "give ID:64"),
            (OLD.replace("old:", ""), "give ID:64"),
            (zeros, "zeros"),
            ("# nothing\n".to_owned(), "holds no key"),
        ] {
            let said = parse(&text).unwrap_err().to_string();
            assert!(said.contains(then) && !said.contains("445566"), "{said}");
        }
        let many: Vec<String> = (0..9).map(|nth| OLD.replace("old", &format!("k{nth}"))).collect();
        assert!(parse(&many.join("\n")).unwrap_err().to_string().contains("more than 8"));
    }

    #[test]
    fn a_key_prints_as_its_id() {
        let shown = format!("{:?}", parse(OLD).unwrap());
        assert!(shown.contains("old") && !shown.contains("17"), "{shown}");
    }

    #[test]
    fn a_file_that_others_may_read_is_refused_and_a_new_line_is_found() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("cluster.key");
        assert!(matches!(KeyFile::open(&path), Err(KeyFileError::Missing(_))));
        private::write(&path, OLD).unwrap();
        let file = KeyFile::open(&path).unwrap();
        private::write(&path, &format!("{}\n{OLD}", draw("new").unwrap())).unwrap();
        assert!(file.keys().get("new").is_none());
        assert_eq!(file.reload().unwrap().newest().id(), "new");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let said = file.reload().unwrap_err().to_string();
        assert!(said.contains("0640") && said.contains("chmod 600"), "{said}");
        assert_eq!(file.keys().newest().id(), "new", "what was read stays");
    }
}
