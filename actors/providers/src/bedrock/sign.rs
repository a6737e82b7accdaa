//! The signature of AWS over a request, version 4: who asks, when, and for exactly which bytes. The time is passed in.
//!
//! The trap of it: the path goes over the wire percent-encoded once, and is encoded once more before it is signed.

use crate::escape;
use crate::secret::Secret;
use events::quantity::Instant;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use url::Url;

/// The service's name in the scope of a signature.
const SERVICE: &str = "bedrock";
/// Bytes of a block of SHA-256.
const BLOCK_BYTES: usize = 64;
/// What ends the scope.
const TERMINATOR: &str = "aws4_request";
/// The scheme's name.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;

/// What signs: `ID:SECRET` or `ID:SECRET:TOKEN` in one key. None of the three has a colon in it; a key without one is
/// a bearer token.
#[derive(Clone, Copy)]
pub(crate) struct Credentials<'a> {
    id: &'a str,
    secret: &'a str,
    token: Option<&'a str>,
}

impl<'a> Credentials<'a> {
    /// Reads a key; `None` where it is a bearer token.
    pub(crate) fn read(key: &'a Secret) -> Option<Self> {
        let (id, rest) = key.expose().split_once(':')?;
        let (secret, token) = match rest.split_once(':') {
            Some((secret, token)) => (secret, Some(token).filter(|token| !token.is_empty())),
            None => (rest, None),
        };
        Some(Self { id, secret, token })
    }
}

/// What is signed.
pub(crate) struct Ask<'a> {
    pub(crate) url: &'a Url,
    pub(crate) content_type: &'a str,
    pub(crate) body: &'a [u8],
}

/// The headers that a signature adds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    /// `x-amz-date`.
    pub(crate) date: String,
    /// `x-amz-security-token`.
    pub(crate) token: Option<String>,
    /// `authorization`.
    pub(crate) authorization: String,
}

/// Signs a POST.
pub(crate) fn sign(
    credentials: &Credentials<'_>,
    region: &str,
    ask: &Ask<'_>,
    now: Instant,
) -> Signature {
    let date = date(now);
    let day = date.get(..8).unwrap_or_default();
    let scope = format!("{day}/{region}/{SERVICE}/{TERMINATOR}");
    let (canonical, signed) = canonical(credentials.token, ask, &date);
    let text = format!("{ALGORITHM}\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let mut key = format!("AWS4{}", credentials.secret).into_bytes();
    for part in [day, region, SERVICE, TERMINATOR] {
        let next = hmac(&key, part.as_bytes());
        key.fill(0);
        std::hint::black_box(&key);
        key = next.to_vec();
    }
    let signature = hex(&hmac(&key, text.as_bytes()));
    let authorization = format!(
        "{ALGORITHM} Credential={}/{scope}, SignedHeaders={signed}, Signature={signature}",
        credentials.id
    );
    Signature { date, token: credentials.token.map(str::to_owned), authorization }
}

/// The request as it is signed, and the names of its headers.
fn canonical(token: Option<&str>, ask: &Ask<'_>, date: &str) -> (String, String) {
    let url = ask.url;
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let host = format!("{}{port}", url.host_str().unwrap_or_default());
    let mut headers =
        vec![("content-type", ask.content_type), ("host", host.as_str()), ("x-amz-date", date)];
    headers.extend(token.map(|token| ("x-amz-security-token", token)));
    let path: Vec<String> = url.path().split('/').map(escape::segment).collect();
    let mut query: Vec<(String, String)> = url
        .query_pairs()
        .map(|(name, value)| (escape::segment(&name), escape::segment(&value)))
        .collect();
    query.sort_unstable();
    let query: Vec<String> =
        query.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let (path, query) = (path.join("/"), query.join("&"));
    let body = hex(&Sha256::digest(ask.body));
    (format!("POST\n{path}\n{query}\n{lines}\n{names}\n{body}"), names)
}

fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0_u8; BLOCK_BYTES];
    let short: [u8; 32];
    let key = if key.len() > BLOCK_BYTES {
        short = Sha256::digest(key).into();
        &short
    } else {
        key
    };
    for (to, from) in block.iter_mut().zip(key) {
        *to = *from;
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(text);
    let outer = Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c));
    outer.chain_update(inner.finalize()).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string can not fail.
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

