//! INSERT, UPDATE, DELETE, MERGE, TRUNCATE.
//!
//! **Cycle.** A query contains expressions and relations, and these contain queries.

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, DoUpdate, FromTable, Insert, Merge,
    MergeAction, MergeClause, MergeInsertExpr, MergeInsertKind, MergeUpdateExpr, OnConflict,
    OnConflictAction, OnInsert, OutputClause, SelectItem, SqliteOnConflict,
    TableAliasWithoutColumns, TableObject, Truncate, TruncateIdentityOption, TruncateTableTarget,
    Update, UpdateTableFromKind, Values,
};
use swingdb_common::error::{Error, Result};

use crate::ast::insert::is_by_name;
use crate::ast::merge::WholeRow;
use crate::text::clauses::{all_fields, none_of, query};

pub(crate) fn insert(node: &Insert) -> Result<()> {
    all_fields!("INSERT", Insert {
        insert_token, optimizer_hints, or, ignore, into, table, table_alias, columns, source,
        has_table_keyword, on, partitioned, returning, replace_into;
        overwrite: false => "OVERWRITE; write TRUNCATE and INSERT in one transaction",
        output: None => "OUTPUT; write RETURNING",
        priority: None => "LOW_PRIORITY, DELAYED and HIGH_PRIORITY",
        insert_alias: None => "AS a name for the new row; write ON CONFLICT and excluded",
        settings: None => "SETTINGS; write SET name = value before",
        format_clause: None => "FORMAT; write COPY t FROM 'file'",
        multi_table_insert_type: None => "into several tables",
        multi_table_else_clause: None => "into several tables",
        ;
        assignments: [] => "SET; write INSERT INTO t (columns) VALUES (...)",
        after_columns: [] => "PARTITION",
        multi_table_into_clauses: [] => "into several tables",
        multi_table_when_clauses: [] => "into several tables",
    } = node);
    let Insert { or, ignore, table, table_alias, partitioned, on, returning, replace_into, .. } =
        node;
    none_of("INSERT", &[(partitioned.is_some() && !is_by_name(node), "PARTITION")])?;
    match table {
        TableObject::TableName(_) => {}
        other => return Err(Error::plan(format!("INSERT INTO {other}: only a table takes rows"))),
    }
    if let Some(TableAliasWithoutColumns { explicit: false, alias }) = table_alias {
        return Err(Error::plan(format!("INSERT INTO {table} {alias}; write AS {alias}")));
    }
    match or {
        // ABORT is what happens anyway: the statement is undone.
        None
        | Some(SqliteOnConflict::Abort | SqliteOnConflict::Ignore | SqliteOnConflict::Replace) => {}
        Some(other) => {
            return Err(Error::unsupported(format!(
                "INSERT {other}; write INSERT OR IGNORE, OR REPLACE or ON CONFLICT"
            )));
        }
    }
    let short = or.is_some() || *ignore || *replace_into;
    if let Some(on) = on {
        if short {
            return Err(Error::plan(
                "INSERT has either OR REPLACE, OR IGNORE or the like, or ON CONFLICT; write one",
            ));
        }
        on_insert(on)?;
    }
    items(returning.as_deref())
}

fn on_insert(node: &OnInsert) -> Result<()> {
    match node {
        OnInsert::DuplicateKeyUpdate(list) => assigned(list),
        OnInsert::OnConflict(OnConflict { conflict_target, action }) => {
            match conflict_target {
                None | Some(ConflictTarget::Columns(_) | ConflictTarget::OnConstraint(_)) => {}
            }
            match action {
                OnConflictAction::DoNothing => Ok(()),
                OnConflictAction::DoUpdate(DoUpdate { assignments, selection: _ }) => {
                    assigned(assignments)
                }
            }
        }
        other => Err(Error::unsupported(other.to_string())),
    }
}

fn assigned(nodes: &[Assignment]) -> Result<()> {
    for Assignment { target, value: _ } in nodes {
        match target {
            AssignmentTarget::ColumnName(_) | AssignmentTarget::Tuple(_) => {}
        }
    }
    Ok(())
}

fn items(nodes: Option<&[SelectItem]>) -> Result<()> {
    nodes.unwrap_or_default().iter().try_for_each(query::select_item)
}

