//! Byte strings as text and back: printable characters stand for themselves, `\xHH` for any byte.

/// Bytes as [`blob_of_text`] reads them: `\xHH` for those that are no
/// printable ASCII characters, quotes or backslashes.
pub fn blob_text(bytes: &[u8], text: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        match byte {
            b'\\' | b'"' | b'\'' | 0..=0x1F | 0x7F..=0xFF => {
                let hex = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                text.extend_from_slice(br"\x");
                text.extend_from_slice(&hex);
            }
            _ => text.push(*byte),
        }
    }
}

/// A byte string: printable characters stand for themselves, `\xHH` for any byte.
pub fn blob_of_text(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let [b'\\', b'x' | b'X', high, low, tail @ ..] = &rest[at..] else { return None };
        let digit = |byte: u8| (byte as char).to_digit(16);
        out.push((digit(*high)? * 16 + digit(*low)?) as u8);
        rest = tail;
    }
    out.extend_from_slice(rest);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_texts() {
        let mut out = Vec::new();
        assert_eq!(blob_of_text(br"a\x00\xfFz", &mut out), Some(()));
        assert_eq!(out, b"a\x00\xFFz");
        assert_eq!(blob_of_text(br"\q", &mut out), None);
        assert_eq!(blob_of_text(br"\x0", &mut out), None);
    }
}
