//! An answer as bytes in time: its frames, the silence before each, and what the fault makes of them. Pure.

use super::fault::Fault;
use super::gzip::gzip;
use super::script::How;
use bytes::Bytes;
use events::quantity::Instant;
use events::usage::Usage;
use providers::play::{self, Complaint, Frame, Part};
use providers::{Answer, Family, Mode};
use std::sync::LazyLock;
use std::time::Duration;

/// Between two words of a slow answer, and before a connection is cut so that what was said has left: 50 ms.
pub(super) const PACE: Duration = Duration::from_millis(50);
/// How long a stalled answer is held if its client waits: 10 minutes, more than the idle deadlines in use.
pub(super) const STALL: Duration = Duration::from_secs(600);
/// Between two bytes of the slowest answer: 2 ms, so that a short one takes some seconds and no silence is long.
const TRICKLE: Duration = Duration::from_millis(2);
/// Bytes of the longest line: 10 MB, more than any reader should hold.
const LONG: usize = 10_000_000;

/// A part of a body and the silence before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Beat {
    pub(super) after: Duration,
    /// Nothing where the connection breaks.
    pub(super) bytes: Option<Bytes>,
}

/// An answer on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    /// With a head.
    Headed {
        /// The coding that it says it is in.
        coding: Option<&'static str>,
        beats: Vec<Beat>,
    },
    /// Without one: silence, and then the connection closes.
    Headless(Duration),
}

/// One of each kind, made when it is first played and kept: it is large.
static LONG_EVENT: LazyLock<Bytes> =
    LazyLock::new(|| play::long_frame(Family::OpenaiChat, LONG).into());
static LONG_FRAME: LazyLock<Bytes> =
    LazyLock::new(|| play::long_frame(Family::Bedrock, LONG).into());
/// White space may stand before any JSON.
static LONG_BLANK: LazyLock<Bytes> = LazyLock::new(|| vec![b' '; LONG].into());

/// The answer, played as the turn says.
pub(super) fn beats(
    (family, mode): (Family, Mode),
    answer: &Answer,
    how: &How,
    now: Instant,
) -> Body {
    let without_usage = || Answer { usage: Usage::default(), ..answer.clone() };
    let frames = match how.fault {
        Some(Fault::NoUsage) => frames(family, mode, &without_usage(), how),
        Some(_) | None => frames(family, mode, answer, how),
    };
    let at = place(&frames, how.after);
    let (said, rest) = frames.split_at_checked(at).unwrap_or_default();
    let mut out = Writer { pace: how.pace, beats: Vec::with_capacity(frames.len() + 4) };
    let Some(fault) = how.fault else {
        out.frames(&frames);
        return Body::Headed { coding: None, beats: out.beats };
    };
    match fault {
        Fault::HangUp => return Body::Headless(Duration::ZERO),
        Fault::StallHead => return Body::Headless(STALL),
        Fault::CutHead => out.ends(PACE),
        Fault::Cut => out.broken(said, PACE),
        Fault::Stall => out.broken(said, STALL),
        Fault::CutInFrame => {
            out.frames(said);
            let torn = rest.first().map(|frame| half(&frame.bytes).0.to_vec());
            out.bytes(torn.unwrap_or_default().into());
            out.ends(PACE);
        }
        Fault::NoEnd => {
            let is_said = |frame: &&Frame| mode == Mode::Whole || frame.part != Part::Ends;
            let upto = if how.after.is_some() || mode == Mode::Whole { said } else { &frames };
            upto.iter().take_while(is_said).for_each(|frame| out.frame(frame));
        }
        Fault::Error if mode == Mode::Whole => {
            out.bytes(play::refuse(family, &Complaint::of(how.error), now).body.into());
        }
        Fault::Error => {
            out.frames(said);
            out.frames(&play::break_off(family, &Complaint::of(how.error), now));
        }
        Fault::Slow => {
            let all = Bytes::from(joined(&frames));
            out.pace = TRICKLE;
            (0..all.len()).for_each(|at| out.bytes(all.slice(at..=at)));
        }
        Fault::Gzip => out.bytes(gzip(&joined(&frames)).into()),
        Fault::NoUsage => out.frames(&frames),
        Fault::Twice => {
            out.frames(&frames);
            frames.iter().filter(|frame| frame.part == Part::Ends).for_each(|one| out.frame(one));
        }
        Fault::LongLine => {
            // In a whole body it can only stand before everything.
            let (said, rest) =
                if mode == Mode::Whole { (&[][..], &frames[..]) } else { (said, rest) };
            out.frames(said);
            out.bytes(long(family, mode));
            out.frames(rest);
        }
    }
    let coding = (fault == Fault::Gzip).then_some("gzip");
    Body::Headed { coding, beats: out.beats }
}

