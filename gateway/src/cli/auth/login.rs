//! `piton auth login` and `piton auth import codex`: the tokens of an account, brought to the node.
//!
//! The command line speaks to the issuer and hands the tokens to the node as it hands over keys: in a body, to an
//! address that it would send a key to. Nothing of them is printed.

use super::super::arguments::{Import, Login};
use super::super::client::{Ask, Client};
use super::super::context::Context;
use super::super::failure::CliError;
use super::{act, given};
use crate::config::Config;
use crate::error::{Code, Exit, chain};
use actors::clock::Clock;
use actors::task;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Html;
use axum::routing::get;
use providers::login::{CALLBACK, Issuer, PORTS, Pkce, Polled, Rejected, Tokens};
use providers::registry;
use reqwest::Method;
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::private::{self, Readers};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use url::form_urlencoded;

/// How long a person has (15 min): as long as a code is of use.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// The file of Codex in its folder.
const CODEX_FILE: &str = "auth.json";
/// The provider that Codex's login is of.
const CODEX: &str = "openai-codex";

pub(super) async fn login(
    ctx: &mut Context<'_>,
    client: &Client,
    config: &Config,
    login: Login,
) -> Result<Exit, CliError> {
    let Login { provider, profile, browser, port } = login;
    let known = registry::provider(&provider);
    let provider = known.map_err(|error| CliError::Usage(error.to_string()))?.id;
    let own = config.providers.get(provider).and_then(|set| set.issuer_url.clone());
    let issuer = own.or_else(|| registry::issuer(provider)).ok_or_else(|| {
        CliError::Usage(format!("{provider} takes a key: `piton auth add {provider} {profile}`"))
    })?;
    // Nobody should log in for a node that is not there.
    client.ask(Method::GET, Ask::at(&["v1", "harness", "providers"])).await?;
    let asks = providers::Client::new().map_err(|error| CliError::Usage(chain(&error)))?;
    let ways = Ways { asks, issuer, ends: Instant::now() + PATIENCE };
    let tokens = if browser { ways.browser(ctx, port).await? } else { ways.device(ctx).await? };
    let done = brought(client, (provider, &profile), &tokens).await?;
    ctx.remark(&format!("logged in: {provider} {profile}; its tokens are not shown"))?;
    ctx.object(&done)?;
    Ok(Exit::Ok)
}

pub(super) async fn import_codex(
    ctx: &mut Context<'_>,
    client: &Client,
    import: Import,
) -> Result<Exit, CliError> {
    let profile = import.profile.unwrap_or_else(|| "codex".to_owned());
    let path = match import.path {
        Some(path) => path,
        None => usual(ctx)?,
    };
    if import.follow {
        let path = std::path::absolute(&path)
            .map_err(|error| CliError::Usage(format!("{}: {error}", path.display())))?;
        let given = ("follow", Value::from(path.display().to_string()));
        let done = put(client, (CODEX, &profile), given).await?;
        ctx.remark(&format!("{CODEX} {profile} follows {}", path.display()))?;
        ctx.object(&done)?;
        return Ok(Exit::Ok);
    }
    let tokens = copied(&path)?;
    let done = brought(client, (CODEX, &profile), &tokens).await?;
    ctx.remark(&format!(
        "copied to {CODEX} {profile}. Its refresh token is taken once: from now on it is this node's, and Codex must log in anew; use --follow to share one login"
    ))?;
    ctx.object(&done)?;
    Ok(Exit::Ok)
}

/// Where Codex keeps its login.
fn usual(ctx: &Context<'_>) -> Result<PathBuf, CliError> {
    let folder = match (ctx.environment.get("CODEX_HOME"), ctx.environment.get("HOME")) {
        (Some(folder), _) => PathBuf::from(folder),
        (None, Some(home)) => Path::new(home).join(".codex"),
        (None, None) => {
            let why = "neither CODEX_HOME nor HOME is set: name the file with --path".to_owned();
            return Err(CliError::Usage(why));
        }
    };
    Ok(folder.join(CODEX_FILE))
}

fn copied(path: &Path) -> Result<Tokens, CliError> {
    let text = private::read(path, Readers::Owner)?.ok_or_else(|| {
        let why = format!(
            "{} does not exist: run `codex login`, name the file with --path, or use `piton auth login {CODEX}`",
            path.display()
        );
        CliError::Usage(why)
    })?;
    Tokens::of_codex(&text).map_err(|error| CliError::Usage(format!("{}: {error}", path.display())))
}

/// Brings tokens to the node.
async fn brought(client: &Client, place: (&str, &str), tokens: &Tokens) -> Result<Value, CliError> {
    let value = serde_json::from_slice(&tokens.write()).unwrap_or_default();
    let given = given(value).ok_or_else(|| CliError::Usage("no login".to_owned()))?;
    put(client, place, given).await
}

