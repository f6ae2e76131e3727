//! Finding calls of macros, and putting in their place what they stand for.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArguments, Ident, ObjectName, ObjectNamePart, Query,
    Select, SelectItem, Statement, TableAlias, TableFactor, VisitMut, VisitorMut,
};
use swingdb_common::error::{Error, Result};
use swingdb_store::{MacroKind, MacroVariant};

use crate::ast::build;
use crate::ast::names::{plain_parts, written_name};
use crate::ast::walk::{rewrite_own_exprs, walk_mut};
use crate::bind::catalogs::{Catalogs, FoundMacro};
use crate::bind::columns::is_columns;
use crate::bind::lookahead::Lookahead;
use crate::bind::macros::call::{Given, Values, signature};
use crate::bind::macros::substitute::{never_a_place, operand, substitute};
use crate::bind::method_calls::unchain;
use crate::text::parser::{parse_expression, parse_query};
use crate::text::statement::Body;

/// Macros whose bodies may lie in one another.
const MAX_DEPTH: usize = 64;
/// Expressions that the macros of one statement may stand for, all together.
const MAX_EXPRESSIONS: usize = 100_000;
/// Expressions that may lie in one another in what a call stands for.
const MAX_NESTING: usize = 400;

/// Puts what they stand for in the place of all calls of macros in a statement.
pub(crate) fn expand(planner: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    let view = planner.view();
    if !view.has_macros() {
        return Ok(());
    }
    let made = Cell::new(0);
    let mut expander = Expander::new(planner, view, &made);
    let returning = match statement {
        Statement::Insert(insert) => insert.returning.as_mut(),
        Statement::Update(update) => update.returning.as_mut(),
        Statement::Delete(delete) => delete.returning.as_mut(),
        _ => None,
    };
    returning.into_iter().flatten().for_each(|item| expander.name(item));
    expander.walk(statement)
}

/// Whether a piece of a statement calls a macro.
pub fn is_called<T: VisitMut + Clone>(planner: &dyn Lookahead, tree: &T) -> bool {
    let view = planner.view();
    let made = Cell::new(0);
    view.has_macros() && Expander::new(planner, view, &made).calls(tree)
}

/// What a variant of a macro becomes with these values; `schema` is that of the planner's own
/// database which the macro is in, and none for a temporary one. The macro need not exist.
pub fn body(
    planner: &dyn Lookahead,
    schema: Option<&str>,
    kind: MacroKind,
    variant: &MacroVariant,
    values: Values,
) -> Result<Body> {
    let made = Cell::new(0);
    let mut expander = Expander::new(planner, planner.view(), &made);
    expander.schema = schema;
    expander.body(kind, variant, values)
}

struct Expander<'a> {
    planner: &'a dyn Lookahead,
    view: &'a Catalogs,
    /// The schema of the macro whose body is visited, where names are looked up first.
    schema: Option<&'a str>,
    /// The macros whose bodies are around what is visited, the outermost first.
    around: Vec<String>,
    /// Expressions that have been put in the place of calls.
    made: &'a Cell<usize>,
    failed: Option<Error>,
}

impl<'a> Expander<'a> {
    fn new(planner: &'a dyn Lookahead, view: &'a Catalogs, made: &'a Cell<usize>) -> Self {
        Self { planner, view, schema: None, around: Vec::new(), made, failed: None }
    }

    fn walk<T: VisitMut>(&mut self, tree: &mut T) -> Result<()> {
        // Breaks only with an error, which the expander keeps.
        let _ = walk_mut(tree, self);
        self.failed.take().map_or(Ok(()), Err)
    }

