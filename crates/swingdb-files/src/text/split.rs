//! Cutting a stream of CSV text into blocks of whole records.
//!
//! Where a record ends depends on every quote before it, so the cutting is done in order, by one
//! thread at a time; it looks only at quotes and costs a small part of what parsing does. The
//! blocks are then parsed in parallel. Each block knows the number of its first line: that is how
//! an error names the true line whichever thread meets it.

use std::io::Read;
use std::ops::Range;

use crate::text::dialect::Dialect;

/// Bytes a record may have at most: an unclosed quote must not read the whole file into memory.
pub const MAX_RECORD_BYTES: usize = 64 << 20;
/// Bytes read for a block at most, whatever the caller asks for. With the rest of a record before
/// it a block stays below 2^30 bytes, up to which positions in it are known.
pub const MAX_BLOCK_BYTES: usize = 256 << 20;
const _: () = assert!(2 * (MAX_BLOCK_BYTES + MAX_RECORD_BYTES) < 1 << 30);

/// Whole records, and where they stand in the file.
#[derive(Debug, Default)]
pub struct Block {
    /// Number of the block, from 0.
    pub index: u64,
    /// Line of the first byte, from 1.
    pub first_line: u64,
    /// The text; ends after a record, or with the file.
    pub text: Vec<u8>,
}

/// Why a stream could not be cut.
#[derive(Debug)]
pub enum SplitError {
    /// Reading failed.
    Io(std::io::Error),
    /// A record longer than [`MAX_RECORD_BYTES`]; with the line of the quote that is open, or the
    /// line where the record begins.
    TooLong {
        /// Line from 1.
        line: u64,
        /// Whether a quote is open.
        in_quotes: bool,
    },
}

/// Cuts one stream; see the [module documentation](self).
pub struct Splitter<R> {
    source: R,
    dialect: Dialect,
    block_bytes: usize,
    /// Read but not handed out yet: the beginning of a record.
    carry: Vec<u8>,
    scan: Scan,
    next_index: u64,
    next_line: u64,
    ended: bool,
    /// An error ends the cutting: what had been read for the block is gone.
    failed: bool,
}

/// How far a buffer has been looked at.
#[derive(Debug, Default)]
struct Scan {
    /// Everything before is known.
    position: usize,
    /// Where the quoted field began in which `position` lies.
    open: Option<usize>,
    /// Stretches outside quotes, in order; the last one ends at `open` or is still growing.
    plain: Vec<Range<usize>>,
    /// Where the last field before `position` begins; known where the dialect is an extended one.
    field_start: usize,
}

impl<R: Read> Splitter<R> {
    /// Cuts `source`, whose first byte is on line `first_line`, into blocks of about `block_bytes`.
    pub fn new(source: R, dialect: Dialect, block_bytes: usize, first_line: u64) -> Self {
        Self {
            source,
            dialect,
            block_bytes: block_bytes.clamp(1, MAX_BLOCK_BYTES),
            carry: Vec::new(),
            scan: Scan::default(),
            next_index: 0,
            next_line: first_line,
            ended: false,
            failed: false,
        }
    }

    /// Numbers the blocks from `index` on.
    pub fn first_index(mut self, index: u64) -> Self {
        self.next_index = index;
        self
    }

    /// Number of the next block.
    pub fn next_index(&self) -> u64 {
        self.next_index
    }

    /// The next block; `None` after the last, and after an error. `recycled` gives its memory to
    /// the block.
    pub fn next_block(&mut self, recycled: Vec<u8>) -> Result<Option<Block>, SplitError> {
        if self.failed {
            return Ok(None);
        }
        // Also where a panic ends it.
        self.failed = true;
        let block = self.cut(recycled)?;
        self.failed = false;
        Ok(block)
    }

    fn cut(&mut self, mut recycled: Vec<u8>) -> Result<Option<Block>, SplitError> {
        if self.ended && self.carry.is_empty() {
            return Ok(None);
        }
        recycled.clear();
        let mut text = recycled;
        text.append(&mut self.carry);
        loop {
            self.fill(&mut text)?;
            if self.ended {
                break;
            }
            self.scan.advance(&text, &self.dialect);
            if let Some(end) = self.scan.last_record_end(&text, self.dialect.terminator) {
                self.carry.extend_from_slice(&text[end..]);
                self.scan.forget(end);
                text.truncate(end);
                break;
            }
            if text.len() >= MAX_RECORD_BYTES {
                return Err(self.too_long(&text));
            }
        }
        if text.is_empty() {
            return Ok(None);
        }
        let lines = memchr::memchr_iter(self.dialect.terminator, &text).count() as u64;
        let block = Block { index: self.next_index, first_line: self.next_line, text };
        self.next_index += 1;
        self.next_line += lines;
        Ok(Some(block))
    }

