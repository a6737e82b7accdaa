//! Bedrock's Converse API, whole or as a binary event stream: the neutral request in, wire bytes out; wire bytes in,
//! deltas and an answer out; and the signature over a request. Pure functions; nothing here knows a socket or a clock.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod frames;
pub(crate) mod hear;
pub(crate) mod play;
pub(crate) mod sign;

use crate::endpoint::Endpoint;
use crate::escape;
use crate::family::Mode;
use serde::{Deserialize, Serialize};

/// What a stream is asked for as, and comes as.
pub(crate) const FRAMES: &str = "application/vnd.amazon.eventstream";

/// Where a model is asked, below the base address. A model's id may be a whole ARN with slashes and colons: it is one
/// segment all the same.
pub(crate) fn path(model: &str, mode: Mode) -> String {
    let verb = match mode {
        Mode::Stream => "converse-stream",
        Mode::Whole => "converse",
    };
    format!("model/{}/{verb}", escape::segment(model))
}

/// The region that a request is signed for: as configured, else the one in the name of AWS's own host.
pub(crate) fn region(endpoint: &Endpoint) -> Option<&str> {
    let named = || {
        let mut labels = endpoint.base_url.domain()?.split('.');
        labels.find(|label| label.starts_with("bedrock-runtime"))?;
        labels.next()
    };
    endpoint.region.as_deref().or_else(named)
}

/// What is kept of a block of reasoning, under the seal of its part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Sealed {
    /// The signature over its text.
    Signature(String),
    /// All of it, which only its model can read: base64.
    RedactedContent(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Quirks;
    use crate::family::Family;

    #[test]
    fn the_region_is_the_configured_one_or_stands_in_the_host() {
        let endpoint = |url: &str| {
            Endpoint::new("b", Family::Bedrock, url.parse().unwrap(), None, Quirks::STANDARD)
        };
        let of = |url| region(&endpoint(url)).map(str::to_owned);
        assert_eq!(of("https://bedrock-runtime.eu-west-1.amazonaws.com").unwrap(), "eu-west-1");
        assert_eq!(
            of("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com").unwrap(),
            "us-gov-west-1"
        );
        assert_eq!(
            of("https://vpce-1.bedrock-runtime.us-east-2.vpce.amazonaws.com").unwrap(),
            "us-east-2"
        );
        assert_eq!(of("http://127.0.0.1:1/"), None);
        let told = Endpoint { region: Some("r".into()), ..endpoint("http://127.0.0.1:1/") };
        assert_eq!(region(&told), Some("r"));
    }

    #[test]
    fn a_model_is_one_segment_of_the_path() {
        assert_eq!(
            path("us.anthropic.claude-sonnet-4-20250514-v1:0", Mode::Stream),
            "model/us.anthropic.claude-sonnet-4-20250514-v1%3A0/converse-stream"
        );
        assert_eq!(
            path("arn:aws:bedrock:us-east-1:1:inference-profile/us.x", Mode::Whole),
            "model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.x/converse"
        );
    }
}
