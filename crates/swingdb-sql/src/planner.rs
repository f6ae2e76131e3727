//! From a syntax tree to the query engine's logical plan: [`Planner`] takes a statement through
//! [`bind`](super::bind) and [`plan`](super::plan), with names resolved against one [`Catalogs`].

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, SchemaProvider, TableFunctionArgs, TableProvider,
};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue, TableReference, plan_err};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::{
    ContextProvider, ExprPlanner, RelationPlanner, TypePlanner,
};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableSource,
    WindowUDF,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::planner::{PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast;
use parking_lot::Mutex;
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::checkpoint;
use swingdb_common::runtime::{cancel, threads};
use swingdb_common::time::zones::Zone;
use swingdb_common::types::arrow_types::SqlTypes;

use crate::analyze::arithmetic::checked_expr;
use crate::analyze::zones::zoned_expr;
use crate::ast::names::looks_like_file;
use crate::ast::walk;
use crate::bind::catalogs::{Catalogs, Found, INFORMATION_SCHEMA, Source};
use crate::bind::lookahead::{Known, Lookahead, is_typed};
use crate::bind::{from_columns, information_schema, sequences, system};
use crate::desugar::same_names;
use crate::options::limits::Limits;
use crate::passes;
use crate::plan::sound_relations::SoundRelations;
use crate::plan::{materialized_parts, point_series, size, withs};
use crate::scan::table::SwingTable;
use crate::text::parameters::Params;
use crate::text::{depth, parser, refused, relation_statements};

/// Views that may be stacked on one another; a longer chain is taken for one that never ends.
const MAX_VIEW_DEPTH: usize = 64;

/// Plans statements against one state of the [`Catalogs`].
pub struct Planner<'a> {
    view: &'a Catalogs,
    state: &'a SessionState,
    depth: usize,
    /// The columns of queries that passes have asked for; `None` of those that cannot be told.
    columns: Mutex<HashMap<ast::Statement, Option<Known>>>,
    /// The columns of what names stand for.
    schemas: Mutex<HashMap<TableReference, Option<SchemaRef>>>,
    /// Runs queries that have to be answered before a statement can be planned; none in views,
    /// whose columns must not depend on rows.
    session: Option<&'a dyn Answers>,
    /// What such queries gave.
    answers: Mutex<HashMap<ast::Query, Vec<String>>>,
    /// Whether a plan depends on what such queries, or constants, gave.
    was_told: AtomicBool,
    /// Views that have been planned, by their database and place in memory: one that is named twice
    /// by each of several others is planned once.
    views: Arc<Mutex<HashMap<(String, usize), PlannedView>>>,
    /// The values of the statement's parameters. Views have none.
    params: Params,
    relations: [Arc<dyn RelationPlanner>; 1],
}

/// A view and what it is to a query; the view is kept, so that its place stays its own.
#[derive(Clone)]
struct PlannedView {
    provider: Arc<dyn TableProvider>,
    #[expect(dead_code, reason = "held for its place")]
    view: Arc<swingdb_store::View>,
}

/// Runs queries whose answers a statement needs before it can be planned.
pub trait Answers {
    /// The rows of a plan.
    fn rows(&self, plan: LogicalPlan) -> Result<Box<dyn Iterator<Item = Result<RecordBatch>>>>;
}

/// Parts of a statement up to which it is planned on the thread that waits for it.
const MANY: usize = 1_000;

/// Values that a PIVOT may ask for.
const MAX_ANSWERS: usize = 10_000;

impl<'a> Planner<'a> {
    /// Plans what the names of a view mean, with the functions and settings of a state.
    pub fn new(view: &'a Catalogs, state: &'a SessionState) -> Self {
        let (columns, schemas, answers) = (Mutex::default(), Mutex::default(), Mutex::default());
        let was_told = AtomicBool::new(false);
        let (views, params) = (Arc::default(), Params::default());
        let relations: [Arc<dyn RelationPlanner>; 1] = [Arc::new(SoundRelations::default())];
        let (depth, session) = (0, None);
        Self {
            view,
            state,
            depth,
            columns,
            schemas,
            session,
            answers,
            was_told,
            views,
            params,
            relations,
        }
    }

    /// The same planner of a statement with parameters.
    pub fn with_params(mut self, params: &Params) -> Self {
        self.params = params.clone();
        self
    }

    /// A planner of statements whose columns may depend on the rows that there are.
    pub fn of_session(
        session: &'a dyn Answers,
        view: &'a Catalogs,
        state: &'a SessionState,
    ) -> Self {
        Self { session: Some(session), ..Self::new(view, state) }
    }

