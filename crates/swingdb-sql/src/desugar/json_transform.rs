//! `json_transform(j, '{"a": "INTEGER"}')`, also called `from_json`: `TRY_CAST(CAST(j AS JSON) AS
//! STRUCT(a INTEGER))`. `json_transform_strict` and `from_json_strict` are a CAST.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Statement,
    Value, VisitorMut,
};
use swingdb_common::error::{Error, Result};
use swingdb_common::json::{as_text, check, elements, is_deep, members, type_name};

use crate::ast::build;
use crate::ast::walk::walk_mut;
use crate::text::parser;

/// The functions, and the casts that they are.
const FUNCTIONS: [(&str, CastKind); 4] = [
    ("json_transform", CastKind::TryCast),
    ("from_json", CastKind::TryCast),
    ("json_transform_strict", CastKind::Cast),
    ("from_json_strict", CastKind::Cast),
];

/// The names of the functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, _)| *name)
}

/// Writes the calls of a statement out. Names of types are resolved later.
pub(crate) fn expand(statement: &mut Statement) -> Result<()> {
    struct Casts {
        failed: Option<Error>,
    }
    impl VisitorMut for Casts {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
            match written_out(call) {
                Ok(Some(new)) => *expr = new,
                Ok(None) => {}
                Err(error) => {
                    self.failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        }
    }
    let mut casts = Casts { failed: None };
    // Breaks only with an error, which the visitor keeps.
    let _ = walk_mut(statement, &mut casts);
    casts.failed.map_or(Ok(()), Err)
}

fn written_out(call: &Function) -> Result<Option<Expr>> {
    let [part] = call.name.0.as_slice() else { return Ok(None) };
    let Some(name) = part.as_ident().filter(|name| name.quote_style.is_none()) else {
        return Ok(None);
    };
    let found = FUNCTIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name.value));
    let Some((name, kind)) = found else { return Ok(None) };
    let usage = || {
        Error::plan(format!(
            "{name} takes JSON and its structure as a constant text: \
             {name}(j, '{{\"a\": \"INTEGER\", \"b\": [\"VARCHAR\"]}}')"
        ))
    };
    let FunctionArguments::List(list) = &call.args else { return Err(usage()) };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(json)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(structure))),
    ] = list.args.as_slice()
    else {
        return Err(usage());
    };
    let Value::SingleQuotedString(structure) = &structure.value else { return Err(usage()) };
    check(structure)
        .map_err(|error| Error::plan(format!("the structure {structure:?} is no JSON: {error}")))?;
    let is_flat = !is_deep(structure);
    let wanted = is_flat.then(|| type_of(structure.trim_ascii())).flatten().ok_or_else(usage)?;
    let data_type = parser::parse_type(&wanted)?;
    let json = build::cast(json.clone(), DataType::JSON);
    // A string means the text between its quotes.
    let is_plain = wanted.chars().all(|char| char.is_alphanumeric() || char == '_' || char == ' ');
    let json = match is_plain && data_type != DataType::JSON {
        true => build::call("json_extract_string", [json, build::text("$")]),
        false => json,
    };
    Ok(Some(Expr::Cast {
        kind: kind.clone(),
        expr: Box::new(json),
        data_type,
        array: false,
        format: None,
    }))
}

/// The text of the type that a structure means.
fn type_of(structure: &str) -> Option<String> {
    match type_name(structure) {
        "VARCHAR" => as_text(structure),
        "ARRAY" => {
            let mut all = elements(structure);
            match (all.next(), all.next()) {
                (Some(element), None) => Some(format!("{}[]", type_of(element)?)),
                _ => None,
            }
        }
        "OBJECT" => {
            let fields = members(structure).map(|(key, of)| {
                let name = as_text(key)?.replace('"', "\"\"");
                Some(format!("\"{name}\" {}", type_of(of)?))
            });
            let fields = fields.collect::<Option<Vec<_>>>()?;
            (!fields.is_empty()).then(|| format!("STRUCT({})", fields.join(", ")))
        }
        _ => None,
    }
}
