//! The signature of a message: HMAC-SHA256 (RFC 2104) over `<seconds>.<body>`, so that a message can neither be forged
//! nor be sent again much later.

use sha2::{Digest, Sha256};

/// Bytes of a block of SHA-256.
const BLOCK: usize = 64;

fn hmac(key: &[u8], message: &[&[u8]]) -> [u8; 32] {
    let mut block = [0_u8; BLOCK];
    let short: &[u8] = if key.len() > BLOCK { &Sha256::digest(key) } else { key };
    for (to, from) in block.iter_mut().zip(short) {
        *to = *from;
    }
    let mut inner = Sha256::new();
    inner.update(block.map(|byte| byte ^ 0x36));
    message.iter().for_each(|part| inner.update(part));
    let mut outer = Sha256::new();
    outer.update(block.map(|byte| byte ^ 0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

/// The value of `Piton-Signature`: when it was signed, in seconds since 1970, and the signature.
pub(super) fn signature(secret: &[u8], seconds: i64, body: &[u8]) -> String {
    let time = seconds.to_string();
    let signed = hmac(secret, &[time.as_bytes(), b".", body]);
    let hex: String = signed.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={time},v1={hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: [u8; 32]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// RFC 4231, cases 2 and 6.
    #[test]
    fn the_published_examples_come_out() {
        assert_eq!(
            hex(hmac(b"Jefe", &[b"what do ya want ", b"for nothing?"])),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hex(hmac(&[0xaa; 131], &[b"Test Using Larger Than Block-Size Key - Hash Key First"])),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn the_time_is_signed_with_the_body() {
        let signed = signature(b"a secret of some length", 1_700_000_000, b"{}");
        assert!(signed.starts_with("t=1700000000,v1="), "{signed}");
        assert_eq!(signed.len(), "t=1700000000,v1=".len() + 64);
        assert_ne!(signed, signature(b"a secret of some length", 1_700_000_001, b"{}"));
        assert_ne!(signed, signature(b"a secret of some length", 1_700_000_000, b"{ }"));
        assert_ne!(signed, signature(b"another secret", 1_700_000_000, b"{}"));
    }
}
