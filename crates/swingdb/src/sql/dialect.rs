//! The SQL that is understood: DataFusion's permissive dialect, which takes in most of DuckDB's and
//! PostgreSQL's forms (`FROM t` alone, `* EXCLUDE`, brackets for arrays, `QUALIFY`, lambdas aside).

use datafusion::sql::sqlparser::dialect::GenericDialect;

/// The dialect of all statements.
pub(crate) const DIALECT: GenericDialect = GenericDialect {};
