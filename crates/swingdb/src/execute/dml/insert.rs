//! INSERT: literals straight to columns, queries streamed into the table.
//!
//! The source is either a VALUES list, whose literals and parameters never see the query planner,
//! or a query, whose batches are converted and appended while it runs: a large result is never held
//! whole (with RETURNING or ON CONFLICT it is). The query reads the state before the statement, so
//! `INSERT INTO t SELECT * FROM t` doubles the table.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Insert, ObjectName, Query, SetExpr, TableObject, Values, With,
};
use swingdb_common::cast::convert::{Origin, check_assignable, convert_array, relabel};
use swingdb_common::error::{Error, Result};
use swingdb_common::time::zones::Zone;
use swingdb_sql::ast::names::quoted;
use swingdb_sql::ast::{build, insert};
use swingdb_sql::text::parameters::Params;
use swingdb_store::{Table, WriteTxn};

use crate::execute::atomic::{Outcome, with_txn_of};
use crate::execute::dml::defaults::DefaultValue;
use crate::execute::dml::length::length_of;
use crate::execute::dml::literals::{column_of, literal};
use crate::execute::dml::on_conflict;
use crate::execute::dml::on_conflict::Rule;
use crate::execute::dml::returning::Returning;
use crate::execute::target::{Named, Target, check_given, column_list, target};
use crate::session::Session;
use crate::session::stream::BatchStream;
use crate::session::transaction::Length;

/// Expressions of a VALUES list computed by one query.
const EXPRESSIONS_PER_QUERY: usize = 256;

/// Runs an INSERT.
pub(crate) fn insert(
    session: &Session,
    insert: &Insert,
    with: Option<&With>,
    params: &Params,
) -> Result<Outcome> {
    let InsertTarget { name, alias, by_name } = into(insert)?;
    with_txn_of(session, length(session, insert, with), |txn| {
        let target = target(session, &txn.view(), &name)?;
        let alias = alias.unwrap_or_else(|| quoted(&target.name));
        let named = Named::new(session, target, alias);
        let source = Source::open(session, &named.target.table, insert, by_name, with, params)?;
        let rule = Rule::of(&named, insert, &source.columns)?;
        run(session, txn, &named, source, rule, insert, with, params)
    })
}

/// A list of values is short: what it takes is known from its text. Of a query the tables that it
/// reads say it.
fn length(session: &Session, insert: &Insert, with: Option<&With>) -> Length {
    let listed = |query: &Query| query.with.is_none() && matches!(*query.body, SetExpr::Values(_));
    match insert.source.as_deref() {
        Some(source) if with.is_none() && listed(source) => Length::Short,
        Some(source) => length_of(session, &[source], with),
        None => Length::Any,
    }
}

#[expect(clippy::too_many_arguments, reason = "the parts of one statement")]
fn run(
    session: &Session,
    txn: &mut WriteTxn,
    named: &Named,
    source: Source<'_>,
    rule: Option<Rule>,
    insert: &Insert,
    with: Option<&With>,
    params: &Params,
) -> Result<Outcome> {
    let Target { schema, name, .. } = &named.target;
    if rule.is_none() && insert.returning.is_none() {
        let rows = source.append(session, txn, &named.target)?;
        return Ok(Outcome::changed("INSERT", rows));
    }
    let mut collected = session.collected("INSERT")?;
    let batches = collected.over(source).collect::<Result<Vec<RecordBatch>>>()?;
    let batches = txn.with_generated(schema, name, batches)?;
    let (rows, changed) = match &rule {
        Some(rule) => {
            on_conflict::apply(session, txn, named, rule, batches, params, &mut collected)?
        }
        None => (txn.append(schema, name, &batches)?, batches),
    };
    let mut outcome = Outcome::changed("INSERT", rows);
    if let Some(items) = &insert.returning {
        let list = Returning::new(named, items, with);
        outcome.rows = Some(list.run(session, params, changed, &mut collected)?);
    }
    Ok(outcome)
}

