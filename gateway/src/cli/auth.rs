//! `piton auth` and `piton cluster rotate-key`: profiles of providers. A key is read from standard input or from a
//! variable that is named, never from an argument, and is not printed again.

mod login;

use super::arguments::{Auth, Import, Profile, Secret};
use super::client::{Ask, Client};
use super::context::Context;
use super::failure::CliError;
use super::print::{self, Column, field};
use crate::error::Exit;
use reqwest::Method;
use serde_json::{Map, Value, json};
use std::io::Read;
use store::vault::{CredentialFile, Vault, VaultError};

/// Bytes of the longest key that is read.
const KEY_BYTES_MAX: u64 = 8 << 10;

const PROFILES: [Column; 8] = [
    ("PROVIDER", |row| field(row, "provider")),
    ("PROFILE", |row| field(row, "name")),
    ("KIND", |row| field(row, "kind")),
    ("STATE", |row| field(row, "state")),
    ("REASON", |row| field(row, "reason")),
    ("NEXT TRY", |row| field(row, "next_try")),
    ("EXPIRES", |row| field(row, "expires")),
    ("ADDED BY", |row| field(row, "added_by")),
];

pub(super) async fn auth(ctx: &mut Context<'_>, verb: Auth) -> Result<Exit, CliError> {
    let loaded = ctx.load()?;
    let client = ctx.client_of(&loaded)?;
    match verb {
        Auth::Login(login) => login::login(ctx, &client, &loaded.config, login).await,
        Auth::Ls => list(ctx, &client).await,
        Auth::Add(secret) => keep(ctx, &client, "add", secret).await,
        Auth::Rotate(secret) => keep(ctx, &client, "rotate", secret).await,
        Auth::MarkDead(profile) => mark(ctx, &client, "mark_dead", &profile).await,
        Auth::Revive(profile) => mark(ctx, &client, "revive", &profile).await,
        Auth::Rm(Profile { provider, profile }) => {
            let mut ask = Ask::at(&["v1", "harness", "credentials"]);
            ask.query = vec![("provider", provider.clone()), ("profile", profile.clone())];
            client.ask(Method::DELETE, ask).await?;
            ctx.remark(&format!("removed {provider} {profile}"))?;
            Ok(Exit::Ok)
        }
        Auth::Import(import) if import.source.as_os_str() == "codex" => {
            login::import_codex(ctx, &client, import).await
        }
        Auth::Import(import) => imported(ctx, &client, &import).await,
    }
}

/// The profiles of all providers as rows of one list.
async fn list(ctx: &mut Context<'_>, client: &Client) -> Result<Exit, CliError> {
    let answer = client.ask(Method::GET, Ask::at(&["v1", "harness", "providers"])).await?;
    let mut rows: Vec<Value> = Vec::new();
    for provider in print::rows(&answer) {
        for profile in provider.get("profiles").and_then(Value::as_array).into_iter().flatten() {
            let mut row = profile.clone();
            if let Some(row) = row.as_object_mut() {
                row.insert("provider".to_owned(), Value::from(field(provider, "id")));
            }
            rows.push(row);
        }
    }
    let answer = json!({"object": "list", "data": rows});
    print::list(ctx.out, ctx.global.output(), &answer, &PROFILES)?;
    for row in
        print::rows(&answer).iter().filter(|row| row.get("mend").is_some_and(Value::is_string))
    {
        let (provider, profile) = (field(row, "provider"), field(row, "name"));
        ctx.remark(&format!("{provider} {profile}: {}", field(row, "mend")))?;
    }
    Ok(Exit::Ok)
}

