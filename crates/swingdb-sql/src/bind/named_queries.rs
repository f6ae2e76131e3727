//! `FROM query('SELECT 1')` and `FROM query_table('t')`: relations that a text names.
//!
//! The text may be computed of constants: `query('FROM ' || getvariable('source'))`. So what it is,
//! the planner is asked, before names are looked up. Macros are written out by then, whose
//! parameters may be such texts.

use std::ops::ControlFlow;

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    FunctionArg, FunctionArgExpr, Ident, ObjectName, Statement, TableAlias, TableFactor, VisitorMut,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build;
use crate::ast::names::parse_table_name;
use crate::ast::walk::walk_mut;
use crate::bind::functions::null_treatment;
use crate::bind::lookahead::Lookahead;
use crate::bind::{macros, method_calls};
use crate::text::parser::parse_only_query;

/// The functions of this file.
pub(crate) const NAMES: [&str; 2] = [QUERY, QUERY_TABLE];
const QUERY: &str = "query";
const QUERY_TABLE: &str = "query_table";
/// Texts that may name one another.
const MAX_DEPTH: usize = 16;

/// Writes these relations out.
pub(crate) fn expand(planner: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    expand_inside(planner, statement, 0)
}

fn expand_inside(planner: &dyn Lookahead, statement: &mut Statement, depth: usize) -> Result<()> {
    let mut named = Named { planner, depth, failed: None };
    // Breaks only with an error, which the visitor keeps.
    let _ = walk_mut(statement, &mut named);
    named.failed.map_or(Ok(()), Err)
}

struct Named<'a> {
    planner: &'a dyn Lookahead,
    /// Texts around what is visited.
    depth: usize,
    failed: Option<Error>,
}

impl VisitorMut for Named<'_> {
    type Break = ();

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let written = match factor {
            TableFactor::Table { name, alias, args: Some(args), sample: None, .. } => {
                self.written_out(name, &args.args, alias)
            }
            TableFactor::Function { name, args, alias, .. } => self.written_out(name, args, alias),
            _ => Ok(None),
        };
        match written {
            Ok(Some(new)) => *factor = new,
            Ok(None) => {}
            Err(error) => {
                self.failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

impl Named<'_> {
    fn written_out(
        &self,
        name: &ObjectName,
        args: &[FunctionArg],
        alias: &Option<TableAlias>,
    ) -> Result<Option<TableFactor>> {
        let function = NAMES.into_iter().find(|function| build::is_named(name, function));
        let Some(function) = function else { return Ok(None) };
        if self.planner.is_table_function(function) {
            return Ok(None);
        }
        let text = match (function, self.values(function, args)?.as_slice()) {
            (QUERY, [text]) => single(text).ok_or_else(|| takes_text(function))?,
            (QUERY_TABLE, [tables]) => of_tables(tables, false)?,
            (QUERY_TABLE, [tables, ScalarValue::Boolean(Some(by_name))]) => {
                of_tables(tables, *by_name)?
            }
            _ => return Err(takes_text(function)),
        };
        if self.depth == MAX_DEPTH {
            return Err(Error::plan(format!(
                "{function}: more than {MAX_DEPTH} texts that name one another"
            )));
        }
        let subquery = self.bound(&text).map_err(|error| match error {
            Error::Parse { message, .. } => {
                Error::plan(format!("the text of {function}, {text:?}: {message}"))
            }
            other => other,
        })?;
        let alias = alias.clone().unwrap_or_else(|| build::alias(&Ident::new(function)));
        Ok(Some(TableFactor::Derived {
            lateral: false,
            subquery,
            alias: Some(alias),
            sample: None,
        }))
    }

    /// The query of a text, with what passes before this one do.
    fn bound(&self, text: &str) -> Result<Box<datafusion::sql::sqlparser::ast::Query>> {
        let mut statement = parse_only_query(text)?;
        null_treatment::hand_out(self.planner, &mut statement)?;
        method_calls::unchain(self.planner.view(), &mut statement);
        macros::expand::expand(self.planner, &mut statement)?;
        expand_inside(self.planner, &mut statement, self.depth + 1)?;
        match statement {
            Statement::Query(query) => Ok(query),
            other => Err(Error::internal(format!("no query: {other}"))),
        }
    }

    fn values(&self, function: &str, args: &[FunctionArg]) -> Result<Vec<ScalarValue>> {
        let item = |(place, arg): (usize, &FunctionArg)| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                Ok(build::item(expr.clone(), format!("argument {place}")))
            }
            _ => Err(takes_text(function)),
        };
        let items = args.iter().enumerate().map(item).collect::<Result<Vec<_>>>()?;
        if items.is_empty() {
            return Err(takes_text(function));
        }
        let query = build::select(items, Vec::new(), None)?;
        let values = self.planner.constants(build::statement(query, None));
        values.map_err(|error| {
            Error::plan(format!("what {function} reads is known before rows are: {error}"))
        })
    }
}

fn takes_text(function: &str) -> Error {
    Error::plan(match function {
        QUERY => "query takes the text of a SELECT",
        _ => {
            "query_table takes the name of a table, or a list of names and whether columns are \
              matched by name"
        }
    })
}

fn single(value: &ScalarValue) -> Option<String> {
    value.try_as_str().flatten().map(str::to_owned)
}

/// The query that reads one table, or all of a list.
fn of_tables(tables: &ScalarValue, by_name: bool) -> Result<String> {
    let names = match tables {
        ScalarValue::List(list) if list.len() == 1 && !list.is_null(0) => {
            let texts = cast(&list.value(0), &DataType::Utf8)?;
            texts.as_string::<i32>().iter().flatten().map(str::to_owned).collect()
        }
        other => Vec::from_iter(single(other)),
    };
    if names.is_empty() {
        return Err(takes_text(QUERY_TABLE));
    }
    let select =
        |name: &String| format!("SELECT * FROM {}", parse_table_name(name).to_quoted_string());
    let union = if by_name { " UNION ALL BY NAME " } else { " UNION ALL " };
    Ok(names.iter().map(select).collect::<Vec<_>>().join(union))
}
