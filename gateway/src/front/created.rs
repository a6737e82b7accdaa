//! When a turn was asked for: frozen with its run, so that a repeat is answered with the time of its first.

use events::quantity::Instant;
use std::collections::BTreeMap;

/// Where a run's metadata says it, in µs since 1970. Callers can not write below `asked::RESERVED`.
const KEY: &str = "piton.created";

/// Puts it where a run keeps it.
pub fn keep(at: Instant, metadata: &mut BTreeMap<String, String>) {
    metadata.insert(KEY.to_owned(), at.0.to_string());
}

/// What was kept; none of a run that came through another door.
#[must_use]
pub fn read(metadata: &BTreeMap<String, String>) -> Option<Instant> {
    metadata.get(KEY)?.parse().ok().map(Instant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_and_what_is_no_time_is_not() {
        let mut metadata = BTreeMap::new();
        assert_eq!(read(&metadata), None);
        keep(Instant(7), &mut metadata);
        assert_eq!(read(&metadata), Some(Instant(7)));
        metadata.insert(KEY.to_owned(), "soon".to_owned());
        assert_eq!(read(&metadata), None);
    }
}