async fn keep(
    ctx: &mut Context<'_>,
    client: &Client,
    action: &str,
    secret: Secret,
) -> Result<Exit, CliError> {
    let Secret { provider, profile, from_env } = secret;
    let key = match from_env {
        Some(name) => {
            let found = ctx.environment.get(&name).map(str::to_owned);
            found.ok_or_else(|| CliError::Usage(format!("the variable {name} is not set")))?
        }
        None => {
            ctx.prompt(&format!("key of {provider} {profile}, then end of file: "))?;
            let mut text = String::new();
            let read = std::io::stdin().lock().take(KEY_BYTES_MAX + 1).read_to_string(&mut text);
            let bytes = read
                .map_err(|error| CliError::Usage(format!("no key on standard input: {error}")))?;
            // A key that is cut would be kept, and fail later as a wrong one.
            if u64::try_from(bytes).unwrap_or(u64::MAX) > KEY_BYTES_MAX {
                let why = format!(
                    "standard input has more than {KEY_BYTES_MAX} bytes: give the key and nothing else"
                );
                return Err(CliError::Usage(why));
            }
            text
        }
    };
    let key = key.trim();
    if key.is_empty() {
        return Err(CliError::Usage("the key is empty: nothing was kept".to_owned()));
    }
    let given = Some(("key", Value::from(key)));
    let done = act(client, action, (&provider, &profile), given).await?;
    let verb = if action == "add" { "added" } else { "rotated" };
    ctx.remark(&format!("{verb} {provider} {profile}; its key is not shown again"))?;
    ctx.object(&done)?;
    Ok(Exit::Ok)
}

async fn mark(
    ctx: &mut Context<'_>,
    client: &Client,
    action: &str,
    profile: &Profile,
) -> Result<Exit, CliError> {
    let Profile { provider, profile } = profile;
    let done = act(client, action, (provider, profile), None).await?;
    ctx.object(&done)?;
    Ok(Exit::Ok)
}

async fn act(
    client: &Client,
    action: &str,
    (provider, profile): (&str, &str),
    given: Option<(&str, Value)>,
) -> Result<Value, CliError> {
    let mut ask = Ask::at(&["v1", "harness", "credentials"]);
    let mut body = json!({"action": action, "provider": provider, "profile": profile});
    if let (Some(body), Some((name, given))) = (body.as_object_mut(), given) {
        body.insert(name.to_owned(), given);
    }
    ask.body = Some(body);
    client.ask(Method::POST, ask).await
}

/// What is there already is left as it is, and said.
async fn imported(
    ctx: &mut Context<'_>,
    client: &Client,
    import: &Import,
) -> Result<Exit, CliError> {
    if import.follow || import.path.is_some() || import.profile.is_some() {
        let why = "--follow, --path and --profile go with `piton auth import codex`".to_owned();
        return Err(CliError::Usage(why));
    }
    let unread = |error: VaultError| CliError::Usage(crate::error::chain(&error));
    let file = Vault::File(CredentialFile::at(&import.source));
    let names = file.names().await.map_err(unread)?;
    let (mut added, mut kept) = (0, 0);
    for name in &names {
        let Some((provider, profile)) = name.credential() else { continue };
        let value = file.get(name).await.map_err(unread)?;
        let stored: Value = value
            .and_then(|kept| serde_json::from_slice(kept.value.expose()).ok())
            .unwrap_or_default();
        let Some(given) = given(stored) else {
            return Err(CliError::Usage(format!("{name} holds no key and no login")));
        };
        match act(client, "add", (provider, profile), Some(given)).await {
            Ok(_) => added += 1,
            Err(CliError::Api { code: Some(crate::error::Code::CredentialConflict), .. }) => {
                kept += 1;
            }
            Err(error) => return Err(error),
        }
    }
    ctx.remark(&format!("{added} added, {kept} were there already"))?;
    ctx.object(&json!({"added": added, "kept": kept}))?;
    Ok(Exit::Ok)
}

/// What a kept value is for the node: a key, a login, or a file to follow.
fn given(stored: Value) -> Option<(&'static str, Value)> {
    let Value::Object(mut stored) = stored else { return None };
    stored.remove("kind");
    if stored.contains_key("access_token") {
        return Some(("login", Value::Object(stored)));
    }
    let one = |stored: &mut Map<String, Value>, name| stored.remove(name).filter(Value::is_string);
    let key = one(&mut stored, "key").map(|key| ("key", key));
    key.or_else(|| Some(("follow", one(&mut stored, "path")?)))
}

pub(super) async fn rotate_key(ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let client = ctx.client()?;
    let mut ask = Ask::at(&["v1", "cluster", "rotate-key"]);
    ask.body = Some(json!({}));
    let done = client.ask(Method::POST, ask).await?;
    let droppable = done.get("droppable").and_then(Value::as_array).map_or(0, Vec::len);
    if droppable > 0 {
        ctx.remark("every value is sealed under the newest key: the lines of the droppable ones may be taken out of the cluster key file of every node")?;
    }
    ctx.object(&done)?;
    Ok(Exit::Ok)
}
