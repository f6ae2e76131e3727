//! All passes over a statement, stage by stage, in their order, with a reason each.
//!
//! This is the only list of them, and they are run from it: [`BINDING`] on the syntax tree,
//! [`PLANNED`] on the logical plan before types are settled, [`ANALYZER`], [`OPTIMIZER`] and
//! [`PHYSICAL`] among the rules of the query engine. A pass is named by its file.
//!
//! Two passes are walks with steps of their own: `desugar` lists its steps in `desugar/mod.rs`,
//! `plan/rewrite` those of the nodes of a plan in `plan/rewrite.rs`.

use std::sync::Arc;

use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{AnalyzerRule, Optimizer};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::sql::sqlparser::ast::Statement;
use swingdb_common::error::Result;
use swingdb_operators::shared_join::SharedJoins;
use swingdb_operators::top_of_groups::TopOfGroups;

use crate::analyze::asof::AsofJoins;
use crate::analyze::decorrelate::rule::DependentJoins;
use crate::analyze::equality::rule::{Equality, settle_again};
use crate::analyze::lambda_types::LambdaTypes;
use crate::analyze::settled::Settled;
use crate::bind::functions::template::Known;
use crate::bind::functions::{clauses, null_treatment, once, ordered_windows};
use crate::bind::lookahead::Lookahead;
use crate::bind::{
    array_queries, by_name, columns, frame_bounds, functions, having_aliases, identifiers,
    joined_names, macros, method_calls, named_queries, pivots, positional, row_structs, rowids,
    scopes, sequences, shadowed, struct_stars, types, using_joins,
};
use crate::desugar;
use crate::desugar::{
    cast_names, inner_withs, json_rows, json_transform, members, same_names, series, tries,
};
use crate::nodes::dependencies;
use crate::optimize::asof_filters::ASOF_FILTERS;
use crate::optimize::conditions_down::conditions_down;
use crate::optimize::constant_conditions::CONSTANT_CONDITIONS;
use crate::optimize::cross_joins::cross_joins;
use crate::optimize::empty_sorts::EMPTY_SORTS;
use crate::optimize::equal_keys::equal_keys;
use crate::optimize::functional_dependencies::{DEPENDENCIES, distinct_groups};
use crate::optimize::grouping_sets::GROUPING_SETS;
use crate::optimize::groups_below_joins::GROUPS_BELOW_JOINS;
use crate::optimize::join_order::JoinOrder;
use crate::optimize::keys_as_columns::KEYS_AS_COLUMNS;
use crate::optimize::lambda_nulls::LAMBDA_NULLS;
use crate::optimize::leaf_unions::leaf_unions;
use crate::optimize::literals_right::LITERALS_RIGHT;
use crate::optimize::nested_unions::nested_unions;
use crate::optimize::not_in::MEMBERSHIP;
use crate::optimize::offset_sums::OFFSET_SUMS;
use crate::optimize::outer_joins::outer_joins;
use crate::optimize::rule::{Guarded, OwnRule, Rule};
use crate::optimize::steps::in_steps;
use crate::optimize::turns::{Pass, Turn, in_turn};
use crate::optimize::unseen_order::UNSEEN_ORDER;
use crate::optimize::where_true::WHERE_TRUE;
use crate::physical::aggregate_statistics::FromStatistics;
use crate::physical::beside_scan::BesideScan;
use crate::physical::drawn::NotConstant;
use crate::physical::dynamic_filters::HandDown;
use crate::physical::first_groups::FirstGroups;
use crate::physical::grace_joins::GraceJoins;
use crate::physical::insertion_order::InOrder;
use crate::physical::large_limits::LargeLimits;
use crate::physical::large_sorts::LargeSorts;
use crate::physical::lost_order::LostOrder;
use crate::physical::materialize::rule::ShareRows;
use crate::physical::result_batches::ResultBatches;
use crate::physical::settled_order::SettledOrder;
use crate::physical::slices::InSlices;
use crate::physical::sorted_limits::WholeOrder;
use crate::physical::whole_groups::WholeGroups;
use crate::plan::{materialized_parts, rewrite, size};
use crate::text::depth;

