//! `piton providers`: who can be asked, with which models at which price, whether they answer, and how their profiles fare.

use super::arguments::{Output, Providers, ProvidersTest};
use super::client::{Ask, Client};
use super::context::Context;
use super::failure::CliError;
use super::print::{self, Column, field, rows};
use crate::error::Exit;
use providers::registry;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// Between two looks at a run that is waited for.
const LOOK: Duration = Duration::from_millis(100);
/// Looks at a run before it is left to itself: a minute of them.
const LOOKS_MAX: u32 = 600;
/// Tokens of the answer to a real call.
const OUTPUT_TOKENS: u64 = 16;

const PROVIDERS: [Column; 8] = [
    ("PROVIDER", |row| field(row, "id")),
    ("CONFIGURED", |row| field(row, "configured")),
    ("DEFAULT", |row| field(row, "default")),
    ("FAMILY", |row| field(row, "capabilities.family")),
    ("IMAGES", |row| field(row, "capabilities.images")),
    ("TOOLS MAX", |row| field(row, "capabilities.tools_max")),
    ("CACHE", |row| field(row, "capabilities.prompt_cache")),
    ("HEALTHY", healthy),
];
const MODELS: [Column; 8] = [
    ("MODEL", |row| field(row, "id")),
    ("CONTEXT", |row| field(row, "context_tokens_max")),
    ("OUTPUT MAX", |row| field(row, "output_tokens_max")),
    ("IN USD/M", |row| field(row, "input_usd_per_million")),
    ("OUT USD/M", |row| field(row, "output_usd_per_million")),
    ("CACHED USD/M", |row| field(row, "cached_input_usd_per_million")),
    ("BILLING", |row| field(row, "billing")),
    ("AS OF", |row| field(row, "as_of")),
];
const HEALTH: [Column; 7] = [
    ("PROVIDER", |row| field(row, "provider")),
    ("PROFILE", |row| field(row, "profile")),
    ("MODEL", |row| field(row, "model")),
    ("STATE", |row| field(row, "state")),
    ("REASON", |row| field(row, "reason")),
    ("NEXT TRY", |row| field(row, "next_try")),
    ("LAST ERROR", |row| field(row, "last_error")),
];
const LOOKED: [Column; 7] = [
    ("PROFILE", |row| field(row, "profile")),
    ("ASKED", |row| field(row, "asked")),
    ("OK", |row| field(row, "ok")),
    ("MS", |row| field(row, "latency_ms")),
    ("MODELS", |row| field(row, "models")),
    ("CLASS", |row| field(row, "class")),
    ("MESSAGE", |row| field(row, "message")),
];

fn part<'a>(row: &'a Value, name: &str) -> &'a [Value] {
    row.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// How many of how many profiles nothing is wrong with.
fn healthy(row: &Value) -> String {
    let profiles = part(row, "profiles");
    let well = |one: &&Value| field(one, "state") == "healthy" && part(one, "cooling").is_empty();
    match profiles.len() {
        0 => String::new(),
        all => format!("{}/{all}", profiles.iter().filter(well).count()),
    }
}

pub(super) async fn providers(ctx: &mut Context<'_>, verb: Providers) -> Result<Exit, CliError> {
    let client = ctx.client()?;
    match verb {
        Providers::Ls => {
            let answer = all(&client).await?;
            print::list(ctx.out, ctx.global.output(), &answer, &PROVIDERS)?;
            problems(ctx, &answer)?;
            Ok(Exit::Ok)
        }
        Providers::Models { provider } => {
            let mut ask = Ask::at(&["v1", "harness", "models"]);
            ask.query.extend(provider.map(|provider| ("provider", provider)));
            let answer = client.ask(Method::GET, ask).await?;
            print::list(ctx.out, ctx.global.output(), &answer, &MODELS)?;
            Ok(Exit::Ok)
        }
        Providers::Health => {
            let answer = all(&client).await?;
            let list: Vec<Value> = rows(&answer).iter().flat_map(health).collect();
            let list = json!({"object": "list", "count": list.len(), "data": list});
            print::list(ctx.out, ctx.global.output(), &list, &HEALTH)?;
            problems(ctx, &answer)?;
            Ok(Exit::Ok)
        }
        Providers::Test(ProvidersTest { provider, profile, call }) => match call {
            Some(model) => called(ctx, &client, &provider, &model).await,
            None => looked(ctx, &client, &provider, profile).await,
        },
    }
}

async fn all(client: &Client) -> Result<Value, CliError> {
    client.ask(Method::GET, Ask::at(&["v1", "harness", "providers"])).await
}

fn problems(ctx: &mut Context<'_>, answer: &Value) -> Result<(), CliError> {
    if ctx.output() == Output::Table {
        for problem in part(answer, "problems").iter().filter_map(Value::as_str) {
            ctx.remark(&format!("problem: {problem}"))?;
        }
    }
    Ok(())
}

