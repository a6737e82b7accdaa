//! `piton run`: start, watch, check and stop runs of the node.

use super::arguments::{Events, Export, Ls, Output, Replay, Run, Start, Tail, Wait};
use super::chat::said;
use super::client::{Ask, Client, token};
use super::context::Context;
use super::failure::CliError;
use super::follow::{Follow, exit_of};
use super::own::{self, Reached};
use super::print::{self, Column, field, time};
use super::progress::Progress;
use super::sse;
use crate::error::Exit;
use reqwest::Method;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{BufRead, BufWriter, Write};
use std::time::Duration;

/// The longest wait for a run's end without `--timeout` (30 days): a run that is not over by then has an owner to ask.
const WAIT_MAX: Duration = Duration::from_secs(30 * 86_400);

const RUNS: [Column; 7] = [
    ("RUN", |run| field(run, "id")),
    ("STATUS", |run| field(run, "status")),
    ("REASON", |run| field(run, "reason")),
    ("MODEL", |run| field(run, "model")),
    ("CREATED", |run| time(&field(run, "created_at"))),
    ("TOKENS", |run| tokens(run)),
    ("USD", |run| field(run, "usage.cost_usd")),
];

fn tokens(run: &Value) -> String {
    let of = |name: &str| field(run, &format!("usage.{name}"));
    let both = [of("prompt_tokens"), of("completion_tokens")];
    if both.iter().all(String::is_empty) { String::new() } else { both.join("+") }
}

pub(super) async fn run(ctx: &mut Context<'_>, verb: Run) -> Result<Exit, CliError> {
    let reached = match &verb {
        Run::Start(_) => own::reach(ctx).await?,
        Run::Ls(_)
        | Run::Show(_)
        | Run::Wait(_)
        | Run::Tail(_)
        | Run::Events(_)
        | Run::Replay(_)
        | Run::Export(_)
        | Run::Resume(_)
        | Run::Stop(_) => Reached::running(ctx.client()?),
    };
    let done = act(ctx, &reached, verb).await;
    reached.leave().await;
    done
}

async fn act(ctx: &mut Context<'_>, reached: &Reached, verb: Run) -> Result<Exit, CliError> {
    let client = &reached.client;
    match verb {
        Run::Start(mut start) => {
            // A node that ends with this command is no place to leave a run at work.
            start.wait |= reached.is_own();
            begin(ctx, client, start).await
        }
        Run::Ls(ls) => list(ctx, client, ls).await,
        Run::Show(one) => show(ctx, client, &one.run).await.map(|_run| Exit::Ok),
        Run::Wait(wait) => until_over(ctx, client, wait).await,
        Run::Tail(tail) => follow(ctx, client, tail).await,
        Run::Events(events) => stored(ctx, client, events).await,
        Run::Replay(replay) => check(ctx, client, replay).await,
        Run::Export(export) => copy(ctx, client, export).await,
        Run::Stop(one) => order(ctx, client, &one.run, "stop").await,
        Run::Resume(one) => order(ctx, client, &one.run, "resume").await,
    }
}

/// What changes a run and has no body; the run as it is then.
async fn order(
    ctx: &mut Context<'_>,
    client: &Client,
    run: &str,
    verb: &str,
) -> Result<Exit, CliError> {
    let run = client.ask(Method::POST, Ask::at(&["v1", "runs", run, verb])).await?;
    told(ctx, &run)?;
    Ok(Exit::Ok)
}

async fn begin(ctx: &mut Context<'_>, client: &Client, start: Start) -> Result<Exit, CliError> {
    let Start { input, session, model, instructions, on_busy, idempotency_key, wait } = start;
    let mut body = Map::from_iter([("input".to_owned(), Value::from(said(&input)?))]);
    let chosen = [
        ("session_id", session),
        ("model", model),
        ("instructions", instructions),
        ("on_busy", on_busy),
    ];
    body.extend(
        chosen.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Value::from(value?)))),
    );
    let mut ask = Ask::at(&["v1", "runs"]);
    (ask.body, ask.idempotency_key) =
        (Some(Value::Object(body)), idempotency_key.or_else(|| Some(token())));
    let run = client.ask(Method::POST, ask).await?;
    if wait {
        ctx.remark(&format!("started {}", field(&run, "id")))?;
        return until_over(ctx, client, Wait { run: field(&run, "id"), timeout: None }).await;
    }
    told(ctx, &run)?;
    Ok(Exit::Ok)
}

/// Prints a run. Its sums by model, role and phase are tables of their own, which a table of fields has no place for.
fn told(ctx: &mut Context<'_>, run: &Value) -> std::io::Result<()> {
    if ctx.output() != Output::Table {
        return ctx.object(run);
    }
    let mut run = run.clone();
    if let Some(usage) = run.get_mut("usage").and_then(Value::as_object_mut) {
        usage.retain(|_, value| !value.is_array());
    }
    ctx.object(&run)
}