/// A pass over the syntax tree of a statement.
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "what a reader, and the test that walks the list, needs")
)]
pub(crate) struct BindPass {
    /// The file, without its ending.
    pub(crate) file: &'static str,
    /// Why the pass exists, and why it runs at its turn.
    pub(crate) why: &'static str,
    run: fn(&dyn Lookahead, &mut Statement) -> Result<()>,
}

/// A pass over the logical plan of a statement.
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "what a reader, and the test that walks the list, needs")
)]
pub(crate) struct PlanPass {
    /// The file, without its ending.
    pub(crate) file: &'static str,
    /// Why the pass exists, and why it runs at its turn.
    pub(crate) why: &'static str,
    run: fn(LogicalPlan, &SessionState) -> Result<LogicalPlan>,
}

type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Binds a statement: each pass of [`BINDING`] once.
pub(crate) fn bind(planner: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    BINDING.iter().try_for_each(|pass| (pass.run)(planner, statement))
}

/// Rewrites a plan before its types are settled: each pass of [`PLANNED`] once.
pub(crate) fn rewrite_planned(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    PLANNED.iter().try_fold(plan, |plan, pass| (pass.run)(plan, state))
}

/// Our rules of the analyzer, which run after the engine's own.
pub(crate) fn analyzer_rules() -> Result<Vec<Arc<dyn AnalyzerRule + Send + Sync>>> {
    in_turn(Vec::new(), |rule| rule.name(), ANALYZER)
}

/// The rules of the optimizer, the engine's and our own.
pub(crate) fn optimizer_rules() -> Result<Vec<Rule>> {
    Ok(in_steps(in_turn(Optimizer::new().rules, |rule| rule.name(), OPTIMIZER)?))
}

/// The rules about physical plans, the engine's and our own.
pub(crate) fn physical_rules() -> Result<Vec<PhysicalRule>> {
    in_turn(PhysicalOptimizer::new().rules, |rule| rule.name(), PHYSICAL)
}

