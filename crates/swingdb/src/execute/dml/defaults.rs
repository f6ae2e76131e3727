//! Values for columns that a statement does not mention, from the columns' DEFAULT expressions.
//!
//! A default is kept as SQL text. One that is the same for all rows of a statement (a literal,
//! `now()`, `1 + 1`) is computed once; one that is not (`random()`, `uuid()`) once a row. A column
//! without a default gets NULL, which the store refuses when the column is NOT NULL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::Field;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{Expr, Statement};
use swingdb_common::cast::convert::{Origin, check_assignable, convert_array};
use swingdb_common::error::{Error, Result};
use swingdb_sql::ast::build;
use swingdb_sql::bind::sequences;
use swingdb_sql::text::parameters::Params;
use swingdb_store::ColumnDef;

use crate::execute::dml::literals::{column_of, literal};
use crate::session::{Session, added_functions};

/// How the default of a column is found.
#[derive(Clone, Debug)]
pub(crate) enum DefaultValue {
    /// The same value, of the column's type, for every row of the statement.
    Same(ScalarValue),
    /// The numbers of a sequence, one for each row in order.
    Numbers(String),
    /// A different value for each row.
    Each(Box<Expr>),
}

impl DefaultValue {
    /// The default of `column`.
    pub(crate) fn of(session: &Session, column: &ColumnDef) -> Result<Self> {
        let to = &column.data_type;
        let Some(sql) = &column.default_sql else {
            return Ok(Self::Same(ScalarValue::try_from(to)?));
        };
        let expr = build::parse_expr(sql)?;
        if let Some(value) = literal(&expr, to, &Params::default())? {
            let zone = session.zone();
            let value = column_of(vec![value], &column.field(), Origin::UNNUMBERED, zone)?;
            return Self::same(value);
        }
        if let Some(sequence) = sequences::only_next(&expr) {
            return Ok(Self::Numbers(sequence));
        }
        if is_volatile(session, &expr)? {
            return Ok(Self::Each(Box::new(expr)));
        }
        Self::same(evaluate(session, &expr, 1, column)?)
    }

    fn same(array: ArrayRef) -> Result<Self> {
        Ok(Self::Same(ScalarValue::try_from_array(&array, 0)?))
    }

    /// Whether rows may get different values.
    pub(crate) fn differs(&self) -> bool {
        !matches!(self, Self::Same(_))
    }

    /// The default for so many rows.
    pub(crate) fn rows(
        &self,
        session: &Session,
        column: &ColumnDef,
        rows: usize,
    ) -> Result<ArrayRef> {
        match self {
            Self::Same(value) => Ok(value.to_array_of_size(rows)?),
            Self::Numbers(sequence) => {
                let numbers: ArrayRef = Arc::new(session.numbers().take(sequence, rows)?);
                convert_array(&numbers, &column.field(), Origin::UNNUMBERED, session.zone())
            }
            Self::Each(expr) => evaluate(session, expr, rows, column),
        }
    }

    /// The default for one row.
    pub(crate) fn one(&self, session: &Session, column: &ColumnDef) -> Result<ScalarValue> {
        let array = self.rows(session, column, 1)?;
        Ok(ScalarValue::try_from_array(&array, 0)?)
    }
}

/// Checks a DEFAULT when it is declared: it must mean something without any table, and fit the
/// type.
pub(crate) fn check(session: &Session, expr: &Expr, to: &Field) -> Result<()> {
    let column = to.name();
    if let Some(value) = literal(expr, to.data_type(), &Params::default())? {
        return column_of(vec![value], to, Origin::UNNUMBERED, session.zone()).map(drop);
    }
    let plan = session.plan(&once(expr, 1)?, &Params::default()).map_err(|error| match error {
        Error::NotFound { name, .. } => Error::plan(format!(
            "DEFAULT of column {column:?} refers to {name:?}; it must not depend on tables or \
             columns"
        )),
        other => other,
    })?;
    if let Some(function) = added_functions::called(session, &plan)? {
        return Err(Error::plan(format!(
            "DEFAULT of column {column:?} calls {function}, a function of this program that others \
             who use the database do not have"
        )));
    }
    check_assignable(plan.schema().field(0).data_type(), to.data_type(), column)
}

fn is_volatile(session: &Session, expr: &Expr) -> Result<bool> {
    let plan = session.plan(&once(expr, 1)?, &Params::default())?;
    Ok(plan.expressions().iter().any(datafusion::logical_expr::Expr::is_volatile))
}

/// `SELECT expr`, for so many rows.
fn once(expr: &Expr, rows: usize) -> Result<Statement> {
    let mut query = match rows {
        1 => build::parse_query("SELECT 1")?,
        _ => build::parse_query(&format!("SELECT 1 FROM generate_series(1, {rows})"))?,
    };
    build::select_of(&mut query)?.projection = vec![build::item(expr.clone(), "value")];
    Ok(build::statement(query, None))
}

fn evaluate(session: &Session, expr: &Expr, rows: usize, column: &ColumnDef) -> Result<ArrayRef> {
    let stream = session.run(session.plan(&once(expr, rows)?, &Params::default())?)?;
    let mut collected = session.collected("DEFAULT")?;
    let batches = collected.over(stream).collect::<Result<Vec<RecordBatch>>>()?;
    let arrays: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(0).as_ref()).collect();
    let values = concat(&arrays)?;
    if values.len() != rows {
        let name = &column.name;
        return Err(Error::plan(format!("DEFAULT of column {name:?} is not exactly one value")));
    }
    convert_array(&values, &column.field(), Origin::UNNUMBERED, session.zone())
}
