//! Which tools a request offers when its provider takes fewer than there are: a pure choice over what was frozen when
//! the run was queued, what a search pinned since, and what the run has used.
//!
//! Kept first is what a session falls apart without: native tools, pinned ones, openers of sessions, their critical
//! verbs, and groups that are of use only as a whole. The rest is dealt round over the origins, so that none vanishes;
//! a slice off the end of a sorted list would take whole servers away by their first letter.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Why a tool is kept, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Keep {
    /// It came with the node.
    Native,
    /// An operator pinned it.
    Pinned,
    /// It opens the session that its server's other tools need.
    Opener,
    /// A session is of no use without it.
    Verb,
    /// It gets its origin's share.
    Share,
    /// It gets what the others leave.
    Niche,
    /// It is not in the run's scope: only a search brings it in.
    Hidden,
    /// It is the search: offered when something is not.
    Search,
}

/// A tool that a run may be offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The model-facing name.
    pub name: String,
    /// Where it comes from.
    pub origin: String,
    /// Why it is kept.
    pub keep: Keep,
    /// The group that it is kept or given up with.
    pub group: Option<String>,
}

/// Everything that a run may be offered, as it was when the run was queued.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Plan {
    /// Sorted by name, each name once.
    pub lines: Vec<Line>,
}

/// What a request offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Sorted by name.
    pub offered: Vec<String>,
    /// What is in scope and did not fit, sorted by name.
    pub dropped: Vec<String>,
}

/// What has to be kept alone is more than the provider takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error(
    "tools_too_many: the provider takes {cap} tools, and {native} native ones, {openers} openers of sessions, {verbs} \
     critical verbs and {companions} of groups in use can not be left out: offer fewer by enabled_tools"
)]
pub struct TooMany {
    /// What the provider takes.
    pub cap: u32,
    /// Tools that came with the node, the search included.
    pub native: u32,
    /// Openers of sessions.
    pub openers: u32,
    /// Critical verbs.
    pub verbs: u32,
    /// Members of groups that were used in this run, and of no other class.
    pub companions: u32,
}

/// What must be there, while it is thinned out.
struct Protected<'a> {
    /// Never given up.
    always: BTreeSet<&'a str>,
    /// Pinned, the oldest first; those of the operator are older than any search.
    pins: VecDeque<&'a str>,
    groups: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Protected<'a> {
    fn names(&self) -> BTreeSet<&'a str> {
        let groups = self.groups.values().flatten();
        self.always.iter().chain(&self.pins).chain(groups).copied().collect()
    }
}

/// Chooses what a request offers. `cap` is what the provider takes, `None` for any number; `pins` are what searches
/// found, the oldest first; `used` are the tools that this run has called.
///
/// # Errors
///
/// [`TooMany`] when what must be kept does not fit: the request would be refused, so the run is not begun.
pub fn choose(
    plan: &Plan,
    cap: Option<usize>,
    pins: &[String],
    used: &BTreeSet<String>,
) -> Result<Choice, TooMany> {
    let pinned: BTreeSet<&str> = pins.iter().map(String::as_str).collect();
    let in_scope = |line: &&Line| match line.keep {
        Keep::Hidden => pinned.contains(line.name.as_str()),
        Keep::Search => false,
        Keep::Native | Keep::Pinned | Keep::Opener | Keep::Verb | Keep::Share | Keep::Niche => true,
    };
    let lines: Vec<&Line> = plan.lines.iter().filter(in_scope).collect();
    let search = plan.lines.iter().find(|line| line.keep == Keep::Search);
    let is_whole = plan.lines.len() == lines.len() + usize::from(search.is_some());
    let fits = |count: usize| cap.is_none_or(|cap| count <= cap);
    if is_whole && fits(lines.len()) {
        return Ok(choice(&lines, &names(&lines)));
    }
    let mut all = lines;
    all.extend(search);
    let Some(cap) = cap.filter(|cap| all.len() > *cap) else {
        return Ok(choice(&all, &names(&all)));
    };
    let mut protected = protected(&all, pins);
    give_up(&mut protected, cap, used);
    let mut kept = protected.names();
    if kept.len() > cap {
        return Err(too_many(&all, &protected, cap));
    }
    // A group that was given up comes back as a whole or not at all.
    let apart: BTreeSet<&str> =
        all.iter().filter(|line| line.group.is_some()).map(|line| line.name.as_str()).collect();
    let rest = || all.iter().filter(|line| !apart.contains(line.name.as_str())).copied();
    deal(rest().filter(|line| line.keep != Keep::Niche), cap, &mut kept);
    deal(rest(), cap, &mut kept);
    Ok(choice(&all, &kept))
}

