//! SHOW, DESCRIBE and SUMMARIZE: statements that tell what is there.

pub(crate) mod create;
pub(crate) mod functions;
pub(crate) mod macros;
pub(crate) mod table;

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMicrosecondArray, UInt64Array};
use arrow::compute::filter_record_batch;
use arrow::compute::kernels::comparison::ilike;
use arrow::datatypes::Schema;
use datafusion::common::TableReference;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    DescribeAlias, Ident, ObjectName, Query, ShowCreateObject, ShowStatementFilter,
    ShowStatementFilterPosition, ShowStatementIn, ShowStatementOptions, Statement,
};
use swing::AreaInfo;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::types::sql_names::field_type;
use swingdb_sql::bind::catalogs::{Catalogs, Found, Source, match_name};
use swingdb_sql::bind::pivots;
use swingdb_sql::planner::Planner;
use swingdb_sql::text::parameters::Params;
use swingdb_store::Constraint;

use crate::execute::query;
use crate::execute::show::table::{result, strings};
use crate::session::result::QueryResult;
use crate::session::{Session, settings};

/// Runs `statement` when it is one of those that tell what is there.
pub(crate) fn execute(
    session: &Arc<Session>,
    statement: &Statement,
    params: &Params,
) -> Result<Option<QueryResult>> {
    Ok(Some(match statement {
        Statement::ShowTables { show_options, .. } => {
            filtered(tables(session, in_what(show_options).as_ref())?, filter_of(show_options))?
        }
        Statement::ShowViews { show_options, .. } => {
            filtered(views(session, in_what(show_options).as_ref())?, filter_of(show_options))?
        }
        Statement::ShowDatabases { show_options, .. } => {
            filtered(databases(session)?, filter_of(show_options))?
        }
        Statement::ShowSchemas { show_options, .. } => {
            filtered(schemas(session, in_what(show_options).as_ref())?, filter_of(show_options))?
        }
        Statement::ShowColumns { show_options, .. } => match in_what(show_options) {
            Some(table) => filtered(describe(session, &table)?, filter_of(show_options))?,
            None => return Err(Error::plan("SHOW COLUMNS FROM which table?")),
        },
        Statement::ShowCreate {
            obj_type: ShowCreateObject::Table | ShowCreateObject::View,
            obj_name,
        } => create_text(session, obj_name)?,
        Statement::ShowFunctions { filter } => {
            filtered(functions::functions(session)?, filter.as_ref())?
        }
        Statement::ShowVariable { variable } => show_variable(session, variable)?,
        Statement::ExplainTable { table_name, describe_alias, .. } => match describe_alias {
            DescribeAlias::Describe | DescribeAlias::Desc => describe(session, table_name)?,
            DescribeAlias::Explain => return Ok(None),
        },
        Statement::Explain { describe_alias, statement, .. } => match describe_alias {
            DescribeAlias::Describe | DescribeAlias::Desc => {
                describe_query(session, statement, params)?
            }
            DescribeAlias::Explain => return Ok(None),
        },
        _ => return Ok(None),
    }))
}

fn in_what(options: &ShowStatementOptions) -> Option<ObjectName> {
    let ShowStatementIn { parent_name, .. } = options.show_in.as_ref()?;
    parent_name.clone()
}

fn filter_of(options: &ShowStatementOptions) -> Option<&ShowStatementFilter> {
    match options.filter_position.as_ref()? {
        ShowStatementFilterPosition::Infix(filter)
        | ShowStatementFilterPosition::Suffix(filter) => Some(filter),
    }
}

/// The rows whose name, the first column, is LIKE the pattern: without regard to case, as names
/// are looked up.
fn filtered(shown: QueryResult, filter: Option<&ShowStatementFilter>) -> Result<QueryResult> {
    let pattern = match filter {
        None => return Ok(shown),
        Some(ShowStatementFilter::Like(pattern) | ShowStatementFilter::ILike(pattern)) => pattern,
        Some(other) => return Err(Error::unsupported(format!("SHOW ... {other}"))),
    };
    let (schema, tag) = (shown.schema(), shown.tag());
    let mut kept = Vec::new();
    for batch in shown {
        let batch = batch?;
        let fits = ilike(batch.column(0), &StringArray::new_scalar(pattern))?;
        kept.push(filter_record_batch(&batch, &fits)?);
    }
    Ok(QueryResult::ready(schema, kept, tag))
}