/// Appends batches as they come; see [`WriteTxn::append_from`].
pub(crate) fn append_stream(
    session: &Session,
    txn: &mut WriteTxn,
    schema: &str,
    table: &str,
    batches: impl Iterator<Item = Result<RecordBatch>> + Send,
    convert: impl Fn(RecordBatch, u64) -> Result<RecordBatch> + Sync,
) -> Result<u64> {
    let memory = session.pieces("INSERT")?;
    txn.append_from(schema, table, batches, convert, &memory)
}

/// What stands after INSERT INTO.
struct InsertTarget {
    name: ObjectName,
    alias: Option<Ident>,
    by_name: bool,
}

fn into(insert: &Insert) -> Result<InsertTarget> {
    let name = match &insert.table {
        TableObject::TableName(name) => name.clone(),
        other => return Err(Error::plan(format!("INSERT INTO {other}: no table"))),
    };
    Ok(InsertTarget { name, alias: insert::alias(insert), by_name: insert::is_by_name(insert) })
}

/// Where each column of the table comes from.
pub(crate) struct Mapping<'a> {
    session: &'a Session,
    /// Of the session.
    zone: Zone,
    table: Arc<Table>,
    /// For each column of the table: the input column.
    inputs: Vec<Option<usize>>,
    /// For each column of the table that has no input.
    defaults: Vec<Option<DefaultValue>>,
}

impl<'a> Mapping<'a> {
    /// `columns`: the table's column that each input column goes to.
    pub(crate) fn new(session: &'a Session, table: &Arc<Table>, columns: &[usize]) -> Result<Self> {
        let mut inputs = vec![None; table.columns().len()];
        for (input, column) in columns.iter().enumerate() {
            inputs[*column] = Some(input);
        }
        let mut defaults = Vec::with_capacity(inputs.len());
        for (column, input) in table.columns().iter().zip(&inputs) {
            defaults.push(match input {
                Some(_) => None,
                None => Some(DefaultValue::of(session, column)?),
            });
        }
        let zone = session.zone();
        Ok(Self { session, zone, table: Arc::clone(table), inputs, defaults })
    }

    /// A full row for each row of input.
    pub(crate) fn rows(
        &self,
        columns: &[ArrayRef],
        rows: usize,
        origin: Origin,
    ) -> Result<RecordBatch> {
        let mut columns = columns.to_vec();
        columns.extend(self.drawn(rows)?);
        self.full(&columns, rows, origin)
    }

    /// Appends the rows of a query, or of whoever calls.
    pub(crate) fn append(
        &self,
        txn: &mut WriteTxn,
        to: &Target,
        batches: impl Iterator<Item = Result<RecordBatch>> + Send,
    ) -> Result<u64> {
        let batches = batches.map(|batch| self.with_drawn(batch?));
        append_stream(self.session, txn, &to.schema, &to.name, batches, |batch, before| {
            self.full(batch.columns(), batch.num_rows(), Origin::rows(before))
        })
    }

    /// The values of the defaults that are others for each row. Rows get them in their order.
    fn drawn(&self, rows: usize) -> Result<Vec<ArrayRef>> {
        let columns = self.table.columns().iter().zip(&self.defaults);
        let differ = columns.filter_map(|(column, default)| {
            default.as_ref().filter(|default| default.differs()).map(|default| (column, default))
        });
        differ.map(|(column, default)| default.rows(self.session, column, rows)).collect()
    }

    /// Puts these values behind the columns of the input.
    fn with_drawn(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let drawn = self.drawn(batch.num_rows())?;
        if drawn.is_empty() {
            return Ok(batch);
        }
        let mut fields = batch.schema().fields().to_vec();
        let nameless = |array: &ArrayRef| Field::new("", array.data_type().clone(), true);
        fields.extend(drawn.iter().map(nameless).map(Arc::new));
        let columns = batch.columns().iter().cloned().chain(drawn).collect();
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = Arc::new(Schema::new(fields));
        Ok(RecordBatch::try_new_with_options(schema, columns, &rows)?)
    }

