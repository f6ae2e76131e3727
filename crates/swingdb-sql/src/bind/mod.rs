//! Binding: each name of a statement gets the one meaning it has, from one state of the catalogs.
//!
//! In comes a syntax tree as it was written; out goes one in which every relation, column, macro,
//! sequence and function is named as the planner will find it, and in which what depends on the
//! columns of a relation (`*`, `COLUMNS`, PIVOT, USING) is written out.
//! [`BINDING`](crate::passes::BINDING) lists the passes in their order.
//!
//! Only this stage looks into the catalogs ([`catalogs::Catalogs`]). Which columns there are in a
//! FROM clause, [`from_columns`] tells all passes. What only planning can tell, such as the value
//! of a constant, they ask through [`lookahead::Lookahead`].
//!
//! | this | becomes |
//! |---|---|
//! | `PIVOT t ON s USING sum(x)` | [`pivot`]: `sum(x) FILTER (WHERE s = 'a') AS a` for each value |
//! | `UNPIVOT t ON a, b` | [`unpivot`]: `unnest(['a', 'b'])` and `unnest([a, b])` |
//! | `SELECT t FROM t` | [`row_structs`]: `named_struct('a', t.a, 'b', t.b) AS t` |
//! | `SELECT st.*` of a STRUCT | [`struct_stars`]: `SELECT st.a AS a, st.b AS b` |
//! | `array(SELECT i FROM u)` | [`array_queries`]: a subquery of `array_agg(i)` |
//! | `x.upper()` | [`method_calls`]: `upper(x)` |
//! | `FROM query('SELECT 1')` | [`named_queries`]: `FROM (SELECT 1)` |
//! | `a POSITIONAL JOIN b` | [`positional`]: a FULL JOIN by the numbers of rows |
//! | `a RIGHT JOIN b USING (k)`, `FULL` | [`using_joins`]: `ON`, `k` from the side that has it |
//! | `SELECT sum(x) AS x ... HAVING x > 5` | [`having_aliases`]: `HAVING (sum(x)) > 5` |
//! | `ROWS $1 PRECEDING` | [`frame_bounds`]: `ROWS 2 PRECEDING`, by the value of the parameter |
//! | `SELECT rowid FROM t` | [`rowids`]: the same of a `t` with one more column |
//! | `SELECT A ... UNION BY NAME SELECT a` | [`by_name`]: `SELECT a AS "A"` |

pub(crate) mod array_queries;
pub(crate) mod by_name;
pub mod catalogs;
pub(crate) mod columns;
pub mod frame_bounds;
pub(crate) mod from_columns;
pub mod functions;
pub(crate) mod having_aliases;
pub(crate) mod hidden;
pub(crate) mod identifiers;
pub(crate) mod information_schema;
pub(crate) mod joined_names;
pub mod lookahead;
pub mod macros;
pub(crate) mod method_calls;
pub(crate) mod named_queries;
pub(crate) mod pivot;
pub mod pivots;
pub mod positional;
pub(crate) mod reused_aliases;
pub(crate) mod row_structs;
pub(crate) mod rowids;
pub(crate) mod scopes;
pub mod sequences;
pub(crate) mod shadowed;
pub(crate) mod struct_stars;
pub mod system;
pub mod types;
pub(crate) mod unpivot;
pub(crate) mod using_joins;
pub(crate) mod with_clauses;