fn show_variable(session: &Arc<Session>, variable: &[Ident]) -> Result<QueryResult> {
    let words = variable.iter().map(|i| i.value.to_ascii_lowercase()).collect::<Vec<_>>();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tables"] | ["all", "tables"] => tables(session, None),
        ["databases"] => databases(session),
        _ => settings::show(session, &words.join(".")),
    }
}

fn create_text(session: &Session, name: &ObjectName) -> Result<QueryResult> {
    let reference = object_name_to_table_reference(name.clone(), false)?;
    let text = create::text(&session.view()?, &reference)?;
    result(vec![("sql", strings([text]))], "SHOW")
}

fn tables(session: &Session, of: Option<&ObjectName>) -> Result<QueryResult> {
    let view = session.view()?;
    let wanted = of.map(|name| name.to_string().replace('"', "").to_lowercase());
    let (mut names, mut owners, mut schemas) = (Vec::new(), Vec::new(), Vec::new());
    let (mut kinds, mut rows) = (Vec::new(), Vec::new());
    let mut known = false;
    let others = view.attached.values().chain(&view.temp);
    for source in std::iter::once(&view.main).chain(others) {
        for schema in source.catalog.schema_names() {
            let shown = wanted.as_ref().is_none_or(|w| {
                let (owner, schema) = (source.name.to_lowercase(), schema.to_lowercase());
                *w == owner || *w == schema || *w == format!("{owner}.{schema}")
            });
            if !shown {
                continue;
            }
            known = true;
            let tables = source.catalog.table_names(&schema)?;
            for name in tables {
                let table = source.catalog.table(&schema, &name)?;
                rows.push(table.map(|t| t.row_count() as i64));
                names.push(name);
                kinds.push("table");
            }
            for name in source.catalog.view_names(&schema) {
                rows.push(None);
                names.push(name);
                kinds.push("view");
            }
            owners.resize(names.len(), source.name.clone());
            schemas.resize(names.len(), schema.clone());
        }
    }
    if wanted.is_none() {
        for name in view.registered.keys() {
            names.push(name.clone());
            kinds.push("registered");
            rows.push(None);
        }
        owners.resize(names.len(), "session".to_string());
        schemas.resize(names.len(), String::new());
    }
    if let Some(of) = of.filter(|_| !known) {
        return Err(Error::not_found(
            ObjectKind::Schema,
            of.to_string(),
            view.main.catalog.schema_names(),
        ));
    }
    result(
        vec![
            ("name", strings(names)),
            ("schema", strings(schemas)),
            ("database", strings(owners)),
            ("kind", strings(kinds)),
            ("rows", Arc::new(Int64Array::from(rows))),
        ],
        "SHOW",
    )
}

