//! CREATE TABLE, VIEW and SCHEMA, ALTER TABLE, DROP.
//!
//! **Cycle.** A query contains expressions and relations, and these contain queries.

use datafusion::sql::parser::CreateExternalTable;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, CheckConstraint, ColumnDef,
    ColumnOption, ColumnOptionDef, CommentObject, ConstraintReferenceMatchKind, CreateIndex,
    CreateTable, CreateTableLike, CreateTableLikeDefaults, CreateTableLikeKind, CreateTableOptions,
    CreateView, DropBehavior, ForeignKeyConstraint, HiveDistributionStyle, IndexColumn,
    NullsDistinctOption, OrderByExpr, OrderByOptions, PrimaryKeyConstraint, ReferentialAction,
    RenameTableNameKind, SchemaName, Statement, TableConstraint, UniqueConstraint, ViewColumnDef,
};
use swingdb_common::error::{Error, Result};

use crate::text::clauses::{all_fields, none_of, query};
use crate::text::collations::is_by_bytes;

pub(crate) fn create_table(node: &CreateTable) -> Result<()> {
    all_fields!("CREATE TABLE", CreateTable {
        or_replace, temporary, if_not_exists, name, columns, constraints, query, like, clone;
        external: false => "EXTERNAL here",
        dynamic: false => "DYNAMIC",
        global: None | Some(false) => "GLOBAL; a temporary table belongs to its session",
        transient: false => "TRANSIENT",
        volatile: false => "VOLATILE",
        iceberg: false => "ICEBERG",
        snapshot: false => "SNAPSHOT",
        hive_distribution: HiveDistributionStyle::NONE => "PARTITIONED BY and SKEWED BY",
        hive_formats: None => "ROW FORMAT and STORED AS",
        table_options: CreateTableOptions::None => "WITH (...) and other options",
        file_format: None => "STORED AS",
        location: None => "LOCATION",
        without_rowid: false => "WITHOUT ROWID",
        version: None => "AT a version of a table",
        comment: None => "COMMENT; there are no comments on tables",
        on_commit: None => "ON COMMIT",
        on_cluster: None => "ON CLUSTER",
        primary_key: None => "PRIMARY KEY after the list of columns",
        order_by: None => "ORDER BY after the list of columns",
        partition_by: None => "PARTITION BY",
        cluster_by: None => "CLUSTER BY",
        clustered_by: None => "CLUSTERED BY",
        inherits: None => "INHERITS",
        partition_of: None => "PARTITION OF",
        for_values: None => "FOR VALUES",
        strict: false => "STRICT; types are always checked",
        copy_grants: false => "COPY GRANTS",
        enable_schema_evolution: None => "ENABLE_SCHEMA_EVOLUTION",
        change_tracking: None => "CHANGE_TRACKING",
        data_retention_time_in_days: None => "DATA_RETENTION_TIME_IN_DAYS",
        max_data_extension_time_in_days: None => "MAX_DATA_EXTENSION_TIME_IN_DAYS",
        default_ddl_collation: None => "DEFAULT_DDL_COLLATION",
        with_aggregation_policy: None => "WITH AGGREGATION POLICY",
        with_row_access_policy: None => "WITH ROW ACCESS POLICY",
        with_storage_lifecycle_policy: None => "WITH STORAGE LIFECYCLE POLICY",
        with_tags: None => "WITH TAG",
        external_volume: None => "EXTERNAL_VOLUME",
        base_location: None => "BASE_LOCATION",
        catalog: None => "CATALOG",
        catalog_sync: None => "CATALOG_SYNC",
        storage_serialization_policy: None => "STORAGE_SERIALIZATION_POLICY",
        target_lag: None => "TARGET_LAG",
        warehouse: None => "WAREHOUSE",
        refresh_mode: None => "REFRESH_MODE",
        initialize: None => "INITIALIZE",
        require_user: false => "REQUIRE USER",
        diststyle: None => "DISTSTYLE",
        distkey: None => "DISTKEY",
        sortkey: None => "SORTKEY",
        backup: None => "BACKUP",
        ;
    } = node);
    let CreateTable { columns, constraints, query, like, clone, .. } = node;
    one_source(columns, constraints, [query.is_some(), like.is_some(), clone.is_some()])?;
    if let Some(CreateTableLikeKind::Parenthesized(like) | CreateTableLikeKind::Plain(like)) = like
    {
        let CreateTableLike { name: _, defaults } = like;
        let excluding = matches!(defaults, Some(CreateTableLikeDefaults::Excluding));
        none_of("LIKE", &[(excluding, "EXCLUDING DEFAULTS; DROP DEFAULT afterwards")])?;
    }
    columns.iter().try_for_each(column)?;
    constraints.iter().try_for_each(constraint)
}

