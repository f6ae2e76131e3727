//! `ASOF JOIN`: each row of the left side with the nearest row of the right side in time.
//!
//! `FROM a ASOF JOIN b ON a.k = b.k AND a.t >= b.t` gives to a row of `a` the row of `b` with the
//! same `k` that is the last one not after it; `>` the last before, `<=` the first not before, `<`
//! the first after it. With `ASOF LEFT JOIN` rows of `a` without such a row stay, with NULLs. Of
//! several rows of `b` at the same time it is any one. As in DuckDB and, as `join_asof`, in Polars.
//!
//! The query engine does not know it. So it plans a plain join on `asof_join(condition)` ([`MARK`],
//! which [`desugar::joins`](crate::desugar::joins) puts), with all that names and types need; when
//! types are settled, the [rule](crate::analyze::asof) makes a [node](crate::nodes::asof)
//! of it, and [`planner`] an operator ([`exec`]): the right side is collected in the order of keys
//! and time ([`index`]), and the left side, unordered and in parallel, looks for its rows there.
//! [`asof_filters`](crate::optimize::asof_filters) puts conditions on the left side below it.
//!
//! [`MARK`]: crate::nodes::asof::MARK

pub(crate) mod exec;
pub(crate) mod index;
pub(crate) mod planner;
