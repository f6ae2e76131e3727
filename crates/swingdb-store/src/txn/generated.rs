//! Generated columns: their values are computed from other columns of the row.
//!
//! An expression is SQL, which the store knows nothing about. It keeps the text, and asks the
//! transaction's [`Checker`](crate::Checker) to compile it. Values are computed at the few places
//! through which all rows go, when a row is appended or a column that they depend on changes, and
//! are stored like others. What a caller gives for such a column counts for nothing.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use arrow::datatypes::{Schema, SchemaRef};
use swingdb_common::error::{Error, Result};

use crate::catalog::rules::Generated;
use crate::catalog::table::Table;
use crate::segments::parallel::{in_pieces, whole_column};
use crate::segments::rowids::RowIds;
use crate::txn::transaction::{Compute, WriteTxn};

/// The columns of a batch from which a generated column is computed.
pub fn generating_schema(table: &Table, generated: &Generated) -> SchemaRef {
    let field = |index: &usize| table.schema().field(*index).clone().with_nullable(true);
    Arc::new(Schema::new(generated.columns.iter().map(field).collect::<Vec<_>>()))
}

/// The generated columns of a table, each behind those that it reads.
#[derive(Clone, Default)]
pub(crate) struct Makers(Arc<[Maker]>);

struct Maker {
    column: usize,
    reads: Vec<usize>,
    schema: SchemaRef,
    compute: Compute,
}

impl Maker {
    fn values(
        &self,
        table: &Table,
        rows: usize,
        column: impl Fn(usize) -> Result<ArrayRef>,
    ) -> Result<ArrayRef> {
        let columns = self.reads.iter().map(|c| column(*c)).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        let pieces = in_pieces(&batch).map(|piece| (self.compute)(&piece?));
        let pieces = pieces.collect::<Result<Vec<_>>>()?;
        let values = match pieces.as_slice() {
            [one] => one.clone(),
            several => concat(&several.iter().map(AsRef::as_ref).collect::<Vec<_>>())?,
        };
        let wanted = table.schema().field(self.column).data_type();
        match values.len() == rows && values.data_type() == wanted {
            true => Ok(values),
            false => Err(Error::internal("a generated column of another form than its table's")),
        }
    }
}

/// New values: for each of some columns the values of batches.
pub(crate) struct Changed {
    pub columns: Vec<usize>,
    pub values: Vec<Vec<ArrayRef>>,
}

impl Makers {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whole rows of the table with the values that they have in generated columns.
    pub fn rows(&self, table: &Table, batch: RecordBatch) -> Result<RecordBatch> {
        if self.is_empty() {
            return Ok(batch);
        }
        let mut columns = batch.columns().to_vec();
        for maker in self.0.iter() {
            let made = maker.values(table, batch.num_rows(), |c| Ok(columns[c].clone()))?;
            columns[maker.column] = made;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
    }

    /// The columns that rows get new values in, once `columns` get `values`.
    pub fn changed(
        &self,
        table: &Table,
        rows: &RowIds,
        columns: &[usize],
        values: Vec<Vec<ArrayRef>>,
    ) -> Result<Changed> {
        let given = columns.iter().enumerate().filter(|(_, c)| !table.is_generated(**c));
        let given = given.map(|(at, c)| (*c, at)).collect::<Vec<_>>();
        let mut touched: Vec<usize> = columns.to_vec();
        let concerned = |maker: &Maker, touched: &[usize]| {
            touched.contains(&maker.column) || maker.reads.iter().any(|c| touched.contains(c))
        };
        if !self.0.iter().any(|maker| concerned(maker, &touched)) {
            return Ok(Changed { columns: columns.to_vec(), values });
        }
        let mut all: Vec<(usize, ArrayRef)> = Vec::new();
        for (column, at) in given {
            all.push((column, whole_column(&values, at)?));
        }
        for maker in self.0.iter() {
            if !concerned(maker, &touched) {
                continue;
            }
            let made = maker.values(table, rows.len(), |column| {
                match all.iter().find(|(known, _)| *known == column) {
                    Some((_, values)) => Ok(values.clone()),
                    None => Ok(table.take(rows.as_slice(), &[column])?.column(0).clone()),
                }
            })?;
            touched.push(maker.column);
            all.push((maker.column, made));
        }
        let (columns, values) = all.into_iter().unzip();
        Ok(Changed { columns, values: vec![values] })
    }
}

impl WriteTxn {
    /// Says how columns of a table are computed. The rows it has are not.
    pub fn set_generated(
        &mut self,
        schema: &str,
        table: &str,
        generated: Vec<(usize, Generated)>,
    ) -> Result<()> {
        let found = self.table_of(schema, table)?;
        let columns = found.columns().len();
        let exist = |(at, one): &(usize, Generated)| {
            *at < columns && one.columns.iter().all(|column| *column < columns)
        };
        if !generated.iter().all(exist) {
            return Err(Error::internal("a generated column of columns that do not exist"));
        }
        let mut notes = found.notes().clone();
        notes.generated = generated.into_iter().collect();
        self.set_notes(schema, table, notes)
    }

    /// Whole rows of a table as they will be stored, with the values of generated columns.
    pub fn with_generated(
        &self,
        schema: &str,
        table: &str,
        batches: Vec<RecordBatch>,
    ) -> Result<Vec<RecordBatch>> {
        let table = self.table_of(schema, table)?;
        let makers = self.makers(&table)?;
        batches.into_iter().map(|batch| makers.rows(&table, batch)).collect()
    }

    /// That no generated column reads a column.
    pub(crate) fn check_ungenerated(&self, table: &Table, column: usize, verb: &str) -> Result<()> {
        let reads = |(_, one): &(&usize, &Generated)| one.columns.contains(&column);
        match table.notes().generated.iter().find(reads) {
            None => Ok(()),
            Some((at, _)) => Err(Error::plan(format!(
                "column {:?} cannot be {verb}: the generated column {:?} is computed from it",
                table.columns()[column].name,
                table.columns()[*at].name
            ))),
        }
    }

    /// What computes a table's generated columns.
    pub(crate) fn makers(&self, table: &Table) -> Result<Makers> {
        let all = &table.notes().generated;
        if all.is_empty() {
            return Ok(Makers::default());
        }
        let nobody = || Error::internal("a transaction that cannot compute generated columns");
        let checker = self.checker.ok_or_else(nobody)?;
        let mut made: Vec<Maker> = Vec::with_capacity(all.len());
        while made.len() < all.len() {
            let before = made.len();
            for (column, one) in all {
                let is_made = |c: &usize| made.iter().any(|maker| maker.column == *c);
                let waits = one.columns.iter().any(|c| all.contains_key(c) && !is_made(c));
                if is_made(column) || waits {
                    continue;
                }
                made.push(Maker {
                    column: *column,
                    reads: one.columns.clone(),
                    schema: generating_schema(table, one),
                    compute: checker.generate(self, table, *column, one)?,
                });
            }
            if made.len() == before {
                return Err(Error::internal("generated columns that read each other"));
            }
        }
        Ok(Makers(made.into()))
    }
}
