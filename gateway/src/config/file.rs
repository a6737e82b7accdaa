//! The configuration file: which one is read, and what stands in it, line by line.
//!
//! A key is kept with its line, so that a fault can be named where it stands. Values are not judged here.

use super::Origin;
use super::merge::{Given, Problem};
use super::rule::Raw;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// Its name in a folder.
pub const NAME: &str = "piton.toml";

/// Bytes of the largest file that is read (1 MiB): a hundred times a full one, and small beside what it configures.
const BYTES_MAX: u64 = 1 << 20;

/// Where to look.
pub(crate) enum Choice {
    /// This file and no other; it is a fault when it is missing.
    Named(PathBuf, Origin),
    /// The first of these that exists, if any.
    First(Vec<PathBuf>),
}

/// A file and every key in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Which file; none when there is none.
    pub(crate) path: Option<PathBuf>,
    /// Its keys by dotted name.
    pub(crate) keys: BTreeMap<String, Given>,
}

/// Reads the chosen file. Nothing is found when no file was named and none exists.
///
/// # Errors
///
/// The file was named and is missing, or can not be read, or is no TOML.
pub(crate) fn read(choice: &Choice) -> Result<Found, Problem> {
    let paths = match choice {
        Choice::Named(path, _) => std::slice::from_ref(path),
        Choice::First(paths) => paths.as_slice(),
    };
    for path in paths {
        if let Some(text) = text(path)? {
            return Ok(Found { path: Some(path.clone()), keys: parse(&text, path)? });
        }
    }
    match choice {
        Choice::Named(path, from) => {
            Err(Problem::NoFile { path: path.clone(), from: from.clone() })
        }
        Choice::First(_) => Ok(Found::default()),
    }
}

/// The file's text; none when there is no such file.
fn text(path: &Path) -> Result<Option<String>, Problem> {
    let unreadable = |why: String| Problem::Unreadable { path: path.to_owned(), why };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let mut text = String::new();
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
    let bytes = read.map_err(|error| unreadable(error.to_string()))?;
    if u64::try_from(bytes).unwrap_or(u64::MAX) > BYTES_MAX {
        return Err(unreadable(format!("it has more than {BYTES_MAX} bytes")));
    }
    Ok(Some(text))
}

/// Every key of a file by its dotted name. A table without keys stands for itself, so that its name is checked too.
///
/// # Errors
///
/// The text is no TOML; the problem has the line.
pub(crate) fn parse(text: &str, path: &Path) -> Result<BTreeMap<String, Given>, Problem> {
    let line = |offset: usize| 1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
    let table = DeTable::parse(text).map_err(|error| Problem::NotToml {
        path: path.to_owned(),
        line: error.span().map_or(1, |span| line(span.start)),
        why: error.message().lines().next().unwrap_or("it is no TOML").to_owned(),
    })?;
    let mut found = BTreeMap::new();
    let mut open: Vec<(String, &DeTable<'_>)> = vec![(String::new(), table.get_ref())];
    while let Some((above, table)) = open.pop() {
        for (name, value) in table {
            let key = format!("{above}{}", segment(name.get_ref()));
            let raw = match value.get_ref() {
                DeValue::Table(table) if table.is_empty() => Raw::EmptyTable,
                DeValue::Table(table) => {
                    open.push((format!("{key}."), table));
                    continue;
                }
                DeValue::String(text) => Raw::Text(text.to_string()),
                DeValue::Integer(integer) => decimal(integer.as_str(), integer.radix()),
                DeValue::Boolean(on) => Raw::Switch(*on),
                DeValue::Float(_) => Raw::Other("a number with a fraction"),
                DeValue::Datetime(_) => Raw::Other("a date or time"),
                DeValue::Array(values) => match tables(values) {
                    Some(tables) => {
                        for (nth, table) in tables.into_iter().enumerate() {
                            let key = format!("{key}.{nth}");
                            if table.is_empty() {
                                let line = line(name.span().start);
                                let origin = Origin::File { path: path.to_owned(), line };
                                found.insert(key, Given { raw: Raw::EmptyTable, origin });
                            } else {
                                open.push((format!("{key}."), table));
                            }
                        }
                        continue;
                    }
                    None => list(values),
                },
            };
            let origin = Origin::File { path: path.to_owned(), line: line(name.span().start) };
            found.insert(key, Given { raw, origin });
        }
    }
    Ok(found)
}

/// The tables of a list that holds nothing else (`[[name]]`), which are numbered from 0.
fn tables<'t, 'a>(values: &'t DeArray<'a>) -> Option<Vec<&'t DeTable<'a>>> {
    let table = |value: &'t Spanned<DeValue<'a>>| match value.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => None,
    };
    values.iter().map(table).collect::<Option<Vec<_>>>().filter(|tables| !tables.is_empty())
}

