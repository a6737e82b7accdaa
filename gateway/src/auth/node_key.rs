//! The two keys that a node has before anybody issued one: its administrator's, and its command line's.
//!
//! The administrator's key is shown once and kept as a hash. It is shown before its hash is kept: a crash between the
//! two shows a key that opens nothing and makes another at the next start, instead of keeping one that nobody saw.
//! The command line's key is read from its file by whoever may read that file. Both need the data folder's lock.

use super::private::{self, PrivateError, Readers};
use super::text;
use crate::config::{self, Environment, Secret};
use events::record::Hash;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The file that keeps the hash of the administrator's key.
const ADMIN_HASH: &str = "admin.hash";
/// The file that shows a new administrator's key where there is no terminal.
const ADMIN_KEY: &str = "admin.key";
/// The file that holds the command line's key.
pub const CLI_KEY: &str = "cli.key";
/// Characters of the shortest administrator's key that is taken (16): what a person makes up is guessed below that.
const GIVEN_CHARS_MIN: usize = 16;

/// The node's own keys, as hashes, and what became of the administrator's.
#[derive(Debug)]
pub struct NodeKeys {
    /// The administrator's.
    pub admin: Hash,
    /// The command line's.
    pub cli: Hash,
    /// Where the administrator's came from.
    pub told: Told,
}

/// Where the administrator's key came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// The environment gave it for this start; the kept one, if any, waits.
    Given,
    /// It was shown at an earlier start.
    Kept,
    /// It is new, and was printed.
    Printed,
    /// It is new, and stands in this file.
    Written(PathBuf),
}

/// Where a new key may be shown.
pub enum Show<'a> {
    /// To a person.
    Terminal(&'a mut dyn Write),
    /// In a file, because what is printed here is kept by a log.
    File,
}

