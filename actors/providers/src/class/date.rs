//! The date of HTTP headers, `Sun, 06 Nov 1994 08:49:37 GMT`. The older two forms of RFC 9110 are not read: no
//! provider was seen to send them, and an unread date costs a hint only.

use events::quantity::Instant;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Reads a date. `None` when it is none.
pub(crate) fn http(text: &str) -> Option<Instant> {
    let (_, date) = text.trim().split_once(", ")?;
    let mut parts = date.split_whitespace();
    let day: i64 = parts.next()?.parse().ok()?;
    let month = parts.next()?;
    let month = i64::try_from(MONTHS.iter().position(|name| *name == month)?).ok()? + 1;
    let year: i64 = parts.next()?.parse().ok()?;
    let mut clock = parts.next()?.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let is_sound = (1..=31).contains(&day)
        && (1970..10_000).contains(&year)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    if !is_sound || parts.next() != Some("GMT") || parts.next().is_some() {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(Instant(seconds * 1_000_000))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar: the year is counted from March, so that the leap day
/// comes last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let from_march = (month + 9) % 12;
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (153 * from_march + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, seconds: Option<i64>) {
        assert_eq!(http(text).map(|at| at.0), seconds.map(|s| s * 1_000_000), "{text}");
    }

    #[test]
    fn dates_count_seconds_since_1970() {
        check("Thu, 01 Jan 1970 00:00:00 GMT", Some(0));
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Thu, 29 Feb 2024 12:00:00 GMT", Some(1_709_208_000));
        check("Mon, 30 Nov 2026 18:00:00 GMT", Some(1_796_061_600));
        check("Fri, 31 Dec 2100 23:59:59 GMT", Some(4_133_980_799));
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "120",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 99 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Nov 9223372036854775807 08:49:37 GMT",
        ] {
            check(text, None);
        }
    }
}
