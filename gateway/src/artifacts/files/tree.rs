//! The folder of artifact files: read within bounds, replaced whole, and never through a link.

use super::front::parse;
use events::artifact::{ARTIFACTS_MAX, Name};
use events::project::Project;
use events::record::Shard;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes of a file that are read (576 KiB): a text of 512 KiB and its head.
const FILE_BYTES_MAX: u64 = 576 << 10;
/// Projects whose files are looked at.
const PROJECTS_MAX: usize = 4_096;
/// The files are the owner's to read and to change.
const MODE: u32 = 0o600;

/// What went wrong, and where.
type Failed = (PathBuf, io::Error);

/// The folder.
#[derive(Debug, Clone)]
pub(super) struct Tree(PathBuf);

/// A file as it was found.
#[derive(Debug)]
pub(super) struct Found {
    page: String,
    stamp: Stamp,
}

/// What changes when a file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    bytes: u64,
    nanos: i128,
}

/// The files that were looked at.
pub(super) type Known = BTreeMap<(Project, Name), Stamp>;

impl Found {
    /// What stands below its head.
    pub(super) fn content(&self) -> &str {
        parse(&self.page).content
    }

    /// Whether a person changed it.
    pub(super) fn is_changed(&self) -> bool {
        parse(&self.page).is_changed()
    }
}

impl Stamp {
    fn of(file: &fs::Metadata) -> Self {
        let nanos = i128::from(file.mtime()) * 1_000_000_000 + i128::from(file.mtime_nsec());
        Self { inode: file.ino(), bytes: file.len(), nanos }
    }
}

impl Tree {
    pub(super) const fn at(folder: PathBuf) -> Self {
        Self(folder)
    }

    fn path(&self, project: Project, name: &Name) -> PathBuf {
        self.0.join(project.as_str()).join(format!("{name}.md"))
    }

    /// A file, if it is one: a link, a folder and what is no text are nobody's version.
    pub(super) fn read(&self, project: Project, name: &Name) -> Result<Option<Found>, Failed> {
        let path = self.path(project, name);
        match read(&path) {
            Ok(found) => Ok(found),
            Err(error) => Err((path, error)),
        }
    }

    /// Replaces a file, if it still is what was found.
    pub(super) fn write(
        &self,
        project: Project,
        name: &Name,
        page: &str,
        found: Option<&Found>,
    ) -> Result<(), Failed> {
        if found.is_some_and(|found| found.page == page) {
            return Ok(());
        }
        let path = self.path(project, name);
        let failed = |source| (path.clone(), source);
        let folder = path.parent().unwrap_or(&self.0);
        fs::create_dir_all(folder).map_err(failed)?;
        let now = fs::symlink_metadata(&path).ok().map(|file| Stamp::of(&file));
        if now != found.map(|found| found.stamp) {
            // Somebody is writing right now; the caller looks again.
            let changed = io::Error::new(ErrorKind::ResourceBusy, "it changes while it is written");
            return Err(failed(changed));
        }
        replace(&path, page.as_bytes()).map_err(failed)
    }

    /// How far a shard's commits are shown.
    pub(super) fn cursor(&self, shard: Shard) -> Result<u64, Failed> {
        let path = self.cursor_path(shard);
        match fs::read_to_string(&path) {
            // What can not be read is begun anew: showing a version twice changes nothing.
            Ok(text) => Ok(text.trim().parse().unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
            Err(error) => Err((path, error)),
        }
    }

    pub(super) fn keep_cursor(&self, shard: Shard, sequence: u64) -> Result<(), Failed> {
        let path = self.cursor_path(shard);
        let kept = fs::create_dir_all(&self.0)
            .and_then(|()| replace(&path, format!("{sequence}\n").as_bytes()));
        kept.map_err(|error| (path, error))
    }

    fn cursor_path(&self, shard: Shard) -> PathBuf {
        self.0.join(format!(".shown-{}", shard.0))
    }

    /// The files that are others than when they were looked at.
    pub(super) fn changed(&self, known: &mut Known) -> Result<Vec<(Project, Name)>, Failed> {
        let mut changed = Vec::new();
        for project in entries(&self.0)?.into_iter().take(PROJECTS_MAX) {
            let Some(id) = word(&project).and_then(|text| text.parse::<Project>().ok()) else {
                continue;
            };
            for path in entries(&project)?.into_iter().take(ARTIFACTS_MAX) {
                let name = word(&path).and_then(|text| text.strip_suffix(".md")?.parse().ok());
                let Some(name): Option<Name> = name else { continue };
                let Ok(file) = fs::symlink_metadata(&path) else { continue };
                let stamp = Stamp::of(&file);
                let key = (id, name);
                if file.is_file() && known.get(&key) != Some(&stamp) {
                    known.insert(key.clone(), stamp);
                    changed.push(key);
                }
            }
        }
        Ok(changed)
    }
}

fn word(path: &Path) -> Option<&str> {
    path.file_name().and_then(|name| name.to_str())
}

/// What stands in a folder, in order; nothing where there is none.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failed> {
    match fs::read_dir(folder) {
        Ok(found) => {
            let mut all: Vec<PathBuf> = found.filter_map(|one| Some(one.ok()?.path())).collect();
            all.sort();
            Ok(all)
        }
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(vec![])
        }
        Err(error) => Err((folder.to_owned(), error)),
    }
}

