//! One message on its way: signed anew at each try, with a bound on its time, followed nowhere, its answer not read.

use super::address::{Open, may};
use super::pick::Delivery;
use super::sign::signature;
use crate::config::{Secret, Webhook};
use events::quantity::Instant;
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use std::time::Duration;
use url::Url;

/// How long a receiver may take to answer (10 s): it should take a message in and work on it later.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a connection may take to be there.
const CONNECT: Duration = Duration::from_secs(5);
/// The header with the time and the signature.
pub(super) const SIGNATURE: &str = "Piton-Signature";
/// The header with the word of the event.
const EVENT: &str = "Piton-Event";
/// The header with the id of the message; a repeat has the same.
const DELIVERY: &str = "Piton-Delivery";

/// It was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotSent {
    /// The receiver says that it never will.
    #[error("it answers {0}")]
    Refused(StatusCode),
    /// The receiver says that it can not now.
    #[error("it answers {0}")]
    Busy(StatusCode),
    /// It was not reached, or did not answer. The address, which may be as good as a key, is not in it.
    #[error("{0}")]
    Unreached(String),
    /// It may not be reached.
    #[error("its address is private: set allow_private = true for a receiver of your own network")]
    Private,
}

/// Sends to one webhook.
#[derive(Debug)]
pub(super) struct Sender {
    http: reqwest::Client,
    url: Url,
    secret: Secret,
    allow_private: bool,
}

impl Sender {
    pub(super) fn new(hook: &Webhook, secret: &Secret) -> Result<Self, reqwest::Error> {
        // The HTTP library wants one even where nothing is encrypted. Somebody may have been first.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("piton/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .connect_timeout(CONNECT)
            .timeout(ANSWER);
        if !hook.allow_private {
            builder = builder.dns_resolver(Open);
        }
        if hook.url.scheme() == "http" {
            // Reading the machine's certificates takes long, and a container may have none.
            builder = builder.tls_certs_only([]);
        }
        let (http, url) = (builder.build()?, hook.url.clone());
        Ok(Self { http, url, secret: secret.clone(), allow_private: hook.allow_private })
    }

    /// Sends it once.
    pub(super) async fn send(&self, delivery: &Delivery, now: Instant) -> Result<(), NotSent> {
        if !self.allow_private && !may(&self.url) {
            return Err(NotSent::Private);
        }
        let seconds = now.0.div_euclid(1_000_000);
        let signed = signature(self.secret.expose().as_bytes(), seconds, delivery.body.as_bytes());
        let request = self
            .http
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(SIGNATURE, signed)
            .header(EVENT, delivery.event.word())
            .header(DELIVERY, delivery.id.as_str())
            .body(delivery.body.clone());
        let answer = request.send().await;
        let status = answer.map_err(|error| NotSent::Unreached(why(&error)))?.status();
        match status {
            taken if taken.is_success() => Ok(()),
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
                Err(NotSent::Busy(status))
            }
            refused if refused.is_client_error() => Err(NotSent::Refused(status)),
            _ => Err(NotSent::Busy(status)),
        }
    }
}

/// What went wrong, without the address.
fn why(error: &reqwest::Error) -> String {
    let mut source = std::error::Error::source(error);
    let mut said = if error.is_timeout() { "no answer in time" } else { "not reached" }.to_owned();
    while let Some(cause) = source {
        said = format!("{said}: {cause}");
        source = cause.source();
    }
    said
}
