//! TODO

pub(crate) mod array_queries;
pub(crate) mod by_name;
pub(crate) mod catalogs;
pub(crate) mod columns;
pub(crate) mod functions;
pub(crate) mod identifiers;
pub(crate) mod information_schema;
pub(crate) mod macros;
pub(crate) mod method_calls;
pub(crate) mod pivot;
pub(crate) mod pivots;
pub(crate) mod reused_aliases;
pub(crate) mod scopes;
pub(crate) mod sequences;
pub(crate) mod shadowed;
pub(crate) mod stars;
pub(crate) mod struct_stars;
pub(crate) mod unpivot;
pub(crate) mod using_joins;
