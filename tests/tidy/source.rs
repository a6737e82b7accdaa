//! What every Rust file keeps to: it says what it is for, stops growing in time, and dodges nothing.

use super::{Tree, none, one};

/// Lines a file may have above its tests. Beyond that a reader loses the thread; split by concept.
const LINES_MAX: usize = 500;

/// Names that say nothing. What can not be named has not been found.
const VAGUE: [&str; 7] = ["util", "utils", "helpers", "common", "misc", "types", "manager"];

/// Text that leaves work or a test out.
const DODGES: [&str; 4] = ["#[ignore", "#[should_panic", "todo!(", "unimplemented!("];

fn faults(tree: &Tree) -> Vec<String> {
    tree.rust().flat_map(|(path, text)| faults_of(path, text)).collect()
}

fn faults_of(path: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if !text.starts_with("//!") {
        faults.push(format!("{path} does not open with //!, which says what it is for"));
    }
    let lines = lines_above_tests(text);
    if lines > LINES_MAX {
        faults.push(format!("{path} has {lines} lines above its tests; {LINES_MAX} is the most"));
    }
    for part in path.split('/').map(|part| part.trim_end_matches(".rs")) {
        if VAGUE.contains(&part) {
            faults.push(format!("{path}: {part} says nothing; name the concept"));
        }
    }
    if path.ends_with("/mod.rs") {
        faults.push(format!("{path}: children of foo.rs live in foo/, without a mod.rs"));
    }
    // This module spells the dodges in order to find them.
    let spells = path == "tests/tidy.rs" || path.starts_with("tests/tidy/");
    for dodge in DODGES.iter().filter(|dodge| !spells && text.contains(**dodge)) {
        faults.push(format!("{path} has {dodge}: do it, or take it out"));
    }
    faults
}

/// Counts up to the module of tests. A lone `#[cfg(test)]` before something else ends nothing, or
/// one test-only import at the top would free a file of its limit.
fn lines_above_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let opens_tests = |at: &usize| {
        let after = lines[at + 1..].iter().find(|line| !line.starts_with(['#', ' ', ')', ']']));
        lines[*at].starts_with("#[cfg(test)]") && after.is_some_and(|line| line.starts_with("mod "))
    };
    (0..lines.len()).find(opens_tests).unwrap_or(lines.len())
}

#[test]
fn every_rust_file_keeps_the_rules() {
    none(&faults(&Tree::here()));
}

#[test]
fn each_rule_of_a_file_sees_its_fault() {
    let long = format!("//! Long.\n{}", "fn a() {}\n".repeat(LINES_MAX));
    none(&faults(&Tree::of([("events/src/budget.rs", "//! Budgets.\n")])));
    one(&faults(&Tree::of([("events/src/budget.rs", "// Budgets.\n")])), "does not open");
    one(&faults(&Tree::of([("events/src/budget.rs", &long)])), "501 lines");
    one(&faults(&Tree::of([("events/src/utils.rs", "//! Bits.\n")])), "says nothing");
    one(&faults(&Tree::of([("events/src/common/id.rs", "//! Bits.\n")])), "says nothing");
    one(&faults(&Tree::of([("events/src/run/mod.rs", "//! Runs.\n")])), "without a mod.rs");
    for dodge in DODGES {
        one(&faults(&Tree::of([("a/src/b.rs", &format!("//! B.\n{dodge}"))])), dodge);
    }
}

#[test]
fn lines_are_counted_up_to_the_module_of_tests() {
    assert_eq!(lines_above_tests("//! A.\nfn a() {}\n"), 2);
    assert_eq!(lines_above_tests("//! A.\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n"), 3);
    assert_eq!(lines_above_tests("//! A.\n#[cfg(test)]\n#[expect(\n    x\n)]\nmod tests;\n"), 1);
    assert_eq!(lines_above_tests("//! A.\n#[cfg(test)]\nuse b::c;\nfn a() {}\n"), 4);
}
