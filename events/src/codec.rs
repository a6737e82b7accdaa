//! One table per aggregate from (kind, schema) to a frozen payload, because postcard is positional: a reordered
//! variant or a new field would otherwise be read as something else without an error.
//!
//! A released (kind, schema) never changes. A new shape is a new schema of the same kind with an upcast from the
//! old one; the bytes of each are pinned in `golden/`.

use crate::record::{Entry, Payload};
use serde::{Serialize, de::DeserializeOwned};

/// A fact can not be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// No such kind and schema in this build: a newer one wrote it. Start the newer build.
    #[error("kind {kind} schema {schema} is unknown to this build")]
    Unknown {
        /// Which kind.
        kind: u16,
        /// Which shape of it.
        schema: u16,
    },
    /// The bytes are not what their kind and schema claim.
    #[error("payload of kind {kind} schema {schema} does not decode")]
    Payload {
        /// Which kind.
        kind: u16,
        /// Which shape of it.
        schema: u16,
    },
    /// The payload is sealed, or stands in a blob that was not fetched.
    #[error("payload of kind {kind} is not at hand")]
    Absent {
        /// Which kind.
        kind: u16,
    },
}

/// Writes a frozen payload.
///
/// # Errors
///
/// When the value can not be serialised.
pub fn encode<T: Serialize>(kind: u16, schema: u16, value: &T) -> Result<Entry, CodecError> {
    let bytes = postcard::to_stdvec(value).map_err(|_| CodecError::Payload { kind, schema })?;
    Ok(Entry { kind, schema, seal: None, payload: Payload::Inline(bytes.into()) })
}

/// Reads a frozen payload and insists that no byte is left over.
///
/// # Errors
///
/// [`CodecError::Payload`] when the bytes are not exactly one value.
pub fn decode<T: DeserializeOwned>(kind: u16, schema: u16, bytes: &[u8]) -> Result<T, CodecError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok(_) | Err(_) => Err(CodecError::Payload { kind, schema }),
    }
}

/// Declares an event enum and its table: variant, frozen payload, kind, schema, name; then upcasts of older schemas.
#[macro_export]
macro_rules! events {
    (
        $(#[$doc:meta])*
        pub enum $enum:ident {
            $( $(#[$vdoc:meta])* $variant:ident($payload:ty) = $kind:literal / $schema:literal $name:literal; )+
        }
        $( upcast { $( $old:ty = $okind:literal / $oschema:literal => $ovariant:ident; )+ } )?
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $enum {
            $( $(#[$vdoc])* $variant($payload), )+
        }

        impl $enum {
            /// Every (kind, schema, name) that this build reads.
            pub const TABLE: &'static [(u16, u16, &'static str)] = &[
                $( ($kind, $schema, $name), )+
                $( $( ($okind, $oschema, stringify!($ovariant)), )+ )?
            ];

            /// What happened, as a word for people and wires.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self { $( Self::$variant(_) => $name, )+ }
            }

            /// The stored form.
            ///
            /// # Errors
            ///
            /// When the payload can not be serialised.
            pub fn encode(&self) -> Result<$crate::record::Entry, $crate::codec::CodecError> {
                match self { $( Self::$variant(payload) => $crate::codec::encode($kind, $schema, payload), )+ }
            }

            /// The current form of a stored fact; older schemas are upcast.
            ///
            /// # Errors
            ///
            /// When this build does not know the kind and schema, or the bytes are not exactly such a payload.
            pub fn decode(kind: u16, schema: u16, bytes: &[u8]) -> Result<Self, $crate::codec::CodecError> {
                match (kind, schema) {
                    $( ($kind, $schema) => Ok(Self::$variant($crate::codec::decode::<$payload>(kind, schema, bytes)?)), )+
                    $( $( ($okind, $oschema) => Ok(Self::$ovariant($crate::codec::decode::<$old>(kind, schema, bytes)?.into())), )+ )?
                    (kind, schema) => Err($crate::codec::CodecError::Unknown { kind, schema }),
                }
            }
        }
    };
}

/// Compares the bytes of one sample per variant with the pinned ones; a test of each aggregate.
#[cfg(test)]
pub(crate) mod golden {
    use crate::record::{Entry, Payload};
    use std::fmt::Write;

    fn line(name: &str, entry: &Entry) -> String {
        let Payload::Inline(bytes) = &entry.payload else { panic!("{name} is not inline") };
        let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        format!("{} {} {name} {hex}", entry.kind, entry.schema)
    }

    /// `PITON_BLESS=1` rewrites the file instead.
    #[expect(
        clippy::disallowed_methods,
        reason = "blessing rewrites a file of the source tree; test code only"
    )]
    pub(crate) fn check(
        file: &str,
        pinned: &str,
        table: &[(u16, u16, &str)],
        samples: &[(&str, Entry)],
        decode: impl Fn(u16, u16, &[u8]) -> bool,
    ) {
        let found: Vec<String> = samples.iter().map(|(name, entry)| line(name, entry)).collect();
        if std::env::var_os("PITON_BLESS").is_some() {
            let path = format!("{}/src/golden/{file}", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, found.join("\n") + "\n").unwrap();
            return;
        }
        let pinned: Vec<&str> = pinned.lines().collect();
        for line in &found {
            assert!(
                pinned.contains(&line.as_str()),
                "bytes changed: {line}\nrun `just bless` if no release had them"
            );
        }
        let mut left: Vec<(u16, u16)> =
            table.iter().map(|(kind, schema, _)| (*kind, *schema)).collect();
        for line in pinned {
            let mut words = line.split(' ');
            let kind: u16 = words.next().unwrap().parse().unwrap();
            let schema: u16 = words.next().unwrap().parse().unwrap();
            let hex = words.nth(1).unwrap_or_default();
            let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
            let bytes: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
            assert!(decode(kind, schema, &bytes), "a pinned fact no longer reads: {line}");
            left.retain(|row| *row != (kind, schema));
        }
        assert!(left.is_empty(), "no pinned bytes for {left:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_left_over_is_an_error_and_not_ignored() {
        let Entry { payload: Payload::Inline(bytes), .. } = encode(1, 1, &(7_u32, true)).unwrap()
        else {
            panic!()
        };
        assert_eq!(decode::<(u32, bool)>(1, 1, &bytes), Ok((7, true)));
        assert_eq!(decode::<u32>(1, 1, &bytes), Err(CodecError::Payload { kind: 1, schema: 1 }));
    }
}
