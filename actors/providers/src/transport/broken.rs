//! What a broken connection means: whether the request had left, and whether the peer could be trusted.

use crate::class::{Charge, Class, Failure};
use std::error::Error;
use std::io;

/// How far a call had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Until the head of the reply.
    Asking,
    /// Its body.
    Reading,
}

/// What the HTTP client's error means.
pub(super) fn failure(error: &reqwest::Error, stage: Stage) -> Failure {
    // Without a connection no byte of the request left.
    let charge =
        if error.is_connect() || error.is_builder() { Charge::NotCharged } else { Charge::Unknown };
    let class = if error.is_builder() {
        Class::InvalidRequest
    } else if error.is_timeout() {
        Class::Timeout
    } else if causes(error).any(is_tls) {
        Class::Tls
    } else if stage == Stage::Reading && causes(error).any(is_end) {
        Class::StreamTruncated
    } else {
        Class::Transport
    };
    Failure::ours(class, charge, &words(error))
}

/// The error and what caused it.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| cause(*error))
}

/// What an I/O error wraps is not its source, and is where TLS errors hide.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

fn is_tls(error: &(dyn Error + 'static)) -> bool {
    error.is::<rustls::Error>()
}

/// The peer closed before the body was whole.
fn is_end(error: &(dyn Error + 'static)) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
}

/// The causes in words, outermost first, each once. The address is left out: its query may hold a key.
fn words(error: &reqwest::Error) -> String {
    let mut said: Vec<String> = Vec::new();
    for cause in causes(error).skip(1) {
        let words = cause.to_string();
        if !said.iter().any(|earlier| earlier.contains(&words)) {
            said.push(words);
        }
    }
    if said.is_empty() { "the connection failed".to_owned() } else { said.join(": ") }
}
