//! Provider credentials in one file of this machine, mode 0600: for a node with a journal of its own.
//!
//! A person may look into it and write to it: JSON, `credentials.<provider>.<profile>` with a `revision` and a `value`.
//! A change is written whole or not at all, under a lock, so that two processes lose none of each other's.

use super::{Kept, Name, Plain, Revision, VaultError};
use crate::private::{self, PrivateError, Readers};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes up to which credentials are added (768 KiB): what is left is for those that are there. A refreshed token may be
/// longer than the one before, and there is no second one to put in its place.
const ADDED_BYTES_MAX: u64 = private::BYTES_MAX / 4 * 3;
/// The form of the file.
const VERSION: u32 = 1;

/// A handle on the file; clone it freely. The file need not exist.
#[derive(Debug, Clone)]
pub struct CredentialFile(Arc<PathBuf>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    version: u32,
    /// Counts the changes of the file: no name's revision ever goes back.
    #[serde(default)]
    revision: u64,
    #[serde(default)]
    credentials: BTreeMap<String, BTreeMap<String, One>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    /// A person who adds one need not count.
    #[serde(default = "first")]
    revision: u64,
    value: Box<RawValue>,
}

const fn first() -> u64 {
    1
}

impl CredentialFile {
    /// The file at this path.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self(Arc::new(path.to_owned()))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn read(&self) -> Result<Whole, VaultError> {
        let Some(text) = private::read(&self.0, Readers::Owner)? else {
            return Ok(Whole { version: VERSION, revision: 0, credentials: BTreeMap::new() });
        };
        let text = Plain::new(text.into_bytes());
        let whole: Whole = serde_json::from_slice(text.expose()).map_err(|error| {
            // The library's own words may quote a value: only the place is told.
            let (line, column) = (error.line(), error.column());
            self.format(format!("no file of credentials: line {line}, column {column}"))
        })?;
        if whole.version != VERSION {
            return Err(
                self.format(format!("version {}, this build knows {VERSION}", whole.version))
            );
        }
        Ok(whole)
    }

    fn format(&self, why: String) -> VaultError {
        VaultError::Format { path: self.0.to_path_buf(), why }
    }

    /// Changes the file under its lock; refused when it would be longer.
    fn change<T>(
        &self,
        bytes_max: u64,
        change: impl FnOnce(&mut Whole) -> Result<Option<T>, VaultError>,
    ) -> Result<Option<T>, VaultError> {
        let failed =
            |source| PrivateError::Io { path: self.0.to_path_buf(), verb: "locked", source };
        if let Some(folder) = self.0.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            private::folder(folder)?;
        }
        let beside = self.0.with_extension("lock");
        let lock =
            File::options().create(true).append(true).mode(0o600).open(&beside).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut whole = self.read()?;
        let Some(done) = change(&mut whole)? else { return Ok(None) };
        let text = serde_json::to_string_pretty(&whole)
            .map_err(|_| self.format("can not be written as JSON".to_owned()))?;
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > bytes_max {
            return Err(self.format("is full: remove credentials first".to_owned()));
        }
        let text = Plain::new(text.into_bytes());
        private::write(&self.0, std::str::from_utf8(text.expose()).unwrap_or_default())?;
        Ok(Some(done))
    }

    /// The mark of a value beside the file, locked; `None` while another process has it.
    pub(super) fn alone(&self, name: &Name) -> Result<Option<File>, VaultError> {
        let failed =
            |source| PrivateError::Io { path: self.0.to_path_buf(), verb: "locked", source };
        let beside = self.0.with_extension(format!("{name}.lock"));
        let mark =
            File::options().create(true).append(true).mode(0o600).open(&beside).map_err(failed)?;
        match mark.try_lock() {
            Ok(()) => Ok(Some(mark)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(failed(source).into()),
        }
    }

    pub(super) fn get(&self, name: &Name) -> Result<Option<Kept>, VaultError> {
        let (provider, profile) = place(name)?;
        let mut whole = self.read()?;
        let profiles = whole.credentials.get_mut(provider);
        let Some(one) = profiles.and_then(|profiles| profiles.remove(profile)) else {
            return Ok(None);
        };
        let value = Plain::new(one.value.get().as_bytes().to_vec());
        Ok(Some(Kept { revision: Revision(one.revision), value }))
    }

    pub(super) fn put(
        &self,
        name: &Name,
        value: &Plain,
        expected: Revision,
    ) -> Result<Revision, VaultError> {
        let (provider, profile) = place(name)?;
        let json = std::str::from_utf8(value.expose()).ok();
        let json = json.and_then(|text| RawValue::from_string(text.to_owned()).ok());
        let json =
            json.ok_or_else(|| VaultError::NotHere { name: name.clone(), why: "it is no JSON" })?;
        let bytes_max =
            if expected == Revision::NONE { ADDED_BYTES_MAX } else { private::BYTES_MAX };
        let written = self.change(bytes_max, |whole| {
            let profiles = whole.credentials.entry(provider.to_owned()).or_default();
            let found = profiles.get(profile).map_or(0, |one| one.revision);
            if found != expected.0 {
                let (name, found) = (name.clone(), Revision(found));
                return Err(VaultError::Conflict { name, expected, found });
            }
            let revision = whole.revision.max(found).saturating_add(1);
            profiles.insert(profile.to_owned(), One { revision, value: json });
            whole.revision = revision;
            Ok(Some(Revision(revision)))
        })?;
        Ok(written.unwrap_or(expected))
    }

    pub(super) fn remove(&self, name: &Name) -> Result<(), VaultError> {
        let (provider, profile) = place(name)?;
        self.change(private::BYTES_MAX, |whole| {
            let Some(profiles) = whole.credentials.get_mut(provider) else { return Ok(None) };
            let Some(gone) = profiles.remove(profile) else { return Ok(None) };
            if profiles.is_empty() {
                whole.credentials.remove(provider);
            }
            whole.revision = whole.revision.max(gone.revision);
            Ok(Some(()))
        })?;
        Ok(())
    }

    pub(super) fn names(&self) -> Result<Vec<Name>, VaultError> {
        let whole = self.read()?;
        let mut names = Vec::new();
        for (provider, profiles) in &whole.credentials {
            for profile in profiles.keys() {
                let name = Name::of_credential(provider, profile);
                names.push(name.map_err(|error| self.format(error.to_string()))?);
            }
        }
        Ok(names)
    }
}

