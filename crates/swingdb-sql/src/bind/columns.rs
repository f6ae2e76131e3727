//! `COLUMNS(...)`: an expression for each of several columns.
//!
//! `SELECT max(COLUMNS(*)) FROM t` is `SELECT max(a) AS a, max(b) AS b FROM t`, as in DuckDB. What
//! is between the brackets chooses columns of the FROM clause: `*`, also with EXCLUDE, `t.*`, a
//! regular expression that is found in their names, a list of names, or a condition on the name.
//! `* LIKE 'k%'` has become `COLUMNS(*, lambda name: name LIKE 'k%')` already. In WHERE the
//! condition must hold for each of them. EXCLUDE, REPLACE and RENAME behind a plain `*` are
//! [written out](stars) here too, where the engine does not know them.
//!
//! Which columns there are, [`columns_of`] and its like tell all passes: what
//! [`from_columns`] reads from the catalogs and the text, or else from a copy of the FROM clause
//! that has gone through binding (see [`Lookahead::columns_of`]).

use std::ops::ControlFlow;

use arrow::array::StringArray;
use arrow::compute::regexp_is_match_scalar;
use arrow::datatypes::DataType;
use datafusion::common::{Column, ScalarValue};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunction,
    ObjectName, ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    Statement, TableFactor, TableWithJoins, Value, VisitorMut, WildcardAdditionalOptions,
};
use swingdb_common::error::{Error, ObjectKind, Result};

use crate::ast::build::reference;
use crate::ast::stars::Shown;
use crate::ast::walk::{replace_names, rewrite_own_exprs, walk_mut};
use crate::ast::{build, stars};
use crate::bind::from_columns;
use crate::bind::hidden::Hidden;
use crate::bind::lookahead::{Columns, Known, Lookahead};
use crate::bind::with_clauses::Withs;
use crate::desugar::relations::Relations;

/// What is said of other arguments.
const USAGE: &str = "COLUMNS takes *, a regular expression, a list of names or a condition: \
     COLUMNS('^a'), COLUMNS(['a', 'b']), COLUMNS(lambda name: name LIKE 'a%')";

/// Puts columns for every COLUMNS of a statement, and for every `*` that changes some.
pub(crate) fn expand(planner: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    struct Search;
    impl VisitorMut for Search {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            found(is_columns(expr))
        }
        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            let options = |item| star(item).is_some_and(|(_, options)| stars::changes(options));
            found(select.projection.iter().any(options) || is_repeated(&select.projection))
        }
    }
    fn found(is: bool) -> ControlFlow<()> {
        if is { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
    if walk_mut(statement, &mut Search).is_continue() {
        return Ok(());
    }
    each_select(statement, &mut |around, select| Expander { planner, around }.expand(select))
}

/// Calls `work` for each SELECT of a statement, outer ones first, with the WITH clauses around it.
pub(crate) fn each_select(
    statement: &mut Statement,
    work: &mut dyn FnMut(&Withs, &mut Select) -> Result<()>,
) -> Result<()> {
    let mut selects = Selects { work, around: Withs::default(), failed: None };
    // Breaks only with an error, which the walk keeps.
    let _ = walk_mut(statement, &mut selects);
    selects.failed.map_or(Ok(()), Err)
}

/// Whether an expression is a COLUMNS.
pub(crate) fn is_columns(expr: &Expr) -> bool {
    stars::columns_call(expr).is_some()
}

/// A `*` of a SELECT list, with what is behind it.
fn star(item: &SelectItem) -> Option<(SelectItem, &WildcardAdditionalOptions)> {
    match item {
        SelectItem::Wildcard(options) => {
            Some((SelectItem::Wildcard(stars::choice(options)), options))
        }
        SelectItem::QualifiedWildcard(of, options) => {
            let choice = stars::choice(options);
            Some((SelectItem::QualifiedWildcard(of.clone(), choice), options))
        }
        _ => None,
    }
}

/// Whether a list may have the same column twice, by a `*` and by its name or another `*`. The
/// engine wants one name for each, which they get when the columns are written out.
fn is_repeated(items: &[SelectItem]) -> bool {
    use SelectItemQualifiedWildcardKind::ObjectName as Of;
    let same = |name: &ObjectName, parts: &[Ident]| {
        let [.., table, _] = parts else { return true };
        let last = name.0.last().and_then(ObjectNamePart::as_ident);
        last.is_some_and(|last| last.value.eq_ignore_ascii_case(&table.value))
    };
    let meets = |star: &SelectItem, other: &SelectItem| match (star, other) {
        (SelectItem::Wildcard(_), SelectItem::Wildcard(_))
        | (SelectItem::Wildcard(_), SelectItem::QualifiedWildcard(..))
        | (SelectItem::QualifiedWildcard(..), SelectItem::Wildcard(_)) => true,
        (SelectItem::QualifiedWildcard(Of(a), _), SelectItem::QualifiedWildcard(Of(b), _)) => {
            a.to_string().eq_ignore_ascii_case(&b.to_string())
        }
        (SelectItem::Wildcard(_), SelectItem::UnnamedExpr(expr)) => {
            matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        }
        (SelectItem::QualifiedWildcard(Of(name), _), SelectItem::UnnamedExpr(expr)) => match expr {
            Expr::Identifier(_) => true,
            Expr::CompoundIdentifier(parts) => same(name, parts),
            _ => false,
        },
        _ => false,
    };
    let others = |at: usize| items.iter().enumerate().filter(move |(other, _)| *other != at);
    let is_one = |(at, item): (usize, &SelectItem)| others(at).any(|(_, other)| meets(item, other));
    items.len() > 1 && items.iter().enumerate().any(is_one)
}

struct Selects<'a> {
    work: &'a mut dyn FnMut(&Withs, &mut Select) -> Result<()>,
    around: Withs,
    failed: Option<Error>,
}