    /// Resolves the names of a statement, and puts the engine's functions for those it knows under
    /// another name.
    pub fn prepare(&self, statement: &mut ast::Statement) -> Result<()> {
        passes::bind(self, statement)
    }

    /// Plans a statement whose names have been resolved and whose parameters are numbered.
    pub fn plan(&self, statement: ast::Statement) -> Result<LogicalPlan> {
        with_values(self.plan_for(statement)?, &self.params)
    }

    /// Plans a statement for values of the types of its parameters', for which it has places.
    pub fn plan_for(&self, mut statement: ast::Statement) -> Result<LogicalPlan> {
        let token = cancel::planning().filter(|_| walk::has_more_parts(&mut statement, MANY));
        let Some(token) = token else { return self.plan_here(statement) };
        let (view, state, params) = (self.view.clone(), self.state.clone(), self.params.clone());
        let (views, depth) = (Arc::clone(&self.views), self.depth);
        threads::aside(&token, move || {
            let planner = Planner { depth, views, params, ..Planner::new(&view, &state) };
            planner.plan_here(statement)
        })
    }

    fn plan_here(&self, mut statement: ast::Statement) -> Result<LogicalPlan> {
        let queries = size::check_names(&mut statement, self.state)?;
        depth::with_planning_stack(queries, || self.plan_stacked(statement))
    }

    /// Whether what was planned depends on nothing but names, settings and its text.
    pub fn is_repeatable(&self) -> bool {
        !self.was_told.load(Ordering::Relaxed)
    }

    fn plan_stacked(&self, statement: ast::Statement) -> Result<LogicalPlan> {
        let types = self.params.values().iter().map(|value| {
            let field: FieldRef = Arc::new(Field::new("", value.data_type(), true));
            Some(field)
        });
        let types = types.collect::<Vec<_>>();
        let context = || PlannerContext::new().with_prepare_param_data_types(types.clone());
        let plan = withs::plan(&SqlToRel::new(self), statement, &context)?;
        passes::rewrite_planned(plan, self.state)
    }

    /// The expression with values in the place of parameters.
    fn given(&self, expr: Expr) -> DfResult<Expr> {
        let values = |part: Expr| match part {
            Expr::Placeholder(parameter) => {
                let value = self.params.get(&parameter.id)?;
                Ok(Transformed::yes(Expr::Literal(value.clone(), None)))
            }
            other => Ok(Transformed::no(other)),
        };
        Ok(expr.transform_up(values)?.data)
    }

    /// The expression with what is constant in it computed.
    fn computed(&self, expr: Expr) -> DfResult<Expr> {
        let context = SimplifyContext::builder()
            .with_config_options(Arc::clone(self.state.config_options()))
            .with_query_execution_start_time(
                self.state.execution_props().query_execution_start_time,
            )
            .build();
        let simplifier = ExprSimplifier::new(context);
        let schema = DFSchema::empty();
        let zone = Zone::of(self.state.config_options());
        let expr = zoned_expr(simplifier.coerce(expr, &schema)?, &schema, zone)?;
        let expr = checked_expr(expr, &schema, zone)?;
        simplifier.simplify(swingdb_functions::bounded::bounded_expr(expr)?)
    }

    /// The table, view, file or registered data a name stands for, as something to scan.
    pub fn provider(&self, name: &TableReference) -> Result<Arc<dyn TableProvider>> {
        match self.view.find(name)? {
            Some(Found::Table { table, hidden, .. }) => {
                Ok(Arc::new(SwingTable::new(table, hidden)))
            }
            Some(Found::Registered(provider)) => Ok(provider),
            Some(Found::View { view, source }) => self.planned_view(view, &source),
            Some(Found::Information(table)) => self.information_table(&table),
            Some(Found::System(table)) => {
                self.with_context(|context| system::table(context, table))
            }
            None => match name {
                TableReference::Bare { table } if looks_like_file(table) => {
                    Limits::of(self.state.config()).external(&format!("the file {table:?}"))?;
                    swingdb_files::table::file_table(table)
                }
                _ => Err(self.view.unknown_table(name)),
            },
        }
    }

