//! What a status says about the account and not about the question: the three rejections that pause whoever asked.

use super::Reply;
use crate::tool::{Rejection, ToolError};
use events::quantity::{Instant, Millis};
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// The longest wait that is believed; a longer one is no hint but a closed door.
const WAIT_MAX: Millis = Millis(31 * 86_400_000);

/// The rejection that the status of an answer is, if it is one.
pub(crate) fn rejected(reply: &Reply, now: Instant) -> Option<ToolError> {
    let class = match reply.status.as_u16() {
        401 | 403 => Rejection::Authentication,
        402 => Rejection::Quota,
        429 => Rejection::RateLimit,
        _ => return None,
    };
    let message = format!("{} answered {}", super::host(&reply.url), reply.status);
    let retry_after = retry_after(&reply.headers, now);
    Some(ToolError::Rejected { class, retry_after, message })
}

/// When the peer says to come back: seconds, or a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: Instant) -> Option<Millis> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Millis(seconds.saturating_mul(1_000)),
        Err(_) => http_date(text)?.since(now),
    };
    Some(wait.min(WAIT_MAX))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, the one form that is still sent.
fn http_date(text: &str) -> Option<Instant> {
    let (_, rest) = text.split_once(", ")?;
    let mut words = rest.strip_suffix(" GMT")?.split(' ');
    let (day, month, year) = (words.next()?, words.next()?, words.next()?);
    let mut clock = words.next()?.split(':').map(str::parse::<i64>);
    let mut next = || clock.next()?.ok();
    let (hour, minute, second) = (next()?, next()?, next()?);
    let months =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = i64::try_from(months.iter().position(|name| *name == month)?).ok()?;
    let (day, year) = (day.parse::<i64>().ok()?, year.parse::<i64>().ok()?);
    let valid = (1..=31).contains(&day) && (1_970..=9_999).contains(&year);
    let valid = valid && hour < 24 && minute < 60 && second <= 60;
    // Years begin in March, so that the odd day is the last one.
    let (shifted, years) = ((month + 10) % 12, year - i64::from(month < 2));
    let leaps = years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400);
    let days = 365 * years + leaps + (153 * shifted + 2) / 5 + day - 1 - 719_468;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    valid.then_some(Instant(seconds.saturating_mul(1_000_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(text: &str, now: i64) -> Option<u64> {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
        retry_after(&headers, Instant(now * 1_000_000)).map(|wait| wait.0)
    }

    #[test]
    fn a_wait_is_seconds_or_a_date() {
        assert_eq!(wait("30", 0), Some(30_000));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777 - 60), Some(60_000));
        assert_eq!(wait("Thu, 29 Feb 2024 00:00:00 GMT", 1_709_164_800 - 1), Some(1_000));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_778), Some(0));
        assert_eq!(wait("18446744073709551615", 0), Some(WAIT_MAX.0));
        for odd in ["soon", "-1", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 1994", ""] {
            assert_eq!(wait(odd, 0), None, "{odd}");
        }
    }
}
