//! Which sequences a statement means: the names in `nextval('s')` and `setval('s', 5)`.
//!
//! Names are resolved with those of tables, so that what is kept (a DEFAULT) means the same
//! wherever it is used; `nextval('S')` becomes `nextval('s')`.

use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Statement, Value, VisitMut,
    VisitorMut,
};
use swingdb_common::error::{Error, ObjectKind, Result};

use crate::ast::build;
use crate::ast::names::{SCHEMA, parse_table_name};
use crate::ast::walk::walk_mut;
use crate::bind::catalogs::{Catalogs, match_name};
use crate::bind::lookahead::Lookahead;

/// A sequence of the session's database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// Its schema, as it is written there.
    pub schema: String,
    /// Its name, as it was created.
    pub name: String,
}

impl Named {
    /// What a resolved name means.
    pub fn of(text: &str) -> Self {
        match parse_table_name(text) {
            TableReference::Bare { table } => {
                Self { schema: SCHEMA.to_string(), name: table.to_string() }
            }
            TableReference::Partial { schema, table }
            | TableReference::Full { schema, table, .. } => {
                Self { schema: schema.to_string(), name: table.to_string() }
            }
        }
    }

    /// The name that says which it is.
    fn text(&self) -> String {
        let name = self.name.as_str();
        match self.schema.as_str() {
            SCHEMA => TableReference::bare(name).to_quoted_string(),
            schema => TableReference::partial(schema, name).to_quoted_string(),
        }
    }
}

/// Resolves the names of all sequences in a statement.
pub(crate) fn resolve(planner: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    let mut done = Ok(());
    each_call(statement, &mut |function, text| {
        let name = function.name.to_string().to_lowercase();
        let resolved = text.ok_or_else(|| {
            let more = if name == SET { ", 5" } else { "" };
            Error::plan(format!("{name} takes the name of a sequence as a text: {name}('s'{more})"))
        });
        match resolved.and_then(|text| find(planner.view(), text).map(|named| *text = named.text()))
        {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                done = Err(error);
                ControlFlow::Break(())
            }
        }
    });
    done
}

/// Whether a statement takes numbers from sequences.
pub fn are_used(statement: &mut Statement) -> bool {
    let mut found = false;
    each_call(statement, &mut |_, _| {
        found = true;
        ControlFlow::Break(())
    });
    found
}

/// A view only reads.
pub fn refuse_in_view(query: &mut Statement) -> Result<()> {
    match are_used(query) {
        true => Err(Error::unsupported("a view that takes numbers from a sequence")),
        false => Ok(()),
    }
}

/// The sequences in the text of a default.
pub fn default_of(sql: &str) -> Result<Vec<Named>> {
    let mut found = Vec::new();
    if [NEXT, CURRENT, SET].iter().any(|name| sql.contains(name)) {
        each_call(&mut build::parse_expr(sql)?, &mut |_, text| {
            found.extend(text.map(|text| Named::of(text)));
            ControlFlow::Continue(())
        });
    }
    Ok(found)
}

/// The sequence of which an expression is the next number, and nothing else.
pub fn only_next(expr: &Expr) -> Option<String> {
    let Expr::Function(function) = expr else { return None };
    let is_next = function.name.to_string().eq_ignore_ascii_case(NEXT);
    is_next.then(|| text_of(NEXT, &mut function.args.clone()).cloned())?
}

/// What is done with a call and the text it is called with.
type Visit<'a> = dyn FnMut(&Function, Option<&mut String>) -> ControlFlow<()> + 'a;

fn each_call<T: VisitMut>(tree: &mut T, visit: &mut Visit<'_>) {
    struct Calls<'a, 'b>(&'a mut Visit<'b>);
    impl VisitorMut for Calls<'_, '_> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
            if !is_ours(function) {
                return ControlFlow::Continue(());
            }
            let mut args = std::mem::replace(&mut function.args, FunctionArguments::None);
            let name = function.name.to_string().to_lowercase();
            let next = (self.0)(function, text_of(&name, &mut args));
            function.args = args;
            next
        }
    }
    let _ = walk_mut(tree, &mut Calls(visit));
}

fn is_ours(function: &Function) -> bool {
    let [name] = function.name.0.as_slice() else { return false };
    let name = name.as_ident().map(|ident| ident.value.as_str()).unwrap_or_default();
    [NEXT, CURRENT, SET].iter().any(|ours| ours.eq_ignore_ascii_case(name))
}

/// The argument that names the sequence, if it is a text and the call has as many as it takes.
fn text_of<'a>(name: &str, args: &'a mut FunctionArguments) -> Option<&'a mut String> {
    let FunctionArguments::List(list) = args else { return None };
    let others = if name == SET { 1..=2 } else { 0..=0 };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))), more @ ..] =
        list.args.as_mut_slice()
    else {
        return None;
    };
    if !others.contains(&more.len()) {
        return None;
    }
    match &mut value.value {
        Value::SingleQuotedString(text) => Some(text),
        _ => None,
    }
}

/// The sequence that a name means: one of the session's own database.
fn find(view: &Catalogs, text: &str) -> Result<Named> {
    let catalog = &view.main.catalog;
    let own = |name: &str| view.database(name).is_some_and(|found| found.name == view.main.name);
    let read_only = |name: &str| {
        Error::unsupported(format!("numbers of {name:?}, a database that is attached to be read"))
    };
    let (schema, wanted) = match parse_table_name(text) {
        TableReference::Bare { table } => (SCHEMA.to_string(), table),
        TableReference::Partial { schema, table } => {
            let schemas = catalog.schema_names();
            match match_name(schemas.iter().map(String::as_str), &schema) {
                Some(schema) => (schema, table),
                None if own(&schema) => (SCHEMA.to_string(), table),
                None if view.database(&schema).is_some() => return Err(read_only(&schema)),
                None => return Err(Error::not_found(ObjectKind::Schema, &*schema, schemas)),
            }
        }
        TableReference::Full { catalog, .. } if !own(&catalog) => {
            return Err(match view.database(&catalog) {
                Some(_) => read_only(&catalog),
                None => Error::not_found(ObjectKind::Database, &*catalog, [&view.main.name]),
            });
        }
        TableReference::Full { schema, table, .. } => (schema.to_string(), table),
    };
    let names = catalog.sequence_names(&schema);
    match match_name(names.iter().map(String::as_str), &wanted) {
        Some(name) => Ok(Named { schema, name }),
        None => Err(Error::not_found(ObjectKind::Sequence, text, names)),
    }
}

/// The function that takes the next number of a sequence.
pub const NEXT: &str = "nextval";

/// The function that says where a sequence goes on.
pub const SET: &str = "setval";

/// The function that gives the number that the session has taken last.
pub const CURRENT: &str = "currval";
