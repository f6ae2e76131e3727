//! MERGE INTO: one join finds what every clause is to do, then the store applies it.
//!
//! Target and source are joined by the ON condition: an inner join, or an outer one on the side
//! whose unmatched rows some clause handles. For each joined row the query computes the number of
//! the first clause that applies (kind and AND condition, in the order written) and, only for rows
//! of that clause, its values. Nothing is changed before the whole join has been read.
//!
//! Deletions are applied first, then all updates at once (so keys may be swapped), then insertions.
//! A target row that two source rows want to change is an error, as in the standard: which of them
//! came last would be chance. Rows on which the clause does nothing may repeat.

use std::iter::repeat_n;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, StringViewArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Fields, Int64Type, Schema, UInt64Type};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Ident, Join, JoinConstraint, JoinOperator, Merge,
    MergeAction, MergeClause, MergeClauseKind, MergeInsertExpr, MergeInsertKind, OutputClause,
    Query, SelectItem, TableFactor, With,
};
use swingdb_common::cast::convert::Origin;
use swingdb_common::error::{Error, Result};
use swingdb_common::hidden;
use swingdb_common::runtime::memory::AccountedRows;
use swingdb_common::time::zones::Zone;
use swingdb_sql::ast::build;
use swingdb_sql::ast::merge::WholeRow;
use swingdb_sql::ast::names::quoted;
use swingdb_sql::ast::stars::excluded;
use swingdb_sql::scan::hidden::ROWID_COLUMN;
use swingdb_sql::text::parameters::Params;
use swingdb_store::{Catalog, RowId, RowIds, Table, WriteTxn};

use crate::execute::atomic::{Outcome, with_txn_of};
use crate::execute::dml::insert::{Mapping, insert_columns};
use crate::execute::dml::length::length_of;
use crate::execute::dml::returning::{Changed, Returning};
use crate::execute::dml::row_set::{RowSet, collect};
use crate::execute::dml::set_list::{Set, sets};
use crate::execute::dml::update::{apply, convert_sets, set_schema};
use crate::execute::target::{Named, Target, check_given, column};
use crate::session::Session;

/// True in every row of the source; NULL where an outer join found none.
const PRESENT: &str = hidden!("present");
/// In RETURNING: what was done to a row.
const ACTION: &str = "merge_action";
/// The number of the clause that applies.
const CLAUSE: &str = hidden!("clause");

/// What a clause does.
enum Action {
    Nothing,
    Delete,
    Update(Vec<Set>),
    Insert { columns: Vec<usize>, values: Vec<Expr> },
}

struct Clause {
    kind: MergeClauseKind,
    condition: Option<Expr>,
    action: Action,
}

/// A MERGE taken apart.
struct Plan {
    named: Named,
    source: Ident,
    clauses: Vec<Clause>,
    /// The columns that any UPDATE clause sets, in table order.
    updated: Vec<usize>,
}

/// Runs a MERGE.
pub(crate) fn merge(
    session: &Session,
    merge: &Merge,
    with: Option<&With>,
    params: &Params,
) -> Result<Outcome> {
    with_txn_of(session, length_of(session, &[merge], with), |txn| {
        let plan = Plan::of(session, &txn.view(), merge, with)?;
        plan.check_sides(session, merge, with, params)?;
        let logical = session.plan(&build::statement(plan.query(merge, with)?, None), params)?;
        let mut work = Work::new(session, &plan)?;
        let mut collected = session.collected("MERGE")?;
        for batch in collected.over(session.run(logical)?) {
            work.take(&batch?)?;
        }
        let items = returning(merge)?;
        let done = work.apply(txn, items.map(|_| &mut collected))?;
        let mut outcome = Outcome::changed("MERGE", done.rows);
        if let Some(items) = items {
            let (items, changed) = with_action(&plan.named, items.to_vec(), done.changed)?;
            let list = Returning::new(&plan.named, &items, with);
            outcome.rows = Some(list.run(session, params, changed, &mut collected)?);
        }
        Ok(outcome)
    })
}

