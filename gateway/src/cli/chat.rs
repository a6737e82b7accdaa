//! `piton chat`: a turn is a run of a session, so that a chat outlives this process and its node.
//!
//! On a terminal the answer is shown while it comes. In a pipe only the whole answer is printed: part of an attempt that
//! died must not end up in somebody's file.

use super::arguments::{Chat, Output};
use super::client::{Ask, Client, token};
use super::context::Context;
use super::failure::CliError;
use super::follow::{Follow, Seen, exit_of};
use super::own;
use super::print;
use crate::error::Exit;
use actors::entropy::Entropy;
use events::id::{Partition, Place, SessionId};
use reqwest::Method;
use serde_json::{Value, json};
use std::io::{BufRead, Read};

/// Bytes of the longest text that is read from standard input (1 MiB): the node takes 8 by default, with a history.
const INPUT_BYTES_MAX: u64 = 1 << 20;

pub(super) async fn chat(ctx: &mut Context<'_>, chat: Chat) -> Result<Exit, CliError> {
    let reached = own::reach(ctx).await?;
    let done = match &chat.once {
        Some(text) => match said(text) {
            Ok(text) => turn(ctx, &reached.client, &chat, chat.session.as_deref(), &text).await,
            Err(error) => Err(error),
        },
        None => conversation(ctx, &reached.client, &chat).await,
    };
    reached.leave().await;
    done
}

/// Line by line until the input ends. A turn that failed is said, and the next line is read.
async fn conversation(
    ctx: &mut Context<'_>,
    client: &Client,
    chat: &Chat,
) -> Result<Exit, CliError> {
    let session = chat.session.clone().unwrap_or_else(new_session);
    ctx.remark(&format!("session {session}; an empty line or the end of the input ends the chat"))?;
    let mut exit = Exit::Ok;
    loop {
        ctx.prompt("> ")?;
        let mut line = String::new();
        let read = std::io::stdin().lock().take(INPUT_BYTES_MAX).read_line(&mut line);
        read.map_err(|source| unread("standard input", source))?;
        if line.trim().is_empty() {
            return Ok(exit);
        }
        exit = turn(ctx, client, chat, Some(&session), line.trim()).await?;
    }
}

async fn turn(
    ctx: &mut Context<'_>,
    client: &Client,
    chat: &Chat,
    session: Option<&str>,
    text: &str,
) -> Result<Exit, CliError> {
    let mut body = json!({"input": text});
    if let Some(map) = body.as_object_mut() {
        let chosen = [("session_id", session), ("model", chat.model.as_deref())];
        map.extend(
            chosen
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), Value::from(value?)))),
        );
    }
    let mut ask = Ask::at(&["v1", "runs"]);
    (ask.body, ask.idempotency_key) = (Some(body), Some(token()));
    let run = print::field(&client.ask(Method::POST, ask).await?, "id");
    let screen = watch(ctx, client, &run).await?;
    let end = client.ask(Method::GET, Ask::at(&["v1", "runs", &run])).await?;
    show(ctx, &end, screen)?;
    let exit = exit_of(&end);
    if exit != Exit::Ok {
        let why = [print::field(&end, "reason"), print::field(&end, "detail")].join(" ");
        writeln!(
            ctx.err,
            "the run {run} {}: {}",
            print::field(&end, "status"),
            print::escape(why.trim())
        )?;
    }
    Ok(exit)
}

/// What a person sees of the answer so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Screen {
    Nothing,
    Whole,
    /// Some of it was not received.
    Part,
}

/// Prints what of the answer is not on the screen yet.
fn show(ctx: &mut Context<'_>, end: &Value, screen: Screen) -> std::io::Result<()> {
    let output = ctx.output();
    if output != Output::Table {
        return print::object(ctx.out, output, end);
    }
    let text = print::field(end, "output");
    match screen {
        Screen::Whole => writeln!(ctx.out),
        Screen::Part => writeln!(ctx.out, "\n{}", print::escape_text(&text)),
        Screen::Nothing if ctx.out_is_terminal => {
            writeln!(ctx.out, "{}", print::escape_text(&text))
        }
        // A file gets what the model said, byte for byte.
        Screen::Nothing => writeln!(ctx.out, "{text}"),
    }
}

/// Follows a run to its end, and shows its text to a person while it comes.
async fn watch(ctx: &mut Context<'_>, client: &Client, run: &str) -> Result<Screen, CliError> {
    let live = ctx.output() == Output::Table && ctx.out_is_terminal;
    let mut follow = Follow::new(client, run, None);
    let mut screen = Screen::Nothing;
    while let Some(seen) = follow.next().await? {
        let (said, next) = match (seen, screen) {
            (Seen::Text(text), Screen::Part) => (print::escape_text(&text), Screen::Part),
            (Seen::Text(text), _) => (print::escape_text(&text), Screen::Whole),
            (Seen::Discarded, Screen::Whole | Screen::Part) => (
                "\n(that attempt was lost; the model is asked again)\n".to_owned(),
                Screen::Nothing,
            ),
            (Seen::Gap, _) => ("\n(part of the text was not received)\n".to_owned(), Screen::Part),
            (Seen::Discarded, Screen::Nothing) | (Seen::Event(_), _) => continue,
        };
        if live {
            write!(ctx.out, "{said}")?;
            ctx.out.flush()?;
            screen = next;
        }
    }
    Ok(screen)
}

/// A text, or what standard input has when it is `-`.
pub(super) fn said(text: &str) -> Result<String, CliError> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut read = String::new();
    let bytes = std::io::stdin().lock().take(INPUT_BYTES_MAX + 1).read_to_string(&mut read);
    let bytes = bytes.map_err(|source| unread("standard input", source))?;
    if u64::try_from(bytes).unwrap_or(u64::MAX) > INPUT_BYTES_MAX {
        return Err(CliError::Usage(format!(
            "standard input has more than {INPUT_BYTES_MAX} bytes"
        )));
    }
    Ok(read)
}

fn unread(path: &str, source: std::io::Error) -> CliError {
    CliError::File { what: "can not read", path: path.into(), source }
}

fn new_session() -> String {
    let drawn = Entropy::System.draw();
    let [first, ..] = drawn.to_le_bytes();
    let place = Place { partition: Partition::of(u64::from(first)), ..Place::default() };
    SessionId::new(place, drawn).to_string()
}
