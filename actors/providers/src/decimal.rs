//! Decimal text as whole numbers of a smaller unit, rounded up, so that money and waits never pass through a float
//! and are never made smaller than what was said.

/// Digits of a number that are read; more than any price or wait has. 38 fit a `u128`.
const DIGITS_MAX: usize = 30;

/// Reads `12`, `1.25` or `3.1e-4` as a count of 10^-`places`, rounded up. `None` when it is negative, not a plain
/// decimal, or too large.
pub(crate) fn scaled(text: &str, places: i32) -> Option<u64> {
    let text = text.trim();
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = whole.len() + fraction.len();
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if digits == 0 || digits > DIGITS_MAX || !plain(whole) || !plain(fraction) {
        return None;
    }
    let mantissa = whole.bytes().chain(fraction.bytes()).try_fold(0_u128, |value, byte| {
        value.checked_mul(10)?.checked_add(u128::from(byte.saturating_sub(b'0')))
    })?;
    let shift = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?.checked_add(places)?;
    let power = 10_u128.checked_pow(shift.unsigned_abs());
    let value = match (shift >= 0, power) {
        (true, Some(power)) => mantissa.checked_mul(power)?,
        (true, None) => (mantissa == 0).then_some(0)?,
        (false, Some(power)) => mantissa.div_ceil(power),
        (false, None) => u128::from(mantissa != 0),
    };
    u64::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::scaled;

    #[track_caller]
    fn check(text: &str, places: i32, then: Option<u64>) {
        assert_eq!(scaled(text, places), then, "{text}");
    }

    #[test]
    fn decimals_are_scaled_exactly_and_rounded_up() {
        check("1.25", 3, Some(1_250));
        check("0.000123", 6, Some(123));
        check("1.23e-4", 6, Some(123));
        check("1E2", 0, Some(100));
        check("0.0000001", 6, Some(1));
        check("0.0", 6, Some(0));
        check(" 34 ", 3, Some(34_000));
        check("12.0", 0, Some(12));
        check(".5", 3, Some(500));
        check("1e-90", 6, Some(1));
        check("0e90", 6, Some(0));
    }

    #[test]
    fn what_is_not_a_plain_decimal_is_none() {
        for text in [
            "",
            ".",
            "-1",
            "+1",
            "1e",
            "NaN",
            "inf",
            "1_0",
            "1.2.3",
            "0x1",
            "1e40",
            "18446744073709551616",
        ] {
            check(text, 0, None);
        }
        check(&"9".repeat(31), 0, None);
        check("1", i32::MAX, None);
    }
}
