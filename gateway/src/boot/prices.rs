//! Which table of prices a node works with: the one in its folder, else the shipped one.

use providers::pricing::{NotPrices, Prices};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Its name in the data folder.
pub const FILE: &str = "prices.json";
/// Bytes of the largest table that is read: a hundred times the shipped one.
const BYTES_MAX: u64 = 4 << 20;

/// A table of prices can not be used.
#[derive(Debug, thiserror::Error)]
pub enum PricesError {
    /// The file.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is too large to be one.
    #[error("{}: a table of prices has at most {BYTES_MAX} bytes", .0.display())]
    TooLarge(PathBuf),
    /// What stands in it.
    #[error("{}: {source}", path.display())]
    Table {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: NotPrices,
    },
}

/// The text of a file that may be a table.
///
/// # Errors
///
/// [`PricesError`] for a file that can not be read or is too large.
pub fn text_of(path: &Path) -> Result<String, PricesError> {
    let failed = |source| PricesError::File { path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(failed)?.len() > BYTES_MAX {
        return Err(PricesError::TooLarge(path.to_owned()));
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// The table of a file.
///
/// # Errors
///
/// [`PricesError`], which names the file and what is wrong.
pub fn of_file(path: &Path) -> Result<Prices, PricesError> {
    let text = text_of(path)?;
    Prices::read(&text).map_err(|source| PricesError::Table { path: path.to_owned(), source })
}

/// The table of a data folder, or the shipped one where it has none.
///
/// # Errors
///
/// Those of [`of_file`]: a table that somebody put there and that does not read is not passed over.
pub fn read(data: &Path) -> Result<Prices, PricesError> {
    match of_file(&data.join(FILE)) {
        Err(PricesError::File { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Ok(Prices::shipped())
        }
        found => found,
    }
}