fn place(name: &Name) -> Result<(&str, &str), VaultError> {
    let why = "the file holds provider credentials only";
    name.credential().ok_or_else(|| VaultError::NotHere { name: name.clone(), why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn name(profile: &str) -> Name {
        Name::of_credential("openai", profile).unwrap()
    }

    fn value(text: &str) -> Plain {
        Plain::new(format!("{{\"key\":{text:?}}}").into_bytes())
    }

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_value_is_changed_where_its_revision_stands_and_never_goes_back() {
        let home = tempfile::tempdir().unwrap();
        let file = CredentialFile::at(&home.path().join("a/credentials.json"));
        assert_eq!(file.get(&name("main")).unwrap(), None);
        let first = file.put(&name("main"), &value("one"), Revision::NONE).unwrap();
        let lost = file.put(&name("main"), &value("two"), Revision::NONE).unwrap_err();
        assert!(matches!(lost, VaultError::Conflict { found, .. } if found == first));
        let second = file.put(&name("main"), &value("two"), first).unwrap();
        assert!(second > first);
        let kept = file.get(&name("main")).unwrap().unwrap();
        assert_eq!((kept.revision, kept.value), (second, value("two")));
        file.put(&name("spare"), &value("x"), Revision::NONE).unwrap();
        assert_eq!(file.names().unwrap(), [name("main"), name("spare")]);
        file.remove(&name("main")).unwrap();
        file.remove(&name("main")).unwrap();
        assert_eq!(file.names().unwrap(), [name("spare")]);
        let again = file.put(&name("main"), &value("three"), Revision::NONE).unwrap();
        assert!(again > second);
    }

    #[test]
    fn the_mode_is_kept_also_under_a_parent_that_a_group_may_read() {
        let home = tempfile::tempdir().unwrap();
        mode(home.path(), 0o750);
        let path = home.path().join("credentials.json");
        let file = CredentialFile::at(&path);
        file.put(&name("main"), &value("one"), Revision::NONE).unwrap();
        let found = std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(found, 0o600);
        for wide in [0o640, 0o604, 0o660] {
            mode(&path, wide);
            let said = file.get(&name("main")).unwrap_err().to_string();
            assert!(said.contains("chmod 600") && !said.contains("one"), "{said}");
            assert!(file.put(&name("b"), &value("x"), Revision::NONE).is_err());
        }
    }

    #[test]
    fn a_full_file_takes_no_new_credential_and_a_longer_token_for_one_that_is_there() {
        let home = tempfile::tempdir().unwrap();
        let file = CredentialFile::at(&home.path().join("credentials.json"));
        let of = |bytes: usize| value(&"x".repeat(bytes));
        let mut kept = vec![];
        let full = loop {
            let name = name(&format!("p{}", kept.len()));
            match file.put(&name, &of(15_000), Revision::NONE) {
                Ok(revision) => kept.push((name, revision)),
                Err(full) => break full.to_string(),
            }
        };
        assert!(full.contains("is full") && kept.len() > 48, "{} fit: {full}", kept.len());
        for (name, revision) in kept {
            file.put(&name, &of(16_000), revision).unwrap();
        }
    }

    #[test]
    fn one_value_is_one_process_to_be_at_and_others_are_free() {
        let home = tempfile::tempdir().unwrap();
        let file = CredentialFile::at(&home.path().join("credentials.json"));
        let other = CredentialFile::at(file.path());
        let held = file.alone(&name("main")).unwrap();
        assert!(held.is_some() && other.alone(&name("main")).unwrap().is_none());
        assert!(other.alone(&name("spare")).unwrap().is_some());
        other.put(&name("main"), &value("one"), Revision::NONE).unwrap();
        drop(held);
        assert!(other.alone(&name("main")).unwrap().is_some());
        assert_eq!(file.names().unwrap(), [name("main")], "marks are no credentials");
    }

    #[test]
    fn a_broken_file_is_named_by_its_place_and_shows_no_value() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("credentials.json");
        let file = CredentialFile::at(&path);
        for broken in [
            r#"{"version":1,"credentials":{"openai":{"main":"sk-planted"}}}"#,
            r#"{"version":2}"#,
            r#"{"version":1,"sk-planted":1}"#,
        ] {
            private::write(&path, broken).unwrap();
            let said = format!("{:?}", file.names().unwrap_err());
            assert!(!said.contains("planted"), "{said}");
        }
        let by_hand = r#"{"version":1,"credentials":{"openai":{"main":{"value":{"key":"k"}}}}}"#;
        private::write(&path, by_hand).unwrap();
        assert_eq!(file.get(&name("main")).unwrap().unwrap().revision, Revision(1));
        assert!(file.put(&name("main"), &value("two"), Revision(1)).unwrap() > Revision(1));
        assert!(file.get(&"anchor".parse().unwrap()).is_err());
    }
}
