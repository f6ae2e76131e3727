//! SHOW MACROS and SHOW CREATE MACRO.

use datafusion::sql::sqlparser::ast::ObjectName;
use swingdb_common::error::{Error, Result};
use swingdb_sql::ast::create::{qualified, quoted};
use swingdb_sql::ast::names::{SCHEMA, plain_parts};
use swingdb_sql::bind::macros::call::parameters;
use swingdb_sql::bind::macros::known::{KINDS, each, kind};
use swingdb_store::{Macro, MacroKind, MacroVariant};

use crate::execute::show::table::{result, strings};
use crate::session::Session;
use crate::session::result::QueryResult;

/// A row for each variant of the macros that there are.
pub(crate) fn all(session: &Session) -> Result<QueryResult> {
    let view = session.view()?;
    let mut columns: [Vec<String>; 6] = Default::default();
    for (database, schema, one) in each(&view) {
        for variant in &one.variants {
            let row = [
                one.name.clone(),
                schema.clone(),
                database.clone(),
                kind(one.kind).to_string(),
                parameters(variant),
                variant.sql.clone(),
            ];
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
    }
    let names = ["name", "schema", "database", "kind", "parameters", "sql"];
    let columns = names.into_iter().zip(columns).map(|(name, all)| (name, strings(all)));
    result(columns.collect(), "SHOW")
}

/// The statements that make the macros of a name, of each kind one.
pub(crate) fn text(session: &Session, name: &ObjectName) -> Result<QueryResult> {
    let view = session.view()?;
    let names = plain_parts(name).unwrap_or_default();
    let found = KINDS.into_iter().filter_map(|kind| view.find_macro(&names, kind, None));
    let texts: Vec<String> = found
        .map(|found| {
            let schema = Some(found.schema.as_str()).filter(|s| !s.eq_ignore_ascii_case(SCHEMA));
            create_text(schema, &found.definition)
        })
        .collect();
    if texts.is_empty() {
        let all = each(&view).into_iter().map(|(_, _, one)| one.name.clone());
        return Err(Error::not_found(MacroKind::Scalar.object(), name.to_string(), all));
    }
    result(vec![("sql", strings(texts))], "SHOW")
}

/// The statement that makes a macro.
pub(crate) fn create_text(schema: Option<&str>, one: &Macro) -> String {
    let variants = one.variants.iter().map(|variant| {
        let head = format!("({}) AS", quoted_parameters(variant));
        match one.kind {
            MacroKind::Scalar => format!("{head} {}", variant.sql),
            // Of several queries each has brackets of its own.
            MacroKind::Table => format!("{head} TABLE {}", variant.sql),
        }
    });
    let variants = variants.collect::<Vec<_>>().join(", ");
    format!("CREATE MACRO {}{variants}", qualified(schema, &one.name))
}

fn quoted_parameters(variant: &MacroVariant) -> String {
    let shown = variant.parameters.iter().map(|parameter| {
        let name = quoted(&parameter.name);
        let default = parameter.default.as_ref().map(|default| format!(" := {default}"));
        name + &default.unwrap_or_default()
    });
    shown.collect::<Vec<_>>().join(", ")
}
