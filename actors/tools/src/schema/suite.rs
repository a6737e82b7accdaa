//! The official JSON Schema test suite of draft 7, 2019-09 and 2020-12 through our wrapper.
//!
//! It is the one in the source archive of the Python package `jsonschema`, pinned in `.ci/json-schema-suite.txt` and put
//! under `.cache` by `.ci/need.sh`. What differs from it is listed below, each with its reason, and a difference that
//! went away fails as one that came does.

use super::{Schema, SchemaError};
use events::json::Json;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where `.ci/need.sh` puts the suite, below the workspace.
const SUITE: &str = ".cache/json-schema-suite/jsonschema-4.25.1/json/tests";
/// Folder, dialect, and the least number of tests that it has.
const DRAFTS: [(&str, &str, usize); 3] = [
    ("draft7", "http://json-schema.org/draft-07/schema#", 1_400),
    ("draft2019-09", "https://json-schema.org/draft/2019-09/schema", 1_800),
    ("draft2020-12", "https://json-schema.org/draft/2020-12/schema", 1_850),
];

#[derive(Deserialize)]
struct Group {
    description: String,
    schema: Value,
    tests: Vec<Test>,
}

#[derive(Deserialize)]
struct Test {
    description: String,
    data: Value,
    valid: bool,
}

/// Why a test does not come out as the suite says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// It refers to a document on the suite's own server, and nothing is fetched: the whole schema is refused.
    Remote,
    /// `format` is a remark and no rule unless a dialect says otherwise, as these two say themselves.
    Remark,
    /// The names of machines and mailboxes in other scripts are not checked: that needs tables of all scripts.
    Script,
}

/// What differs, and how often.
const EXCEPTIONS: [(&str, Reason, usize); 6] = [
    ("draft2019-09", Reason::Remote, 39),
    ("draft2019-09", Reason::Remark, 201),
    ("draft2020-12", Reason::Remote, 54),
    ("draft2020-12", Reason::Remark, 204),
    ("draft7", Reason::Remote, 25),
    ("draft7", Reason::Script, 36),
];

/// The reason why a test of a file did not come out as it says; none where there is none.
fn reason(
    (draft, file): (&str, &str),
    test: &Test,
    said: &Result<bool, SchemaError>,
) -> Option<Reason> {
    match said {
        Err(SchemaError::NotASchema(words)) if words.contains("http://localhost:1234/") => {
            Some(Reason::Remote)
        }
        Ok(true) if !test.valid && file.contains("/optional/format/") => match draft {
            "draft7" => file.contains("/idn-").then_some(Reason::Script),
            _ => Some(Reason::Remark),
        },
        Ok(_) | Err(_) => None,
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let list = std::fs::read_dir(folder).unwrap_or_else(|error| {
        panic!(
            "{}: {error}: the JSON Schema test suite is missing; `.ci/run` puts it there, or by hand: . .ci/need.sh && need_json_schema_suite",
            folder.display()
        )
    });
    for entry in list {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|end| end == "json") {
            found.push(path);
        }
    }
}

/// The schema with its dialect named, as a server would send it.
fn dialect(schema: &Value, dialect: &str) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.entry("$schema").or_insert_with(|| json!(dialect));
    }
    schema
}

/// What the wrapper says: valid or not, or why there is no answer.
fn judged(schema: &Value, data: &Value) -> Result<bool, SchemaError> {
    let compiled = Schema::compile(&Json::from(schema.to_string()))?;
    Ok(compiled.check(data).is_ok())
}

#[test]
fn the_official_suite_of_three_drafts_passes_but_for_what_is_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(SUITE);
    let mut excepted: BTreeMap<(&str, Reason), usize> = BTreeMap::new();
    let mut wrong = vec![];
    for (draft, uri, least) in DRAFTS {
        let (mut paths, mut count) = (vec![], 0);
        files(&root.join(draft), &mut paths);
        paths.sort();
        for path in paths {
            let file = path.strip_prefix(&root).unwrap().display().to_string();
            let groups: Vec<Group> =
                serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            for Group { description, schema, tests } in groups {
                let schema = dialect(&schema, uri);
                count += tests.len();
                for test in tests {
                    let said = judged(&schema, &test.data);
                    match reason((draft, &file), &test, &said) {
                        _ if said == Ok(test.valid) => {}
                        Some(reason) => *excepted.entry((draft, reason)).or_default() += 1,
                        None => wrong
                            .push(format!("{file}: {description}: {}: {said:?}", test.description)),
                    }
                }
            }
        }
        assert!(count >= least, "{draft} has {count} tests, so this is not the suite");
    }
    assert_eq!(wrong, [] as [String; 0]);
    let listed = EXCEPTIONS.into_iter().map(|(draft, reason, count)| ((draft, reason), count));
    assert_eq!(excepted, listed.collect());
}