fn list(values: &DeArray<'_>) -> Raw {
    let text = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        _ => None,
    };
    values
        .iter()
        .map(text)
        .collect::<Option<_>>()
        .map_or(Raw::Other("a list of other than strings"), Raw::List)
}

/// A part of a dotted name, quoted where TOML wants quotes, so that `"a.b"` is not taken for `a.b`.
pub(crate) fn segment(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { format!("{name:?}") }
}

fn decimal(digits: &str, radix: u32) -> Raw {
    match i128::from_str_radix(digits, radix) {
        Ok(number) => Raw::Integer(number.to_string()),
        Err(_) => Raw::Other("a number that is too large"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<(String, String, usize)> {
        let found = parse(text, Path::new("piton.toml")).unwrap();
        let line = |origin: &Origin| match origin {
            Origin::File { line, .. } => *line,
            Origin::Default | Origin::Table(_) | Origin::Environment(_) | Origin::Flag(_) => 0,
        };
        found
            .into_iter()
            .map(|(key, given)| (key, given.raw.to_string(), line(&given.origin)))
            .collect()
    }

    #[test]
    fn each_key_has_its_name_its_value_and_its_line() {
        let text = "bind = \"a\"\n# no\n[limits]\nmax = 0x1_0\non = true\n\n[log]\n\"a.b\" = 1.5\n[providers.x]\n[[hooks]]\nurl = \"u\"\n[[hooks]]\nurl = \"v\"\n";
        let expected = [
            ("bind", "\"a\"", 1),
            ("hooks.0.url", "\"u\"", 11),
            ("hooks.1.url", "\"v\"", 13),
            ("limits.max", "16", 4),
            ("limits.on", "true", 5),
            ("log.\"a.b\"", "a number with a fraction", 8),
            ("providers.x", "a table", 9),
        ];
        assert_eq!(keys(text), expected.map(|(k, v, l)| (k.to_owned(), v.to_owned(), l)));
    }

    #[test]
    fn a_fault_of_the_syntax_has_its_line_and_not_the_text() {
        let problem = parse("bind = \"a\"\nkey = sk-planted\n", Path::new("p.toml")).unwrap_err();
        let said = problem.to_string();
        assert!(said.starts_with("p.toml:2: "), "{said}");
        assert!(!said.contains("planted"), "{said}");
    }

    #[test]
    fn a_file_that_was_named_must_exist_and_one_that_was_not_need_not() {
        let folder = tempfile::tempdir().unwrap();
        let [gone, there] = ["gone.toml", "there.toml"].map(|name| folder.path().join(name));
        std::fs::write(&there, "bind = \"x\"\n").unwrap();
        let first = read(&Choice::First(vec![gone.clone(), there.clone()])).unwrap();
        assert_eq!(first.path, Some(there));
        assert_eq!(read(&Choice::First(vec![gone.clone()])).unwrap(), Found::default());
        let named = Choice::Named(gone, Origin::Flag("--config"));
        assert!(read(&named).unwrap_err().to_string().contains("flag --config"));
    }

    #[test]
    fn a_file_beyond_the_limit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        std::fs::write(&path, vec![b'#'; usize::try_from(BYTES_MAX).unwrap() + 1]).unwrap();
        let problem = read(&Choice::First(vec![path])).unwrap_err();
        assert!(problem.to_string().contains("more than 1048576 bytes"), "{problem}");
    }
}