/// The query behind a MERGE, for EXPLAIN.
pub(crate) fn explain(
    session: &Session,
    catalog: &Catalog,
    merge: &Merge,
    with: Option<&With>,
) -> Result<Query> {
    Plan::of(session, catalog, merge, with)?.query(merge, with)
}

fn returning(merge: &Merge) -> Result<Option<&[SelectItem]>> {
    match &merge.output {
        None => Ok(None),
        Some(OutputClause::Returning { select_items, .. }) => Ok(Some(select_items)),
        Some(_) => Err(Error::unsupported("OUTPUT; use RETURNING")),
    }
}

impl Plan {
    fn of(
        session: &Session,
        catalog: &Catalog,
        merge: &Merge,
        with: Option<&With>,
    ) -> Result<Self> {
        let named = Named::resolve(session, catalog, &merge.table, "MERGE INTO")?;
        let source = source_name(&merge.source)?;
        if source.value.eq_ignore_ascii_case(&named.alias.value) {
            return Err(Error::plan(format!(
                "target and source are both called {source}; give one of them another name with AS"
            )));
        }
        let mut fields = SourceFields { session, merge, with, names: None };
        let mut clauses = Vec::with_capacity(merge.clauses.len());
        for clause in &merge.clauses {
            let mut clause = clause.clone();
            qualify(&named, &source, &mut clause, &mut fields)?;
            clauses.push(Clause {
                kind: clause.clause_kind,
                condition: clause.predicate.clone(),
                action: action(&named, &source, &clause, &mut fields)?,
            });
        }
        let mut updated: Vec<usize> = clauses
            .iter()
            .flat_map(|clause| match &clause.action {
                Action::Update(sets) => sets.iter().map(|set| set.column).collect(),
                _ => Vec::new(),
            })
            .collect();
        updated.sort_unstable();
        updated.dedup();
        Ok(Self { named, source, clauses, updated })
    }

    /// A clause for rows of one side may name that side only: the other would be NULL without a
    /// word. So such a clause must mean something in a query of its own side.
    fn check_sides(
        &self,
        session: &Session,
        merge: &Merge,
        with: Option<&With>,
        params: &Params,
    ) -> Result<()> {
        for clause in &self.clauses {
            let (kind, seen, side) = match clause.kind {
                MergeClauseKind::Matched => continue,
                MergeClauseKind::NotMatchedBySource => {
                    ("WHEN NOT MATCHED BY SOURCE", "target", self.named.relation())
                }
                MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => {
                    ("WHEN NOT MATCHED", "source", merge.source.clone())
                }
            };
            let values = match &clause.action {
                Action::Nothing | Action::Delete => Vec::new(),
                Action::Update(sets) => sets.iter().map(|set| set.value.clone()).collect(),
                Action::Insert { values, .. } => values.clone(),
            };
            let exprs = values.into_iter().chain(clause.condition.clone()).enumerate();
            let items: Vec<_> =
                exprs.map(|(index, expr)| build::item(expr, format!("value {index}"))).collect();
            if items.is_empty() {
                continue;
            }
            let mut query = build::select(items, vec![build::from(side)], None)?;
            let Target { schema, name, .. } = &self.named.target;
            build::shorten_qualifiers(&mut query, schema, name, &self.named.alias);
            session.plan(&build::statement(query, with), params).map_err(|error| {
                Error::plan(format!("{kind} of MERGE sees the {seen} only: {error}"))
            })?;
        }
        Ok(())
    }

