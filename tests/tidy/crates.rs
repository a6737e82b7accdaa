//! Which crate may know which: the strict DAG of ours, and the homes of the libraries.
//!
//! Cargo forbids a cycle and nothing more. An edge from `projections` to `actors` would build, and
//! the next reader would decide on a read model. Manifests are read line by line, so they must keep
//! the one form `name.workspace = true`; any other is a fault itself.

use super::{Tree, none, one};

/// One of our crates.
struct Member {
    name: &'static str,
    folder: &'static str,
    /// Ours that it may depend on.
    below: &'static [&'static str],
}

/// Ours, each after what it may depend on. All eight names exist on crates.io too.
const MEMBERS: [Member; 8] = [
    Member { name: "events", folder: "events", below: &[] },
    Member { name: "store", folder: "events/store", below: &["events"] },
    Member { name: "providers", folder: "actors/providers", below: &["events"] },
    Member { name: "tools", folder: "actors/tools", below: &["events"] },
    Member { name: "actors", folder: "actors", below: &["events", "store", "providers", "tools"] },
    Member { name: "projections", folder: "projections", below: &["events", "store"] },
    Member {
        name: "gateway",
        folder: "gateway",
        below: &["events", "store", "providers", "tools", "actors", "projections"],
    },
    Member {
        name: TESTS,
        folder: "tests",
        below: &["events", "store", "providers", "tools", "actors", "projections", "gateway"],
    },
];

/// The crate that sees everything, and may use any library.
const TESTS: &str = "tests";

/// Libraries that only these of ours may use. The others are free.
const HOMES: [(&str, &[&str]); 13] = [
    ("axum", &["gateway"]),
    ("clap", &["gateway"]),
    ("toml", &["gateway"]),
    ("tracing-subscriber", &["gateway"]),
    ("metrics-exporter-prometheus", &["gateway"]),
    ("ractor", &["actors"]),
    ("async-nats", &["store", "actors"]),
    ("rusqlite", &["store", "projections"]),
    ("jsonschema", &["tools"]),
    ("rmcp", &["tools", "gateway"]),
    // The command line is a client of the node.
    ("reqwest", &["providers", "tools", "gateway"]),
    // Seals what the vault keeps; TLS has its own way to it.
    ("ring", &["store"]),
    // What mints ids is at the edge.
    ("getrandom", &["actors", "gateway"]),
];

/// One line of a manifest under a heading: `key = value`.
struct Line<'a> {
    heading: &'a str,
    key: &'a str,
    value: &'a str,
}

/// The `key = value` lines of a manifest. A heading that itself names a dependency, as in
/// `[dependencies.axum]`, comes as a line of its own, with no value.
fn lines(manifest: &str) -> Vec<Line<'_>> {
    let mut heading = "";
    let mut lines = Vec::new();
    for line in manifest.lines().map(|line| line.split(" #").next().unwrap_or(line).trim()) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            heading = name.trim_matches(['[', ']']);
            if let Some((above, key)) = heading.rsplit_once('.')
                && above.ends_with("dependencies")
            {
                lines.push(Line { heading: above, key, value: "" });
            }
        } else if let Some((key, value)) = line.split_once('=')
            && !line.starts_with('#')
        {
            lines.push(Line { heading, key: key.trim().trim_matches('"'), value: value.trim() });
        }
    }
    lines
}

/// Faults of one member's manifest.
fn manifest(member: &Member, manifest: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let lines = lines(manifest);
    let says = |heading: &str, key: &str, value: &str| {
        lines.iter().any(|line| (line.heading, line.key, line.value) == (heading, key, value))
    };
    let Member { name, folder, below } = member;
    if !says("package", "name", &format!("\"{name}\"")) {
        faults.push(format!("{folder}/Cargo.toml is not the manifest of {name}"));
    }
    if *name != TESTS && !says("lints", "workspace", "true") {
        faults
            .push(format!("{name} does not keep the workspace's lints: [lints] workspace = true"));
    }
    for line in lines.iter().filter(|line| line.heading.ends_with("dependencies")) {
        let library = line.key.trim_end_matches(".workspace");
        if (line.key, line.value) != (&format!("{library}.workspace"), "true") {
            faults.push(format!("{name} does not say `{library}.workspace = true`"));
        }
        if MEMBERS.iter().any(|ours| ours.name == library) && !below.contains(&library) {
            faults.push(format!("{name} depends on {library}, which is not below it"));
        }
        let home = HOMES.iter().find(|(theirs, _)| *theirs == library);
        if let Some((_, homes)) = home
            && *name != TESTS
            && !homes.contains(name)
        {
            faults.push(format!("{name} uses {library}, which is kept to {}", homes.join(", ")));
        }
    }
    faults
}

/// Faults of the workspace's own manifest: who is a member, and where ours come from.
fn workspace(manifest: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let members = manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once(']'));
    let members = members.map_or("", |(members, _)| members);
    let mut folders: Vec<&str> = members.split('"').skip(1).step_by(2).collect();
    folders.sort_unstable();
    let mut ours = MEMBERS.map(|member| member.folder);
    ours.sort_unstable();
    if folders != ours {
        faults.push(format!("the members are {folders:?}, not {ours:?}"));
    }
    for line in lines(manifest) {
        if line.heading != "workspace.dependencies" {
            continue;
        }
        if line.value.contains("package =") {
            faults.push(format!("{} is another library renamed", line.key));
        }
        let ours = MEMBERS.iter().find(|member| member.name == line.key);
        if let Some(Member { name, folder, .. }) = ours
            && line.value != format!("{{ path = \"{folder}\" }}")
        {
            faults.push(format!("{name} does not come from {folder} alone: {}", line.value));
        }
    }
    faults
}

