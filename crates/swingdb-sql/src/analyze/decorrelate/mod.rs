//! Subqueries that depend on the rows outside them in ways the query engine makes no join of.
//!
//! The engine unnests a correlated subquery of a WHERE or, if it is a value, of a SELECT list, and
//! a LATERAL, when equations alone tie it to the rows outside, and nothing lies above them that
//! cuts or numbers rows. All others are unnested here, by the method of T. Neumann and A. Kemper
//! ("Unnesting Arbitrary Queries", BTW 2015): the subquery is evaluated once for all the values it
//! depends on, which are the *domain*, instead of once a row.
//!
//! | step | where |
//! |---|---|
//! | which subqueries those are | [`by_engine`] |
//! | finding them in a plan, the innermost first | [`rule`] |
//! | those in the conditions of joins | [`join_conditions`] |
//! | the domain, and joining what became of the subquery to the rows beside it | [`attach`] |
//! | pushing the domain down, until nothing below refers outside the subquery | [`push_down`] |
//!
//! A domain with a column `d` is joined to the lowest parts of the subquery; all parts above carry
//! `d` along: filters compare with it, aggregates group by it, windows are partitioned by it.

pub(crate) mod attach;
pub(crate) mod by_engine;
pub(crate) mod join_conditions;
pub(crate) mod only_element;
pub(crate) mod outer_references;
pub(crate) mod push_down;
pub(crate) mod rule;