fn views(session: &Session, of: Option<&ObjectName>) -> Result<QueryResult> {
    let view = session.view()?;
    let (mut names, mut schemas, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let catalog = &view.main.catalog;
    for schema in places(&view.main, of)? {
        for name in catalog.view_names(&schema) {
            if let Some(stored) = catalog.view(&schema, &name)? {
                names.push(name);
                schemas.push(schema.clone());
                texts.push(stored.sql.clone());
            }
        }
    }
    let columns =
        vec![("name", strings(names)), ("schema", strings(schemas)), ("sql", strings(texts))];
    result(columns, "SHOW")
}

/// All schemas of a database, or the one that is named.
fn places(source: &Source, of: Option<&ObjectName>) -> Result<Vec<String>> {
    let all = source.catalog.schema_names();
    let Some(of) = of else { return Ok(all) };
    let wanted = of.to_string().replace('"', "");
    match match_name(all.iter().map(String::as_str), &wanted) {
        Some(schema) => Ok(vec![schema]),
        None => Err(Error::not_found(ObjectKind::Schema, wanted, all)),
    }
}

fn databases(session: &Session) -> Result<QueryResult> {
    let view = session.view()?;
    let own = view.database_name.clone().unwrap_or_else(|| view.main.name.clone());
    let names = std::iter::once(own).chain(view.attached.keys().cloned());
    result(vec![("name", strings(names))], "SHOW")
}

fn schemas(session: &Session, of: Option<&ObjectName>) -> Result<QueryResult> {
    let view = session.view()?;
    let source = match of {
        None => &view.main,
        Some(of) => {
            let wanted = of.to_string().replace('"', "");
            let known = view.attached.keys();
            let missing = || Error::not_found(ObjectKind::Database, wanted.as_str(), known);
            view.database(&wanted).ok_or_else(missing)?
        }
    };
    result(vec![("name", strings(source.catalog.schema_names()))], "SHOW")
}

/// The columns of a table: name, SQL type, whether NULL is allowed, key, default.
fn describe(session: &Session, name: &ObjectName) -> Result<QueryResult> {
    let view = session.view()?;
    let engine = session.engine()?;
    let reference = object_name_to_table_reference(name.clone(), false)?;
    let schema = Planner::new(&view, &engine).provider(&reference)?.schema();
    let (keys, defaults) = keys_and_defaults(&view, &reference, schema.fields().len())?;
    description(&schema, keys, defaults)
}

/// How `DESCRIBE` names the constraint a column belongs to.
type Key = Option<&'static str>;

fn keys_and_defaults(
    view: &Catalogs,
    name: &TableReference,
    columns: usize,
) -> Result<(Vec<Key>, Vec<Option<String>>)> {
    let mut keys = vec![None; columns];
    let mut defaults = vec![None; columns];
    if let Some(Found::Table { table, .. }) = view.find(name)? {
        for constraint in table.constraints() {
            let kind = match constraint {
                Constraint::Primary(_) => "PRI",
                Constraint::Unique(_) => "UNI",
            };
            constraint.columns().iter().for_each(|&column| keys[column] = Some(kind));
        }
        for (default, column) in defaults.iter_mut().zip(table.columns()) {
            default.clone_from(&column.default_sql);
        }
    }
    Ok((keys, defaults))
}

fn description(
    schema: &Schema,
    keys: Vec<Key>,
    defaults: Vec<Option<String>>,
) -> Result<QueryResult> {
    let fields = schema.fields();
    let nullable = fields.iter().map(|f| if f.is_nullable() { "YES" } else { "NO" });
    result(
        vec![
            ("column_name", strings(fields.iter().map(|f| f.name().clone()))),
            ("column_type", strings(fields.iter().map(|f| field_type(f)))),
            ("null", strings(nullable)),
            ("key", Arc::new(StringArray::from(keys))),
            ("default", Arc::new(StringArray::from(defaults))),
        ],
        "DESCRIBE",
    )
}

fn describe_query(session: &Session, query: &Statement, params: &Params) -> Result<QueryResult> {
    let mut query = query.clone();
    let view = session.view()?;
    let engine = session.engine()?;
    let planner = Planner::of_session(session, &view, &engine).with_params(params);
    planner.prepare(&mut query)?;
    let plan = planner.plan(query)?;
    let schema = engine.optimize(&plan)?.schema().as_arrow().clone();
    let columns = schema.fields().len();
    description(&schema, vec![None; columns], vec![None; columns])
}

/// The databases and named snapshots of the session's namespace.
pub(crate) fn snapshots(session: &Session) -> Result<QueryResult> {
    let nodes = match session.database().home() {
        Some(home) => crate::admin::lineage_in(home)?,
        None => crate::admin::lineage()?,
    };
    let parents = nodes.iter().map(|node| node.parents.join(", "));
    let figure = |value: fn(&AreaInfo) -> Option<u64>| -> ArrayRef {
        Arc::new(UInt64Array::from_iter(nodes.iter().map(|node| value(&node.info))))
    };
    let owners = nodes.iter().map(|n| n.info.owner.as_ref().map(|owner| owner.command.as_str()));
    // What the owner of an area in C, or of an object heap, calls it besides.
    let labels = nodes.iter().map(|node| node.info.label.as_deref());
    let shared_at = nodes
        .iter()
        .map(|node| node.info.shared_ns.and_then(|nanos| i64::try_from(nanos / 1000).ok()));
    result(
        vec![
            ("name", strings(nodes.iter().map(|node| node.name.clone()))),
            ("parents", strings(parents)),
            ("epoch", figure(|info| info.shared_epoch.map(|epoch| epoch.0))),
            ("bytes", figure(|info| Some(info.mapped.0))),
            ("own_bytes", figure(|info| Some(info.own.0))),
            ("shared_bytes", figure(|info| Some(info.shared.0))),
            ("private_bytes", figure(|info| Some(info.private.0))),
            ("owner_pid", figure(|info| info.owner.as_ref().map(|owner| owner.pid.into()))),
            ("owner", Arc::new(StringArray::from_iter(owners))),
            ("readers", figure(|info| Some(info.readers.len() as u64))),
            ("shared_at", Arc::new(TimestampMicrosecondArray::from_iter(shared_at))),
            ("label", Arc::new(StringArray::from_iter(labels))),
        ],
        "SHOW",
    )
}

/// One row a column: type, bounds, number of values, average and spread of numbers, NULLs.
pub(crate) fn summarize(session: &Arc<Session>, name: &ObjectName) -> Result<QueryResult> {
    let view = session.view()?;
    let engine = session.engine()?;
    let reference = object_name_to_table_reference(name.clone(), false)?;
    let schema = Planner::new(&view, &engine).provider(&reference)?.schema();
    summarize_columns(session, &schema, &name.to_string(), &Params::default())
}

/// The same of the columns of a query, which is run for each of them.
pub(crate) fn summarize_query(
    session: &Arc<Session>,
    query: Query,
    params: &Params,
) -> Result<QueryResult> {
    let mut statement = Statement::Query(Box::new(query));
    let view = session.view()?;
    let engine = session.engine()?;
    let planner = Planner::of_session(session.as_ref(), &view, &engine).with_params(params);
    pivots::turn_tables(&planner, &mut statement)?;
    let relation = format!("({statement})");
    planner.prepare(&mut statement)?;
    let schema = engine.optimize(&planner.plan(statement)?)?;
    summarize_columns(session, schema.schema().as_arrow(), &relation, params)
}

fn summarize_columns(
    session: &Session,
    schema: &Schema,
    relation: &str,
    params: &Params,
) -> Result<QueryResult> {
    let mut parts = Vec::new();
    for (position, field) in schema.fields().iter().enumerate() {
        let column = format!("\"{}\"", field.name().replace('"', "\"\""));
        let text = field.name().replace('\'', "''");
        let kind = field_type(field).replace('\'', "''");
        let ordered = !field.data_type().is_nested();
        let bound = |f: &str| match ordered {
            true => format!("CAST({f}({column}) AS VARCHAR)"),
            false => "CAST(NULL AS VARCHAR)".to_string(),
        };
        let distinct = match ordered {
            // The engine's sketch does not know all types; as text, all have one.
            true => format!("approx_distinct(CAST({column} AS VARCHAR))"),
            false => "CAST(NULL AS BIGINT UNSIGNED)".to_string(),
        };
        let number = |call: &str| match field.data_type().is_numeric() {
            true => call.replace("{}", &format!("CAST({column} AS DOUBLE)")),
            false => "CAST(NULL AS DOUBLE)".to_string(),
        };
        let (average, deviation) = (number("avg({})"), number("stddev({})"));
        let [q25, q50, q75] =
            ["0.25", "0.5", "0.75"].map(|part| number(&format!("approx_quantile({{}}, {part})")));
        parts.push(format!(
            "SELECT {position} AS position, '{text}' AS column_name, '{kind}' AS column_type, \
             {} AS \"min\", {} AS \"max\", \
             {distinct} AS approx_unique, {average} AS \"avg\", {deviation} AS \"std\", \
             {q25} AS q25, {q50} AS q50, {q75} AS q75, count(*) AS \"count\", \
             count(*) - count({column}) AS \"nulls\" FROM {relation}",
            bound("min"),
            bound("max"),
        ));
    }
    let parts = parts.join(" UNION ALL ");
    let sql = format!(
        "SELECT column_name, column_type, \"min\", \"max\", approx_unique, \"avg\", \"std\", q25, \
         q50, q75, \"count\", \"nulls\" FROM ({parts}) ORDER BY position"
    );
    let plan = query::plan_text(session, &sql, params)?;
    Ok(QueryResult::stream(session.run(plan)?, "SUMMARIZE"))
}
