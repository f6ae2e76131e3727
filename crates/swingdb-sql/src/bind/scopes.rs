//! Names in the scope of their own query: what a name with a schema before it belongs to, and which
//! column a plain name means that is written in another case.
//!
//! The query engine compares only those parts of a qualified name that both sides have: to it
//! `nosuch.t.a` is `t.a` wherever `t` was named without a schema. And it knows columns by their
//! exact spelling, which [`identifiers`](super::identifiers) gives them from all names of the
//! statement together. This pass runs before, and looks at each query with its own FROM clause:
//!
//! * `a.b.c` means the relation `a.b` or the field `c` of `a.b`; what means neither is an error,
//!   and what the engine would mistake is written as `(a.b)['c']`.
//! * A plain name is the column that one relation of the nearest FROM clause has; in another case
//!   in two of them it is ambiguous. A column goes before a name that the SELECT list gives, but in
//!   ORDER BY that name goes first.
//!
//! [`from_columns`] tells the columns of relations, of WITH queries and subqueries too. A subquery
//! whose columns get their names by later passes is bound as a statement of its own, in a second
//! walk, and only if a plain name may be one of them and the statement spells that name in several
//! ways (see [`Lookahead`]). Where the columns cannot be known, plain names are left to the other
//! passes.

pub(crate) mod spellings;

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use arrow::datatypes::Schema;
use datafusion::common::TableReference;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, FromTable, Ident, Join, JoinConstraint, JoinOperator, LambdaFunction,
    ObjectName, ObjectNamePart, OrderByKind, Query, Select, SelectItem, SetExpr, Statement,
    Subscript, TableAlias, TableFactor, TableObject, TableWithJoins, UpdateTableFromKind, Value,
    VisitorMut,
};
use swingdb_common::error::{Error, ObjectKind, Result};

use crate::ast::names::{CATALOG, SCHEMA};
use crate::ast::walk::walk_mut;
use crate::ast::{build, insert};
use crate::bind::catalogs::{Found, Source};
use crate::bind::columns::names_of;
use crate::bind::from_columns;
use crate::bind::lookahead::Lookahead;
use crate::bind::system::names::PG_CATALOG;
use crate::bind::with_clauses::Withs;

/// Resolves the names of a statement in their scopes.
pub(crate) fn resolve(planner: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    let mut resolver = Resolver::new(planner, false);
    // Breaks only with an error, which the resolver keeps.
    let _ = walk_mut(statement, &mut resolver);
    if let Some(error) = resolver.failed {
        return Err(error);
    }
    if !spellings::are_several(planner, statement, &resolver.left) {
        return Ok(());
    }
    let mut resolver = Resolver::new(planner, true);
    let _ = walk_mut(statement, &mut resolver);
    resolver.failed.map_or(Ok(()), Err)
}

/// What a FROM clause names.
struct Relation {
    /// What expressions call it.
    name: String,
    /// Its database, by all its names, and its schema; none of an alias.
    place: Option<(Vec<String>, String)>,
    /// The names of its columns, where they are known.
    columns: Option<Vec<String>>,
    /// The other side of a SEMI or ANTI JOIN: only its qualified names can be written.
    hidden: bool,
}

impl Relation {
    fn is_called(&self, qualifiers: &[Ident]) -> bool {
        let same = |ident: &Ident, name: &str| ident.value.eq_ignore_ascii_case(name);
        let is_schema = |ident: &Ident| match &self.place {
            Some((databases, schema)) => {
                same(ident, schema)
                    || schema == SCHEMA && databases.iter().any(|name| same(ident, name))
            }
            None => false,
        };
        match qualifiers {
            [table] => same(table, &self.name),
            [schema, table] => same(table, &self.name) && is_schema(schema),
            [database, schema, table] => {
                let placed = self.place.as_ref().is_some_and(|(databases, name)| {
                    same(schema, name) && databases.iter().any(|name| same(database, name))
                });
                same(table, &self.name) && placed
            }
            _ => false,
        }
    }

    /// Whether it has such a column, or may have.
    fn may_have(&self, column: &Ident) -> bool {
        let columns = self.columns.as_ref();
        columns.is_none_or(|columns| columns.iter().any(|c| c.eq_ignore_ascii_case(&column.value)))
    }
}

