//! The tables of promises and of reports from the field, each row with what shows it.
//!
//! A promise without proof is `open`. A proof that was renamed or deleted would leave the table
//! claiming what nobody checks, so every test and command named here must exist.

use std::collections::BTreeSet;

use super::{Tree, none, one};

/// Faults of a table: its header, its columns, rows that repeat a key, proofs that do not exist.
fn faults(tree: &Tree, path: &str, header: [&str; 4]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut lines = tree.text(path).lines();
    if lines.next() != Some(&header.join("\t")) {
        faults.push(format!("{path} does not open with the header {header:?}"));
    }
    let mut keys = BTreeSet::new();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let &[source, number, what, shown_by] = columns.as_slice() else {
            faults.push(format!("{path}: not four columns: {line}"));
            continue;
        };
        if columns.iter().any(|column| column.is_empty() || column.trim() != *column) {
            faults.push(format!("{path}: a column is empty or padded: {line}"));
        }
        if !keys.insert((source, number)) {
            faults.push(format!("{path}: {source} {number} stands twice"));
        }
        let proof = proof(tree, shown_by).err();
        faults.extend(proof.map(|why| format!("{path}: {source} {number} ({what}): {why}")));
    }
    faults
}

/// `open`, or proofs with `; ` between them.
fn proof(tree: &Tree, shown_by: &str) -> Result<(), String> {
    if shown_by == "open" {
        return Ok(());
    }
    for proof in shown_by.split("; ") {
        match proof.split_once(':') {
            Some(("test", name)) => test(tree, name)?,
            Some(("cmd", command)) => cmd(tree, command)?,
            _ => return Err(format!("{proof:?} is not open, test:NAME or cmd:COMMAND")),
        }
    }
    Ok(())
}

/// The name of a function that some Rust file defines.
fn test(tree: &Tree, name: &str) -> Result<(), String> {
    let opening = format!("fn {name}(");
    let known = !name.is_empty() && tree.rust().any(|(_, text)| text.contains(&opening));
    if known { Ok(()) } else { Err(format!("no file has `{opening}`")) }
}

/// A command whose first path is tracked; without a path, a recipe of just or a call of cargo.
fn cmd(tree: &Tree, command: &str) -> Result<(), String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let path = words.iter().find(|word| word.contains('/') && word.chars().all(plain));
    match (path, words.as_slice()) {
        (Some(path), _) if tree.has(path.trim_start_matches("./")) => Ok(()),
        (Some(path), _) => Err(format!("{path} is not in the tree")),
        (None, ["just", recipe, ..]) => {
            let opens = |line: &str| {
                line.strip_prefix(recipe).is_some_and(|rest| rest.starts_with([':', ' ']))
            };
            let known = tree.text(".justfile").lines().any(opens);
            if known { Ok(()) } else { Err(format!("just has no recipe {recipe}")) }
        }
        (None, ["cargo", _, ..]) => Ok(()),
        (None, _) => Err(format!("{command:?} names no path, recipe of just or call of cargo")),
    }
}

/// A promise's place: an issue's number, then `3`, `3a` or, under *Shown by*, `S1`, `S1a`.
fn places(tree: &Tree) -> Vec<String> {
    let number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let place = |text: &str| {
        let text = text.strip_prefix('S').unwrap_or(text);
        number(text.strip_suffix(|c: char| c.is_ascii_lowercase()).unwrap_or(text))
    };
    let rows = tree.text("tests/promises.tsv").lines().skip(1).filter(|row| !row.starts_with('#'));
    let wrong = rows.filter(|row| {
        let mut columns = row.split('\t');
        !columns.next().is_some_and(number) || !columns.next().is_some_and(place)
    });
    wrong.map(|row| format!("not an issue and a numbered promise: {row}")).collect()
}

const PROMISES: [&str; 4] = ["issue", "number", "promise", "shown by"];
const REPORTS: [&str; 4] = ["source", "case", "report", "shown by"];

#[test]
fn every_promise_is_open_or_shown_by_what_exists() {
    let tree = Tree::here();
    none(&faults(&tree, "tests/promises.tsv", PROMISES));
    none(&places(&tree));
}

#[test]
fn every_report_is_open_or_shown_by_what_exists() {
    none(&faults(&Tree::here(), "tests/reports.tsv", REPORTS));
}

#[test]
fn each_rule_of_a_table_sees_its_fault() {
    let tree = |rows: &str| {
        Tree::of([
            ("tests/promises.tsv", &format!("issue\tnumber\tpromise\tshown by\n{rows}")),
            ("tests/kill_loop.rs", "fn nothing_acknowledged_is_lost() {}"),
            (".ci/extended", ""),
            (".justfile", "list:\nreplay run:\n"),
        ])
    };
    let of = |rows: &str| faults(&tree(rows), "tests/promises.tsv", PROMISES);
    let shown_by = |proof: &str| of(&format!("2\t3a\tNothing is lost\t{proof}\n"));
    none(&shown_by("open"));
    none(&shown_by("test:nothing_acknowledged_is_lost; cmd:.ci/extended kill; cmd:just replay R"));
    none(&shown_by("cmd:./.ci/extended kill; cmd:cargo bench -p tests"));
    one(&shown_by("done"), "is not open");
    one(&shown_by("open; open"), "is not open");
    one(&shown_by("test:nothing"), "fn nothing(");
    one(&shown_by("cmd:tests/gone.sh"), "tests/gone.sh is not in the tree");
    one(&shown_by("cmd:just rep"), "no recipe rep");
    one(&shown_by("cmd:piton run ls"), "names no path");
    one(&of("2\t3a\topen\n"), "not four columns");
    one(&of("2\t3a\t\topen\n"), "empty or padded");
    one(&of("2\t3a\tA\topen\n2\t3a\tB\topen\n"), "stands twice");
    one(&faults(&tree(""), "tests/promises.tsv", REPORTS), "header");
    none(&places(&tree("2\t3\tA\topen\n2\t10b\tA\topen\n2\tS1\tA\topen\n2\tS1c\tA\topen\n")));
    one(&places(&tree("two\t3\tA\topen\n")), "numbered promise");
    one(&places(&tree("2\tb3\tA\topen\n")), "numbered promise");
}