/// A row for each profile, and one more for each of its models that is left alone.
fn health(provider: &Value) -> Vec<Value> {
    let id = field(provider, "id");
    let profiles = part(provider, "profiles");
    if profiles.is_empty() {
        let state = if provider.get("configured") == Some(&Value::Bool(true)) {
            "keyless"
        } else {
            "unconfigured"
        };
        return vec![json!({"provider": id, "model": "*", "state": state})];
    }
    let mut found = vec![];
    for profile in profiles {
        let of = |name: &str| profile.get(name).cloned().unwrap_or_default();
        found.push(json!({
            "provider": id, "profile": of("name"), "model": "*", "state": of("state"), "reason": of("reason"),
            "next_try": of("next_try"), "last_error": of("last_error"),
        }));
        for cooling in part(profile, "cooling").iter().filter(|one| field(one, "scope") == "model")
        {
            let said = |name: &str| cooling.get(name).cloned().unwrap_or_default();
            found.push(json!({
                "provider": id, "profile": of("name"), "model": said("model"), "state": "cooling",
                "reason": said("reason"), "next_try": said("next_try"), "last_error": of("last_error"),
            }));
        }
    }
    found
}

async fn looked(
    ctx: &mut Context<'_>,
    client: &Client,
    provider: &str,
    profile: Option<String>,
) -> Result<Exit, CliError> {
    let mut ask = Ask::at(&["v1", "harness", "providers", provider, "test"]);
    ask.body = Some(json!({"profile": profile}));
    let answer = client.ask(Method::POST, ask).await?;
    print::list(ctx.out, ctx.global.output(), &answer, &LOOKED)?;
    Ok(if nothing_fails(&answer) { Exit::Ok } else { Exit::ProvidersExhausted })
}

/// Whether no look failed. One that could not be had for nothing, of which the row says so, is no failure.
fn nothing_fails(answer: &Value) -> bool {
    rows(answer).iter().all(|row| row.get("ok") != Some(&Value::Bool(false)))
}

/// Whether it was this provider that served, whose name a person may have given by an alias. An answer of whoever stands
/// behind it says nothing good of the one that was meant.
fn is_its_own(served_by: &str, provider: &str) -> bool {
    let id = registry::provider(provider).map_or(provider, |known| known.id);
    served_by.strip_prefix(id).is_some_and(|rest| rest.starts_with(':'))
}

/// One real call. It is a run like any other, so its intent is in the journal before it leaves, and its cost after.
async fn called(
    ctx: &mut Context<'_>,
    client: &Client,
    provider: &str,
    model: &str,
) -> Result<Exit, CliError> {
    let name = format!("{provider}:{model}");
    let mut ask = Ask::at(&["v1", "runs"]);
    ask.body = Some(json!({
        "input": "Answer with the word ok.", "model": name, "enabled_tools": [], "max_steps": 1,
        "max_output_tokens": OUTPUT_TOKENS,
    }));
    let mut run = client.ask(Method::POST, ask).await?;
    let id = field(&run, "run_id");
    let began = tokio::time::Instant::now();
    for _ in 0..LOOKS_MAX {
        if !field(&run, "outcome").is_empty() {
            break;
        }
        tokio::time::sleep(LOOK).await;
        run = client.ask(Method::GET, Ask::at(&["v1", "runs", &id])).await?;
    }
    let served = field(&run, "served_by");
    let is_well = is_its_own(&served, provider);
    let latency = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let of = |name: &str| run.get(name).cloned().unwrap_or_default();
    let answer = json!({
        "provider": provider, "asked": name, "ok": is_well, "served_by": of("served_by"), "run_id": id,
        "outcome": of("outcome"), "class": of("class"), "message": of("detail"), "latency_ms": latency,
        "cost_usd": run.pointer("/usage/cost_usd"),
    });
    ctx.object(&answer)?;
    Ok(if is_well { Exit::Ok } else { Exit::ProvidersExhausted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_by_an_alias_is_served_by_the_provider_that_it_means() {
        assert!(is_its_own("gemini:gemini-3-flash", "google"));
        assert!(is_its_own("gemini:gemini-3-flash", "gemini"));
        assert!(!is_its_own("openai:gpt-6", "google"), "of whoever stands behind it");
        assert!(!is_its_own("gemini2:x", "gemini"));
    }

    #[test]
    fn a_look_that_could_not_be_had_is_no_failure() {
        let of = |all: &[Value]| json!({"data": all.iter().map(|ok| json!({"ok": ok})).collect::<Value>()});
        assert!(nothing_fails(&of(&[json!(null), json!(true)])));
        assert!(!nothing_fails(&of(&[json!(null), json!(false)])));
    }

    #[test]
    fn a_profile_is_a_row_and_so_is_each_model_of_it_that_cools() {
        let cooling =
            json!({"scope": "model", "model": "m", "reason": "rate_limited", "next_try": "t"});
        let whole =
            json!({"scope": "profile", "model": null, "reason": "billing", "next_try": "u"});
        let one = json!({"name": "a", "state": "cooling", "reason": "billing", "next_try": "u", "cooling": [whole, cooling]});
        let provider = json!({"id": "openai", "configured": true, "profiles": [one]});
        let rows = health(&provider);
        let seen: Vec<[String; 4]> = rows
            .iter()
            .map(|row| ["profile", "model", "state", "reason"].map(|name| field(row, name)))
            .collect();
        let expected = [["a", "*", "cooling", "billing"], ["a", "m", "cooling", "rate_limited"]];
        assert_eq!(seen, expected.map(|row| row.map(str::to_owned)));
        assert_eq!(healthy(&provider), "0/1");
        let none = json!({"id": "vllm", "configured": true, "profiles": []});
        assert_eq!(
            (field(&health(&none)[0], "state"), healthy(&none)),
            ("keyless".to_owned(), String::new())
        );
    }
}
