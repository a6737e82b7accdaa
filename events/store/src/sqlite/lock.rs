//! One process owns a journal file: an operating-system lock on a file beside it, which ends with its process
//! however that dies. Two owners would both answer "durable" from their own memory of the tails.

use crate::OpenError;
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
    time::Duration,
};

/// Looks at a lock that is taken. A verification holds it for some microseconds, and an owner writes its process id
/// that long after it took the lock; neither should be what a starting node is told.
const LOOKS_MAX: u32 = 20;
/// Between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(1);

/// File systems on which locks and fsync can not be relied on, by the magic number of `statfs(2)` on Linux.
const NETWORK: [(u64, &str); 6] = [
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x5346_414f, "afs"),
    (0x00c3_6400, "ceph"),
];

/// The lock; let go when dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

/// The lock file of a database.
pub(crate) fn beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

impl Lock {
    /// Becomes the owner of `database`, or says who is.
    pub(crate) fn take(database: &Path) -> Result<Self, OpenError> {
        local(database)?;
        let path = beside(database);
        let io = |source| OpenError::Io { path: path.clone(), source };
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).open(&path).map_err(io)?;
        let mut pid = None;
        for _ in 0..LOOKS_MAX {
            match file.try_lock() {
                Ok(()) => {
                    let mut lock = Self { file };
                    lock.sign().map_err(io)?;
                    return Ok(lock);
                }
                Err(TryLockError::Error(source)) => return Err(io(source)),
                Err(TryLockError::WouldBlock) => pid = owner(&mut file),
            }
            std::thread::sleep(LOOK_PAUSE);
        }
        Err(OpenError::Owned { path: database.to_path_buf(), pid })
    }

    fn sign(&mut self) -> std::io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        writeln!(self.file, "{}", std::process::id())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // So that the next owner's rival does not read this id. The lock itself goes with the file.
        let _unsigned = self.file.set_len(0);
    }
}

fn owner(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn local(database: &Path) -> Result<(), OpenError> {
    let folder = match database.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    let io = |source: rustix::io::Errno| OpenError::Io {
        path: folder.to_path_buf(),
        source: source.into(),
    };
    let found = rustix::fs::statfs(folder).map_err(io)?;
    let magic = u64::try_from(found.f_type).unwrap_or_default() & 0xffff_ffff;
    match NETWORK.iter().find(|(known, _)| cfg!(target_os = "linux") && *known == magic) {
        Some((_, kind)) => Err(OpenError::NetworkFileSystem { path: database.to_path_buf(), kind }),
        None => Ok(()),
    }
}