/// Columns come from one place: a list, or AS (which may rename them), LIKE, CLONE.
fn one_source(
    columns: &[ColumnDef],
    constraints: &[TableConstraint],
    [query, like, clone]: [bool; 3],
) -> Result<()> {
    let described = !columns.is_empty() || !constraints.is_empty();
    let places = usize::from(query) + usize::from(like) + usize::from(clone);
    if places > 1 || (described && (like || clone)) {
        return Err(Error::plan(
            "CREATE TABLE takes its columns from one of: a list, AS, LIKE, CLONE",
        ));
    }
    Ok(())
}

/// CREATE EXTERNAL TABLE.
pub(crate) fn check_external(node: &CreateExternalTable) -> Result<()> {
    let CreateExternalTable {
        name: _,
        columns,
        file_type: _,
        locations: _,
        table_partition_cols,
        order_exprs,
        if_not_exists: _,
        or_replace: _,
        // The table belongs to the session anyway.
        temporary: _,
        unbounded,
        options: _,
        constraints,
    } = node;
    let options =
        columns.iter().any(|ColumnDef { name: _, data_type: _, options }| !options.is_empty());
    none_of(
        "CREATE EXTERNAL TABLE",
        &[
            (!table_partition_cols.is_empty(), "PARTITIONED BY"),
            (!order_exprs.is_empty(), "WITH ORDER"),
            (*unbounded, "UNBOUNDED"),
            (!constraints.is_empty() || options, "constraints and defaults of columns"),
        ],
    )
}

fn column(node: &ColumnDef) -> Result<()> {
    let ColumnDef { name, data_type: _, options } = node;
    let mut allows_null = false;
    let mut forbids_null = false;
    for ColumnOptionDef { name: _, option } in options {
        match option {
            ColumnOption::Null => allows_null = true,
            ColumnOption::NotNull => forbids_null = true,
            ColumnOption::Default(_) => {}
            ColumnOption::PrimaryKey(key) => {
                forbids_null = true;
                primary_key(key)?;
            }
            ColumnOption::Unique(key) => unique(key)?,
            ColumnOption::Check(condition) => check(condition)?,
            ColumnOption::ForeignKey(key) => foreign_key(key)?,
            // The reader of generated columns refuses BY DEFAULT and identities, with what to write
            // instead. STORED and VIRTUAL give the same answers.
            ColumnOption::Generated {
                generated_as: _,
                sequence_options: _,
                generation_expr: _,
                generation_expr_mode: _,
                generated_keyword: _,
            } => {}
            ColumnOption::Collation(collation) if is_by_bytes(collation) => {}
            ColumnOption::Collation(collation) => {
                return Err(Error::unsupported(format!(
                    "column {name}: COLLATE {collation}; text is compared by its bytes, also in \
                     keys. Write COLLATE NOCASE in comparisons and ORDER BY, and lower({name}) in \
                     GROUP BY and DISTINCT"
                )));
            }
            other => return Err(Error::unsupported(format!("column {name}: {other}"))),
        }
    }
    if allows_null && forbids_null {
        return Err(Error::plan(format!("column {name} is both NULL and NOT NULL")));
    }
    Ok(())
}

fn constraint(node: &TableConstraint) -> Result<()> {
    match node {
        TableConstraint::Unique(key) => unique(key),
        TableConstraint::PrimaryKey(key) => primary_key(key),
        TableConstraint::Check(condition) => check(condition),
        TableConstraint::ForeignKey(key) => foreign_key(key),
        other => Err(Error::unsupported(format!("the constraint {other}"))),
    }
}

fn foreign_key(node: &ForeignKeyConstraint) -> Result<()> {
    // A key has no name of its own here; DROP CONSTRAINT says so.
    let ForeignKeyConstraint {
        name: _,
        index_name,
        columns: _,
        foreign_table: _,
        referred_columns: _,
        on_delete,
        on_update,
        match_kind,
        characteristics,
    } = node;
    for action in [on_delete, on_update].into_iter().flatten() {
        match action {
            ReferentialAction::Restrict | ReferentialAction::NoAction => {}
            other => {
                return Err(Error::unsupported(format!(
                    "{other} of a FOREIGN KEY; RESTRICT and NO ACTION are what happens: change \
                     the rows that refer to a row before the row itself, in one transaction"
                )));
            }
        }
    }
    match match_kind {
        None | Some(ConstraintReferenceMatchKind::Simple) => {}
        Some(other) => return Err(Error::unsupported(format!("{other} of a FOREIGN KEY"))),
    }
    none_of(
        "FOREIGN KEY",
        &[(characteristics.is_some(), DEFERRABLE), (index_name.is_some(), "an index name")],
    )
}

