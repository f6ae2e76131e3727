//! ON CONFLICT: what an INSERT does with rows whose key exists already.
//!
//! * `DO NOTHING` leaves out rows that conflict with the table or with an earlier row of the
//!   statement.
//! * `DO UPDATE SET ...` changes the existing row; `excluded` is the row that could not be
//!   inserted. Two rows of one statement must not meet the same row: which came last would be
//!   chance.
//! * `INSERT OR IGNORE` and `INSERT OR REPLACE` are `DO NOTHING` and a `DO UPDATE` of the columns
//!   that the statement gives values for, as in DuckDB.
//!
//! A key with a NULL conflicts with nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow::compute::{concat_batches, filter_record_batch, not};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ConflictTarget, DoUpdate, Expr, Ident, Insert, JoinConstraint, OnConflict,
    OnConflictAction, OnInsert, Query, SqliteOnConflict,
};
use swingdb_common::cast::shown::show;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::floats::canonical;
use swingdb_common::hidden;
use swingdb_common::runtime::cancel::go_on;
use swingdb_common::runtime::memory::AccountedRows;
use swingdb_sql::ast::build;
use swingdb_sql::ast::names::{last_part, quoted};
use swingdb_sql::text::parameters::Params;
use swingdb_store::{Constraint, RowId, Table, WriteTxn};

use crate::execute::dml::returning::Changed;
use crate::execute::dml::row_set::collect;
use crate::execute::dml::set_list::{Set, sets};
use crate::execute::dml::update::{apply as apply_sets, convert_sets, set_schema};
use crate::execute::target::{Named, Target, column};
use crate::session::Session;

/// In-memory tables of one upsert: the existing rows, and the rows that could not be inserted.
const OLD: &str = hidden!("old");
const NEW: &str = hidden!("new");
/// The row id in both.
const ROW: &str = hidden!("row");
/// Begins the names of the columns of the rows that could not be inserted.
const EXCLUDED: &str = hidden!("excluded ");

/// What to do with rows that conflict.
pub(crate) struct Rule {
    /// Constraints (indices) whose violation is handled; others are errors.
    constraints: Vec<usize>,
    action: Action,
}

enum Action {
    Nothing,
    Update { sets: Vec<Set>, selection: Option<Box<Expr>> },
}

impl Rule {
    /// The rule of an INSERT that gives values for `columns`, if it has one.
    pub(crate) fn of(named: &Named, insert: &Insert, columns: &[usize]) -> Result<Option<Self>> {
        let table = &named.target.table;
        let replace = insert.replace_into || insert.or == Some(SqliteOnConflict::Replace);
        let ignore = insert.ignore || insert.or == Some(SqliteOnConflict::Ignore);
        if replace {
            let action = replace_given(table, columns);
            return Ok(Some(Self { constraints: one(table, None)?, action }));
        }
        if ignore {
            return Ok(Some(Self { constraints: every(table), action: Action::Nothing }));
        }
        match &insert.on {
            None => Ok(None),
            Some(OnInsert::OnConflict(on)) => Self::on_conflict(named, on).map(Some),
            Some(OnInsert::DuplicateKeyUpdate(list)) => {
                let update = DoUpdate { assignments: list.clone(), selection: None };
                let action = Action::update(named, &update)?;
                Ok(Some(Self { constraints: one(table, None)?, action }))
            }
            Some(other) => Err(Error::unsupported(other.to_string())),
        }
    }

    fn on_conflict(named: &Named, on: &OnConflict) -> Result<Self> {
        let table = &named.target.table;
        let target = on.conflict_target.as_ref();
        Ok(match &on.action {
            OnConflictAction::DoNothing if target.is_none() => {
                Self { constraints: every(table), action: Action::Nothing }
            }
            OnConflictAction::DoNothing => {
                Self { constraints: one(table, target)?, action: Action::Nothing }
            }
            OnConflictAction::DoUpdate(update) => {
                Self { constraints: one(table, target)?, action: Action::update(named, update)? }
            }
        })
    }
}

