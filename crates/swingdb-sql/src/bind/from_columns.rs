//! The columns of a FROM clause, as far as the catalogs tell: [`known`].
//!
//! Those of tables, views and registered data are in the catalogs. A subquery that lists plain
//! columns, or all of them, has the columns of what it reads. What is left, such as functions,
//! files, expressions and USING, only the planner knows ([`columns_of`](super::columns)).

use arrow::datatypes::DataType;
use datafusion::common::{Column, TableReference};
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Query, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins,
    WildcardAdditionalOptions,
};

use crate::bind::catalogs::Found;
use crate::bind::lookahead::{Columns, Lookahead};
use crate::bind::with_clauses::Withs;

/// The columns of `SELECT item FROM from`, inside of queries with these WITH clauses; `None` where
/// only the planner knows them.
pub(crate) fn known(
    planner: &dyn Lookahead,
    around: &Withs,
    item: &SelectItem,
    from: &[TableWithJoins],
) -> Option<Columns> {
    of_item(&Scope { planner, around }.relations(from)?, item)
}

/// A relation, by what expressions call it, and its columns.
struct Relation {
    called: TableReference,
    columns: Vec<(String, DataType)>,
}

impl Relation {
    fn column(&self, (name, data_type): &(String, DataType)) -> (Column, DataType) {
        (Column::new(Some(self.called.clone()), name.clone()), data_type.clone())
    }

    fn all(&self) -> impl Iterator<Item = (Column, DataType)> + '_ {
        self.columns.iter().map(|column| self.column(column))
    }
}

struct Scope<'a> {
    planner: &'a dyn Lookahead,
    around: &'a Withs,
}

impl Scope<'_> {
    fn relations(&self, from: &[TableWithJoins]) -> Option<Vec<Relation>> {
        let mut all: Vec<Relation> = Vec::new();
        let mut add = |relation: Relation| {
            // Relations of one name are told apart later.
            let same = |known: &Relation| {
                known.called.table().eq_ignore_ascii_case(relation.called.table())
            };
            (!all.iter().any(same)).then(|| all.push(relation))
        };
        for TableWithJoins { relation, joins } in from {
            add(self.relation(relation)?)?;
            for Join { relation, global, join_operator } in joins {
                let keeps_all = is_plain(join_operator) && !global;
                add(keeps_all.then(|| self.relation(relation)).flatten()?)?;
            }
        }
        (!all.is_empty()).then_some(all)
    }

    fn relation(&self, factor: &TableFactor) -> Option<Relation> {
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
                self.table(name, alias.as_ref())
            }
            TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None } => {
                let columns = self.of_query(subquery)?.into_iter();
                let columns = columns.map(|(column, data_type)| (column.name, data_type)).collect();
                aliased(alias, columns)
            }
            _ => None,
        }
    }

    fn table(&self, name: &ObjectName, alias: Option<&TableAlias>) -> Option<Relation> {
        if let [ObjectNamePart::Identifier(name)] = name.0.as_slice()
            && self.around.has(&name.value)
        {
            return None;
        }
        let called = object_name_to_table_reference(name.clone(), false).ok()?;
        let stored = match self.planner.view().find(&called).ok()?? {
            Found::Table { .. } | Found::View { .. } | Found::Registered(_) => {
                self.planner.columns(&called).ok()??
            }
            Found::Information(_) | Found::System(_) => return None,
        };
        let fields = stored.fields().iter();
        let columns = fields.map(|field| (field.name().clone(), field.data_type().clone()));
        let columns = columns.collect();
        match alias {
            Some(alias) => aliased(alias, columns),
            None => distinct(Relation { called, columns }),
        }
    }

    /// The columns of a query that lists plain columns.
    fn of_query(&self, query: &Query) -> Option<Columns> {
        let (None, SetExpr::Select(select)) = (&query.with, query.body.as_ref()) else {
            return None;
        };
        let relations = self.relations(&select.from)?;
        let mut all = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expr) => all.push(of_expr(&relations, expr)?),
                SelectItem::ExprWithAlias { expr, alias } => {
                    let (column, data_type) = of_expr(&relations, expr)?;
                    all.push((Column { name: alias.value.clone(), ..column }, data_type));
                }
                star => all.extend(of_item(&relations, star)?),
            }
        }
        Some(all)
    }
}

/// Whether a join has the columns of both sides.
fn is_plain(operator: &JoinOperator) -> bool {
    use JoinOperator as J;
    match operator {
        J::Join(constraint)
        | J::Inner(constraint)
        | J::Left(constraint)
        | J::LeftOuter(constraint)
        | J::Right(constraint)
        | J::RightOuter(constraint)
        | J::FullOuter(constraint) => matches!(constraint, JoinConstraint::On(_)),
        J::CrossJoin(JoinConstraint::None) => true,
        _ => false,
    }
}

/// A relation under another name, its first columns too.
fn aliased(alias: &TableAlias, mut columns: Vec<(String, DataType)>) -> Option<Relation> {
    if !alias.columns.is_empty() && alias.columns.len() != columns.len() {
        return None;
    }
    for ((name, _), given) in columns.iter_mut().zip(&alias.columns) {
        name.clone_from(&given.name.value);
    }
    distinct(Relation { called: TableReference::bare(alias.name.value.as_str()), columns })
}

/// A relation whose columns all have names of their own.
fn distinct(relation: Relation) -> Option<Relation> {
    let names = relation.columns.iter().map(|(name, _)| name.to_lowercase());
    let names = names.collect::<std::collections::BTreeSet<_>>();
    (names.len() == relation.columns.len()).then_some(relation)
}

/// The columns of a star.
fn of_item(relations: &[Relation], item: &SelectItem) -> Option<Columns> {
    use SelectItemQualifiedWildcardKind::ObjectName as Of;
    let is_plain =
        |options: &WildcardAdditionalOptions| *options == WildcardAdditionalOptions::default();
    match item {
        SelectItem::Wildcard(options) if is_plain(options) => {
            Some(relations.iter().flat_map(Relation::all).collect())
        }
        SelectItem::QualifiedWildcard(Of(name), options) if is_plain(options) => {
            let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return None };
            Some(called(relations, name)?.all().collect())
        }
        _ => None,
    }
}

fn called<'a>(relations: &'a [Relation], name: &Ident) -> Option<&'a Relation> {
    relations.iter().find(|relation| relation.called.table() == name.value)
}

/// The column that an expression is, written as it is stored.
fn of_expr(relations: &[Relation], expr: &Expr) -> Option<(Column, DataType)> {
    let of = |relation: &Relation, name: &Ident| {
        let found = relation.columns.iter().find(|(known, _)| *known == name.value);
        found.map(|column| relation.column(column))
    };
    match expr {
        Expr::Identifier(name) => {
            let mut found = relations.iter().filter_map(|relation| of(relation, name));
            match (found.next(), found.next()) {
                (Some(column), None) => Some(column),
                _ => None,
            }
        }
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [relation, name] => of(called(relations, relation)?, name),
            _ => None,
        },
        _ => None,
    }
}
