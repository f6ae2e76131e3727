//! CREATE MACRO and DROP MACRO.
//!
//! What is created is looked at as far as it can be without knowing the arguments: it is planned
//! with NULL for all of them, and names of tables, columns and functions that mean nothing are
//! errors. Others may be due to the NULLs, so they are left to the calls.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Expr, Query, Statement};
use swingdb_common::error::{Error, Result};
use swingdb_sql::ast::build;
use swingdb_sql::ast::names::find_name;
use swingdb_sql::bind::catalogs::FoundMacro;
use swingdb_sql::bind::macros::expand::body;
use swingdb_sql::bind::pivots::turn_tables;
use swingdb_sql::planner::Planner;
use swingdb_sql::text::asof::written;
use swingdb_sql::text::parser::{parse_expression, parse_query};
use swingdb_sql::text::relation_statements;
use swingdb_sql::text::statement::{Body, CreateMacro, DropMacro, Parameter, Variant};
use swingdb_store::{Catalog, IfExists, Macro, MacroKind, MacroParameter, MacroVariant};

use crate::execute::atomic::with_txn;
use crate::execute::target::{QualifiedName, if_exists, place};
use crate::session::result::QueryResult;
use crate::session::{Session, temporary};

/// Runs a CREATE MACRO.
pub(crate) fn create(session: &Arc<Session>, create: CreateMacro) -> Result<QueryResult> {
    let CreateMacro { or_replace, if_not_exists, temporary, force, mut name, variants } = create;
    let if_exists = if_exists(or_replace, if_not_exists)?;
    let session = &temporary::of_new_macro(session, temporary, &mut name)?;
    let kind = check_variants(&variants)?;
    let kept =
        variants.into_iter().map(|variant| kept(session, variant)).collect::<Result<Vec<_>>>()?;
    with_txn(session, |txn| {
        let QualifiedName { schema, name } = place(session, &txn.view(), &name)?;
        let same = find_name(&txn.view().macro_names(&schema, kind), &name);
        match (&same, if_exists) {
            (Some(_), IfExists::Skip) => return Ok(()),
            (Some(_), IfExists::Fail) => {
                return Err(Error::AlreadyExists { kind: kind.object(), name });
            }
            _ => {}
        }
        let new = Macro { name, kind, variants: kept };
        if !force {
            check_names(session, &schema, &new)?;
        }
        // Names that differ only in case are the same name.
        if let Some(same) = same.filter(|same| *same != new.name) {
            txn.drop_macro(&schema, &same, kind)?;
        }
        txn.create_macro(&schema, new, if_exists)?;
        Ok(())
    })?;
    Ok(QueryResult::changed(None, "CREATE MACRO"))
}

