//! What is in force, as rows of key, value and origin. A secret is said to be set and never shown.

use super::file::segment;
use super::nats::Nats;
use super::{Config, Format, Loaded, Origin, Provider};
use events::model_call::OnPolicy;
use events::quantity::Millis;

/// One setting as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Its dotted name.
    pub key: String,
    /// Its value as the file would spell it, without quotes; empty when it is not set.
    pub value: String,
    /// Who said so.
    pub origin: Origin,
}

impl Loaded {
    /// Every setting with its origin, in the order of the documentation. Of the providers only what somebody set.
    #[must_use]
    pub fn rows(&self) -> Vec<Shown> {
        let mut rows: Vec<Shown> = scalars(&self.config)
            .into_iter()
            .map(|(key, value)| self.row(key.to_owned(), value))
            .collect();
        let routes =
            super::routes::spoken(&self.config.routes, self.config.model_routes_path.as_deref());
        rows.extend(routes.into_iter().map(|(key, value)| self.row(key, value)));
        rows.extend(self.config.routes.environment.iter().map(|(role, target)| Shown {
            key: format!("route {role}"),
            value: target.to_string(),
            origin: Origin::Environment(format!("{}{role}", super::routes::PREFIX)),
        }));
        let tools = super::tools::spoken(&self.config.tools).into_iter();
        rows.extend(tools.map(|(key, value)| self.row(key, value)));
        let spoken = self.config.preconditions.spoken();
        rows.extend(spoken.into_iter().map(|(key, value)| self.row(key, value)));
        rows.extend(self.config.preconditions.surfaces.read_only.iter().filter_map(|gate| {
            let variable = events::gate::variable(gate)?;
            let (key, value) = (format!("gate {gate}"), "read-only".to_owned());
            Some(Shown { key, value, origin: Origin::Environment(variable) })
        }));
        let cluster = self.config.nats.iter().flat_map(Nats::spoken);
        rows.extend(cluster.map(|(key, value)| self.row(key.to_owned(), value)));
        let outbound = self.config.outbound.spoken().into_iter();
        rows.extend(outbound.map(|(key, value)| self.row(key.to_owned(), value)));
        let hooks = (0_usize..).zip(&self.config.webhooks);
        let hooks = hooks.map(|(place, hook)| (format!("webhooks.{place}.url"), hook.spoken()));
        rows.extend(hooks.map(|(key, value)| self.row(key, value)));
        for (id, provider) in &self.config.providers {
            let table = format!("providers.{}", segment(id));
            let spoken = of_provider(provider).into_iter();
            let spoken = spoken.map(|(key, value)| self.row(format!("{table}.{key}"), value));
            rows.extend(spoken.filter(|row| row.origin != Origin::Default));
            rows.extend(provider.key.iter().map(|key| Shown {
                key: format!("{table} key"),
                value: "set".to_owned(),
                origin: Origin::Environment(key.variable.clone()),
            }));
        }
        rows
    }

    fn row(&self, key: String, value: String) -> Shown {
        let origin = self.origins.get(&key).cloned().unwrap_or(Origin::Default);
        Shown { key, value, origin }
    }
}

fn scalars(config: &Config) -> Vec<(&'static str, String)> {
    let Config { bind, data_dir, default_model, limits, retry, log, behind_proxy, .. } = config;
    let credentials_path = config.credentials_path.display().to_string();
    let format = match log.format {
        Format::Text => "text",
        Format::Json => "json",
    };
    vec![
        ("bind", bind.to_string()),
        ("data_dir", data_dir.display().to_string()),
        ("default_model", default_model.as_ref().map_or_else(String::new, ToString::to_string)),
        ("behind_proxy", behind_proxy.to_string()),
        ("credentials_path", credentials_path),
        ("dead_on_403", config.dead_on_403.to_string()),
        ("approval_timeout_seconds", seconds(limits.approval_timeout)),
        ("limits.max_body_bytes", limits.max_body_bytes.to_string()),
        ("limits.max_concurrent_runs", limits.max_concurrent_runs.to_string()),
        ("limits.max_connections", limits.max_connections.to_string()),
        ("limits.drain_seconds", seconds(limits.drain)),
        ("limits.client_tool_wait_seconds", seconds(limits.client_tool_wait)),
        (
            "run_spend_alert_usd",
            config.run_spend_alert.map_or_else(|| "0".to_owned(), |alert| alert.to_string()),
        ),
        ("history_tokens", config.history.0.to_string()),
        ("retry.api_max_retries", retry.api_max_retries.to_string()),
        ("retry.retry_base_ms", retry.retry_base.0.to_string()),
        ("retry.retry_cap_ms", retry.retry_cap.0.to_string()),
        ("retry.retry_wait_max_seconds", seconds(retry.retry_wait_max)),
        ("retry.fallback_on_policy", (retry.on_policy == OnPolicy::Fall).to_string()),
        ("log.format", format.to_owned()),
        ("log.level", log.level.clone()),
    ]
}

fn of_provider(provider: &Provider) -> Vec<(String, String)> {
    let Provider { family, base_url, api_key_env, key: _, region, issuer_url, timeout, headers } =
        provider;
    let mut rows = vec![
        ("family".to_owned(), family.map_or_else(String::new, |family| family.name().to_owned())),
        ("base_url".to_owned(), base_url.as_ref().map_or_else(String::new, ToString::to_string)),
        ("api_key_env".to_owned(), api_key_env.clone().unwrap_or_default()),
        ("timeout_seconds".to_owned(), seconds(*timeout)),
    ];
    rows.extend(issuer_url.iter().map(|url| ("issuer_url".to_owned(), url.to_string())));
    rows.extend(region.iter().map(|region| ("region".to_owned(), region.clone())));
    rows.extend(headers.keys().map(|name| (format!("headers.{name}"), "set".to_owned())));
    rows
}

fn seconds(millis: Millis) -> String {
    (millis.0 / 1_000).to_string()
}