/// What no reader should hold.
fn long(family: Family, mode: Mode) -> Bytes {
    let long = match (mode, family) {
        (Mode::Whole, _) => &LONG_BLANK,
        (Mode::Stream, Family::Bedrock) => &LONG_FRAME,
        (
            Mode::Stream,
            Family::OpenaiChat
            | Family::AnthropicMessages
            | Family::Gemini
            | Family::OpenaiResponses,
        ) => &LONG_EVENT,
    };
    Bytes::clone(long)
}

fn joined(frames: &[Frame]) -> Vec<u8> {
    frames.iter().flat_map(|frame| &frame.bytes).copied().collect()
}

/// The frames of a stream; a whole body in two, so that it has a middle.
fn frames(family: Family, mode: Mode, answer: &Answer, how: &How) -> Vec<Frame> {
    match mode {
        Mode::Stream => play::stream(family, answer, how.pieces),
        Mode::Whole => {
            let body = play::whole(family, answer).into_bytes();
            let (head, tail) = half(&body);
            let of = |bytes: &[u8]| Frame { bytes: bytes.to_vec(), part: Part::Says };
            vec![of(head), of(tail)]
        }
    }
}

fn half(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at_checked(bytes.len() / 2).unwrap_or((bytes, &[]))
}

/// Before which frame the fault strikes: behind so many that carry some of the answer, or behind half of them, and never
/// behind the end.
fn place(frames: &[Frame], after: Option<usize>) -> usize {
    let says = |frame: &&Frame| frame.part == Part::Says;
    let after = after.unwrap_or_else(|| frames.iter().filter(says).count() / 2);
    let mut said = 0;
    let behind = frames.iter().position(|frame| {
        let is_there = frame.part == Part::Ends || (frame.part == Part::Says && said == after);
        said += usize::from(frame.part == Part::Says);
        is_there
    });
    behind.unwrap_or(frames.len())
}

struct Writer {
    pace: Duration,
    beats: Vec<Beat>,
}

impl Writer {
    fn bytes(&mut self, bytes: Bytes) {
        let after = if self.beats.is_empty() { Duration::ZERO } else { self.pace };
        self.beats.push(Beat { after, bytes: Some(bytes) });
    }

    fn frame(&mut self, frame: &Frame) {
        self.bytes(Bytes::copy_from_slice(&frame.bytes));
    }

    fn frames(&mut self, frames: &[Frame]) {
        frames.iter().for_each(|frame| self.frame(frame));
    }

    /// These, a silence, and the connection breaks.
    fn broken(&mut self, frames: &[Frame], after: Duration) {
        self.frames(frames);
        self.ends(after);
    }