fn primary_key(node: &PrimaryKeyConstraint) -> Result<()> {
    // A key has no name of its own here; DROP CONSTRAINT says so.
    let PrimaryKeyConstraint {
        name: _,
        index_name,
        index_type,
        columns,
        index_options,
        characteristics,
    } = node;
    none_of(
        "PRIMARY KEY",
        &[
            (characteristics.is_some(), DEFERRABLE),
            (index_name.is_some() || index_type.is_some(), "USING an index"),
            (!index_options.is_empty(), "options of an index"),
        ],
    )?;
    columns.iter().try_for_each(key_column)
}

fn unique(node: &UniqueConstraint) -> Result<()> {
    let UniqueConstraint {
        name: _,
        index_name,
        index_type_display: _,
        index_type,
        columns,
        index_options,
        characteristics,
        nulls_distinct,
    } = node;
    let not_distinct = matches!(nulls_distinct, NullsDistinctOption::NotDistinct);
    none_of(
        "UNIQUE",
        &[
            (not_distinct, "NULLS NOT DISTINCT; a NULL is equal to no other value in a key"),
            (characteristics.is_some(), DEFERRABLE),
            (index_name.is_some() || index_type.is_some(), "USING an index"),
            (!index_options.is_empty(), "options of an index"),
        ],
    )?;
    columns.iter().try_for_each(key_column)
}

const DEFERRABLE: &str = "DEFERRABLE and NOT ENFORCED; keys are tested by each statement";

fn key_column(node: &IndexColumn) -> Result<()> {
    let IndexColumn { column, operator_class } = node;
    query::order_key(column)?;
    let OrderByExpr { expr: _, options, with_fill: _ } = column;
    let OrderByOptions { asc, nulls_first } = options;
    let ordered = asc.is_some() || nulls_first.is_some();
    none_of(
        "KEY",
        &[
            (ordered, "ASC, DESC and NULLS FIRST; a key has no order"),
            (operator_class.is_some(), "an operator class"),
        ],
    )
}

fn check(node: &CheckConstraint) -> Result<()> {
    let CheckConstraint { name: _, expr: _, enforced } = node;
    none_of("CHECK", &[(*enforced == Some(false), "NOT ENFORCED")])
}

pub(crate) fn create_view(node: &CreateView) -> Result<()> {
    let CreateView {
        or_alter,
        or_replace: _,
        materialized,
        secure,
        name: _,
        name_before_not_exists: _,
        columns,
        query: _,
        options,
        cluster_by,
        comment,
        with_no_schema_binding,
        if_not_exists: _,
        temporary: _,
        copy_grants,
        to,
        params,
    } = node;
    none_of(
        "CREATE VIEW",
        &[
            (*materialized, "MATERIALIZED; write CREATE TABLE ... AS"),
            (*or_alter, "OR ALTER; write OR REPLACE"),
            (*secure || *copy_grants, "SECURE and COPY GRANTS"),
            (*options != CreateTableOptions::None, "WITH (...) and other options"),
            (!cluster_by.is_empty(), "CLUSTER BY"),
            (comment.is_some(), "COMMENT"),
            (*with_no_schema_binding, "WITH NO SCHEMA BINDING"),
            (to.is_some(), "TO"),
            (params.is_some(), "ALGORITHM, DEFINER and SQL SECURITY"),
        ],
    )?;
    for ViewColumnDef { name, data_type, options } in columns {
        if data_type.is_some() || options.is_some() {
            return Err(Error::unsupported(format!("a type or an option of column {name}")));
        }
    }
    Ok(())
}

pub(crate) fn create_schema(node: &Statement) -> Result<()> {
    let Statement::CreateSchema {
        schema_name,
        if_not_exists: _,
        with,
        options,
        default_collate_spec,
        clone,
    } = node
    else {
        return Ok(());
    };
    match schema_name {
        SchemaName::Simple(_) => {}
        SchemaName::UnnamedAuthorization(_) | SchemaName::NamedAuthorization(_, _) => {
            return Err(Error::unsupported("CREATE SCHEMA ... AUTHORIZATION"));
        }
    }
    none_of(
        "CREATE SCHEMA",
        &[
            (with.is_some() || options.is_some(), "WITH (...) and OPTIONS (...)"),
            (default_collate_spec.is_some(), "DEFAULT COLLATE"),
            (clone.is_some(), "CLONE; write CREATE TABLE ... CLONE for each table"),
        ],
    )
}

