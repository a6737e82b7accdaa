//! When each stream of some partitions must be looked at again, oldest first; for the backends whose file does not keep
//! that order for them.

use crate::{Due, slot};
use events::id::Partition;
use events::quantity::Instant;
use events::record::StreamKey;
use std::collections::BTreeMap;
use std::ops::Bound;

/// It grows with the streams that wait for something, not with those that exist.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    /// By partition, stored wake and the stream's text, as the file's index is.
    due: BTreeMap<(Partition, i64, String), StreamKey>,
    stored: BTreeMap<StreamKey, i64>,
}

impl Wakes {
    /// The stream's newest commit says so, in the stored form; `None` is on command.
    pub(crate) fn set(&mut self, stream: &StreamKey, wake: Option<i64>) {
        let (partition, text) = (stream.partition(), stream.to_string());
        if let Some(before) = self.stored.remove(stream) {
            self.due.remove(&(partition, before, text.clone()));
        }
        if let Some(wake) = wake {
            self.stored.insert(stream.clone(), wake);
            self.due.insert((partition, wake, text), stream.clone());
        }
    }

    /// Those that wake now, then those whose time is at most `before`; at most `page`, those after `after`.
    pub(crate) fn due(
        &self,
        partition: Partition,
        before: Instant,
        page: usize,
        after: Option<&Due>,
    ) -> Vec<Due> {
        let floor = match after {
            None => Bound::Included((partition, 0, String::new())),
            Some(due) => match slot::stored_wake(due.wake) {
                None => return vec![],
                Some(wake) => Bound::Excluded((partition, wake, due.stream.to_string())),
            },
        };
        let from = self.due.range((floor, Bound::Unbounded));
        let mine = from.take_while(|((owner, wake, _), _)| {
            *owner == partition && (*wake == 0 || *wake <= before.0)
        });
        let due = mine.map(|((_, wake, _), stream)| Due {
            stream: stream.clone(),
            wake: slot::wake(Some(*wake)),
        });
        due.take(page).collect()
    }

    /// The earliest time after `after`.
    pub(crate) fn next(&self, partition: Partition, after: Instant) -> Option<Instant> {
        let floor = (partition, after.0.max(0).saturating_add(1), String::new());
        let ((owner, wake, _), _) = self.due.range(floor..).next()?;
        (*owner == partition).then_some(Instant(*wake))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::record::StreamKind;

    #[test]
    fn the_newest_word_of_a_stream_counts_and_on_command_leaves_nothing() {
        let (mut wakes, stream) = (Wakes::default(), StreamKey::named(StreamKind::Probe, "a"));
        let partition = stream.partition();
        wakes.set(&stream, Some(0));
        assert_eq!(wakes.due(partition, Instant(0), 9, None).len(), 1);
        wakes.set(&stream, Some(900));
        assert_eq!(wakes.due(partition, Instant(899), 9, None), []);
        assert_eq!(wakes.next(partition, Instant(0)), Some(Instant(900)));
        wakes.set(&stream, None);
        assert_eq!(wakes.next(partition, Instant(0)), None);
        assert!(wakes.due.is_empty() && wakes.stored.is_empty());
    }
}
