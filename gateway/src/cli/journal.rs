//! `piton journal`: checks, copies and measures. A check and a restore work on files, so that they need no node; a copy
//! is made by the node that owns the file.

use super::arguments::{Backup, Journal, Output, Restore, Verify};
use super::client::{Ask, LONG};
use super::context::Context;
use super::failure::CliError;
use super::progress::Progress;
use crate::boot::JOURNAL;
use crate::error::{Exit, chain};
use events::aggregate::Wake;
use events::catalogue::{self, Folded};
use events::record::{Recorded, StreamKey};
use reqwest::Method;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use store::OpenError;
use store::backup::{self, BackupError};
use store::verify::{self, Payloads, Report};

pub(super) async fn journal(ctx: &mut Context<'_>, verb: Journal) -> Result<Exit, CliError> {
    match verb {
        Journal::Verify(Verify { file: Some(file) }) => check(ctx, &file),
        Journal::Verify(Verify { file: None }) => {
            let file = own_file(ctx)?;
            check(ctx, &file)
        }
        Journal::Backup(backup) => copy(ctx, &backup).await,
        Journal::Restore(restore) => put_back(ctx, &restore),
        Journal::Stats => stats(ctx).await,
    }
}

fn own_file(ctx: &mut Context<'_>) -> Result<PathBuf, CliError> {
    Ok(ctx.load()?.config.data_dir.join(JOURNAL))
}

fn check(ctx: &mut Context<'_>, file: &Path) -> Result<Exit, CliError> {
    let report = inspect(ctx, file)?;
    show(ctx, file, &report)?;
    Ok(if report.problems_count == 0 { Exit::Ok } else { Exit::Integrity })
}

/// Reads every byte of a journal, with its progress; also what `doctor` does.
pub(super) fn inspect(ctx: &mut Context<'_>, file: &Path) -> Result<Report, CliError> {
    let watched = ctx.watched();
    let mut progress = Progress::new(ctx.err, watched, "verify", "commits");
    verify::verify(file, wake_of, |done, total| progress.at(done, total))
        .map_err(|error| unopened(&error))
}

/// When a stream must be looked at again, by the rules; none for a stream that they can not read.
fn wake_of(stream: &StreamKey, commits: &[Recorded], payloads: Payloads<'_>) -> Option<Wake> {
    let mut folded = Folded::empty(stream.kind());
    for entry in commits.iter().flat_map(|recorded| &recorded.commit.entries) {
        let bytes = payloads(entry)?;
        let fact = catalogue::decode(stream, entry.kind, entry.schema, &bytes).ok()?;
        folded = folded.evolve(&fact).ok()?;
    }
    folded.wake()
}

async fn copy(ctx: &mut Context<'_>, backup: &Backup) -> Result<Exit, CliError> {
    let to = std::path::absolute(&backup.to).map_err(|source| CliError::File {
        what: "can not name",
        path: backup.to.clone(),
        source,
    })?;
    let client = ctx.client()?;
    let mut ask = Ask::at(&["v1", "journal", "backup"]);
    (ask.body, ask.within) = (Some(json!({"path": to})), Some(LONG));
    ctx.remark("the node copies its journal and checks the copy")?;
    let report = client.ask(Method::POST, ask).await?;
    ctx.object(&report)?;
    Ok(Exit::Ok)
}

fn put_back(ctx: &mut Context<'_>, restore: &Restore) -> Result<Exit, CliError> {
    let loaded = ctx.load()?;
    let into = loaded.config.data_dir.join(JOURNAL);
    crate::auth::private::folder(&loaded.config.data_dir)?;
    let watched = ctx.watched();
    let report = {
        let mut progress = Progress::new(ctx.err, watched, "restore", "pages");
        backup::restore(&restore.from, &into, |done, total| progress.at(done, total))
    };
    let report = report.map_err(|error| not_put_back(&error))?;
    ctx.remark(&format!(
        "what stood at {} before is kept beside it, with the ending .replaced",
        into.display()
    ))?;
    show(ctx, &into, &report)?;
    Ok(Exit::Ok)
}

async fn stats(ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let answer = match ctx.client() {
        Ok(client) => client.ask(Method::GET, Ask::at(&["v1", "journal", "stats"])).await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(stats) => {
            ctx.object(&stats)?;
            Ok(Exit::Ok)
        }
        // Nobody owns the file now; it can be counted by reading it.
        Err(CliError::NotStarted(_) | CliError::NoNode { .. }) if ctx.global.url.is_none() => {
            let file = own_file(ctx)?;
            check(ctx, &file)
        }
        Err(error) => Err(error),
    }
}

fn show(ctx: &mut Context<'_>, file: &Path, report: &Report) -> Result<(), CliError> {
    let problems: Vec<Value> =
        report.problems.iter().map(|problem| Value::from(problem.to_string())).collect();
    let mut said = json!({
        "file": file,
        "journal": report.journal.to_string(),
        "ok": report.problems_count == 0,
        "commits": report.commits,
        "entries": report.entries,
        "streams": report.streams,
        "blobs": report.blobs,
        "erased": report.erased,
        "wakes": report.wakes,
        "rolling": report.rolling.to_string(),
        "problems_count": report.problems_count,
    });
    match (ctx.output(), said.as_object_mut()) {
        (Output::Json | Output::Jsonl, Some(map)) => {
            map.insert("problems".to_owned(), Value::from(problems));
            ctx.object(&said)?;
        }
        (Output::Table | Output::Json | Output::Jsonl, _) => {
            ctx.object(&said)?;
            for problem in &report.problems {
                writeln!(ctx.out, "problem  {}", super::print::escape(&problem.to_string()))?;
            }
        }
    }
    Ok(())
}

fn unopened(error: &OpenError) -> CliError {
    let exit = match error {
        OpenError::Owned { .. } => Exit::Conflict,
        OpenError::Damaged { .. } => Exit::Integrity,
        OpenError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Exit::NotFound
        }
        OpenError::NotSafe { .. }
        | OpenError::NetworkFileSystem { .. }
        | OpenError::Schema { .. }
        | OpenError::NotAJournal { .. }
        | OpenError::Io { .. }
        | OpenError::Sqlite(_) => Exit::Failure,
    };
    CliError::Store { exit, message: chain(error) }
}

fn not_put_back(error: &BackupError) -> CliError {
    let exit = match error {
        BackupError::Open(error) => return unopened(error),
        BackupError::Exists(_) => Exit::Conflict,
        BackupError::Damaged(_) => Exit::Integrity,
        BackupError::Memory
        | BackupError::Cluster
        | BackupError::Sqlite(_)
        | BackupError::Io { .. }
        | BackupError::CutShort
        | BackupError::Store(_) => Exit::Failure,
    };
    CliError::Store { exit, message: chain(error) }
}
