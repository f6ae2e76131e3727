//! Identifiers without regard to case, and names for unnamed columns.
//!
//! Names keep the case they were created with. [`resolve`] goes over a statement before it is
//! planned: an unquoted identifier that equals no known name, but equals exactly one but for case,
//! is replaced by that one, quoted. Known are the columns of every table the statement mentions,
//! its aliases and its common table expressions. Of names that differ only in case, `t.id` is
//! the one of the table or alias `t`. Quoted identifiers are left alone.
//!
//! An expression in a SELECT list that has no alias is named by its text (`sum(a)`); of several
//! equal names the later ones get a number (`a_1`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use arrow::datatypes::{DataType, Fields};
use datafusion::common::TableReference;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Query, Select, SelectFlavor,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, TableFactor, TableWithJoins,
    Visit, Visitor, VisitorMut, WildcardAdditionalOptions,
};
use swingdb_common::error::{Error, Result};
use swingdb_common::names::free_name;
use swingdb_files::table::is_file_function;

use crate::ast::build::is_named;
use crate::ast::names::{constraint_mut, name_of, written_name};
use crate::ast::shown_names::{are_same, column_name};
use crate::ast::walk::walk_mut;
use crate::bind::columns::names_of;
use crate::bind::lookahead::Lookahead;
use crate::bind::reused_aliases;
use crate::bind::reused_aliases::Names;
use crate::bind::system;
use crate::bind::with_clauses::Withs;

/// Replaces identifiers that differ from what they mean only in case, and names unnamed columns.
pub(crate) fn resolve(planner: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    let (known, names) = (Known::default(), Names::default());
    let mut collector = Collector { planner, known, names, alias: None, made: None, failed: None };
    // The collector breaks only with an error, which it keeps.
    let _ = Visit::visit(statement, &mut collector);
    if let Some(error) = collector.failed {
        return Err(error);
    }
    let _ = walk_mut(statement, &mut Fixer { known: collector.known, names: collector.names });
    Ok(())
}

/// Names by their lower-case form.
#[derive(Default)]
struct Known {
    names: BTreeMap<String, BTreeSet<String>>,
    /// Names of common table expressions, which stand where tables do.
    queries: BTreeMap<String, BTreeSet<String>>,
    /// The columns of each table and alias of one.
    columns: BTreeMap<String, BTreeSet<String>>,
    /// Names of relations whose columns are not known.
    opaque: BTreeSet<String>,
}

impl Known {
    fn add(&mut self, name: &str) {
        self.names.entry(name.to_lowercase()).or_default().insert(name.to_string());
    }

    fn add_fields(&mut self, fields: &Fields) {
        for field in fields {
            self.add(field.name());
            if let DataType::Struct(inner) = field.data_type() {
                self.add_fields(inner);
            }
        }
    }

    fn fix(names: &BTreeMap<String, BTreeSet<String>>, ident: &mut Ident) {
        if ident.quote_style.is_some() {
            return;
        }
        let Some(candidates) = names.get(&ident.value.to_lowercase()) else { return };
        if candidates.contains(&ident.value) || candidates.len() != 1 {
            return;
        }
        if let Some(name) = candidates.first() {
            ident.value.clone_from(name);
            ident.quote_style = Some('"');
        }
    }

    fn fix_ident(&self, ident: &mut Ident) {
        Self::fix(&self.names, ident);
    }

    /// Whether no other known name differs from this one in case only.
    fn is_only(&self, ident: &Ident) -> bool {
        self.names.get(&ident.value.to_lowercase()).is_some_and(|candidates| candidates.len() == 1)
    }

    fn columns_of(&self, relation: &str) -> Option<&BTreeSet<String>> {
        let known = !self.opaque.contains(relation) && !self.queries.contains_key(relation);
        self.columns.get(relation).filter(|_| known)
    }

