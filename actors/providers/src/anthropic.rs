//! Anthropic Messages, and the twins that speak it: the neutral request in, wire bytes out; wire bytes in, deltas and
//! an answer out. Pure functions; nothing here knows a socket.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod hear;
pub(crate) mod play;

use crate::endpoint::Endpoint;
use url::Url;

/// The version of the API that is asked for: all recorded exchanges use it, and the twins know it. A configured
/// header of the same name takes its place.
pub(crate) const VERSION: &str = "2023-06-01";

/// The address of a path of the family. Base addresses are written with and without the version's segment.
pub(crate) fn url(endpoint: &Endpoint, path: &str) -> Url {
    if endpoint.base_url.path().trim_end_matches('/').ends_with("/v1") {
        endpoint.url(path)
    } else {
        endpoint.url(&format!("v1/{path}"))
    }
}

/// Where the models are listed, all on one page: without a limit the family gives twenty.
pub(crate) fn models_url(endpoint: &Endpoint) -> Url {
    let mut url = url(endpoint, "models");
    url.query_pairs_mut().append_pair("limit", "1000");
    url
}
