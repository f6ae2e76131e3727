//! Blocks of which the records that cannot be read are left out (`ignore_errors`), and these
//! records, each with its error (`csv_rejects`).
//!
//! A block without faults costs what it costs otherwise. In another one each record is cut out and
//! looked at; then runs of records are parsed, halved where a value does not fit, down to the
//! records at fault. So a fault costs about twice the logarithm of the block's records.

use arrow::array::RecordBatch;
use swingdb_common::error::Error;

use crate::text::fields::{Fields, RecordReader};
use crate::text::parse::{Parser, lines};
use crate::text::split::Block;

/// A record's place in its block.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    end: usize,
}

/// A record that is left out.
#[derive(Debug)]
pub(crate) struct Reject {
    /// The line that it begins in.
    pub(crate) line: u64,
    pub(crate) record: Vec<u8>,
    pub(crate) error: Error,
}

impl Parser<'_> {
    /// The records of `block` that can be read.
    pub(crate) fn parse_lenient(&self, block: &Block) -> Result<RecordBatch, Error> {
        if let Ok(batch) = self.parse(block) {
            return Ok(batch);
        }
        self.parse(&only(block, &self.sorted_out(block).0))
    }

    /// The records of `block` that cannot be read.
    pub(crate) fn rejects(&self, block: &Block) -> Vec<Reject> {
        if self.parse(block).is_ok() {
            return Vec::new();
        }
        let (mut rejects, mut counted, mut line) = (Vec::new(), 0, block.first_line);
        for span in self.sorted_out(block).1 {
            line += lines(&block.text[counted..span.start], self.dialect);
            counted = span.start;
            let alone = Block { first_line: line, ..only(block, &[span]) };
            // It was no record of its own: a quote that a record before it has left open.
            let error = self.parse(&alone).err().unwrap_or_else(|| {
                let message = "cannot be read as a record".to_string();
                Error::Import { path: self.path.to_path_buf(), line: Some(line), message }
            });
            rejects.push(Reject { line, record: alone.text, error });
        }
        rejects
    }

    /// The records that can be read, and those that cannot, both in their order.
    fn sorted_out(&self, block: &Block) -> (Vec<Span>, Vec<Span>) {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        let records = self.cut(block, &mut bad);
        self.readable(block, &records, &mut good, &mut bad);
        bad.sort_unstable_by_key(|span| span.start);
        (good, bad)
    }

    /// The records that have as many fields as there are columns, and are UTF-8; the others are
    /// added to `bad`.
    fn cut(&self, block: &Block, bad: &mut Vec<Span>) -> Vec<Span> {
        let columns = self.layout.file_columns.len();
        let mut reader = RecordReader::new(&block.text, self.dialect, Some(columns));
        let mut fields = Fields::default();
        let mut records = Vec::new();
        loop {
            let start = reader.position();
            match reader.read(1, &mut fields) {
                Ok(true) => {
                    let span = Span { start, end: reader.position() };
                    match std::str::from_utf8(&block.text[span.start..span.end]) {
                        Ok(_) => records.push(span),
                        Err(_) => bad.push(span),
                    }
                }
                Ok(false) => return records,
                Err(fault) => {
                    reader.skip_line(fault);
                    bad.push(Span { start, end: reader.position() });
                }
            }
        }
    }

    /// Adds those of `records` to `good` that can be read, and the others to `bad`.
    fn readable(&self, block: &Block, records: &[Span], good: &mut Vec<Span>, bad: &mut Vec<Span>) {
        if records.is_empty() {
            return;
        }
        if self.parse(&only(block, records)).is_ok() {
            good.extend_from_slice(records);
            return;
        }
        if records.len() > 1 {
            let (first, second) = records.split_at(records.len() / 2);
            self.readable(block, first, good, bad);
            self.readable(block, second, good, bad);
        } else {
            bad.extend_from_slice(records);
        }
    }
}

/// A block of some of another's records.
fn only(block: &Block, records: &[Span]) -> Block {
    let texts: Vec<&[u8]> = records.iter().map(|span| &block.text[span.start..span.end]).collect();
    Block { index: block.index, first_line: block.first_line, text: texts.concat() }
}
