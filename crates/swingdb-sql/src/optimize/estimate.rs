//! How many rows a part of a logical plan will have, and how many different values its columns.
//!
//! Estimates only steer the order of joins: a wrong one costs time, never correctness. They start
//! from the exact row counts and bounds of tables; the number of different values is exact for
//! keys, bounded by the range for whole numbers and dates, and sampled otherwise.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::{
    Column, ColumnStatistics, JoinType, ScalarValue, Statistics, TableReference,
};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::{BinaryExpr, InList};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Between, Expr, LogicalPlan, Operator, TableScan};
use swingdb_functions::keys::bit_set;
use swingdb_store::Table;

use crate::nodes::materialize::materialized;
use crate::scan::distinct::{bounds, distinct_values, on_number_line};
use crate::scan::sample;
use crate::scan::statistics::scaled;
use crate::scan::table::SwingTable;

/// Rows of a table nothing is known about.
const UNKNOWN_ROWS: f64 = 1_000_000.0;
/// Share of the rows that a condition nothing is known about lets through.
const UNKNOWN_SELECTIVITY: f64 = 0.2;
/// Share of the rows that match a pattern.
const LIKE_SELECTIVITY: f64 = 0.08;

/// What is known about one column; looked up only when it is asked for.
#[derive(Clone, Debug)]
enum ColumnEstimate {
    /// A column of a table.
    Stored(Arc<Table>, usize),
    /// A column of rows that are elsewhere, and how many these are.
    Told(Arc<ColumnStatistics>, f64),
    /// A computed column with so many different values.
    Computed(f64),
}

impl ColumnEstimate {
    /// Different values.
    fn distinct(&self) -> f64 {
        match self {
            Self::Stored(table, column) => distinct_values(table, *column),
            Self::Told(known, rows) => {
                known.distinct_count.get_value().map_or(*rows, |distinct| *distinct as f64)
            }
            Self::Computed(distinct) => *distinct,
        }
    }

    /// Bounds, where they can be put on a number line.
    fn bounds(&self) -> Option<(f64, f64)> {
        match self {
            Self::Stored(table, column) => bounds(table, *column),
            Self::Told(known, _) => on_number_line(known.min_value.get_value()?)
                .zip(on_number_line(known.max_value.get_value()?)),
            Self::Computed(_) => None,
        }
    }

    /// Share of NULLs.
    fn nulls(&self) -> f64 {
        match self {
            Self::Stored(table, column) => table
                .stats(*column)
                .map_or(0.0, |stats| stats.null_count as f64 / (table.row_count() as f64).max(1.0)),
            Self::Told(known, rows) => {
                known.null_count.get_value().map_or(0.1, |nulls| *nulls as f64 / rows.max(1.0))
            }
            Self::Computed(_) => 0.0,
        }
    }
}

/// What is known about the rows of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    pub(crate) rows: f64,
    columns: HashMap<Column, ColumnEstimate>,
}

impl Estimate {
    /// Different values of an expression: of the column it is, or of the one column it is made of.
    pub(crate) fn distinct(&self, expr: &Expr) -> f64 {
        let known = match expr {
            Expr::Column(column) => self.column(column),
            Expr::Cast(cast) => return self.distinct(&cast.expr),
            Expr::Alias(alias) => return self.distinct(&alias.expr),
            _ => None,
        };
        known.map_or(self.rows, ColumnEstimate::distinct).min(self.rows).max(1.0)
    }

    /// As [`distinct`](Self::distinct), but what is computed from one table's columns is tried on a
    /// sample: a key such as `floor(longitude)` has few values, however many its column has.
    pub(crate) fn distinct_keys(&self, key: &Expr) -> f64 {
        let computed = match key {
            Expr::Column(_) => None,
            _ => self.only_table(key).and_then(|table| sample::distinct_of(table, key)),
        };
        computed.map_or_else(|| self.distinct(key), |found| found.min(self.rows).max(1.0))
    }

    /// Groups by all of some keys. Columns of one table often say the same in different detail, as
    /// countries and cities do: of these only the one with most values counts.
    pub(crate) fn groups(&self, keys: &[Expr]) -> f64 {
        let mut most: HashMap<Option<String>, f64> = HashMap::new();
        for key in keys {
            let of = key.column_refs().into_iter().next();
            let table = of.and_then(|column| column.relation.as_ref()).map(ToString::to_string);
            let known = most.entry(table).or_insert(1.0);
            *known = known.max(self.values(key));
        }
        most.values().product()
    }

    /// How many values a key has: a function of one value no more than that.
    fn values(&self, key: &Expr) -> f64 {
        match key {
            Expr::Alias(alias) => self.values(&alias.expr),
            Expr::ScalarFunction(call) if call.args.len() == 1 => {
                self.values(&call.args[0]).min(self.distinct_keys(key))
            }
            _ => self.distinct_keys(key),
        }
    }

