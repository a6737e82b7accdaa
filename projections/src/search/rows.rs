//! How texts are kept and found.

use super::{TEXT_BYTES_MAX, Words};
use crate::batch::Decoded;
use crate::column::{Cells, instant, text as cell};
use crate::reader::stands_at;
use crate::tables::Tables;
use crate::writer::FoldError;
use crate::{Name, Reach};
use events::aggregate::{Aggregate, IllegalEvent};
use events::artifact::{self, Artifacts};
use events::catalogue::Fact;
use events::journal;
use events::message::{Body, Role};
use events::project::Project;
use events::quantity::Instant;
use events::session::{self, Session};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

/// Hits of one answer, at most.
const HITS_MAX: u16 = 50;
/// Words around a hit.
const SNIPPET_WORDS: u8 = 32;

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What a user said.
    User,
    /// What a model said.
    Assistant,
    /// An artifact.
    Artifact,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::User, Self::Assistant, Self::Artifact];

    /// The word in the table and on wires.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Artifact => "artifact",
        }
    }

    /// The kind of this word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// What to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The words.
    pub words: Words,
    /// Only of this project; `None` for any.
    pub project: Option<String>,
    /// Only of this kind; `None` for any.
    pub kind: Option<Kind>,
    /// The most hits, 1 to 50; zero means 50, and more is cut to it.
    pub limit: u16,
}

/// A text that has the words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// What it is.
    pub kind: Kind,
    /// Its project.
    pub project: String,
    /// The id of its session, or the project's stream of an artifact.
    pub stream: String,
    /// The message's number in its session from 1, or the artifact's name.
    pub item: String,
    /// The version of an artifact; none of a message.
    pub version: Option<u32>,
    /// When it was said or written.
    pub at: Instant,
    /// The words around the hit, which stands between `**`.
    pub snippet: String,
}

/// The best hits first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The hits.
    pub hits: Vec<Hit>,
    /// Where the rows stand in the log.
    pub at: Reach,
}

/// A text to be kept.
struct Text<'a> {
    kind: Kind,
    project: &'a str,
    stream: &'a str,
    item: String,
    version: Option<u32>,
    at: Instant,
    text: &'a str,
}

impl Text<'_> {
    fn keep(self, tables: Tables<'_>) -> rusqlite::Result<()> {
        let Self { kind, project, stream, item, version, at, text } = self;
        let text = text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default();
        let row = number(kind, stream, &item);
        let values = [
            Value::Integer(row),
            cell(text),
            cell(kind.word()),
            cell(project),
            cell(stream),
            Value::Text(item),
            version.map_or(Value::Null, |version| Value::Integer(i64::from(version))),
            instant(at),
        ];
        let insert = "INSERT OR REPLACE INTO {t}search \
                      (rowid, text, kind, project, stream, item, version, at) \
                      VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
        tables.statement(insert)?.execute(params_from_iter(values))?;
        Ok(())
    }
}

/// The number of a text's row: the same whenever it is folded. 63 bits of a hash; of two texts that shared one the later
/// would be found.
fn number(kind: Kind, stream: &str, item: &str) -> i64 {
    let kind = match kind {
        Kind::User | Kind::Assistant => "session",
        Kind::Artifact => "artifact",
    };
    let hash = journal::hash(format!("{kind}/{stream}/{item}").as_bytes());
    let (head, _) = hash.0.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    i64::from_le_bytes(*head) & i64::MAX
}

/// A session, as far as its texts need it.
struct Spoken {
    project: String,
    messages: u32,
}

fn spoken(tables: Tables<'_>, id: &str) -> rusqlite::Result<Option<Spoken>> {
    let select = "SELECT project, messages FROM {t}search_sessions WHERE id = ?";
    let mut statement = tables.statement(select)?;
    let read = |row: &rusqlite::Row<'_>| {
        let mut cells = Cells::of(row);
        Ok(Spoken { project: cells.take()?, messages: cells.small()? })
    };
    statement.query_row([id], read).optional()
}

fn keep_spoken(tables: Tables<'_>, id: &str, spoken: &Spoken) -> rusqlite::Result<()> {
    let insert = "INSERT OR REPLACE INTO {t}search_sessions VALUES (?, ?, ?)";
    let count = Value::Integer(i64::from(spoken.messages));
    let values = [cell(id), cell(&spoken.project), count];
    tables.statement(insert)?.execute(params_from_iter(values))?;
    Ok(())
}

