//! Rows as JSON: lines, or the elements of an array.

use arrow::array::RecordBatch;
use arrow::json::writer::LineDelimited;
use swingdb_common::error::Result;

use crate::text::json_writer::builder;

/// Appends a line for each row.
pub(crate) fn lines(batches: &[RecordBatch], out: &mut Vec<u8>) -> Result<()> {
    let mut writer = builder().build::<_, LineDelimited>(out);
    for batch in batches {
        writer.write(batch)?;
    }
    Ok(writer.finish()?)
}

/// Behind the last elements.
pub(crate) const ARRAY_END: &str = "\n]\n";

/// Appends an element of an array for each row; `first`: they are the array's first ones, and its
/// beginning comes before them.
pub(crate) fn elements(batches: &[RecordBatch], first: bool, out: &mut Vec<u8>) -> Result<()> {
    let mut rows = Vec::new();
    lines(batches, &mut rows)?;
    out.extend_from_slice(if first { b"[\n\t" } else { b",\n\t" });
    // No value has a line break of its own: JSON writes `\n` for it.
    for byte in rows.trim_ascii_end() {
        match byte {
            b'\n' => out.extend_from_slice(b",\n\t"),
            byte => out.push(*byte),
        }
    }
    Ok(())
}
