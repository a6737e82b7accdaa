//! Gemini's `generateContent`, whole or as server-sent events: the neutral request in, wire bytes out; wire bytes in,
//! deltas and an answer out. Pure functions; nothing here knows a socket.
//!
//! A thought signature belongs to the part that it came with and goes back on the same part: a reasoning part of its
//! own stands before that one, and carries it.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod hear;
pub(crate) mod play;

use crate::endpoint::Endpoint;
use crate::family::Mode;
use serde::{Deserialize, Serialize};
use url::Url;

/// The header that carries the key.
pub(crate) const KEY_HEADER: &str = "x-goog-api-key";

/// Where a model is asked. A stream comes as one long array unless it is asked for as events.
pub(crate) fn ask_url(endpoint: &Endpoint, model: &str, mode: Mode) -> Url {
    let mut url = endpoint.url(&path(model, mode));
    if mode == Mode::Stream {
        url.query_pairs_mut().append_pair("alt", "sse");
    }
    url
}

/// Where the models are listed, as many at once as the service gives.
pub(crate) fn models_url(endpoint: &Endpoint) -> Url {
    let mut url = endpoint.url("models");
    url.query_pairs_mut().append_pair("pageSize", "1000");
    url
}

fn path(model: &str, mode: Mode) -> String {
    let verb = match mode {
        Mode::Stream => "streamGenerateContent",
        Mode::Whole => "generateContent",
    };
    let model = model.strip_prefix("models/").unwrap_or(model);
    // Tuned models stand in a folder of their own; whatever else a name has is one segment.
    let (folder, name) = match model.strip_prefix("tunedModels/") {
        Some(name) => ("tunedModels", name),
        None => ("models", model),
    };
    format!("{folder}/{}:{verb}", crate::escape::segment(name))
}

/// What is kept of a signature, under the seal of its reasoning part. Without a text of its own it belongs to the
/// part that follows; with one it came on a part that said nothing else.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Signed {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    text: Option<String>,
    thought_signature: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_one_segment_of_the_path() {
        for (model, then) in [
            ("gemini-3-pro", "models/gemini-3-pro:generateContent"),
            ("models/gemini-3-pro", "models/gemini-3-pro:generateContent"),
            ("tunedModels/mine", "tunedModels/mine:generateContent"),
            ("a/../b?x#y", "models/a%2F..%2Fb%3Fx%23y:generateContent"),
        ] {
            assert_eq!(path(model, Mode::Whole), then);
        }
        assert_eq!(path("m", Mode::Stream), "models/m:streamGenerateContent");
    }
}