/// What the expressions of one query, or of one change, see.
#[derive(Default)]
struct Scope {
    relations: Vec<Relation>,
    /// Columns that USING or NATURAL makes one of two.
    merged: BTreeSet<String>,
    /// Plain names mean something else here: both sides of a MERGE, the rows of a change.
    open: bool,
    /// A query whose SELECT has not been entered yet.
    awaits_select: bool,
}

struct Resolver<'a> {
    planner: &'a dyn Lookahead,
    scopes: Vec<Scope>,
    /// Parameters of the lambdas around.
    parameters: Vec<String>,
    /// The WITH clauses around.
    withs: Withs,
    /// Whether subqueries are bound to know their columns.
    asks: bool,
    /// Plain names that were left to other passes, in lower case.
    left: BTreeSet<String>,
    failed: Option<Error>,
}

impl<'a> Resolver<'a> {
    /// `asks`: subqueries are bound to know their columns.
    fn new(planner: &'a dyn Lookahead, asks: bool) -> Self {
        let (scopes, parameters) = (Vec::new(), Vec::new());
        let (withs, left) = Default::default();
        Self { planner, scopes, parameters, withs, asks, left, failed: None }
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

    fn scope_of(&self, from: &[TableWithJoins]) -> Scope {
        let mut scope = Scope::default();
        from.iter().for_each(|from| self.add_joined(&mut scope, from));
        scope
    }

    fn add_joined(&self, scope: &mut Scope, from: &TableWithJoins) {
        let first = scope.relations.len();
        self.add(scope, &from.relation);
        for Join { relation, join_operator, .. } in &from.joins {
            let right = scope.relations.len();
            self.add(scope, relation);
            use JoinOperator as J;
            let hidden = match join_operator {
                J::Semi(_) | J::LeftSemi(_) | J::Anti(_) | J::LeftAnti(_) => {
                    right..scope.relations.len()
                }
                J::RightSemi(_) | J::RightAnti(_) => first..right,
                _ => 0..0,
            };
            scope.relations[hidden].iter_mut().for_each(|relation| relation.hidden = true);
            match constraint(join_operator) {
                Some(JoinConstraint::Using(names)) => {
                    scope.merged.extend(names.iter().map(|name| plain(name).to_lowercase()));
                }
                Some(JoinConstraint::Natural) => {
                    let columns = |relations: &[Relation]| -> BTreeSet<String> {
                        let all = relations.iter().filter_map(|relation| relation.columns.as_ref());
                        all.flatten().map(|name| name.to_lowercase()).collect()
                    };
                    let left = columns(&scope.relations[first..right]);
                    let right = columns(&scope.relations[right..]);
                    scope.merged.extend(left.intersection(&right).cloned());
                }
                _ => {}
            }
        }
    }

    fn add(&self, scope: &mut Scope, factor: &TableFactor) {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
            return self.add_joined(scope, table_with_joins);
        }
        let mut relation = self.relation(factor);
        if relation.columns.is_none() {
            relation.columns = match self.asks {
                true => names_of(self.planner, &self.withs, factor),
                false => from_columns::names(self.planner, &self.withs, factor),
            };
        }
        scope.relations.push(relation);
    }

