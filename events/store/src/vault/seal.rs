//! A value's stored form: sealed under a cluster key by ChaCha20-Poly1305, with all that is said beside it bound to it.
//!
//! The namespace, the name, the revision and the key's id are part of what is authenticated, so a value that was moved to
//! another name, or given another revision, does not open. An older value that is put back whole does: whoever knows of a
//! newer revision has to refuse it, as the choice of a profile does. The form is frozen: `[kind][schema]` and
//! postcard, its bytes pinned below.

use super::keys::{ClusterKey, ClusterKeys};
use super::{Name, Plain, Revision, VaultError};
use events::codec;
use events::record::Payload;
use events::subject::Namespace;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

/// Kind and schema of an envelope.
const ENVELOPE: (u16, u16) = (42, 1);

#[derive(Serialize, Deserialize)]
struct Envelope {
    key: String,
    /// Tells a wrong key of the right id from changed bytes.
    check: [u8; 8],
    name: String,
    revision: u64,
    /// Drawn: under one key far fewer values are ever sealed than its 96 bits bear.
    nonce: [u8; NONCE_LEN],
    sealed: Vec<u8>,
}

impl Envelope {
    /// What is authenticated beside the value. Each part has its length in front, so that no two lists read alike.
    fn beside(&self, namespace: &Namespace) -> Vec<u8> {
        let revision = self.revision.to_le_bytes();
        let parts: [&[u8]; 6] = [
            b"piton vault 1",
            namespace.as_str().as_bytes(),
            self.name.as_bytes(),
            &revision,
            self.key.as_bytes(),
            &self.check,
        ];
        let mut out = Vec::new();
        for part in parts {
            out.extend_from_slice(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            out.extend_from_slice(part);
        }
        out
    }
}

/// Whose value it is, and what it is sealed under.
pub(super) struct Label<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) name: &'a Name,
    pub(super) revision: Revision,
}

fn cipher(key: &ClusterKey) -> Option<LessSafeKey> {
    UnboundKey::new(&CHACHA20_POLY1305, key.bytes()).ok().map(LessSafeKey::new)
}

/// Seals a value under a key.
pub(super) fn seal(
    label: &Label<'_>,
    key: &ClusterKey,
    value: &Plain,
) -> Result<Vec<u8>, VaultError> {
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).map_err(|_| VaultError::NoChance)?;
    seal_with(label, key, value, nonce)
}

fn seal_with(
    label: &Label<'_>,
    key: &ClusterKey,
    value: &Plain,
    nonce: [u8; NONCE_LEN],
) -> Result<Vec<u8>, VaultError> {
    let Label { namespace, name, revision } = *label;
    let strange = || VaultError::Strange { name: name.clone() };
    let mut envelope = Envelope {
        key: key.id().to_owned(),
        check: key.check(),
        name: name.as_str().to_owned(),
        revision: revision.0,
        nonce,
        sealed: value.expose().to_vec(),
    };
    let beside = envelope.beside(namespace);
    let once = Nonce::assume_unique_for_key(nonce);
    let cipher = cipher(key).ok_or_else(strange)?;
    let done = cipher.seal_in_place_append_tag(once, Aad::from(beside), &mut envelope.sealed);
    done.map_err(|_| strange())?;
    let (kind, schema) = ENVELOPE;
    let entry = codec::encode(kind, schema, &envelope).map_err(|_| strange())?;
    let Payload::Inline(body) = entry.payload else { return Err(strange()) };
    Ok([&kind.to_le_bytes()[..], &schema.to_le_bytes()[..], &body].concat())
}

/// A value that was opened.
pub(super) struct Opened {
    pub(super) revision: Revision,
    pub(super) value: Plain,
    /// The key it was sealed under.
    pub(super) key: String,
}

/// The id of the key that stored bytes claim; nothing of it is checked yet.
pub(super) fn claims(name: &Name, bytes: &[u8]) -> Result<String, VaultError> {
    Ok(read(name, bytes)?.key)
}

fn read(name: &Name, bytes: &[u8]) -> Result<Envelope, VaultError> {
    let strange = || VaultError::Strange { name: name.clone() };
    let (kind, rest) = bytes.split_first_chunk::<2>().ok_or_else(strange)?;
    let (schema, body) = rest.split_first_chunk::<2>().ok_or_else(strange)?;
    if (u16::from_le_bytes(*kind), u16::from_le_bytes(*schema)) != ENVELOPE {
        return Err(strange());
    }
    codec::decode(ENVELOPE.0, ENVELOPE.1, body).map_err(|_| strange())
}