    /// Reads about a block's worth of bytes more.
    fn fill(&mut self, text: &mut Vec<u8>) -> Result<(), SplitError> {
        let limit = self.block_bytes as u64;
        text.reserve(self.block_bytes);
        let read = (&mut self.source).take(limit).read_to_end(text).map_err(SplitError::Io)?;
        self.ended = (read as u64) < limit;
        Ok(())
    }

    fn too_long(&self, text: &[u8]) -> SplitError {
        let before = &text[..self.scan.open.unwrap_or(0)];
        let lines = memchr::memchr_iter(self.dialect.terminator, before).count() as u64;
        let in_quotes = self.scan.open.is_some();
        SplitError::TooLong { line: self.next_line + lines, in_quotes }
    }
}

impl Scan {
    /// Looks at all of `text` that is new.
    fn advance(&mut self, text: &[u8], dialect: &Dialect) {
        let Some(quote) = dialect.quote else {
            self.plain.clear();
            self.plain.push(0..text.len());
            self.position = text.len();
            return;
        };
        if self.plain.is_empty() {
            self.plain.push(0..0);
        }
        while self.position < text.len() {
            let complete = match self.open {
                None if dialect.is_extended() => self.outside_extended(text, quote, dialect),
                None => self.outside(text, quote, dialect),
                Some(_) => self.inside(text, quote, dialect),
            };
            if !complete {
                return;
            }
        }
    }

    /// From `position`, outside quotes, to the next opening quote.
    fn outside(&mut self, text: &[u8], quote: u8, dialect: &Dialect) -> bool {
        let mut from = self.position;
        while let Some(found) = memchr::memchr(quote, &text[from..]) {
            let at = from + found;
            let opens =
                at == 0 || text[at - 1] == dialect.delimiter || text[at - 1] == dialect.terminator;
            if opens {
                if let Some(last) = self.plain.last_mut() {
                    last.end = at;
                }
                self.open = Some(at);
                self.position = at + 1;
                return true;
            }
            from = at + 1;
        }
        if let Some(last) = self.plain.last_mut() {
            last.end = text.len();
        }
        self.position = text.len();
        true
    }

    /// As [`Self::outside`], byte by byte, where comments and long delimiters are to be known;
    /// false when one of them may go on behind the text.
    fn outside_extended(&mut self, text: &[u8], quote: u8, dialect: &Dialect) -> bool {
        let mut at = self.position;
        let mut complete = true;
        while complete && let Some(byte) = text.get(at) {
            if *byte == dialect.terminator {
                at += 1;
                self.field_start = at;
            } else if dialect.delimits(text, at) {
                at += dialect.delimiter_len();
                self.field_start = at;
            } else if Some(*byte) == dialect.comment {
                match memchr::memchr(dialect.terminator, &text[at..]) {
                    Some(end) => at += end,
                    None => complete = false,
                }
            } else if *byte == quote && at == self.field_start {
                self.open = Some(at);
                break;
            } else {
                let is_cut = text.len() - at < dialect.delimiter_len();
                complete = !(is_cut && *byte == dialect.delimiter);
                at += usize::from(complete);
            }
        }
        if let Some(last) = self.plain.last_mut() {
            last.end = at;
        }
        self.position = at + usize::from(self.open.is_some());
        complete
    }

    /// From `position`, inside quotes, to behind the closing one; false when that is not there yet.
    fn inside(&mut self, text: &[u8], quote: u8, dialect: &Dialect) -> bool {
        match closing_quote(text, self.position, quote, dialect.foreign_escape()) {
            Closing::At(at) if at + 1 < text.len() => {
                self.open = None;
                self.position = at + 1;
                self.plain.push(at + 1..at + 1);
                true
            }
            // The last byte may be the first half of a pair: look again when more is there.
            Closing::At(at) | Closing::Missing(at) => {
                self.position = at;
                false
            }
        }
    }

    /// Behind the last terminator outside quotes.
    fn last_record_end(&self, text: &[u8], terminator: u8) -> Option<usize> {
        let ends = self.plain.iter().rev().map(|range| {
            memchr::memrchr(terminator, &text[range.clone()]).map(|at| range.start + at + 1)
        });
        ends.flatten().next()
    }

    /// The first `count` bytes are gone.
    fn forget(&mut self, count: usize) {
        self.position = self.position.saturating_sub(count);
        self.open = self.open.map(|open| open - count);
        self.field_start = self.field_start.saturating_sub(count);
        let mut left = self.plain.len();
        self.plain.retain_mut(|range| {
            left -= 1;
            *range = range.start.saturating_sub(count)..range.end.saturating_sub(count);
            // The last one may still grow, from where it begins.
            range.end > range.start || left == 0
        });
    }
}

/// Where a quoted field ends.
pub(crate) enum Closing {
    /// At the closing quote.
    At(usize),
    /// Not in this text; everything before the position has been looked at.
    Missing(usize),
}

