//! The columns of FROM clauses: what the scopes of all passes are made of.
//!
//! [`known`] reads them from the catalogs and the syntax tree: tables, views, files and registered
//! data are in the catalogs; a subquery, or a query of WITH, has the columns that its SELECT list
//! says; [`using_joins`] tells what USING and NATURAL merge. Queries of WITH are looked up where
//! they can be seen.
//!
//! Names of expressions without an alias, and lists that name a column twice, get their final names
//! by later passes. [`of_bound`] reads the columns of a query that all passes have gone over, where
//! each item says its name. What is left is a relation that a function makes, if nothing names its
//! columns: only a call of that function tells them.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, TableReference};
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Query,
    Select, SelectFlavor, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, SetOperator,
    Statement, TableAlias, TableFactor, TableWithJoins, Visit, Visitor, WildcardAdditionalOptions,
    With,
};

use crate::ast::names::name_of;
use crate::ast::shown_names::{are_same, is_by_name};
use crate::ast::stars;
use crate::bind::catalogs::Found;
use crate::bind::lookahead::{Known, Lookahead};
use crate::bind::using_joins;
use crate::bind::with_clauses::Withs;

/// Queries of WITH that may read one another before those are computed from the first one on, so
/// that a long chain of them does not take the whole stack.
const DEEPEST_CHAIN: usize = 32;

/// The columns of `SELECT item FROM from`, inside of queries with these WITH clauses, as far as the
/// catalogs and the text tell.
pub(crate) fn known(
    planner: &dyn Lookahead,
    around: &Withs,
    item: &SelectItem,
    from: &[TableWithJoins],
) -> Option<Known> {
    let scope = Scope::new(planner, around.levels(), false);
    scope.of_item(&scope.of_from(from)?, item)
}

/// The names of a relation's columns, as [`known`] tells them.
pub(crate) fn names(
    planner: &dyn Lookahead,
    around: &Withs,
    factor: &TableFactor,
) -> Option<Vec<String>> {
    let scope = Scope::new(planner, around.levels(), false);
    let columns = scope.of_factor(factor)?.into_iter();
    Some(columns.map(|(column, _)| column.name).collect())
}

/// The columns of a query that has been bound.
pub(crate) fn of_bound(planner: &dyn Lookahead, statement: &Statement) -> Option<Known> {
    let Statement::Query(query) = statement else { return None };
    Scope::new(planner, Vec::new(), true).of_query(query)
}

/// What a FROM clause may name.
struct Scope<'a> {
    planner: &'a dyn Lookahead,
    /// The queries of WITH that can be seen, by their clauses, the outermost first.
    levels: Vec<&'a [Cte]>,
    /// The columns of those that have been looked at, by their places in memory.
    looked_at: Rc<RefCell<HashMap<*const Cte, Option<Known>>>>,
    /// Whether names have been resolved, and columns listed.
    bound: bool,
    /// How many queries of WITH are being looked at, one for the other.
    depth: usize,
}

impl<'a> Scope<'a> {
    fn new(planner: &'a dyn Lookahead, levels: Vec<&'a [Cte]>, bound: bool) -> Self {
        Self { planner, levels, looked_at: Rc::default(), bound, depth: 0 }
    }

    /// The same scope with other queries of WITH.
    fn with(&self, levels: Vec<&'a [Cte]>, depth: usize) -> Self {
        Self { levels, looked_at: Rc::clone(&self.looked_at), depth, ..*self }
    }

    fn of_from(&self, from: &'a [TableWithJoins]) -> Option<Known> {
        if from.is_empty() || !self.bound && !has_different_names(from) {
            return None;
        }
        let joins = from.iter().flat_map(|from| &from.joins);
        if joins.clone().any(using_joins::merges) {
            return self.merged(from);
        }
        let mut all = Known::new();
        for TableWithJoins { relation, joins } in from {
            let mut chain = self.of_factor(relation)?;
            for join in joins {
                match sides(join)? {
                    Sides::Both => chain.extend(self.of_factor(&join.relation)?),
                    Sides::Left => {}
                    Sides::Right => chain = self.of_factor(&join.relation)?,
                }
            }
            all.extend(chain);
        }
        Some(all)
    }

