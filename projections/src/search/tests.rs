//! What is found, what is not, and that words are only words.

use super::*;
use crate::Handle;
use crate::tests::facts::{session, spec};
use crate::tests::journal::{Dice, Journal};
use crate::tests::views::{Folder, caught_up, during};
use events::id::RunId;
use events::message::{Message, Role};
use events::run::life::Outcome;
use events::session::{Command, OnBusy};

async fn follow(journal: &Journal, folder: &Folder) -> Handle {
    let (handle, runner) = folder.start(&journal.store).await;
    during(runner, caught_up(&handle, journal.end())).await;
    handle
}

/// A turn of a session: what was asked, and what came of it.
async fn turn(journal: &mut Journal, of: u128, project: &str, said: &[(Role, &str)]) {
    let (id, run) = (session(of), RunId::new(events::id::Place::default(), 500 + of));
    let (spec, on_busy) = (spec(project, "in"), OnBusy::Queue);
    journal.tell_session(id, &Command::Submit { run, spec, on_busy, seen: None }).await;
    let fence = journal.sessions[&id].lock.clone().unwrap().fence;
    let messages = said.iter().map(|(role, text)| Message::text(*role, text).body()).collect();
    let (outcome, generated_by) = (Outcome::Completed, None);
    journal
        .tell_session(id, &Command::RunEnded { run, fence, outcome, messages, generated_by })
        .await;
}

async fn find(handle: &Handle, words: &str) -> Vec<(Kind, String, Option<u32>)> {
    let words = Words::of(words).unwrap();
    let page = handle.search(Query { words, project: None, kind: None, limit: 0 }).await.unwrap();
    page.hits.into_iter().map(|hit| (hit.kind, hit.item, hit.version)).collect()
}

async fn told() -> (Journal, Folder) {
    let (mut journal, folder) = (Journal::new(60), Folder::new());
    turn(
        &mut journal,
        1,
        "lab",
        &[
            (Role::System, "secret rope instruction"),
            (Role::User, "How long is a rope?"),
            (Role::Tool, "rope: 60 m"),
            (Role::Assistant, "Most ropes have sixty metres. Größe zählt."),
        ],
    )
    .await;
    turn(&mut journal, 2, "other", &[(Role::User, "Which knot holds the rope?")]).await;
    journal.write_artifact("lab", "rope-report", "The first draft speaks of knots.").await;
    journal.write_artifact("lab", "rope-report", "The second draft speaks of anchors.").await;
    (journal, folder)
}

#[tokio::test]
async fn texts_are_found_by_their_words_and_an_artifact_by_its_newest() {
    let (journal, folder) = told().await;
    let handle = follow(&journal, &folder).await;
    let user = |item: &str| (Kind::User, item.to_owned(), None);
    assert_eq!(find(&handle, "long rope").await, [user("2")]);
    assert_eq!(find(&handle, "knot").await, [user("1")], "an older version is not found");
    assert_eq!(find(&handle, "anchors").await, [(Kind::Artifact, "rope-report".into(), Some(2))]);
    assert_eq!(find(&handle, "grosse").await, []);
    assert_eq!(
        find(&handle, "GROßE").await,
        [(Kind::Assistant, "4".into(), None)],
        "accents are nothing"
    );
    assert_eq!(find(&handle, "GROSSE OR zahlt").await, []);
    assert_eq!(find(&handle, "zahlt").await, [(Kind::Assistant, "4".into(), None)]);
    assert_eq!(find(&handle, "metr").await, [(Kind::Assistant, "4".into(), None)], "begun");
    assert_eq!(find(&handle, "\"sixty metres\"").await.len(), 1);
    assert_eq!(find(&handle, "\"metres sixty\"").await, []);
    for nothing in ["instruction", "\"60 m\"", "text:rope", "rope AND nothing"] {
        assert_eq!(find(&handle, nothing).await, [], "{nothing}");
    }
}

#[tokio::test]
async fn a_filter_keeps_what_it_names_and_a_hit_says_where_it_stands() {
    let (journal, folder) = told().await;
    let handle = follow(&journal, &folder).await;
    let ask = async |project: Option<&str>, kind, limit| {
        let (words, project) = (Words::of("rope").unwrap(), project.map(str::to_owned));
        handle.search(Query { words, project, kind, limit }).await.unwrap()
    };
    assert_eq!(ask(None, None, 0).await.hits.len(), 4);
    assert_eq!(ask(None, None, 1).await.hits.len(), 1);
    assert_eq!(ask(Some("lab"), None, 0).await.hits.len(), 3);
    let page = ask(Some("other"), Some(Kind::User), 0).await;
    let hit = &page.hits[0];
    assert_eq!((&*hit.stream, &*hit.project), (&*session(2).to_string(), "other"));
    assert_eq!(hit.snippet, "Which knot holds the **rope**?");
    assert_eq!(page.at, journal.reach());
    assert!(ask(Some("other"), Some(Kind::Artifact), 0).await.hits.is_empty());
}

#[tokio::test]
async fn a_long_text_is_kept_within_its_bound() {
    let (mut journal, folder) = (Journal::new(61), Folder::new());
    let long = format!("{} needle", "é ".repeat(TEXT_BYTES_MAX / 2));
    turn(&mut journal, 1, "lab", &[(Role::User, &long), (Role::User, "needle")]).await;
    let handle = follow(&journal, &folder).await;
    assert_eq!(find(&handle, "needle").await, [(Kind::User, "2".into(), None)]);
}

#[tokio::test]
async fn every_message_of_a_random_journal_is_found_where_it_was_said() {
    let (mut journal, folder) = (Journal::new(62), Folder::new());
    journal.wander(&mut Dice::new(62), 600).await;
    let handle = follow(&journal, &folder).await;
    let drafts = find(&handle, "draft").await;
    let artifacts: usize = journal.artifacts.values().map(|state| state.artifacts.len()).sum();
    assert!(artifacts > 2 && drafts.len() == artifacts, "{drafts:?}");
}
