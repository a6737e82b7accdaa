//! `piton scripted`: plays the providers of a script until it is told to stop, and says how a node is pointed at them.

use super::arguments::{Output, Scripted};
use super::context::Context;
use super::failure::CliError;
use super::serve::Signals;
use crate::error::{Exit, chain};
use crate::scripted::{self, Playing, Script};
use providers::Family;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::path::Path;

/// Bytes of the largest script that is read: 1 MiB.
const BYTES_MAX: u64 = 1 << 20;

pub(super) async fn scripted(ctx: &mut Context<'_>, typed: Scripted) -> Result<Exit, CliError> {
    let Scripted { script, listen, check } = typed;
    let mut script = match &script {
        Some(path) => read(path)?,
        None => Script::talking(),
    };
    if check {
        ctx.remark("the script is as it should be")?;
        return Ok(Exit::Ok);
    }
    let anywhere = |address: &SocketAddr| address.ip().is_loopback() && address.port() == 0;
    let mut unsaid = script.providers.iter_mut().filter(|one| anywhere(&one.listen));
    if let Some(first) = unsaid.next() {
        first.listen = listen;
    }
    // One port is one provider's; the others get free ones of the same address.
    unsaid.for_each(|one| one.listen = SocketAddr::new(listen.ip(), 0));
    let failed = |error: io::Error| {
        CliError::Node(format!("the script can not be played: {}", chain(&error)))
    };
    let mut signals = Signals::listen().map_err(failed)?;
    let playing = scripted::start(&script).await.map_err(failed)?;
    say(ctx, &playing.providers)?;
    signals.next().await;
    playing.stop();
    Ok(Exit::Ok)
}

fn read(path: &Path) -> Result<Script, CliError> {
    let failed = |source| CliError::File { what: "cannot read", path: path.to_owned(), source };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if u64::try_from(read).unwrap_or(u64::MAX) > BYTES_MAX {
        let words =
            format!("{} has more than {BYTES_MAX} bytes: make two scripts of it", path.display());
        return Err(CliError::Usage(words));
    }
    Script::read(&text)
        .map_err(|error| CliError::Usage(format!("{}: {}", path.display(), chain(&error))))
}

/// The setting that points a node at a wire: a provider's id of this family, and what its name needs besides.
const fn pointed(family: Family) -> (&'static str, &'static [(&'static str, &'static str)]) {
    match family {
        Family::OpenaiChat => ("PITON_OPENAI_BASE_URL", &[("OPENAI_API_KEY", "any")]),
        Family::AnthropicMessages => ("PITON_ANTHROPIC_BASE_URL", &[("ANTHROPIC_API_KEY", "any")]),
        Family::Gemini => ("PITON_GEMINI_BASE_URL", &[("GEMINI_API_KEY", "any")]),
        Family::Bedrock => {
            let more = &[("AWS_BEARER_TOKEN_BEDROCK", "any"), ("AWS_REGION", "eu-west-1")];
            ("PITON_BEDROCK_BASE_URL", more)
        }
        Family::OpenaiResponses => {
            let more = &[("OPENAI_API_KEY", "any"), ("PITON_OPENAI_FAMILY", "openai_responses")];
            ("PITON_OPENAI_BASE_URL", more)
        }
    }
}

fn say(ctx: &mut Context<'_>, providers: &[Playing]) -> io::Result<()> {
    if ctx.output() != Output::Table {
        let wires = |one: &Playing| -> serde_json::Map<String, Value> {
            let families = one.families().into_iter();
            families.map(|family| (family.name().to_owned(), one.base_url(family).into())).collect()
        };
        let all: Vec<Value> = providers
            .iter()
            .map(|one| json!({"name": one.name, "address": one.address.to_string(), "base_urls": wires(one)}))
            .collect();
        ctx.object(&json!({"providers": all}))?;
        return ctx.out.flush();
    }
    for one in providers {
        writeln!(ctx.out, "{} plays at http://{}", one.name, one.address)?;
        for family in one.families() {
            let (variable, more) = pointed(family);
            let more: Vec<String> =
                more.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let url = one.base_url(family);
            writeln!(ctx.out, "  {:<20} {variable}={url} {}", family.name(), more.join(" "))?;
        }
    }
    ctx.remark("stop it with Ctrl-C; any key will do")?;
    ctx.out.flush()
}
