//! Plans the query engine makes of a statement, changed into ones that mean what the text says.
//!
//! Each part knows one thing the engine plans otherwise than SQL has it, or cannot plan. They run
//! on the plan as it comes from the syntax tree, before types are settled and anything is
//! optimized.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::nodes::expressions::{any_node, rewrite_parts};
use crate::plan::{
    absent_rows, calls_by_type, dates, dates_and_numbers, decimals_and_floats, drawn_once,
    drawn_subqueries, durations, empty_subqueries, enums, lengths, mixed_unions, outer_aggregates,
    patterns, range_frames, recursive_json, refused_casts, set_operations, structs, times, uuids,
    value_rows, written_texts,
};

/// The plan with all rewrites of this module applied, in subqueries too.
pub(crate) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    let has_uuids = any_node(&plan, uuids::are_in)?;
    let has_enums = any_node(&plan, enums::are_in)?;
    // What says where UUIDs are, or that a value may be NULL, has to reach the nodes above.
    let mut says = false;
    let mut retyped = false;
    let changed = plan.transform_up_with_subqueries(|node| {
        let node = if says { node.recompute_schema()? } else { node };
        let node = drawn_once::rewrite(outer_aggregates::check(node)?)?;
        let node = node.transform_data(|node| rewrite_expressions(node, has_uuids))?;
        let node = node.transform_data(|node| match has_enums {
            true => of_enums(node),
            false => Ok(Transformed::no(node)),
        })?;
        says |= has_enums && node.transformed;
        let node = node.transform_data(|node| match has_uuids {
            true => uuids::of_node(node),
            false => Ok(Transformed::no(node)),
        })?;
        says |= has_uuids && node.transformed && uuids::says(&node.data);
        says |= node.transformed && absent_rows::are_in(&node.data);
        let node = node.transform_data(|node| match node {
            LogicalPlan::Join(join) if set_operations::is_all(&join) => {
                dates_and_numbers::check_join(&join)?;
                let join = decimals_and_floats::rewrite_join(join).data;
                set_operations::count_duplicates(&join).map(Transformed::yes)
            }
            LogicalPlan::Join(join) => {
                dates_and_numbers::check_join(&join)?;
                Ok(decimals_and_floats::rewrite_join(join).update_data(LogicalPlan::Join))
            }
            LogicalPlan::Union(union) => {
                dates_and_numbers::check_union(&union)?;
                let union = decimals_and_floats::rewrite_union(union)?;
                // What is around it, such as another UNION, must know its types.
                let union = union.transform_data(|node| match node {
                    LogicalPlan::Union(union) => mixed_unions::of_one_type(union),
                    other => Ok(Transformed::no(other)),
                })?;
                retyped |= union.transformed;
                Ok(union)
            }
            LogicalPlan::Values(list) => {
                let rows = value_rows::rewrite(list)?;
                retyped |= rows.transformed;
                Ok(rows)
            }
            LogicalPlan::Window(window) => range_frames::rewrite(window),
            LogicalPlan::RecursiveQuery(query) => recursive_json::rewrite(query),
            LogicalPlan::Unnest(unnest) => structs::without_values_below(unnest),
            other => Ok(Transformed::no(other)),
        })?;
        says |= retyped;
        Ok(node)
    });
    let plan = mixed_unions::settle(changed?.data, retyped)?;
    if !retyped {
        return Ok(plan);
    }
    // What refers to a retyped column from inside of a subquery has its type by now.
    let settled = plan.transform_up_with_subqueries(|node| {
        rewrite_parts(node, decimals_and_floats::is_concerned, decimals_and_floats::rewrite)
    });
    Ok(settled?.data)
}

/// Gives ENUMs their order.
fn of_enums(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let node =
        rewrite_parts(plan, enums::is_concerned, |part, schema| {
            match enums::is_concerned(&part) {
                true => enums::rewrite(part, schema),
                false => Ok(Transformed::no(part)),
            }
        })?;
    let node = match node.transformed {
        // What is marked now has to reach the nodes above.
        true => Transformed::yes(node.data.recompute_schema()?),
        false => node,
    };
    node.transform_data(enums::of_node)
}

fn rewrite_expressions(plan: LogicalPlan, has_uuids: bool) -> Result<Transformed<LogicalPlan>> {
    let others_are = |part: &Expr| {
        lengths::is_concerned(part)
            || dates::is_concerned(part)
            || durations::is_concerned(part)
            || decimals_and_floats::is_concerned(part)
            || empty_subqueries::is_concerned(part)
            || calls_by_type::is_concerned(part)
            || patterns::is_concerned(part)
            || drawn_subqueries::is_concerned(part)
            || refused_casts::is_concerned(part)
            || structs::is_concerned(part)
            || absent_rows::is_concerned(part)
            || written_texts::is_of_elements(part)
    };
    let is_concerned = |part: &Expr| others_are(part) || has_uuids && uuids::is_concerned(part);
    rewrite_parts(plan, is_concerned, |part, schema| {
        let part = match has_uuids && uuids::is_concerned(&part) {
            true => uuids::rewrite(part, schema)?,
            false if drawn_subqueries::is_concerned(&part) => drawn_subqueries::rewrite(part)?,
            false => Transformed::no(part),
        };
        part.transform_data(|part| {
            Ok(match part {
                call if lengths::is_concerned(&call) => lengths::rewrite(call, schema),
                epoch if durations::is_concerned(&epoch) => durations::rewrite(epoch, schema),
                empty if empty_subqueries::is_concerned(&empty) => {
                    empty_subqueries::rewrite(empty)?
                }
                text if patterns::is_concerned(&text) => patterns::rewrite(text),
                call if written_texts::is_of_elements(&call) => {
                    written_texts::read_elements(call, schema)?
                }
                call if calls_by_type::is_concerned(&call) => {
                    calls_by_type::check(&call, schema)?;
                    calls_by_type::rewrite(call, schema)
                }
                cast if refused_casts::is_concerned(&cast) => refused_casts::rewrite(cast, schema)?,
                call if structs::is_concerned(&call) => structs::check(call)?,
                value if absent_rows::is_concerned(&value) => {
                    Transformed::yes(absent_rows::rewrite(value))
                }
                mixed if decimals_and_floats::is_concerned(&mixed) => {
                    if let Expr::InSubquery(membership) = mixed {
                        dates_and_numbers::check_membership(&membership, schema)?;
                        return decimals_and_floats::in_rows(membership, schema);
                    }
                    let mixed = times::rewrite(mixed, schema);
                    mixed.transform_data(|mixed| decimals_and_floats::rewrite(mixed, schema))?
                }
                other => dates::rewrite(other, schema),
            })
        })
    })
}
