//! Joining what becomes of a subquery to the rows it was written beside.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::tree_node::Transformed;
use datafusion::common::{
    Column, JoinConstraint, NullEquality, Result, ScalarValue, TableReference, not_impl_err,
};
use datafusion::functions_aggregate::expr_fn::{array_agg, count};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{Exists, InSubquery, WindowFunction};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, Join, JoinType, LogicalPlan, Projection, Subquery, Window, lit, when,
};
use swingdb_common::hidden;

use crate::analyze::decorrelate::by_engine::is_at_most_one_row;
use crate::analyze::decorrelate::only_element::only_element;
use crate::analyze::decorrelate::outer_references::references;
use crate::nodes::materialize;
use crate::nodes::materialize::PartId;
use crate::plan::materialized_parts;

/// The name of a relation that no other has.
pub(crate) fn relation(what: &str) -> TableReference {
    numbered(what).1
}

/// The same, and its number.
fn numbered(what: &str) -> (u64, TableReference) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    (number, TableReference::bare(format!(hidden!("{} {}"), what, number)))
}

/// The values of the columns that a subquery refers to, each combination once.
pub(crate) struct Domain {
    plan: LogicalPlan,
    /// The columns outside of the subquery.
    pub outer: Vec<Column>,
    /// Parts of the subquery that are computed once, however often they occur in it.
    pub parts: RefCell<HashMap<PartId, (LogicalPlan, Vec<Column>)>>,
}

impl Domain {
    fn of(rows: &LogicalPlan, outer: Vec<Column>) -> Result<Self> {
        let columns = outer.iter().cloned().map(Expr::Column).collect();
        let values = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(rows.clone()))?);
        let plan = LogicalPlan::Distinct(Distinct::All(Arc::new(values)));
        Ok(Self { plan, outer, parts: RefCell::default() })
    }

    /// Names for the values that nothing else has, also where a UNION leaves out the relation.
    pub fn names(&self) -> Vec<Column> {
        let (number, relation) = numbered("domain");
        let name = |(at, outer): (usize, &Column)| {
            Column::new(Some(relation.clone()), format!("{} {number} {at}", outer.name))
        };
        self.outer.iter().enumerate().map(name).collect()
    }

    /// The values, in columns whose names nothing else has.
    pub fn rows(&self) -> Result<(LogicalPlan, Vec<Column>)> {
        let keys = self.names();
        let columns = self.plan.schema().columns().into_iter().zip(&keys).map(|(column, key)| {
            Expr::Column(column).alias_qualified(key.relation.clone(), key.name())
        });
        let columns = columns.collect();
        let plan = Projection::try_new(columns, Arc::new(self.plan.clone()))?;
        Ok((LogicalPlan::Projection(plan), keys))
    }
}

/// Rows, and beside them the results of the subqueries that were written beside them.
pub(crate) struct Rows {
    /// The rows alone.
    base: LogicalPlan,
    pub plan: LogicalPlan,
}

/// A subquery for all rows at once.
#[derive(Clone)]
struct Evaluated {
    plan: LogicalPlan,
    /// Pairs of a column of the rows and one of `plan` that must not differ.
    keys: Vec<(Column, Column)>,
}

impl Evaluated {
    fn keys(&self) -> impl Iterator<Item = Expr> {
        self.keys.iter().map(|(_, key)| Expr::Column(key.clone()))
    }
}

/// What is joined to the rows: its columns have names that nothing else has.
struct Joined {
    right: LogicalPlan,
    on: Vec<(Expr, Expr)>,
    filter: Option<Expr>,
    join_type: JoinType,
}

impl Rows {
    pub fn new(rows: LogicalPlan) -> Self {
        Self { base: rows.clone(), plan: rows }
    }

    /// The rows alone.
    pub fn base(&self) -> &LogicalPlan {
        &self.base
    }

    /// What is in place of a subquery in an expression on the rows. `definite`: false will do for
    /// unknown.
    pub fn result_of(&mut self, part: Expr, definite: bool) -> Result<Transformed<Expr>> {
        Ok(Transformed::yes(match &part {
            Expr::ScalarSubquery(subquery) => self.value(subquery)?,
            Expr::Exists(exists) => self.exists(exists)?,
            Expr::InSubquery(membership) => self.contains(membership, definite)?,
            _ => return Ok(Transformed::no(part)),
        }))
    }

    /// The value of a subquery of one column, which is NULL where it has no row, and an error where
    /// it has more than one.
    fn value(&mut self, subquery: &Subquery) -> Result<Expr> {
        let evaluated = self.evaluate(&subquery.subquery)?;
        let [value] = <[Column; 1]>::try_from(subquery.subquery.schema().columns())
            .or_else(|_| not_impl_err!("a subquery of several columns used as a value"))?;
        if is_at_most_one_row(&subquery.subquery) {
            return self.join_left(evaluated, vec![(Expr::Column(value), "value")], Vec::new());
        }
        let list = array_agg(Expr::Column(value)).alias(hidden!("values"));
        let name = Expr::Column(Column::from_name(hidden!("values")));
        let lists = grouped(evaluated, vec![list])?;
        let list = self.join_left(lists, vec![(name, "values")], Vec::new())?;
        Ok(only_element().call(vec![list]))
    }

