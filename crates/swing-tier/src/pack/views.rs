//! Views of strings, 16 bytes each: length, then the string itself up to 12 bytes, else its first
//! four, the number of a buffer and an offset in it.
//!
//! Long strings lie one behind the other in their buffers. So buffer and offset follow from the
//! lengths, but where a buffer begins: these views are listed as *jumps*.
//!
//! | bytes | |
//! |---|---|
//! | 4 | number of jumps |
//! | 12 each | jumps, ascending: view, buffer, offset |
//! | 4, 4 | length of the text, and of the encoded text |
//! | | the text: of short strings all bytes, of long ones the first four; by LZ4 if shorter |
//! | | the lengths, as packed numbers of 4 bytes (`numbers`) |

use super::bytes;
use super::numbers;
use super::reader::{Reader, Result, damaged};

const VIEW: usize = 16;
/// Bytes of a string that is in its view.
const INLINE: usize = 12;
/// Bytes of a long string that are in its view.
const PREFIX: usize = 4;
/// A view in so many may be a jump.
const JUMPS: usize = 16;
/// LZ4 has to save a tenth of the text.
const WORTH: usize = 900;

fn word(view: &[u8; VIEW], at: usize) -> u32 {
    u32::from_le_bytes([view[at], view[at + 1], view[at + 2], view[at + 3]])
}

/// Where the next long string lies, if nothing else is said.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Next {
    buffer: u32,
    offset: u32,
}

/// Appends views; `false`: they are none of this kind, and `out` is of no use.
pub(super) fn encode(views: &[u8], out: &mut Vec<u8>) -> bool {
    let (views, rest) = views.as_chunks::<VIEW>();
    if !rest.is_empty() {
        return false;
    }
    let (mut lens, mut text) = (Vec::with_capacity(views.len() * 4), Vec::new());
    let (mut jumps, mut jump_count) = (Vec::new(), 0u32);
    let mut next = Next::default();
    for (at, view) in views.iter().enumerate() {
        let len = word(view, 0);
        lens.extend_from_slice(&view[..4]);
        if len as usize <= INLINE {
            let (string, zeros) = view[4..].split_at(len as usize);
            if zeros.iter().any(|byte| *byte != 0) {
                return false;
            }
            text.extend_from_slice(string);
            continue;
        }
        text.extend_from_slice(&view[4..4 + PREFIX]);
        let found = Next { buffer: word(view, 8), offset: word(view, 12) };
        if found != next {
            let Ok(at) = u32::try_from(at) else { return false };
            jumps.extend_from_slice(&at.to_le_bytes());
            jumps.extend_from_slice(&view[8..]);
            jump_count += 1;
            if jump_count as usize > 1 + views.len() / JUMPS {
                return false;
            }
        }
        next = Next { offset: found.offset.wrapping_add(len), ..found };
    }
    let Ok(text_len) = u32::try_from(text.len()) else { return false };
    out.extend_from_slice(&jump_count.to_le_bytes());
    out.extend_from_slice(&jumps);
    out.extend_from_slice(&text_len.to_le_bytes());
    let mut encoded = Vec::new();
    if bytes::estimate(&text) < WORTH {
        bytes::encode(&text, &mut encoded);
    }
    let smaller = !encoded.is_empty() && encoded.len() < text.len();
    let stored = if smaller { &encoded } else { &text };
    out.extend_from_slice(&(stored.len() as u32).to_le_bytes());
    out.extend_from_slice(stored);
    numbers::encode::<i32>(&lens, out);
    true
}

/// Reads the views of which `out` is full.
pub(super) fn decode(from: &mut Reader<'_>, out: &mut [u8]) -> Result<()> {
    let (views, rest) = out.as_chunks_mut::<VIEW>();
    if !rest.is_empty() {
        return Err(damaged("a part of a view"));
    }
    let jumps = from.len()?;
    let (jumps, _) = from.take(jumps.saturating_mul(12))?.as_chunks::<12>();
    let mut jumps = jumps.iter().map(|jump| {
        let word = |at| u32::from_le_bytes([jump[at], jump[at + 1], jump[at + 2], jump[at + 3]]);
        (word(0) as usize, Next { buffer: word(4), offset: word(8) })
    });
    let (text_len, stored_len) = (from.len()?, from.len()?);
    let stored = from.take(stored_len)?;
    let mut decoded;
    let text = if text_len == stored_len {
        stored
    } else {
        if text_len > views.len() * INLINE {
            return Err(damaged("more text than its views hold"));
        }
        decoded = vec![0; text_len];
        let mut frames = Reader(stored);
        bytes::decode(&mut frames, &mut decoded)?;
        frames.finish()?;
        &decoded
    };
    let mut lens = vec![0; views.len() * 4];
    numbers::decode::<i32>(from, &mut lens)?;
    let mut text = Reader(text);
    let (mut next, mut jump) = (Next::default(), jumps.next());
    for (at, (view, len)) in views.iter_mut().zip(lens.as_chunks::<4>().0).enumerate() {
        let bytes = u32::from_le_bytes(*len);
        *view = [0; VIEW];
        view[..4].copy_from_slice(len);
        if bytes as usize <= INLINE {
            let string = text.take(bytes as usize)?;
            view[4..4 + string.len()].copy_from_slice(string);
            continue;
        }
        if let Some((_, place)) = jump.filter(|(view, _)| *view == at) {
            (next, jump) = (place, jumps.next());
        }
        view[4..8].copy_from_slice(text.take(PREFIX)?);
        view[8..12].copy_from_slice(&next.buffer.to_le_bytes());
        view[12..].copy_from_slice(&next.offset.to_le_bytes());
        next.offset = next.offset.wrapping_add(bytes);
    }
    if jump.is_some() {
        return Err(damaged("a jump of no view"));
    }
    text.finish()
}