pub(crate) fn update(node: &Update) -> Result<()> {
    let Update {
        update_token: _,
        optimizer_hints: _,
        table,
        assignments,
        from,
        selection: _,
        returning,
        output,
        or,
        order_by,
        limit: _,
    } = node;
    none_of(
        "UPDATE",
        &[(or.is_some(), "OR REPLACE and the like"), (output.is_some(), "OUTPUT; write RETURNING")],
    )?;
    query::table_with_joins(table)?;
    assigned(assignments)?;
    if let Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) = from {
        from.iter().try_for_each(query::table_with_joins)?;
    }
    order_by.iter().try_for_each(query::order_key)?;
    items(returning.as_deref())
}

pub(crate) fn delete(node: &Delete) -> Result<()> {
    let Delete {
        delete_token: _,
        optimizer_hints: _,
        tables,
        from,
        using,
        selection: _,
        returning,
        output,
        order_by,
        limit: _,
    } = node;
    none_of(
        "DELETE",
        &[
            (!tables.is_empty(), "t FROM; write DELETE FROM t USING s WHERE ..."),
            (output.is_some(), "OUTPUT; write RETURNING"),
        ],
    )?;
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
    from.iter().chain(using.iter().flatten()).try_for_each(query::table_with_joins)?;
    order_by.iter().try_for_each(query::order_key)?;
    items(returning.as_deref())
}

pub(crate) fn merge(node: &Merge) -> Result<()> {
    let Merge {
        merge_token: _,
        optimizer_hints: _,
        into: _,
        table: _,
        source: _,
        on: _,
        clauses,
        output,
    } = node;
    for clause in clauses {
        let MergeClause { when_token: _, clause_kind: _, predicate: _, action } = clause;
        merge_action(action)?;
    }
    match output {
        None => Ok(()),
        Some(OutputClause::Returning { returning_token: _, select_items }) => {
            items(Some(select_items))
        }
        Some(OutputClause::Output { output_token: _, select_items: _, into_table: _ }) => {
            Err(Error::unsupported("MERGE ... OUTPUT; write RETURNING"))
        }
    }
}

fn merge_action(node: &MergeAction) -> Result<()> {
    let is_whole = WholeRow::of(node).is_some();
    match node {
        MergeAction::Delete { delete_token: _ } => Ok(()),
        MergeAction::Update(MergeUpdateExpr {
            update_token: _,
            assignments,
            update_predicate,
            delete_predicate,
        }) => {
            assigned(assignments)?;
            none_of(
                "MERGE ... UPDATE",
                &[
                    (
                        update_predicate.is_some() && !is_whole,
                        "WHERE; write WHEN MATCHED AND condition",
                    ),
                    (delete_predicate.is_some(), "DELETE WHERE; write a WHEN of its own"),
                ],
            )
        }
        MergeAction::Insert(MergeInsertExpr {
            insert_token: _,
            columns,
            kind_token: _,
            kind,
            insert_predicate,
        }) => {
            let row = match kind {
                MergeInsertKind::Row => true,
                MergeInsertKind::Values(Values { explicit_row: _, value_keyword: _, rows: _ }) => {
                    false
                }
            };
            none_of(
                "MERGE ... INSERT",
                &[
                    (
                        insert_predicate.is_some() && !is_whole,
                        "WHERE; write WHEN NOT MATCHED AND condition",
                    ),
                    (row && !columns.is_empty(), "(columns) ROW; write INSERT *"),
                ],
            )
        }
    }
}

pub(crate) fn truncate(node: &Truncate) -> Result<()> {
    let Truncate {
        table_names,
        partitions,
        table: _,
        if_exists: _,
        identity,
        cascade: _,
        on_cluster,
    } = node;
    // CASCADE and RESTRICT are the same: a table stays whose rows those of another refer to.
    for TruncateTableTarget { name: _, only: _, has_asterisk: _ } in table_names {}
    let restart = matches!(identity, Some(TruncateIdentityOption::Restart));
    none_of(
        "TRUNCATE",
        &[
            (partitions.is_some(), "PARTITION"),
            (restart, "RESTART IDENTITY; make the sequence anew with CREATE OR REPLACE SEQUENCE"),
            (on_cluster.is_some(), "ON CLUSTER"),
        ],
    )
}