    /// Whether a subquery has a row.
    fn exists(&mut self, exists: &Exists) -> Result<Expr> {
        let evaluated = self.evaluate(&exists.subquery.subquery)?;
        let found = self.join_left(distinct(evaluated, Vec::new())?, mark(), Vec::new())?;
        Ok(if exists.negated { found.is_null() } else { found.is_not_null() })
    }

    /// Whether a value is among those of a subquery. `definite`: false will do for unknown.
    fn contains(&mut self, membership: &InSubquery, definite: bool) -> Result<Expr> {
        let InSubquery { expr, subquery, negated } = membership;
        let columns = subquery.subquery.schema().columns();
        let [element] = <[Column; 1]>::try_from(columns)
            .or_else(|_| not_impl_err!("IN (SELECT ...) of several columns"))?;
        let element = Expr::Column(element);
        let found_is_enough = definite && !negated;
        let mut evaluated = self.evaluate(&subquery.subquery)?;
        if !found_is_enough {
            evaluated.plan = read_twice(evaluated.plan)?;
        }
        let members = distinct(evaluated.clone(), vec![element.clone()])?;
        let equal = vec![(expr.as_ref().clone(), element.clone())];
        let found = self.join_left(members, mark(), equal)?.is_not_null();
        if found_is_enough {
            return Ok(found);
        }
        let counts =
            vec![count(lit(1)).alias(hidden!("all")), count(element).alias(hidden!("known"))];
        let counted = grouped(evaluated, counts)?;
        let name = |name| Expr::Column(Column::from_name(name));
        let all = name(hidden!("all"));
        let missing = when(all.clone().gt(lit(0_i64)), all.gt(name(hidden!("known")))).end()?;
        let missing = self.join_left(counted, vec![(missing, "missing")], Vec::new())?;
        // Of no rows nothing is a member, whether the value is known or not.
        let is_empty = missing.clone().is_null();
        let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
        let is_member = when(found, lit(true))
            .when(is_empty, lit(false))
            .when(missing.or(expr.as_ref().clone().is_null()), unknown)
            .otherwise(lit(false))?;
        Ok(if *negated { Expr::Not(Box::new(is_member)) } else { is_member })
    }

    /// The rows of a LATERAL beside the rows it refers to.
    pub fn lateral(&mut self, subquery: &Subquery, join: &Join) -> Result<()> {
        let evaluated = self.evaluate(&subquery.subquery)?;
        let inside = subquery.subquery.schema().columns().into_iter();
        let columns = inside.zip(join.right.schema().iter()).map(|(column, (relation, field))| {
            Expr::Column(column).alias_qualified(relation.cloned(), field.name())
        });
        let columns = columns.chain(evaluated.keys()).collect();
        let right = Projection::try_new(columns, Arc::new(evaluated.plan))?;
        let keys = evaluated.keys.into_iter();
        let on = keys.map(|(outer, key)| (Expr::Column(outer), Expr::Column(key))).collect();
        let equal = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
        let filter = equal.chain(join.filter.clone()).reduce(Expr::and);
        let join_type = join.join_type;
        self.join(Joined { right: LogicalPlan::Projection(right), on, filter, join_type })
    }

    /// A subquery for all rows at once; `plan` itself if it does not depend on them.
    fn evaluate(&mut self, plan: &LogicalPlan) -> Result<Evaluated> {
        let schema = Arc::clone(self.base.schema());
        let outer = references(plan)?.into_iter().map(|(_, column)| column);
        let mut outer: Vec<Column> = outer.filter(|column| schema.has_column(column)).collect();
        if outer.is_empty() {
            return Ok(Evaluated { plan: plan.clone(), keys: Vec::new() });
        }
        if materialized_parts::is_volatile(plan)? {
            outer.push(self.number()?);
        }
        if materialized_parts::may_vary(&self.base)? {
            self.keep()?;
        }
        let domain = Domain::of(&self.base, outer)?;
        let pushed = domain.push(plan)?;
        let keys = domain.outer.into_iter().zip(pushed.keys).collect();
        Ok(Evaluated { plan: pushed.plan, keys })
    }

    /// Numbers the rows, so that what is drawn for each is drawn for it alone.
    fn number(&mut self) -> Result<Column> {
        let name = Column::from_name(relation("row").to_string());
        let number = Expr::from(WindowFunction::new(row_number_udwf(), Vec::new()));
        let numbered =
            Window::try_new(vec![number.alias(name.name())], Arc::new(self.base.clone()))?;
        self.read(LogicalPlan::Window(numbered))?;
        Ok(name)
    }

