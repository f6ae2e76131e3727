//! What stands in FROM: tables, subqueries, functions, samples.
//!
//! **Cycle.** A query contains expressions and relations, and these contain queries.

use datafusion::sql::sqlparser::ast::{
    ExprWithAlias, FunctionArg, NullInclusion, PivotValueSource, TableAlias, TableAliasColumnDef,
    TableFactor, TableFunctionArgs, TableSample, TableSampleKind, TableSampleQuantity,
    TableSampleSeed,
};
use swingdb_common::error::{Error, Result};

use crate::text::clauses::{expression, none_of, query};

pub(crate) fn relation(node: &TableFactor) -> Result<()> {
    match node {
        TableFactor::Table {
            name: _,
            alias,
            args,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
        } => {
            none_of(
                "FROM",
                &[
                    (!with_hints.is_empty(), "WITH (hints)"),
                    (version.is_some(), "AT a version of a table"),
                    (*with_ordinality, ORDINALITY),
                    (!partitions.is_empty(), "PARTITION"),
                    (json_path.is_some(), "a path behind a table"),
                    (!index_hints.is_empty(), "USE INDEX; the planner chooses"),
                ],
            )?;
            if let Some(TableFunctionArgs { args, settings }) = args {
                none_of("FROM", &[(settings.is_some(), "SETTINGS of a function")])?;
                args.iter().try_for_each(argument)?;
            }
            sampled(sample.as_ref())?;
            named(alias.as_ref())
        }
        TableFactor::Derived { lateral: _, subquery: _, alias, sample } => {
            sampled(sample.as_ref())?;
            named(alias.as_ref())
        }
        TableFactor::Function { lateral: _, name: _, args, with_ordinality, alias } => {
            none_of("FROM", &[(*with_ordinality, ORDINALITY)])?;
            args.iter().try_for_each(argument)?;
            named(alias.as_ref())
        }
        TableFactor::UNNEST {
            alias,
            array_exprs: _,
            with_offset,
            with_offset_alias,
            with_ordinality,
        } => {
            none_of(
                "FROM",
                &[
                    (*with_offset || with_offset_alias.is_some(), "WITH OFFSET"),
                    (*with_ordinality, ORDINALITY),
                ],
            )?;
            named(alias.as_ref())
        }
        TableFactor::NestedJoin { table_with_joins, alias } => {
            query::table_with_joins(table_with_joins)?;
            named(alias.as_ref())
        }
        TableFactor::Pivot { .. } | TableFactor::Unpivot { .. } => turned(node),
        other => Err(Error::unsupported(format!("FROM {other}"))),
    }
}

const ORDINALITY: &str = "WITH ORDINALITY; write row_number() OVER ()";

fn turned(node: &TableFactor) -> Result<()> {
    match node {
        TableFactor::Pivot {
            table: _,
            aggregate_functions,
            value_column: _,
            value_source,
            default_on_null,
            alias,
        } => {
            for ExprWithAlias { expr: _, alias: _ } in aggregate_functions {}
            match value_source {
                PivotValueSource::List(values) => {
                    for ExprWithAlias { expr: _, alias: _ } in values {}
                }
                // What all values stand for, once the tokens have been rewritten.
                PivotValueSource::Any(order) if order.is_empty() => {}
                PivotValueSource::Any(_) | PivotValueSource::Subquery(_) => {
                    return Err(Error::unsupported("PIVOT with IN (SELECT ...) and ANY ORDER BY"));
                }
            }
            none_of("PIVOT", &[(default_on_null.is_some(), "DEFAULT ON NULL")])?;
            named(alias.as_ref())
        }
        TableFactor::Unpivot { table: _, value: _, name: _, columns, null_inclusion, alias } => {
            for ExprWithAlias { expr: _, alias: _ } in columns {}
            match null_inclusion {
                None | Some(NullInclusion::IncludeNulls | NullInclusion::ExcludeNulls) => {}
            }
            named(alias.as_ref())
        }
        other => Err(Error::unsupported(format!("FROM {other}"))),
    }
}

/// A function of a table takes what its arguments' places say; a name before one would be lost.
/// Those of files and of macros are known by name.
fn argument(node: &FunctionArg) -> Result<()> {
    match node {
        FunctionArg::Unnamed(_)
        | FunctionArg::Named { name: _, arg: _, operator: _ }
        | FunctionArg::ExprNamed { name: _, arg: _, operator: _ } => expression::argument(node),
    }
}

fn named(node: Option<&TableAlias>) -> Result<()> {
    node.map_or(Ok(()), alias)
}

pub(crate) fn alias(node: &TableAlias) -> Result<()> {
    let TableAlias { explicit: _, name: _, columns, at } = node;
    none_of("FROM", &[(at.is_some(), "AT behind a name")])?;
    for TableAliasColumnDef { name: _, data_type } in columns {
        none_of("FROM", &[(data_type.is_some(), "AS name (column type); leave the type out")])?;
    }
    Ok(())
}

fn sampled(node: Option<&TableSampleKind>) -> Result<()> {
    let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
        match node {
            None => return Ok(()),
            Some(kind) => kind,
        };
    let TableSample { modifier: _, name: _, quantity, seed, bucket, offset } = sample.as_ref();
    none_of("TABLESAMPLE", &[(bucket.is_some(), "BUCKET"), (offset.is_some(), "OFFSET")])?;
    if let Some(TableSampleSeed { modifier: _, value: _ }) = seed {}
    if let Some(TableSampleQuantity { parenthesized: _, value: _, unit: _ }) = quantity {}
    Ok(())
}