/// What binding does to the syntax tree.
pub(crate) const BINDING: &[BindPass] = &[
    BindPass {
        file: "bind/functions/null_treatment",
        why: "IGNORE NULLS goes to the call that it is written in, before calls are rewritten.",
        run: null_treatment::hand_out,
    },
    BindPass {
        file: "bind/method_calls",
        why: "x.f() becomes f(x) first, since f may be a macro.",
        run: |planner, statement| {
            method_calls::unchain(planner.view(), statement);
            Ok(())
        },
    },
    BindPass {
        file: "bind/macros/expand",
        why: "Macros are expanded first: their bodies are bound like any other text.",
        run: macros::expand::expand,
    },
    BindPass {
        file: "bind/named_queries",
        why: "query('...') becomes the query, whose text parameters of macros may be.",
        run: named_queries::expand,
    },
    BindPass {
        file: "bind/frame_bounds",
        why: "Computed bounds of frames become numbers, once macros have put theirs in.",
        run: frame_bounds::compute,
    },
    BindPass {
        file: "desugar/json_transform",
        why: "Becomes a cast before types are resolved: the type it names may be user-defined.",
        run: |_, statement| json_transform::expand(statement),
    },
    BindPass {
        file: "bind/types",
        why: "User-defined types become the types that they stand for.",
        run: |planner, statement| types::resolve(planner.view(), statement),
    },
    BindPass {
        file: "desugar/tries",
        why: "TRY(CAST(...)) becomes TRY_CAST once the types of casts are known.",
        run: |_, statement| tries::rewrite(statement),
    },
    BindPass {
        file: "desugar/inner_withs",
        why: "A WITH query that shadows an outer one is renamed before relations are looked up.",
        run: |_, statement| {
            inner_withs::tell_withs_apart(statement);
            Ok(())
        },
    },
    BindPass {
        file: "bind/scopes",
        why: "Qualified names and case variants are resolved in their own FROM clause, before \
              any pass moves expressions between queries.",
        run: scopes::resolve,
    },
    BindPass {
        file: "desugar/same_names",
        why: "Tables of one name from different schemas get aliases before their columns are \
              looked up.",
        run: |_, statement| {
            same_names::tell_tables_apart(statement);
            Ok(())
        },
    },
    BindPass {
        file: "bind/pivots",
        why: "PIVOT and UNPIVOT become queries, so that later passes see only queries.",
        run: pivots::turn_tables,
    },
    BindPass {
        file: "desugar/series",
        why: "range() and its like get a column name before columns are looked up.",
        run: |_, statement| {
            series::name_series(statement);
            Ok(())
        },
    },
    BindPass {
        file: "desugar/json_rows",
        why: "json_each() becomes a query with named columns before columns are looked up.",
        run: |_, statement| json_rows::expand(statement),
    },
    BindPass {
        file: "desugar/members",
        why: "(expr).field becomes (expr)['field'], so that it is not taken for a column.",
        run: |_, statement| {
            members::name_members(statement);
            Ok(())
        },
    },
    BindPass {
        file: "bind/joined_names",
        why: "Relations without a name that USING joins get one before columns are looked up.",
        run: |_, statement| {
            joined_names::give(statement);
            Ok(())
        },
    },
    BindPass {
        file: "bind/positional",
        why: "POSITIONAL JOIN becomes a FULL JOIN; its numbers must be there, hidden, before stars \
              are expanded.",
        run: positional::expand,
    },
    BindPass {
        file: "bind/rowids",
        why: "rowid becomes a column of the scan, hidden from stars, before they are expanded.",
        run: rowids::show,
    },
    BindPass {
        file: "bind/array_queries",
        why: "array(SELECT ...) becomes a subquery with array_agg before its stars are expanded.",
        run: array_queries::collect_arrays,
    },
    BindPass {
        file: "bind/struct_stars",
        why: "st.* of a STRUCT becomes its fields, before other stars are expanded.",
        run: struct_stars::expand_structs,
    },
    BindPass {
        file: "bind/row_structs",
        why: "A relation's name becomes a STRUCT before columns are looked up.",
        run: row_structs::expand,
    },
    BindPass {
        file: "bind/columns",
        why: "COLUMNS(...) and stars with options become plain lists of columns.",
        run: columns::expand,
    },
    BindPass {
        file: "bind/by_name",
        why: "UNION BY NAME orders columns, which must all be listed by now.",
        run: by_name::match_names,
    },
    BindPass {
        file: "bind/identifiers",
        why: "Identifiers get their stored case and columns their names, once all columns are \
              listed.",
        run: identifiers::resolve,
    },
    BindPass {
        file: "bind/shadowed",
        why: "Subquery relations that shadow outer ones are renamed, once identifiers are exact.",
        run: |planner, statement| {
            shadowed::show_hidden(planner, statement);
            Ok(())
        },
    },
    BindPass {
        file: "bind/using_joins",
        why: "USING and NATURAL become ON, and merged columns what they stand for; needs exact \
              names.",
        run: |planner, statement| {
            using_joins::rewrite(&mut columns::Planned::new(planner), statement)
        },
    },
    BindPass {
        file: "desugar/mod",
        why: "Short forms are written out, once names are exact.",
        run: |planner, statement| desugar::rewrite(&mut columns::Planned::new(planner), statement),
    },
    BindPass {
        file: "desugar/cast_names",
        why: "Casts that the engine would name alike are told apart, once all casts are there.",
        run: |_, statement| {
            cast_names::tell_apart(statement);
            Ok(())
        },
    },
    BindPass {
        file: "bind/sequences",
        why: "nextval('s') gets the full name of its sequence, once calls have their final shape.",
        run: sequences::resolve,
    },
    BindPass {
        file: "bind/functions/mod",
        why: "Functions get the engine's names and arguments, once calls have their final shape.",
        run: |planner, statement| {
            let any = |name: &str| {
                planner.is_of_rows(name) || planner.is_aggregate(name) || planner.is_window(name)
            };
            let aggregates = |name: &str| planner.is_aggregate(name);
            functions::rewrite(statement, Known { any: &any, aggregates: &aggregates })
        },
    },
    BindPass {
        file: "bind/having_aliases",
        why: "Names in HAVING become what they stand for, outside of aggregates, whose names are \
              the engine's by now.",
        run: |planner, statement| {
            having_aliases::expand(planner, statement);
            Ok(())
        },
    },
    BindPass {
        file: "bind/functions/clauses",
        why: "Refuses clauses that a function ignores, once functions have the engine's names.",
        run: clauses::check,
    },
    BindPass {
        file: "bind/functions/ordered_windows",
        why: "f(x ORDER BY y) OVER (...) becomes a function that orders, under the final name.",
        run: |_, statement| {
            ordered_windows::order_windows(statement);
            Ok(())
        },
    },
    BindPass {
        file: "bind/functions/once",
        why: "Marks equal window calls that draw random numbers, once calls are final.",
        run: |_, statement| {
            once::tell_draws_apart(statement);
            Ok(())
        },
    },
    BindPass {
        file: "text/depth",
        why: "Checks the depth last: macros and short forms stand for more than was written.",
        run: |_, statement| depth::settle(statement),
    },
];