fn names<'a>(lines: &[&'a Line]) -> BTreeSet<&'a str> {
    lines.iter().map(|line| line.name.as_str()).collect()
}

fn choice(lines: &[&Line], kept: &BTreeSet<&str>) -> Choice {
    let owned = |name: &&str| (*name).to_owned();
    let dropped = names(lines).difference(kept).map(owned).collect();
    Choice { offered: kept.iter().map(owned).collect(), dropped }
}

fn protected<'a>(lines: &[&'a Line], pins: &'a [String]) -> Protected<'a> {
    let mut found =
        Protected { always: BTreeSet::new(), pins: VecDeque::new(), groups: BTreeMap::new() };
    for line in lines {
        let name = line.name.as_str();
        match line.keep {
            Keep::Native | Keep::Opener | Keep::Verb | Keep::Search => {
                found.always.insert(name);
            }
            Keep::Pinned => found.pins.push_back(name),
            Keep::Share | Keep::Niche | Keep::Hidden => {}
        }
        if let Some(group) = &line.group {
            found.groups.entry(group).or_default().push(name);
        }
    }
    let there = names(lines);
    for pin in pins.iter().map(String::as_str).filter(|pin| there.contains(pin)) {
        found.pins.retain(|one| *one != pin);
        found.pins.push_back(pin);
    }
    found
}

/// Gives up what can be, until the rest fits or nothing is left to give: groups that this run has not used, the last by
/// name first, then pins, the oldest first.
fn give_up(protected: &mut Protected<'_>, cap: usize, used: &BTreeSet<String>) {
    let is_used = |members: &Vec<&str>| members.iter().any(|name| used.contains(*name));
    while protected.names().len() > cap {
        let mut groups = protected.groups.iter().rev();
        let unused = groups.find(|(_, members)| !is_used(members)).map(|(group, _)| *group);
        match unused {
            Some(group) => {
                protected.groups.remove(group);
            }
            None if protected.pins.pop_front().is_some() => {}
            None => break,
        }
    }
}

fn too_many(lines: &[&Line], protected: &Protected<'_>, cap: usize) -> TooMany {
    let of = |keeps: &[Keep]| {
        let count = lines.iter().filter(|line| keeps.contains(&line.keep)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    };
    let members =
        protected.groups.values().flatten().filter(|name| !protected.always.contains(*name));
    TooMany {
        cap: u32::try_from(cap).unwrap_or(u32::MAX),
        native: of(&[Keep::Native, Keep::Search]),
        openers: of(&[Keep::Opener]),
        verbs: of(&[Keep::Verb]),
        companions: u32::try_from(members.collect::<BTreeSet<_>>().len()).unwrap_or(u32::MAX),
    }
}

/// Deals what is left of the cap, one tool for each origin in turn, by name.
fn deal<'a>(lines: impl Iterator<Item = &'a Line>, cap: usize, kept: &mut BTreeSet<&'a str>) {
    let mut origins: BTreeMap<&str, VecDeque<&str>> = BTreeMap::new();
    for line in lines.filter(|line| !kept.contains(line.name.as_str())) {
        origins.entry(&line.origin).or_default().push_back(&line.name);
    }
    while !origins.is_empty() {
        for waiting in origins.values_mut() {
            if kept.len() >= cap {
                return;
            }
            kept.extend(waiting.pop_front());
        }
        origins.retain(|_, waiting| !waiting.is_empty());
    }
}

#[cfg(test)]
mod tests;
