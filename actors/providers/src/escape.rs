//! Percent-encoding of one segment of a path, as RFC 3986 has it and AWS demands it: everything but letters, digits
//! and `-._~`. A model's name is data, so no character of it may begin another segment or a query.

use std::fmt::Write;

/// The text as one segment.
pub(crate) fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a string can not fail.
            let _infallible = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_reserved_by_nobody_stays() {
        assert_eq!(segment("a-Z_0.9~"), "a-Z_0.9~");
        assert_eq!(segment("us.x-v1:0/é %"), "us.x-v1%3A0%2F%C3%A9%20%25");
    }
}