/// Opens what stands under a name.
pub(super) fn open(
    namespace: &Namespace,
    name: &Name,
    keys: &ClusterKeys,
    bytes: &[u8],
) -> Result<Opened, VaultError> {
    let mut envelope = read(name, bytes)?;
    if envelope.name != name.as_str() {
        let found = envelope.name.chars().take(80).collect();
        return Err(VaultError::Swapped { name: name.clone(), found });
    }
    let (named, id) = (|| name.clone(), || envelope.key.clone());
    let key = keys.get(&envelope.key);
    let key = key.ok_or_else(|| VaultError::NoKey { name: named(), id: id() })?;
    if key.check() != envelope.check {
        return Err(VaultError::WrongKey { name: named(), id: id() });
    }
    let tampered = || VaultError::Tampered { name: named(), id: id() };
    let beside = Aad::from(envelope.beside(namespace));
    let once = Nonce::assume_unique_for_key(envelope.nonce);
    let mut sealed = std::mem::take(&mut envelope.sealed);
    let cipher = cipher(key).ok_or_else(tampered)?;
    let length = match cipher.open_in_place(once, beside, &mut sealed) {
        Ok(value) => value.len(),
        Err(_) => return Err(VaultError::Tampered { name: name.clone(), id: envelope.key }),
    };
    sealed.truncate(length);
    let (revision, value) = (Revision(envelope.revision), Plain::new(sealed));
    Ok(Opened { revision, value, key: envelope.key })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn keys(text: &str) -> ClusterKeys {
        ClusterKeys::parse(text, Path::new("k")).unwrap()
    }

    fn line(id: &str, byte: u8) -> String {
        format!("{id}:{}", format!("{byte:02x}").repeat(32))
    }

    fn ours() -> Namespace {
        "prod".parse().unwrap()
    }

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn sealed(under: &ClusterKeys) -> Vec<u8> {
        let (namespace, name) = (ours(), name("credential.openai.main"));
        let label = Label { namespace: &namespace, name: &name, revision: Revision(7) };
        seal_with(&label, under.newest(), &Plain::new(b"sk-planted".to_vec()), [9; 12]).unwrap()
    }

    fn opened(at: &str, with: &ClusterKeys, bytes: &[u8]) -> Result<Opened, VaultError> {
        open(&ours(), &name(at), with, bytes)
    }

    #[test]
    fn the_bytes_of_an_envelope_do_not_change() {
        let bytes = sealed(&keys(&line("k1", 7)));
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, include_str!("golden/envelope.txt").trim());
    }

    #[test]
    fn what_was_sealed_opens_under_its_key_and_shows_nothing() {
        let old = keys(&line("k1", 7));
        let bytes = sealed(&old);
        assert!(!bytes.windows(7).any(|window| window == b"planted"));
        let both = keys(&format!("{}\n{}", line("k2", 8), line("k1", 7)));
        for with in [&old, &both] {
            let found = opened("credential.openai.main", with, &bytes).ok().unwrap();
            assert_eq!((found.value.expose(), found.revision), (&b"sk-planted"[..], Revision(7)));
            assert_eq!(found.key, "k1");
        }
    }

    #[test]
    fn a_wrong_key_a_missing_one_and_a_moved_value_have_their_own_names() {
        let bytes = sealed(&keys(&line("k1", 7)));
        let at = "credential.openai.main";
        let missing = opened(at, &keys(&line("k2", 7)), &bytes).err().unwrap();
        assert!(matches!(&missing, VaultError::NoKey { id, .. } if id == "k1"), "{missing}");
        let wrong = opened(at, &keys(&line("k1", 8)), &bytes).err().unwrap();
        assert!(matches!(&wrong, VaultError::WrongKey { id, .. } if id == "k1"), "{wrong}");
        let moved = opened("credential.openai.other", &keys(&line("k1", 7)), &bytes).err().unwrap();
        assert!(matches!(&moved, VaultError::Swapped { found, .. } if found == at), "{moved}");
        let elsewhere = open(&"test".parse().unwrap(), &name(at), &keys(&line("k1", 7)), &bytes);
        assert!(matches!(elsewhere, Err(VaultError::Tampered { .. })));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_refused() {
        let (with, at) = (keys(&line("k1", 7)), "credential.openai.main");
        let bytes = sealed(&with);
        for nth in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[nth] ^= 1;
            let said = opened(at, &with, &changed).err().unwrap().to_string();
            assert!(!said.contains("planted"), "{said}");
            assert!(opened(at, &with, &bytes[..nth]).is_err(), "cut at {nth}");
        }
        assert!(opened(at, &with, &[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn a_value_under_a_forged_name_does_not_open() {
        let with = keys(&line("k1", 7));
        let mut envelope = read(&name("a"), &sealed(&with)).ok().unwrap();
        "credential.openai.other".clone_into(&mut envelope.name);
        let entry = codec::encode(ENVELOPE.0, ENVELOPE.1, &envelope).unwrap();
        let Payload::Inline(body) = entry.payload else { panic!() };
        let bytes = [&[42, 0, 1, 0][..], &body].concat();
        let forged = opened("credential.openai.other", &with, &bytes);
        assert!(matches!(forged, Err(VaultError::Tampered { .. })));
    }
}
