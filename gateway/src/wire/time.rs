//! Instants on the wire: RFC 3339 in UTC with microseconds, and whole seconds where a client expects them.

use events::quantity::Instant;

/// `2026-11-30T18:59:10.123456Z`.
#[must_use]
pub fn rfc3339(at: Instant) -> String {
    let micros = at.0.rem_euclid(1_000_000);
    let seconds = at.0.div_euclid(1_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Whole seconds since 1970.
#[must_use]
pub fn seconds(at: Instant) -> i64 {
    at.0.div_euclid(1_000_000)
}

/// Days since 1970 as a date of the Gregorian calendar (H. Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants_print_as_known_dates() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (1_796_065_199_000_001, "2026-11-30T18:59:59.000001Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(rfc3339(Instant(micros)), text);
        }
    }
}
