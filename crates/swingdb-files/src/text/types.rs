//! Types by their SQL names, for options and messages.

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;
use swingdb_common::error::{Error, Result};
use swingdb_common::types::arrow_types::arrow_type;
use swingdb_common::types::sql_names::sql_name;

/// The SQL name of `data_type`, with the form in which a field has to write it where that is
/// special.
pub(crate) fn described(data_type: &DataType) -> String {
    match data_type {
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "BLOB (printable characters and \\xHH)".into(),
        nested if nested.is_nested() => format!("{} (as JSON)", sql_name(nested)),
        other => sql_name(other),
    }
}

/// The Arrow type of a SQL type name.
pub(crate) fn parse_type(sql: &str) -> Result<DataType> {
    let unknown = || Error::plan(format!("unknown type {sql:?}"));
    let mut parser = Parser::new(&DuckDbDialect {}).try_with_sql(sql).map_err(|_| unknown())?;
    let parsed = parser.parse_data_type().map_err(|_| unknown())?;
    arrow_type(&parsed)
}
