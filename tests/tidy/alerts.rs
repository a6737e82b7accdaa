//! Alerts name metrics that exist, and each has a page and a test.
//!
//! A metric that is renamed would leave an alert that never fires, which looks like health.

use super::{Tree, none, one};
use std::collections::BTreeSet;

const ALERTS: &str = "deploy/alerts.yml";
const TRIED: &str = "deploy/alerts_test.yml";
const PAGES: &str = "deploy/runbooks/alerts.md";

/// Names of our metrics in a text, without what a histogram adds to them.
fn named(text: &str) -> BTreeSet<&str> {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = text.match_indices("piton_").map(|(at, _)| &text[at..]);
    let names = starts.map(|rest| &rest[..rest.find(|c| !word(c)).unwrap_or(rest.len())]);
    let ends = ["_bucket", "_sum", "_count"];
    names.map(|name| ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)).collect()
}

fn faults(tree: &Tree) -> Vec<String> {
    let (alerts, tried, pages) = (tree.text(ALERTS), tree.text(TRIED), tree.text(PAGES));
    let is_of_metrics = |path: &str| path.ends_with("/metric.rs") || path.contains("/metric/");
    let metrics = tree.files.iter().filter(|(path, _)| is_of_metrics(path));
    let known: BTreeSet<&str> = metrics.flat_map(|(_, text)| named(text)).collect();
    let mut faults: Vec<String> = Vec::new();
    for (path, text) in [(ALERTS, alerts), (TRIED, tried), (PAGES, pages)] {
        let unknown = named(text).into_iter().filter(|name| !known.contains(name));
        faults.extend(unknown.map(|name| format!("{path}: no metric.rs has {name}")));
    }
    let names = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let names: BTreeSet<&str> = names.collect();
    for name in &names {
        let page = format!("## {name}");
        let has_page = pages.lines().any(|line| line == page);
        let is_tried = tried.contains(&format!("alertname=\"{name}\""));
        let links = alerts.contains(&format!("alerts.md#{}\n", name.to_lowercase()));
        for (has, what) in [(has_page, "page"), (is_tried, "test"), (links, "link to its page")] {
            faults.extend((!has).then(|| format!("{ALERTS}: {name} has no {what}")));
        }
    }
    let headings = pages.lines().filter_map(|line| line.strip_prefix("## "));
    let stray = headings.filter(|name| !names.contains(name));
    faults.extend(stray.map(|name| format!("{PAGES}: {name} is no alert")));
    faults
}

#[test]
fn every_alert_names_metrics_that_exist_and_has_a_page_and_a_test() {
    none(&faults(&Tree::here()));
}

#[test]
fn each_rule_of_an_alert_sees_its_fault() {
    let tree = |metric: &str, page: &str, test: &str| {
        let alert = "- alert: A\n  expr: 'rate(piton_x_bucket[5m]) > 0'\n  runbook: alerts.md#a\n";
        Tree::of([("actors/src/metric.rs", metric), (ALERTS, alert), (PAGES, page), (TRIED, test)])
    };
    let (metric, page, test) =
        ("const X: &str = \"piton_x\";", "## A\n", "ALERTS{alertname=\"A\"}");
    none(&faults(&tree(metric, page, test)));
    one(&faults(&tree("", page, test)), "no metric.rs has piton_x");
    one(&faults(&tree(metric, "", test)), "has no page");
    one(&faults(&tree(metric, "## A\n## B\n", test)), "B is no alert");
    one(&faults(&tree(metric, page, "")), "has no test");
}
