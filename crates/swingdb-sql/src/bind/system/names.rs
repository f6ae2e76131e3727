//! The names of all that a database tells of itself by.

/// The schema of the tables that PostgreSQL's clients look into.
pub(crate) const PG_CATALOG: &str = "pg_catalog";

/// The function of `PRAGMA table_info`, which takes a table's name.
pub(crate) const TABLE_INFO: &str = "pragma_table_info";

/// Functions that stand for tables.
pub(crate) const FUNCTIONS: [&str; 16] = [
    "duckdb_columns",
    "duckdb_constraints",
    "duckdb_databases",
    "duckdb_functions",
    "duckdb_indexes",
    "duckdb_schemas",
    "duckdb_sequences",
    "duckdb_settings",
    "duckdb_tables",
    "duckdb_types",
    "duckdb_views",
    "pragma_database_list",
    "pragma_database_size",
    "pragma_show_tables",
    TABLE_INFO,
    "pragma_version",
];

/// Functions of single rows.
pub(crate) const SCALARS: [&str; 31] = [
    "col_description",
    "current_setting",
    "format_type",
    "getvariable",
    "obj_description",
    "object_size",
    "pg_function_is_visible",
    "pg_get_constraintdef",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_indexdef",
    "pg_get_viewdef",
    "pg_table_is_visible",
    "quote_ident",
    "regclass",
    "regclass_name",
    "regdatabase",
    "regdatabase_name",
    "regnamespace",
    "regnamespace_name",
    "regproc",
    "regrole",
    "regrole_name",
    "regtype",
    "regtype_name",
    "to_regclass",
    "to_regnamespace",
    "to_regproc",
    "to_regrole",
    "to_regtype",
    "version",
];

/// The tables of `pg_catalog`.
pub(crate) const TABLES: [&str; 45] = [
    "pg_am",
    "pg_attrdef",
    "pg_attribute",
    "pg_auth_members",
    "pg_cast",
    "pg_class",
    "pg_collation",
    "pg_constraint",
    "pg_database",
    "pg_default_acl",
    "pg_depend",
    "pg_description",
    "pg_enum",
    "pg_event_trigger",
    "pg_extension",
    "pg_foreign_data_wrapper",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_index",
    "pg_indexes",
    "pg_inherits",
    "pg_language",
    "pg_matviews",
    "pg_namespace",
    "pg_opclass",
    "pg_partitioned_table",
    "pg_policy",
    "pg_proc",
    "pg_publication",
    "pg_publication_namespace",
    "pg_publication_rel",
    "pg_range",
    "pg_rewrite",
    "pg_roles",
    "pg_sequence",
    "pg_sequences",
    "pg_settings",
    "pg_statistic_ext",
    "pg_tables",
    "pg_tablespace",
    "pg_trigger",
    "pg_type",
    "pg_user",
    "pg_user_mappings",
    "pg_views",
];

/// Whether a function, in lower case, is one that stands for a table.
pub fn is_function(name: &str) -> bool {
    FUNCTIONS.contains(&name)
}

/// The name of a table of `pg_catalog` as it is written here.
pub(crate) fn table_name(name: &str) -> Option<&'static str> {
    TABLES.into_iter().find(|known| known.eq_ignore_ascii_case(name))
}