/// What changes a logical plan before types are settled.
pub(crate) const PLANNED: &[PlanPass] = &[
    PlanPass {
        file: "plan/size",
        why: "Refuses a plan that is too large before anything walks it.",
        run: |plan, state| {
            size::check(&plan, state)?;
            Ok(plan)
        },
    },
    PlanPass {
        file: "plan/materialized_parts",
        why: "Marks WITH queries that are computed once, while their names are still in the plan.",
        run: |plan, _| Ok(materialized_parts::of_names(plan)?),
    },
    PlanPass {
        file: "plan/rewrite",
        why: "What the engine plans otherwise than SQL has it, node by node.",
        run: |plan, _| Ok(rewrite::rewrite(plan)?),
    },
    PlanPass {
        file: "nodes/dependencies",
        why: "What determines rows is put right once no node changes any more.",
        run: |plan, _| Ok(dependencies::corrected(plan)?),
    },
];

/// Our rules of the analyzer. The engine's own have settled the types.
pub(crate) const ANALYZER: &[Pass<Arc<dyn AnalyzerRule + Send + Sync>>] = &[
    Pass {
        file: "analyze/lambda_types",
        why: "Parameters of lambdas get the settled types of their lists.",
        turn: Turn::Last(|| Arc::new(LambdaTypes)),
    },
    Pass {
        file: "analyze/decorrelate/rule",
        why: "Correlated subqueries that the engine cannot unnest become dependent joins.",
        turn: Turn::Last(|| Arc::new(DependentJoins)),
    },
    Pass {
        file: "analyze/settled",
        why: "Time zones, checked arithmetic and bounded functions, in one walk.",
        turn: Turn::Last(|| Arc::new(Settled)),
    },
    Pass {
        file: "analyze/equality/rule",
        why: "Floating-point keys get one bit pattern for equal numbers, in their final form.",
        turn: Turn::Last(|| Arc::new(Equality)),
    },
    Pass {
        file: "analyze/asof",
        why: "Marked joins become ASOF nodes, with the conditions that the rules above left.",
        turn: Turn::Last(|| Arc::new(AsofJoins)),
    },
];