    /// Row id, clause number, then the values of each clause.
    fn query(&self, merge: &Merge, with: Option<&With>) -> Result<Query> {
        let number = self.clause_number();
        let mut projection = vec![
            build::item(self.named.row_id(), ROWID_COLUMN),
            build::item(number.clone(), CLAUSE),
        ];
        for (index, clause) in self.clauses.iter().enumerate() {
            for value in self.values(clause) {
                let applies =
                    build::binary(number.clone(), BinaryOperator::Eq, build::integer(index));
                let value = build::case(vec![(applies, value)]);
                let name = format!("value {}", projection.len());
                projection.push(build::item(value, name));
            }
        }
        let mut from = build::from(self.named.relation());
        from.joins.push(Join {
            relation: present_source(&merge.source, &self.source)?,
            global: false,
            join_operator: self.join(JoinConstraint::On(merge.on.as_ref().clone())),
        });
        let mut query = build::select(projection, vec![from], None)?;
        let Target { schema, name, .. } = &self.named.target;
        build::shorten_qualifiers(&mut query, schema, name, &self.named.alias);
        query.with = with.cloned();
        Ok(query)
    }

    fn join(&self, on: JoinConstraint) -> JoinOperator {
        let has = |kinds: &[MergeClauseKind]| self.clauses.iter().any(|c| kinds.contains(&c.kind));
        let by_target = has(&[MergeClauseKind::NotMatched, MergeClauseKind::NotMatchedByTarget]);
        let by_source = has(&[MergeClauseKind::NotMatchedBySource]);
        match (by_target, by_source) {
            (false, false) => JoinOperator::Inner(on),
            (true, false) => JoinOperator::Right(on),
            (false, true) => JoinOperator::Left(on),
            (true, true) => JoinOperator::FullOuter(on),
        }
    }

    /// The number of the first clause that applies to a joined row, or NULL.
    fn clause_number(&self) -> Expr {
        let whens = self.clauses.iter().enumerate().map(|(index, clause)| {
            let target = is_null(self.named.row_id());
            let source = is_null(build::field(&self.source, PRESENT));
            let (target, source) = match clause.kind {
                MergeClauseKind::Matched => (not(target), not(source)),
                MergeClauseKind::NotMatchedBySource => (not(target), source),
                MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => {
                    (target, not(source))
                }
            };
            let conditions = [Some(target), Some(source), clause.condition.clone()];
            (build::all(conditions.into_iter().flatten()), build::integer(index))
        });
        build::case(whens.collect())
    }

    /// What the query computes for a clause: all updated columns, or the inserted values.
    fn values(&self, clause: &Clause) -> Vec<Expr> {
        let table = &self.named.target.table;
        match &clause.action {
            Action::Nothing | Action::Delete => Vec::new(),
            Action::Insert { values, .. } => values.clone(),
            Action::Update(sets) => {
                let value = |column: &usize| {
                    let set = sets.iter().find(|set| set.column == *column);
                    match set {
                        Some(set) => set.value.clone(),
                        None => build::field(&self.named.alias, &table.columns()[*column].name),
                    }
                };
                self.updated.iter().map(value).collect()
            }
        }
    }
}

/// The columns of the source, looked up when `*` asks for them.
struct SourceFields<'a> {
    session: &'a Session,
    merge: &'a Merge,
    with: Option<&'a With>,
    names: Option<Vec<String>>,
}

impl SourceFields<'_> {
    fn names(&mut self) -> Result<&[String]> {
        if self.names.is_none() {
            let mut query = build::parse_query("SELECT *")?;
            build::select_of(&mut query)?.from = vec![build::from(self.merge.source.clone())];
            let statement = build::statement(query, self.with);
            let plan = self.session.plan(&statement, &Params::default())?;
            let names = plan.schema().fields().iter().map(|field| field.name().clone()).collect();
            self.names = Some(names);
        }
        Ok(self.names.as_deref().unwrap_or_default())
    }

    /// `*`: the columns of the target that the source has too, and their values.
    fn all(&mut self, table: &Table, source: &Ident) -> Result<(Vec<usize>, Vec<Expr>)> {
        let mut columns = Vec::new();
        let mut values = Vec::new();
        for name in self.names()? {
            columns.push(column(table, name)?);
            values.push(build::field(source, name));
        }
        check_given(table, &columns)?;
        Ok((columns, values))
    }
}