    /// Lets rows that may be others each time be computed once.
    fn keep(&mut self) -> Result<()> {
        if materialize::materialized(&self.base).is_some() {
            return Ok(());
        }
        match materialized_parts::shared(self.base.clone()) {
            Some(shared) => self.read(shared),
            None => not_impl_err!("a subquery beside the rows of a recursive query"),
        }
    }

    /// Takes other rows that have the columns of those before, below what was joined to these.
    fn read(&mut self, rows: LogicalPlan) -> Result<()> {
        fn replace(
            plan: &LogicalPlan,
            old: &LogicalPlan,
            rows: &LogicalPlan,
        ) -> Result<LogicalPlan> {
            match plan {
                LogicalPlan::Join(join) if plan != old => {
                    let left = Arc::new(replace(&join.left, old, rows)?);
                    LogicalPlan::Join(Join { left, ..join.clone() }).recompute_schema()
                }
                _ => Ok(rows.clone()),
            }
        }
        self.plan = replace(&self.plan, &self.base, &rows)?;
        self.base = rows;
        Ok(())
    }

    /// Joins an expression over a subquery's columns, and gives its column: NULL for rows for which
    /// there is none.
    fn join_left(
        &mut self,
        evaluated: Evaluated,
        expr: Vec<(Expr, &str)>,
        equal: Vec<(Expr, Expr)>,
    ) -> Result<Expr> {
        let relation = relation("subquery");
        let own = |name: String| Column::new(Some(relation.clone()), name);
        let mut columns = Vec::new();
        let mut named = |expr: Expr, name: String| {
            let column = own(name);
            columns.push(expr.alias_qualified(column.relation.clone(), column.name()));
            Expr::Column(column)
        };
        let mut on = Vec::new();
        for (at, (outer, key)) in evaluated.keys.into_iter().enumerate() {
            on.push((Expr::Column(outer), named(Expr::Column(key), format!("key {at}"))));
        }
        let mut filter = Vec::new();
        for (at, (left, right)) in equal.into_iter().enumerate() {
            filter.push(left.clone().is_not_null());
            on.push((left, named(right, format!("element {at}"))));
        }
        let mut last = lit(ScalarValue::Null);
        for (expr, name) in expr {
            last = named(expr, name.to_string());
        }
        let right = Projection::try_new(columns, Arc::new(evaluated.plan))?;
        let right = LogicalPlan::Projection(right);
        let filter = filter.into_iter().reduce(Expr::and);
        self.join(Joined { right, on, filter, join_type: JoinType::Left })?;
        Ok(last)
    }

    fn join(&mut self, joined: Joined) -> Result<()> {
        let Joined { right, on, mut filter, join_type } = joined;
        if on.is_empty() && filter.is_none() && join_type != JoinType::Inner {
            filter = Some(lit(true));
        }
        let left = Arc::new(self.plan.clone());
        self.plan = LogicalPlan::Join(Join::try_new(
            left,
            Arc::new(right),
            on,
            filter,
            join_type,
            JoinConstraint::On,
            NullEquality::NullEqualsNull,
            false,
        )?);
        Ok(())
    }
}

/// What gives the same rows in two places.
fn read_twice(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !materialized_parts::may_vary(&plan)? {
        return Ok(plan);
    }
    match materialized_parts::shared(plan.clone()) {
        Some(shared) => Ok(shared),
        None if materialized_parts::is_volatile(&plan)? => {
            not_impl_err!(
                "IN (SELECT ...) of what is drawn anew in each round of a recursive query"
            )
        }
        None => Ok(plan),
    }
}

fn mark() -> Vec<(Expr, &'static str)> {
    vec![(lit(true), "mark")]
}

/// The keys of a subquery with other columns of it, each combination once.
fn distinct(evaluated: Evaluated, columns: Vec<Expr>) -> Result<Evaluated> {
    let mut columns: Vec<Expr> = evaluated.keys().chain(columns).collect();
    if columns.is_empty() {
        columns.push(lit(true));
    }
    let columns = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(evaluated.plan))?);
    let plan = LogicalPlan::Distinct(Distinct::All(Arc::new(columns)));
    Ok(Evaluated { plan, keys: evaluated.keys })
}

/// Aggregates of a subquery.
fn grouped(evaluated: Evaluated, aggregates: Vec<Expr>) -> Result<Evaluated> {
    let groups = evaluated.keys().collect();
    let plan = Aggregate::try_new(Arc::new(evaluated.plan), groups, aggregates)?;
    Ok(Evaluated { plan: LogicalPlan::Aggregate(plan), keys: evaluated.keys })
}
