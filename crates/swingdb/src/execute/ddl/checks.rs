//! CHECK constraints: conditions on one row, kept as text with the table.
//!
//! A condition reads columns of its table and nothing else, and gives the same answer at any time:
//! subqueries, aggregates, `random()` and `now()` are refused. So a row that once fulfilled it
//! fulfils it for ever, and only rows that are written have to be tested. The store tests them; see
//! [`Checker`].

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::{Expr as PlanExpr, ExprSchemable, LogicalPlan, Volatility};
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, Statement, TableConstraint, VisitorMut};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::types::sql_names::sql_name;
use swingdb_store::{Check, Checker, ColumnDef, Table, Test, WriteTxn, checked_schema};

use crate::execute::statement;
use crate::execute::target::find_name;
use crate::session::Session;
use crate::sql::ast::build;
use crate::sql::ast::walk::walk_mut;
use crate::sql::bind::catalogs::{Source, View};
use crate::sql::engine;
use crate::sql::engine::CATALOG;
use crate::sql::plan::planner::Planner;
use crate::sql::text::parameters::Params;

/// Checks a table may have.
const MAX_CHECKS: usize = 1_000;

/// Compiles the conditions of tables with the query engine.
pub(crate) struct SqlChecker;

impl Checker for SqlChecker {
    fn compile(&self, txn: &WriteTxn, table: &Table, check: &Check) -> Result<Test> {
        let main =
            Source { name: CATALOG.to_string(), catalog: txn.view(), store: txn.store().clone() };
        let mut view = View {
            main,
            database_name: None,
            attached: Arc::default(),
            registered: Arc::default(),
            extra: BTreeMap::new(),
            temp: None,
            outer: None,
            defined: None,
        };
        let schema = checked_schema(table, check);
        let condition = Condition::plan(&mut view, table.name(), &schema, &check.sql)?;
        let engine = engine::base_state()?;
        let test = engine.create_physical_expr(condition.expr, &condition.schema)?;
        Ok(Arc::new(move |batch: &RecordBatch| {
            let answers = test.evaluate(batch)?.into_array(batch.num_rows())?;
            // A condition that is NULL whatever the row.
            let Some(answers) = answers.as_boolean_opt() else { return Ok(None) };
            Ok((0..answers.len()).find(|row| answers.is_valid(*row) && !answers.value(*row)))
        }))
    }
}

/// A condition as the query engine understands it.
struct Condition {
    expr: PlanExpr,
    schema: DFSchema,
}

impl Condition {
    fn plan(view: &mut View, table: &str, schema: &SchemaRef, sql: &str) -> Result<Self> {
        let rows = MemTable::try_new(Arc::clone(schema), vec![Vec::new()])?;
        view.extra.insert(table.to_string(), Arc::new(rows));
        let planner = Planner::new(view, engine::base_state()?);
        let name = table.replace('"', "\"\"");
        let text = format!("SELECT ({sql}) AS value FROM \"{name}\"");
        let mut query = statement::parse_query(&text)?;
        let refused = |why: &str| Error::plan(format!("CHECK ({sql}): {why}"));
        // Before anything is looked up: a condition means the same in every session, and a file in
        // it would be opened whatever its session may do.
        if has_subquery(&mut query) {
            return Err(refused("subqueries are not possible"));
        }
        planner.prepare(&mut query)?;
        let only_row = || refused("only a condition on the columns of one row is possible");
        let plan = planner.plan(query, &Params::default())?;
        let LogicalPlan::Projection(projection) = &plan else { return Err(only_row()) };
        let [expr] = projection.expr.as_slice() else {
            return Err(refused("only one condition is possible"));
        };
        if !matches!(projection.input.as_ref(), LogicalPlan::TableScan(_)) {
            return Err(only_row());
        }
        refuse_changing(expr, &refused)?;
        // Types are settled, and what queries compute otherwise than the engine by itself.
        let engine = engine::base_state()?;
        let options = engine.config_options();
        let plan = engine.analyzer().execute_and_check(plan, options, |_, _| {})?;
        let LogicalPlan::Projection(projection) = plan else { return Err(only_row()) };
        let Some(expr) = projection.expr.into_iter().next() else { return Err(only_row()) };
        let (expr, schema) = (expr.unalias(), projection.input.schema().as_ref().clone());
        match expr.get_type(&schema)? {
            DataType::Boolean | DataType::Null => Ok(Self { expr, schema }),
            other => Err(refused(&format!("its type is {}, not BOOLEAN", sql_name(&other)))),
        }
    }
}

