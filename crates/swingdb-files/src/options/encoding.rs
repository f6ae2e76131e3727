//! Text in other encodings than UTF-8.
//!
//! A [`Decoder`] stands between the bytes of a file and whoever reads text, so that all behind it
//! sees UTF-8. Bytes that are no character of the encoding are an error with their place in the
//! file: a replacement character would be a value that the file does not have.

use std::io::{self, Read};

use encoding_rs::{DecoderResult, Encoding};
use swingdb_common::error::{Error, Result};

/// Bytes that are decoded at a time.
const STEP_BYTES: usize = 64 << 10;

/// How characters are written as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextEncoding(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// ISO 8859-1 without its control characters.
    Latin1,
    /// As the byte order mark says, else with the low byte first.
    Utf16,
    /// One of the library's.
    Other(&'static Encoding),
}

impl TextEncoding {
    /// The encoding of a name; `None` for UTF-8.
    pub fn new(name: &str) -> Result<Option<Self>> {
        let kind = match name.to_ascii_lowercase().replace('_', "-").as_str() {
            "utf-8" | "utf8" => return Ok(None),
            // The library takes these for windows-1252.
            "latin-1" | "latin1" | "iso-8859-1" | "iso8859-1" => Kind::Latin1,
            "utf-16" | "utf16" => Kind::Utf16,
            _ => match Encoding::for_label(name.replace("cp125", "windows-125").as_bytes()) {
                Some(encoding) => Kind::Other(encoding),
                None => {
                    return Err(Error::plan(format!(
                        "unknown encoding {name:?}; there are utf-8, utf-16, utf-16le, utf-16be, \
                         latin-1, iso-8859-2 to -16, windows-1250 to -1258, koi8-r, macintosh, \
                         shift_jis, euc-jp, gbk, gb18030, big5 and euc-kr"
                    )));
                }
            },
        };
        Ok(Some(Self(kind)))
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            Kind::Latin1 => "latin-1",
            Kind::Utf16 => "utf-16",
            Kind::Other(encoding) => encoding.name(),
        }
    }

    /// The text of `source` as UTF-8.
    pub(crate) fn decoded(self, source: Box<dyn Read + Send>) -> Box<dyn Read + Send> {
        let decoder = match self.0 {
            Kind::Latin1 => None,
            Kind::Utf16 => Some(encoding_rs::UTF_16LE.new_decoder()),
            Kind::Other(encoding) => Some(encoding.new_decoder_with_bom_removal()),
        };
        let (input, output) = (Vec::new(), Vec::new());
        Box::new(Decoder {
            source,
            decoder,
            input,
            output,
            given: 0,
            place: 0,
            ended: false,
            encoding: self,
        })
    }
}

/// Bytes of one encoding in, UTF-8 out.
struct Decoder {
    source: Box<dyn Read + Send>,
    /// `None` for Latin-1.
    decoder: Option<encoding_rs::Decoder>,
    /// What is read of the source.
    input: Vec<u8>,
    /// Decoded, and given out up to `given`.
    output: Vec<u8>,
    given: usize,
    /// Bytes of the source before `input`.
    place: u64,
    ended: bool,
    encoding: TextEncoding,
}

impl Decoder {
    /// Decodes the next piece of the source.
    fn step(&mut self) -> io::Result<()> {
        self.input.clear();
        self.output.clear();
        self.given = 0;
        let read = (&mut self.source).take(STEP_BYTES as u64).read_to_end(&mut self.input)?;
        self.ended = read == 0;
        let decoded = match &mut self.decoder {
            None => latin1(&self.input, &mut self.output),
            Some(decoder) => decode(decoder, &self.input, self.ended, &mut self.output),
        };
        let (place, name) = (self.place, self.encoding.name());
        self.place += read as u64;
        decoded.map_err(|at| {
            let at = place + at as u64;
            io::Error::new(io::ErrorKind::InvalidData, format!("byte {at} is not {name}"))
        })
    }
}