/// A node's own key can not be had.
#[derive(Debug, thiserror::Error)]
pub enum NodeKeyError {
    /// Mend the file.
    #[error(transparent)]
    File(#[from] PrivateError),
    /// Take one of them away.
    #[error("{} and {} are both set: keep one of them", config::ADMIN_KEY, config::ADMIN_KEY_FILE)]
    Twice,
    /// Name a file that exists.
    #[error("{} names {}, which does not exist", config::ADMIN_KEY_FILE, .0.display())]
    NoFile(PathBuf),
    /// Give a longer one.
    #[error(
        "the administrator's key from {0} is too weak or has blanks: give {GIVEN_CHARS_MIN} or more visible ASCII \
         characters, such as the output of openssl rand -hex 32"
    )]
    Weak(&'static str),
    /// Take the file away, and the next start makes a new key.
    #[error("{} does not hold a hash: remove it, and the next start makes a new administrator's key", .0.display())]
    NotAHash(PathBuf),
    /// The terminal went away before the key was shown.
    #[error("the new administrator's key could not be shown")]
    NotShown(#[source] std::io::Error),
}

/// The administrator's key that the environment gives, if it gives one.
///
/// # Errors
///
/// [`NodeKeyError`] when it is given twice, too weak, or in a file that is missing or open to others.
pub fn given(environment: &Environment) -> Result<Option<Secret>, NodeKeyError> {
    let (key, name) =
        match (environment.get(config::ADMIN_KEY), environment.get(config::ADMIN_KEY_FILE)) {
            (Some(_), Some(_)) => return Err(NodeKeyError::Twice),
            (None, None) => return Ok(None),
            (Some(key), None) => (key.to_owned(), config::ADMIN_KEY),
            (None, Some(path)) => {
                let path = Path::new(path);
                let text = private::read(path, Readers::Group)?;
                (text.ok_or_else(|| NodeKeyError::NoFile(path.to_owned()))?, config::ADMIN_KEY_FILE)
            }
        };
    let key = key.trim_end_matches(['\r', '\n']);
    if key.len() < GIVEN_CHARS_MIN || !key.chars().all(|c| c.is_ascii_graphic()) {
        return Err(NodeKeyError::Weak(name));
    }
    Ok(Some(Secret::new(key)))
}

/// The node's own keys; made at the first start. `draw` gives 256 random bits.
///
/// # Errors
///
/// [`NodeKeyError`] when a file is open to others, broken, or can not be written.
pub fn open(
    data_dir: &Path,
    given: Option<&Secret>,
    show: Show<'_>,
    draw: &mut dyn FnMut() -> [u8; 32],
) -> Result<NodeKeys, NodeKeyError> {
    let cli = cli_key(data_dir, draw)?;
    let (admin, told) = match given {
        Some(key) => (text::hash(key.expose()), Told::Given),
        None => admin_key(data_dir, show, draw)?,
    };
    Ok(NodeKeys { admin, cli, told })
}

fn cli_key(data_dir: &Path, draw: &mut dyn FnMut() -> [u8; 32]) -> Result<Hash, NodeKeyError> {
    let path = data_dir.join(CLI_KEY);
    let kept = private::read(&path, Readers::Owner)?;
    // An empty file would make the empty text a key.
    if let Some(key) =
        kept.as_deref().map(str::trim).filter(|key| key.starts_with(text::CLI_PREFIX))
    {
        return Ok(text::hash(key));
    }
    let key = text::of_node(text::CLI_PREFIX, draw());
    private::write(&path, &format!("{}\n", key.expose()))?;
    Ok(text::hash(key.expose()))
}

fn admin_key(
    data_dir: &Path,
    show: Show<'_>,
    draw: &mut dyn FnMut() -> [u8; 32],
) -> Result<(Hash, Told), NodeKeyError> {
    let path = data_dir.join(ADMIN_HASH);
    if let Some(text) = private::read(&path, Readers::Owner)? {
        return match parse(text.trim()) {
            Some(hash) => Ok((hash, Told::Kept)),
            None => Err(NodeKeyError::NotAHash(path)),
        };
    }
    let key = text::of_node(text::ADMIN_PREFIX, draw());
    let told = match show {
        Show::Terminal(out) => {
            let lines = format!(
                "The administrator's key of this node; it is not shown again:\n\n    {}\n\n",
                key.expose()
            );
            out.write_all(lines.as_bytes())
                .and_then(|()| out.flush())
                .map_err(NodeKeyError::NotShown)?;
            Told::Printed
        }
        Show::File => {
            let path = data_dir.join(ADMIN_KEY);
            private::write(&path, &format!("{}\n", key.expose()))?;
            Told::Written(path)
        }
    };
    let hash = text::hash(key.expose());
    private::write(&path, &format!("{hash}\n"))?;
    Ok((hash, told))
}

fn parse(hex: &str) -> Option<Hash> {
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        // `from_str_radix` takes a sign.
        *byte = u8::from_str_radix(pair, 16).ok().filter(|_| !pair.starts_with('+'))?;
    }
    Some(Hash(hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A start of the node on a folder, with `draw` numbered from `seed`; on a terminal it also returns the screen.
    fn start(folder: &Path, seed: u8, on_terminal: &mut Vec<u8>) -> NodeKeys {
        let mut next = seed;
        let mut draw = || {
            next += 1;
            [next; 32]
        };
        open(folder, None, Show::Terminal(on_terminal), &mut draw).unwrap()
    }

    #[test]
    fn the_first_start_shows_a_key_and_the_second_knows_it() {
        let home = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let made = start(home.path(), 0, &mut first);
        let kept = start(home.path(), 100, &mut second);
        assert_eq!((&made.told, &kept.told), (&Told::Printed, &Told::Kept));
        assert_eq!((made.admin, made.cli), (kept.admin, kept.cli));
        assert!(second.is_empty());
        let screen = String::from_utf8(first).unwrap();
        let key = screen.split_whitespace().find(|word| word.starts_with("piton_admin_")).unwrap();
        assert_eq!(text::hash(key), made.admin);
        let everything: String = std::fs::read_dir(home.path())
            .unwrap()
            .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
            .collect();
        assert!(!everything.contains(key), "only its hash is kept");
    }

    #[test]
    fn without_a_terminal_the_key_stands_in_a_private_file() {
        let home = tempfile::tempdir().unwrap();
        let keys = open(home.path(), None, Show::File, &mut || [7; 32]).unwrap();
        let Told::Written(path) = keys.told else { panic!("{:?}", keys.told) };
        let key = private::read(&path, Readers::Owner).unwrap().unwrap();
        assert_eq!(text::hash(key.trim()), keys.admin);
    }

    #[test]
    fn a_given_key_is_used_and_not_kept() {
        let home = tempfile::tempdir().unwrap();
        let secret = Secret::new("a-key-from-outside");
        let keys = open(home.path(), Some(&secret), Show::File, &mut || [7; 32]).unwrap();
        assert_eq!((keys.admin, keys.told), (text::hash("a-key-from-outside"), Told::Given));
        assert!(!home.path().join(ADMIN_HASH).exists());
    }

    #[test]
    fn an_empty_or_foreign_file_does_not_become_the_key_of_the_command_line() {
        let home = tempfile::tempdir().unwrap();
        for foreign in ["", "\n", "password"] {
            private::write(&home.path().join(CLI_KEY), foreign).unwrap();
            let keys = open(home.path(), None, Show::File, &mut || [7; 32]).unwrap();
            assert_ne!(keys.cli, text::hash(foreign.trim()));
        }
    }

    #[test]
    fn a_broken_hash_is_named_and_not_written_over() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(ADMIN_HASH);
        for broken in ["", "zz", &"+1".repeat(32)] {
            private::write(&path, broken).unwrap();
            let error = open(home.path(), None, Show::File, &mut || [7; 32]).unwrap_err();
            assert!(error.to_string().contains("remove it"), "{error}");
            assert_eq!(private::read(&path, Readers::Owner).unwrap().as_deref(), Some(broken));
        }
    }

    #[test]
    fn the_environment_gives_one_strong_key_or_none() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("secret");
        private::write(&path, "0123456789abcdef0123456789abcdef\n").unwrap();
        let path = path.display().to_string();
        let of = |pairs: &[(&str, &str)]| given(&Environment::of(pairs.iter().copied()));
        assert!(of(&[]).unwrap().is_none());
        let key = of(&[(config::ADMIN_KEY_FILE, &path)]).unwrap().unwrap();
        assert_eq!(key.expose(), "0123456789abcdef0123456789abcdef");
        assert!(matches!(
            of(&[(config::ADMIN_KEY, "short")]),
            Err(NodeKeyError::Weak("PITON_ADMIN_KEY"))
        ));
        assert!(matches!(
            of(&[(config::ADMIN_KEY, "with blanks in between")]),
            Err(NodeKeyError::Weak(_))
        ));
        assert!(matches!(of(&[(config::ADMIN_KEY_FILE, "/gone")]), Err(NodeKeyError::NoFile(_))));
        let twice = of(&[(config::ADMIN_KEY, "0123456789abcdef"), (config::ADMIN_KEY_FILE, &path)]);
        assert!(matches!(twice, Err(NodeKeyError::Twice)));
    }
}