/// Makes a profile, or puts it into the one that is there.
async fn put(
    client: &Client,
    place: (&str, &str),
    given: (&'static str, Value),
) -> Result<Value, CliError> {
    match act(client, "add", place, Some(given.clone())).await {
        Err(conflict @ CliError::Api { code: Some(Code::CredentialConflict), .. }) => {
            match act(client, "rotate", place, Some(given)).await {
                // No profile: the conflict says what is in the way, and the mend.
                Err(CliError::Api { code: Some(Code::NotFound), .. }) => Err(conflict),
                done => done,
            }
        }
        done => done,
    }
}

/// The two ways of a person to an account.
struct Ways {
    asks: providers::Client,
    issuer: Issuer,
    ends: Instant,
}

fn rejected(error: &Rejected) -> CliError {
    CliError::Login(error.to_string())
}

impl Ways {
    fn late() -> CliError {
        CliError::Login("nobody confirmed the login within 15 minutes: begin again".to_owned())
    }

    /// A code is entered in a browser of any machine.
    async fn device(&self, ctx: &mut Context<'_>) -> Result<Tokens, CliError> {
        let Self { asks, issuer, ends } = self;
        let device = asks.device(issuer).await.map_err(|error| rejected(&error))?;
        // Also when quiet: without it nobody can go on.
        writeln!(
            ctx.err,
            "Open {} in a browser of any machine, log in, and enter the code\n\n    {}\n\nIt is of use for 15 minutes. Give it to nobody: whoever asks you for it wants your account.",
            issuer.device_page(),
            device.user_code
        )?;
        loop {
            tokio::time::sleep(device.interval).await;
            match asks.poll(issuer, &device).await {
                Ok(Polled::Entered { code, pkce }) => {
                    let (redirect, now) = (issuer.device_callback(), Clock::System.now());
                    let tokens = asks.redeem(issuer, (&code, &pkce), &redirect, now).await;
                    return tokens.map_err(|error| rejected(&error));
                }
                Ok(Polled::Pending) if Instant::now() < *ends => {}
                Ok(Polled::Pending) => return Err(Self::late()),
                // A line that breaks, or an issuer that is asked too much, is no end for a moment.
                Err(error) if error.is_passing() && Instant::now() < *ends => {}
                Err(error) => return Err(rejected(&error)),
            }
        }
    }

    /// A browser of this machine comes back with a code.
    async fn browser(&self, ctx: &mut Context<'_>, port: Option<u16>) -> Result<Tokens, CliError> {
        let Self { asks, issuer, ends } = self;
        let listener = listen(port).await?;
        let port = listener.local_addr()?.port();
        let redirect = format!("http://localhost:{port}{CALLBACK}");
        let pkce = Pkce::of(&random()?);
        let state = hex(&random::<16>()?);
        let (back, mut came) = mpsc::channel(1);
        let expected = Expected { state: state.clone(), back };
        let routes = Router::new().route(CALLBACK, get(callback)).with_state(expected);
        let serves =
            task::spawn(task::Kind::Serve, async move { axum::serve(listener, routes).await });
        writeln!(
            ctx.err,
            "Open this address in a browser of this machine and log in:\n\n    {}\n",
            issuer.authorize(&redirect, &pkce, &state)
        )?;
        let said = timeout_at(*ends, came.recv()).await;
        let code = match said {
            Ok(Some(Back::Code(code))) => code,
            Ok(Some(Back::Error(words))) => {
                let why = format!("the issuer refused the login: {words}");
                return Err(CliError::Login(why));
            }
            Ok(None) | Err(_) => return Err(Self::late()),
        };
        let tokens = asks.redeem(issuer, (&code, &pkce), &redirect, Clock::System.now()).await;
        serves.abort();
        tokens.map_err(|error| rejected(&error))
    }
}

async fn listen(port: Option<u16>) -> Result<TcpListener, CliError> {
    let ports = port.map_or(PORTS.to_vec(), |port| vec![port]);
    let mut failed = None;
    for port in ports {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = Some((port, error)),
        }
    }
    let why = failed.map_or_else(String::new, |(port, error)| format!("port {port}: {error}"));
    Err(CliError::Login(format!(
        "the browser can not come back: {why}; stop what listens there, or log in without --browser"
    )))
}

fn random<const N: usize>() -> Result<[u8; N], CliError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|_| CliError::Login("the machine gives no random numbers".to_owned()))?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a browser came back with.
enum Back {
    Code(providers::Secret),
    Error(String),
}

#[derive(Clone)]
struct Expected {
    /// Only the browser that was sent from here knows it.
    state: String,
    back: mpsc::Sender<Back>,
}

async fn callback(
    State(expected): State<Expected>,
    RawQuery(query): RawQuery,
) -> (StatusCode, Html<&'static str>) {
    let query = query.unwrap_or_default();
    let said = |name: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(own, _)| own == name).map(|(_, value)| value.into_owned())
    };
    if said("state").as_deref() != Some(expected.state.as_str()) {
        let page = "<p>This is not the login that was begun here. Begin again.</p>";
        return (StatusCode::BAD_REQUEST, Html(page));
    }
    let (back, page) = match (said("code"), said("error")) {
        (Some(code), None) if !code.is_empty() => {
            let page = "<p>Logged in. Go back to the terminal: it says how it went on.</p>";
            (Back::Code(providers::Secret::new(code)), page)
        }
        (_, error) => {
            let error = error.unwrap_or_else(|| "no code came back".to_owned());
            let words: String = error.chars().filter(char::is_ascii_graphic).take(64).collect();
            (Back::Error(words), "<p>The issuer refused the login. The terminal says why.</p>")
        }
    };
    // A second one of the same login finds no place, and none is needed.
    let _first = expected.back.try_send(back);
    (StatusCode::OK, Html(page))
}