    /// The columns of a FROM clause with USING or NATURAL.
    fn merged(&self, from: &'a [TableWithJoins]) -> Option<Known> {
        let mut relations = Known::new();
        let mut names = Vec::new();
        for factor in from.iter().flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        }) {
            let columns = self.of_factor(factor)?;
            names.push((factor, columns.iter().map(|(column, _)| column.name.clone()).collect()));
            relations.extend(columns);
        }
        let columns_of = |factor: &TableFactor| {
            let found = names.iter().find(|(known, _)| *known == factor);
            found.map(|(_, names): &(_, Vec<String>)| names.clone())
        };
        let shown = using_joins::shown(from, &columns_of)?;
        let find = |(relation, name): (Option<TableReference>, String)| {
            let column = Column::new(relation, name);
            let of = relations.iter().find(|(known, _)| *known == column);
            let data_type = of.and_then(|(_, data_type)| data_type.clone());
            (column, data_type)
        };
        Some(shown.into_iter().map(find).collect())
    }

    fn of_factor(&self, factor: &'a TableFactor) -> Option<Known> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                with_hints,
                version: None,
                with_ordinality: false,
                partitions,
                json_path: None,
                sample: None,
                index_hints,
            } if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => {
                let (called, columns) = self.of_name(name)?;
                match alias {
                    Some(alias) => self.aliased(alias, columns),
                    None => self.called(&called, columns),
                }
            }
            TableFactor::Derived { lateral: _, subquery, alias, sample: None } => {
                let columns = self.of_query(subquery)?;
                match alias {
                    Some(alias) => self.aliased(alias, columns),
                    None => Some(columns),
                }
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                if table_with_joins.joins.iter().any(using_joins::merges) {
                    return None;
                }
                let columns = self.of_from(std::slice::from_ref(table_with_joins.as_ref()))?;
                match alias {
                    Some(alias) => self.aliased(alias, columns),
                    None => Some(columns),
                }
            }
            TableFactor::Table { args: Some(_), alias: Some(alias), sample: None, .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. }
                if !alias.columns.is_empty() =>
            {
                let names = alias.columns.iter().map(|given| given.name.value.as_str());
                let columns = names.map(|name| (Column::new_unqualified(name), None));
                self.aliased(alias, columns.collect())
            }
            _ => None,
        }
    }

    /// What a name in FROM stands for: what qualifies its columns, and these.
    fn of_name(&self, name: &ObjectName) -> Option<(TableReference, Known)> {
        if let [ObjectNamePart::Identifier(name)] = name.0.as_slice()
            && let Some((level, at)) = self.query_of_with(name)
        {
            let called = self.levels[level][at].alias.name.value.as_str();
            return Some((TableReference::bare(called), self.of_with(level, at)?));
        }
        let called = object_name_to_table_reference(name.clone(), false).ok()?;
        if let Some(Found::Information(_) | Found::System(_)) =
            self.planner.view().find(&called).ok()?
        {
            return None;
        }
        let stored = self.planner.columns(&called).ok()??;
        let columns = stored
            .fields()
            .iter()
            .map(|field| (Column::new_unqualified(field.name()), Some(field.data_type().clone())));
        Some((called, columns.collect()))
    }

    /// The clause, and the place in it, of the query of WITH that a name means.
    fn query_of_with(&self, name: &Ident) -> Option<(usize, usize)> {
        let is_called = |cte: &Cte| cte.alias.name.value.eq_ignore_ascii_case(&name.value);
        let mut levels = self.levels.iter().enumerate().rev();
        levels.find_map(|(level, ctes)| Some((level, ctes.iter().rposition(is_called)?)))
    }

    /// The columns of a query of WITH, which sees those before it.
    fn of_with(&self, level: usize, at: usize) -> Option<Known> {
        let cte = &self.levels[level][at];
        if let Some(known) = self.looked_at.borrow().get(&std::ptr::from_ref(cte)) {
            return known.clone();
        }
        if self.depth > DEEPEST_CHAIN {
            let scope = self.with(self.levels.clone(), 0);
            (0..at).for_each(|before| drop(scope.of_with(level, before)));
        }
        let mut levels = self.levels[..level].to_vec();
        levels.push(&self.levels[level][..at]);
        let columns = self.with(levels, self.depth + 1).of_query(&cte.query);
        let columns = columns.and_then(|columns| renamed(&cte.alias, columns));
        self.looked_at.borrow_mut().insert(cte, columns.clone());
        columns
    }

    /// The columns of a query, which its SELECT list names.
    fn of_query(&self, query: &'a Query) -> Option<Known> {
        if !query.pipe_operators.is_empty() {
            return None;
        }
        let Some(With { cte_tables, .. }) = &query.with else { return self.of_body(&query.body) };
        let levels = self.levels.iter().copied().chain([cte_tables.as_slice()]).collect();
        self.with(levels, self.depth).of_body(&query.body)
    }

    fn of_body(&self, body: &'a SetExpr) -> Option<Known> {
        match body {
            SetExpr::Select(select) => self.of_select(select),
            SetExpr::Query(query) => self.of_query(query),
            SetExpr::SetOperation { op, set_quantifier, left, right } => {
                let left = self.of_body(left)?.into_iter();
                let mut all: Known = left.map(|(column, _)| (column, None)).collect();
                if *op == SetOperator::Union && is_by_name(*set_quantifier) {
                    let is =
                        |one: &Column, (other, _): &(Column, _)| are_same(&one.name, &other.name);
                    for (column, _) in self.of_body(right)? {
                        if !all.iter().any(|known| is(&column, known)) {
                            all.push((column, None));
                        }
                    }
                }
                Some(all)
            }
            SetExpr::Values(values) => {
                let width = values.rows.first()?.content.len();
                let name = |place: usize| Column::new_unqualified(format!("column{place}"));
                Some((1..=width).map(|place| (name(place), None)).collect())
            }
            _ => None,
        }
    }

    fn of_select(&self, select: &'a Select) -> Option<Known> {
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            return self.distinct(self.of_from(&select.from)?);
        }
        let from = OnceCell::new();
        let from = || from.get_or_init(|| self.of_from(&select.from)).as_ref();
        let mut all = Known::with_capacity(select.projection.len());
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expr) => all.push(self.of_expr(from()?, expr)?),
                SelectItem::ExprWithAlias { expr, .. } if stands_for_several(expr) => return None,
                SelectItem::ExprWithAlias { expr, alias } => {
                    let is_column =
                        matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                    let from = if is_column { from() } else { None };
                    let meant = from.and_then(|from| self.of_expr(from, expr));
                    all.push(match meant {
                        // To the engine an alias that is the column's own name is none.
                        Some(meant) if meant.0.name == alias.value => meant,
                        other => {
                            let data_type = other.and_then(|(_, data_type)| data_type);
                            (Column::new_unqualified(alias.value.as_str()), data_type)
                        }
                    });
                }
                star => all.extend(self.of_item(from()?, star)?),
            }
        }
        self.distinct(all)
    }

    /// A relation under another name, its columns too.
    fn aliased(&self, alias: &TableAlias, columns: Known) -> Option<Known> {
        let called = TableReference::bare(alias.name.value.as_str());
        self.called(&called, renamed(alias, columns)?)
    }

    fn called(&self, called: &TableReference, columns: Known) -> Option<Known> {
        let mut columns = self.distinct(columns)?;
        for (column, _) in &mut columns {
            column.relation = Some(called.clone());
        }
        Some(columns)
    }

    /// Columns that all have names of their own: passes number the others.
    fn distinct(&self, columns: Known) -> Option<Known> {
        let names = columns.iter().map(|(column, _)| column.name.to_lowercase());
        let names = names.collect::<BTreeSet<_>>();
        (self.bound || names.len() == columns.len()).then_some(columns)
    }

    /// The columns of a star.
    fn of_item(&self, from: &Known, item: &SelectItem) -> Option<Known> {
        use SelectItemQualifiedWildcardKind::ObjectName as Of;
        let (all, options) = match item {
            SelectItem::Wildcard(options) => (from.clone(), options),
            SelectItem::QualifiedWildcard(Of(name), options) => {
                (self.of_relation(from, name)?, options)
            }
            _ => return None,
        };
        if stars::choice(options) != WildcardAdditionalOptions::default() {
            return None;
        }
        if !stars::changes(options) {
            return Some(all);
        }
        if self.bound {
            return self.of_engines_star(all, options);
        }
        let columns = all.iter().map(|(column, _)| column.clone()).collect::<Vec<_>>();
        let shown = stars::shown(options, &columns).ok()?.into_iter();
        let found = shown.map(|shown| match shown.into_item() {
            SelectItem::ExprWithAlias { alias, .. } => {
                Some((Column::new_unqualified(alias.value), None))
            }
            SelectItem::UnnamedExpr(expr) => self.of_expr(&all, &expr),
            _ => None,
        });
        found.collect()
    }

    /// The columns of a star that is left to the engine, which may show none of a relation.
    fn of_engines_star(&self, all: Known, options: &WildcardAdditionalOptions) -> Option<Known> {
        let excluded = stars::excluded(options).iter().map(|name| match name.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => Some(name.value.as_str()),
            _ => None,
        });
        let excluded = excluded.collect::<Option<Vec<_>>>()?;
        let replaced = options.opt_replace.iter().flat_map(|replace| &replace.items);
        let replaced = replaced.map(|new| new.column_name.value.as_str()).collect::<Vec<_>>();
        let left = all.into_iter().filter(|(column, _)| !excluded.contains(&column.name.as_str()));
        let shown =
            left.map(|(column, data_type)| match replaced.contains(&column.name.as_str()) {
                true => (Column::new_unqualified(column.name), None),
                false => (column, data_type),
            });
        options.opt_rename.is_none().then(|| shown.collect())
    }

    /// The columns of the relation that a name before a star means.
    fn of_relation(&self, from: &Known, name: &ObjectName) -> Option<Known> {
        let parts = name.0.iter().map(ObjectNamePart::as_ident).collect::<Option<Vec<_>>>()?;
        let same = |wanted: &Ident, part: &str| self.is(wanted, part);
        let of = from.iter().filter(|(column, _)| is_qualified(column, &parts, &same));
        let of = of.cloned().collect::<Known>();
        let relations = of.iter().map(|(column, _)| &column.relation).collect::<BTreeSet<_>>();
        (relations.len() == 1).then_some(of)
    }

    /// The column that an expression is.
    fn of_expr(&self, from: &Known, expr: &Expr) -> Option<(Column, Option<DataType>)> {
        let (before, name) = match expr {
            Expr::Identifier(name) => (&[][..], name),
            Expr::CompoundIdentifier(parts) => {
                let (name, before) = parts.split_last()?;
                (before, name)
            }
            _ => return None,
        };
        let before = before.iter().collect::<Vec<_>>();
        let same = |wanted: &Ident, part: &str| self.is(wanted, part);
        let of = || from.iter().filter(|(column, _)| is_qualified(column, &before, &same));
        let exact = of().filter(|(column, _)| column.name == name.value).collect::<Vec<_>>();
        let found = match exact.is_empty() {
            true => of().filter(|(column, _)| self.is(name, &column.name)).collect(),
            false => exact,
        };
        match found.as_slice() {
            [one] => Some((*one).clone()),
            _ => None,
        }
    }

    /// Whether a name may mean what is called so.
    fn is(&self, wanted: &Ident, called: &str) -> bool {
        match wanted.quote_style {
            None if !self.bound => called.eq_ignore_ascii_case(&wanted.value),
            _ => called == wanted.value,
        }
    }
}