    /// Lets `make` see what the database tells of itself. What it makes is of this moment, so the
    /// plan is made anew each time.
    fn with_context<T>(&self, make: impl FnOnce(&system::Context<'_>) -> T) -> T {
        self.was_told.store(true, Ordering::Relaxed);
        let provider =
            |view: &Catalogs, name: &TableReference| Planner::new(view, self.state).provider(name);
        make(&system::Context { view: self.view, state: self.state, provider: &provider })
    }

    fn planned_view(
        &self,
        view: Arc<swingdb_store::View>,
        source: &Source,
    ) -> Result<Arc<dyn TableProvider>> {
        let key = (source.name.clone(), Arc::as_ptr(&view).addr());
        let known = self.views.lock().get(&key).map(|known| Arc::clone(&known.provider));
        if let Some(known) = known {
            return drawing_anew(&view, known);
        }
        let provider = self.view_table(&view, source)?;
        let planned = PlannedView { provider: Arc::clone(&provider), view };
        self.views.lock().insert(key, planned);
        Ok(provider)
    }

    /// A call of a function of the database about itself, as a relation.
    fn system_function(&self, name: &str, args: Vec<Expr>) -> DfResult<Arc<dyn TableSource>> {
        let constant = |arg: Expr| match self.computed(self.given(arg)?)? {
            Expr::Literal(value, _) => Ok(value),
            other => plan_err!("{other} is no constant"),
        };
        let args = args.into_iter().map(constant).collect::<DfResult<Vec<_>>>()?;
        Ok(provider_as_source(self.with_context(|context| system::call(context, name, &args))?))
    }

    fn view_table(
        &self,
        stored: &swingdb_store::View,
        source: &Source,
    ) -> Result<Arc<dyn TableProvider>> {
        if self.depth >= MAX_VIEW_DEPTH {
            return Err(Error::plan(format!(
                "view {:?} depends on more than {MAX_VIEW_DEPTH} views below it",
                stored.name
            )));
        }
        let inside = self.view.inside(source);
        let views = Arc::clone(&self.views);
        let planner = Planner { depth: self.depth + 1, views, ..Planner::new(&inside, self.state) };
        let mut query = parser::parse_query(&stored.sql)?;
        planner.prepare(&mut query)?;
        sequences::refuse_in_view(&mut query)?;
        let mut plan = planner.plan(query)?;
        if let Some(names) = &stored.columns {
            let columns = plan.schema().columns();
            let renamed =
                columns.into_iter().zip(names).map(|(c, name)| Expr::Column(c).alias(name));
            plan = LogicalPlanBuilder::from(plan).project(renamed)?.build()?;
        }
        Ok(Arc::new(ViewTable::new(plan, Some(stored.sql.clone()))))
    }

    fn information_table(&self, table: &str) -> Result<Arc<dyn TableProvider>> {
        if table == "views" {
            return information_schema::views(self.view);
        }
        if let Some(made) = self.with_context(|context| system::standard::view(context, table)) {
            return made;
        }
        let catalogs =
            Arc::new(InformationCatalogs { view: self.view.clone(), state: self.state.clone() });
        let provider = InformationSchemaProvider::new(catalogs);
        let found = swingdb_common::runtime::wait::block_on(provider.table(table))?;
        if table == "columns"
            && let Some(engines) = &found
        {
            return information_schema::columns(self.view, &engines.schema(), &|view, name| {
                Planner::new(view, self.state).provider(name)
            });
        }
        found.ok_or_else(|| {
            let name = format!("{INFORMATION_SCHEMA}.{table}");
            let known = provider.table_names().into_iter();
            let known = known.map(|n| format!("{INFORMATION_SCHEMA}.{n}"));
            Error::not_found(swingdb_common::error::ObjectKind::Table, name, known)
        })
    }
}

/// A planned view for one more reference to it, which draws numbers of its own.
fn drawing_anew(
    view: &swingdb_store::View,
    known: Arc<dyn TableProvider>,
) -> Result<Arc<dyn TableProvider>> {
    match known.get_logical_plan().map(Cow::into_owned) {
        Some(plan) if materialized_parts::is_volatile(&plan)? => {
            let plan = materialized_parts::anew(plan)?;
            Ok(Arc::new(ViewTable::new(plan, Some(view.sql.clone()))))
        }
        _ => Ok(known),
    }
}

/// A query derived from a bound statement, such as the SELECT of an UPDATE, ready to be planned. It
/// may join tables that the statement did not join, so tables of one name get aliases again.
pub fn derived(mut query: ast::Statement) -> ast::Statement {
    same_names::tell_tables_apart(&mut query);
    query
}

/// A plan with values in the places for them.
pub fn with_values(plan: LogicalPlan, params: &Params) -> Result<LogicalPlan> {
    if params.values().is_empty() {
        return Ok(plan);
    }
    Ok(plan.replace_params_with_values(&params.values().to_vec().into())?)
}

fn columns_of_plan(plan: &LogicalPlan) -> Known {
    let fields = plan.schema().fields().iter().map(|field| Some(field.data_type().clone()));
    plan.schema().columns().into_iter().zip(fields).collect()
}

impl Lookahead for Planner<'_> {
    fn view(&self) -> &Catalogs {
        self.view
    }

