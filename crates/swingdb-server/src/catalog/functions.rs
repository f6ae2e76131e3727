//! The functions of `pg_catalog` that clients call: [`add`], and those about names: [`add_about`].
//!
//! Each has the number of its arguments in its name, which [`super::rewrite`] writes: some take
//! more or fewer, and the engine has functions of its own under the plain names.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, StringArray};
use arrow::datatypes::DataType;
use swingdb::{Connection, Result, ScalarCall, ScalarFunction};

use super::tables::{Names, numbers};
use super::types::format_type;

const INT: DataType = DataType::Int64;
const TEXT: DataType = DataType::Utf8;
const BOOL: DataType = DataType::Boolean;

fn one(
    connection: &Connection,
    name: &str,
    arguments: &[DataType],
    returns: DataType,
    call: ScalarCall,
) -> Result<()> {
    connection.create_function(ScalarFunction {
        name: name.to_string(),
        arguments: arguments.to_vec(),
        returns,
        volatile: false,
        call,
    })
}

/// A function that has the same text for all arguments; `None`: NULL.
fn text(value: Option<&'static str>) -> ScalarCall {
    Arc::new(move |_, rows| Ok(Arc::new(StringArray::from(vec![value; rows])) as ArrayRef))
}

fn yes(value: bool) -> ScalarCall {
    Arc::new(move |_, rows| Ok(Arc::new(BooleanArray::from(vec![value; rows])) as ArrayRef))
}

/// A function that is its first argument.
fn same() -> ScalarCall {
    Arc::new(|arguments, _| Ok(Arc::clone(&arguments[0])))
}

/// Functions that do not depend on what there is.
pub fn add(connection: &Connection) -> Result<()> {
    let texts: [(&str, &[DataType], Option<&'static str>); 22] = [
        ("pg_get_userbyid_1", &[INT], Some("swingdb")),
        ("pg_encoding_to_char_1", &[INT], Some("UTF8")),
        ("pg_current_user_0", &[], Some("swingdb")),
        ("pg_session_user_0", &[], Some("swingdb")),
        ("obj_description_1", &[INT], None),
        ("obj_description_2", &[INT, TEXT], None),
        ("shobj_description_2", &[INT, TEXT], None),
        ("col_description_2", &[INT, INT], None),
        ("pg_get_indexdef_1", &[INT], None),
        ("pg_get_indexdef_3", &[INT, INT, BOOL], None),
        ("pg_get_constraintdef_1", &[INT], None),
        ("pg_get_constraintdef_2", &[INT, BOOL], None),
        ("pg_get_partkeydef_1", &[INT], None),
        ("pg_get_function_result_1", &[INT], None),
        ("pg_get_function_arguments_1", &[INT], None),
        ("pg_get_function_identity_arguments_1", &[INT], None),
        ("pg_get_statisticsobjdef_columns_1", &[INT], None),
        ("pg_get_triggerdef_2", &[INT, BOOL], None),
        ("pg_get_ruledef_2", &[INT, BOOL], None),
        ("pg_tablespace_location_1", &[INT], None),
        ("pg_get_serial_sequence_2", &[TEXT, TEXT], None),
        ("pg_size_pretty_1", &[INT], None),
    ];
    for (name, arguments, value) in texts {
        one(connection, name, arguments, TEXT, text(value))?;
    }
    let answers: [(&str, &[DataType], bool); 13] = [
        ("pg_table_is_visible_1", &[INT], true),
        ("pg_type_is_visible_1", &[INT], true),
        ("pg_function_is_visible_1", &[INT], true),
        ("pg_relation_is_publishable_1", &[TEXT], false),
        ("pg_is_in_recovery_0", &[], false),
        ("has_table_privilege_2", &[TEXT, TEXT], true),
        ("has_table_privilege_3", &[TEXT, TEXT, TEXT], true),
        ("has_schema_privilege_2", &[TEXT, TEXT], true),
        ("has_schema_privilege_3", &[TEXT, TEXT, TEXT], true),
        ("has_database_privilege_2", &[TEXT, TEXT], true),
        ("has_database_privilege_3", &[TEXT, TEXT, TEXT], true),
        ("has_any_column_privilege_2", &[TEXT, TEXT], true),
        ("has_sequence_privilege_2", &[TEXT, TEXT], false),
    ];
    for (name, arguments, value) in answers {
        one(connection, name, arguments, BOOL, yes(value))?;
    }
    one(connection, "pg_get_expr_2", &[TEXT, INT], TEXT, same())?;
    one(connection, "pg_get_expr_3", &[TEXT, INT, BOOL], TEXT, same())?;
    let format: ScalarCall = Arc::new(|arguments, _| {
        let both = numbers(&arguments[0]).into_iter().zip(numbers(&arguments[1]));
        let texts = both.map(|(oid, modifier)| Some(format_type(oid?, modifier)));
        Ok(Arc::new(texts.collect::<StringArray>()) as ArrayRef)
    });
    one(connection, "format_type_2", &[INT, INT], TEXT, format)
}

/// Functions about what there is in a state.
pub fn add_about(connection: &Connection, names: &Arc<Names>) -> Result<()> {
    let known = Arc::clone(names);
    let regclass: ScalarCall = Arc::new(move |arguments, _| {
        let texts = arguments[0].as_string::<i32>().iter();
        let oids = texts.map(|text| match text?.parse::<i64>() {
            Ok(oid) => Some(oid),
            Err(_) => known.relation(text?),
        });
        Ok(Arc::new(oids.collect::<Int64Array>()) as ArrayRef)
    });
    one(connection, "regclass_of_1", &[TEXT], INT, regclass.clone())?;
    one(connection, "to_regclass_1", &[TEXT], INT, regclass)?;
    for (name, arguments) in
        [("pg_get_viewdef_1", &[INT][..]), ("pg_get_viewdef_2", &[INT, BOOL][..])]
    {
        let known = Arc::clone(names);
        let definition: ScalarCall = Arc::new(move |arguments, _| {
            let oids = numbers(&arguments[0]).into_iter();
            let texts = oids.map(|oid| known.relations.get(&oid?)?.definition.clone());
            Ok(Arc::new(texts.collect::<StringArray>()) as ArrayRef)
        });
        one(connection, name, arguments, TEXT, definition)?;
    }
    Ok(())
}