impl VisitorMut for Selects<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.around.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.around.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        match (self.work)(&self.around, select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

struct Expander<'a> {
    planner: &'a dyn Lookahead,
    around: &'a Withs,
}

impl Expander<'_> {
    fn expand(&self, select: &mut Select) -> Result<()> {
        let from = select.from.clone();
        let repeated = is_repeated(&select.projection);
        let mut projection = Vec::with_capacity(select.projection.len());
        for item in std::mem::take(&mut select.projection) {
            match item {
                SelectItem::UnnamedExpr(expr) => match self.each(&expr, &from)? {
                    None => projection.push(SelectItem::UnnamedExpr(expr)),
                    Some(all) => {
                        projection.extend(all.into_iter().map(|(name, e)| build::item(e, name)));
                    }
                },
                SelectItem::ExprWithAlias { expr, alias } => {
                    match self.each(&expr, &from)? {
                        None => projection.push(SelectItem::ExprWithAlias { expr, alias }),
                        Some(all) => projection.extend(all.into_iter().map(|(_, expr)| {
                            SelectItem::ExprWithAlias { expr, alias: alias.clone() }
                        })),
                    }
                }
                other => match self.written_out(&other, &from, repeated)? {
                    None => projection.push(other),
                    Some(all) => projection.extend(all.into_iter().map(Shown::into_item)),
                },
            }
        }
        select.projection = projection;
        if let Some(condition) = &select.selection
            && let Some(all) = self.each(condition, &from)?
        {
            let all = all.into_iter().map(|(_, expr)| Expr::Nested(Box::new(expr)));
            select.selection = all.reduce(|a, b| build::binary(a, BinaryOperator::And, b));
        }
        Ok(())
    }

    /// The columns of a `*` that changes some in a way that the engine does not know, or that are
    /// `repeated` in the list.
    fn written_out(
        &self,
        item: &SelectItem,
        from: &[TableWithJoins],
        repeated: bool,
    ) -> Result<Option<Vec<Shown>>> {
        if repeated && let Some((choice, options)) = star(item) {
            // Where only the engine knows the columns, it also says what it cannot do.
            let Ok(chosen) = self.columns(choice, from) else { return Ok(None) };
            return stars::shown(options, &chosen).map(Some);
        }
        let Some((choice, options)) = star(item).filter(|(_, options)| stars::changes(options))
        else {
            return Ok(None);
        };
        let chosen = self.columns(choice, from)?;
        let shown = stars::shown(options, &chosen)?;
        Ok((!stars::is_engines(options, &chosen)).then_some(shown))
    }

    /// The expression for each column that its COLUMNS chooses, and that column's name; `None` when
    /// there is no COLUMNS in it. Subqueries choose columns of their own.
    fn each(&self, expr: &Expr, from: &[TableWithJoins]) -> Result<Option<Vec<(String, Expr)>>> {
        let mut found: Vec<FunctionArguments> = Vec::new();
        rewrite_own_exprs(&mut expr.clone(), &mut |part| {
            if let Some(call) = stars::columns_call(part).filter(|call| !found.contains(&call.args))
            {
                found.push(call.args.clone());
            }
        });
        let arguments = match found.as_slice() {
            [] => return Ok(None),
            [arguments] => arguments,
            _ => return Err(Error::plan("different COLUMNS in one expression")),
        };
        let columns = self.chosen(arguments, from)?.into_iter().map(|column| {
            let (mut each, chosen) = (expr.clone(), build::nested(column.value));
            rewrite_own_exprs(&mut each, &mut |part| {
                if stars::columns_call(part).is_some() {
                    *part = chosen.clone();
                }
            });
            (column.name.value, each)
        });
        Ok(Some(columns.collect()))
    }

    fn chosen(&self, arguments: &FunctionArguments, from: &[TableWithJoins]) -> Result<Vec<Shown>> {
        let FunctionArguments::List(list) = arguments else { return Err(Error::plan(USAGE)) };
        match list.args.as_slice() {
            [FunctionArg::Unnamed(argument)] => self.of_argument(argument, from),
            [
                FunctionArg::Unnamed(argument),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Lambda(condition))),
            ] => self.for_which(condition, self.of_argument(argument, from)?),
            _ => Err(Error::plan(USAGE)),
        }
    }

    fn of_argument(
        &self,
        argument: &FunctionArgExpr,
        from: &[TableWithJoins],
    ) -> Result<Vec<Shown>> {
        let plain = |columns: Vec<Column>| columns.iter().map(Shown::of).collect::<Vec<_>>();
        match argument {
            FunctionArgExpr::Wildcard => self.columns(everything(), from).map(plain),
            FunctionArgExpr::WildcardWithOptions(options) => {
                let choice = SelectItem::Wildcard(stars::choice(options));
                stars::shown(options, &self.columns(choice, from)?)
            }
            FunctionArgExpr::QualifiedWildcard(name) => {
                let name = SelectItemQualifiedWildcardKind::ObjectName(name.clone());
                let options = WildcardAdditionalOptions::default();
                self.columns(SelectItem::QualifiedWildcard(name, options), from).map(plain)
            }
            FunctionArgExpr::Expr(Expr::Lambda(condition)) => {
                self.for_which(condition, plain(self.columns(everything(), from)?))
            }
            FunctionArgExpr::Expr(Expr::Array(array)) => {
                let all = self.columns(everything(), from)?;
                let find = |name: &Expr| {
                    let Some(name) = text(name) else { return Err(Error::plan(USAGE)) };
                    let found = all.iter().find(|column| column.name.eq_ignore_ascii_case(name));
                    let names = all.iter().map(|column| &column.name);
                    found.cloned().ok_or_else(|| Error::not_found(ObjectKind::Column, name, names))
                };
                array.elem.iter().map(find).collect::<Result<_>>().map(plain)
            }
            FunctionArgExpr::Expr(expr) => {
                let Some(pattern) = text(expr) else { return Err(Error::plan(USAGE)) };
                matching(self.columns(everything(), from)?, pattern).map(plain)
            }
        }
    }

    /// The columns for whose names a condition holds.
    fn for_which(&self, condition: &LambdaFunction, all: Vec<Shown>) -> Result<Vec<Shown>> {
        let [parameter] = &*condition.params else { return Err(Error::plan(USAGE)) };
        let asked = all.iter().enumerate().map(|(place, column)| {
            let mut asked = condition.body.as_ref().clone();
            let name = Value::SingleQuotedString(column.name.value.clone());
            let name = Expr::Value(name.with_empty_span());
            replace_names(&mut asked, &mut |plain| {
                let is = plain.value.eq_ignore_ascii_case(&parameter.name.value);
                is.then(|| name.clone())
            });
            build::item(asked, place.to_string())
        });
        let query = build::select(asked.collect(), Vec::new(), None)?;
        let answers = self.planner.constants(build::statement(query, None))?;
        let names = all.iter().map(|c| c.name.value.as_str()).collect::<Vec<_>>().join(", ");
        let chosen = all.into_iter().zip(answers);
        let chosen = chosen.filter(|(_, answer)| *answer == ScalarValue::Boolean(Some(true)));
        let chosen: Vec<Shown> = chosen.map(|(column, _)| column).collect();
        if chosen.is_empty() {
            let condition = &condition.body;
            return Err(Error::plan(format!("{condition} holds for none of the columns {names}")));
        }
        Ok(chosen)
    }

    fn columns(&self, item: SelectItem, from: &[TableWithJoins]) -> Result<Vec<Column>> {
        let columns = columns_of(self.planner, self.around, item, from)?;
        let hidden = Hidden::of(from);
        Ok(columns.into_iter().filter(|column| !hidden.has(column)).collect())
    }
}