    fn is_table_function(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        system::names::is_function(&name) || self.state.table_functions().contains_key(&name)
    }

    fn is_scalar(&self, name: &str) -> bool {
        self.state.scalar_functions().contains_key(name) || system::names::SCALARS.contains(&name)
    }

    fn is_of_rows(&self, name: &str) -> bool {
        self.is_scalar(name) || self.state.higher_order_functions().contains_key(name)
    }

    fn is_window(&self, name: &str) -> bool {
        self.state.window_functions().contains_key(name)
    }

    fn aggregate_keeps_nulls(&self, name: &str) -> Option<bool> {
        let found = self.state.aggregate_functions().get(name)?;
        Some(found.supports_null_handling_clause())
    }

    fn is_aggregate(&self, name: &str) -> bool {
        self.state.aggregate_functions().contains_key(name)
    }

    fn columns(&self, name: &TableReference) -> Result<Option<SchemaRef>> {
        if let Some(known) = self.schemas.lock().get(name) {
            return Ok(known.clone());
        }
        let is_file = matches!(name, TableReference::Bare { table } if looks_like_file(table));
        let found = match self.view.find(name)?.is_some() || is_file {
            true => Some(self.provider(name)?.schema()),
            false => None,
        };
        self.schemas.lock().insert(name.clone(), found.clone());
        Ok(found)
    }

    fn columns_of(&self, mut query: ast::Statement, typed: bool) -> Result<Known> {
        // The result is kept. The queries of the WITH clause may ask for columns of those before
        // them. A pass that asks for these columns while this very query is bound gets no answer.
        let asked = query.clone();
        match self.columns.lock().entry(query.clone()) {
            Entry::Occupied(known) => match known.get() {
                Some(known) if !typed || is_typed(known) => return Ok(known.clone()),
                Some(_) => {}
                None => return Err(Error::plan(format!("the columns of {query} are not known"))),
            },
            Entry::Vacant(place) => {
                place.insert(None);
            }
        }
        let columns = self.prepare(&mut query).and_then(|()| {
            let known = from_columns::of_bound(self, &query);
            match known.filter(|known| !typed || is_typed(known)) {
                Some(known) => Ok(known),
                None => self.plan(query).map(|plan| columns_of_plan(&plan)),
            }
        });
        self.columns.lock().insert(asked, columns.as_ref().ok().cloned());
        columns
    }

    fn constants(&self, mut statement: ast::Statement) -> Result<Vec<ScalarValue>> {
        self.was_told.store(true, Ordering::Relaxed);
        self.prepare(&mut statement)?;
        let LogicalPlan::Projection(list) = self.plan(statement)? else {
            return Err(Error::internal("the constants are no SELECT list"));
        };
        let value = |expr: &Expr| match self.computed(expr.clone().unalias())? {
            Expr::Literal(value, _) => Ok(value),
            other => Err(Error::plan(format!("{other} is no constant"))),
        };
        list.expr.iter().map(value).collect()
    }

    fn ask(&self, query: ast::Query) -> Result<Option<Vec<String>>> {
        self.was_told.store(true, Ordering::Relaxed);
        let Some(session) = self.session else { return Ok(None) };
        if let Some(known) = self.answers.lock().get(&query) {
            return Ok(Some(known.clone()));
        }
        let mut statement = ast::Statement::Query(Box::new(query.clone()));
        self.prepare(&mut statement)?;
        let mut found = Vec::new();
        for batch in session.rows(self.plan(statement)?)? {
            let texts = cast(batch?.column(0), &DataType::Utf8)?;
            found.extend(texts.as_string::<i32>().iter().flatten().map(str::to_string));
            if found.len() > MAX_ANSWERS {
                return Err(Error::unsupported(format!(
                    "PIVOT on more than {MAX_ANSWERS} values; name them: ON column IN (...)"
                )));
            }
        }
        self.answers.lock().insert(query, found.clone());
        Ok(Some(found))
    }
}