/// Whether there is a query inside of the query.
fn has_subquery(query: &mut Statement) -> bool {
    struct Count(usize);
    impl VisitorMut for Count {
        type Break = ();
        fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
            self.0 += 1;
            if self.0 > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    walk_mut(query, &mut Count(0)).is_break()
}

/// Refuses what gives another answer at another time or depends on other rows.
fn refuse_changing(expr: &PlanExpr, refused: &dyn Fn(&str) -> Error) -> Result<()> {
    let mut found = None;
    expr.apply(|part| {
        match part {
            PlanExpr::ScalarFunction(call)
                if call.func.signature().volatility != Volatility::Immutable =>
            {
                found = Some(format!("{}() may give another value later", call.name()));
            }
            PlanExpr::ScalarSubquery(_) | PlanExpr::Exists(_) | PlanExpr::InSubquery(_) => {
                found = Some("subqueries are not possible".to_string());
            }
            PlanExpr::Placeholder(_) => found = Some("parameters are not possible".to_string()),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    found.map_or(Ok(()), |why| Err(refused(&why)))
}

/// The checks of a table that is being defined, or gets some.
pub(crate) struct Checks<'a> {
    session: &'a Session,
    table: String,
    pub(crate) list: Vec<Check>,
}

impl<'a> Checks<'a> {
    /// The checks that a table has already.
    pub(crate) fn of(session: &'a Session, table: &str, checks: &[Check]) -> Self {
        Self { session, table: table.to_string(), list: checks.to_vec() }
    }

    /// Adds a condition, after testing that it means something for these columns.
    pub(crate) fn add(
        &mut self,
        name: Option<&Ident>,
        expr: &Expr,
        columns: &[ColumnDef],
    ) -> Result<()> {
        if self.list.len() >= MAX_CHECKS {
            return Err(Error::plan(format!("a table has at most {MAX_CHECKS} checks")));
        }
        let name = name.map(|name| name.value.clone());
        if let Some(name) = &name
            && self.find(name).is_some()
        {
            let (kind, name) = (ObjectKind::Constraint, name.clone());
            return Err(Error::AlreadyExists { kind, name });
        }
        let sql = self.unqualified(expr, columns).to_string();
        let field = |column: &ColumnDef| Field::new(&column.name, column.data_type.clone(), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let mut view = self.session.view()?;
        let condition = Condition::plan(&mut view, &self.table, &schema, &sql)?;
        let used = condition.expr.column_refs();
        let is_used = |index: &usize| used.iter().any(|c| c.name == columns[*index].name);
        let used = (0..columns.len()).filter(is_used).collect();
        self.list.push(Check { name, sql, columns: used });
        Ok(())
    }

    /// A table constraint, when it is a CHECK.
    pub(crate) fn add_constraint(
        &mut self,
        constraint: &TableConstraint,
        columns: &[ColumnDef],
    ) -> Result<bool> {
        match constraint {
            TableConstraint::Check(check) if check.enforced != Some(false) => {
                self.add(check.name.as_ref(), &check.expr, columns).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// The check of a name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let is = |check: &Check| {
            check.name.as_ref().is_some_and(|known| known.eq_ignore_ascii_case(name))
        };
        self.list.iter().position(is)
    }

    /// `column` for `table.column`, so that the table can be renamed.
    fn unqualified(&self, expr: &Expr, columns: &[ColumnDef]) -> Expr {
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let mut expr = expr.clone();
        build::rewrite_exprs(&mut expr, |part| {
            if let Expr::CompoundIdentifier(parts) = part
                && let [table, rest @ ..] = parts.as_slice()
                && table.value.eq_ignore_ascii_case(&self.table)
                && find_name(&names, &table.value).is_none()
            {
                *part = match rest {
                    [column] => Expr::Identifier(column.clone()),
                    _ => Expr::CompoundIdentifier(rest.to_vec()),
                };
            }
        });
        expr
    }
}

/// The checks after a column got another name.
pub(crate) fn renamed(checks: &[Check], column: usize, old: &str, new: &str) -> Result<Vec<Check>> {
    let rename = |check: &Check| {
        if !check.columns.contains(&column) {
            return Ok(check.clone());
        }
        let mut expr = build::parse_expr(&check.sql)?;
        let fix = |ident: &mut Ident| {
            if ident.value.eq_ignore_ascii_case(old) {
                *ident = Ident::with_quote('"', new);
            }
        };
        build::rewrite_exprs(&mut expr, |part| match part {
            Expr::Identifier(ident) => fix(ident),
            // The first part is the column, what follows are fields of it.
            Expr::CompoundIdentifier(parts) => parts.iter_mut().take(1).for_each(fix),
            _ => {}
        });
        Ok(Check { sql: expr.to_string(), ..check.clone() })
    };
    checks.iter().map(rename).collect()
}