    /// Full rows of the columns of the input and those of [`Mapping::drawn`].
    fn full(&self, columns: &[ArrayRef], rows: usize, origin: Origin) -> Result<RecordBatch> {
        let mut result = Vec::with_capacity(self.inputs.len());
        let given = self.inputs.iter().flatten().count();
        let mut drawn = columns.iter().skip(given);
        for (index, column) in self.table.columns().iter().enumerate() {
            result.push(match (self.inputs[index], &self.defaults[index]) {
                (Some(input), _) => {
                    convert_array(&columns[input], &column.field(), origin, self.zone)?
                }
                (None, Some(default)) if default.differs() => {
                    drawn.next().cloned().ok_or_else(|| Error::internal("a default not drawn"))?
                }
                (None, Some(default)) => default.rows(self.session, column, rows)?,
                (None, None) => return Err(Error::internal("a column without a source")),
            });
        }
        relabel(result, self.table.schema(), rows)
    }
}

/// The rows to insert, as full rows of the table.
struct Source<'a> {
    rows: Rows<'a>,
    /// The columns of the table that the statement gives values for.
    columns: Vec<usize>,
}

enum Rows<'a> {
    Ready(std::vec::IntoIter<RecordBatch>),
    Query { stream: Box<BatchStream>, mapping: Mapping<'a>, done: u64 },
}

impl Iterator for Source<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.rows {
            Rows::Ready(batches) => batches.next().map(Ok),
            Rows::Query { stream, mapping, done } => {
                let batch = match stream.next()? {
                    Ok(batch) => batch,
                    Err(error) => return Some(Err(error)),
                };
                let origin = Origin::rows(*done);
                *done += batch.num_rows() as u64;
                Some(mapping.rows(batch.columns(), batch.num_rows(), origin))
            }
        }
    }
}

impl<'a> Source<'a> {
    /// Appends all rows.
    fn append(self, session: &Session, txn: &mut WriteTxn, to: &Target) -> Result<u64> {
        match self.rows {
            Rows::Ready(batches) => {
                let (batches, as_they_are) = (batches.map(Ok), |batch, _| Ok(batch));
                append_stream(session, txn, &to.schema, &to.name, batches, as_they_are)
            }
            Rows::Query { stream, mapping, .. } => mapping.append(txn, to, stream),
        }
    }

    fn open(
        session: &'a Session,
        table: &Arc<Table>,
        insert: &Insert,
        by_name: bool,
        with: Option<&With>,
        params: &Params,
    ) -> Result<Self> {
        let listed = column_list(table, &insert.columns)?;
        if by_name && !listed.is_empty() {
            return Err(Error::plan("INSERT ... BY NAME takes no list of columns"));
        }
        let Some(query) = &insert.source else {
            let mapping = Mapping::new(session, table, &[])?;
            let row = mapping.rows(&[], 1, Origin::rows(0))?;
            return Ok(Self { rows: Rows::Ready(vec![row].into_iter()), columns: Vec::new() });
        };
        match plain_values(query) {
            Some(values) if with.is_none() && !by_name => {
                let columns = given_columns(table, &listed, values_width(values)?)?;
                let batch = values_batch(session, table, &columns, values, params)?;
                Ok(Self { rows: Rows::Ready(vec![batch].into_iter()), columns })
            }
            _ => Self::query(session, table, &listed, by_name, query, with, params),
        }
    }

    fn query(
        session: &'a Session,
        table: &Arc<Table>,
        listed: &[usize],
        by_name: bool,
        query: &Query,
        with: Option<&With>,
        params: &Params,
    ) -> Result<Self> {
        let plan = session.plan(&build::statement(query.clone(), with), params)?;
        let fields = plan.schema().fields();
        let columns = if by_name {
            let names: Vec<ObjectName> =
                fields.iter().map(|field| build::name(&[field.name()])).collect();
            let columns = column_list(table, &names)?;
            check_given(table, &columns)?;
            columns
        } else {
            given_columns(table, listed, fields.len())?
        };
        for (field, index) in fields.iter().zip(&columns) {
            let column = &table.columns()[*index];
            check_assignable(field.data_type(), &column.data_type, &column.name)?;
        }
        let mapping = Mapping::new(session, table, &columns)?;
        let stream = Box::new(session.run(plan)?);
        Ok(Self { rows: Rows::Query { stream, mapping, done: 0 }, columns })
    }
}

