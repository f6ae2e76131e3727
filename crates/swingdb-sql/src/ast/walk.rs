//! Walking the syntax tree with one compiled copy of the tree's walker.
//!
//! The parser's walker is generic over the visitor, and each instance is some four thousand
//! functions. Going through a trait object makes one instance serve every visitor, which took the
//! compilation of this crate from many minutes to one; a walk costs one indirect call a node more.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, VisitMut,
    VisitorMut,
};
use swingdb_common::runtime::cancel::checkpoint;

/// Walks `tree` with `visitor`; a [`checkpoint`] for each part. Call this instead of
/// [`VisitMut::visit`].
pub(crate) fn walk_mut<T: VisitMut>(
    tree: &mut T,
    visitor: &mut dyn VisitorMut<Break = ()>,
) -> ControlFlow<()> {
    tree.visit(&mut Erased(visitor))
}

/// Walks a statement, for programs that would compile a walker of their own otherwise.
pub fn walk_statement(
    statement: &mut Statement,
    visitor: &mut dyn VisitorMut<Break = ()>,
) -> ControlFlow<()> {
    walk_mut(statement, visitor)
}

/// Whether a piece of syntax tree has more than `limit` expressions and queries.
pub(crate) fn has_more_parts<T: VisitMut>(tree: &mut T, limit: usize) -> bool {
    struct Count(usize);
    impl Count {
        fn one(&mut self) -> ControlFlow<()> {
            match self.0.checked_sub(1) {
                Some(left) => {
                    self.0 = left;
                    ControlFlow::Continue(())
                }
                None => ControlFlow::Break(()),
            }
        }
    }
    impl VisitorMut for Count {
        type Break = ();
        fn pre_visit_expr(&mut self, _expr: &mut Expr) -> ControlFlow<()> {
            self.one()
        }
        fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
            self.one()
        }
    }
    walk_mut(tree, &mut Count(limit)).is_break()
}

/// Whether a piece of syntax tree reads a relation that is called so, without a schema before it.
pub(crate) fn reads<T: VisitMut + Clone>(tree: &T, name: &str) -> bool {
    struct Search<'a>(&'a str);
    impl VisitorMut for Search<'_> {
        type Break = ();
        fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
            let [part] = relation.0.as_slice() else { return ControlFlow::Continue(()) };
            match part.as_ident().is_some_and(|ident| ident.value.eq_ignore_ascii_case(self.0)) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    walk_mut(&mut tree.clone(), &mut Search(name)).is_break()
}

/// Rewrites every expression of a piece of syntax tree, children first, but none in subqueries:
/// names there may be their own.
pub(crate) fn rewrite_own_exprs<T: VisitMut>(tree: &mut T, rewrite: &mut dyn FnMut(&mut Expr)) {
    struct Own<'a> {
        rewrite: &'a mut dyn FnMut(&mut Expr),
        /// How many queries it is inside of.
        depth: usize,
    }
    impl VisitorMut for Own<'_> {
        type Break = ();
        fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if self.depth == 0 {
                (self.rewrite)(expr);
            }
            ControlFlow::Continue(())
        }
    }
    // Never breaks, so the result says nothing.
    let _ = walk_mut(tree, &mut Own { rewrite, depth: 0 });
}

/// Puts what `meant` gives in the place of plain names, as [`rewrite_own_exprs`].
pub(crate) fn replace_names<T: VisitMut>(
    tree: &mut T,
    meant: &mut dyn FnMut(&Ident) -> Option<Expr>,
) {
    rewrite_own_exprs(tree, &mut |expr| {
        if let Expr::Identifier(name) = expr
            && let Some(meant) = meant(name)
        {
            *expr = meant;
        }
    });
}

/// The one visitor type that the walker is compiled for.
struct Erased<'a>(&'a mut dyn VisitorMut<Break = ()>);

impl VisitorMut for Erased<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        checkpoint();
        self.0.pre_visit_query(query)
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.0.post_visit_query(query)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.0.pre_visit_select(select)
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.0.post_visit_select(select)
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        self.0.pre_visit_relation(relation)
    }

    fn post_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        self.0.post_visit_relation(relation)
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.0.pre_visit_table_factor(factor)
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.0.post_visit_table_factor(factor)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        checkpoint();
        self.0.pre_visit_expr(expr)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.0.post_visit_expr(expr)
    }

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        self.0.pre_visit_statement(statement)
    }

    fn post_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        self.0.post_visit_statement(statement)
    }

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        self.0.pre_visit_value(value)
    }

    fn post_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        self.0.post_visit_value(value)
    }
}