/// A clause for rows of one side sees that side only, so its plain names are that side's.
fn qualify(
    named: &Named,
    source: &Ident,
    clause: &mut MergeClause,
    fields: &mut SourceFields<'_>,
) -> Result<()> {
    let mut exprs: Vec<&mut Expr> = clause.predicate.iter_mut().collect();
    match &mut clause.action {
        MergeAction::Update(update) => {
            exprs.extend(update.assignments.iter_mut().map(|assignment| &mut assignment.value));
        }
        MergeAction::Insert(insert) => {
            if let MergeInsertKind::Values(values) = &mut insert.kind {
                exprs.extend(values.rows.iter_mut().flat_map(|row| row.content.iter_mut()));
            }
        }
        MergeAction::Delete { .. } => {}
    }
    let (side, names) = match clause.clause_kind {
        MergeClauseKind::Matched => return Ok(()),
        MergeClauseKind::NotMatchedBySource => {
            let columns = named.target.table.columns().iter();
            (&named.alias, columns.map(|column| column.name.clone()).collect())
        }
        MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => {
            (source, fields.names()?.to_vec())
        }
    };
    exprs.into_iter().for_each(|expr| build::qualify(expr, side, &names));
    Ok(())
}

fn action(
    named: &Named,
    source: &Ident,
    clause: &MergeClause,
    fields: &mut SourceFields<'_>,
) -> Result<Action> {
    let table = &named.target.table;
    match (&clause.action, WholeRow::of(&clause.action)) {
        (_, Some(WholeRow::Nothing)) => Ok(Action::Nothing),
        (MergeAction::Delete { .. }, _) => Ok(Action::Delete),
        (MergeAction::Update(_), Some(WholeRow::All)) => {
            let (columns, values) = fields.all(table, source)?;
            let pairs = columns.into_iter().zip(values);
            Ok(Action::Update(pairs.map(|(column, value)| Set { column, value }).collect()))
        }
        (MergeAction::Update(update), None) => {
            if update.update_predicate.is_some() || update.delete_predicate.is_some() {
                return Err(Error::unsupported("UPDATE ... WHERE in MERGE; use WHEN ... AND"));
            }
            sets(table, &update.assignments, &named.names()).map(Action::Update)
        }
        (MergeAction::Insert(_), Some(WholeRow::All)) => {
            let (columns, values) = fields.all(table, source)?;
            Ok(Action::Insert { columns, values })
        }
        (MergeAction::Insert(insert), None) => listed_insert(table, insert),
    }
}

/// `INSERT (columns) VALUES (...)`.
fn listed_insert(table: &Table, insert: &MergeInsertExpr) -> Result<Action> {
    if insert.insert_predicate.is_some() {
        return Err(Error::unsupported("INSERT ... WHERE in MERGE; use WHEN ... AND"));
    }
    let rows = match &insert.kind {
        MergeInsertKind::Values(list) => list.rows.as_slice(),
        MergeInsertKind::Row => &[],
    };
    let [row] = rows else {
        return Err(Error::plan("INSERT in MERGE takes exactly one row of VALUES"));
    };
    let columns = insert_columns(table, &insert.columns, row.content.len())?;
    let values = row.content.iter().zip(&columns).map(|(value, column)| {
        crate::execute::dml::set_list::stored_form(value, &table.columns()[*column])
    });
    let values = values.collect::<Result<Vec<Expr>>>()?;
    Ok(Action::Insert { columns, values })
}

/// What expressions call the source.
fn source_name(source: &TableFactor) -> Result<Ident> {
    match source {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } => Ok(alias.name.clone()),
        TableFactor::Table { name, .. } => {
            swingdb_sql::ast::names::last_part(name).map(|n| quoted(&n))
        }
        _ => Err(Error::plan("the source of MERGE needs a name: USING (...) AS s")),
    }
}

