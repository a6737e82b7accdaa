//! A copy of a file by `SQLite`'s own backup interface: a consistent view, whatever the writer does meanwhile.

use super::schema;
use crate::backup::BackupError;
use rusqlite::{
    Connection, OpenFlags,
    backup::{Backup, StepResult},
};
use std::{fs::File, path::Path, time::Duration};

/// Pages between two reports of progress: 4 MiB.
const PAGES_PER_STEP: i32 = 1_024;
/// Tries of a step that finds the copy locked; nobody else knows its name, so this is a stuck file system.
const BUSY_MAX: u32 = 100;
/// Between two such tries.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Copies a database into a new file and makes it durable. Holds one read view for the whole time, so the
/// write-ahead log of a busy original grows until the copy is done; without it each of its commits would start the
/// copy anew.
pub(crate) fn copy(
    from: &Path,
    to: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), BackupError> {
    let source = schema::reader(from)?;
    source.execute_batch("begin")?;
    let _pinned: i64 = source.query_row("select count(*) from meta", [], |row| row.get(0))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut target = Connection::open_with_flags(to, flags)?;
    run(&source, &mut target, progress)?;
    drop(target);
    let io = |source| BackupError::Io { path: to.to_path_buf(), source };
    File::open(to).map_err(io)?.sync_all().map_err(io)
}

fn run(
    source: &Connection,
    target: &mut Connection,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), BackupError> {
    let backup = Backup::new(source, target)?;
    let mut busy = 0;
    loop {
        let step = backup.step(PAGES_PER_STEP)?;
        let pages = |count: i32| u64::try_from(count).unwrap_or_default();
        let seen = backup.progress();
        let total = pages(seen.pagecount);
        progress(total.saturating_sub(pages(seen.remaining)), total);
        match step {
            StepResult::Done => return Ok(()),
            StepResult::More => busy = 0,
            // The type may grow; whatever else it says, the step was not made.
            _ if busy < BUSY_MAX => {
                busy += 1;
                std::thread::sleep(BUSY_PAUSE);
            }
            _ => return Err(BackupError::CutShort),
        }
    }
}