impl Action {
    fn update(named: &Named, update: &DoUpdate) -> Result<Self> {
        let table = &named.target.table;
        let mut sets = sets(table, &update.assignments, &named.names())?;
        let mut selection = update.selection.clone().map(Box::new);
        for expr in sets.iter_mut().map(|set| &mut set.value).chain(selection.as_deref_mut()) {
            rename_excluded(table, expr);
            build::shorten_qualifiers(expr, &named.target.schema, &named.target.name, &named.alias);
        }
        Ok(Self::Update { sets, selection })
    }
}

/// `excluded.c` becomes the column of that meaning, so that plain `c` is the existing row's.
fn rename_excluded(table: &Table, expr: &mut Expr) {
    build::rewrite_exprs(expr, |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [qualifier, name, rest @ ..] = parts.as_slice()
            && qualifier.value.eq_ignore_ascii_case("excluded")
            && let Ok(index) = column(table, &name.value)
        {
            let renamed = excluded(table, index);
            *expr = if rest.is_empty() {
                Expr::Identifier(renamed)
            } else {
                Expr::CompoundIdentifier([&[quoted(NEW), renamed], rest].concat())
            };
        }
    });
}

fn excluded(table: &Table, index: usize) -> Ident {
    quoted(&format!("{EXCLUDED}{}", table.columns()[index].name))
}

/// OR REPLACE changes the columns that the statement gives values for; others stay, as in DuckDB.
fn replace_given(table: &Table, columns: &[usize]) -> Action {
    let value = |column| Expr::Identifier(excluded(table, column));
    let set = |column: &usize| Set { column: *column, value: value(*column) };
    match columns {
        // Rows of nothing but defaults have nothing to put in the place of what is there.
        [] => Action::Nothing,
        _ => Action::Update { sets: columns.iter().map(set).collect(), selection: None },
    }
}

fn every(table: &Table) -> Vec<usize> {
    (0..table.constraints().len()).collect()
}

/// The one constraint that ON CONFLICT names.
fn one(table: &Table, target: Option<&ConflictTarget>) -> Result<Vec<usize>> {
    let constraints = table.constraints();
    let is_key = |wanted: &HashSet<usize>| {
        constraints
            .iter()
            .position(|key| key.columns().iter().copied().collect::<HashSet<usize>>() == *wanted)
    };
    match target {
        None if constraints.len() == 1 => Ok(vec![0]),
        None => Err(Error::plan(format!(
            "table {:?} has {} keys; name the columns: ON CONFLICT (...)",
            table.name(),
            constraints.len()
        ))),
        Some(ConflictTarget::Columns(names)) => {
            let wanted: Result<HashSet<usize>> =
                names.iter().map(|name| column(table, &name.value)).collect();
            is_key(&wanted?).map(|index| vec![index]).ok_or_else(|| {
                let names: Vec<&str> = names.iter().map(|name| name.value.as_str()).collect();
                Error::plan(format!(
                    "table {:?} has no PRIMARY KEY or UNIQUE constraint on ({})",
                    table.name(),
                    names.join(", ")
                ))
            })
        }
        Some(ConflictTarget::OnConstraint(name)) => {
            let name = last_part(name)?;
            let primary = constraints.iter().position(|c| matches!(c, Constraint::Primary(_)));
            match primary {
                Some(index) if name.eq_ignore_ascii_case(&format!("{}_pkey", table.name())) => {
                    Ok(vec![index])
                }
                _ => Err(Error::not_found(ObjectKind::Other, name, [] as [&str; 0])),
            }
        }
    }
}

/// Rows inserted and changed, and all of them in full for RETURNING.
pub(crate) fn apply(
    session: &Session,
    txn: &mut WriteTxn,
    named: &Named,
    rule: &Rule,
    batches: Vec<RecordBatch>,
    params: &Params,
    collected: &mut AccountedRows,
) -> Result<(u64, Vec<RecordBatch>)> {
    let Target { schema, name, table } = &named.target;
    let mut keys = Keys::new(table, &rule.constraints)?;
    let mut fresh = Vec::new();
    let mut meeting = Meeting::default();
    let existing = keys.find(txn, named, &batches)?;
    let mut first = 0;
    for batch in batches {
        go_on()?;
        let rows = first..first + batch.num_rows();
        let existing: Vec<_> = existing.iter().map(|found| &found[rows.clone()]).collect();
        first = rows.end;
        let sorted = match &rule.action {
            Action::Nothing => keys.keep_new(&batch, &existing)?,
            Action::Update { .. } => keys.split(&batch, existing[0], &mut meeting)?,
        };
        if sorted.num_rows() > 0 {
            fresh.push(sorted);
        }
    }
    let mut rows = 0;
    let mut changed = Vec::new();
    if let Action::Update { sets, selection } = &rule.action
        && !meeting.ids.is_empty()
    {
        let ids =
            update_existing(session, txn, named, sets, selection.as_deref(), &meeting, params)?;
        rows += ids.len() as u64;
        changed.extend(Changed::rows(&txn.view(), &named.target, &ids, collected)?);
    }
    if !fresh.is_empty() {
        rows += txn.append(schema, name, &fresh)?;
    }
    fresh.append(&mut changed);
    Ok((rows, fresh))
}

