//! How far a webhook has been told of a shard: a file in the data folder where the journal is a file too, a message beside
//! the journal in a cluster. A webhook that is new begins with what happens from then on.

use actors::bus::{Mark, NotTold, Outside};
use events::record::{JournalId, Shard};
use events::subject::Meta;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use store::{Store, StoreError};
use tokio::io::AsyncWriteExt;

/// Bytes of the largest mark that is read.
const BYTES_MAX: usize = 128;

/// A mark was not read or moved: begin again from where it stands.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotMarked {
    #[error("the mark of a webhook can not be kept in {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Beside(#[from] NotTold),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where marks are kept. Clones are the same.
#[derive(Debug, Clone)]
pub enum Marks {
    /// In this folder, for this journal.
    Folder(PathBuf, JournalId),
    /// Beside the journal of a cluster.
    Beside(Box<Outside>),
}

/// A mark as it was read or written last.
#[derive(Debug, Clone, Copy)]
pub(super) enum Marked {
    File(u64),
    Beside(Mark),
}

impl Marked {
    pub(super) const fn sequence(&self) -> u64 {
        match self {
            Self::File(sequence) => *sequence,
            Self::Beside(mark) => mark.sequence,
        }
    }
}

impl Marks {
    /// The mark of a webhook in a shard. Where there is none, or one that the journal does not reach any more because an
    /// older copy of it was put back, it is set to the newest commit.
    pub(super) async fn open(
        &self,
        store: &Store,
        hook: u64,
        shard: Shard,
    ) -> Result<Marked, NotMarked> {
        let newest = store.newest(shard).await?;
        match self {
            Self::Folder(folder, journal) => {
                let path = file(folder, hook, shard);
                let read = read(&path).await.map_err(failed(&path))?;
                let known = read.as_deref().and_then(|text| parse(text, *journal));
                match known.filter(|sequence| *sequence <= newest) {
                    Some(sequence) => Ok(Marked::File(sequence)),
                    None => self.put(hook, shard, Marked::File(0), newest).await,
                }
            }
            Self::Beside(out) => {
                let mark = out.mark(Meta::Hook(hook, shard)).await?;
                if mark.stands() && mark.sequence <= newest {
                    return Ok(Marked::Beside(mark));
                }
                self.put(hook, shard, Marked::Beside(mark), newest).await
            }
        }
    }

    /// Moves it.
    pub(super) async fn put(
        &self,
        hook: u64,
        shard: Shard,
        before: Marked,
        sequence: u64,
    ) -> Result<Marked, NotMarked> {
        match (self, before) {
            (Self::Beside(out), Marked::Beside(before)) => {
                let mark = out.put_mark(Meta::Hook(hook, shard), before, sequence).await?;
                Ok(Marked::Beside(mark))
            }
            (Self::Beside(out), Marked::File(_)) => {
                Ok(Marked::Beside(out.mark(Meta::Hook(hook, shard)).await?))
            }
            (Self::Folder(folder, journal), _) => {
                let path = file(folder, hook, shard);
                let text = format!("{journal} {sequence}\n");
                write(folder, &path, &text).await.map_err(failed(&path))?;
                Ok(Marked::File(sequence))
            }
        }
    }
}

fn file(folder: &Path, hook: u64, shard: Shard) -> PathBuf {
    folder.join(format!("{hook:016x}-{}", shard.0))
}

fn failed(path: &Path) -> impl Fn(io::Error) -> NotMarked {
    move |source| NotMarked::File { path: path.to_owned(), source }
}

/// The sequence, if the mark is of this journal.
fn parse(text: &str, journal: JournalId) -> Option<u64> {
    let (of, sequence) = text.trim().split_once(' ')?;
    if of == journal.to_string() { sequence.parse().ok() } else { None }
}

async fn read(path: &Path) -> io::Result<Option<String>> {
    match tokio::fs::read(path).await {
        Ok(bytes) if bytes.len() <= BYTES_MAX => Ok(String::from_utf8(bytes).ok()),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A reader, and the next start, sees the old mark or the new one, never half of one.
async fn write(folder: &Path, path: &Path, text: &str) -> io::Result<()> {
    tokio::fs::create_dir_all(folder).await?;
    let fresh = path.with_extension("new");
    let mut file = tokio::fs::File::create(&fresh).await?;
    file.write_all(text.as_bytes()).await?;
    file.sync_all().await?;
    tokio::fs::rename(&fresh, path).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::record::Boot;
    use store::Faults;

    const SHARD: Shard = Shard(0);

    #[tokio::test]
    async fn a_mark_stands_for_its_journal_and_never_beyond_it() {
        let (folder, journal) = (tempfile::tempdir().unwrap(), JournalId(7));
        let store = Store::memory(Boot(1), journal, Faults::none());
        let marks = |journal| Marks::Folder(folder.path().join("marks"), journal);
        let mine = marks(journal);
        // New: from now on.
        let mark = mine.open(&store, 1, SHARD).await.unwrap();
        assert_eq!(mark.sequence(), 0);
        // Another webhook has another mark, and a mark beyond the journal is taken back.
        mine.put(1, SHARD, mark, 40).await.unwrap();
        let path = file(&folder.path().join("marks"), 1, SHARD);
        assert_eq!(parse(&read(&path).await.unwrap().unwrap(), journal), Some(40));
        assert_eq!(parse(&read(&path).await.unwrap().unwrap(), JournalId(8)), None);
        assert_eq!(mine.open(&store, 2, SHARD).await.unwrap().sequence(), 0);
        assert_eq!(mine.open(&store, 1, SHARD).await.unwrap().sequence(), 0);
        assert_eq!(parse(&read(&path).await.unwrap().unwrap(), journal), Some(0));
    }
}
