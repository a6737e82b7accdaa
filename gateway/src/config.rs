//! What a node is told: one value per setting, and for each where it came from.
//!
//! Flags win over the environment, the environment over the file, the file over the default. It guards against a
//! setting that somebody believes in and that is not in force: a misspelt key is an error that names the nearest one,
//! and `config show --origin` says who won. This is the only file that reads the process's environment.

mod environment;
mod file;
mod merge;
mod model;
pub mod nats;
mod nearest;
mod origin;
pub mod outbound;
mod preconditions;
mod provider;
mod retry;
mod routes;
mod rule;
mod secret;
mod show;
mod tools;
mod webhooks;

pub use environment::{Environment, variable};
pub use file::NAME as FILE_NAME;
pub use merge::Problem;
pub use model::{Model, NotAModel};
pub use nearest::nearest;
pub use origin::Origin;
pub use preconditions::Preconditions;
pub use retry::Retry;
pub use secret::Secret;
pub use show::Shown;
pub use webhooks::{HookEvent, Webhook};

use ::tools::Settings;
use actors::routing::Table;
use events::quantity::{MicroUsd, Millis, Tokens};
use file::Choice;
use merge::{Given, Reader};
use providers::Family;
use providers::login::Issuer;
use rule::Raw;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use url::Url;

/// Where the node keeps its things when nobody says otherwise.
const DATA_DIR: &str = "~/.piton";

/// The file of provider credentials in the data folder.
const CREDENTIALS: &str = "credentials.json";

/// The file to read and no other.
pub const CONFIG: &str = "PITON_CONFIG";
/// The administrator's key itself.
pub const ADMIN_KEY: &str = "PITON_ADMIN_KEY";
/// A file that holds the administrator's key.
pub const ADMIN_KEY_FILE: &str = "PITON_ADMIN_KEY_FILE";
/// Where the command line finds its node.
pub const URL: &str = "PITON_URL";
/// The key that the command line presents.
pub const API_KEY: &str = "PITON_API_KEY";

/// Variables of ours that are not settings.
const OTHERS: [&str; 6] = [CONFIG, ADMIN_KEY, ADMIN_KEY_FILE, URL, API_KEY, nats::PASSWORD];

/// What the command line says about the configuration.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    config: Option<PathBuf>,
    given: BTreeMap<&'static str, (&'static str, String)>,
}

impl Flags {
    /// Flags that set no key; `config` is the file to read and no other, where one was named.
    #[must_use]
    pub fn reading(config: Option<PathBuf>) -> Self {
        Self { config, given: BTreeMap::new() }
    }

    /// A flag that sets a key to a text.
    #[must_use]
    pub fn with(mut self, key: &'static str, flag: &'static str, value: String) -> Self {
        self.given.insert(key, (flag, value));
        self
    }

    fn given(&self, key: &str) -> Option<Given> {
        let (flag, value) = self.given.get(key)?;
        Some(Given { raw: Raw::Spoken(value.clone()), origin: Origin::Flag(flag) })
    }
}

/// A provider that this build can reach.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Its id.
    pub id: &'a str,
    /// Other names for it, which a file and a model may use.
    pub aliases: &'a [&'a str],
    /// The vendor's own variables that may hold its key, in the order in which they are tried. Names with a colon
    /// between them hold one key together.
    pub keys: &'a [&'a str],
    /// The vendor's own variables that may say its region; none where it has no regions.
    pub regions: &'a [&'a str],
}

/// Everything that a configuration is made of.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// What the command line says.
    pub flags: &'a Flags,
    /// What the process was told.
    pub environment: &'a Environment,
    /// The providers that this build knows.
    pub known: &'a [Known<'a>],
    /// The folder that the process was started in.
    pub here: &'a Path,
}

/// A configuration with its story.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What is in force.
    pub config: Config,
    /// Where each key that was set anywhere, or has a default, got its value from.
    pub origins: BTreeMap<String, Origin>,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
    /// What looks like a mistake but need not be one.
    pub warnings: Vec<String>,
}