    /// The connection breaks after a silence.
    fn ends(&mut self, after: Duration) {
        self.beats.push(Beat { after, bytes: None });
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::Line;
    use super::*;

    fn played(family: Family, mode: Mode, how: &How) -> (Vec<Frame>, Body) {
        let answer = Line::text("one two three four").answer(family, "m", 7);
        let whole = frames(family, mode, &answer, how);
        (whole, beats((family, mode), &answer, how, Instant(0)))
    }

    fn how(fault: Fault) -> How {
        How { fault: Some(fault), ..How::default() }
    }

    /// What comes, and whether the connection breaks behind it.
    fn sent(body: &Body) -> (Vec<u8>, bool) {
        let Body::Headed { beats, .. } = body else { panic!("no head: {body:?}") };
        let bytes = beats.iter().filter_map(|beat| beat.bytes.clone()).flatten().collect();
        (bytes, beats.iter().any(|beat| beat.bytes.is_none()))
    }

    #[test]
    fn each_fault_does_what_its_name_says_on_every_wire() {
        for family in Family::ALL {
            let (frames, plain) = played(family, Mode::Stream, &How::default());
            let all: Vec<u8> = frames.iter().flat_map(|frame| frame.bytes.clone()).collect();
            assert_eq!(sent(&plain), (all.clone(), false));
            let ends = frames.iter().position(|frame| frame.part == Part::Ends).unwrap();
            let before: usize = frames[..ends].iter().map(|frame| frame.bytes.len()).sum();
            for fault in [Fault::Cut, Fault::CutInFrame, Fault::Stall, Fault::CutHead] {
                let (bytes, breaks) = sent(&played(family, Mode::Stream, &how(fault)).1);
                assert!(breaks && all.starts_with(&bytes) && bytes.len() < before, "{fault:?}");
                let is_whole = |end: &usize| {
                    frames[..*end].iter().map(|frame| frame.bytes.len()).sum::<usize>()
                        == bytes.len()
                };
                let is_between = (0..=frames.len()).any(|end| is_whole(&end));
                assert_eq!(is_between, fault != Fault::CutInFrame, "{fault:?}");
            }
            let no_end = sent(&played(family, Mode::Stream, &how(Fault::NoEnd)).1);
            assert_eq!(no_end, (all[..before].to_vec(), false));
            let (twice, _) = sent(&played(family, Mode::Stream, &how(Fault::Twice)).1);
            assert_eq!(twice, [&all[..], &all[before..]].concat());
            let (packed, _) = sent(&played(family, Mode::Stream, &how(Fault::Gzip)).1);
            assert_eq!((&packed[..2], packed.len() > all.len()), (&[0x1f, 0x8b][..], true));
            let (long, _) = sent(&played(family, Mode::Stream, &how(Fault::LongLine)).1);
            assert!(long.len() > all.len() + LONG);
            let Body::Headed { beats, .. } = played(family, Mode::Stream, &how(Fault::Slow)).1
            else {
                panic!("slow")
            };
            assert!(beats.len() == all.len() && beats[1].after == TRICKLE);
            let (error, breaks) = sent(&played(family, Mode::Stream, &how(Fault::Error)).1);
            assert!(!breaks && !all.starts_with(&error));
        }
    }

    #[test]
    fn a_fault_strikes_where_the_script_says() {
        for after in 0..6 {
            let how = How { after: Some(after), ..how(Fault::Cut) };
            let (frames, body) = played(Family::OpenaiChat, Mode::Stream, &how);
            let Body::Headed { beats, .. } = body else { panic!("no head") };
            // Who speaks, so many words of four, and the break.
            assert_eq!(beats.len(), 1 + after.min(4) + 1);
            assert!(frames.len() > beats.len());
        }
    }

    #[test]
    fn a_whole_answer_breaks_in_its_middle() {
        for family in Family::ALL {
            let (frames, _) = played(family, Mode::Whole, &How::default());
            let (head, tail) = (frames[0].bytes.clone(), frames[1].bytes.clone());
            assert_eq!(
                sent(&played(family, Mode::Whole, &how(Fault::Cut)).1),
                (head.clone(), true)
            );
            assert_eq!(
                sent(&played(family, Mode::Whole, &how(Fault::NoEnd)).1),
                (head.clone(), false)
            );
            let (long, _) = sent(&played(family, Mode::Whole, &how(Fault::LongLine)).1);
            assert!(long[..LONG].iter().all(|byte| *byte == b' '));
            assert_eq!(long[LONG..], [head, tail].concat());
            assert_eq!(
                played(family, Mode::Whole, &how(Fault::HangUp)).1,
                Body::Headless(Duration::ZERO)
            );
        }
    }
}