    /// The table that all columns of an expression are of, under the names they have there.
    fn only_table(&self, expr: &Expr) -> Option<&Arc<Table>> {
        let mut only: Option<&Arc<Table>> = None;
        for column in expr.column_refs() {
            let Some(ColumnEstimate::Stored(table, index)) = self.column(column) else {
                return None;
            };
            let same = only.is_none_or(|only| only.id() == table.id());
            if !same || table.schema().field(*index).name() != column.name() {
                return None;
            }
            only = Some(table);
        }
        only
    }

    fn column(&self, column: &Column) -> Option<&ColumnEstimate> {
        self.columns.get(column)
    }

    /// With so many rows; no column has more different values than there are rows.
    pub(crate) fn scaled(mut self, rows: f64) -> Self {
        self.rows = rows.max(1.0);
        self
    }

    /// Where these conditions hold: columns that they set equal to constants have no other values.
    fn fixed_by<'a>(mut self, conditions: impl IntoIterator<Item = &'a Expr>) -> Self {
        for condition in conditions {
            let (expr, values) = match condition {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                    match (literal(left), literal(right)) {
                        (None, Some(_)) => (left, 1),
                        (Some(_), None) => (right, 1),
                        _ => continue,
                    }
                }
                Expr::InList(InList { expr, list, negated: false }) => (expr, list.len()),
                _ => continue,
            };
            if let Expr::Column(column) = expr.as_ref()
                && let Some(known) = self.columns.get_mut(column)
            {
                *known = ColumnEstimate::Computed(values as f64);
            }
        }
        self
    }

    /// The columns of two sides of a join together.
    pub(crate) fn joined(&self, other: &Self, rows: f64) -> Self {
        let mut columns = self.columns.clone();
        columns.extend(other.columns.iter().map(|(k, v)| (k.clone(), v.clone())));
        Self { rows: rows.max(1.0), columns }
    }

    /// Share of the rows that fulfil all of some conditions.
    fn share_of_all<'a>(&self, conditions: impl IntoIterator<Item = &'a Expr>) -> f64 {
        let mut share = 1.0;
        // A lower and an upper bound of one expression are a range of it.
        let mut bounds: HashMap<&Expr, [f64; 2]> = HashMap::new();
        for condition in conditions {
            let part = self.selectivity(condition);
            match bounded(condition) {
                Some((expr, side)) => {
                    let known = &mut bounds.entry(expr).or_insert([1.0, 1.0])[side];
                    *known = known.min(part);
                }
                None => share *= part,
            }
        }
        share
            * bounds.into_values().map(|[above, below]| range_share(above, below)).product::<f64>()
    }

    /// Share of the rows that fulfil `condition`.
    pub(crate) fn selectivity(&self, condition: &Expr) -> f64 {
        let share = match condition {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
                Operator::And => self.share_of_all(split_conjunction(condition)),
                Operator::Or => {
                    let (a, b) = (self.selectivity(left), self.selectivity(right));
                    a + b - a * b
                }
                _ => self.comparison(left, *op, right),
            },
            Expr::Not(inner) => 1.0 - self.selectivity(inner),
            Expr::IsNull(inner) => self.null_share(inner),
            Expr::IsNotNull(inner) => 1.0 - self.null_share(inner),
            Expr::InList(InList { expr, list, negated }) => {
                let share = (list.len() as f64 / self.distinct(expr)).min(1.0);
                if *negated { 1.0 - share } else { share }
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let above = self.comparison(expr, Operator::GtEq, low);
                let below = self.comparison(expr, Operator::LtEq, high);
                let share = range_share(above, below);
                if *negated { 1.0 - share } else { share }
            }
            Expr::Like(like) => match like.negated {
                true => 1.0 - LIKE_SELECTIVITY,
                false => LIKE_SELECTIVITY,
            },
            Expr::ScalarFunction(call) => match bit_set::looked_for(call) {
                Some((expr, numbers)) => (numbers as f64 / self.distinct(expr)).min(1.0),
                None => UNKNOWN_SELECTIVITY,
            },
            Expr::Literal(ScalarValue::Boolean(Some(truth)), _) => f64::from(u8::from(*truth)),
            _ => UNKNOWN_SELECTIVITY,
        };
        share.clamp(0.0, 1.0)
    }

    fn null_share(&self, expr: &Expr) -> f64 {
        match expr {
            Expr::Column(column) => self.column(column).map_or(0.1, ColumnEstimate::nulls),
            _ => 0.1,
        }
    }

    fn comparison(&self, left: &Expr, op: Operator, right: &Expr) -> f64 {
        let (expr, op, literal) = match (literal(left), literal(right)) {
            (None, Some(value)) => (left, op, value),
            (Some(value), None) => match op.swap() {
                Some(op) => (right, op, value),
                None => return UNKNOWN_SELECTIVITY,
            },
            // Two columns.
            (None, None) => {
                return match op {
                    Operator::Eq => 1.0 / self.distinct(left).max(self.distinct(right)),
                    Operator::NotEq => 1.0,
                    _ => 0.4,
                };
            }
            _ => return UNKNOWN_SELECTIVITY,
        };
        match op {
            Operator::Eq | Operator::IsNotDistinctFrom => 1.0 / self.distinct(expr),
            Operator::NotEq | Operator::IsDistinctFrom => 1.0 - 1.0 / self.distinct(expr),
            Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
                let below = self.share_below(expr, &literal);
                match op {
                    Operator::Lt | Operator::LtEq => below,
                    _ => 1.0 - below,
                }
            }
            _ => UNKNOWN_SELECTIVITY,
        }
    }

    /// Share of the values below `value`, taken to be spread evenly between the bounds.
    fn share_below(&self, expr: &Expr, value: &ScalarValue) -> f64 {
        let bounds = match expr {
            Expr::Column(column) => self.column(column).and_then(ColumnEstimate::bounds),
            Expr::Cast(cast) => return self.share_below(&cast.expr, value),
            _ => None,
        };
        match (bounds, on_number_line(value)) {
            (Some((low, high)), Some(value)) if high > low => {
                ((value - low) / (high - low)).clamp(0.0, 1.0)
            }
            _ => 0.33,
        }
    }
}