/// What a node is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen.
    pub bind: SocketAddr,
    /// Where the journal, the read models and the keys are.
    pub data_dir: PathBuf,
    /// Who answers when a request names no model.
    pub default_model: Option<Model>,
    /// Who serves which role, and who stands behind.
    pub routes: Table,
    /// The file that routes were read from.
    pub model_routes_path: Option<PathBuf>,
    /// Bounds of what is accepted.
    pub limits: Limits,
    /// The cost of one run beyond which it is said so; `None` for never.
    pub run_spend_alert: Option<MicroUsd>,
    /// What a session said before and is sent again whole; older turns are folded.
    pub history: Tokens,
    /// Bounds of asking a provider again.
    pub retry: Retry,
    /// By id: every one that this build knows.
    pub providers: BTreeMap<String, Provider>,
    /// The file of provider credentials, where the journal is a file too.
    pub credentials_path: PathBuf,
    /// A 403 that speaks of the key ends a profile at once.
    pub dead_on_403: bool,
    /// What must hold before a tool call.
    pub preconditions: Preconditions,
    /// The cluster; without one the journal is a file in the data folder.
    pub nats: Option<nats::Nats>,
    /// What is ruled about tools.
    pub tools: Settings,
    /// Where tools may go, and who searches the web for them.
    pub outbound: outbound::Outbound,
    /// Programs that are told of what a person should know.
    pub webhooks: Vec<Webhook>,
    /// What is written to the log, and how.
    pub log: Log,
    /// A proxy with TLS stands in front, so that other addresses than loopback may be bound.
    pub behind_proxy: bool,
}

/// Bounds of what is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one request's body (8 MiB: a long history with a few images).
    pub max_body_bytes: usize,
    /// Runs at work at the same time (256).
    pub max_concurrent_runs: usize,
    /// Open client connections (1024).
    pub max_connections: usize,
    /// What a stopping node gives to the steps in flight (20 s).
    pub drain: Millis,
    /// How long a run of a session waits for its caller to run the caller's own tools.
    pub client_tool_wait: Millis,
    /// How long somebody may take to agree to a call; it is denied then (30 min).
    pub approval_timeout: Millis,
}

/// How one provider is reached.
#[derive(Debug, Clone)]
pub struct Provider {
    /// Another family than the provider's usual one.
    pub family: Option<Family>,
    /// Another address than the provider's usual one.
    pub base_url: Option<Url>,
    /// The variable that is to hold the key, when the usual ones are not meant.
    pub api_key_env: Option<String>,
    /// The key, if one of its variables is set.
    pub key: Option<Key>,
    /// The region that it is asked in, where it has regions.
    pub region: Option<String>,
    /// Another issuer of the tokens of its logins than the usual one.
    pub issuer_url: Option<Issuer>,
    /// Bound of one whole call.
    pub timeout: Millis,
    /// Headers that are added to each call, by lower-case name.
    pub headers: BTreeMap<String, Secret>,
}

/// A provider's key and the variable that it was found in.
#[derive(Debug, Clone)]
pub struct Key {
    /// The variable's name.
    pub variable: String,
    /// What it holds.
    pub secret: Secret,
}

/// What is written to the log, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// For people or for programs.
    pub format: Format,
    /// A level, or a filter by target.
    pub level: String,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Everything that is wrong, so that one look mends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(pub Vec<Problem>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl Environment {
    /// The process's own. Called once, at the start.
    #[must_use]
    pub fn read() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the one place that reads the environment"
        )]
        let all = std::env::vars_os();
        // What is not UTF-8 can not be a setting; a name that is ours is kept, so that its value is refused by name.
        Self::of(all.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        }))
    }
}

/// Merges the sources into a configuration.
///
/// # Errors
///
/// Every fault of every source at once: unknown keys, wrong values, a named file that is missing, an address that
/// other machines could reach.
pub fn load(sources: &Sources<'_>) -> Result<Loaded, ConfigError> {
    let fail = |problem| ConfigError(vec![problem]);
    let Sources { flags, environment, known, here } = *sources;
    let home = environment.get("HOME").map(Path::new);
    let mut before = Reader::new(BTreeMap::new(), environment, flags);
    let Some(found_through) = before.take_or("data_dir", DATA_DIR, rule::folder(home)) else {
        return Err(ConfigError(before.problems));
    };
    let beside_data = found_through.join(FILE_NAME);
    let choice = match (&flags.config, environment.get(CONFIG)) {
        (Some(path), _) => Choice::Named(path.clone(), Origin::Flag("--config")),
        (None, Some(path)) => Choice::Named(path.into(), Origin::Environment(CONFIG.to_owned())),
        (None, None) => Choice::First(vec![here.join(FILE_NAME), beside_data.clone()]),
    };
    let file::Found { path: file, keys } = file::read(&choice).map_err(fail)?;
    let mut reader = Reader::new(keys, environment, flags);
    let config = read(&mut reader, home, known);
    reader.refuse_the_rest();
    if let Some(config) = &config {
        check(config, &mut reader);
        if file.as_ref() == Some(&beside_data) && config.data_dir != found_through {
            let at = reader.origin("data_dir");
            reader.problems.push(Problem::Elsewhere { at });
        }
    }
    match config {
        Some(config) if reader.problems.is_empty() => {
            let keys: Vec<String> =
                known.iter().map(|known| provider::key_variable(known.id)).collect();
            let others: Vec<&str> = OTHERS
                .into_iter()
                .chain(keys.iter().map(String::as_str))
                .chain(preconditions::variables(environment))
                .collect();
            let mut warnings = reader.doubtful_variables(&others);
            warnings.extend(routes::doubtful(&config.routes));
            Ok(Loaded { config, origins: reader.origins, file, warnings })
        }
        Some(_) | None => Err(ConfigError(reader.problems)),
    }
}