/// All columns of a FROM clause.
pub(crate) fn all_of(
    planner: &dyn Lookahead,
    around: &Withs,
    from: &[TableWithJoins],
) -> Result<Vec<Column>> {
    columns_of(planner, around, everything(), from)
}

/// All columns of a FROM clause with their types; those whose types are not `needed` may be left
/// out.
pub(crate) fn typed_of(
    planner: &dyn Lookahead,
    around: &Withs,
    from: &[TableWithJoins],
    needed: &dyn Fn(&Column) -> bool,
) -> Result<Columns> {
    let columns = told(planner, around, everything(), from, Some(needed))?.into_iter();
    Ok(columns.filter_map(|(column, data_type)| Some((column, data_type?))).collect())
}

/// The columns of `SELECT item FROM from`, inside of queries with these WITH clauses.
pub(crate) fn columns_of(
    planner: &dyn Lookahead,
    around: &Withs,
    item: SelectItem,
    from: &[TableWithJoins],
) -> Result<Vec<Column>> {
    let columns = told(planner, around, item, from, None)?.into_iter();
    Ok(columns.map(|(column, _)| column).collect())
}

/// As [`columns_of`]; with the types of those columns whose types are needed. The planner is asked
/// only where the catalogs and the text do not tell them.
fn told(
    planner: &dyn Lookahead,
    around: &Withs,
    item: SelectItem,
    from: &[TableWithJoins],
    needed: Option<&dyn Fn(&Column) -> bool>,
) -> Result<Known> {
    if let Some(known) = from_columns::known(planner, around, &item, from) {
        let is_missing = |(column, data_type): &(Column, Option<DataType>)| {
            data_type.is_none() && needed.is_some_and(|needed| needed(column))
        };
        if !known.iter().any(is_missing) {
            return Ok(known);
        }
    }
    let mut query = build::select(vec![item], from.to_vec(), None)?;
    query.with = around.needed_by(from);
    planner.columns_of(build::statement(query, None), needed.is_some())
}

