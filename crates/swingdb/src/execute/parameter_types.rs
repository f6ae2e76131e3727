//! The types of a query's parameters, from where they stand: [`parameter_types`].
//!
//! `WHERE id = $1` says that `$1` is compared with `id`, and so what type a value would best have.
//! The query is planned without values. Its plan tells the types, and is dropped.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::Statement;
use swingdb_common::error::Result;
use swingdb_common::runtime::cancel::stoppable;
use swingdb_sql::bind::frame_bounds;
use swingdb_sql::planner::Planner;
use swingdb_sql::text::depth;
use swingdb_sql::text::parameters::number_parameters;
use swingdb_sql::text::parser::parse_lines;
use swingdb_sql::text::statement::Parsed;

use crate::session::Session;

/// The types of `$1`, `$2` and so on, as far as the query says. Empty for any other statement.
pub(crate) fn parameter_types(session: &Session, sql: &str) -> Result<Vec<Option<FieldRef>>> {
    let _one_at_a_time = session.lock_statement()?;
    let token = session.cancel_token();
    depth::with_enough_stack(|| stoppable(&token, || types_of(session, sql)))
}

fn types_of(session: &Session, sql: &str) -> Result<Vec<Option<FieldRef>>> {
    let mut statements = parse_lines(sql)?;
    let (last, other) = (statements.pop_back(), statements.pop_back());
    let (Some((_, Parsed::Sql(mut statement))), None) = (last, other) else {
        return Ok(Vec::new());
    };
    if !matches!(*statement, Statement::Query(_)) {
        return Ok(Vec::new());
    }
    let (mut next, mut names) = (1, Vec::new());
    number_parameters(statement.as_mut(), &mut next, &mut names)?;
    frame_bounds::without_parameters(statement.as_mut());
    let (view, engine) = (session.view()?, session.engine()?);
    let planner = Planner::new(&view, &engine);
    planner.prepare(statement.as_mut())?;
    let plan = planner.plan_for(*statement)?;
    let mut fields = plan.get_parameter_fields()?;
    for id in of_limits(&plan)? {
        let count: FieldRef = Arc::new(Field::new("", DataType::Int64, true));
        fields.entry(id).or_default().get_or_insert(count);
    }
    Ok((1..next).map(|number| fields.remove(&format!("${number}")).flatten()).collect())
}

/// The parameters that stand for a number of rows, whose types no comparison tells.
fn of_limits(plan: &LogicalPlan) -> Result<Vec<String>> {
    let mut found = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            let both = [&limit.skip, &limit.fetch].into_iter().flatten();
            for count in both {
                count.apply(|part| {
                    if let Expr::Placeholder(parameter) = part {
                        found.push(parameter.id.clone());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}