/// `20261130T120000Z`. Years are counted from March, so that the leap day comes last.
fn date(now: Instant) -> String {
    let seconds = now.0.div_euclid(1_000_000);
    let (days, second) = (seconds.div_euclid(86_400) + DAYS_TO_1970, seconds.rem_euclid(86_400));
    // Four hundred years repeat.
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day + 2) / 153;
    let day = day - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::beside;
    use serde_json::Value;

    /// 2026-11-30T12:00:00Z.
    const NOW: Instant = Instant(1_796_040_000_000_000);
    const URL: &str = "https://bedrock-runtime.us-east-1.amazonaws.com/model/us.anthropic.claude-sonnet-4-20250514-v1%3A0/converse-stream";
    const BODY: &str = r#"{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#;
    /// AWS's own example key, and the signature that botocore 1.44.8 gives for it.
    const KEY: &str = "AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY:TOKEN";
    const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261130/us-east-1/bedrock/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature=41f40b413638050c3fad39778fa5253491e83dfe0214a360ca786f4216e2431d";

    fn signed(key: &str, url: &str, body: &str, now: Instant) -> Signature {
        let (key, url) = (Secret::new(key.to_owned()), url.parse().unwrap());
        let ask = Ask { url: &url, content_type: "application/json", body: body.as_bytes() };
        sign(&Credentials::read(&key).unwrap(), "us-east-1", &ask, now)
    }

    #[test]
    fn the_signature_is_the_one_of_the_vendors_own_client() {
        let then = Signature {
            date: "20261130T120000Z".into(),
            token: Some("TOKEN".into()),
            authorization: AUTHORIZATION.into(),
        };
        assert_eq!(signed(KEY, URL, BODY, NOW), then);
    }

    #[test]
    fn the_shared_vector_holds_step_by_step() {
        let Some(text) = beside("data/sigv4_bedrock_vector.json") else { return };
        let vector: Value = serde_json::from_str(&text).unwrap();
        let said = |name: &str| vector[name].as_str().unwrap();
        let url = said("url").parse().unwrap();
        let ask =
            Ask { url: &url, content_type: said("content_type"), body: said("body").as_bytes() };
        let (canonical, _) = canonical(Some(said("session_token")), &ask, said("amz_date"));
        assert_eq!(canonical, said("canonical_request"));
        let key = ["access_key", "secret_key", "session_token"].map(said).join(":");
        let signature = signed(&key, said("url"), said("body"), NOW);
        assert_eq!(signature.authorization, said("authorization"));
        assert_eq!(signature.date, said("amz_date"));
    }

    #[test]
    fn each_byte_that_is_signed_changes_the_signature() {
        let base = signed(KEY, URL, BODY, NOW).authorization;
        let others = [
            signed(KEY, URL, &BODY.replace("hi", "ho"), NOW),
            signed(KEY, &URL.replace("-v1", "-v2"), BODY, NOW),
            signed(KEY, &format!("{URL}?b=2&a=1"), BODY, NOW),
            signed(KEY, &URL.replace(".com", ".com:8443"), BODY, NOW),
            signed(KEY, URL, BODY, Instant(NOW.0 + 1_000_000)),
            signed(&KEY.replace("wJal", "wJam"), URL, BODY, NOW),
            signed(&KEY.replace("TOKEN", "OTHER"), URL, BODY, NOW),
        ];
        let mut all: Vec<String> = others.into_iter().map(|one| one.authorization).collect();
        all.push(base);
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn a_key_is_two_or_three_parts_or_a_bearer_token() {
        let read = |text: &str| {
            let key = Secret::new(text.to_owned());
            Credentials::read(&key)
                .map(|c| (c.id.to_owned(), c.secret.to_owned(), c.token.map(str::to_owned)))
        };
        assert_eq!(read("bedrock-api-key-abc="), None);
        assert_eq!(read("A:b/+="), Some(("A".into(), "b/+=".into(), None)));
        assert_eq!(read("A:b:"), Some(("A".into(), "b".into(), None)));
        assert_eq!(read("A:b:c"), Some(("A".into(), "b".into(), Some("c".into()))));
        let plain = signed("A:b", URL, BODY, NOW);
        assert_eq!(plain.token, None);
        assert!(plain.authorization.contains("SignedHeaders=content-type;host;x-amz-date,"));
    }

    #[test]
    fn a_keyed_hash_is_that_of_rfc_4231() {
        let long = [0xaa_u8; 131];
        for (key, text, then) in [
            (
                &[0x0b; 20][..],
                "Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe",
                "what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &long,
                "Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ] {
            assert_eq!(hex(&hmac(key, text.as_bytes())), then);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, then) in [
            (0, "19700101T000000Z"),
            (951_782_400, "20000229T000000Z"),
            (1_709_251_199, "20240229T235959Z"),
            (1_796_040_000, "20261130T120000Z"),
            (4_133_980_799, "21001231T235959Z"),
        ] {
            assert_eq!(date(Instant(seconds * 1_000_000)), then);
        }
    }
}