/// How an index is kept changes no answer, so the words about that are let through.
pub(crate) fn create_index(node: &CreateIndex) -> Result<()> {
    let CreateIndex {
        name,
        table_name: _,
        using: _,
        columns,
        unique: _,
        concurrently,
        if_not_exists: _,
        include,
        nulls_distinct,
        with,
        predicate,
        index_options,
        alter_options,
    } = node;
    if name.is_none() {
        return Err(Error::unsupported("CREATE INDEX without a name"));
    }
    for IndexColumn { column: OrderByExpr { expr: _, options: _, with_fill }, operator_class } in
        columns
    {
        let other = with_fill.is_some() || operator_class.is_some();
        none_of("CREATE INDEX", &[(other, "with operator classes")])?;
    }
    none_of(
        "CREATE INDEX",
        &[
            (*concurrently, "CONCURRENTLY"),
            (!include.is_empty(), "INCLUDE"),
            (*nulls_distinct == Some(false), "NULLS NOT DISTINCT"),
            (!with.is_empty(), "WITH (...)"),
            (predicate.is_some(), "WHERE; an index is on all rows"),
            (!index_options.is_empty() || !alter_options.is_empty(), "with options"),
        ],
    )
}

pub(crate) fn comment(node: &Statement) -> Result<()> {
    let Statement::Comment { object_type, object_name: _, comment: _, if_exists: _ } = node else {
        return Ok(());
    };
    match object_type {
        CommentObject::Table
        | CommentObject::Column
        | CommentObject::View
        | CommentObject::Index
        | CommentObject::Sequence
        | CommentObject::Function => Ok(()),
        other => Err(Error::unsupported(format!(
            "COMMENT ON {other}; there are comments on tables, columns, views, indexes, sequences \
             and macros"
        ))),
    }
}

pub(crate) fn alter_table(node: &AlterTable) -> Result<()> {
    let AlterTable {
        name: _,
        if_exists: _,
        // No table inherits from another, so ONLY leaves none out.
        only: _,
        operations,
        location,
        on_cluster,
        table_type,
        end_token: _,
    } = node;
    none_of(
        "ALTER TABLE",
        &[
            (location.is_some(), "LOCATION"),
            (on_cluster.is_some(), "ON CLUSTER"),
            (table_type.is_some(), "of another kind"),
        ],
    )?;
    operations.iter().try_for_each(alter_operation)
}

fn alter_operation(node: &AlterTableOperation) -> Result<()> {
    match node {
        AlterTableOperation::AddColumn {
            column_keyword: _,
            if_not_exists: _,
            column_def,
            column_position,
        } => {
            if column_position.is_some() {
                return Err(Error::unsupported("FIRST and AFTER; new columns come last"));
            }
            column(column_def)
        }
        AlterTableOperation::DropColumn {
            has_column_keyword: _,
            column_names: _,
            if_exists: _,
            drop_behavior,
        } => cascades("ALTER TABLE ... DROP COLUMN", drop_behavior.as_ref()),
        AlterTableOperation::RenameColumn { old_column_name: _, new_column_name: _ } => Ok(()),
        AlterTableOperation::RenameTable {
            table_name: RenameTableNameKind::As(_) | RenameTableNameKind::To(_),
        } => Ok(()),
        AlterTableOperation::AlterColumn { column_name: _, op } => match op {
            AlterColumnOperation::SetNotNull
            | AlterColumnOperation::DropNotNull
            | AlterColumnOperation::SetDefault { value: _ }
            | AlterColumnOperation::DropDefault => Ok(()),
            AlterColumnOperation::SetDataType { data_type: _, using: _, had_set: _ } => Ok(()),
            other => Err(Error::unsupported(format!("ALTER COLUMN ... {other}"))),
        },
        AlterTableOperation::AddConstraint { constraint: added, not_valid } => {
            none_of("ADD CONSTRAINT", &[(*not_valid, "NOT VALID; all rows are tested")])?;
            constraint(added)
        }
        AlterTableOperation::DropPrimaryKey { drop_behavior } => {
            cascades("ALTER TABLE ... DROP PRIMARY KEY", drop_behavior.as_ref())
        }
        AlterTableOperation::DropConstraint { if_exists: _, name: _, drop_behavior } => {
            cascades("ALTER TABLE ... DROP CONSTRAINT", drop_behavior.as_ref())
        }
        other => Err(Error::unsupported(format!("ALTER TABLE ... {other}"))),
    }
}

/// RESTRICT is what happens anyway.
fn cascades(of: &str, behavior: Option<&DropBehavior>) -> Result<()> {
    let cascade = matches!(behavior, Some(DropBehavior::Cascade));
    none_of(of, &[(cascade, "CASCADE; drop first what depends on it")])
}

pub(crate) fn drop(node: &Statement) -> Result<()> {
    let Statement::Drop {
        // Those of other kinds are refused by the statement's reader, with what to write instead.
        object_type: _,
        if_exists: _,
        names: _,
        // DROP SCHEMA reads it. A view keeps its text without the tables that it reads, and a table
        // that a foreign key refers to stays in either case.
        cascade: _,
        restrict: _,
        purge,
        temporary,
        table: _,
    } = node
    else {
        return Ok(());
    };
    none_of("DROP", &[(*purge, "PURGE"), (*temporary, "TEMPORARY; write DROP TABLE temp.name")])
}
