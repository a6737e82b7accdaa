//! Rules about the repository itself, which no compiler checks.
//!
//! They guard against a slow slide: a file that grows without end, a crate that reaches upwards, a
//! promise whose proof was renamed away. Each rule is a pure function of a [`Tree`], so that a test
//! can hand it a broken one and see it speak; only [`Tree::here`] reads the disk, nothing runs.

mod alerts;
mod crates;
mod source;
mod tables;

use std::collections::BTreeMap;
use std::path::Path;

/// Entries of the top level that git does not track.
const UNTRACKED: [&str; 3] = [".git", ".cache", "target"];

/// The top level: what every Rust repository has, and the system. Dot-files may stand beside it.
const TOP: [&str; 11] = [
    "Cargo.toml",
    "Cargo.lock",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "events",
    "actors",
    "projections",
    "gateway",
    "tests",
    "deploy",
];

/// The files that git tracks or would track, by their path from the root.
struct Tree {
    /// Path with `/` between its parts, and the text; bytes that are not UTF-8 are replaced.
    files: BTreeMap<String, String>,
}

impl Tree {
    /// The repository this test was built from.
    fn here() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut files = BTreeMap::new();
        for entry in entries(&root) {
            if !UNTRACKED.contains(&entry.as_str()) {
                read(&root, entry, &mut files);
            }
        }
        Self { files }
    }

    /// A tree of these files only, for showing that a rule can fail.
    fn of<const N: usize>(files: [(&str, &str); N]) -> Self {
        let files = files.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned()));
        Self { files: files.collect() }
    }

    fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        all.filter(|(path, _)| path.ends_with(".rs"))
    }

    fn text(&self, path: &str) -> &str {
        self.files.get(path).unwrap_or_else(|| panic!("{path} is missing"))
    }

    /// Whether a file or a folder of this name is tracked.
    fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files.keys().any(|file| file == path || file.starts_with(&folder))
    }
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// Reads a file, or a folder to its end. Links are not followed; logs are not tracked.
fn read(root: &Path, path: String, files: &mut BTreeMap<String, String>) {
    let place = root.join(&path);
    // A file may go away between the listing and the look: another test's, or an editor's.
    let Ok(found) = place.symlink_metadata() else { return };
    if found.is_dir() {
        for entry in entries(&place) {
            read(root, format!("{path}/{entry}"), files);
        }
    } else if found.is_file() && !path.ends_with(".log") {
        let Ok(bytes) = std::fs::read(&place) else { return };
        files.insert(path, String::from_utf8_lossy(&bytes).into_owned());
    }
}

/// The top level is fixed: nothing beside it, nothing of it missing.
fn top_level(tree: &Tree) -> Vec<String> {
    let first = tree.files.keys().map(|path| path.split('/').next().unwrap_or(path));
    let present: std::collections::BTreeSet<&str> = first.collect();
    let beside = present.iter().filter(|name| !name.starts_with('.') && !TOP.contains(name));
    let missing = TOP.iter().filter(|name| !present.contains(*name));
    let beside =
        beside.map(|name| format!("{name} stands at the top level; it belongs in a folder"));
    beside.chain(missing.map(|name| format!("{name} is missing at the top level"))).collect()
}

/// Fails with every fault at once, a line each.
#[track_caller]
fn none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// Fails unless the rule finds exactly one fault and its text holds `about`.
#[track_caller]
fn one(faults: &[String], about: &str) {
    assert!(
        matches!(faults, [only] if only.contains(about)),
        "not one about {about:?}: {faults:?}"
    );
}

#[test]
fn the_top_level_is_fixed() {
    none(&top_level(&Tree::here()));
}

#[test]
fn the_top_level_rule_sees_what_is_beside_and_what_is_missing() {
    let with = |name: &str| {
        let mut tree = Tree { files: TOP.map(|name| (format!("{name}/x"), String::new())).into() };
        tree.files.insert(name.to_owned(), String::new());
        tree
    };
    none(&top_level(&with(".justfile")));
    one(&top_level(&with("src/main.rs")), "src");
    let mut tree = with(".justfile");
    tree.files.remove("deploy/x");
    one(&top_level(&tree), "deploy");
}