/// The table's columns that `given` values of a row go to.
fn given_columns(table: &Table, listed: &[usize], given: usize) -> Result<Vec<usize>> {
    check_given(table, listed)?;
    let all = table.given_columns();
    let wanted = if listed.is_empty() { all.len() } else { listed.len() };
    if wanted != given {
        let given = counted(given, "value");
        return Err(Error::plan(if listed.is_empty() {
            let columns = counted(wanted, "column");
            format!("table {:?} has {columns}, and a row of the statement {given}", table.name())
        } else {
            let columns = counted(wanted, "column");
            format!("the statement names {columns}, and its rows have {given}")
        }));
    }
    Ok(if listed.is_empty() { all } else { listed.to_vec() })
}

fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// A query that is nothing but a VALUES list.
fn plain_values(query: &Query) -> Option<&Values> {
    let plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none();
    match query.body.as_ref() {
        SetExpr::Values(values) if plain => Some(values),
        _ => None,
    }
}

fn values_width(values: &Values) -> Result<usize> {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    for (index, row) in values.rows.iter().enumerate() {
        if row.content.len() != width {
            return Err(Error::plan(format!(
                "row {} of VALUES has {}, and row 1 has {width}",
                index + 1,
                counted(row.content.len(), "value")
            )));
        }
    }
    Ok(width)
}

/// The rows of a VALUES list.
fn values_batch(
    session: &Session,
    table: &Arc<Table>,
    columns: &[usize],
    values: &Values,
    params: &Params,
) -> Result<RecordBatch> {
    let rows = values.rows.len();
    let mut computed = Computed::default();
    let mut cells: Vec<Vec<ScalarValue>> = Vec::with_capacity(columns.len());
    for (input, index) in columns.iter().enumerate() {
        let column = &table.columns()[*index];
        let mut list = Vec::with_capacity(rows);
        for (row, exprs) in values.rows.iter().enumerate() {
            let expr = &exprs.content[input];
            list.push(match literal(expr, &column.data_type, params)? {
                Some(value) => value,
                None if build::is_default(expr) => {
                    DefaultValue::of(session, column)?.one(session, column)?
                }
                None => {
                    computed.wanted.push((input, row, expr));
                    ScalarValue::Null
                }
            });
        }
        cells.push(list);
    }
    computed.run(session, params, &mut cells)?;
    let mut arrays = Vec::with_capacity(columns.len());
    for (list, index) in cells.into_iter().zip(columns) {
        let column = &table.columns()[*index];
        arrays.push(column_of(list, &column.field(), Origin::rows(0), session.zone())?);
    }
    let mapping = Mapping::new(session, table, columns)?;
    mapping.rows(&arrays, rows, Origin::rows(0))
}

/// Cells of a VALUES list that need the query engine: `(input column, row, expression)`.
#[derive(Default)]
struct Computed<'a> {
    wanted: Vec<(usize, usize, &'a Expr)>,
}

impl Computed<'_> {
    fn run(
        &self,
        session: &Session,
        params: &Params,
        cells: &mut [Vec<ScalarValue>],
    ) -> Result<()> {
        for chunk in self.wanted.chunks(EXPRESSIONS_PER_QUERY) {
            let named = chunk.iter().enumerate();
            let items = named.map(|(i, (_, _, expr))| build::item((*expr).clone(), format!("{i}")));
            let query = build::select(items.collect(), Vec::new(), None)?;
            let plan = session.plan(&build::statement(query, None), params)?;
            let batches = session.run(plan)?.collect::<Result<Vec<RecordBatch>>>()?;
            let [batch] = batches.as_slice() else {
                return Err(Error::internal("VALUES computed more or less than one row"));
            };
            for ((column, row, _), value) in chunk.iter().zip(batch.columns()) {
                cells[*column][*row] = ScalarValue::try_from_array(value, 0)?;
            }
        }
        Ok(())
    }
}

/// The columns of a MERGE's INSERT: a list, or all of the table.
pub(crate) fn insert_columns(
    table: &Table,
    names: &[ObjectName],
    given: usize,
) -> Result<Vec<usize>> {
    let listed = column_list(table, names)?;
    given_columns(table, &listed, given)
}
