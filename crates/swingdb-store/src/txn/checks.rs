//! CHECK constraints: conditions that every row of a table fulfils.
//!
//! A condition is SQL, which the store knows nothing about. It keeps the text, and asks a
//! [`Checker`], which the transaction was given, to compile it; the compiled [`Test`] then sees
//! every row that is appended or changed, at the few places through which all of them go. So no
//! path into a table can forget the conditions, and a table with some cannot be written by a
//! transaction without a checker.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use swingdb_common::error::{ConstraintKind, Error, Result};

use crate::catalog::definition::Definition;
use crate::catalog::rules::Check;
use crate::catalog::table::Table;
use crate::errors::values::shown;
use crate::segments::parallel::{in_pieces, whole_column};
use crate::segments::rowids::RowIds;
use crate::txn::transaction::{Checker, Test, WriteTxn};

/// The checks of a table with their tests.
#[derive(Clone, Default)]
pub(crate) struct Tests(Arc<[(Check, SchemaRef, Test)]>);

/// The columns that a check reads, as its test is compiled for them.
pub fn checked_schema(table: &Table, check: &Check) -> SchemaRef {
    let field = |index: &usize| {
        // With its marks: values of an ENUM are not compared as texts are.
        table.schema().field(*index).clone().with_nullable(true)
    };
    Arc::new(Schema::new(check.columns.iter().map(field).collect::<Vec<_>>()))
}

impl Tests {
    /// Tests rows whose column of an index `column` gives. Only checks that read one of `touched`
    /// count (`None`: all do).
    fn run(
        &self,
        table: &Table,
        rows: usize,
        touched: Option<&[usize]>,
        column: impl Fn(usize) -> Result<ArrayRef>,
    ) -> Result<()> {
        for (check, schema, test) in self.0.iter() {
            let concerned = |touched: &[usize]| check.columns.iter().any(|c| touched.contains(c));
            if !touched.is_none_or(concerned) {
                continue;
            }
            let columns = check.columns.iter().map(|c| column(*c)).collect::<Result<Vec<_>>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options)?;
            for piece in in_pieces(&batch) {
                let piece = piece?;
                if let Some(row) = test(&piece)? {
                    return Err(violation(table, check, &piece, row));
                }
            }
        }
        Ok(())
    }

    /// Tests whole rows of the table.
    pub fn rows(&self, table: &Table, batch: &RecordBatch) -> Result<()> {
        self.run(table, batch.num_rows(), None, |c| Ok(batch.column(c).clone()))
    }

    /// Tests rows that get the values of the batches `values` in `columns` and keep their other
    /// columns.
    pub fn changed(
        &self,
        table: &Table,
        rows: &RowIds,
        columns: &[usize],
        values: &[Vec<ArrayRef>],
    ) -> Result<()> {
        self.run(table, rows.len(), Some(columns), |column| {
            match columns.iter().position(|c| *c == column) {
                Some(new) => whole_column(values, new),
                None => Ok(table.take(rows.as_slice(), &[column])?.column(0).clone()),
            }
        })
    }
}

fn violation(table: &Table, check: &Check, batch: &RecordBatch, row: usize) -> Error {
    let fields = batch.schema_ref().fields();
    let value = |(field, column): (&Arc<Field>, &ArrayRef)| {
        format!("{} = {}", field.name(), shown(column, row))
    };
    let values: Vec<String> = fields.iter().zip(batch.columns()).map(value).collect();
    let name = check.name.as_ref().map(|name| format!("{name:?}: ")).unwrap_or_default();
    Error::Constraint {
        table: table.name().to_owned(),
        kind: ConstraintKind::Check,
        columns: fields.iter().map(|field| field.name().clone()).collect(),
        detail: format!("{name}{} does not hold for {}", check.sql, values.join(", ")),
    }
}

impl WriteTxn {
    /// Says who compiles conditions; without it tables that have some cannot be changed.
    pub fn enforce(&mut self, checker: &'static dyn Checker) {
        self.checker = Some(checker);
    }

    /// Replaces the checks of a table. The rows it has are not tested.
    pub fn set_checks(&mut self, schema: &str, table: &str, checks: Vec<Check>) -> Result<()> {
        let table = self.table_of(schema, table)?;
        let columns = table.columns();
        if checks.iter().flat_map(|check| &check.columns).any(|c| *c >= columns.len()) {
            return Err(Error::internal("a check of columns that do not exist"));
        }
        let keys = table.constraints().to_vec();
        let definition = Definition::new(columns.to_vec(), keys, checks);
        self.redefine(&table, definition.with_notes(table.notes().clone()))
    }

    /// The tests of a table's checks.
    pub(crate) fn tests(&self, table: &Table) -> Result<Tests> {
        if table.checks().is_empty() {
            return Ok(Tests::default());
        }
        let nobody = || Error::internal("a transaction that cannot decide CHECK constraints");
        let checker = self.checker.ok_or_else(nobody)?;
        let compiled = table.checks().iter().map(|check| {
            let test = checker.compile(self, table, check)?;
            Ok((check.clone(), checked_schema(table, check), test))
        });
        Ok(Tests(compiled.collect::<Result<Vec<_>>>()?.into()))
    }
}
