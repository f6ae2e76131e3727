//! Objects of which parts are fetched as they are needed: [`Parts`].
//!
//! A file without a name has each part at the part's place in the object, and holes between the
//! parts. A reader of that file asks for its bytes first ([`Parts::need`]). All parts are of one
//! version of the object; an object that is replaced meanwhile is an error.
//!
//! Threads may need parts at the same time. Where two need the same one it is fetched twice, with
//! the same bytes.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use swingdb_common::error::Result;
use swingdb_common::runtime::temporary::Folder;

use crate::input::fetcher::{Fetcher, Part, broken};
use crate::input::stream::nameless_file;

/// Bytes of an object's end that are fetched first: most footers of Parquet files fit into them.
pub(crate) const END_BYTES: u64 = 64 << 10;
/// A shorter gap between two parts is fetched with them: a request of its own takes longer.
const GAP_BYTES: u64 = 32 << 10;

/// An object, and what is here of it.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) address: String,
    /// Its length.
    pub(crate) bytes: u64,
    version: String,
    pub(crate) file: Arc<File>,
    /// Where the file lies.
    folder: Folder,
    here: Mutex<Ranges>,
    fetcher: Arc<Fetcher>,
}

impl Parts {
    /// Fetches the ends of objects; `path` is what errors are about.
    pub(crate) fn fetch(
        path: &str,
        addresses: &[String],
        fetcher: &Arc<Fetcher>,
    ) -> Result<Vec<Arc<Self>>> {
        if addresses.is_empty() {
            return Ok(Vec::new());
        }
        let wanted = addresses.iter().map(|at| json!({"address": at, "tail": END_BYTES}));
        let mut found: Vec<Self> = Vec::new();
        fetcher.ask(path, &wanted.collect(), |part, done, bytes| {
            if part.of == found.len()
                && let Some(address) = addresses.get(part.of)
            {
                found.push(Self::new(address, part, fetcher)?);
            }
            let object = found.get(part.of).ok_or_else(|| broken(path, "another object came"))?;
            object.keep(part, done, bytes)
        })?;
        match found.len() == addresses.len() {
            true => Ok(found.into_iter().map(Arc::new).collect()),
            false => Err(broken(path, "not all objects came")),
        }
    }

    fn new(address: &str, part: &Part, fetcher: &Arc<Fetcher>) -> Result<Self> {
        let (file, folder) = nameless_file()?;
        file.set_len(part.bytes).map_err(|error| folder.failed("write", &error))?;
        Ok(Self {
            address: address.to_string(),
            bytes: part.bytes,
            version: part.version.clone(),
            file: Arc::new(file),
            folder,
            here: Mutex::default(),
            fetcher: Arc::clone(fetcher),
        })
    }

    /// Fetches those of these bytes that are not here. Bytes beyond the end are left out.
    pub(crate) fn need(&self, wanted: &[Range<u64>]) -> Result<()> {
        let missing = self.missing(wanted);
        if missing.is_empty() {
            return Ok(());
        }
        let ranges = missing.iter().map(|range| [range.start, range.end]).collect::<Vec<_>>();
        let request = json!([{
            "address": self.address,
            "version": self.version,
            "ranges": ranges,
        }]);
        let take = |part: &Part, done: u64, bytes: &[u8]| self.keep(part, done, bytes);
        self.fetcher.ask(&self.address, &request, take)?;
        match self.missing(wanted).is_empty() {
            true => Ok(()),
            false => Err(broken(&self.address, "not all bytes came")),
        }
    }

    /// Fetches all that is not here.
    pub(crate) fn need_all(&self) -> Result<()> {
        self.need(std::slice::from_ref(&(0..self.bytes)))
    }

    /// Whether all bytes are here.
    pub(crate) fn has_all(&self) -> bool {
        self.has(std::slice::from_ref(&(0..self.bytes)))
    }

    /// Whether all of these bytes are here.
    pub(crate) fn has(&self, wanted: &[Range<u64>]) -> bool {
        self.missing(wanted).is_empty()
    }

    fn missing(&self, wanted: &[Range<u64>]) -> Vec<Range<u64>> {
        let here = self.here.lock();
        let inside = wanted.iter().map(|range| range.start..range.end.min(self.bytes));
        let mut missing: Vec<_> = inside.flat_map(|range| here.holes(range)).collect();
        missing.sort_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::new();
        for range in missing {
            match merged.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(GAP_BYTES) => {
                    last.end = last.end.max(range.end);
                }
                _ => merged.push(range),
            }
        }
        merged
    }

    fn keep(&self, part: &Part, done: u64, bytes: &[u8]) -> Result<()> {
        let start = part.start.checked_add(done);
        let end = start.and_then(|start| start.checked_add(bytes.len() as u64));
        let (Some(start), Some(end)) = (start, end.filter(|end| *end <= self.bytes)) else {
            return Err(broken(&self.address, "more bytes came than it has"));
        };
        let written = self.file.write_all_at(bytes, start);
        written.map_err(|error| self.folder.failed("write", &error))?;
        self.here.lock().add(start..end);
        Ok(())
    }
}

/// Bytes of a file: ranges in ascending order, with something between each two.
#[derive(Debug, Default)]
struct Ranges(Vec<Range<u64>>);

impl Ranges {
    fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let from = self.0.partition_point(|known| known.end < range.start);
        let to = self.0.partition_point(|known| known.start <= range.end);
        let touched = &self.0[from..to];
        let start = touched.first().map_or(range.start, |first| first.start.min(range.start));
        let end = touched.last().map_or(range.end, |last| last.end.max(range.end));
        self.0.splice(from..to, std::iter::once(start..end));
    }

    /// What is not here of a range.
    fn holes(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut holes = Vec::new();
        let mut at = range.start;
        let from = self.0.partition_point(|known| known.end <= range.start);
        for known in self.0[from..].iter().take_while(|known| known.start < range.end) {
            if at < known.start {
                holes.push(at..known.start);
            }
            at = known.end;
        }
        if at < range.end {
            holes.push(at..range.end);
        }
        holes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_a_set_of_bytes() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..200 {
            let (mut ranges, mut bytes) = (Ranges::default(), [false; 60]);
            for _ in 0..12 {
                let start = rng.usize(..60);
                let end = rng.usize(start..=60);
                ranges.add(start as u64..end as u64);
                bytes[start..end].fill(true);
                let pairs = ranges.0.windows(2).all(|pair| pair[0].end < pair[1].start);
                assert!(pairs && ranges.0.iter().all(|range| !range.is_empty()), "{ranges:?}");
                let start = rng.usize(..60);
                let end = rng.usize(start..=60);
                let mut holes = bytes;
                for hole in ranges.holes(start as u64..end as u64) {
                    let hole = hole.start as usize..hole.end as usize;
                    assert!(!hole.is_empty() && start <= hole.start && hole.end <= end);
                    assert!(holes[hole.clone()].iter().all(|here| !here), "{ranges:?} {hole:?}");
                    holes[hole].fill(true);
                }
                assert!(holes[start..end].iter().all(|here| *here), "{ranges:?} {start} {end}");
            }
        }
    }
}