    fn relation(&self, factor: &TableFactor) -> Relation {
        let (name, alias) = match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                return self.table(name, alias.as_ref());
            }
            TableFactor::Table { name, alias, .. } | TableFactor::Function { name, alias, .. } => {
                (plain(name), alias)
            }
            TableFactor::Derived { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. }
            | TableFactor::Pivot { alias, .. }
            | TableFactor::Unpivot { alias, .. } => (String::new(), alias),
            _ => (String::new(), &None),
        };
        let name = alias.as_ref().map_or(name, |alias| alias.name.value.clone());
        Relation { name, place: None, columns: None, hidden: false }
    }

    fn table(&self, name: &ObjectName, alias: Option<&TableAlias>) -> Relation {
        let mut relation = Relation {
            name: alias.map_or_else(|| plain(name), |alias| alias.name.value.clone()),
            place: None,
            columns: None,
            hidden: false,
        };
        let Ok(reference) = object_name_to_table_reference(name.clone(), false) else {
            return relation;
        };
        let is_query = matches!(&reference, TableReference::Bare { table }
            if self.withs.has(table));
        if is_query {
            return relation;
        }
        // Whatever cannot be looked up fails where it is planned.
        let (source, columns) = match self.planner.view().find(&reference) {
            Ok(Some(Found::Table { table, source, .. })) => {
                let columns = table.columns().iter().map(|column| column.name.clone());
                (Some(source), Some(columns.collect()))
            }
            Ok(Some(Found::View { source, .. })) => {
                let schema = self.planner.columns(&reference).ok().flatten();
                let names = schema.map(|schema| names(&schema));
                (Some(source), names)
            }
            Ok(Some(Found::Registered(provider))) => (None, Some(names(&provider.schema()))),
            _ => (None, None),
        };
        let renamed = alias.is_some_and(|alias| !alias.columns.is_empty());
        relation.columns = if renamed { None } else { columns };
        if alias.is_none() {
            relation.place = match source {
                Some(source) => Some(self.place(&source, &reference)),
                None => self.place_of_described(&reference),
            };
        }
        relation
    }

    /// The names of a table's database, and its schema.
    fn place(&self, source: &Source, reference: &TableReference) -> (Vec<String>, String) {
        let view = self.planner.view();
        let mut databases = vec![source.name.clone()];
        if source.name == view.main.name {
            databases.push(CATALOG.to_string());
            databases.extend(view.database_name.clone());
        }
        let schema = match reference {
            TableReference::Bare { .. } => SCHEMA.to_string(),
            TableReference::Full { schema, .. } => schema.to_string(),
            TableReference::Partial { schema, .. } => {
                let known = source.catalog.schema_names();
                let is_schema = known.iter().any(|name| name.eq_ignore_ascii_case(schema));
                if is_schema { schema.to_string() } else { SCHEMA.to_string() }
            }
        };
        (databases, schema)
    }

    /// The same of a table that tells of others, `pg_catalog.pg_class.relname`, and of a registered
    /// one where these are found in `main`.
    fn place_of_described(&self, reference: &TableReference) -> Option<(Vec<String>, String)> {
        let view = self.planner.view();
        let schema = match view.find(reference) {
            Ok(Some(Found::System(_) | Found::Information(_))) => {
                reference.schema().unwrap_or(PG_CATALOG)
            }
            Ok(Some(Found::Registered(_))) if view.registered_in_main => SCHEMA,
            _ => return None,
        };
        let databases = [view.main.name.clone(), CATALOG.to_string()].into_iter();
        Some((databases.chain(view.database_name.clone()).collect(), schema.to_string()))
    }

    /// A name of several parts.
    fn qualified(&self, parts: &[Ident]) -> Result<Option<Expr>> {
        if parts.len() < 3 || parts[0].value.starts_with('@') {
            return Ok(None);
        }
        let relations = || self.scopes.iter().rev().flat_map(|scope| &scope.relations);
        let fits = |before: usize| {
            let (qualifiers, column) = (&parts[..before], &parts[before]);
            relations().any(|relation| relation.is_called(qualifiers) && relation.may_have(column))
        };
        // What the engine takes a name for, whatever its schema is called.
        let mistaken = |before: usize| {
            let (table, column) = (&parts[before - 1], &parts[before]);
            relations().any(|relation| {
                relation.name.eq_ignore_ascii_case(&table.value) && relation.may_have(column)
            })
        };
        let most = (parts.len() - 1).min(3);
        let is_column = relations().any(|relation| {
            relation.columns.is_some() && !relation.hidden && relation.may_have(&parts[0])
        });
        let meant = (1..=most).rev().find(|before| fits(*before)).or(is_column.then_some(0));
        let taken = (2..=most).rev().find(|before| mistaken(*before));
        match (meant, taken) {
            (None, Some(before)) => {
                let name = parts[..before].iter().map(|part| part.value.as_str());
                let name = name.collect::<Vec<_>>().join(".");
                let known = relations().map(|relation| relation.name.as_str());
                Err(Error::not_found(ObjectKind::Table, name, known))
            }
            (Some(meant), Some(taken)) if meant < taken => Ok(Some(member(parts, meant))),
            _ => Ok(None),
        }
    }

    /// A column with its relation before it.
    fn of_relation(&mut self, parts: &mut [Ident]) {
        let [relation, column] = parts else { return };
        let relations = self.scopes.iter().rev().flat_map(|scope| &scope.relations);
        let called = std::slice::from_ref(&*relation);
        let Some(found) = relations.into_iter().find(|found| found.is_called(called)) else {
            return;
        };
        let Some(columns) = &found.columns else {
            self.left.insert(column.value.to_lowercase());
            return;
        };
        let mut alike = columns.iter().filter(|name| name.eq_ignore_ascii_case(&column.value));
        if let (Some(name), None) = (alike.next(), alike.next())
            && column.quote_style.is_none()
            && column.value != *name
        {
            *column = Ident::with_quote('"', name.as_str());
        }
    }

    /// Whether a name is that of a parameter of a lambda around: it goes before any relation.
    fn is_parameter(&self, name: Option<&Ident>) -> bool {
        let is_so_named = |name: &Ident| {
            self.parameters.iter().any(|parameter| parameter.eq_ignore_ascii_case(&name.value))
        };
        name.is_some_and(is_so_named)
    }

    /// A name without anything before it.
    fn plain_name(&mut self, ident: &mut Ident) -> Result<()> {
        if ident.quote_style.is_some() || self.is_parameter(Some(ident)) {
            return Ok(());
        }
        for scope in self.scopes.iter().rev() {
            if scope.open {
                return Ok(());
            }
            let seen = || scope.relations.iter().filter(|relation| !relation.hidden);
            let spelled: BTreeSet<&String> = seen()
                .filter_map(|relation| relation.columns.as_ref())
                .flatten()
                .filter(|name| name.eq_ignore_ascii_case(&ident.value))
                .collect();
            let known = seen().all(|relation| relation.columns.is_some());
            let mut spellings = spelled.iter();
            match (spellings.next(), spellings.next()) {
                (None, _) if known => continue,
                (None, _) => {
                    self.left.insert(ident.value.to_lowercase());
                    return Ok(());
                }
                (Some(first), Some(second)) => {
                    // Of one relation: the exact one, or the other passes' error.
                    let one = |relation: &Relation| {
                        let columns = relation.columns.iter().flatten();
                        columns.filter(|name| spelled.contains(name)).count() > 1
                    };
                    if seen().any(one) || scope.merged.contains(&ident.value.to_lowercase()) {
                        return Ok(());
                    }
                    return Err(Error::plan(format!(
                        "column {ident} is ambiguous: there are {first:?} and {second:?}; write \
                         the name of a table before it"
                    )));
                }
                (Some(name), None) => {
                    if known && ident.value != ***name {
                        *ident = Ident::with_quote('"', name.as_str());
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn change(&self, statement: &Statement) -> Option<Scope> {
        let mut scope = match statement {
            Statement::Update(update) => {
                let mut scope = self.scope_of(std::slice::from_ref(&update.table));
                if let Some(
                    UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from),
                ) = &update.from
                {
                    scope.relations.extend(self.scope_of(from).relations);
                }
                scope
            }
            Statement::Delete(delete) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) =
                    &delete.from;
                let mut scope = self.scope_of(from);
                let using = delete.using.as_deref().unwrap_or_default();
                scope.relations.extend(self.scope_of(using).relations);
                scope
            }
            Statement::Merge(merge) => {
                let mut scope = Scope::default();
                self.add(&mut scope, &merge.table);
                self.add(&mut scope, &merge.source);
                scope
            }
            Statement::Insert(insert) => {
                let mut scope = Scope::default();
                if let TableObject::TableName(name) = &insert.table {
                    let alias = insert::alias(insert).map(|alias| build::alias(&alias));
                    scope.relations.push(self.table(name, alias.as_ref()));
                }
                scope
            }
            _ => return None,
        };
        scope.open = true;
        Some(scope)
    }
}

fn names(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

/// The fields of a column, one after the other.
fn member(parts: &[Ident], before: usize) -> Expr {
    let root = match &parts[..=before] {
        [column] => Expr::Identifier(column.clone()),
        path => Expr::CompoundIdentifier(path.to_vec()),
    };
    let fields = parts[before + 1..].iter().map(|field| {
        let name = Value::SingleQuotedString(field.value.clone());
        let index = Expr::Value(name.with_empty_span());
        AccessExpr::Subscript(Subscript::Index { index })
    });
    Expr::CompoundFieldAccess { root: Box::new(root), access_chain: fields.collect() }
}

/// The last part of a name.
fn plain(name: &ObjectName) -> String {
    let last = name.0.last().and_then(ObjectNamePart::as_ident);
    last.map(|ident| ident.value.clone()).unwrap_or_default()
}

fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    use JoinOperator as J;
    match operator {
        J::Join(c) | J::Inner(c) | J::Left(c) | J::LeftOuter(c) | J::Right(c) => Some(c),
        J::RightOuter(c) | J::FullOuter(c) => Some(c),
        J::AsOf { match_condition: _, constraint: c } => Some(c),
        _ => None,
    }
}

/// A key of ORDER BY that is nothing but a name means what the SELECT list calls so.
fn order_by_names(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let items: Vec<(&Ident, Expr)> = select.projection.iter().filter_map(named).collect();
    let Some(OrderByKind::Expressions(keys)) = query.order_by.as_mut().map(|order| &mut order.kind)
    else {
        return;
    };
    for key in keys {
        if let Expr::Identifier(ident) = &key.expr
            && ident.quote_style.is_none()
        {
            let is = |name: &Ident| name.value.eq_ignore_ascii_case(&ident.value);
            let mut alike = items.iter().filter(|(name, _)| is(name));
            if let (Some((_, meant)), None) = (alike.next(), alike.next()) {
                key.expr = meant.clone();
            }
        }
    }
}

/// What an item of a SELECT list is called, and what means it in ORDER BY.
fn named(item: &SelectItem) -> Option<(&Ident, Expr)> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => {
            Some((alias, Expr::Identifier(Ident::with_quote('"', alias.value.as_str()))))
        }
        SelectItem::UnnamedExpr(expr @ Expr::Identifier(name)) => Some((name, expr.clone())),
        SelectItem::UnnamedExpr(expr @ Expr::CompoundIdentifier(parts)) => {
            Some((parts.last()?, expr.clone()))
        }
        _ => None,
    }
}

