//! Types of the parameters of lambdas, where those of a list have been settled late.
//!
//! A parameter gets its type when the text is planned. A list that CASE makes of two types has
//! another one afterwards. Where both are texts the parameter is told of it. Elsewhere what the
//! lambda does has been settled for the first type, and would be wrong: such lists are refused.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use swingdb_common::types::sql_names::sql_name;

use crate::nodes::expressions::{any_node, any_part};

/// See the [module documentation](self). To run when types are settled.
#[derive(Debug)]
pub(crate) struct LambdaTypes;

impl AnalyzerRule for LambdaTypes {
    fn name(&self) -> &str {
        "lambda_types"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let has_lambda = |node: &LogicalPlan| {
            any_part(node, |part| matches!(part, Expr::HigherOrderFunction(_)))
        };
        if !any_node(&plan, has_lambda)? {
            return Ok(plan);
        }
        let before = parameters(&plan)?;
        let told = plan.resolve_lambda_variables()?;
        if !told.transformed {
            return Ok(told.data);
        }
        for (was, is) in before.into_iter().zip(parameters(&told.data)?) {
            if !same_but_for_texts(&was, &is) {
                return plan_err!(
                    "a lambda over a list that is made of {} and {}; cast the elements to one type",
                    sql_name(&was),
                    sql_name(&is)
                );
            }
        }
        TypeCoercion::new().analyze(told.data, config)
    }
}

/// The types of all parameters where lambdas use them.
fn parameters(plan: &LogicalPlan) -> Result<Vec<DataType>> {
    let mut types = Vec::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::LambdaVariable(variable) = part
                    && let Some(field) = &variable.field
                {
                    types.push(field.data_type().clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(types)
}

fn same_but_for_texts(one: &DataType, other: &DataType) -> bool {
    match (one, other) {
        (one, other) if one.is_string() && other.is_string() => true,
        (DataType::List(one), DataType::List(other)) => {
            same_but_for_texts(one.data_type(), other.data_type())
        }
        (DataType::Struct(ones), DataType::Struct(others)) => {
            let pairs = ones.iter().zip(others);
            ones.len() == others.len()
                && pairs.into_iter().all(|(one, other)| {
                    one.name() == other.name()
                        && same_but_for_texts(one.data_type(), other.data_type())
                })
        }
        (one, other) => one == other,
    }
}