async fn list(ctx: &mut Context<'_>, client: &Client, ls: Ls) -> Result<Exit, CliError> {
    let Ls { state, session, limit, after } = ls;
    let chosen = [
        ("state", state),
        ("session_id", session),
        ("after", after),
        ("limit", Some(limit.to_string())),
    ];
    let mut ask = Ask::at(&["v1", "runs"]);
    ask.query = chosen.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let page = client.ask(Method::GET, ask).await?;
    print::list(ctx.out, ctx.global.output(), &page, &RUNS)?;
    let next = field(&page, "next");
    if !next.is_empty() && ctx.global.output() == Output::Table {
        ctx.remark(&format!("there are more: --after {next}"))?;
    }
    Ok(Exit::Ok)
}

async fn show(ctx: &mut Context<'_>, client: &Client, run: &str) -> Result<Value, CliError> {
    let run = client.ask(Method::GET, Ask::at(&["v1", "runs", run])).await?;
    told(ctx, &run)?;
    Ok(run)
}

async fn until_over(ctx: &mut Context<'_>, client: &Client, wait: Wait) -> Result<Exit, CliError> {
    let within = wait.timeout.map_or(WAIT_MAX, Duration::from_secs);
    let mut follow = Follow::new(client, &wait.run, None);
    let over = async {
        while let Some(event) = follow.next_event().await? {
            if let Some(remark) = waiting_for_somebody(&event) {
                ctx.remark(&remark)?;
            }
            if event.name == "tool.unknown" && stands_still(client, &wait.run).await? {
                break;
            }
        }
        Ok::<(), CliError>(())
    };
    match tokio::time::timeout(within, over).await {
        Ok(ended) => ended?,
        Err(_elapsed) => {
            let why = format!("{} is not over after {} s; it goes on", wait.run, within.as_secs());
            return Err(CliError::TimedOut(why));
        }
    }
    Ok(exit_of(&show(ctx, client, &wait.run).await?))
}

/// Whether nothing goes on before somebody has settled an outcome that nobody knows.
async fn stands_still(client: &Client, run: &str) -> Result<bool, CliError> {
    let run = client.ask(Method::GET, Ask::at(&["v1", "runs", run])).await?;
    Ok(field(&run, "status") == "needs_reconciliation")
}

/// What somebody has to do before a run goes on, with the command that does it.
fn waiting_for_somebody(event: &sse::Event) -> Option<String> {
    let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
    match event.name.as_str() {
        "tool.approval_requested" => {
            let (tool, id) = (field(&data, "name"), field(&data, "approval_id"));
            Some(format!("{tool} waits for an approval: piton approvals approve {id}"))
        }
        "tool.unknown" if !field(&data, "lease_until").is_empty() => Some(
            "the outcome of a call is unknown: piton tools invocations RUN, then piton tools abandon"
                .to_owned(),
        ),
        "run.paused" => {
            let (class, until) = (field(&data, "class"), field(&data, "until"));
            let when = if until.is_empty() { "piton run resume".to_owned() } else { until };
            Some(format!("a provider of a tool refuses ({class}); it goes on with: {when}"))
        }
        _ => None,
    }
}

async fn follow(ctx: &mut Context<'_>, client: &Client, tail: Tail) -> Result<Exit, CliError> {
    let mut follow = Follow::new(client, &tail.run, tail.from);
    let mut line = Line::Empty;
    while let Some(event) = follow.next_event().await? {
        match ctx.global.output() {
            Output::Json | Output::Jsonl => print::line(ctx.out, &as_json(&event))?,
            Output::Table => line = show_event(ctx.out, &event, line)?,
        }
        ctx.out.flush()?;
    }
    Ok(Exit::Ok)
}

fn as_json(event: &sse::Event) -> Value {
    let data: Value =
        serde_json::from_str(&event.data).unwrap_or_else(|_| Value::from(event.data.as_str()));
    json!({"id": event.id, "event": event.name, "data": data})
}

/// Where the cursor stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Empty,
    /// Behind text of an answer.
    Text,
}

/// Text runs on; any other event stands on a line of its own.
fn show_event(out: &mut dyn Write, event: &sse::Event, line: Line) -> std::io::Result<Line> {
    let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
    let text = data.get("text").and_then(Value::as_str);
    if let ("message.delta", Some(text)) = (event.name.as_str(), text) {
        write!(out, "{}", print::escape_text(text))?;
        return Ok(Line::Text);
    }
    if line == Line::Text {
        writeln!(out)?;
    }
    writeln!(out, "{}", summary(&event.id, &event.name, &data))?;
    Ok(Line::Empty)
}

/// One line of an event: its place, its name, and its short fields.
fn summary(id: &str, name: &str, data: &Value) -> String {
    let mut line = format!("{id:>6}  {name}");
    let fields = data.as_object().into_iter().flatten();
    for (key, value) in fields
        .filter(|(_, value)| !matches!(value, Value::Null | Value::Array(_) | Value::Object(_)))
    {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        line.push_str(&format!("  {key}={}", print::cut(&text)));
    }
    line
}

