//! What crosses nodes, as bytes: `[kind][schema][postcard]`, both numbers little-endian, frozen like stored events.
//!
//! Two builds talk while a cluster is upgraded, and postcard is positional: a field more would be read as something
//! else without an error. So each command, refusal and outcome has its own kind and schema; a released one never
//! changes, and the bytes of each are pinned in `golden/bus.txt`. One that a build does not know is said to be so.

use super::pieces::{Pieces, Ring};
use crate::order::{Build, Lane, NoDecision};
use events::codec::{self, CodecError};
use events::quantity::Millis;
use events::record::{Actor, BlobRef, CommandId, Hash, Payload, Position, Version};
use serde::{Deserialize, Serialize};

/// Bytes of a body that travels in its message. Larger ones go to the store's blobs first, so that a message stays far
/// below what a server takes (1 MiB) and one large body does not hold up the small ones behind it.
pub const INLINE_BYTES_MAX: usize = 256 << 10;

/// A type whose values cross nodes; made by [`crate::carried!`].
pub trait Carried: Sized {
    /// Every (kind, schema, name) that this build reads.
    const TABLE: &'static [(u16, u16, &'static str)];

    /// The form that crosses.
    ///
    /// # Errors
    ///
    /// When the value can not be serialised.
    fn pack(&self) -> Result<Parcel, CodecError>;

    /// The value that crossed.
    ///
    /// # Errors
    ///
    /// [`CodecError::Unknown`] when another build sent what this one does not know; [`CodecError::Payload`] when the
    /// bytes are not what their kind and schema claim.
    fn unpack(kind: u16, schema: u16, bytes: &[u8]) -> Result<Self, CodecError>;
}

/// Says how each variant of an enum crosses nodes: its fields in the given order under a frozen (kind, schema). A new
/// field is a new schema; a number is never used twice, over all types of the bus.
#[macro_export]
macro_rules! carried {
    ($type:ty {
        $( $variant:ident $({ $($field:ident),+ })? $(( $($item:ident),+ ))? = $kind:literal / $schema:literal; )+
    }) => {
        impl $crate::bus::Carried for $type {
            const TABLE: &'static [(u16, u16, &'static str)] =
                &[ $( ($kind, $schema, concat!(stringify!($type), "::", stringify!($variant))), )+ ];

            fn pack(&self) -> Result<$crate::bus::Parcel, events::codec::CodecError> {
                match self {
                    $( Self::$variant $({ $($field),+ })? $(( $($item),+ ))? => {
                        $crate::bus::Parcel::of($kind, $schema, &($( $($field,)+ )? $( $($item,)+ )?))
                    } )+
                }
            }

            fn unpack(kind: u16, schema: u16, bytes: &[u8]) -> Result<Self, events::codec::CodecError> {
                match (kind, schema) {
                    $( ($kind, $schema) => {
                        let ($( $($field,)+ )? $( $($item,)+ )?) = events::codec::decode(kind, schema, bytes)?;
                        Ok(Self::$variant $({ $($field),+ })? $(( $($item),+ ))?)
                    } )+
                    (kind, schema) => Err(events::codec::CodecError::Unknown { kind, schema }),
                }
            }
        }
    };
}

/// Bytes in the message, or the name of the blob that holds them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// Here.
    Inline(#[serde(with = "serde_bytes")] Vec<u8>),
    /// In the store.
    Blob {
        /// Its name.
        hash: Hash,
        /// Its size.
        bytes: u64,
    },
}

impl Body {
    /// The blob that holds it, if one does.
    #[must_use]
    pub fn blob(&self) -> Option<BlobRef> {
        match self {
            Self::Inline(_) => None,
            Self::Blob { hash, bytes } => Some(BlobRef { hash: *hash, bytes: *bytes }),
        }
    }
}

/// A value with its kind and schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parcel {
    /// Which kind.
    pub kind: u16,
    /// Which frozen shape of it.
    pub schema: u16,
    /// Its postcard bytes.
    pub body: Body,
}

impl Parcel {
    /// Packs a frozen payload.
    ///
    /// # Errors
    ///
    /// When it can not be serialised.
    pub fn of<T: Serialize>(kind: u16, schema: u16, value: &T) -> Result<Self, CodecError> {
        let body = match codec::encode(kind, schema, value)?.payload {
            Payload::Inline(bytes) => Body::Inline(bytes.to_vec()),
            Payload::Blob(_) => return Err(CodecError::Absent { kind }),
        };
        Ok(Self { kind, schema, body })
    }
}