impl VisitorMut for Resolver<'_> {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        let scope = self.change(statement);
        self.scopes.extend(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        let pushed = matches!(
            statement,
            Statement::Update(_)
                | Statement::Delete(_)
                | Statement::Merge(_)
                | Statement::Insert(_)
        );
        if pushed {
            self.scopes.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.withs.enter(query);
        order_by_names(query);
        let scope = match query.body.as_ref() {
            SetExpr::Select(select) => Scope { awaits_select: true, ..self.scope_of(&select.from) },
            _ => Scope { open: true, ..Scope::default() },
        };
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.withs.leave();
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        match self.scopes.last_mut() {
            Some(scope) if scope.awaits_select => scope.awaits_select = false,
            _ => {
                let scope = self.scope_of(&select.from);
                self.scopes.push(scope);
                return ControlFlow::Continue(());
            }
        }
        // Left by the query itself.
        self.scopes.push(Scope::default());
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let result = match expr {
            Expr::Lambda(LambdaFunction { params, .. }) => {
                self.parameters.extend(params.iter().map(|param| param.name.value.clone()));
                Ok(())
            }
            Expr::Identifier(ident) => self.plain_name(ident),
            Expr::CompoundIdentifier(parts) if self.is_parameter(parts.first()) => {
                *expr = member(parts, 0);
                Ok(())
            }
            Expr::CompoundIdentifier(parts) if parts.len() == 2 => {
                self.of_relation(parts);
                Ok(())
            }
            Expr::CompoundIdentifier(parts) => match self.qualified(parts) {
                Ok(Some(member)) => {
                    *expr = member;
                    Ok(())
                }
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            },
            _ => Ok(()),
        };
        self.keep(result)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Lambda(LambdaFunction { params, .. }) = expr {
            let left = self.parameters.len().saturating_sub(params.len());
            self.parameters.truncate(left);
        }
        ControlFlow::Continue(())
    }
}
