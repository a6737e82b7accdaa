//! What an append came to when its answer was lost or is ambiguous: decided on what was heard from the server and
//! what was seen in the slot, and on nothing else.
//!
//! A server that refuses may be refusing the repeat of a commit that landed; one that says nothing may have stored it,
//! or may store it yet. So a refusal only means *look*, and only a slot that is seen filled ends the question. An empty
//! slot is filled by publishing the same bytes again: the expected sequence lets one publish in, however many are under
//! way. Nothing here waits or counts: when to give up, which is [`Outage`] and never a conflict, is the caller's.

use crate::Outage;

/// What the server said to one publish of the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// It is stored, at this sequence.
    Stored(u64),
    /// Its id was stored before, at this sequence.
    Repeated(u64),
    /// Another message stands in the slot (10071). It may be this commit, from an earlier publish.
    Taken,
    /// Another publish on this subject, or of this id, is under way (10164, 10158). It may be an earlier one of this commit.
    Busy,
    /// It was refused for a reason that says that it is not stored and why none would be.
    Refused(Outage),
    /// It did not reach a leader.
    NotSent,
    /// Nothing was heard in time: it may be stored, now or later.
    Silence,
}

/// What a look at the leader showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Nothing stands in the slot yet.
    Empty,
    /// These very bytes stand in it, at this sequence.
    Ours(u64),
    /// Other bytes stand in it.
    Other,
    /// Other bytes stand under this commit's id, somewhere else.
    IdTaken,
    /// The leader did not answer.
    Nothing,
}

/// What an append came to, as far as the slot tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// It was stored by this call, at this sequence.
    Appended(u64),
    /// It stood at this sequence before this call.
    Duplicate(u64),
    /// Another commit is in its place: a conflict, or a fence when a later owner wrote last.
    Lost,
    /// It is not stored, for a reason that waiting may mend.
    Unknown(Outage),
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The question is settled.
    Answer(Settled),
    /// Look at the slot: the first message of the stream after the expected sequence.
    LookAtSlot,
    /// Look at this sequence: the server says that the commit's id stands there.
    LookAt(u64),
    /// Publish the same bytes again, after a wait.
    Publish,
}

/// One append under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Settling {
    /// Whether a publish of this call may have been stored without our hearing so.
    ambiguous: bool,
}

impl Settling {
    /// Whether a publish of this call may have been stored, now or later, as far as was heard.
    #[must_use]
    pub fn ambiguous(self) -> bool {
        self.ambiguous
    }

    /// Takes in what the server said to a publish.
    pub fn heard(&mut self, heard: Heard) -> Step {
        match heard {
            Heard::Stored(sequence) => Step::Answer(Settled::Appended(sequence)),
            Heard::Repeated(sequence) => Step::LookAt(sequence),
            Heard::Taken | Heard::Busy => Step::LookAtSlot,
            Heard::Silence => {
                self.ambiguous = true;
                Step::LookAtSlot
            }
            // An earlier publish may be stored all the same.
            Heard::Refused(_) if self.ambiguous => Step::LookAtSlot,
            Heard::Refused(outage) => Step::Answer(Settled::Unknown(outage)),
            Heard::NotSent => Step::Publish,
        }
    }

