//! `clock.now`: the time that the call was given. It reads no clock of its own, so that a replay can be compared.

use crate::tool::{Call, ReplayClass, Tool, ToolError, Working};
use events::json::Json;
use events::quantity::Instant;

/// The tool.
#[derive(Debug)]
pub struct Clock {
    parameters: Json,
}

impl Clock {
    /// A clock that is told the time with each call.
    #[must_use]
    pub fn new() -> Self {
        let parameters = br#"{"type":"object","properties":{},"additionalProperties":false}"#;
        Self { parameters: Json::from_bytes(parameters) }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for Clock {
    fn name(&self) -> &'static str {
        "clock.now"
    }

    fn description(&self) -> &'static str {
        "Says what time it is now, in UTC."
    }

    fn parameters(&self) -> &Json {
        &self.parameters
    }

    fn class(&self) -> ReplayClass {
        ReplayClass::ReadOnly
    }

    fn call(&self, call: Call) -> Working {
        let said = rfc_3339(call.now).map(|now| format!(r#"{{"now":"{now}"}}"#));
        Box::pin(async {
            said.ok_or_else(|| ToolError::Failed("the year has more than four digits".to_owned()))
        })
    }
}

/// `2026-11-30T18:00:00.000000Z`; `None` outside the years 0 to 9999, which the format can not say.
fn rfc_3339(at: Instant) -> Option<String> {
    let (seconds, micros) = (at.0.div_euclid(1_000_000), at.0.rem_euclid(1_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let says =
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z");
    (0..10_000).contains(&year).then_some(says)
}

/// The Gregorian date of a day counted from 1970-01-01. The year is counted from March, so that the leap day comes
/// last, in eras of 400 years, which all have the same days.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(micros: i64, then: Option<&str>) {
        assert_eq!(rfc_3339(Instant(micros)).as_deref(), then);
    }

    #[test]
    fn instants_are_written_in_utc() {
        check(0, Some("1970-01-01T00:00:00.000000Z"));
        check(-1, Some("1969-12-31T23:59:59.999999Z"));
        check(784_111_777_000_000, Some("1994-11-06T08:49:37.000000Z"));
        check(1_709_208_000_000_001, Some("2024-02-29T12:00:00.000001Z"));
        check(1_796_061_600_123_456, Some("2026-11-30T18:00:00.123456Z"));
        check(4_107_542_400_000_000, Some("2100-03-01T00:00:00.000000Z"));
        check(i64::MAX, None);
        check(i64::MIN, None);
    }

    #[test]
    fn each_day_follows_the_one_before() {
        let mut before = date(-800_000);
        for days in -799_999..800_000 {
            let (year, month, day) = date(days);
            let next_day = (year, month) == (before.0, before.1) && day == before.2 + 1;
            let next_month =
                day == 1 && before.2 >= 28 && (year * 12 + month) == (before.0 * 12 + before.1 + 1);
            assert!(next_day || next_month, "{before:?} {days}");
            before = (year, month, day);
        }
    }

    #[tokio::test]
    async fn it_says_the_time_that_it_was_given() {
        let call =
            Call::new(1, Json::from_bytes(b"{}"), Instant(1_796_061_600_000_000), Instant::MAX);
        let said = Clock::new().call(call).await.unwrap();
        assert_eq!(said, r#"{"now":"2026-11-30T18:00:00.000000Z"}"#);
    }
}