fn everything() -> SelectItem {
    SelectItem::Wildcard(WildcardAdditionalOptions::default())
}

/// The names of a relation's columns, if they can be told.
pub(crate) fn names_of(
    planner: &dyn Lookahead,
    around: &Withs,
    factor: &TableFactor,
) -> Option<Vec<String>> {
    let columns = all_of(planner, around, &[build::from(factor.clone())]).ok()?;
    Some(columns.into_iter().map(|column| column.name).collect())
}

/// The relations of a query, for passes that walk it.
pub(crate) struct Planned<'a> {
    planner: &'a dyn Lookahead,
    around: Withs,
}

impl<'a> Planned<'a> {
    pub(crate) fn new(planner: &'a dyn Lookahead) -> Self {
        Self { planner, around: Withs::default() }
    }
}

impl Relations for Planned<'_> {
    fn enter(&mut self, query: &Query) {
        self.around.enter(query);
    }

    fn leave(&mut self) {
        self.around.leave();
    }

    fn names_of(&self, factor: &TableFactor) -> Option<Vec<String>> {
        names_of(self.planner, &self.around, factor)
    }

    fn columns_of(&self, item: &SelectItem, from: &[TableWithJoins]) -> Option<Vec<Expr>> {
        let columns = columns_of(self.planner, &self.around, item.clone(), from).ok()?;
        Some(columns.iter().map(reference).collect())
    }
}

/// The columns in whose names the regular expression is found.
fn matching(all: Vec<Column>, pattern: &str) -> Result<Vec<Column>> {
    let names = StringArray::from_iter_values(all.iter().map(|column| column.name.as_str()));
    let fits = regexp_is_match_scalar(&names, pattern, None).map_err(|error| {
        Error::plan(format!("COLUMNS({pattern:?}): no regular expression: {error}"))
    })?;
    let chosen: Vec<Column> =
        all.iter().zip(fits.values()).filter(|(_, fits)| *fits).map(|(c, _)| c.clone()).collect();
    if chosen.is_empty() {
        let names = all.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(Error::plan(format!("COLUMNS({pattern:?}) fits none of the columns {names}")));
    }
    Ok(chosen)
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}
