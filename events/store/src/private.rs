//! Files that only their owner may read: written whole or not at all, and refused when others could have read them.
//!
//! A key in a file that a group can read is no secret, and half a key after a crash locks its owner out.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes of the largest such file that is read (1 MiB): a key has less than 100, a mounted secret little more, and a file
/// of many logins some thousand for each.
pub(crate) const BYTES_MAX: u64 = 1 << 20;

/// Who may read a file besides its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Nobody: a file of ours.
    Owner,
    /// Its group too: an orchestrator mounts secrets with mode 0440.
    Group,
}

impl Readers {
    /// The bits of a mode that must not be set.
    const fn forbidden(self) -> u32 {
        match self {
            Self::Owner => 0o077,
            Self::Group => 0o037,
        }
    }
}

/// The file is not safe, or could not be used. Nothing was half written.
#[derive(Debug, thiserror::Error)]
pub enum PrivateError {
    /// Mend the mode; change the key if somebody may have read it.
    #[error("{} has mode {mode:04o}, so others may have read it: chmod 600 {}", path.display(), path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Look at the file: it is not what it should be.
    #[error("{} {why}", path.display())]
    Strange {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
    /// Mend the folder or the disk.
    #[error("{} can not be {verb}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Read or written.
        verb: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// The text of a private file; none when there is no such file.
///
/// # Errors
///
/// [`PrivateError`] when others may read it, when it is too large or no text, or when it can not be read.
pub fn read(path: &Path, readers: Readers) -> Result<Option<String>, PrivateError> {
    let failed = |source| PrivateError::Io { path: path.to_owned(), verb: "read", source };
    let strange = |why| PrivateError::Strange { path: path.to_owned(), why };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    // Of the open file, so that what was checked is what is read.
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(strange("is not a file"));
    }
    let mode = about.mode() & 0o7777;
    if mode & readers.forbidden() != 0 {
        return Err(PrivateError::Open { path: path.to_owned(), mode });
    }
    if about.len() > BYTES_MAX {
        return Err(strange("is too large for a key"));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    String::from_utf8(bytes).map(Some).map_err(|_| strange("is not text"))
}

/// Writes a private file as a whole: after a crash it is the old one or the new one.
///
/// # Errors
///
/// [`PrivateError`] when the system refuses; the old file, if any, then stands.
pub fn write(path: &Path, text: &str) -> Result<(), PrivateError> {
    let failed = |source| PrivateError::Io { path: path.to_owned(), verb: "written", source };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = replace(path, &beside, text);
    if written.is_err() {
        // Of no use to anybody, and it holds the text. That it may never have existed is no fault.
        let _gone = std::fs::remove_file(&beside);
    }
    written.map_err(failed)
}

fn replace(path: &Path, beside: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = match options.open(beside) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // Left by a crash of a process that had our id.
            std::fs::remove_file(beside)?;
            options.open(beside)?
        }
        Err(error) => return Err(error),
    };
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(beside, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    // The rename is durable when the folder is.
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Makes a folder that only its owner may enter, and what is missing above it. One that exists is left as it is.
///
/// # Errors
///
/// [`PrivateError`] when the system refuses.
pub fn folder(path: &Path) -> Result<(), PrivateError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| PrivateError::Io { path: path.to_owned(), verb: "made", source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_is_written_is_read_back_and_only_the_owner_may() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("cli.key");
        assert_eq!(read(&path, Readers::Owner).unwrap(), None);
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        assert_eq!(read(&path, Readers::Owner).unwrap().as_deref(), Some("two"));
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_wider_mode_is_refused_with_the_mend() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("cli.key");
        write(&path, "one").unwrap();
        for wide in [0o640, 0o604, 0o620, 0o602, 0o644] {
            mode(&path, wide);
            let error = read(&path, Readers::Owner).unwrap_err().to_string();
            assert!(
                error.contains(&format!("mode {wide:04o}")) && error.contains("chmod 600"),
                "{error}"
            );
        }
        mode(&path, 0o440);
        assert!(read(&path, Readers::Group).is_ok());
        mode(&path, 0o444);
        assert!(read(&path, Readers::Group).is_err());
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("taken");
        std::fs::create_dir_all(path.join("full")).unwrap();
        assert!(write(&path, "one").is_err());
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_crash_left_is_written_over() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("cli.key");
        std::fs::write(home.path().join(format!(".cli.key.{}", std::process::id())), "half")
            .unwrap();
        write(&path, "whole").unwrap();
        assert_eq!(read(&path, Readers::Owner).unwrap().as_deref(), Some("whole"));
    }

    #[test]
    fn a_folder_is_made_for_its_owner_only() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b");
        folder(&path).unwrap();
        folder(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
    }
}