pub(crate) fn fold(tables: Tables<'_>, commit: &Decoded, facts: &[Fact]) -> Result<(), FoldError> {
    for fact in facts {
        let stray = || IllegalEvent {
            event: fact.name().to_owned(),
            before: format!("the name of stream {}", commit.stream),
        };
        match fact {
            Fact::Session(event) => {
                let _id = Session::id(&commit.stream).ok_or_else(stray)?;
                said(tables, commit, event).map_err(FoldError::from)?.ok_or_else(stray)?;
            }
            Fact::Artifact(event) => {
                let _id = Artifacts::id(&commit.stream).ok_or_else(stray)?;
                written(tables, commit, event)?;
            }
            Fact::Run(_)
            | Fact::Key(_)
            | Fact::Settings(_)
            | Fact::Credential(_)
            | Fact::Budget(_)
            | Fact::Grant(_)
            | Fact::Gates(_)
            | Fact::Project(_)
            | Fact::Probe => return Err(stray().into()),
        }
    }
    Ok(())
}

/// `None` for what may not be said in a session that was not opened.
fn said(
    tables: Tables<'_>,
    commit: &Decoded,
    event: &session::Event,
) -> rusqlite::Result<Option<()>> {
    let id = commit.stream.id();
    match event {
        session::Event::Opened(opened) => {
            // As streams name it, so that its sessions and its artifacts are of one project.
            let project = Project::of(&opened.project).to_string();
            let spoken = Spoken { project, messages: 0 };
            keep_spoken(tables, id, &spoken)?;
        }
        // The messages that it begins with are found where they were said.
        session::Event::Forked(forked) => {
            let Some(mut spoken) = spoken(tables, id)? else { return Ok(None) };
            spoken.messages = more(spoken.messages, forked.messages.len());
            keep_spoken(tables, id, &spoken)?;
        }
        session::Event::Committed(committed) => {
            let Some(mut spoken) = spoken(tables, id)? else { return Ok(None) };
            for body in &committed.messages {
                spoken.messages = more(spoken.messages, 1);
                message(tables, commit, body, &spoken)?;
            }
            keep_spoken(tables, id, &spoken)?;
        }
        session::Event::Queued(_)
        | session::Event::Granted(_)
        | session::Event::Released(_)
        | session::Event::Closed(_)
        | session::Event::ScopeSet(_) => {}
    }
    Ok(Some(()))
}

fn more(before: u32, messages: usize) -> u32 {
    before.saturating_add(u32::try_from(messages).unwrap_or(u32::MAX))
}

fn message(
    tables: Tables<'_>,
    commit: &Decoded,
    body: &Body,
    spoken: &Spoken,
) -> rusqlite::Result<()> {
    // A body that does not read as a message has no words, and is none of this fold's business.
    let Ok(message) = body.message() else { return Ok(()) };
    let kind = match message.role {
        Role::User => Kind::User,
        Role::Assistant => Kind::Assistant,
        // What an operator instructs is not said, and what a tool answers may be what was searched for.
        Role::System | Role::Tool => return Ok(()),
    };
    let text = message.plain();
    if text.trim().is_empty() {
        return Ok(());
    }
    let (project, stream, item) =
        (&*spoken.project, commit.stream.id(), spoken.messages.to_string());
    Text { kind, project, stream, item, version: None, at: commit.at, text: &text }.keep(tables)
}

fn written(tables: Tables<'_>, commit: &Decoded, event: &artifact::Event) -> rusqlite::Result<()> {
    let artifact::Event::Written(written) = event;
    // Its name is searched too: people remember that sooner than a word of it.
    let text = format!("{}\n{}", written.name, written.content);
    let (stream, item) = (commit.stream.id(), written.name.to_string());
    let (kind, version, at) = (Kind::Artifact, Some(written.version), written.at);
    Text { kind, project: stream, stream, item, version, at, text: &text }.keep(tables)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Hit> {
    let mut cells = Cells::of(row);
    let word: String = cells.take()?;
    let kind = Kind::named(&word).ok_or_else(|| cells.stray(&word))?;
    Ok(Hit {
        kind,
        project: cells.take()?,
        stream: cells.take()?,
        item: cells.take()?,
        version: cells.take()?,
        at: cells.instant()?,
        snippet: cells.take()?,
    })
}

pub(crate) fn find(connection: &Connection, query: &Query) -> rusqlite::Result<Page> {
    let limit = if query.limit == 0 { HITS_MAX } else { query.limit.min(HITS_MAX) };
    let project = if query.project.is_some() { "project = ?" } else { "1" };
    let kind = if query.kind.is_some() { "kind = ?" } else { "1" };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT kind, project, stream, item, version, at, \
         snippet(search, 0, '**', '**', '…', {SNIPPET_WORDS}) FROM search \
         WHERE search MATCH ? AND {project} AND {kind} \
         ORDER BY rank, at DESC, stream, item LIMIT ?"
    ))?;
    let values = [cell(query.words.as_str())]
        .into_iter()
        .chain(query.project.iter().map(|name| cell(Project::of(name))))
        .chain(query.kind.map(|kind| cell(kind.word())))
        .chain([Value::Integer(i64::from(limit))]);
    let hits = statement.query_map(params_from_iter(values), read)?;
    let hits = hits.collect::<rusqlite::Result<_>>()?;
    Ok(Page { hits, at: stands_at(connection, Name::Search)? })
}