/// Rows that could not be inserted, and the existing ones that they meet, in the same order.
#[derive(Default)]
struct Meeting {
    ids: Vec<RowId>,
    rows: Vec<RecordBatch>,
}

/// The keys of the rows a statement brings.
struct Keys {
    constraints: Vec<usize>,
    columns: Vec<Vec<usize>>,
    converters: Vec<RowConverter>,
    seen: Vec<HashMap<OwnedRow, ()>>,
    met: HashSet<RowId>,
    table: Arc<Table>,
}

impl Keys {
    fn new(table: &Arc<Table>, constraints: &[usize]) -> Result<Self> {
        let mut columns = Vec::new();
        let mut converters = Vec::new();
        for index in constraints {
            let key = table.constraints()[*index].columns().to_vec();
            let kind = |c: &usize| SortField::new(table.columns()[*c].data_type.clone());
            converters.push(RowConverter::new(key.iter().map(kind).collect())?);
            columns.push(key);
        }
        let seen = constraints.iter().map(|_| HashMap::new()).collect();
        let constraints = constraints.to_vec();
        let table = Arc::clone(table);
        Ok(Self { constraints, columns, converters, seen, met: HashSet::new(), table })
    }

    /// For each constraint, the existing row that each row of the batches meets.
    fn find(
        &self,
        txn: &mut WriteTxn,
        named: &Named,
        batches: &[RecordBatch],
    ) -> Result<Vec<Vec<Option<RowId>>>> {
        let Target { schema, name, .. } = &named.target;
        let mut found = Vec::with_capacity(self.constraints.len());
        for (constraint, columns) in self.constraints.iter().zip(&self.columns) {
            let keys = batches.iter().map(|batch| batch.project(columns));
            let keys = keys.collect::<Result<Vec<_>, _>>()?;
            found.push(txn.find_keys(schema, name, *constraint, &keys)?);
        }
        Ok(found)
    }

    /// The encoded keys of a batch for one constraint; `None` where a part is NULL.
    fn encoded(&self, which: usize, batch: &RecordBatch) -> Result<Vec<Option<OwnedRow>>> {
        let columns: Vec<ArrayRef> = self.columns[which]
            .iter()
            .map(|c| canonical(batch.column(*c)))
            .collect::<Result<_>>()?;
        let rows = self.converters[which].convert_columns(&columns)?;
        let key = |row: usize| {
            let known = columns.iter().all(|column| column.is_valid(row));
            known.then(|| rows.row(row).owned())
        };
        Ok((0..batch.num_rows()).map(key).collect())
    }

