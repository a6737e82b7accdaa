//! `piton doctor`: looks at everything that a node rests on, and says for each fault how to mend it.

use super::arguments::Output;
use super::client::{Ask, Client};
use super::context::Context;
use super::failure::CliError;
use super::{detect, journal, print};
use crate::auth::node_key::CLI_KEY;
use crate::auth::private::{self, Readers};
use crate::boot::JOURNAL;
use crate::config::Config;
use crate::error::{Exit, chain};
use actors::clock::Clock;
use events::quantity::Instant;
use reqwest::Method;
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Free bytes below which the disk is a fault (100 MiB): the journal stops at none, and a check needs some.
const FREE_BYTES_MIN: u64 = 100 << 20;
/// Free bytes below which the disk is worth a word (1 GiB).
const FREE_BYTES_LOW: u64 = 1 << 30;
/// A time that every clock that is set has passed: 2026-01-01.
const CLOCK_MIN: Instant = Instant(1_767_225_600_000_000);

/// How one thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    Doubtful,
    Bad,
}

/// One thing that was looked at.
#[derive(Debug)]
struct Finding {
    what: &'static str,
    state: State,
    said: String,
    mend: &'static str,
}

fn good(what: &'static str, said: impl Into<String>) -> Finding {
    Finding { what, state: State::Good, said: said.into(), mend: "" }
}

fn doubtful(what: &'static str, said: impl Into<String>, mend: &'static str) -> Finding {
    Finding { what, state: State::Doubtful, said: said.into(), mend }
}

fn bad(what: &'static str, said: impl Into<String>, mend: &'static str) -> Finding {
    Finding { what, state: State::Bad, said: said.into(), mend }
}

pub(super) async fn doctor(ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let loaded = match ctx.load() {
        Ok(loaded) => loaded,
        Err(error) => {
            let finding = bad(
                "configuration",
                error.to_string(),
                "mend what is named; see `piton config validate`",
            );
            show(ctx, &[finding])?;
            return Ok(Exit::Configuration);
        }
    };
    let config = &loaded.config;
    let file = loaded
        .file
        .as_ref()
        .map_or_else(|| "no file; defaults".to_owned(), |path| path.display().to_string());
    let mut findings = vec![good("configuration", file), clock(Clock::System.now())];
    findings.push(folder(&config.data_dir));
    findings.extend(disk(&config.data_dir));
    findings.push(keys(&config.data_dir));
    findings.push(store(ctx, &config.data_dir));
    findings.push(node(ctx, config).await);
    findings.push(models(config).await);
    show(ctx, &findings)?;
    let is_well = findings.iter().all(|finding| finding.state != State::Bad);
    Ok(if is_well { Exit::Ok } else { Exit::Failure })
}

fn show(ctx: &mut Context<'_>, findings: &[Finding]) -> std::io::Result<()> {
    let rows: Vec<Value> = findings
        .iter()
        .map(|Finding { what, state, said, mend }| {
            let state = match state {
                State::Good => "ok",
                State::Doubtful => "warning",
                State::Bad => "failed",
            };
            json!({"check": what, "state": state, "said": said, "mend": mend})
        })
        .collect();
    if ctx.output() == Output::Table {
        let cells = |row: &Value| {
            ["check", "state", "said", "mend"]
                .map(|name| print::escape(&print::field(row, name)))
                .to_vec()
        };
        let body: Vec<Vec<String>> = rows.iter().map(cells).collect();
        return print::table(
            ctx.out,
            ["CHECK", "STATE", "FOUND", "MEND"].map(str::to_owned).to_vec(),
            &body,
        );
    }
    print::list(ctx.out, ctx.global.output(), &Value::from(rows), &[])
}

fn clock(now: Instant) -> Finding {
    if now >= CLOCK_MIN {
        good("clock", "set")
    } else {
        bad("clock", "before 2026", "set the machine's clock; every event is stamped with it")
    }
}

fn folder(path: &Path) -> Finding {
    let said = path.display().to_string();
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return doubtful(
                "data folder",
                format!("{said} does not exist yet"),
                "`piton serve` makes it",
            );
        }
        Err(error) => {
            return bad("data folder", format!("{said}: {error}"), "mend the permissions above it");
        }
    };
    if !about.is_dir() {
        return bad("data folder", format!("{said} is not a folder"), "give another --data-dir");
    }
    if rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_err()
    {
        return bad(
            "data folder",
            format!("{said} can not be written"),
            "give it to the user that runs the node",
        );
    }
    let mode = about.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return good("data folder", said);
    }
    doubtful(
        "data folder",
        format!("{said} has mode {mode:04o}"),
        "chmod 700 it: others see what is in it",
    )
}