/// Our rules of the optimizer, among the engine's.
pub(crate) const OPTIMIZER: &[Pass<Rule>] = &[
    Pass {
        file: "optimize/unseen_order",
        why: "Sorts whose order nobody sees go before other rules work around them.",
        turn: Turn::First(|| Arc::new(UNSEEN_ORDER)),
    },
    Pass {
        file: "optimize/functional_dependencies",
        why: "Corrects the dependencies that these three rules rely on.",
        turn: Turn::Before(
            &["eliminate_join", "eliminate_duplicated_expr", "optimize_projections"],
            || Arc::new(DEPENDENCIES),
        ),
    },
    Pass {
        file: "optimize/functional_dependencies::distinct_groups",
        why: "The engine's rule derives wrong dependencies from node to node; corrects each.",
        turn: Turn::Instead("replace_distinct_aggregate", |rule| {
            Guarded::of_plan(rule, distinct_groups)
        }),
    },
    Pass {
        file: "optimize/nested_unions",
        why: "Gives the inputs of a UNION its names before a projection moves below it.",
        turn: Turn::Instead("optimize_unions", |rule| Guarded::new(rule, nested_unions)),
    },
    Pass {
        file: "optimize/not_in",
        why: "NOT IN with NULLs gets a plan before the engine makes an anti join of it.",
        turn: Turn::Before(&["decorrelate_predicate_subquery"], || Arc::new(MEMBERSHIP)),
    },
    Pass {
        file: "analyze/equality/rule::settle_again",
        why: "Joins that rules made of subqueries get the keys that joins in the text got.",
        turn: Turn::Before(&["extract_equijoin_predicate"], || {
            Arc::new(OwnRule::of_plan("equality", settle_again))
        }),
    },
    Pass {
        file: "optimize/equal_keys",
        why: "Joins that compare NULLs as equal keep ordinary equations as conditions.",
        turn: Turn::Instead("extract_equijoin_predicate", |rule| Guarded::new(rule, equal_keys)),
    },
    Pass {
        file: "optimize/cross_joins",
        why: "The engine's rule loses equations of two relations, and mixes up how NULLs compare.",
        turn: Turn::Instead("eliminate_cross_join", |rule| Guarded::new(rule, cross_joins)),
    },
    Pass {
        file: "optimize/outer_joins",
        why: "Keys of joins drop the unmatched rows of outer joins below, as conditions do.",
        turn: Turn::Instead("eliminate_outer_join", |rule| Guarded::new(rule, outer_joins)),
    },
    Pass {
        file: "optimize/asof_filters",
        why: "Moves conditions below ASOF joins, which the engine's push-down does not know.",
        turn: Turn::Before(&["push_down_filter"], || Arc::new(ASOF_FILTERS)),
    },
    Pass {
        file: "optimize/literals_right",
        why: "The push-down keeps the weaker of two bounds if a literal is on the left.",
        turn: Turn::Before(&["push_down_filter"], || Arc::new(LITERALS_RIGHT)),
    },
    Pass {
        file: "optimize/constant_conditions",
        why: "Scans of no row become empty before the engine hands up what is empty.",
        turn: Turn::Before(&["propagate_empty_relation"], || Arc::new(CONSTANT_CONDITIONS)),
    },
    Pass {
        file: "optimize/where_true",
        why: "Conditions of filters lose their NULLs before scans look for bounds in them.",
        turn: Turn::Before(&["push_down_filter"], || Arc::new(WHERE_TRUE)),
    },
    Pass {
        file: "optimize/conditions_down",
        why: "Keeps conditions where moving them would change the answer.",
        turn: Turn::Instead("push_down_filter", |rule| Guarded::new(rule, conditions_down)),
    },
    Pass {
        file: "optimize/join_order",
        why: "Conditions must be at their relations already, and projections not yet between the \
              joins.",
        turn: Turn::Behind("push_down_filter", || Arc::new(JoinOrder)),
    },
    Pass {
        file: "optimize/offset_sums",
        why: "sum(x + 1), sum(x + 2) are computed from one sum, above the final conditions.",
        turn: Turn::Behind("push_down_filter", || Arc::new(OFFSET_SUMS)),
    },
    Pass {
        file: "optimize/grouping_sets",
        why: "Coarse groups are computed from fine ones, over the final joins.",
        turn: Turn::Behind("push_down_filter", || Arc::new(GROUPING_SETS)),
    },
    Pass {
        file: "optimize/groups_below_joins",
        why: "Groups by columns of a joined table begin below the join, once joins are in order.",
        turn: Turn::Behind("push_down_filter", || Arc::new(GROUPS_BELOW_JOINS)),
    },
    Pass {
        file: "optimize/empty_sorts",
        why: "The engine cannot sort rows all of whose columns it has dropped.",
        turn: Turn::Behind("optimize_projections", || Arc::new(EMPTY_SORTS)),
    },
    Pass {
        file: "optimize/leaf_unions",
        why: "Keeps parts of structs above a UNION where the engine would mix up its columns.",
        turn: Turn::Instead("push_down_leaf_projections", |rule| Guarded::new(rule, leaf_unions)),
    },
    Pass {
        file: "optimize/lambda_nulls",
        why: "Constant folding has changed types of lists that lambdas take.",
        turn: Turn::Last(|| Arc::new(LAMBDA_NULLS)),
    },
    Pass {
        file: "optimize/keys_as_columns",
        why: "The engine refuses orders by keys that it cannot follow; keys are final here.",
        turn: Turn::Last(|| Arc::new(KEYS_AS_COLUMNS)),
    },
];