    /// DO NOTHING: the rows that meet none, and no earlier row of the statement.
    fn keep_new(
        &mut self,
        batch: &RecordBatch,
        existing: &[&[Option<RowId>]],
    ) -> Result<RecordBatch> {
        let mut encoded = Vec::with_capacity(self.columns.len());
        for which in 0..self.columns.len() {
            encoded.push(self.encoded(which, batch)?);
        }
        let mut keep = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let met = existing.iter().any(|found| found[row].is_some())
                || encoded.iter().zip(&self.seen).any(|(keys, seen)| {
                    keys[row].as_ref().is_some_and(|key| seen.contains_key(key))
                });
            keep.push(!met);
            if !met {
                for (keys, seen) in encoded.iter_mut().zip(&mut self.seen) {
                    seen.extend(keys[row].take().map(|key| (key, ())));
                }
            }
        }
        Ok(filter_record_batch(batch, &BooleanArray::from(keep))?)
    }

    /// DO UPDATE: the rows that meet none are returned, the others go to `meeting`.
    fn split(
        &mut self,
        batch: &RecordBatch,
        existing: &[Option<RowId>],
        meeting: &mut Meeting,
    ) -> Result<RecordBatch> {
        let mut met = Vec::with_capacity(batch.num_rows());
        for (row, found) in existing.iter().enumerate() {
            if let Some(id) = found {
                if !self.met.insert(*id) {
                    return Err(self.twice(batch, row));
                }
                meeting.ids.push(*id);
            }
            met.push(found.is_some());
        }
        let met = BooleanArray::from(met);
        if met.has_true() {
            meeting.rows.push(filter_record_batch(batch, &met)?);
        }
        let fresh = filter_record_batch(batch, &not(&met)?)?;
        for (row, key) in self.encoded(0, &fresh)?.into_iter().enumerate() {
            if key.is_some_and(|key| self.seen[0].insert(key, ()).is_some()) {
                return Err(self.twice(&fresh, row));
            }
        }
        Ok(fresh)
    }

    fn twice(&self, batch: &RecordBatch, row: usize) -> Error {
        let shown: Vec<String> =
            self.columns[0].iter().map(|column| show(batch.column(*column), row)).collect();
        Error::plan(format!(
            "ON CONFLICT DO UPDATE on table {:?} meets the key ({}) twice in one statement",
            self.table.name(),
            shown.join(", ")
        ))
    }
}

/// Computes and applies the SETs of DO UPDATE; the rows that were changed.
fn update_existing(
    session: &Session,
    txn: &mut WriteTxn,
    named: &Named,
    sets: &[Set],
    selection: Option<&Expr>,
    meeting: &Meeting,
    params: &Params,
) -> Result<Vec<RowId>> {
    let table = &named.target.table;
    let query = update_query(named, sets, selection)?;
    let all: Vec<usize> = (0..table.columns().len()).collect();
    let rows: ArrayRef = Arc::new(UInt64Array::from_iter_values(meeting.ids.iter().map(|id| id.0)));
    let old = with_row(table.take(&meeting.ids, &all)?, "", &rows)?;
    let new = concat_batches(&meeting.rows[0].schema(), &meeting.rows)?;
    let new = with_row(new, EXCLUDED, &rows)?;
    let extra =
        [(OLD.to_string(), old.schema(), vec![old]), (NEW.to_string(), new.schema(), vec![new])];
    let plan = session.plan_with(&build::statement(query, None), params, &extra)?;
    let schema = set_schema(named, sets);
    let mut collected = session.collected("INSERT")?;
    let found = collected.over(session.run(plan)?);
    let zone = session.zone();
    let threads = session.threads()?;
    let convert = |columns: &[ArrayRef], rows| convert_sets(columns, &schema, rows, zone);
    let rows = collect(threads, found, convert)?;
    apply_sets(txn, &named.target, sets, &rows)?;
    Ok(rows.ids.as_slice().to_vec())
}

fn update_query(named: &Named, sets: &[Set], selection: Option<&Expr>) -> Result<Query> {
    let new = quoted(NEW);
    let mut projection = vec![build::item(build::field(&named.alias, ROW), ROW)];
    for (index, set) in sets.iter().enumerate() {
        projection.push(build::item(set.value.clone(), format!("set {index}")));
    }
    let same_row =
        build::binary(build::field(&named.alias, ROW), BinaryOperator::Eq, build::field(&new, ROW));
    let mut from = build::from(build::table(&[OLD], &named.alias));
    from.joins.push(build::join(build::table(&[NEW], &new), JoinConstraint::On(same_row)));
    build::select(projection, vec![from], selection.cloned())
}

/// Adds the row id, and puts `prefix` before the names of the other columns.
fn with_row(batch: RecordBatch, prefix: &str, rows: &ArrayRef) -> Result<RecordBatch> {
    let schema = batch.schema();
    let renamed = schema.fields().iter().map(|field| {
        Field::new(format!("{prefix}{}", field.name()), field.data_type().clone(), true)
    });
    let mut fields: Vec<Field> = renamed.collect();
    fields.push(Field::new(ROW, DataType::UInt64, false));
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::clone(rows));
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}