/// Whether the last parts of what qualifies a column are these.
fn is_qualified(column: &Column, parts: &[&Ident], same: &dyn Fn(&Ident, &str) -> bool) -> bool {
    let of = match &column.relation {
        None => Vec::new(),
        Some(TableReference::Bare { table }) => vec![table],
        Some(TableReference::Partial { schema, table }) => vec![schema, table],
        Some(TableReference::Full { catalog, schema, table }) => vec![catalog, schema, table],
    };
    let left = of.len().checked_sub(parts.len());
    left.is_some_and(|left| parts.iter().zip(&of[left..]).all(|(part, of)| same(part, of)))
}

/// Whether no two relations of a FROM clause have one name: such are told apart later.
fn has_different_names(from: &[TableWithJoins]) -> bool {
    let factors = from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    });
    let mut seen = BTreeSet::new();
    factors.filter_map(name_of).all(|name| seen.insert(name.value.to_lowercase()))
}

/// Which sides of a join have their columns in its result.
enum Sides {
    Both,
    Left,
    Right,
}

/// `None` of joins that later passes write otherwise.
fn sides(join: &Join) -> Option<Sides> {
    use JoinOperator as J;
    match &join.join_operator {
        _ if join.global => None,
        J::Join(on)
        | J::Inner(on)
        | J::Left(on)
        | J::LeftOuter(on)
        | J::Right(on)
        | J::RightOuter(on)
        | J::FullOuter(on)
        | J::AsOf { match_condition: _, constraint: on } => {
            matches!(on, JoinConstraint::On(_)).then_some(Sides::Both)
        }
        J::CrossJoin(JoinConstraint::None) => Some(Sides::Both),
        J::Semi(_) | J::LeftSemi(_) | J::Anti(_) | J::LeftAnti(_) => Some(Sides::Left),
        J::RightSemi(_) | J::RightAnti(_) => Some(Sides::Right),
        _ => None,
    }
}

/// Columns with the names that an alias lists.
fn renamed(alias: &TableAlias, mut columns: Known) -> Option<Known> {
    if !alias.columns.is_empty() && alias.columns.len() != columns.len() {
        return None;
    }
    for ((column, _), given) in columns.iter_mut().zip(&alias.columns) {
        column.name.clone_from(&given.name.value);
    }
    Some(columns)
}

/// Whether an expression may stand for several columns: COLUMNS, or the fields of a STRUCT.
fn stands_for_several(expr: &Expr) -> bool {
    struct Search;
    impl Visitor for Search {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> std::ops::ControlFlow<()> {
            let is_unnest = |expr: &Expr| match expr {
                Expr::Function(call) => call.name.to_string().eq_ignore_ascii_case("unnest"),
                _ => false,
            };
            match stars::columns_call(expr).is_some() || is_unnest(expr) {
                true => std::ops::ControlFlow::Break(()),
                false => std::ops::ControlFlow::Continue(()),
            }
        }
    }
    Visit::visit(expr, &mut Search).is_break()
}