    /// A name with what it belongs to before it.
    fn fix_path(&self, parts: &mut [Ident]) {
        for at in 0..parts.len() {
            let (before, rest) = parts.split_at_mut(at);
            let Some(ident) = rest.first_mut() else { continue };
            let columns = before.last().and_then(|of| self.columns_of(&of.value.to_lowercase()));
            if !columns.is_some_and(|columns| fix_column(columns, ident)) {
                self.fix_ident(ident);
            }
        }
    }

    fn fix_name(&self, name: &mut ObjectName) {
        for part in &mut name.0 {
            if let ObjectNamePart::Identifier(ident) = part {
                self.fix_ident(ident);
            }
        }
    }
}

/// Gives a name the case of the one column that it can mean, if there is one.
fn fix_column(columns: &BTreeSet<String>, ident: &mut Ident) -> bool {
    if ident.quote_style.is_some() {
        return false;
    }
    let mut alike = columns.iter().filter(|name| name.eq_ignore_ascii_case(&ident.value));
    let (Some(name), None) = (alike.next(), alike.next()) else { return false };
    if *name != ident.value {
        *ident = Ident::with_quote('"', name);
    }
    true
}

struct Collector<'a> {
    planner: &'a dyn Lookahead,
    known: Known,
    names: Names,
    /// What qualifies the columns of the relation that is visited next.
    alias: Option<String>,
    /// The name that the statement gives to what it makes, until it is visited: it is no file's.
    made: Option<ObjectName>,
    failed: Option<Error>,
}

impl Collector<'_> {
    /// Adds the columns that a function of files or of catalogs gives. One that fails does so again
    /// later.
    fn add_function(&mut self, factor: &TableFactor) {
        let TableFactor::Table { name, alias, args: Some(_), .. } = factor else { return };
        let function = name.to_string().to_lowercase();
        if !is_file_function(&function) && !system::names::is_function(&function) {
            return;
        }
        let names = names_of(self.planner, &Withs::default(), factor).unwrap_or_default();
        for name in &names {
            self.known.add(name);
            self.names.add_column(name);
        }
        let called = alias.as_ref().map(|alias| alias.name.value.to_lowercase());
        self.known.columns.entry(called.unwrap_or(function)).or_default().extend(names);
    }

    fn add_table(&mut self, name: &ObjectName) -> Result<()> {
        let alias = self.alias.take();
        let is_made = self.made.take_if(|made| made == name).is_some();
        let Ok(reference) = object_name_to_table_reference(name.clone(), false) else {
            return Ok(());
        };
        let is_query = matches!(&reference, TableReference::Bare { table }
            if self.known.queries.contains_key(&table.to_lowercase()));
        if is_query || is_made && self.planner.view().find(&reference)?.is_none() {
            return Ok(());
        }
        if let Some(schema) = self.planner.columns(&reference)? {
            for part in [Some(reference.table()), reference.schema(), reference.catalog()] {
                part.into_iter().for_each(|name| self.known.add(name));
            }
            self.known.add_fields(schema.fields());
            let alias = alias.unwrap_or_else(|| reference.table().to_lowercase());
            let columns = self.known.columns.entry(alias).or_default();
            columns.extend(schema.fields().iter().map(|field| field.name().clone()));
            schema.fields().iter().for_each(|field| self.names.add_column(field.name()));
        }
        Ok(())
    }
}

