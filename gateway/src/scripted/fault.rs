//! What can go wrong on a wire, by name, and the classes of errors that a provider says.

use events::quantity::Millis;
use providers::Class;
use providers::play::{Complaint, Place};

/// How an answer goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection closes without an answer.
    HangUp,
    /// Nothing comes, not even a status.
    StallHead,
    /// The connection breaks behind the headers.
    CutHead,
    /// It breaks between two frames.
    Cut,
    /// It breaks within a frame.
    CutInFrame,
    /// Nothing more comes, and the connection stays.
    Stall,
    /// The body ends in order, without its terminal event.
    NoEnd,
    /// An error comes inside the answer.
    Error,
    /// A byte at a time.
    Slow,
    /// Compressed, though nobody asked for that.
    Gzip,
    /// The terminal event comes twice.
    Twice,
    /// A line, or a frame, of 10 MB comes among the others.
    LongLine,
    /// Nobody says what was used.
    NoUsage,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::HangUp,
        Self::StallHead,
        Self::CutHead,
        Self::Cut,
        Self::CutInFrame,
        Self::Stall,
        Self::NoEnd,
        Self::Error,
        Self::Slow,
        Self::Gzip,
        Self::Twice,
        Self::LongLine,
        Self::NoUsage,
    ];

    /// Its word in a script.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HangUp => "hang_up",
            Self::StallHead => "stall_head",
            Self::CutHead => "cut_head",
            Self::Cut => "cut",
            Self::CutInFrame => "cut_in_frame",
            Self::Stall => "stall",
            Self::NoEnd => "no_end",
            Self::Error => "error",
            Self::Slow => "slow",
            Self::Gzip => "gzip",
            Self::Twice => "twice",
            Self::LongLine => "long_line",
            Self::NoUsage => "no_usage",
        }
    }

    /// The fault of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }

    /// Whether the answer never reaches its end.
    pub(super) const fn loses_the_answer(self) -> bool {
        match self {
            Self::HangUp
            | Self::StallHead
            | Self::CutHead
            | Self::Cut
            | Self::CutInFrame
            | Self::Stall
            | Self::NoEnd
            | Self::Error
            | Self::Gzip
            | Self::LongLine => true,
            Self::Slow | Self::Twice | Self::NoUsage => false,
        }
    }
}

/// Whether a provider can say this class in a refusal. The others are seen by whoever asks, and are faults here.
#[must_use]
pub(super) fn is_said(class: Class) -> bool {
    !matches!(class, Class::Transport | Class::Tls | Class::StreamTruncated | Class::StreamError)
}

/// The class of this name, if a provider can say it.
#[must_use]
pub(super) fn class_named(name: &str) -> Option<Class> {
    Class::ALL.into_iter().find(|class| class.name() == name && is_said(*class))
}

/// What goes wrong when a person asks for it: a status, a class or a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wrong {
    /// It is refused.
    Refused(Complaint),
    /// It is played wrongly.
    Played(Fault),
}

impl Wrong {
    /// What this word asks for.
    pub(super) fn named(word: &str) -> Option<Self> {
        let class = match word {
            "400" => Some(Class::InvalidRequest),
            "401" => Some(Class::AuthInvalid),
            "402" => Some(Class::Billing),
            "404" => Some(Class::ModelNotFound),
            "413" => Some(Class::PayloadTooLarge),
            "429" => Some(Class::RateLimited),
            "500" => Some(Class::ServerError),
            "503" | "529" => Some(Class::Overloaded),
            "504" => Some(Class::Timeout),
            _ => class_named(word),
        };
        let Some(class) = class else { return Fault::named(word).map(Self::Played) };
        let hint = (class == Class::RateLimited).then_some((Millis(1_000), Place::RetryAfter));
        let status = word.parse().ok();
        Some(Self::Refused(Complaint { hint, status, ..Complaint::of(class) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_means_one_thing() {
        for fault in Fault::ALL {
            assert_eq!(Fault::named(fault.name()), Some(fault));
            assert_eq!(class_named(fault.name()), None, "{fault:?} is no class besides");
        }
        assert_eq!(class_named("rate_limited"), Some(Class::RateLimited));
        assert_eq!(class_named("stream_truncated"), None, "nobody says that");
        assert_eq!(Wrong::named("nonsense"), None);
        assert_eq!(Wrong::named("cut"), Some(Wrong::Played(Fault::Cut)));
        let Some(Wrong::Refused(limited)) = Wrong::named("429") else { panic!("429") };
        assert_eq!(limited.class, Class::RateLimited);
        assert_eq!(limited.hint, Some((Millis(1_000), Place::RetryAfter)));
        let Some(Wrong::Refused(full)) = Wrong::named("529") else { panic!("529") };
        assert_eq!((full.class, full.status), (Class::Overloaded, Some(529)));
    }
}