/// Our rules about physical plans, among the engine's.
pub(crate) const PHYSICAL: &[Pass<PhysicalRule>] = &[
    Pass {
        file: "physical/drawn",
        why: "The engine takes drawn values for constants; before it looks at any order.",
        turn: Turn::First(|| Arc::new(NotConstant)),
    },
    Pass {
        file: "physical/aggregate_statistics",
        why: "The engine's rule answers a subquery's aggregate below one with FILTER.",
        turn: Turn::Instead("aggregate_statistics", |rule| Arc::new(FromStatistics(rule))),
    },
    Pass {
        file: "physical/grace_joins",
        why: "Joins that may not fit into memory can spill, whoever would build their table.",
        turn: Turn::Behind("join_selection", || Arc::new(GraceJoins)),
    },
    Pass {
        file: "swingdb-operators/shared_join/mod",
        why: "After the choice of the build side, before sides are collected or repartitioned.",
        turn: Turn::Behind("join_selection", || Arc::new(SharedJoins)),
    },
    Pass {
        file: "physical/dynamic_filters",
        why: "The engine's rule finds columns by name, which may be another column's.",
        turn: Turn::Instead("FilterPushdown", |_| Arc::new(HandDown::of_plan())),
    },
    Pass {
        file: "physical/settled_order",
        why: "The engine's rule takes away sorts that something below them depends on.",
        turn: Turn::Instead("EnsureRequirements", |rule| Arc::new(SettledOrder(rule))),
    },
    Pass {
        file: "physical/first_groups",
        why: "The engine's rule keeps first groups whose keys or values it compares otherwise.",
        turn: Turn::Instead("LimitAggregation", |rule| Arc::new(FirstGroups(rule))),
    },
    Pass {
        file: "physical/sorted_limits",
        why: "Partitions of a sorted LIMIT compare by the whole order before they share bounds.",
        turn: Turn::Before(&["FilterPushdown(Post)"], || Arc::new(WholeOrder)),
    },
    Pass {
        file: "physical/large_limits",
        why: "Sorts with large limits become ones that spill, before they share bounds.",
        turn: Turn::Before(&["FilterPushdown(Post)"], || Arc::new(LargeLimits)),
    },
    Pass {
        file: "physical/dynamic_filters::of_running",
        why: "As above, for filters that become known while a query runs.",
        turn: Turn::Instead("FilterPushdown(Post)", |_| Arc::new(HandDown::of_running())),
    },
    Pass {
        file: "physical/lost_order",
        why: "The engine's check refuses plans whose order its later rules lost sight of.",
        turn: Turn::Instead("SanityCheckPlan", |rule| Arc::new(LostOrder(rule))),
    },
    Pass {
        file: "physical/insertion_order",
        why: "Rows without ORDER BY come in insertion order; no later rule may mix partitions.",
        turn: Turn::Last(|| Arc::new(InOrder)),
    },
    Pass {
        file: "physical/whole_groups",
        why: "Groups are not dealt out by key if the table is sorted by it, once scans are final.",
        turn: Turn::Last(|| Arc::new(WholeGroups)),
    },
    Pass {
        file: "swingdb-operators/top_of_groups/rule",
        why: "Leaves out rows before the sorts that are there by now.",
        turn: Turn::Last(|| Arc::new(TopOfGroups)),
    },
    Pass {
        file: "physical/materialize/rule",
        why: "Equal parts of the final plan are computed once.",
        turn: Turn::Last(|| Arc::new(ShareRows)),
    },
    Pass {
        file: "physical/large_sorts",
        why: "Batches for large sorts hold no more memory than their rows need; sorts are final.",
        turn: Turn::Last(|| Arc::new(LargeSorts)),
    },
    Pass {
        file: "physical/result_batches",
        why: "Rows that nothing works on come in large batches; nothing is put above them later.",
        turn: Turn::Last(|| Arc::new(ResultBatches)),
    },
    Pass {
        file: "physical/slices",
        why: "Long constants beside each row need small batches; the operators are final by now.",
        turn: Turn::Last(|| Arc::new(InSlices)),
    },
    Pass {
        file: "physical/beside_scan",
        why: "Notes in each scan which aggregate runs beside it, for EXPLAIN, in the final plan.",
        turn: Turn::Last(|| Arc::new(BesideScan)),
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn source() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
    }

    /// The names and reasons of all passes.
    fn listed() -> Vec<(&'static str, &'static str)> {
        fn of<R>(passes: &[Pass<R>]) -> impl Iterator<Item = (&'static str, &'static str)> {
            passes.iter().map(|pass| (pass.file, pass.why))
        }
        let binding = BINDING.iter().map(|pass| (pass.file, pass.why));
        let planned = PLANNED.iter().map(|pass| (pass.file, pass.why));
        let rules = of(ANALYZER).chain(of(OPTIMIZER)).chain(of(PHYSICAL));
        binding.chain(planned).chain(rules).collect()
    }

    /// The file of a pass, which may be one of the crate of operators.
    fn file(pass: &str) -> PathBuf {
        let file = pass.split("::").next().unwrap();
        match file.split_once('/') {
            Some(("swingdb-operators", rest)) => {
                source().join("../../swingdb-operators/src").join(rest).with_extension("rs")
            }
            _ => source().join(file).with_extension("rs"),
        }
    }

    #[test]
    fn each_pass_is_listed_once_with_a_reason() {
        let mut seen = BTreeSet::new();
        for (pass, why) in listed() {
            assert!(seen.insert(pass), "{pass} is listed twice");
            assert!(file(pass).is_file(), "{pass} has no file");
            assert!(why.ends_with('.') && why.len() > 20, "{pass} has no reason");
        }
    }

    #[test]
    fn each_pass_of_binding_is_run_once() {
        let text = fs::read_to_string(source().join("passes.rs")).unwrap();
        let (_, list) = text.split_once("const BINDING").unwrap();
        let (list, _) = list.split_once("const PLANNED").unwrap();
        for pass in BINDING {
            let module = pass.file.trim_end_matches("/mod").rsplit('/').next().unwrap();
            let calls = [" ", "::"].map(|before| format!("{before}{module}::"));
            let behind = calls.iter().flat_map(|call| list.split(call.as_str()).skip(1));
            // Types have upper case letters.
            let called = behind.filter(|rest| rest.starts_with(|c: char| c.is_lowercase()));
            assert_eq!(called.count(), 1, "{}", pass.file);
        }
    }

    #[test]
    fn each_rule_of_ours_is_listed() {
        const OF_RULES: &[&str] =
            &["impl AnalyzerRule for", ": OwnRule =", "impl PhysicalOptimizerRule for"];
        let listed: BTreeSet<PathBuf> = listed().iter().map(|(pass, _)| file(pass)).collect();
        let mut folders: Vec<PathBuf> =
            ["analyze", "optimize", "physical"].map(|folder| source().join(folder)).to_vec();
        let mut found = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = fs::read_to_string(&path).unwrap();
                let (production, _) = text.split_once("#[cfg(test)]").unwrap_or((&text, ""));
                if OF_RULES.iter().any(|of| production.contains(of)) {
                    assert!(listed.contains(&path), "{} is not listed", path.display());
                    found += 1;
                }
            }
        }
        assert!(found > 20, "{found} files with rules");
    }

    /// Whether all turns of passes among the engine's rules were taken.
    fn are_placed<R>(all: &[R], engines: usize, passes: &[Pass<R>]) -> bool {
        let added = passes.iter().map(|pass| match pass.turn {
            Turn::Before(rules, _) => rules.len(),
            Turn::Instead(..) => 0,
            Turn::First(_) | Turn::Behind(..) | Turn::Last(_) => 1,
        });
        all.len() == engines + added.sum::<usize>()
    }

    #[test]
    fn the_engine_has_each_rule_that_is_named() {
        assert!(are_placed(&analyzer_rules().unwrap(), 0, ANALYZER));
        let engines = Optimizer::new().rules.len();
        assert!(are_placed(&optimizer_rules().unwrap(), engines, OPTIMIZER));
        let engines = PhysicalOptimizer::new().rules.len();
        assert!(are_placed(&physical_rules().unwrap(), engines, PHYSICAL));
    }
}
