//! Binding: each name of a statement gets the one meaning it has, from one state of the catalogs.
//!
//! In comes a syntax tree as it was written; out goes one in which every relation, column, macro,
//! sequence and function is named as the planner will find it, and in which what depends on the
//! columns of a relation (`*`, `COLUMNS`, PIVOT, USING) is written out. [`bind`] lists the passes.
//!
//! Only this stage looks into the catalogs ([`catalogs::Catalogs`]). What only planning can tell,
//! such as the columns of a subquery, it asks through [`lookahead::Lookahead`].
//!
//! | this | becomes |
//! |---|---|
//! | `PIVOT t ON s USING sum(x)` | [`pivot`]: `sum(x) FILTER (WHERE s = 'a') AS a` for each value |
//! | `UNPIVOT t ON a, b` | [`unpivot`]: `unnest(['a', 'b'])` and `unnest([a, b])` |
//! | `SELECT st.*` of a STRUCT | [`struct_stars`]: `SELECT st.a AS a, st.b AS b` |
//! | `array(SELECT i FROM u)` | [`array_queries`]: a subquery of `array_agg(i)` |
//! | `x.upper()` | [`method_calls`]: `upper(x)` |
//! | `a POSITIONAL JOIN b` | [`positional`]: a FULL JOIN by the numbers of rows |
//! | `SELECT rowid FROM t` | [`rowids`]: the same of a `t` with one more column |
//! | `SELECT A ... UNION BY NAME SELECT a` | [`by_name`]: `SELECT a AS "A"` |

pub(crate) mod array_queries;
pub(crate) mod by_name;
pub mod catalogs;
pub(crate) mod columns;
pub mod functions;
pub(crate) mod hidden;
pub(crate) mod identifiers;
pub(crate) mod information_schema;
pub mod lookahead;
pub mod macros;
pub(crate) mod method_calls;
pub(crate) mod pivot;
pub mod pivots;
pub(crate) mod positional;
pub(crate) mod reused_aliases;
pub(crate) mod rowids;
pub(crate) mod scopes;
pub mod sequences;
pub(crate) mod shadowed;
pub(crate) mod struct_stars;
pub mod system;
pub mod types;
pub(crate) mod unpivot;

use datafusion::sql::sqlparser::ast::Statement;
use swingdb_common::error::Result;

use crate::desugar;
use crate::desugar::{
    cast_names, inner_withs, json_rows, json_transform, members, same_names, series, tries,
};
use crate::text::depth;

use self::functions::template::Known;
use self::functions::{clauses, once, ordered_windows};
use self::lookahead::Lookahead;

/// Binds a statement: all passes, in their order.
pub(crate) fn bind(planner: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    // Forms that are called by name come first: what they stand for is bound like all else.
    method_calls::unchain(planner.view(), statement);
    macros::expand::expand(planner, statement)?;
    // The types that it names may be the database's own.
    json_transform::expand(statement)?;
    types::resolve(planner.view(), statement)?;
    tries::rewrite(statement)?;
    // Relations get names of their own before columns are looked up in them.
    inner_withs::tell_withs_apart(statement);
    scopes::resolve(planner, statement)?;
    same_names::tell_tables_apart(statement);
    // All later passes see ordinary queries only.
    pivots::turn_tables(planner, statement)?;
    // Neither is a column, though each is written as one.
    series::name_series(statement);
    json_rows::expand(statement)?;
    members::name_members(statement);
    positional::expand(planner, statement)?;
    rowids::show(planner, statement)?;
    // Stars and their like are written out, so that later passes see plain lists.
    array_queries::collect_arrays(planner, statement)?;
    struct_stars::expand_structs(planner, statement)?;
    columns::expand(planner, statement)?;
    by_name::match_names(planner, statement)?;
    // Identifiers, when all columns are there; then relations that hide others of their name.
    identifiers::resolve(planner, statement)?;
    shadowed::show_hidden(planner, statement);
    // Short forms need exact names, such as those of USING.
    desugar::rewrite(&mut columns::Planned::new(planner), statement)?;
    cast_names::tell_apart(statement);
    // Calls have their final shape, whatever made them.
    sequences::resolve(planner, statement)?;
    let any = |name: &str| {
        planner.is_of_rows(name) || planner.is_aggregate(name) || planner.is_window(name)
    };
    let aggregates = |name: &str| planner.is_aggregate(name);
    functions::rewrite(statement, Known { any: &any, aggregates: &aggregates })?;
    clauses::check(planner, statement)?;
    ordered_windows::order_windows(statement);
    once::tell_draws_apart(statement);
    // Macros and other forms stand for more than was written.
    depth::settle(statement)
}