    /// Takes in what a look showed.
    #[must_use]
    pub fn seen(self, seen: Seen) -> Step {
        match seen {
            Seen::Empty => Step::Publish,
            Seen::Ours(sequence) if self.ambiguous => Step::Answer(Settled::Appended(sequence)),
            Seen::Ours(sequence) => Step::Answer(Settled::Duplicate(sequence)),
            Seen::Other | Seen::IdTaken => Step::Answer(Settled::Lost),
            Seen::Nothing => Step::LookAtSlot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEARD: [Heard; 7] = [
        Heard::Stored(7),
        Heard::Repeated(7),
        Heard::Taken,
        Heard::Busy,
        Heard::Refused(Outage::Full),
        Heard::NotSent,
        Heard::Silence,
    ];
    const SEEN: [Seen; 5] = [Seen::Empty, Seen::Ours(7), Seen::Other, Seen::IdTaken, Seen::Nothing];

    /// What is done with each end: all that was heard and seen on the way, and the answer.
    type Each<'a> = dyn FnMut(&[Heard], &[Seen], &Settled) + 'a;

    /// Every course of up to `depth` publishes and looks, to `each` with all that was heard and seen on the way.
    fn courses(depth: usize, each: &mut Each<'_>) {
        fn go(
            (settling, looking, depth): (Settling, bool, usize),
            (heard, seen): (&mut Vec<Heard>, &mut Vec<Seen>),
            each: &mut Each<'_>,
        ) {
            if depth == 0 {
                return;
            }
            let mut on =
                |step: Step, settling, heard: &mut Vec<Heard>, seen: &mut Vec<Seen>| match step {
                    Step::Answer(settled) => each(heard, seen, &settled),
                    Step::Publish => go((settling, false, depth - 1), (heard, seen), each),
                    Step::LookAtSlot | Step::LookAt(_) => {
                        go((settling, true, depth - 1), (heard, seen), each);
                    }
                };
            if looking {
                for look in SEEN {
                    seen.push(look);
                    on(settling.seen(look), settling, heard, seen);
                    seen.pop();
                }
            } else {
                for said in HEARD {
                    let mut settling = settling;
                    heard.push(said.clone());
                    let step = settling.heard(said);
                    on(step, settling, heard, seen);
                    heard.pop();
                }
            }
        }
        go((Settling::default(), false, depth), (&mut vec![], &mut vec![]), each);
    }

    #[test]
    fn no_course_of_answers_and_looks_ends_in_a_lie() {
        let mut ends = 0;
        courses(7, &mut |heard, seen, settled| {
            ends += 1;
            let silent = heard.contains(&Heard::Silence);
            let last = seen.last();
            match settled {
                Settled::Appended(_) => assert!(
                    matches!(heard.last(), Some(Heard::Stored(_)))
                        || (silent && matches!(last, Some(Seen::Ours(_)))),
                    "{heard:?} {seen:?}"
                ),
                // What this call may have stored is not called somebody else's.
                Settled::Duplicate(_) => {
                    assert!(!silent && matches!(last, Some(Seen::Ours(_))), "{heard:?} {seen:?}");
                }
                Settled::Lost => assert!(
                    matches!(last, Some(Seen::Other | Seen::IdTaken)),
                    "a refusal alone is no conflict: {heard:?} {seen:?}"
                ),
                Settled::Unknown(_) => {
                    assert!(!silent && matches!(heard.last(), Some(Heard::Refused(_))));
                }
            }
        });
        assert!(ends > 4_000, "{ends}");
    }

    #[test]
    fn a_refusal_means_look() {
        for heard in [Heard::Taken, Heard::Busy, Heard::Silence] {
            assert_eq!(Settling::default().heard(heard), Step::LookAtSlot);
        }
        assert_eq!(Settling::default().heard(Heard::Repeated(9)), Step::LookAt(9));
    }

    #[test]
    fn a_commit_that_landed_before_a_claim_is_appended() {
        let mut settling = Settling::default();
        assert_eq!(settling.heard(Heard::Silence), Step::LookAtSlot);
        // The claim stands after it; the slot holds ours.
        assert_eq!(settling.seen(Seen::Ours(3)), Step::Answer(Settled::Appended(3)));
    }

    #[test]
    fn an_empty_slot_is_published_to_until_it_is_filled() {
        let mut settling = Settling::default();
        for _ in 0..3 {
            assert_eq!(settling.heard(Heard::Silence), Step::LookAtSlot);
            assert_eq!(settling.seen(Seen::Nothing), Step::LookAtSlot);
            assert_eq!(settling.seen(Seen::Empty), Step::Publish);
        }
        assert!(settling.ambiguous());
        assert_eq!(settling.heard(Heard::Refused(Outage::Full)), Step::LookAtSlot);
    }
}
