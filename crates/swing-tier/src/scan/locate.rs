//! Where the records of a scan lie: looked up in the state that a lease holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Fault, ReadError};
use crate::log::Lease;
use crate::log::files::{LogFile, lock};
use crate::log::format::Piece;
use crate::log::shared::Shared;
use crate::scan::options::{MAX_SCAN_RECORDS, ScanOptions};
use crate::scan::plan::{Item, Plan};
use crate::storage::IoResult;
use crate::units::{FileId, RecordId};

/// How many records of a scan are looked up at a time.
const LOCATED_TOGETHER: usize = 4096;

/// Where the records of a scan lie.
#[derive(Default)]
struct Located {
    files: Vec<Arc<LogFile>>,
    /// Which of the files each is.
    numbers: BTreeMap<FileId, u32>,
    items: Vec<Item>,
    lens: Vec<u64>,
}

impl Located {
    /// The next record.
    fn add(&mut self, shared: &Shared, pieces: &[Piece]) -> IoResult<()> {
        let (mut from, index) = (0, self.lens.len() as u32);
        for &piece in pieces {
            let file = match self.numbers.get(&piece.file) {
                Some(&number) => number,
                None => {
                    let number = self.files.len() as u32;
                    self.files.push(shared.file_of(&piece)?);
                    self.numbers.insert(piece.file, number);
                    number
                }
            };
            self.items.push(Item { piece, file, index, from });
            from += u64::from(piece.len);
        }
        if from == 0 {
            let piece = Piece { file: FileId(0), offset: 0, len: 0, checksum: 0 };
            self.items.push(Item { piece, file: 0, index, from });
        }
        self.lens.push(from);
        Ok(())
    }
}

impl Lease {
    /// Where the records lie, for a scan. The files are held from here on, so it does not matter
    /// what garbage collection moves or removes meanwhile.
    pub(super) fn plan(&self, ids: &[RecordId], options: &ScanOptions) -> Result<Plan, ReadError> {
        assert!(ids.len() <= MAX_SCAN_RECORDS, "at most {MAX_SCAN_RECORDS} records a scan");
        self.shared.check_process().map_err(Fault::Io)?;
        let mut found = Located::default();
        // Commits wait for the table that is locked here, so not for all of many records.
        for some in ids.chunks(LOCATED_TOGETHER) {
            let live = lock(&self.shared.live);
            for &id in some {
                let entry = live.state.records.get(&id).filter(|e| e.is_visible(self.epoch));
                let entry = entry.ok_or(ReadError::NoRecord { id, epoch: self.epoch })?;
                found.add(&self.shared, &entry.pieces).map_err(Fault::Io)?;
            }
        }
        let Located { files, items, lens, .. } = found;
        Ok(Plan::new(files, items, lens, options))
    }
}