/// The events of the journal so far: unlike `tail`, it does not wait for more.
async fn stored(ctx: &mut Context<'_>, client: &Client, events: Events) -> Result<Exit, CliError> {
    let mut bytes = Vec::new();
    client.copy(Ask::at(&["v1", "runs", &events.run, "journal"]), &mut bytes, |_| {}).await?;
    for line in bytes.lines() {
        let commit: Value = parsed(&line?)?;
        broken_off(&commit)?;
        let entries =
            commit.get("entries").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for entry in entries {
            let version = entry.get("version").and_then(Value::as_u64).unwrap_or_default();
            if version <= events.from {
                continue;
            }
            let mut entry = entry.clone();
            if let Some(map) = entry.as_object_mut() {
                map.insert("at".to_owned(), commit.get("at").cloned().unwrap_or_default());
            }
            match ctx.global.output() {
                Output::Json | Output::Jsonl => print::line(ctx.out, &entry)?,
                Output::Table => {
                    let data = entry.get("data").cloned().unwrap_or_default();
                    let line = summary(&version.to_string(), &field(&entry, "event"), &data);
                    writeln!(ctx.out, "{}  {line}", field(&entry, "at"))?;
                }
            }
        }
    }
    Ok(Exit::Ok)
}

fn parsed(line: &str) -> Result<Value, CliError> {
    serde_json::from_str(line)
        .map_err(|error| CliError::Node(format!("a line of the journal is no JSON: {error}")))
}

/// A journal that the node could not read to its end says so in its last line.
fn broken_off(line: &Value) -> Result<(), CliError> {
    let Some(error) = line.get("error") else { return Ok(()) };
    let code = error.get("code").and_then(Value::as_str).and_then(crate::error::Code::named);
    let status =
        code.map_or(axum::http::StatusCode::INTERNAL_SERVER_ERROR, crate::error::Code::status);
    Err(CliError::Api { code, status, message: field(error, "message") })
}

async fn check(ctx: &mut Context<'_>, client: &Client, replay: Replay) -> Result<Exit, CliError> {
    let Replay { run, check: _, allow_logic } = replay;
    let report = client.ask(Method::POST, Ask::at(&["v1", "runs", &run, "replay"])).await?;
    ctx.object(&report)?;
    let is = |path: [&str; 2]| {
        path.iter()
            .filter(|name| !name.is_empty())
            .try_fold(&report, |at, name| at.get(name))
            .and_then(Value::as_bool)
    };
    let (ok, same) = (is(["ok", ""]) == Some(true), is(["logic", "same"]) == Some(true));
    if ok && !same {
        let of = |name: &str| field(&report, &format!("logic.{name}"));
        ctx.remark(&format!(
            "other logic: {} → {}; only the structure was checked",
            of("recorded"),
            of("here")
        ))?;
    }
    Ok(if ok && (same || allow_logic) { Exit::Ok } else { Exit::Integrity })
}

async fn copy(ctx: &mut Context<'_>, client: &Client, export: Export) -> Result<Exit, CliError> {
    let watched = ctx.watched();
    let Context { out, err, .. } = ctx;
    let mut ask = Ask::at(&["v1", "runs", &export.run, "journal"]);
    ask.within = Some(super::client::LONG);
    let mut progress = Progress::new(*err, watched, "export", "bytes");
    let at = |done: u64| progress.at(done, 0);
    match &export.out {
        None => {
            client.copy(ask, *out, at).await?;
        }
        Some(path) => {
            let failed =
                |source| CliError::File { what: "can not write", path: path.clone(), source };
            let mut file = BufWriter::new(File::create_new(path).map_err(failed)?);
            client.copy(ask, &mut file, at).await?;
            let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
            file.sync_all().map_err(failed)?;
        }
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str) -> sse::Event {
        sse::Event { id: "7".to_owned(), name: name.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn text_runs_on_and_events_stand_on_lines_of_their_own() {
        let mut out = Vec::new();
        let events = [
            event("model.asked", r#"{"call":0,"step":1,"x":null,"l":[1]}"#),
            event("message.delta", r#"{"text":"Hel"}"#),
            event("message.delta", r#"{"text":"lo\u001b[2J"}"#),
            event("run.completed", r#"{"outcome":"completed","detail":"a\nb"}"#),
        ];
        events.iter().fold(Line::Empty, |line, event| show_event(&mut out, event, line).unwrap());
        let expected = "     7  model.asked  call=0  step=1\nHello\\u{1b}[2J\n     7  run.completed  detail=a\\nb  outcome=completed\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_journal_that_breaks_off_is_an_error_with_its_code() {
        let line = json!({"error": {"code": "integrity", "message": "damaged at 0.7"}});
        let error = broken_off(&line).unwrap_err();
        assert_eq!((error.exit(), error.to_string().as_str()), (Exit::Integrity, "damaged at 0.7"));
        assert!(broken_off(&json!({"entries": []})).is_ok());
    }
}