/// The source with a column that tells its rows from an outer join's NULLs.
fn present_source(source: &TableFactor, name: &Ident) -> Result<TableFactor> {
    let mut query = build::parse_query("SELECT *")?;
    let select = build::select_of(&mut query)?;
    select.projection.push(build::item(build::boolean(true), PRESENT));
    select.from = vec![build::from(source.clone())];
    Ok(TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: Some(build::alias(name)),
        sample: None,
    })
}

fn is_null(expr: Expr) -> Expr {
    Expr::IsNull(Box::new(expr))
}

fn not(expr: Expr) -> Expr {
    match expr {
        Expr::IsNull(inner) => Expr::IsNotNull(inner),
        other => other,
    }
}

/// What the rows of the join ask for, collected.
struct Work<'a> {
    plan: &'a Plan,
    /// Of the session.
    zone: Zone,
    threads: usize,
    /// For each clause: the first of its value columns in the query's result.
    first_value: Vec<usize>,
    mappings: Vec<Option<Mapping<'a>>>,
    deleted: Vec<RowId>,
    /// Row ids and new values.
    updates: Vec<RecordBatch>,
    inserts: Vec<RecordBatch>,
    inserted: u64,
}

/// What a MERGE did.
struct Done {
    rows: u64,
    /// For RETURNING: inserted rows, updated rows as they are now, deleted rows as they were, each
    /// with what was done to them.
    changed: Vec<(&'static str, RecordBatch)>,
}

impl<'a> Work<'a> {
    fn new(session: &'a Session, plan: &'a Plan) -> Result<Self> {
        let mut first_value = Vec::new();
        let mut mappings = Vec::new();
        let mut next = 2;
        for clause in &plan.clauses {
            first_value.push(next);
            next += plan.values(clause).len();
            mappings.push(match &clause.action {
                Action::Insert { columns, .. } => {
                    Some(Mapping::new(session, &plan.named.target.table, columns)?)
                }
                _ => None,
            });
        }
        Ok(Self {
            plan,
            zone: session.zone(),
            threads: session.threads()?,
            first_value,
            mappings,
            deleted: Vec::new(),
            updates: Vec::new(),
            inserts: Vec::new(),
            inserted: 0,
        })
    }

    /// Sorts the rows of one batch of the join by clause.
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let numbers = arrow::compute::cast(batch.column(1), &DataType::Int64)?;
        let numbers = numbers.as_primitive::<Int64Type>();
        for (index, clause) in self.plan.clauses.iter().enumerate() {
            let wanted: BooleanArray =
                numbers.iter().map(|n| Some(n == Some(index as i64))).collect();
            let rows = filter_record_batch(batch, &wanted)?;
            if rows.num_rows() == 0 {
                continue;
            }
            let first = self.first_value[index];
            match &clause.action {
                Action::Nothing => {}
                Action::Delete => {
                    let ids = rows.column(0).as_primitive::<UInt64Type>();
                    self.deleted.extend(ids.iter().flatten().map(RowId));
                }
                Action::Update(_) => {
                    let mut columns = vec![0];
                    columns.extend(first..first + self.plan.updated.len());
                    self.updates.push(self.stored_updates(&rows.project(&columns)?)?);
                }
                Action::Insert { columns, .. } => {
                    let values = &rows.columns()[first..first + columns.len()];
                    if let Some(mapping) = &self.mappings[index] {
                        let origin = Origin::UNNUMBERED;
                        self.inserts.push(mapping.rows(values, rows.num_rows(), origin)?);
                        self.inserted += rows.num_rows() as u64;
                    }
                }
            }
        }
        Ok(())
    }

    /// The row ids of an UPDATE clause as they are, its values as they are stored.
    fn stored_updates(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let schema = set_schema(&self.plan.named, &self.sets());
        let values = convert_sets(&rows.columns()[1..], &schema, rows.num_rows(), self.zone)?;
        let mut fields = vec![Field::new(ROWID_COLUMN, DataType::UInt64, true)];
        fields.extend(values.schema().fields().iter().map(|field| field.as_ref().clone()));
        let mut columns: Vec<ArrayRef> = vec![Arc::clone(rows.column(0))];
        columns.extend(values.columns().iter().cloned());
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }

