//! Blocks of which the records that cannot be read are left out (`ignore_errors`).
//!
//! A block without faults costs what it costs otherwise. In another one each record is cut out and
//! looked at; then runs of records are parsed, halved where a value does not fit, down to the
//! records at fault. So a fault costs about twice the logarithm of the block's records.

use arrow::array::RecordBatch;
use swingdb_common::error::Error;

use crate::text::fields::{Fields, RecordReader};
use crate::text::parse::Parser;
use crate::text::split::Block;

/// A record's place in its block.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    end: usize,
}

impl Parser<'_> {
    /// The records of `block` that can be read.
    pub(crate) fn parse_lenient(&self, block: &Block) -> Result<RecordBatch, Error> {
        if let Ok(batch) = self.parse(block) {
            return Ok(batch);
        }
        let mut good = Vec::new();
        self.readable(block, &self.cut(block), &mut good);
        self.parse(&only(block, &good))
    }

    /// The records that have as many fields as there are columns, and are UTF-8.
    fn cut(&self, block: &Block) -> Vec<Span> {
        let columns = self.layout.file_columns.len();
        let mut reader = RecordReader::new(&block.text, self.dialect, Some(columns));
        let mut fields = Fields::default();
        let mut records = Vec::new();
        loop {
            let start = reader.position();
            match reader.read(1, &mut fields) {
                Ok(true) => {
                    let span = Span { start, end: reader.position() };
                    if std::str::from_utf8(&block.text[span.start..span.end]).is_ok() {
                        records.push(span);
                    }
                }
                Ok(false) => return records,
                Err(fault) => reader.skip_line(fault),
            }
        }
    }

    /// Adds those of `records` to `good` that can be read.
    fn readable(&self, block: &Block, records: &[Span], good: &mut Vec<Span>) {
        if records.is_empty() {
            return;
        }
        if self.parse(&only(block, records)).is_ok() {
            good.extend_from_slice(records);
            return;
        }
        if records.len() > 1 {
            let (first, second) = records.split_at(records.len() / 2);
            self.readable(block, first, good);
            self.readable(block, second, good);
        }
    }
}

/// A block of some of another's records.
fn only(block: &Block, records: &[Span]) -> Block {
    let texts: Vec<&[u8]> = records.iter().map(|span| &block.text[span.start..span.end]).collect();
    Block { index: block.index, first_line: block.first_line, text: texts.concat() }
}