impl ContextProvider for Planner<'_> {
    fn get_table_source(&self, name: TableReference) -> DfResult<Arc<dyn TableSource>> {
        checkpoint();
        Ok(provider_as_source(self.provider(&name)?))
    }

    fn get_table_function_source(
        &self,
        name: &str,
        args: Vec<Expr>,
    ) -> DfResult<Arc<dyn TableSource>> {
        if relation_statements::is_call(name) {
            return Err(relation_statements::unasked(&args).into());
        }
        let folded = name.to_ascii_lowercase();
        if system::names::is_function(&folded) {
            return self.system_function(&folded, args);
        }
        let function = self.state.table_functions().get(&folded).cloned();
        let function =
            function.ok_or_else(|| DataFusionError::Plan(refused::no_table_function(name)))?;
        if swingdb_files::table::is_file_function(&folded) {
            Limits::of(self.state.config()).external(&format!("{folded}(...)"))?;
        }
        let given = args.into_iter().map(|arg| self.computed(self.given(arg)?));
        let args = given.collect::<DfResult<Vec<_>>>()?;
        if let Some(series) = point_series::of_points(&folded, &args, self.state)? {
            return Ok(provider_as_source(Arc::new(ViewTable::new(series, None))));
        }
        let named = args.iter().map(Expr::to_string).collect::<Vec<_>>().join(", ");
        let args = TableFunctionArgs::new(&args, self.state);
        let provider = function.create_table_provider_with_args(args)?;
        // The engine takes two tables of one name for the same, and calls this one `name()`,
        // whatever the arguments are.
        let name = TableReference::bare(format!("{folded}({named})"));
        let scan = LogicalPlanBuilder::scan(name, provider_as_source(provider), None)?.build()?;
        Ok(provider_as_source(Arc::new(ViewTable::new(scan, None))))
    }

    fn create_cte_work_table(
        &self,
        name: &str,
        schema: SchemaRef,
    ) -> DfResult<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        checkpoint();
        self.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &self.relations
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(SqlTypes))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        checkpoint();
        if system::names::SCALARS.contains(&name) {
            // One that cannot be made is one that is not known.
            let made = self.with_context(|context| system::scalar(context, name));
            return made.ok().flatten().map(Arc::new);
        }
        self.state.scalar_functions().get(name).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        checkpoint();
        self.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _variable_names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        let ours = system::names::SCALARS.iter().map(|name| name.to_string());
        self.state.scalar_functions().keys().cloned().chain(ours).collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}

/// The databases of a view as DataFusion's information schema wants to see them.
struct InformationCatalogs {
    view: Catalogs,
    state: SessionState,
}

impl std::fmt::Debug for InformationCatalogs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InformationCatalogs").field("view", &self.view).finish_non_exhaustive()
    }
}

impl CatalogProviderList for InformationCatalogs {
    fn register_catalog(
        &self,
        _name: String,
        _catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        let own = std::iter::once(self.view.main.name.clone());
        own.chain(self.view.attached.keys().cloned()).collect()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let main = name == self.view.main.name;
        let source = if main { &self.view.main } else { self.view.attached.get(name)? };
        let (view, state) = (self.view.inside(source), self.state.clone());
        Some(Arc::new(OneCatalog { view, state, registered: main }))
    }
}

#[derive(Clone)]
struct OneCatalog {
    view: Catalogs,
    state: SessionState,
    /// Whether registered tables are to be shown here.
    registered: bool,
}

impl std::fmt::Debug for OneCatalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneCatalog").field("view", &self.view).finish_non_exhaustive()
    }
}

impl CatalogProvider for OneCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.view.main.catalog.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let known = self.view.main.catalog.has_schema(name);
        let schema = OneSchema { catalog: self.clone(), name: name.to_string() };
        known.then(|| Arc::new(schema) as Arc<dyn SchemaProvider>)
    }
}

#[derive(Debug)]
struct OneSchema {
    catalog: OneCatalog,
    name: String,
}

#[async_trait::async_trait]
impl SchemaProvider for OneSchema {
    fn table_names(&self) -> Vec<String> {
        let view = &self.catalog.view;
        // What cannot be read is an error where it is looked up.
        let tables = view.main.catalog.table_names(&self.name).unwrap_or_default();
        let mut names = BTreeSet::from_iter(tables);
        names.extend(view.main.catalog.view_names(&self.name));
        if self.catalog.registered && self.name == crate::ast::names::SCHEMA {
            names.extend(view.registered.keys().cloned());
        }
        names.into_iter().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let reference = match self.catalog.registered && self.name == crate::ast::names::SCHEMA {
            true => TableReference::bare(name),
            false => TableReference::partial(self.name.as_str(), name),
        };
        let planner = Planner::new(&self.catalog.view, &self.catalog.state);
        // A view whose tables are gone must not hide all others from the list.
        Ok(planner.provider(&reference).ok())
    }

    fn table_exist(&self, name: &str) -> bool {
        self.table_names().iter().any(|known| known == name)
    }
}
