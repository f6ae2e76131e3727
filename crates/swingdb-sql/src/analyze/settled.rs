//! One walk over a plan whose types are settled, for all rewrites of expressions that need them.
//!
//! A walk takes each node of a plan apart and puts it together again, and so costs much more than
//! to look at its expressions. The rewrites come one after the other at each node, inputs first:
//! what one leaves, the next one sees.

use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;
use swingdb_common::time::zones::Zone;
use swingdb_functions::bounded::{bounded_part, can_grow};

use crate::analyze::arithmetic::checked;
use crate::analyze::zones::zoned;
use crate::nodes::expressions::rewrite_parts;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Settled;

impl AnalyzerRule for Settled {
    fn name(&self) -> &str {
        "settled"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let zone = Zone::of(config);
        let rewritten = plan.transform_up_with_subqueries(|node| {
            let node = zoned(node, zone)?.transform_data(|node| checked(node, zone))?;
            node.transform_data(|node| {
                rewrite_parts(node, can_grow, |part, schema| Ok(bounded_part(part, schema)))
            })
        });
        Ok(rewritten?.data)
    }
}