/// Asks for every key. None when one of them is wrong.
fn read(reader: &mut Reader<'_>, home: Option<&Path>, known: &[Known<'_>]) -> Option<Config> {
    let bind = reader.take_or("bind", "127.0.0.1:7486", rule::address);
    let data_dir = reader.take_or("data_dir", DATA_DIR, rule::folder(home));
    let mut default_model = reader.take("default_model", rule::model);
    if let Some(model) = &mut default_model {
        match known
            .iter()
            .find(|known| known.id == model.provider || known.aliases.contains(&&*model.provider))
        {
            Some(known) => known.id.clone_into(&mut model.provider),
            None => {
                let at = reader.origin("default_model");
                let problem = provider::unknown(at, &model.provider, known);
                reader.problems.push(problem);
            }
        }
    }
    let max_body_bytes =
        reader.take_or("limits.max_body_bytes", "8388608", rule::count(1_024, 1 << 30, "bytes"));
    let max_concurrent_runs =
        reader.take_or("limits.max_concurrent_runs", "256", rule::count(1, 1_000_000, "runs"));
    let max_connections =
        reader.take_or("limits.max_connections", "1024", rule::count(1, 1_000_000, "connections"));
    let drain = reader.take_or("limits.drain_seconds", "20", rule::seconds(0, 3_600));
    let client_tool_wait =
        reader.take_or("limits.client_tool_wait_seconds", "600", rule::seconds(1, 86_400));
    let approval_timeout =
        reader.take_or("approval_timeout_seconds", "1800", rule::seconds(1, 2_592_000));
    let retry = retry::read(reader);
    let format = reader.take_or("log.format", "text", rule::format);
    let level = reader.take_or("log.level", "info", rule::level);
    let behind_proxy = reader.take_or("behind_proxy", "false", rule::switch);
    let credentials_path = reader.take("credentials_path", rule::folder(home));
    let dead_on_403 = reader.take_or("dead_on_403", "false", rule::switch);
    let run_spend_alert = reader.take_or("run_spend_alert_usd", "5", rule::dollars);
    let history = reader.take_or("history_tokens", "12000", rule::tokens(500, 100_000_000));
    let (nats, outbound) = (nats::read(reader), outbound::read(reader));
    let webhooks = webhooks::read(reader);
    let tools = tools::read(reader);
    let (providers, preconditions) = (provider::read(reader, known), preconditions::read(reader));
    let (routes, model_routes_path) = routes::read(reader, known, home);
    Some(Config {
        bind: bind?,
        credentials_path: credentials_path.unwrap_or(data_dir.as_ref()?.join(CREDENTIALS)),
        dead_on_403: dead_on_403?,
        data_dir: data_dir?,
        default_model,
        routes,
        model_routes_path,
        limits: Limits {
            max_body_bytes: max_body_bytes?,
            max_concurrent_runs: max_concurrent_runs?,
            max_connections: max_connections?,
            drain: drain?,
            client_tool_wait: client_tool_wait?,
            approval_timeout: approval_timeout?,
        },
        retry: retry?,
        run_spend_alert: run_spend_alert?,
        history: history?,
        providers,
        preconditions,
        nats,
        tools: tools?,
        outbound,
        webhooks,
        log: Log { format: format?, level: level? },
        behind_proxy: behind_proxy?,
    })
}

/// Rules between keys.
fn check(config: &Config, reader: &mut Reader<'_>) {
    if !config.bind.ip().is_loopback() && !config.behind_proxy {
        let at = reader.origin("bind");
        reader.problems.push(Problem::Exposed { at, bind: config.bind });
    }
    if config.retry.retry_base > config.retry.retry_cap {
        reader.problems.push(Problem::Wrong {
            at: reader.origin("retry.retry_base_ms"),
            key: "retry.retry_base_ms".to_owned(),
            value: config.retry.retry_base.0.to_string(),
            rule: "give at most retry.retry_cap_ms".to_owned(),
        });
    }
}

#[cfg(test)]
mod tests;