/// The first byte that is no character is the error.
fn latin1(input: &[u8], out: &mut Vec<u8>) -> Result<(), usize> {
    if let Some(at) = input.iter().position(|byte| matches!(byte, 0x80..=0x9F)) {
        return Err(at);
    }
    for byte in input {
        match byte {
            0..0x80 => out.push(*byte),
            _ => out.extend_from_slice(&[0xC0 | byte >> 6, 0x80 | byte & 0x3F]),
        }
    }
    Ok(())
}

/// As [`latin1`], by the library; `last`: the source has ended.
fn decode(
    decoder: &mut encoding_rs::Decoder,
    input: &[u8],
    last: bool,
    out: &mut Vec<u8>,
) -> Result<(), usize> {
    let room = decoder.max_utf8_buffer_length_without_replacement(input.len());
    // Beyond what a piece of input can need, there is no such number.
    out.resize(room.unwrap_or(4 * STEP_BYTES).max(16), 0);
    let (result, read, written) = decoder.decode_to_utf8_without_replacement(input, out, last);
    out.truncate(written);
    match result {
        DecoderResult::InputEmpty => Ok(()),
        DecoderResult::OutputFull => Err(read),
        DecoderResult::Malformed(len, behind) => {
            Err(read.saturating_sub(usize::from(len) + usize::from(behind)))
        }
    }
}

impl Read for Decoder {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.given == self.output.len() && !self.ended {
            self.step()?;
        }
        let rest = &self.output[self.given..];
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        self.given += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, bytes: &[u8]) -> io::Result<String> {
        let encoding = TextEncoding::new(name).unwrap().unwrap();
        let mut text = String::new();
        encoding.decoded(Box::new(io::Cursor::new(bytes.to_vec()))).read_to_string(&mut text)?;
        Ok(text)
    }

    fn utf16(text: &str, low_first: bool) -> Vec<u8> {
        let bytes = |unit: u16| if low_first { unit.to_le_bytes() } else { unit.to_be_bytes() };
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn encodings_by_their_names() {
        let text = "a,b\n1,äö€😀\n";
        assert_eq!(read("utf-16", &utf16(&format!("\u{FEFF}{text}"), true)).unwrap(), text);
        assert_eq!(read("UTF-16", &utf16(&format!("\u{FEFF}{text}"), false)).unwrap(), text);
        assert_eq!(read("utf16", &utf16(text, true)).unwrap(), text);
        assert_eq!(read("utf-16be", &utf16(text, false)).unwrap(), text);
        assert_eq!(read("latin-1", b"\xE4\xF6").unwrap(), "äö");
        assert_eq!(read("windows-1252", b"\x80\xE4").unwrap(), "€ä");
        assert_eq!(read("cp1252", b"\x80\xE4").unwrap(), "€ä");
        assert_eq!(read("shift_jis", b"\x93\xFA\x96\x7B").unwrap(), "日本");
        assert_eq!(read("latin-1", b"").unwrap(), "");
        assert!(TextEncoding::new("utf-8").unwrap().is_none());
        assert!(TextEncoding::new("nope").is_err());
    }

    #[test]
    fn what_is_no_character_is_an_error_with_its_place() {
        let error = |name, bytes: &[u8]| read(name, bytes).unwrap_err().to_string();
        assert_eq!(error("latin-1", b"ab\x80"), "byte 2 is not latin-1");
        assert_eq!(error("shift_jis", b"abc\xFF"), "byte 3 is not Shift_JIS");
        let mut odd = utf16("ab", true);
        odd.push(b'c');
        assert!(error("utf-16", &odd).contains("is not utf-16"), "half a character at the end");
    }

    #[test]
    fn long_texts_are_decoded_piece_by_piece() {
        let text = "ä€😀,".repeat(40_000);
        assert_eq!(read("utf-16le", &utf16(&text, true)).unwrap(), text);
        let latin: String = "ä,b".repeat(60_000);
        let bytes: Vec<u8> = latin.chars().map(|c| c as u8).collect();
        assert_eq!(read("latin-1", &bytes).unwrap(), latin);
    }
}
