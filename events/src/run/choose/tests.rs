//! What is kept, in which order it is given up, and that every origin keeps a share.

use super::*;

fn line(name: &str, origin: &str, keep: Keep) -> Line {
    Line { name: name.to_owned(), origin: origin.to_owned(), keep, group: None }
}

fn plan(mut lines: Vec<Line>) -> Plan {
    lines.sort_by(|one, other| one.name.cmp(&other.name));
    Plan { lines }
}

/// 150 tools: 10 native ones and the search, and 4 servers with 35 each, of which one is a niche.
fn many() -> Plan {
    let mut lines: Vec<Line> =
        (0..9).map(|n| line(&format!("native_{n}"), "native", Keep::Native)).collect();
    lines.push(line("search_tools", "native", Keep::Search));
    for server in ["alpha", "beta", "gamma", "zeta"] {
        let keep = if server == "zeta" { Keep::Niche } else { Keep::Share };
        lines.push(line(&format!("mcp_{server}_open_session"), server, Keep::Opener));
        for n in 1..35 {
            lines.push(line(&format!("mcp_{server}_tool_{n:02}"), server, keep));
        }
    }
    let mut plan = plan(lines);
    for line in &mut plan.lines {
        match line.name.as_str() {
            // The last by name, which a slice off the end would take first.
            "mcp_gamma_tool_33" | "mcp_zeta_tool_34" => line.group = Some("commit".to_owned()),
            "mcp_gamma_tool_34" => line.keep = Keep::Pinned,
            "mcp_beta_tool_34" => line.keep = Keep::Verb,
            _ => {}
        }
    }
    plan
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn none() -> BTreeSet<String> {
    BTreeSet::new()
}

#[test]
fn of_150_tools_under_a_cap_of_128_the_kept_ones_stay_and_each_origin_has_a_share() {
    let plan = many();
    assert_eq!(plan.lines.len(), 150);
    let pins = names(&["mcp_beta_tool_30"]);
    let chosen = choose(&plan, Some(128), &pins, &none()).unwrap();
    assert_eq!((chosen.offered.len(), chosen.dropped.len()), (128, 22));
    let offered: BTreeSet<&str> = chosen.offered.iter().map(String::as_str).collect();
    for line in plan.lines.iter().filter(|line| line.keep < Keep::Share || line.group.is_some()) {
        assert!(offered.contains(line.name.as_str()), "{} is gone", line.name);
    }
    assert!(offered.contains("search_tools") && offered.contains("mcp_beta_tool_30"));
    let of = |server: &str| {
        offered.iter().filter(|name| name.starts_with(&format!("mcp_{server}_"))).count()
    };
    let shares = ["alpha", "beta", "gamma", "zeta"].map(of);
    // The niche gives way first: the others are whole.
    assert_eq!(shares, [35, 35, 35, 13]);
    assert!(
        chosen.dropped.iter().all(|name| name.starts_with("mcp_zeta_tool_")),
        "{:?}",
        chosen.dropped
    );
    let again: BTreeSet<&str> = chosen.dropped.iter().map(String::as_str).collect();
    assert!(again.is_disjoint(&offered) && again.len() + offered.len() == 150);
    assert_eq!(choose(&plan, Some(128), &pins, &none()).unwrap(), chosen);
}

#[test]
fn a_smaller_cap_is_dealt_evenly() {
    let chosen = choose(&many(), Some(64), &[], &none()).unwrap();
    let of = |server: &str| {
        chosen.offered.iter().filter(|name| name.starts_with(&format!("mcp_{server}_"))).count()
    };
    let shares = ["alpha", "beta", "gamma", "zeta"].map(of);
    assert_eq!((chosen.offered.len(), shares), (64, [17, 17, 18, 2]));
}

#[test]
fn what_fits_is_offered_whole_and_without_a_search() {
    let plan = many();
    for cap in [None, Some(149)] {
        let chosen = choose(&plan, cap, &[], &none()).unwrap();
        assert_eq!((chosen.offered.len(), chosen.dropped.len()), (149, 0), "{cap:?}");
        assert!(!chosen.offered.contains(&"search_tools".to_owned()));
    }
    assert_eq!(choose(&Plan::default(), Some(0), &[], &none()).unwrap().offered, names(&[]));
}

#[test]
fn what_is_hidden_is_offered_once_a_search_found_it_always() {
    let mut lines =
        vec![line("a", "native", Keep::Native), line("search_tools", "native", Keep::Search)];
    lines.push(line("mcp_cad_x", "cad", Keep::Hidden));
    lines.extend((0..9).map(|n| line(&format!("mcp_web_{n}"), "web", Keep::Share)));
    let plan = plan(lines);
    let offered = |cap, pins: &[&str]| choose(&plan, cap, &names(pins), &none()).unwrap().offered;
    assert!(!offered(None, &[]).contains(&"mcp_cad_x".to_owned()));
    assert!(offered(None, &[]).contains(&"search_tools".to_owned()), "something is not offered");
    for cap in [None, Some(12), Some(11), Some(5), Some(3)] {
        assert!(offered(cap, &["mcp_cad_x"]).contains(&"mcp_cad_x".to_owned()), "{cap:?}");
    }
    let unknown = offered(None, &["gone"]);
    assert!(!unknown.contains(&"gone".to_owned()));
    let dropped = choose(&plan, Some(5), &[], &none()).unwrap().dropped;
    assert!(!dropped.contains(&"mcp_cad_x".to_owned()), "what is out of scope was not dropped");
}

/// Two native tools, one opener, groups `a` and `b` of two each, one tool pinned by the operator, three others.
fn tight() -> Plan {
    let mut lines = vec![
        line("n1", "native", Keep::Native),
        line("n2", "native", Keep::Native),
        line("s_open_session", "s", Keep::Opener),
        line("s_pin", "s", Keep::Pinned),
    ];
    for name in ["a1", "a2", "b1", "b2"] {
        let group = name.chars().next().map(String::from);
        lines.push(Line { group, ..line(name, "s", Keep::Share) });
    }
    lines.extend(["x1", "x2", "x3"].map(|name| line(name, "t", Keep::Share)));
    plan(lines)
}

#[track_caller]
fn check(cap: usize, pins: &[&str], used: &[&str], then: &[&str]) {
    let used = used.iter().map(|name| (*name).to_owned()).collect();
    let chosen = choose(&tight(), Some(cap), &names(pins), &used).unwrap();
    assert_eq!(chosen.offered, names(then));
}

#[test]
fn groups_that_were_not_used_go_first_then_the_oldest_pins_then_it_is_refused() {
    check(8, &[], &[], &["a1", "a2", "b1", "b2", "n1", "n2", "s_open_session", "s_pin"]);
    // A group is given up as a whole, and its place goes to others.
    check(7, &[], &[], &["a1", "a2", "n1", "n2", "s_open_session", "s_pin", "x1"]);
    check(7, &[], &["b2"], &["b1", "b2", "n1", "n2", "s_open_session", "s_pin", "x1"]);
    check(6, &["x3", "x1"], &[], &["n1", "n2", "s_open_session", "s_pin", "x1", "x3"]);
    // The operator's pin is the oldest; then the first that was found.
    check(5, &["x3", "x1"], &[], &["n1", "n2", "s_open_session", "x1", "x3"]);
    check(4, &["x3", "x1"], &[], &["n1", "n2", "s_open_session", "x1"]);
    check(4, &["x1", "x3", "x1"], &[], &["n1", "n2", "s_open_session", "x1"]);
    check(5, &[], &["a1"], &["a1", "a2", "n1", "n2", "s_open_session"]);
    check(3, &["x1"], &[], &["n1", "n2", "s_open_session"]);
    let used = BTreeSet::from(["a1".to_owned()]);
    let refused = choose(&tight(), Some(4), &names(&["x1"]), &used).unwrap_err();
    assert_eq!(refused, TooMany { cap: 4, native: 2, openers: 1, verbs: 0, companions: 2 });
    let words = refused.to_string();
    assert!(
        words.starts_with("tools_too_many: the provider takes 4 tools, and 2 native"),
        "{words}"
    );
}
