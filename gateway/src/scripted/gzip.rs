//! The form of gzip, RFC 1952, around bytes that are stored as they are: enough to be what a client did not ask for.

/// Bytes of one stored block: the most that its length can say.
const BLOCK: usize = 0xffff;
/// Magic, deflate, no flags, no time, no hints, an unknown system.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// The bytes, gzipped.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = HEAD.to_vec();
    let mut blocks = bytes.chunks(BLOCK).peekable();
    if blocks.peek().is_none() {
        out.extend_from_slice(&[1, 0, 0, 0xff, 0xff]);
    }
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        out.push(u8::from(blocks.peek().is_none()));
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    out.extend_from_slice(&providers::play::crc32(bytes).to_le_bytes());
    // Of a longer one the length is said without its high bits.
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes();
    out.extend_from_slice(length.get(..4).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn what_is_gzipped_is_read_by_gzip() {
        for bytes in [Vec::new(), b"hello".to_vec(), vec![7; 200_000]] {
            let mut gunzip = Command::new("gzip")
                .arg("-dc")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stdin = gunzip.stdin.take().unwrap();
            let packed = gzip(&bytes);
            let writer =
                std::thread::Builder::new().spawn(move || stdin.write_all(&packed)).unwrap();
            let output = gunzip.wait_with_output().unwrap();
            writer.join().unwrap().unwrap();
            assert!(output.status.success());
            assert_eq!(output.stdout, bytes);
        }
    }
}