    fn keep(&mut self, result: Result<()>) -> ControlFlow<()> {
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn find(&self, name: &ObjectName, kind: MacroKind) -> Option<FoundMacro> {
        self.view.find_macro(&plain_parts(name)?, kind, self.schema)
    }

    fn calls<T: VisitMut + Clone>(&self, tree: &T) -> bool {
        let mut finder = Finder { expander: self, found: false };
        // Breaks when it has found one, which it keeps.
        let _ = walk_mut(&mut tree.clone(), &mut finder);
        finder.found
    }

    /// A column that a call computes is called by the text of the call.
    fn name(&self, item: &mut SelectItem) {
        let SelectItem::UnnamedExpr(expr) = item else { return };
        let mut has_columns = false;
        rewrite_own_exprs(&mut expr.clone(), &mut |part| has_columns |= is_columns(part));
        if !has_columns && self.calls(expr) {
            let text = written_name(expr);
            let alias = Ident::with_quote('"', text);
            let expr = std::mem::replace(expr, build::null());
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }

    /// What a call of a function stands for, if it is one of a macro.
    fn scalar(&self, function: &Function) -> Result<Option<Expr>> {
        let FunctionArguments::List(list) = &function.args else { return Ok(None) };
        let Some(found) = self.find(&function.name, MacroKind::Scalar) else { return Ok(None) };
        let name = &found.definition.name;
        let plain = list.duplicate_treatment.is_none()
            && list.clauses.is_empty()
            && function.filter.is_none();
        let is_extended = function.null_treatment.is_some() || !function.within_group.is_empty();
        if is_extended || !plain && function.over.is_none() {
            return Err(Error::plan(format!(
                "macro {name} takes no DISTINCT, ORDER BY, FILTER or treatment of NULLs without \
                 OVER; write them in its body"
            )));
        }
        let Body::Expr(mut expr) = self.call(&found, &list.args)? else {
            return Err(Error::internal(format!("macro {name} stands for a query")));
        };
        if function.over.is_some() {
            self.put_window(name, &mut expr, function)?;
        }
        Ok(Some(never_a_place(operand(*expr))))
    }

    /// `m(x) OVER (...)`: the window is that of the only aggregate of the body, and so is what else
    /// there is of the call but its arguments.
    fn put_window(&self, name: &str, expr: &mut Expr, call: &Function) -> Result<()> {
        let mut found = 0;
        rewrite_own_exprs(expr, &mut |part| {
            if let Expr::Function(function) = part
                && function.over.is_none()
                && self.planner.is_aggregate(&function.name.to_string().to_ascii_lowercase())
            {
                found += 1;
                restrict(function, call);
            }
        });
        match (found, expr) {
            (1, _) => Ok(()),
            // A function that the engine knows under another name.
            (0, Expr::Function(function)) if function.over.is_none() => {
                restrict(function, call);
                Ok(())
            }
            _ => Err(Error::plan(format!(
                "macro {name} with OVER: its body needs exactly one aggregate without a window"
            ))),
        }
    }

    /// The query that a call in a FROM clause stands for.
    fn table(
        &self,
        name: &ObjectName,
        args: &[FunctionArg],
        alias: &mut Option<TableAlias>,
    ) -> Result<Option<TableFactor>> {
        let Some(found) = self.find(name, MacroKind::Table) else {
            return match self.find(name, MacroKind::Scalar) {
                Some(_) if !self.planner.is_table_function(&name.to_string()) => {
                    Err(Error::plan(format!("macro {name} is an expression, and no table")))
                }
                _ => Ok(None),
            };
        };
        let Body::Query(subquery) = self.call(&found, args)? else {
            let name = &found.definition.name;
            return Err(Error::internal(format!("table macro {name} stands for an expression")));
        };
        let mut lateral = false;
        rewrite_own_exprs(&mut args.to_vec(), &mut |expr| {
            lateral |= matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        });
        let own = || name.0.last().and_then(ObjectNamePart::as_ident).map(build::alias);
        let alias = alias.take().or_else(own);
        Ok(Some(TableFactor::Derived { lateral, subquery, alias, sample: None }))
    }

    fn call(&self, found: &FoundMacro, args: &[FunctionArg]) -> Result<Body> {
        let definition = &found.definition;
        let (at, values) = Given::of(&definition.name, args)?.choose(definition)?;
        let variant = &definition.variants[at];
        let shown = format!(
            "{}.{}.{}",
            found.source.name,
            found.schema,
            signature(&definition.name, variant)
        );
        let mut around = self.around.clone();
        let repeated = around.contains(&shown);
        around.push(shown);
        if repeated || around.len() > MAX_DEPTH {
            let way = around.join(" -> ");
            let what = if repeated { "calls itself" } else { "calls too many others" };
            return Err(Error::plan(format!("macro {} {what}: {way}", definition.name)));
        }
        let view = self.view.inside(&found.source);
        // What is temporary may mean all that its session does.
        let schema = (!view.is_temporary(&found.source)).then_some(found.schema.as_str());
        let mut inside = Expander {
            planner: self.planner,
            view: &view,
            schema,
            around,
            made: self.made,
            failed: None,
        };
        inside.body(definition.kind, variant, values)
    }

    /// A body with values for its parameters, the calls in it expanded.
    fn body(
        &mut self,
        kind: MacroKind,
        variant: &MacroVariant,
        mut values: Values,
    ) -> Result<Body> {
        for parameter in &variant.parameters {
            let name = parameter.name.to_lowercase();
            if let Some(default) = &parameter.default
                && !values.contains_key(&name)
            {
                let mut value = parse_expression(default)?;
                unchain(self.view, &mut value);
                self.walk(&mut value)?;
                values.insert(name, value);
            }
        }
        match kind {
            MacroKind::Scalar => {
                let mut expr = parse_expression(&variant.sql)?;
                unchain(self.view, &mut expr);
                self.fill(&mut expr, &values)?;
                Ok(Body::Expr(Box::new(expr)))
            }
            MacroKind::Table => {
                let Statement::Query(mut query) = parse_query(&variant.sql)? else {
                    return Err(Error::internal(format!("no query: {}", variant.sql)));
                };
                unchain(self.view, query.as_mut());
                self.fill(query.as_mut(), &values)?;
                Ok(Body::Query(query))
            }
        }
    }

    fn fill<T: VisitMut>(&mut self, body: &mut T, values: &Values) -> Result<()> {
        let mut relations = Relations::default();
        let _ = walk_mut(body, &mut relations);
        let mut finder = Locator { expander: self, queries: &relations.queries, result: Ok(()) };
        let _ = walk_mut(body, &mut finder);
        finder.result?;
        self.walk(body)?;
        substitute(body, values, &relations.names);
        self.count(body)
    }

    /// What is made of calls has bounds: each may double what those inside of it make.
    fn count<T: VisitMut>(&self, body: &mut T) -> Result<()> {
        let mut count = Count::default();
        let _ = walk_mut(body, &mut count);
        let made = self.made.get().saturating_add(count.all);
        self.made.set(made);
        if made > MAX_EXPRESSIONS || count.deepest > MAX_NESTING {
            return Err(Error::plan(format!(
                "the macros of this statement stand for more than {MAX_EXPRESSIONS} expressions, \
                 or for more than {MAX_NESTING} inside of one another"
            )));
        }
        Ok(())
    }
}

impl VisitorMut for Expander<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        select.projection.iter_mut().for_each(|item| self.name(item));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let result = self.scalar(function).map(|found| {
            if let Some(found) = found {
                *expr = found;
            }
        });
        self.keep(result)
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let result = match factor {
            TableFactor::Table { name, args: Some(args), alias, .. } => {
                self.table(name, &args.args, alias)
            }
            TableFactor::Function { name, args, alias, .. } => self.table(name, args, alias),
            _ => return ControlFlow::Continue(()),
        };
        let result = result.map(|found| {
            if let Some(mut found) = found {
                if let (
                    TableFactor::Table { sample, .. },
                    TableFactor::Derived { sample: to, .. },
                ) = (&mut *factor, &mut found)
                {
                    *to = sample.take();
                }
                *factor = found;
            }
        });
        self.keep(result)
    }
}