impl Visitor for Collector<'_> {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<()> {
        self.made = match statement {
            Statement::CreateTable(create) => Some(create.name.clone()),
            Statement::CreateView(create) => Some(create.name.clone()),
            _ => None,
        };
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = &cte.alias.name.value;
            self.known.add(name);
            let queries = self.known.queries.entry(name.to_lowercase()).or_default();
            queries.insert(name.clone());
            for column in &cte.alias.columns {
                self.known.add(&column.name.value);
                self.names.add_column(&column.name.value);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.known.add(&alias.value);
                self.names.add_alias(&alias.value);
            }
        }
        for window in &select.named_window {
            self.known.add(&window.0.value);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let alias = match factor {
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => alias,
            _ => &None,
        };
        self.alias = match (factor, alias) {
            (TableFactor::Table { .. }, Some(alias)) if alias.columns.is_empty() => {
                Some(alias.name.value.to_lowercase())
            }
            (_, Some(alias)) => {
                self.known.opaque.insert(alias.name.value.to_lowercase());
                None
            }
            _ => None,
        };
        self.names.open |= match factor {
            TableFactor::Table { args: None, .. }
            | TableFactor::Derived { .. }
            | TableFactor::NestedJoin { .. } => false,
            // A column of each list, if all have names.
            TableFactor::UNNEST { alias: Some(alias), array_exprs, .. } => {
                alias.columns.len() != array_exprs.len()
            }
            _ => true,
        };
        if let Some(alias) = alias {
            self.known.add(&alias.name.value);
            for column in &alias.columns {
                self.known.add(&column.name.value);
                self.names.add_column(&column.name.value);
            }
        }
        self.add_function(factor);
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        match self.add_table(relation) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Lambda(lambda) = expr {
            lambda.params.iter().for_each(|p| self.known.add(&p.name.value));
        }
        ControlFlow::Continue(())
    }
}

struct Fixer {
    known: Known,
    names: Names,
}

impl Fixer {
    fn fix_item(&self, item: &mut SelectItem) {
        let options = match item {
            SelectItem::Wildcard(options) => options,
            SelectItem::QualifiedWildcard(kind, options) => {
                if let SelectItemQualifiedWildcardKind::ObjectName(name) = kind {
                    self.known.fix_name(name);
                }
                options
            }
            _ => return,
        };
        match &mut options.opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => self.known.fix_name(name),
            Some(ExcludeSelectItem::Multiple(names)) => {
                names.iter_mut().for_each(|name| self.known.fix_name(name));
            }
            None => {}
        }
        if let Some(except) = &mut options.opt_except {
            self.known.fix_ident(&mut except.first_element);
            except.additional_elements.iter_mut().for_each(|i| self.known.fix_ident(i));
        }
        if let Some(replace) = &mut options.opt_replace {
            replace.items.iter_mut().for_each(|i| self.known.fix_ident(&mut i.column_name));
        }
    }

    /// Quotes the names of USING that both sides can only spell so.
    fn fix_join(&self, operator: &mut JoinOperator) {
        if let Some(JoinConstraint::Using(names)) = constraint_mut(operator) {
            for name in names {
                self.known.fix_name(name);
                if let [ObjectNamePart::Identifier(ident)] = name.0.as_mut_slice()
                    && !self.names.open
                    && self.known.is_only(ident)
                {
                    ident.quote_style = Some('"');
                }
            }
        }
    }
}