/// Share of the values above a lower and below an upper bound.
fn range_share(above: f64, below: f64) -> f64 {
    (above + below - 1.0).max(above * below * 0.1)
}

/// The expression that a condition bounds by a constant, from below (0) or from above (1).
fn bounded(condition: &Expr) -> Option<(&Expr, usize)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
    let (expr, op) = match (literal(left), literal(right)) {
        (None, Some(_)) => (left, *op),
        (Some(_), None) => (right, op.swap()?),
        _ => return None,
    };
    match op {
        Operator::Gt | Operator::GtEq => Some((expr, 0)),
        Operator::Lt | Operator::LtEq => Some((expr, 1)),
        _ => None,
    }
}

fn literal(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Cast(cast) => literal(&cast.expr)?.cast_to(cast.field.data_type()).ok(),
        _ => None,
    }
}

/// What can be said about the rows a scan returns.
fn of_scan(scan: &TableScan) -> Estimate {
    let provider = source_as_provider(&scan.source).ok();
    let table = provider.as_ref().and_then(|p| p.downcast_ref::<SwingTable>());
    let Some(table) = table.map(SwingTable::table) else {
        let Some((statistics, provider)) = provider.and_then(|p| Some((p.statistics()?, p))) else {
            return Estimate { rows: UNKNOWN_ROWS, columns: HashMap::new() };
        };
        let whole = told(&statistics, &provider.schema(), Some(&scan.table_name));
        let conditions = || scan.filters.iter().flat_map(split_conjunction);
        let rows = whole.rows * whole.share_of_all(conditions());
        return whole.scaled(rows).fixed_by(conditions());
    };
    let names = table.schema().fields().iter();
    let columns = names.map(|f| Column::new(Some(scan.table_name.clone()), f.name()));
    let whole = scan_estimate(table, columns.collect());
    if scan.filters.is_empty() {
        return whole;
    }
    let guess = whole.share_of_all(scan.filters.iter().flat_map(split_conjunction));
    let share = sample::share_of(table, &scan.filters, guess);
    let rows = whole.rows * share;
    whole.scaled(rows).fixed_by(scan.filters.iter().flat_map(split_conjunction))
}

/// What statistics say about rows that are elsewhere.
fn told(statistics: &Statistics, schema: &Schema, table: Option<&TableReference>) -> Estimate {
    let rows = statistics.num_rows.get_value().map_or(UNKNOWN_ROWS, |rows| *rows as f64);
    let columns = schema.fields().iter().zip(&statistics.column_statistics);
    let columns = columns.map(|(field, known)| {
        let column = Column::new(table.cloned(), field.name());
        (column, ColumnEstimate::Told(Arc::new(known.clone()), rows))
    });
    Estimate { rows: rows.max(1.0), columns: columns.collect() }
}

/// What is left of rows that are elsewhere where conditions on their columns hold.
pub fn left_by(statistics: Statistics, schema: &Schema, conditions: &[Expr]) -> Statistics {
    let whole = told(&statistics, schema, None);
    let share = whole.share_of_all(conditions.iter().flat_map(split_conjunction));
    scaled(statistics, share)
}