/// Faults of the lock file: one of ours that is taken from a registry, or stands there twice.
fn lock(lock: &str) -> Vec<String> {
    let packages: Vec<Vec<Line<'_>>> = lock.split("[[package]]").skip(1).map(lines).collect();
    let value = |package: &[Line<'_>], key: &str| {
        let line = package.iter().find(|line| line.key == key);
        line.map(|line| line.value.trim_matches('"').to_owned())
    };
    let mut faults = Vec::new();
    for Member { name, .. } in &MEMBERS {
        let named = |package: &&Vec<Line<'_>>| value(package, "name").as_deref() == Some(*name);
        let found: Vec<_> = packages.iter().filter(named).collect();
        if found.len() != 1 {
            faults.push(format!("{name} stands {} times in Cargo.lock", found.len()));
        }
        for source in found.iter().filter_map(|package| value(package, "source")) {
            faults.push(format!("{name} is taken from {source}; it is ours"));
        }
    }
    faults
}

/// Faults of the nested clippy files, which replace the root's and so must hold all of it.
fn clippy(tree: &Tree) -> Vec<String> {
    let settings = |path: &str| -> Vec<String> {
        let lines = tree.text(path).lines().map(str::trim);
        lines.filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    };
    let root = settings(".clippy.toml");
    let mut faults = Vec::new();
    if settings("events/store/.clippy.toml") != root {
        faults.push("events/store/.clippy.toml is not a copy of the root's".to_owned());
    }
    let events = settings("events/.clippy.toml");
    let lost = root.iter().filter(|line| !events.contains(line));
    faults.extend(lost.map(|line| format!("events/.clippy.toml lacks {line}")));
    faults
}

#[test]
fn the_crates_keep_to_the_dag_and_the_libraries_to_their_homes() {
    let tree = Tree::here();
    let of =
        |member: &Member| manifest(member, tree.text(&format!("{}/Cargo.toml", member.folder)));
    let mut faults: Vec<String> = MEMBERS.iter().flat_map(of).collect();
    faults.extend(workspace(tree.text("Cargo.toml")));
    faults.extend(lock(tree.text("Cargo.lock")));
    faults.extend(clippy(&tree));
    none(&faults);
}

#[test]
fn each_rule_of_a_manifest_sees_its_fault() {
    let projections = MEMBERS.iter().find(|member| member.name == "projections").unwrap();
    let with = |dependencies: &str| {
        let head = "[package]\nname = \"projections\"\n[lints]\nworkspace = true\n";
        manifest(projections, &format!("{head}{dependencies}"))
    };
    none(&with("[dependencies]\n# axum = \"1\"\nevents.workspace = true # below\n"));
    one(&with("[dependencies]\nactors.workspace = true\n"), "not below it");
    one(&with("[dev-dependencies]\ntests.workspace = true\n"), "not below it");
    one(&with("[dependencies]\naxum.workspace = true\n"), "kept to gateway");
    one(&with("[dependencies]\nserde = \"1\"\n"), "serde.workspace = true");
    one(&with("[dependencies]\nserde = { workspace = true }\n"), "serde.workspace = true");
    one(&with("[dependencies.serde]\nworkspace = true\n"), "serde.workspace = true");
    one(&with("[target.'cfg(unix)'.dependencies]\nractor.workspace = true\n"), "kept to actors");
    one(&manifest(projections, "[package]\nname = \"projections\"\n"), "lints");
    one(
        &manifest(projections, "[package]\nname = \"x\"\n[lints]\nworkspace = true\n"),
        "manifest of",
    );
}

#[test]
fn ours_are_taken_from_their_folders_only() {
    let root = |line: &str| {
        let folders = MEMBERS.map(|member| format!("\"{}\"", member.folder)).join(", ");
        workspace(&format!("members = [{folders}]\n[workspace.dependencies]\n{line}\n"))
    };
    none(&root("store = { path = \"events/store\" }"));
    one(&root("store = \"1\""), "does not come from events/store");
    one(&root("web = { version = \"0.8\", package = \"axum\" }"), "renamed");
    one(&workspace("members = [\"events\"]"), "the members are");

    let package = |name: &str| format!("[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\n");
    let ours = MEMBERS.map(|member| package(member.name)).concat();
    none(&lock(&ours));
    one(&lock(&format!("{ours}source = \"registry+x\"\n")), "tests is taken from registry+x");
    one(&lock(&format!("{ours}{}", package("events"))), "events stands 2 times");
}

#[test]
fn a_nested_clippy_file_holds_all_of_the_roots() {
    let tree = |store, events| {
        let root = (".clippy.toml", "# Root.\na = 1\nb = 2\n");
        Tree::of([root, ("events/store/.clippy.toml", store), ("events/.clippy.toml", events)])
    };
    none(&clippy(&tree("# Copy.\na = 1\nb = 2\n", "a = 1\nb = 2\nc = 3\n")));
    one(&clippy(&tree("a = 1\nb = 3\n", "a = 1\nb = 2\n")), "not a copy");
    one(&clippy(&tree("a = 1\nb = 2\n", "a = 1\n")), "lacks b = 2");
}
