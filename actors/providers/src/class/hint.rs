//! When a provider says to come back, in the five places where it says so, in this order: `retry-after-ms`,
//! `retry-after`, the `RetryInfo` of the body, the reset instants of a quota, and prose.
//!
//! A hint is a floor and never shortened; whether so long a wait is granted is for the recovery rule to say.

use super::envelope::Envelope;
use super::{Reply, date};
use crate::decimal::scaled;
use events::quantity::{Instant, Millis};
use reqwest::header::HeaderMap;
use serde_json::Value;

/// Words before a wait in prose.
const MARKERS: [&str; 5] =
    ["try again in", "retry after", "retry in", "again after", "please wait"];

/// Units of a wait in prose and their milliseconds; the longer spelling of two first.
const UNITS: [(&str, u64); 17] = [
    ("milliseconds", 1),
    ("ms", 1),
    ("seconds", 1_000),
    ("second", 1_000),
    ("secs", 1_000),
    ("sec", 1_000),
    ("minutes", 60_000),
    ("minute", 60_000),
    ("mins", 60_000),
    ("min", 60_000),
    ("hours", 3_600_000),
    ("hour", 3_600_000),
    ("days", 86_400_000),
    ("day", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
];

/// The wait that the reply asks for.
pub(crate) fn hint(reply: &Reply<'_>, envelope: &Envelope) -> Option<Millis> {
    let header = |name: &str| header(reply.headers, name);
    let until = |at: Instant| reply.now.map(|now| at.since(now));
    header("retry-after-ms")
        .and_then(|text| scaled(text, 0).map(Millis))
        .or_else(|| {
            header("retry-after")
                .and_then(|text| seconds(text).or_else(|| until(date::http(text)?)))
        })
        .or_else(|| retry_info(envelope))
        .or_else(|| resets_in(envelope).or_else(|| until(resets_at(reply.headers, envelope)?)))
        .or_else(|| prose(&envelope.message))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn seconds(text: &str) -> Option<Millis> {
    scaled(text, 3).map(Millis)
}

/// `"retryDelay": "34s"`.
fn retry_info(envelope: &Envelope) -> Option<Millis> {
    let delay = envelope.details().find_map(|detail| detail.get("retryDelay"))?;
    delay.as_str().and_then(duration)
}

fn number(value: Option<&Value>) -> Option<u64> {
    scaled(&value.filter(|value| value.is_number())?.to_string(), 0)
}

fn resets_in(envelope: &Envelope) -> Option<Millis> {
    number(envelope.error.get("resets_in_seconds")).map(|s| Millis(s.saturating_mul(1_000)))
}

/// The reset of the quota that is used up: in the body, or in the headers of the limit that stands at 100 percent.
fn resets_at(headers: &HeaderMap, envelope: &Envelope) -> Option<Instant> {
    let epoch = number(envelope.error.get("resets_at")).or_else(|| {
        let limits = ["primary", "secondary"].into_iter().filter_map(|limit| {
            let used = scaled(header(headers, &format!("x-codex-{limit}-used-percent"))?, 0)?;
            let at = scaled(header(headers, &format!("x-codex-{limit}-reset-at"))?, 0)?;
            (used >= 100).then_some(at)
        });
        limits.max()
    })?;
    i64::try_from(epoch).ok()?.checked_mul(1_000_000).map(Instant)
}

/// "Please try again in 1.25s", "retry after 30 seconds", "try again in 114h18m0s".
fn prose(message: &str) -> Option<Millis> {
    let text = message.to_lowercase();
    MARKERS.into_iter().find_map(|marker| text.split(marker).skip(1).find_map(duration))
}

/// Reads numbers with their units from the start of the text, and adds them up. A number without a unit is no wait:
/// it may count anything.
fn duration(text: &str) -> Option<Millis> {
    let mut rest = text;
    let mut sum: Option<u64> = None;
    loop {
        let at = rest.trim_start_matches([' ', ',']);
        let at = at.strip_prefix("and ").unwrap_or(at);
        let end = at.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(at.len());
        let Some((digits, after)) =
            at.split_at_checked(end).filter(|(digits, _)| !digits.is_empty())
        else {
            return sum.map(Millis);
        };
        let after = after.trim_start();
        let unit = UNITS.into_iter().find_map(|(unit, millis)| {
            let rest = after.strip_prefix(unit)?;
            // `m` must not read the start of another word; another number may follow at once.
            let ends = !rest.starts_with(|c: char| c.is_alphabetic());
            ends.then_some((millis, rest))
        });
        let Some((millis, after)) = unit else { return sum.map(Millis) };
        // In thousandths, so that 1.25 s is exact; rounded up to a whole millisecond.
        let part = scaled(digits, 3)?.checked_mul(millis)?.div_ceil(1_000);
        sum = Some(sum.unwrap_or_default().checked_add(part)?);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};

    /// 2026-11-30T18:00:00Z.
    const NOW: Instant = Instant(1_796_061_600_000_000);

    #[track_caller]
    fn check(headers: &[(&'static str, &str)], body: &str, then: Option<u64>) {
        let pairs = headers.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        let headers: HeaderMap = pairs.collect();
        let reply = Reply { status: 429, headers: &headers, body: body.as_bytes(), now: Some(NOW) };
        let found = hint(&reply, &Envelope::read(body.as_bytes()));
        assert_eq!(found, then.map(Millis), "{headers:?} {body}");
    }

    fn says(message: &str) -> String {
        serde_json::json!({ "error": { "message": message } }).to_string()
    }

    #[test]
    fn headers_are_read_first_the_finer_one_before_the_coarser() {
        check(&[("retry-after-ms", "1250"), ("retry-after", "2")], "", Some(1_250));
        check(&[("retry-after", "2")], &says("try again in 9s"), Some(2_000));
        check(&[("retry-after", "0.5")], "", Some(500));
        check(&[("retry-after", "0")], "", Some(0));
        check(&[("retry-after", "soon")], "", None);
        check(&[("retry-after", "-5")], "", None);
        check(&[("retry-after-ms", "x"), ("retry-after", "3")], "", Some(3_000));
    }

    #[test]
    fn an_http_date_counts_from_now() {
        check(&[("retry-after", "Mon, 30 Nov 2026 18:01:30 GMT")], "", Some(90_000));
        check(&[("retry-after", "Mon, 30 Nov 2026 17:00:00 GMT")], "", Some(0));
        let headers = HeaderMap::from_iter([(
            HeaderName::from_static("retry-after"),
            HeaderValue::from_static("Mon, 30 Nov 2026 18:01:30 GMT"),
        )]);
        let reply = Reply { status: 429, headers: &headers, body: b"", now: None };
        assert_eq!(hint(&reply, &Envelope::default()), None, "without a clock a date says nothing");
    }

    #[test]
    fn the_body_may_carry_it() {
        let info =
            r#"{"error":{"details":[{"@type":"q"},{"@type":"RetryInfo","retryDelay":"34s"}]}}"#;
        check(&[], info, Some(34_000));
        check(&[], r#"{"error":{"resets_at":1796061660}}"#, Some(60_000));
        check(&[], r#"{"error":{"resets_in_seconds":7}}"#, Some(7_000));
    }

    #[test]
    fn the_reset_of_the_limit_that_is_used_up_counts() {
        let limits = [
            ("x-codex-primary-used-percent", "100.0"),
            ("x-codex-primary-reset-at", "1796061630"),
            ("x-codex-secondary-used-percent", "40"),
            ("x-codex-secondary-reset-at", "1796999999"),
        ];
        check(&limits, "", Some(30_000));
        check(&limits[2..], "", None);
    }

    #[test]
    fn prose_is_read_last() {
        check(&[], &says("Limit 5. Please try again in 1.25s."), Some(1_250));
        check(&[], &says("Please try again in 114h18m0s. Visit"), Some(411_480_000));
        check(&[], &says("Please retry after 30 seconds."), Some(30_000));
        check(&[], &says("try again in 6m0s"), Some(360_000));
        check(&[], &says("Try again in 12ms"), Some(12));
        check(&[], &says("try again in 1 hour, 2 minutes and 3 seconds"), Some(3_723_000));
        check(&[], &says("retry in 2 days"), Some(172_800_000));
        check(&[], "please wait 5 min before", Some(300_000));
    }

    #[test]
    fn prose_without_a_wait_is_none() {
        for message in [
            "try again in a moment",
            "retry after 30",
            "try again in 5 models",
            "1.25s",
            "try again in",
        ] {
            check(&[], &says(message), None);
        }
        check(&[], &says(&format!("try again in {}h", "9".repeat(29))), None);
    }
}