    /// The updated columns in the form of a SET list.
    fn sets(&self) -> Vec<Set> {
        let set = |column: &usize| Set { column: *column, value: build::null() };
        self.plan.updated.iter().map(set).collect()
    }

    /// `returned`: where the changed rows are asked for.
    fn apply(self, txn: &mut WriteTxn, returned: Option<&mut AccountedRows>) -> Result<Done> {
        let Target { schema, name, table } = &self.plan.named.target;
        let sets = self.sets();
        let updates =
            collect(self.threads, self.updates.iter().cloned().map(Ok), |columns, rows| {
                convert_sets(columns, &set_schema(&self.plan.named, &sets), rows, self.zone)
            })?;
        let deletions = RowIds::new(self.deleted.clone());
        if updates.repeated || deletions.len() < self.deleted.len() || meet(&updates, &deletions) {
            return Err(Error::plan(format!(
                "MERGE INTO {name}: a row of the target matches more than one row of the source"
            )));
        }
        let mut rows = 0;
        if !deletions.is_empty() {
            rows += txn.delete_rows(schema, name, &deletions)?;
        }
        rows += apply(txn, &self.plan.named.target, &sets, &updates)?;
        let mut changed = Vec::new();
        if let Some(collected) = returned {
            // Before rows are appended, which may give rows other numbers.
            let (target, ids) = (&self.plan.named.target, updates.ids.as_slice());
            let updated = Changed::rows(&txn.view(), target, ids, collected)?;
            changed.extend(updated.into_iter().map(|rows| ("UPDATE", rows)));
            let all: Vec<usize> = (0..table.columns().len()).collect();
            changed.push(("DELETE", table.take(deletions.as_slice(), &all)?));
        }
        let inserted = txn.with_generated(schema, name, self.inserts)?;
        if !inserted.is_empty() {
            rows += txn.append(schema, name, &inserted)?;
        }
        let inserted = inserted.into_iter().map(|rows| ("INSERT", rows));
        Ok(Done { rows, changed: inserted.chain(changed).collect() })
    }
}

/// A RETURNING list, and the rows for it, which have a column `merge_action` where the list names
/// one. No `*` shows that column; a column of the table that is called so goes before it.
fn with_action(
    named: &Named,
    mut items: Vec<SelectItem>,
    changed: Vec<(&'static str, RecordBatch)>,
) -> Result<(Vec<SelectItem>, Vec<RecordBatch>)> {
    let is_it = |name: &str| name.eq_ignore_ascii_case(ACTION);
    let mut named_so = false;
    build::rewrite_exprs(&mut items, |expr| {
        named_so |= matches!(expr, Expr::Identifier(name) if is_it(&name.value));
    });
    if !named_so || named.target.table.columns().iter().any(|column| is_it(&column.name)) {
        return Ok((items, changed.into_iter().map(|(_, rows)| rows).collect()));
    }
    for item in &mut items {
        if let SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) = item {
            let names = excluded(options).iter().cloned().chain([build::name(&[ACTION])]);
            options.opt_exclude = Some(ExcludeSelectItem::Multiple(names.collect()));
        }
    }
    let rows = changed.into_iter().map(|(action, rows)| {
        let field = Field::new(ACTION, DataType::Utf8View, true);
        let own = rows.schema();
        let fields = own.fields().iter().cloned().chain([Arc::new(field)]);
        let actions: ArrayRef =
            Arc::new(StringViewArray::from_iter_values(repeat_n(action, rows.num_rows())));
        let columns = rows.columns().iter().cloned().chain([actions]).collect();
        let schema = Schema::new(fields.collect::<Fields>());
        Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
    });
    Ok((items, rows.collect::<Result<_>>()?))
}

/// Whether two ascending lists of rows share one.
fn meet(updates: &RowSet, deletions: &RowIds) -> bool {
    let deletions = deletions.as_slice();
    updates.ids.as_slice().iter().any(|id| deletions.binary_search(id).is_ok())
}
