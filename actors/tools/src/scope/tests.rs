//! Scopes over a registry of several origins.

use super::*;
use crate::name::Names;
use crate::settings::{Kept, OfOrigin, Overlay};
use crate::tool::{Call, ReplayClass, Tool, Working};
use events::json::Json;
use events::run::choose::choose;
use std::sync::Arc;

#[derive(Debug)]
struct Named {
    origin: Origin,
    name: String,
    parameters: Json,
}

impl Tool for Named {
    fn name(&self) -> &str {
        &self.name
    }
    fn description(&self) -> &'static str {
        "does something"
    }
    fn parameters(&self) -> &Json {
        &self.parameters
    }
    fn class(&self) -> ReplayClass {
        ReplayClass::ReadOnly
    }
    fn origin(&self) -> Origin {
        self.origin.clone()
    }
    fn call(&self, _call: Call) -> Working {
        Box::pin(async { Ok(String::new()) })
    }
}

fn tool(server: &str, name: &str) -> Arc<dyn Tool> {
    let origin = match server {
        "" => Origin::Native,
        server => Origin::Server(server.to_owned()),
    };
    Arc::new(Named { origin, name: name.to_owned(), parameters: Json::default() })
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn set(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn domain(kinds: &[&str], keywords: &[&str], servers: &[&str]) -> Domain {
    Domain { artifact_kinds: set(kinds), keywords: texts(keywords), servers: set(servers) }
}

fn registry() -> Registry {
    let pinned = Overlay { pinned: Some(true), ..Overlay::default() };
    let settings = Settings {
        tools: [("spice/run".to_owned(), pinned)].into(),
        keep: Kept {
            session_critical_verbs: texts(&["pad_sketch"]),
            companion_groups: [("commit".to_owned(), texts(&["cad/export", "twin/commit"]))].into(),
            niche_servers: set(&["gazebo"]),
        },
        domains: [
            (
                "mechanical".to_owned(),
                domain(&["cad_model"], &["bracket", "sheet metal"], &["cad"]),
            ),
            ("electronics".to_owned(), domain(&["schematic"], &["pcb"], &["spice", "kicad"])),
        ]
        .into(),
        ..Settings::default()
    };
    let tools = [
        tool("", "note.append"),
        tool("cad", "freecad.open_session"),
        tool("cad", "part_open_session"),
        tool("cad", "freecad.pad_sketch"),
        tool("cad", "export"),
        tool("cad", "list"),
        tool("spice", "run"),
        tool("twin", "commit"),
        tool("gazebo", "spawn"),
    ];
    Registry::with(tools, settings, &Names::default()).unwrap()
}

fn kept(scope: Scope<'_>) -> Vec<(String, Keep, Option<String>)> {
    let plan = plan(&registry(), scope).unwrap();
    plan.lines.into_iter().map(|line| (line.name, line.keep, line.group)).collect()
}

fn row(name: &str, keep: Keep, group: Option<&str>) -> (String, Keep, Option<String>) {
    (name.to_owned(), keep, group.map(str::to_owned))
}

#[test]
fn a_plan_says_of_each_tool_why_it_is_kept() {
    assert_eq!(
        kept(Scope::Whole),
        [
            row("mcp_cad_export", Keep::Share, Some("commit")),
            row("mcp_cad_freecad_open_session", Keep::Opener, None),
            row("mcp_cad_freecad_pad_sketch", Keep::Verb, None),
            row("mcp_cad_list", Keep::Share, None),
            row("mcp_cad_part_open_session", Keep::Opener, None),
            row("mcp_gazebo_spawn", Keep::Niche, None),
            row("mcp_spice_run", Keep::Pinned, None),
            row("mcp_twin_commit", Keep::Share, Some("commit")),
            row("note_append", Keep::Native, None),
            row("search_tools", Keep::Search, None),
        ]
    );
}

#[test]
fn a_domain_shows_its_servers_and_those_that_no_domain_claims() {
    let hidden = |names: &[&str]| -> Vec<String> {
        let lines = kept(Scope::Domains(&set(names))).into_iter();
        lines.filter(|(_, keep, _)| *keep == Keep::Hidden).map(|(name, ..)| name).collect()
    };
    assert_eq!(hidden(&["mechanical"]), ["mcp_spice_run"]);
    assert_eq!(hidden(&["electronics"]).len(), 5);
    assert_eq!(hidden(&["mechanical", "electronics"]), [] as [String; 0]);
    let settings = registry().settings().clone();
    let error = domains(&settings, texts(&["optics"])).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"no domain is called "optics": the configured ones are electronics, mechanical"#
    );
}

#[test]
fn a_persons_list_is_all_there_is_unless_it_names_the_search() {
    let only = kept(Scope::Enabled(&texts(&["note.append", "cad/list"])));
    assert_eq!(
        only,
        [row("mcp_cad_list", Keep::Share, None), row("note_append", Keep::Native, None)]
    );
    let with = kept(Scope::Enabled(&texts(&["note_append", "search_tools"])));
    assert_eq!(with.len(), 10);
    assert_eq!(with.iter().filter(|(_, keep, _)| *keep == Keep::Hidden).count(), 8);
    let error = plan(&registry(), Scope::Enabled(&texts(&["nope"]))).unwrap_err();
    assert!(error.to_string().contains(r#"no tool is called "nope""#), "{error}");
}

#[test]
fn a_scoped_run_is_offered_the_search_and_then_what_it_found() {
    let plan = plan(&registry(), Scope::Domains(&set(&["mechanical"]))).unwrap();
    let offered =
        |pins: &[&str]| choose(&plan, None, &texts(pins), &BTreeSet::new()).unwrap().offered;
    let before = offered(&[]);
    assert!(before.contains(&"search_tools".into()) && !before.contains(&"mcp_spice_run".into()));
    assert!(offered(&["mcp_spice_run"]).contains(&"mcp_spice_run".into()));
}

#[test]
fn a_project_shows_its_domains_by_what_it_has_and_by_what_it_says() {
    let settings = registry().settings().clone();
    let shown = |kinds: &[&str], text: &str| infer(&settings.domains, &set(kinds), text);
    assert_eq!(shown(&["cad_model"], ""), Some(set(&["mechanical"])));
    assert_eq!(shown(&[], "A PCB, for the lamp."), Some(set(&["electronics"])));
    assert_eq!(shown(&["schematic"], "sheet\nMetal!"), Some(set(&["electronics", "mechanical"])));
    assert_eq!(shown(&[], "brackets and pcbs"), None, "a word, not a part of one");
    assert_eq!(shown(&["note"], ""), None);
    assert_eq!(infer(&BTreeMap::new(), &set(&["cad_model"]), "pcb"), None);
}

#[test]
fn filters_and_rules_of_an_origin_reach_its_tools() {
    let gates = vec!["twin_write".to_owned()];
    let of = OfOrigin {
        exclude: texts(&["lis*"]),
        overlay: Overlay { gates: gates.clone(), mediated: true, ..Overlay::default() },
        ..OfOrigin::default()
    };
    let settings = Settings { origins: [("cad".to_owned(), of)].into(), ..Settings::default() };
    let tools = [tool("cad", "list"), tool("cad", "export")];
    let registry = Registry::with(tools, settings, &Names::default()).unwrap();
    assert!(registry.find("cad/list").is_none());
    let entry = registry.find("cad/export").unwrap();
    assert_eq!((entry.gates(), entry.mediated()), (gates.as_slice(), true));
}