/// How many rows a plan is expected to have, and how many different values a key of it.
pub fn expected(plan: &LogicalPlan, key: &Expr) -> (f64, f64) {
    let estimate = estimate(plan);
    (estimate.rows, estimate.distinct(key))
}

/// What can be said about the rows of `plan`.
pub(crate) fn estimate(plan: &LogicalPlan) -> Estimate {
    if let Some(input) = materialized(plan) {
        return estimate(input);
    }
    match plan {
        LogicalPlan::TableScan(scan) => of_scan(scan),
        LogicalPlan::Filter(filter) => {
            let input = estimate(&filter.input);
            filtered(input, &filter.predicate)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let input = estimate(&alias.input);
            rename(&input, &alias.input.schema().columns(), &alias.schema.columns())
        }
        LogicalPlan::Projection(projection) => {
            let input = estimate(&projection.input);
            let mut columns = HashMap::new();
            for (expr, column) in projection.expr.iter().zip(projection.schema.columns()) {
                let inner = match expr {
                    Expr::Alias(alias) => alias.expr.as_ref(),
                    other => other,
                };
                if let Expr::Column(from) = inner
                    && let Some(known) = input.column(from)
                {
                    columns.insert(column, known.clone());
                }
            }
            Estimate { rows: input.rows, columns }
        }
        LogicalPlan::Aggregate(aggregate) => {
            let input = estimate(&aggregate.input);
            let groups = aggregate.group_expr.iter().map(|e| input.distinct(e));
            let groups = groups.product::<f64>();
            let rows = groups.min(input.rows).max(1.0);
            let mut columns = HashMap::new();
            for (expr, column) in aggregate.group_expr.iter().zip(aggregate.schema.columns()) {
                let distinct = input.distinct(expr).min(rows);
                columns.insert(column, ColumnEstimate::Computed(distinct));
            }
            Estimate { rows, columns }
        }
        LogicalPlan::Join(join) => {
            let (left, right) = (estimate(&join.left), estimate(&join.right));
            join_estimate(&left, &right, &join.on, join.join_type)
        }
        LogicalPlan::Limit(limit) => {
            let input = estimate(&limit.input);
            let fetch = limit.fetch.as_deref().and_then(literal);
            match fetch.as_ref().and_then(on_number_line) {
                Some(fetch) if fetch < input.rows => input.scaled(fetch),
                _ => input,
            }
        }
        other => match other.inputs().as_slice() {
            [input] => Estimate { rows: estimate(input).rows, columns: HashMap::new() },
            inputs => {
                let rows = inputs.iter().map(|i| estimate(i).rows).sum::<f64>().max(1.0);
                Estimate { rows, columns: HashMap::new() }
            }
        },
    }
}

fn filtered(input: Estimate, condition: &Expr) -> Estimate {
    let rows = input.rows * input.share_of_all(split_conjunction(condition));
    input.scaled(rows).fixed_by(split_conjunction(condition))
}

fn rename(input: &Estimate, from: &[Column], to: &[Column]) -> Estimate {
    let pairs = from.iter().zip(to);
    let columns = pairs.filter_map(|(from, to)| Some((to.clone(), input.column(from)?.clone())));
    Estimate { rows: input.rows, columns: columns.collect() }
}

fn join_estimate(
    left: &Estimate,
    right: &Estimate,
    on: &[(Expr, Expr)],
    join_type: JoinType,
) -> Estimate {
    let mut share = 1.0;
    let mut matched: f64 = 1.0;
    for (l, r) in on {
        let (l, r) = (left.distinct(l), right.distinct(r));
        share /= l.max(r);
        matched = matched.min(r / l);
    }
    let inner = left.rows * right.rows * share;
    match join_type {
        JoinType::LeftSemi => left.clone().scaled(left.rows * matched.min(1.0)),
        JoinType::LeftAnti => left.clone().scaled(left.rows * (1.0 - matched).max(0.1)),
        JoinType::RightSemi | JoinType::RightAnti => right.clone().scaled(right.rows * 0.5),
        JoinType::Left => left.joined(right, inner.max(left.rows)),
        JoinType::Right => left.joined(right, inner.max(right.rows)),
        JoinType::Full => left.joined(right, inner.max(left.rows).max(right.rows)),
        _ => left.joined(right, inner),
    }
}

fn scan_estimate(table: &Arc<Table>, wanted: Vec<Column>) -> Estimate {
    let known = wanted.into_iter().filter_map(|column| {
        let index = table.schema().index_of(&column.name).ok()?;
        Some((column, ColumnEstimate::Stored(Arc::clone(table), index)))
    });
    Estimate { rows: (table.row_count() as f64).max(1.0), columns: known.collect() }
}
