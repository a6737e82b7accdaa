//! The head of an artifact's file: where it comes from, and the hash by which a change shows.

use crate::wire::run::name;
use crate::wire::time::rfc3339;
use events::artifact::{Source, Written};
use events::journal;
use events::project::Project;
use std::fmt::Write;

/// What begins and ends the head.
const FENCE: &str = "---\n";
/// Bytes of the longest head that is read.
const HEAD_BYTES_MAX: usize = 4_096;

/// The keys of a head, in their order.
#[derive(Debug)]
pub(super) struct Front(Vec<(&'static str, String)>);

/// A page as it was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parsed<'a> {
    /// The hash that its head says; none without a head of ours.
    pub(super) hash: Option<&'a str>,
    /// What stands below the head.
    pub(super) content: &'a str,
}

impl Front {
    pub(super) fn of(project: Project, written: &Written) -> Self {
        let mut keys = vec![
            ("project", project.to_string()),
            ("name", written.name.to_string()),
            ("version", written.version.to_string()),
            ("hash", written.hash.to_string()),
            ("at", rfc3339(written.at)),
            ("by", written.by.to_string()),
        ];
        match &written.source {
            Source::Hand => keys.push(("source", "hand".to_owned())),
            Source::Caller => keys.push(("source", "caller".to_owned())),
            Source::Run(made) => {
                keys.push(("source", "run".to_owned()));
                keys.push(("run", made.run.to_string()));
                keys.push(("role", made.role.to_string()));
                keys.extend(made.served_by.iter().map(|by| ("generated_by", name(by))));
            }
        }
        Self(keys)
    }

    /// The whole page.
    pub(super) fn page(&self, content: &str) -> String {
        let mut page = FENCE.to_owned();
        for (key, value) in &self.0 {
            // Quoted, so that no value can be anything but a text of YAML. Writing to a string can not fail.
            let _infallible = writeln!(page, "{key}: {}", serde_json::Value::from(value.as_str()));
        }
        page.push_str(FENCE);
        page.push_str(content);
        page
    }
}

/// Takes a page apart. One without a head of ours is all content.
pub(super) fn parse(page: &str) -> Parsed<'_> {
    let whole = Parsed { hash: None, content: page };
    let Some(rest) = page.strip_prefix(FENCE) else { return whole };
    let Some(end) = rest.find("\n---\n").filter(|end| *end < HEAD_BYTES_MAX) else { return whole };
    let Some((head, below)) = rest.split_at_checked(end) else { return whole };
    let hash = head.lines().find_map(|line| line.strip_prefix("hash: "));
    let hash = hash.map(|text| text.trim_matches('"')).filter(|text| text.len() == 64);
    match (hash, below.strip_prefix("\n---\n")) {
        (Some(_), Some(content)) => Parsed { hash, content },
        (Some(_) | None, _) => whole,
    }
}

impl Parsed<'_> {
    /// Whether somebody changed what stands below the head, or made the page.
    pub(super) fn is_changed(&self) -> bool {
        let is = journal::hash(self.content.as_bytes()).to_string();
        self.hash != Some(is.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::artifact::Made;
    use events::id::{Place, RunId};
    use events::quantity::Instant;
    use events::record::Actor;
    use events::role::Role;
    use events::run::served::ServedBy;

    fn written(content: &str) -> Written {
        let served_by = ServedBy {
            provider: "openai".into(),
            model: "gpt \"x\"\n---".into(),
            instead_of: None,
            judges_itself: false,
        };
        let (run, role) = (RunId::new(Place::default(), 7), Role::chat());
        Written {
            name: "plan".parse().unwrap(),
            version: 3,
            content: content.into(),
            hash: journal::hash(content.as_bytes()),
            source: Source::Run(Box::new(Made { run, role, served_by: Some(served_by) })),
            by: Actor::Admin,
            at: Instant(0),
        }
    }

    #[test]
    fn a_page_reads_back_whatever_stands_in_it() {
        for content in ["", "# Plan\n", "---\nx: 1\n---\n", "a\r\nb", "no end"] {
            let page = Front::of(Project::of("lab"), &written(content)).page(content);
            let parsed = parse(&page);
            assert_eq!(parsed.content, content);
            assert!(!parsed.is_changed(), "{page}");
        }
        let page = Front::of(Project::of("lab"), &written("x")).page("x");
        assert!(page.starts_with("---\nproject: \"lab\"\nname: \"plan\"\nversion: \"3\"\nhash: "));
        assert!(page.contains("generated_by: \"openai:gpt \\\"x\\\"\\n---\"\n"), "{page}");
    }

    #[test]
    fn a_change_shows() {
        let page = Front::of(Project::of("lab"), &written("one\n")).page("one\n");
        assert!(parse(&page.replace("one", "two")).is_changed());
        assert!(parse(&format!("{page}more")).is_changed());
        // The head alone is nobody's text, but without its hash nobody can say that it is ours.
        assert!(!parse(&page.replace("version: \"3\"", "version: \"4\"")).is_changed());
        assert!(parse("one\n").is_changed());
        let other = "---\ntitle: mine\n---\nwords";
        assert_eq!(parse(other), Parsed { hash: None, content: other });
    }
}
