//! CHECK constraints and generated columns, compiled with the query engine: [`SqlChecker`].

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr as PlanExpr, ExprSchemable, LogicalPlan, Volatility};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{Query, Statement, VisitorMut};
use swingdb_common::cast::convert::{Origin, convert_array};
use swingdb_common::error::{Error, Result};
use swingdb_common::time::zones::Zone;
use swingdb_common::types::sql_names::sql_name;
use swingdb_store::{
    Check, Checker, Compute, Generated, Table, Test, WriteTxn, checked_schema, generating_schema,
};

use crate::ast::names::CATALOG;
use crate::ast::walk::walk_mut;
use crate::bind::catalogs::{Catalogs, Source};
use crate::engine;
use crate::planner::Planner;
use crate::text::parser;

/// Compiles the conditions of tables with the query engine.
pub struct SqlChecker;

impl Checker for SqlChecker {
    fn compile(&self, txn: &WriteTxn, table: &Table, check: &Check) -> Result<Test> {
        let mut view = view_of(txn);
        let schema = checked_schema(table, check);
        let condition = Condition::plan(&mut view, table.name(), &schema, &check.sql)?;
        let test = condition.physical()?;
        Ok(Arc::new(move |batch: &RecordBatch| {
            let answers = test.evaluate(batch)?.into_array(batch.num_rows())?;
            // A condition that is NULL whatever the row.
            let Some(answers) = answers.as_boolean_opt() else { return Ok(None) };
            Ok((0..answers.len()).find(|row| answers.is_valid(*row) && !answers.value(*row)))
        }))
    }

    fn generate(
        &self,
        txn: &WriteTxn,
        table: &Table,
        column: usize,
        generated: &Generated,
    ) -> Result<Compute> {
        let schema = generating_schema(table, generated);
        let mut view = view_of(txn);
        let value = Condition::of_row(&mut view, table.name(), &schema, &generated.sql, GENERATED)?;
        let compute = value.physical()?;
        let field = table.columns()[column].field().with_nullable(true);
        Ok(Arc::new(move |batch: &RecordBatch| {
            let values = compute.evaluate(batch)?.into_array(batch.num_rows())?;
            convert_array(&values, &field, Origin::UNNUMBERED, Zone::UTC)
        }))
    }
}

/// What the names of a condition mean: those of the transaction's database.
fn view_of(txn: &WriteTxn) -> Catalogs {
    let main =
        Source { name: CATALOG.to_string(), catalog: txn.view(), store: txn.store().clone() };
    Catalogs {
        main,
        database_name: None,
        attached: Arc::default(),
        registered: Arc::default(),
        registered_in_main: false,
        extra: BTreeMap::new(),
        temp: None,
        defined: None,
    }
}

/// A condition on rows, as errors name it.
const CHECK: &str = "CHECK";
/// The clause of a computed column, as errors name it.
pub const GENERATED: &str = "GENERATED ALWAYS AS";

/// A condition as the query engine understands it.
pub struct Condition {
    /// Over the columns of the table.
    pub expr: PlanExpr,
    schema: DFSchema,
}

impl Condition {
    /// Plans the text of a condition on the rows of a table.
    pub fn plan(view: &mut Catalogs, table: &str, schema: &SchemaRef, sql: &str) -> Result<Self> {
        let condition = Self::of_row(view, table, schema, sql, CHECK)?;
        match condition.data_type()? {
            DataType::Boolean | DataType::Null => Ok(condition),
            other => Err(Error::plan(format!(
                "CHECK ({sql}): its type is {}, not BOOLEAN",
                sql_name(&other)
            ))),
        }
    }

    /// The type of its value.
    pub fn data_type(&self) -> Result<DataType> {
        Ok(self.expr.get_type(&self.schema)?)
    }

    /// The field of its value.
    pub fn field(&self) -> Result<FieldRef> {
        Ok(self.expr.to_field(&self.schema)?.1)
    }

    /// An expression on the columns of one row, which has one value at any time.
    pub fn of_row(
        view: &mut Catalogs,
        table: &str,
        schema: &SchemaRef,
        sql: &str,
        clause: &str,
    ) -> Result<Self> {
        let rows = MemTable::try_new(Arc::clone(schema), vec![Vec::new()])?;
        view.extra.insert(table.to_string(), Arc::new(rows));
        let planner = Planner::new(view, engine::base_state()?);
        let name = table.replace('"', "\"\"");
        let text = format!("SELECT ({sql}) AS value FROM \"{name}\"");
        let mut query = parser::parse_query(&text)?;
        let refused = |why: &str| Error::plan(format!("{clause} ({sql}): {why}"));
        // Before anything is looked up: a condition means the same in every session, and a file in
        // it would be opened whatever its session may do.
        if has_subquery(&mut query) {
            return Err(refused("subqueries are not possible"));
        }
        planner.prepare(&mut query)?;
        let only_row = || refused("only an expression on the columns of one row is possible");
        let plan = planner.plan(query)?;
        let LogicalPlan::Projection(projection) = &plan else { return Err(only_row()) };
        let [expr] = projection.expr.as_slice() else {
            return Err(refused("only one expression is possible"));
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
        Ok(Self { expr, schema })
    }

    /// What computes it. Some of the engine's functions are only known in their simple form:
    /// `coalesce` is CASE. Which columns it has, the expression says as it was written.
    fn physical(self) -> Result<Arc<dyn PhysicalExpr>> {
        let engine = engine::base_state()?;
        let context = SimplifyContext::builder()
            .with_schema(Arc::new(self.schema.clone()))
            .with_config_options(Arc::clone(engine.config_options()))
            .build();
        let expr = ExprSimplifier::new(context).simplify(self.expr)?;
        Ok(engine.create_physical_expr(expr, &self.schema)?)
    }
}

/// Whether there is a query inside of the query.
pub(crate) fn has_subquery(query: &mut Statement) -> bool {
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