/// A command on its way to another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Who asks, for the answer that the owner is too old.
    pub build: Build,
    /// Repeated when the same command is asked again.
    pub id: CommandId,
    /// The larger piece of work.
    pub correlation: u128,
    /// Who wants it.
    pub actor: Actor,
    /// How long the asker still waits. Not an instant: the clocks of two nodes differ.
    pub left: Millis,
    /// Which way it takes at the owner.
    pub urgent: Urgency,
    /// What is asked.
    pub command: Parcel,
}

/// [`Lane`], frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Urgency {
    /// [`Lane::Data`].
    Usual,
    /// [`Lane::Control`].
    First,
}

impl From<Lane> for Urgency {
    fn from(lane: Lane) -> Self {
        match lane {
            Lane::Data => Self::Usual,
            Lane::Control => Self::First,
        }
    }
}

impl From<Urgency> for Lane {
    fn from(urgency: Urgency) -> Self {
        match urgency {
            Urgency::Usual => Self::Data,
            Urgency::First => Self::Control,
        }
    }
}

/// What an owner believes. The state is not frozen: it crosses as it stands in snapshots, with the number of its shape,
/// and an asker of another shape folds the stream itself up to the version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Belief {
    /// The stream's version.
    pub version: Version,
    /// Where the commit stands that ends there.
    pub position: Position,
    /// [`events::aggregate::Aggregate::FOLD`] of the owner's build.
    pub fold: u32,
    /// The state.
    pub state: Body,
}

/// A message between nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Decide this.
    Ask(Ask),
    /// Say what you believe.
    Observe(Build),
    /// It is decided, or this is believed.
    Belief(Belief),
    /// The rules say no.
    Refused(Parcel),
    /// Nobody decided.
    Undecided(Parcel),
    /// Say what a run's model has said so far, and tell what it says.
    Ring(Ring),
    /// Its pieces.
    Pieces(Pieces),
}

carried!(Message {
    Ask(ask) = 1 / 1;
    Observe(build) = 2 / 1;
    Belief(belief) = 3 / 1;
    Refused(refusal) = 4 / 1;
    Undecided(why) = 5 / 1;
    Ring(asked) = 10 / 1;
    Pieces(told) = 11 / 1;
});

carried!(NoDecision {
    Busy { retry_after } = 20 / 1;
    Parked { until } = 21 / 1;
    Lost = 22 / 1;
    TimedOut = 23 / 1;
    DeadlinePassed = 24 / 1;
    Expired = 25 / 1;
    TooLarge { bytes, max } = 26 / 1;
    NobodyThere = 27 / 1;
    Unsupported { asker, owner } = 28 / 1;
});

impl Message {
    /// The whole message.
    ///
    /// # Errors
    ///
    /// When it can not be serialised.
    pub fn write(&self) -> Result<Vec<u8>, CodecError> {
        write(self)
    }

    /// Reads a whole message, and insists that no byte is left over.
    ///
    /// # Errors
    ///
    /// As [`Carried::unpack`]; what is shorter than its numbers is of kind 0.
    pub fn read(bytes: &[u8]) -> Result<Self, CodecError> {
        read(bytes)
    }
}

/// A value as a whole message.
pub(super) fn write(value: &impl Carried) -> Result<Vec<u8>, CodecError> {
    let Parcel { kind, schema, body } = value.pack()?;
    let Body::Inline(body) = body else { return Err(CodecError::Absent { kind }) };
    Ok([&kind.to_le_bytes()[..], &schema.to_le_bytes()[..], &body].concat())
}

/// The value that a whole message is.
pub(super) fn read<T: Carried>(bytes: &[u8]) -> Result<T, CodecError> {
    let short = CodecError::Payload { kind: 0, schema: 0 };
    let (kind, rest) = bytes.split_first_chunk::<2>().ok_or(short.clone())?;
    let (schema, body) = rest.split_first_chunk::<2>().ok_or(short)?;
    T::unpack(u16::from_le_bytes(*kind), u16::from_le_bytes(*schema), body)
}

#[cfg(test)]
mod tests;