/// Gives an aggregate the window, and what restricts its rows, of the call it is computed for.
fn restrict(function: &mut Function, call: &Function) {
    function.over.clone_from(&call.over);
    if let Some(condition) = &call.filter {
        let own = function.filter.take().map(|own| *own);
        let both = own.into_iter().chain([condition.as_ref().clone()]);
        function.filter = Some(Box::new(build::all(both)));
    }
    if let FunctionArguments::List(own) = &mut function.args
        && let FunctionArguments::List(list) = &call.args
    {
        own.duplicate_treatment = list.duplicate_treatment.or(own.duplicate_treatment);
        own.clauses.extend_from_slice(&list.clauses);
    }
}

/// Looks for a call.
struct Finder<'a> {
    expander: &'a Expander<'a>,
    found: bool,
}

impl Finder<'_> {
    fn look(&mut self, name: &ObjectName, kind: MacroKind) -> ControlFlow<()> {
        self.found = self.expander.find(name, kind).is_some();
        if self.found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl VisitorMut for Finder<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) => self.look(&function.name, MacroKind::Scalar),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
                self.look(name, MacroKind::Table)
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// The names in a body that stand for relations, in lower case.
#[derive(Default)]
struct Relations {
    /// All of them.
    names: BTreeSet<String>,
    /// Those of WITH clauses.
    queries: BTreeSet<String>,
}

impl VisitorMut for Relations {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.queries.extend(ctes.map(|cte| cte.alias.name.value.to_lowercase()));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.names.extend(crate::ast::names::name_of(factor).map(|n| n.value.to_lowercase()));
        ControlFlow::Continue(())
    }
}

/// Says of the tables in a body which ones they are: those of the macro's schema, or else of its
/// database. Whoever calls may have others of the same names.
struct Locator<'a> {
    expander: &'a Expander<'a>,
    queries: &'a BTreeSet<String>,
    result: Result<()>,
}

impl VisitorMut for Locator<'_> {
    type Break = ();

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, args: None, alias, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let Expander { view, schema, .. } = self.expander;
        let located = match name.0.as_slice() {
            [ObjectNamePart::Identifier(table)]
                if !self.queries.contains(&table.value.to_lowercase()) =>
            {
                (table, view.locate(*schema, &table.value))
            }
            [ObjectNamePart::Identifier(schema), ObjectNamePart::Identifier(table)] => {
                (table, view.locate_in(&schema.value, &table.value))
            }
            _ => return ControlFlow::Continue(()),
        };
        match located {
            (table, Ok(Some(path))) => {
                alias.get_or_insert_with(|| build::alias(table));
                *name = build::name(&path.each_ref().map(String::as_str));
                ControlFlow::Continue(())
            }
            (_, Ok(None)) => ControlFlow::Continue(()),
            (_, Err(error)) => {
                self.result = Err(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// How many expressions there are, and how many inside of one another.
#[derive(Default)]
struct Count {
    all: usize,
    depth: usize,
    deepest: usize,
}

impl VisitorMut for Count {
    type Break = ();

    fn pre_visit_expr(&mut self, _expr: &mut Expr) -> ControlFlow<()> {
        self.all += 1;
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _expr: &mut Expr) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}