impl VisitorMut for Fixer {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
            select.flavor = SelectFlavor::Standard;
        }
        select.projection.iter_mut().for_each(|item| self.fix_item(item));
        for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
            self.fix_join(&mut join.join_operator);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        reused_aliases::expand(select, &self.names);
        name_parts(select);
        name_columns(&mut select.projection, false);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::SetOperation { left, right, .. } = query.body.as_mut() {
            name_united(left);
            name_united(right);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        // The name of a table is looked up without regard to case anyway; a query's is not.
        if let [ObjectNamePart::Identifier(ident)] = relation.0.as_mut_slice() {
            Known::fix(&self.known.queries, ident);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(ident) => self.known.fix_ident(ident),
            Expr::CompoundIdentifier(parts) => self.known.fix_path(parts),
            Expr::QualifiedWildcard(name, _) => self.known.fix_name(name),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Names columns of relations around a query, `LATERAL (SELECT x.a)`, and fields of structs after
/// their last part. The engine calls them `outer_ref(x.a)` and `t.x[a]`.
fn name_parts(select: &mut Select) {
    let mut own = Vec::new();
    if !select.from.iter().all(|from| names_in(from, &mut own)) {
        return;
    }
    let is_own = |of: &Ident| own.iter().any(|own| own.eq_ignore_ascii_case(&of.value));
    let is_part = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
            let [of, name] = parts.as_slice() else { return None };
            (!is_own(of)).then(|| name.clone())
        }
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => own.is_empty().then(|| name.clone()),
        _ => None,
    };
    for at in 0..select.projection.len() {
        let Some(alias) = is_part(&select.projection[at]) else { continue };
        let is_called = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { alias: other, .. } => are_same(&other.value, &alias.value),
            SelectItem::UnnamedExpr(expr) => {
                column_name(expr).is_some_and(|name| are_same(name, &alias.value))
            }
            _ => true,
        };
        let mut others = select.projection.iter().enumerate().filter(|(other, _)| *other != at);
        if !others.any(|(_, other)| is_called(other))
            && let SelectItem::UnnamedExpr(expr) = &select.projection[at]
        {
            select.projection[at] = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// Adds the names of the relations of a FROM clause; false where one has none.
fn names_in(from: &TableWithJoins, names: &mut Vec<String>) -> bool {
    let mut joined = from.joins.iter().map(|join| &join.relation);
    std::iter::once(&from.relation).chain(&mut joined).all(|factor| match factor {
        TableFactor::NestedJoin { alias: None, table_with_joins } => {
            names_in(table_with_joins, names)
        }
        factor => {
            let name = name_of(factor).map(|name| name.value.clone());
            let is_named = name.is_some();
            names.extend(name);
            is_named
        }
    })
}

/// Columns of a set operation belong to no table any more, and so need names of their own.
fn name_united(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => name_columns(&mut select.projection, true),
        SetExpr::SetOperation { left, right, .. } => {
            name_united(left);
            name_united(right);
        }
        _ => {}
    }
}

/// Gives unnamed expressions their text for a name, and equal names a number; `alone` when the name
/// of a table before it does not make a column's name another.
fn name_columns(items: &mut [SelectItem], alone: bool) {
    let mut taken = BTreeSet::new();
    // Columns that stand for themselves, and whether once without their table.
    let mut columns = BTreeMap::new();
    for item in items.iter_mut() {
        match item {
            SelectItem::ExprWithAlias { alias, .. } => {
                alias.value = free_name(&alias.value, |name| taken.insert(name.to_string()));
            }
            SelectItem::UnnamedExpr(expr) => {
                if has_many_columns(expr) {
                    continue;
                }
                let column = match expr {
                    Expr::CompoundIdentifier(parts) => parts.last().map(|i| i.value.clone()),
                    Expr::Identifier(ident) => Some(ident.value.clone()),
                    _ => None,
                };
                let text = written_name(expr);
                if let Some(column) = &column {
                    // Equal names of different tables may stand beside each other; a name without
                    // a table is that of the one column so named.
                    let whole = if alone { column } else { &text };
                    let qualified = whole != column;
                    let seen = columns.get(column).copied();
                    let known = seen.is_some_and(|plain| plain || !qualified);
                    columns.insert(column.clone(), !qualified || seen == Some(true));
                    if !known && taken.insert(whole.clone()) {
                        continue;
                    }
                    // The same column under its own name again would be the same name again.
                    taken.insert(column.clone());
                }
                let base = column.unwrap_or(text);
                let name = free_name(&base, |name| taken.insert(name.to_string()));
                let alias = Ident::with_quote('"', name);
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
            _ => {}
        }
    }
}

/// Calls whose value is a list for sure. Of a struct `unnest` makes several columns.
const LISTS: [&str; 6] =
    ["list", "array_agg", "range", "generate_series", "string_split", "list_value"];

fn unnests_list(call: &Function) -> bool {
    let FunctionArguments::List(list) = &call.args else { return false };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(_)))] => true,
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(of)))] => {
            LISTS.iter().any(|list| is_named(&of.name, list))
        }
        _ => false,
    }
}

/// Whether an expression can stand for several columns, so that one name does not fit.
fn has_many_columns(expr: &Expr) -> bool {
    match expr {
        Expr::Function(call) => is_named(&call.name, "unnest") && !unnests_list(call),
        Expr::Wildcard(_) | Expr::QualifiedWildcard(..) => true,
        _ => false,
    }
}