/// The quote that closes the field whose content begins at `from` (or was looked at up to there).
#[inline]
pub(crate) fn closing_quote(text: &[u8], from: usize, quote: u8, escape: Option<u8>) -> Closing {
    let mut from = from;
    loop {
        let Some(rest) = text.get(from..) else { return Closing::Missing(text.len()) };
        let found = match escape {
            None => memchr::memchr(quote, rest),
            Some(escape) => memchr::memchr2(quote, escape, rest),
        };
        let Some(found) = found else { return Closing::Missing(text.len()) };
        let at = from + found;
        match (text[at] == quote, text.get(at + 1)) {
            // Two quotes are one of the content, unless another character escapes.
            (true, Some(next)) if *next == quote && escape.is_none() => from = at + 2,
            (true, _) => return Closing::At(at),
            (false, Some(_)) => from = at + 2,
            (false, None) => return Closing::Missing(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &[u8], dialect: &Dialect, block_bytes: usize) -> Vec<Block> {
        let mut splitter = Splitter::new(text, dialect.clone(), block_bytes, 1);
        let mut blocks = Vec::new();
        while let Some(block) = splitter.next_block(Vec::new()).unwrap() {
            blocks.push(block);
        }
        blocks
    }

    /// Record ends by a plain state machine, one byte after the other.
    fn record_ends(text: &[u8], dialect: &Dialect) -> Vec<usize> {
        let (mut ends, mut quoted, mut start, mut at) = (Vec::new(), false, true, 0);
        while at < text.len() {
            let byte = text[at];
            if quoted {
                if Some(byte) == dialect.foreign_escape() {
                    at += 1;
                } else if Some(byte) == dialect.quote {
                    let doubled = dialect.foreign_escape().is_none()
                        && text.get(at + 1).copied() == dialect.quote;
                    if doubled {
                        at += 1;
                    } else {
                        quoted = false;
                    }
                }
                start = false;
            } else if start && Some(byte) == dialect.quote {
                quoted = true;
                start = false;
            } else if Some(byte) == dialect.comment {
                while text.get(at + 1).is_some_and(|next| *next != dialect.terminator) {
                    at += 1;
                }
            } else {
                start = dialect.delimits(text, at) || byte == dialect.terminator;
                if dialect.delimits(text, at) {
                    at += dialect.delimiter_rest.len();
                }
                if byte == dialect.terminator {
                    ends.push(at + 1);
                }
            }
            at += 1;
        }
        if ends.last() != Some(&text.len()) {
            ends.push(text.len());
        }
        ends
    }

    #[test]
    fn blocks_of_any_size_are_whole_records_with_true_lines() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let escaping = Dialect { escape: Some(b'\\'), ..Dialect::default() };
        let plain = Dialect { quote: None, escape: None, ..Dialect::default() };
        let rest = b",".to_vec();
        let long = Dialect { delimiter_rest: rest, ..Dialect::default() };
        let commented = Dialect { comment: Some(b'a'), ..Dialect::default() };
        for dialect in [Dialect::default(), escaping, plain, long, commented] {
            for _ in 0..3_000 {
                let len = random.usize(0..60);
                let text: Vec<u8> =
                    (0..len).map(|_| b"ab,\"\"\n\n\\\r"[random.usize(0..9)]).collect();
                let ends = record_ends(&text, &dialect);
                let blocks = cut(&text, &dialect, random.usize(1..20));
                let mut offset = 0;
                for (i, block) in blocks.iter().enumerate() {
                    let lines = text[..offset].iter().filter(|byte| **byte == b'\n').count();
                    assert_eq!((block.index, block.first_line), (i as u64, lines as u64 + 1));
                    offset += block.text.len();
                    let shown = text.escape_ascii();
                    assert!(ends.contains(&offset), "{offset} is no end in {shown}: {ends:?}");
                }
                let all: Vec<u8> = blocks.iter().flat_map(|block| block.text.clone()).collect();
                assert_eq!(all, text);
            }
        }
    }

    #[test]
    fn an_unclosed_quote_is_found_before_memory_is_full() {
        struct Endless(u64);
        impl Read for Endless {
            fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
                let head: &[u8] = if self.0 == 0 { b"a\nb\n\"" } else { b"" };
                out.fill(b'\n');
                out[..head.len()].copy_from_slice(head);
                self.0 += 1;
                Ok(out.len())
            }
        }
        let mut splitter = Splitter::new(Endless(0), Dialect::default(), 1 << 20, 1);
        let first = splitter.next_block(Vec::new()).unwrap().unwrap();
        assert_eq!(first.text, b"a\nb\n");
        let error = splitter.next_block(Vec::new()).unwrap_err();
        assert!(matches!(error, SplitError::TooLong { line: 3, in_quotes: true }), "{error:?}");
        assert!(splitter.next_block(Vec::new()).unwrap().is_none(), "nothing after an error");
    }
}
