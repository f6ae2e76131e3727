//! How large and how deep a plan is, before anything walks it.
//!
//! A plan shares parts: a view or a common table expression that is named twice is there once, with
//! two references to it. Whatever rewrites a plan makes two of it. So thirty views, each of which
//! names the one below twice, are a small plan in memory and one of 2^30 nodes to the optimizer.
//! [`check`] counts the nodes that a walk would meet, and their depth, in the time of those in
//! memory, and refuses plans that are too large to be worked on. The planner itself walks the query
//! of a WITH for each of its names: so [`check_names`] counts these in the text before that.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;

use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion, TreeNodeVisitor};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart, Query, VisitMut, VisitorMut};
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::checkpoint;

use crate::ast::walk::walk_mut;
use crate::text::depth::with_enough_stack;

/// Nodes of a plan and expressions in them that may be inside one another.
const MAX_DEPTH: usize = 4_000;
/// Nodes that a walk may meet, however much memory there is.
const MAX_NODES: usize = 100_000;
/// Nodes that the query of a WITH has at least: its alias and a list of columns, and an expression.
const NODES_PER_NAME: usize = 3;
/// What planning takes for each, at its peak.
const BYTES_PER_NODE: usize = 12 << 10;

/// Refuses a plan that the stack or the memory would not do for.
pub(crate) fn check(plan: &LogicalPlan, state: &SessionState) -> Result<()> {
    let size = Sizes::default().of(plan)?;
    if size.depth > MAX_DEPTH {
        return Err(too_deep());
    }
    check_nodes(size.nodes, state)
}

fn too_deep() -> Error {
    Error::plan(format!(
        "the statement's plan is more than {MAX_DEPTH} operators and expressions deep, with the \
         views, macros and WITH queries that it names; store a part of it as a table first"
    ))
}

fn check_nodes(nodes: usize, state: &SessionState) -> Result<()> {
    let limit = match state.runtime_env().memory_pool.memory_limit() {
        MemoryLimit::Finite(bytes) => MAX_NODES.min(bytes / BYTES_PER_NODE),
        _ => MAX_NODES,
    };
    if nodes > limit {
        return Err(Error::plan(format!(
            "the statement's plan has more than the {limit} operators that can be planned, with \
             each view and WITH query as often as it is named; store a part of it as a table first"
        )));
    }
    Ok(())
}

/// Refuses a statement that names its WITH queries too often, one in another. How deep queries are
/// inside one another in the text.
pub(crate) fn check_names<T: VisitMut>(tree: &mut T, state: &SessionState) -> Result<usize> {
    let mut names = Names { open: vec![Frame::default()], deepest: 0 };
    // Never breaks.
    let _ = walk_mut(tree, &mut names);
    let all = names.open.first().map_or(Size::default(), |frame| frame.size);
    if all.depth.saturating_mul(NODES_PER_NAME) > MAX_DEPTH {
        return Err(too_deep());
    }
    check_nodes(all.nodes, state)?;
    Ok(names.deepest)
}

/// Counts relations, those of a WITH with all that is in them.
struct Names {
    open: Vec<Frame>,
    deepest: usize,
}

/// A query that is being looked at.
#[derive(Default)]
struct Frame {
    size: Size,
    /// Names of the WITH queries that come next, in the order of the text.
    next: VecDeque<String>,
    /// Those before, with their sizes.
    known: HashMap<String, Size>,
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        let next = tables.map(|table| table.alias.name.value.to_lowercase()).collect();
        let size = Size { nodes: 1, depth: 0 };
        self.open.push(Frame { size, next, known: HashMap::new() });
        self.deepest = self.deepest.max(self.open.len());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        let done = self.open.pop().unwrap_or_default();
        if let Some(around) = self.open.last_mut() {
            match around.next.pop_front() {
                Some(name) => drop(around.known.insert(name, done.size)),
                None => around.size.add(done.size),
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        let known = match relation.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => {
                let name = name.value.to_lowercase();
                self.open.iter().rev().find_map(|frame| frame.known.get(&name).copied())
            }
            _ => None,
        };
        if let Some(frame) = self.open.last_mut() {
            let known = known.unwrap_or_default();
            frame.size.add(Size { nodes: known.nodes.saturating_add(1), depth: known.depth + 1 });
        }
        ControlFlow::Continue(())
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Size {
    nodes: usize,
    depth: usize,
}

impl Size {
    /// Adds one that is beside what is there.
    fn add(&mut self, other: Self) {
        self.nodes = self.nodes.saturating_add(other.nodes);
        self.depth = self.depth.max(other.depth);
    }
}

/// The sizes of parts, by their addresses: they stay in place while the whole is there.
#[derive(Default)]
struct Sizes(HashMap<*const LogicalPlan, Size>);

impl Sizes {
    fn of(&mut self, plan: &LogicalPlan) -> Result<Size> {
        if let Some(known) = self.0.get(&std::ptr::from_ref(plan)) {
            return Ok(*known);
        }
        let size = with_enough_stack(|| self.measured(plan))?;
        self.0.insert(std::ptr::from_ref(plan), size);
        Ok(size)
    }

    fn measured(&mut self, plan: &LogicalPlan) -> Result<Size> {
        checkpoint();
        let (mut nodes, mut below) = (1_usize, 0);
        let mut add = |size: Size| {
            nodes = nodes.saturating_add(size.nodes);
            below = below.max(size.depth);
        };
        for input in plan.inputs() {
            add(self.of(input)?);
        }
        let mut failed = None;
        plan.apply_subqueries(|subquery| {
            // The node itself is made for this call; what it reads stays in place.
            match self.measured(subquery) {
                Ok(size) => add(size),
                Err(error) => failed = Some(error),
            }
            Ok(TreeNodeRecursion::Jump)
        })?;
        if let LogicalPlan::TableScan(scan) = plan
            && let Some(view) = scan.source.get_logical_plan()
        {
            add(match view {
                Cow::Borrowed(view) => self.of(view)?,
                Cow::Owned(view) => self.measured(&view)?,
            });
        }
        let mut expressions = Expressions::default();
        plan.apply_expressions(|expr| {
            expr.visit(&mut expressions)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        match failed {
            Some(error) => Err(error),
            None => Ok(Size { nodes, depth: below + 1 + expressions.deepest }),
        }
    }
}

/// How deep expressions are.
#[derive(Default)]
struct Expressions {
    depth: usize,
    deepest: usize,
}

impl<'a> TreeNodeVisitor<'a> for Expressions {
    type Node = Expr;

    fn f_down(&mut self, _expr: &'a Expr) -> DfResult<TreeNodeRecursion> {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        Ok(TreeNodeRecursion::Continue)
    }

    fn f_up(&mut self, _expr: &'a Expr) -> DfResult<TreeNodeRecursion> {
        self.depth -= 1;
        Ok(TreeNodeRecursion::Continue)
    }
}
