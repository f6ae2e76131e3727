//! Dealing rows out to parts, by the hash of their keys.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::BatchCoalescer;
use datafusion::common::Result;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::execution::SpillFile;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::spill::SpillManager;

/// Parts that rows are dealt out to.
pub(super) const PARTS: usize = 16;
/// Rows that are written at a time. Those that wait are not accounted for.
const WRITTEN_ROWS: usize = 1024;

/// Deals the rows of one task out.
pub(super) struct Dealer {
    manager: SpillManager,
    keys: Vec<PhysicalExprRef>,
    hash: RandomState,
    parts: Vec<Part>,
    hashes: Vec<u64>,
}

struct Part {
    rows: BatchCoalescer,
    file: Option<Writer>,
}

/// A file that is written: it takes batches, and ends with `None`. The engine has a type for it
/// that others cannot name.
type Writer = Box<dyn FnMut(Option<&RecordBatch>) -> Result<Option<Arc<dyn SpillFile>>> + Send>;

fn file(manager: &SpillManager) -> Result<Writer> {
    let mut file = manager.create_in_progress_file("a hash join's rows")?;
    Ok(Box::new(move |batch| match batch {
        Some(batch) => file.append_batch(batch).map(|_| None),
        None => file.finish(),
    }))
}

impl Dealer {
    /// `level`: how often these rows were dealt out before.
    pub(super) fn new(manager: SpillManager, keys: Vec<PhysicalExprRef>, level: u64) -> Self {
        let schema = manager.schema();
        let part =
            || Part { rows: BatchCoalescer::new(Arc::clone(schema), WRITTEN_ROWS), file: None };
        let parts = (0..PARTS).map(|_| part()).collect();
        // Another hash than that of the level before, and than that of tables.
        let hash = RandomState::with_seed(0x5357_494e_4753_504c ^ level);
        Self { manager, keys, hash, parts, hashes: Vec::new() }
    }

    pub(super) fn deal(&mut self, batch: &RecordBatch) -> Result<()> {
        let keys = evaluate_expressions_to_arrays(&self.keys, batch)?;
        self.hashes.clear();
        self.hashes.resize(batch.num_rows(), 0);
        create_hashes(&keys, &self.hash, &mut self.hashes)?;
        let mut rows = vec![Vec::new(); PARTS];
        for (row, hash) in (0u32..).zip(&self.hashes) {
            rows[*hash as usize % PARTS].push(row);
        }
        for (part, rows) in self.parts.iter_mut().zip(rows) {
            if !rows.is_empty() {
                let rows = UInt32Array::from(rows);
                part.rows.push_batch_with_indices(batch.clone(), &rows)?;
                part.write(&self.manager)?;
            }
        }
        Ok(())
    }

    /// The file of each part; `None` where it has no row.
    pub(super) fn finish(self) -> Result<Vec<Option<Arc<dyn SpillFile>>>> {
        let Self { manager, parts, .. } = self;
        let finished = parts.into_iter().map(|mut part| {
            part.rows.finish_buffered_batch()?;
            part.write(&manager)?;
            part.file.map_or(Ok(None), |mut write| write(None))
        });
        finished.collect()
    }
}

impl Part {
    /// Writes the batches that are complete.
    fn write(&mut self, manager: &SpillManager) -> Result<()> {
        while let Some(batch) = self.rows.next_completed_batch() {
            let write = match &mut self.file {
                Some(write) => write,
                None => self.file.insert(file(manager)?),
            };
            write(Some(&batch))?;
        }
        Ok(())
    }
}