fn read(path: &Path) -> io::Result<Option<Found>> {
    let kind = match fs::symlink_metadata(path) {
        Ok(file) => file.file_type(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !kind.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no plain file: move it away"));
    }
    let file = File::open(path)?;
    let stamp = Stamp::of(&file.metadata()?);
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        return Err(io::Error::new(ErrorKind::FileTooLarge, "it is too large for an artifact"));
    }
    let page = String::from_utf8(bytes)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is no text in UTF-8"))?;
    Ok(Some(Found { page, stamp }))
}

/// Whole or not at all, and there after a power loss.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("writing~");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (tempfile::TempDir, Tree, Project, Name) {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::at(folder.path().join("artifacts"));
        (folder, tree, Project::of("lab"), "plan".parse().unwrap())
    }

    #[test]
    fn a_file_is_replaced_whole_and_only_while_it_is_what_was_found() {
        let (_folder, tree, project, name) = tree();
        assert!(tree.read(project, &name).unwrap().is_none());
        tree.write(project, &name, "one", None).unwrap();
        let path = tree.path(project, &name);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let found = tree.read(project, &name).unwrap().unwrap();
        assert_eq!((found.content(), found.is_changed()), ("one", true));
        // A person saves between the look and the write.
        fs::write(&path, "mine").unwrap();
        assert!(tree.write(project, &name, "two", Some(&found)).is_err());
        assert!(tree.write(project, &name, "two", None).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        let found = tree.read(project, &name).unwrap();
        tree.write(project, &name, "two", found.as_ref()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(
            fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "nothing is left over"
        );
    }

    #[test]
    fn what_changed_is_named_once() {
        let (_folder, tree, project, name) = tree();
        let mut known = Known::new();
        assert_eq!(tree.changed(&mut known).unwrap(), vec![]);
        tree.write(project, &name, "one", None).unwrap();
        tree.keep_cursor(Shard(3), 77).unwrap();
        fs::write(tree.0.join("lab/Not A Name.md"), "x").unwrap();
        fs::write(tree.0.join("lab/notes.txt"), "x").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", tree.0.join("lab/link.md")).unwrap();
        assert_eq!(tree.changed(&mut known).unwrap(), vec![(project, name.clone())]);
        assert_eq!(tree.changed(&mut known).unwrap(), vec![]);
        fs::write(tree.path(project, &name), "another").unwrap();
        assert_eq!(tree.changed(&mut known).unwrap(), vec![(project, name)]);
        assert_eq!((tree.cursor(Shard(3)).unwrap(), tree.cursor(Shard(4)).unwrap()), (77, 0));
    }

    #[test]
    fn a_link_is_not_followed() {
        let (folder, tree, project, name) = tree();
        let secret = folder.path().join("secret");
        fs::write(&secret, "planted").unwrap();
        fs::create_dir_all(tree.0.join("lab")).unwrap();
        std::os::unix::fs::symlink(&secret, tree.path(project, &name)).unwrap();
        assert!(tree.read(project, &name).is_err());
        fs::remove_file(tree.path(project, &name)).unwrap();
        fs::write(tree.path(project, &name), [0xff]).unwrap();
        assert!(tree.read(project, &name).is_err(), "no text");
    }
}