/// Runs a DROP MACRO.
pub(crate) fn remove(session: &Arc<Session>, remove: DropMacro) -> Result<QueryResult> {
    let DropMacro { kind, if_exists, mut names } = remove;
    let sides: Vec<_> =
        names.iter_mut().map(|name| temporary::of_macro(session, name, kind)).collect();
    let session = sides.first().unwrap_or(session);
    if sides.iter().any(|side| side.changes_temp() != session.changes_temp()) {
        return Err(Error::unsupported("temporary and other macros in one statement"));
    }
    with_txn(session, |txn| {
        for name in &names {
            let found = place(session, &txn.view(), name)
                .and_then(|place| stored(&txn.view(), place, kind));
            match found {
                Ok((schema, name, kind)) => txn.drop_macro(&schema, &name, kind)?,
                Err(Error::NotFound { .. }) if if_exists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })?;
    Ok(QueryResult::changed(None, "DROP MACRO"))
}

/// Schema, name and kind of the macro to drop: an expression's goes before a query's.
fn stored(
    catalog: &Catalog,
    place: QualifiedName,
    kind: MacroKind,
) -> Result<(String, String, MacroKind)> {
    let names = catalog.macro_names(&place.schema, kind);
    if let Some(name) = find_name(&names, &place.name) {
        return Ok((place.schema, name, kind));
    }
    let other = match kind {
        MacroKind::Scalar => MacroKind::Table,
        MacroKind::Table => MacroKind::Scalar,
    };
    match find_name(&catalog.macro_names(&place.schema, other), &place.name) {
        Some(name) if other == MacroKind::Table => Ok((place.schema, name, other)),
        Some(_) => {
            Err(Error::plan(format!("{:?} is no table macro; use DROP MACRO", place.shown())))
        }
        None => Err(Error::not_found(kind.object(), place.shown(), names)),
    }
}

/// That the variants are of one kind, and that a call can tell them apart.
fn check_variants(variants: &[Variant]) -> Result<MacroKind> {
    let mut counts = HashSet::new();
    let kind = variants.first().map_or(MacroKind::Scalar, |variant| variant.body.kind());
    for variant in variants {
        if variant.body.kind() != kind {
            return Err(Error::plan("the variants of a macro are all queries or all expressions"));
        }
        let count = variant.parameters.len();
        if !counts.insert(count) {
            return Err(Error::plan(format!("two variants of the macro have {count} parameters")));
        }
        check_parameters(&variant.parameters)?;
    }
    Ok(kind)
}

fn check_parameters(parameters: &[Parameter]) -> Result<()> {
    let (mut names, mut optional) = (HashSet::new(), false);
    for Parameter { name, default } in parameters {
        if !names.insert(name.value.to_lowercase()) {
            return Err(Error::plan(format!("the macro has two parameters {:?}", name.value)));
        }
        if optional && default.is_none() {
            return Err(Error::plan(format!(
                "parameter {:?} needs a default, as one before it has one",
                name.value
            )));
        }
        optional |= default.is_some();
        let mut is_constant = true;
        if let Some(default) = default {
            build::rewrite_exprs(&mut default.clone(), |expr| {
                is_constant &= !matches!(
                    expr,
                    Expr::Identifier(_)
                        | Expr::CompoundIdentifier(_)
                        | Expr::Subquery(_)
                        | Expr::Exists { .. }
                        | Expr::InSubquery { .. }
                );
            });
        }
        if !is_constant {
            return Err(Error::plan(format!(
                "the default of parameter {:?} mentions a column or a query",
                name.value
            )));
        }
    }
    Ok(())
}

/// The variant as it is stored.
fn kept(session: &Session, mut variant: Variant) -> Result<MacroVariant> {
    let mut parameters = Vec::with_capacity(variant.parameters.len());
    for Parameter { name, default } in variant.parameters {
        let default = default.map(|mut default| expression_text(&mut default)).transpose()?;
        parameters.push(MacroParameter { name: name.value, default });
    }
    let sql = match &mut variant.body {
        Body::Expr(expr) => {
            relation_statements::refuse(expr.as_mut(), "a macro")?;
            expression_text(expr)?
        }
        Body::Query(query) => {
            relation_statements::refuse(query.as_mut(), "a macro")?;
            query_text(session, query)?
        }
    };
    Ok(MacroVariant { parameters, sql })
}

fn expression_text(expr: &mut Expr) -> Result<String> {
    let text = written(expr);
    let again = parse_expression(&text).map(|expr| written(&expr));
    readable(text, again)
}

/// The text of a query that is parsed again where it is used. There is no text of PIVOT and the
/// like, so what they stand for is kept, as far as that does not depend on rows.
pub(crate) fn query_text(session: &Session, query: &mut Query) -> Result<String> {
    let text = written(query);
    let again = parse_query(&text).map(|query| written(&query));
    if let Ok(text) = readable(text, again) {
        return Ok(text);
    }
    let mut statement = build::statement(query.clone(), None);
    let (view, engine) = (session.view()?, session.engine()?);
    turn_tables(&Planner::new(&view, &engine), &mut statement)?;
    let text = written(&statement);
    let again = parse_query(&text).map(|query| written(&query));
    readable(text, again)
}

/// A text that means the same when it is parsed again.
fn readable(text: String, again: Result<String>) -> Result<String> {
    match again {
        Ok(again) if again == text => Ok(text),
        _ => Err(Error::unsupported(format!(
            "a macro, or a view that calls one, with this text: {text}; write a view for what it \
             has of PIVOT and the like"
        ))),
    }
}

/// That the names in the bodies mean something. They may be the macro's own.
fn check_names(session: &Session, schema: &str, new: &Macro) -> Result<()> {
    let temporary = session.changes_temp();
    let mut view = session.view()?;
    let source = view.temp.clone().filter(|_| temporary).unwrap_or_else(|| view.main.clone());
    let (definition, schema) = (Arc::new(new.clone()), schema.to_string());
    view.defined = Some(Arc::new(FoundMacro { definition, source, schema: schema.clone() }));
    // What is temporary may mean all that its session does.
    let schema = (!temporary).then_some(schema.as_str());
    let engine = session.engine()?;
    for variant in &new.variants {
        let planner = Planner::new(&view, &engine);
        let names = variant.parameters.iter().map(|parameter| parameter.name.to_lowercase());
        let nulls = names.map(|name| (name, build::null())).collect();
        let expanded = body(&planner, schema, new.kind, variant, nulls)?;
        let mut statement = match expanded {
            Body::Expr(expr) => build::statement(
                build::select(vec![build::item(*expr, "value")], Vec::new(), None)?,
                None,
            ),
            Body::Query(query) => Statement::Query(query),
        };
        let planned = planner.prepare(&mut statement);
        let planned = planned.and_then(|()| planner.plan(statement));
        match planned {
            Err(error @ Error::NotFound { .. }) => return Err(error),
            Err(Error::Plan { message }) if message.contains(UNKNOWN_FUNCTION) => {
                return Err(Error::Plan { message });
            }
            _ => {}
        }
    }
    Ok(())
}

/// What the engine says of functions that it does not know.
const UNKNOWN_FUNCTION: &str = "Invalid function";
