//! What could answer: keys in the environment, addresses in the configuration, runtimes on this machine.

use crate::config::Config;
use providers::registry::{self, KeyNeed};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

/// Longest wait for a connection to a runtime on this machine (200 ms).
const CONNECT: Duration = Duration::from_millis(200);

/// What could answer, each with the reason, for people. It does not say that a key is good.
pub(super) async fn found(config: &Config) -> Vec<String> {
    let mut found = Vec::new();
    for (id, provider) in &config.providers {
        if let Some(key) = &provider.key {
            found.push(format!("{id}: {} is set", key.variable));
        } else if let Some(url) = &provider.base_url {
            found.push(format!("{id}: its address is {url}"));
        }
    }
    let local = registry::providers().filter(|one| one.key == KeyNeed::Optional);
    for (id, address) in local.filter_map(|one| Some((one.id, one.base_url?))) {
        if answers(address).await {
            found.push(format!("{id}: something listens at {address}"));
        }
    }
    found
}

async fn answers(address: &str) -> bool {
    let Ok(url) = address.parse::<Url>() else { return false };
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return false;
    };
    let connected = timeout(CONNECT, TcpStream::connect((host, port))).await;
    matches!(connected, Ok(Ok(_)))
}
