//! The tools of a node, under the names that they had at its last start.

mod web;

pub use web::WebError;

use super::NOTES;
use crate::config::Config;
use crate::native::{self, Way};
use ::tools::name::NotNames;
use ::tools::{Names, Registry, RegistryError, Tool};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The record of names in the data folder.
pub const NAMES: &str = "tool-names.json";
/// Bytes of the record: a name and what it stands for have at most some hundred.
const NAMES_BYTES_MAX: u64 = 8 << 20;

/// The tools can not be taken in.
#[derive(Debug, thiserror::Error)]
pub enum ToolsError {
    /// Rename one, or mend the rule.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Mend the folder's rights.
    #[error("the record of tool names {} can not be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Put a copy of it back; without any, names may come to mean other tools.
    #[error("the record of tool names {} is damaged", path.display())]
    Names {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: NotNames,
    },
    /// Those that go out to the web.
    #[error(transparent)]
    Web(#[from] WebError),
}

/// Takes in the tools that come with the node and records what they are called; with them the way from those that ask the
/// node to it.
pub(super) fn open(config: &Config) -> Result<(Arc<Registry>, Way), ToolsError> {
    let way = Way::default();
    let mut tools = ::tools::native::tools(config.data_dir.join(NOTES));
    tools.extend(web::tools(&config.outbound)?);
    tools.extend(native::tools(&way));
    Ok((Arc::new(register(tools, config)?), way))
}

fn register(tools: Vec<Arc<dyn Tool>>, config: &Config) -> Result<Registry, ToolsError> {
    let path = config.data_dir.join(NAMES);
    let at = |source| ToolsError::File { path: path.clone(), source };
    let recorded = match text(&path).map_err(at)? {
        Some(text) => {
            Names::read(&text).map_err(|source| ToolsError::Names { path: path.clone(), source })?
        }
        None => Names::default(),
    };
    let registry = Registry::with(tools, config.tools.clone(), &recorded)?;
    if *registry.given() != recorded {
        write(&path, &registry.given().written()).map_err(at)?;
    }
    Ok(registry)
}

fn text(path: &Path) -> io::Result<Option<String>> {
    let found = std::fs::metadata(path).map(|file| file.len());
    match found {
        Ok(bytes) if bytes > NAMES_BYTES_MAX => {
            let words = format!("it has more than {NAMES_BYTES_MAX} bytes");
            Err(io::Error::new(ErrorKind::InvalidData, words))
        }
        Ok(_) => std::fs::read_to_string(path).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whole or not at all: a half-written record would keep the node from starting.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension("json.new");
    let mut file = std::fs::File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Flags, Sources, load};
    use ::tools::{Identity, native};

    fn config(folder: &Path) -> Config {
        let flags = Flags::default().with("data_dir", "--data-dir", folder.display().to_string());
        let environment = Environment::of([("HOME", folder.display().to_string())]);
        let sources =
            Sources { flags: &flags, environment: &environment, known: &[], here: folder };
        load(&sources).unwrap().config
    }

    #[test]
    fn names_are_recorded_in_the_data_folder_and_a_damaged_record_stops_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let (config, path) = (config(folder.path()), folder.path().join(NAMES));
        let start = || register(native::tools(folder.path().join(NOTES)), &config);
        start().unwrap();
        let first = std::fs::read_to_string(&path).unwrap();
        assert!(first.contains("note_append") && first.contains("search_tools"), "{first}");
        // What was called so before is still called so, though nothing here would name it like that.
        std::fs::write(&path, first.replace("\"note_append\"", "\"jot_down\"")).unwrap();
        let registry = start().unwrap();
        assert_eq!(registry.given().get(&Identity::native("note.append")), Some("jot_down"));
        assert!(registry.get("jot_down").is_some() && registry.get("note_append").is_none());
        std::fs::write(&path, first.replace("names", "nmaes")).unwrap();
        assert!(matches!(start(), Err(ToolsError::Names { .. })));
    }
}
