//! A drill by hand: files in a folder hold whoever visits the points that they are named after.
//!
//! `touch FOLDER/before_first_byte` and the next effect that is ready to leave waits there, and says so in
//! `FOLDER/before_first_byte.reached`; when the file is gone it goes on. A file that is not empty names what it holds:
//! `model`, `tool`, or both. Nobody is held for longer than [`HOLD_MAX`], so a drill that was forgotten ends by itself.

use super::Point;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// The longest that a file holds one visitor.
const HOLD_MAX: Duration = Duration::from_secs(60);
/// Between two looks at the file.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of a file that are read: a few words.
const WORDS_MAX: u64 = 64;

/// Who visits a point.
#[derive(Clone, Copy)]
pub struct Visitor<'a> {
    /// What it is: `model`, `tool`, another effect's word, or `commit` for the store itself.
    pub what: &'static str,
    /// Which one, for people.
    pub name: &'a (dyn Display + Send + Sync),
}

impl fmt::Debug for Visitor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.name)
    }
}

/// The folder of one drill.
#[derive(Debug)]
pub(super) struct Drill {
    folder: PathBuf,
    /// The longest that a file holds one visitor.
    most: Duration,
}

impl Drill {
    pub(super) const fn in_folder(folder: PathBuf) -> Self {
        Self { folder, most: HOLD_MAX }
    }

    /// Returns when no file holds this visitor here.
    pub(super) async fn hold(&self, point: Point, visitor: Visitor<'_>) {
        let file = self.folder.join(point.name());
        if !holds(&file, visitor.what) {
            return;
        }
        let point = point.name();
        tracing::warn!(point, ?visitor, "held_on_purpose");
        let reached = self.folder.join(format!("{point}.reached"));
        if let Err(error) = std::fs::write(&reached, format!("{visitor:?}\n")) {
            tracing::warn!(file = %reached.display(), %error, "nobody is told that a point was reached");
        }
        let ends = Instant::now() + self.most;
        while holds(&file, visitor.what) && Instant::now() < ends {
            tokio::time::sleep(LOOK).await;
        }
        tracing::warn!(point, ?visitor, "let_go");
    }
}

/// Whether the file is there and, if it names what it holds, names this.
fn holds(file: &Path, what: &str) -> bool {
    use std::io::Read;
    let Ok(opened) = std::fs::File::open(file) else { return false };
    let mut words = String::new();
    let read = opened.take(WORDS_MAX).read_to_string(&mut words);
    read.is_ok() && (words.trim().is_empty() || words.split_whitespace().any(|word| word == what))
}

#[cfg(test)]
mod tests {
    use super::Drill;
    use crate::fault::{Faults, Next, Point, Visitor};
    use std::time::Duration;
    use tokio::time::Instant;

    const MODEL: Visitor<'static> = Visitor { what: "model", name: &"run_1" };
    const TOOL: Visitor<'static> = Visitor { what: "tool", name: &"run_2" };

    #[tokio::test]
    async fn whoever_a_file_names_waits_until_it_is_gone_and_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let faults = Faults::held_in(folder.path().to_owned());
        assert!(faults.armed());
        let (file, reached) =
            (folder.path().join("after_intent"), folder.path().join("after_intent.reached"));
        assert_eq!(faults.visited(Point::AfterIntent, TOOL).await, Next::GoOn);
        std::fs::write(&file, "drive tool\n").unwrap();
        assert_eq!(faults.visited(Point::AfterIntent, MODEL).await, Next::GoOn);
        assert_eq!(faults.visited(Point::AfterEffect, TOOL).await, Next::GoOn);
        assert!(!reached.exists());
        let release = async {
            while std::fs::read_to_string(&reached).ok().as_deref() != Some("tool run_2\n") {
                tokio::task::yield_now().await;
            }
            std::fs::remove_file(&file).unwrap();
        };
        let hold = async {
            let next = faults.visited(Point::AfterIntent, TOOL).await;
            assert!(!file.exists());
            next
        };
        assert_eq!(tokio::join!(hold, release).0, Next::GoOn);
    }

    #[tokio::test]
    async fn a_forgotten_file_holds_a_visitor_for_a_while_only() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("before_outcome"), "").unwrap();
        let most = Duration::from_millis(50);
        let drill = Drill { folder: folder.path().to_owned(), most };
        let began = Instant::now();
        drill.hold(Point::BeforeOutcome, MODEL).await;
        assert!(began.elapsed() >= most);
    }
}
