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

/// Writes a date, to the second below.
pub(crate) fn text(at: Instant) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let seconds = at.0.div_euclid(1_000_000);
    let (day, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // The inverse of `days`: eras of 400 years, counted from the March of the year 0.
    let from_march = day + 719_468;
    let (era, of_era) = (from_march.div_euclid(146_097), from_march.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = year_of_era + era * 400 + i64::from(month < 2);
    let named = |names: &[&'static str], at: i64| {
        usize::try_from(at).ok().and_then(|at| names.get(at).copied()).unwrap_or_default()
    };
    let (weekday, month) = (named(&DAYS, day.rem_euclid(7)), named(&MONTHS, month));
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{weekday}, {day_of_month:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
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
        if let Some(at) = http(text) {
            assert_eq!(super::text(at), text, "and back");
        }
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
    fn every_day_is_written_as_it_is_read() {
        for day in 0..60_000 {
            let at = Instant((day * 86_400 + day % 86_400) * 1_000_000);
            assert_eq!(http(&text(at)), Some(at), "{}", text(at));
        }
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