/// Nothing where the folder does not exist yet.
fn disk(path: &Path) -> Option<Finding> {
    let about = rustix::fs::statvfs(path).ok()?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    let said = format!("{} MiB free", free >> 20);
    Some(match free {
        0..FREE_BYTES_MIN => {
            bad("disk", said, "free space: the journal can not be written without it")
        }
        FREE_BYTES_MIN..FREE_BYTES_LOW => doubtful("disk", said, "free space soon"),
        FREE_BYTES_LOW.. => good("disk", said),
    })
}

fn keys(data_dir: &Path) -> Finding {
    for name in [CLI_KEY, "admin.hash", "admin.key"] {
        if let Err(error) = private::read(&data_dir.join(name), Readers::Owner) {
            return bad(
                "keys",
                chain(&error),
                "chmod 600 it, and issue new keys if somebody may have read it",
            );
        }
    }
    if data_dir.join("admin.key").exists() {
        let said = "admin.key still holds the administrator's key";
        return doubtful("keys", said, "keep the key elsewhere and remove the file");
    }
    good("keys", "private")
}

fn store(ctx: &mut Context<'_>, data_dir: &Path) -> Finding {
    let file = data_dir.join(JOURNAL);
    if !file.exists() {
        return doubtful("journal", "there is none yet", "`piton serve` makes it");
    }
    match journal::inspect(ctx, &file) {
        Ok(report) if report.problems_count == 0 => good(
            "journal",
            format!("{} commits of {} streams, all as written", report.commits, report.streams),
        ),
        Ok(report) => {
            let first = report.problems.first().map(ToString::to_string).unwrap_or_default();
            let said = format!("{} problems, the first: {first}", report.problems_count);
            bad(
                "journal",
                said,
                "copy the data folder as it is, then see `integrity` in the runbook",
            )
        }
        Err(error) => bad("journal", chain(&error), "see `piton journal verify`"),
    }
}

async fn node(ctx: &mut Context<'_>, config: &Config) -> Finding {
    let client = Client::find(ctx.global.url.as_deref(), &ctx.environment, &config.data_dir);
    let health = match client {
        Ok(client) => client.ask(Method::GET, Ask::at(&["health", "detailed"])).await,
        Err(error) => Err(error),
    };
    match health {
        Ok(health) if print::field(&health, "status") == "ok" => {
            good("node", "answers, and is well")
        }
        Ok(health) => {
            let said = format!("answers, and is {}", print::field(&health, "status"));
            doubtful("node", said, "look at /health/detailed")
        }
        Err(CliError::NotStarted(_) | CliError::NoNode { .. }) => {
            match TcpListener::bind(config.bind) {
                Ok(_free) => good("node", format!("none is running; {} is free", config.bind)),
                Err(error) => {
                    let said =
                        format!("none is running, and {} can not be bound: {error}", config.bind);
                    bad("node", said, "stop what listens there, or give another --bind")
                }
            }
        }
        Err(error) => bad("node", chain(&error), "see the runbook of the error, or the node's log"),
    }
}

async fn models(config: &Config) -> Finding {
    let found = detect::found(config).await;
    if found.is_empty() {
        let mend = "set OPENAI_API_KEY or PITON_OPENAI_BASE_URL; `piton serve --demo` needs none";
        return doubtful("models", "no key and no local runtime", mend);
    }
    good("models", found.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(finding: &Finding) -> State {
        finding.state
    }

    #[test]
    fn a_folder_is_judged_by_what_it_is_and_who_may_enter() {
        let home = tempfile::tempdir().unwrap();
        let mode =
            |mode| fs::set_permissions(home.path(), fs::Permissions::from_mode(mode)).unwrap();
        mode(0o700);
        assert_eq!(state(&folder(home.path())), State::Good);
        mode(0o755);
        assert_eq!(state(&folder(home.path())), State::Doubtful);
        assert_eq!(state(&folder(&home.path().join("none"))), State::Doubtful);
        let file = home.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(state(&folder(&file)), State::Bad);
    }

    #[test]
    fn a_key_that_others_may_read_is_a_fault_and_a_key_that_lies_about_a_warning() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(state(&keys(home.path())), State::Good);
        private::write(&home.path().join("admin.key"), "piton_admin_x").unwrap();
        assert_eq!(state(&keys(home.path())), State::Doubtful);
        let path = home.path().join(CLI_KEY);
        private::write(&path, "piton_cli_x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(state(&keys(home.path())), State::Bad);
    }

    #[test]
    fn a_clock_that_was_never_set_is_a_fault() {
        assert_eq!(state(&clock(Instant(0))), State::Bad);
        assert_eq!(state(&clock(Clock::System.now())), State::Good);
    }
}
