//! Primary and foreign keys as clients ask for them.

mod common;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::DataType;
use arrow_flight::sql::{
    Any, CommandGetCrossReference, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, ProstMessageExt,
};
use arrow_flight::{FlightDescriptor, IpcMessage};
use common::{Client, Server};
use prost::Message;

const MADE_BY: &str = "CREATE SCHEMA other; \
     CREATE TABLE one (a INTEGER PRIMARY KEY, u VARCHAR UNIQUE); \
     CREATE TABLE two (y INTEGER, x INTEGER, z INTEGER REFERENCES one, PRIMARY KEY (y, x)); \
     CREATE TABLE child (id INTEGER PRIMARY KEY, p INTEGER REFERENCES one (a), \
       t VARCHAR REFERENCES one (u), m INTEGER, n INTEGER, \
       FOREIGN KEY (m, n) REFERENCES two (x, y)); \
     CREATE TABLE other.one (k BIGINT PRIMARY KEY); \
     CREATE TABLE other.child (k BIGINT REFERENCES other.one (k))";

/// The rows of a command as texts; its columns are those that were announced.
async fn asked(client: &mut Client, command: impl ProstMessageExt) -> Vec<String> {
    let command: Any = command.as_any();
    let descriptor = FlightDescriptor::new_cmd(command.encode_to_vec());
    let info = client.inner_mut().get_flight_info(descriptor).await.unwrap().into_inner();
    let announced = arrow::datatypes::Schema::try_from(IpcMessage(info.schema.clone())).unwrap();
    let batches = common::rows(client, info).await.unwrap();
    let schema = batches.first().map_or_else(|| announced.clone().into(), RecordBatch::schema);
    assert_eq!(*schema, announced);
    let batch = concat_batches(&schema, &batches).unwrap();
    let columns = batch.columns().iter().map(|column| cast(column, &DataType::Utf8).unwrap());
    let columns = columns.collect::<Vec<_>>();
    let row = |row: usize| {
        let cells = columns.iter().map(|column| match column.is_valid(row) {
            true => column.as_string::<i32>().value(row),
            false => "-",
        });
        cells.collect::<Vec<_>>().join(" ")
    };
    (0..batch.num_rows()).map(row).collect()
}

#[tokio::test]
async fn primary_keys_have_their_columns_in_order() {
    let server = Server::start(&[], MADE_BY);
    let mut client = server.client().await;
    let of = |schema: Option<&str>, table: &str| CommandGetPrimaryKeys {
        catalog: None,
        db_schema: schema.map(str::to_string),
        table: table.to_string(),
    };
    assert_eq!(
        asked(&mut client, of(None, "two")).await,
        ["swingdb main two y two_y_x_pkey 1", "swingdb main two x two_y_x_pkey 2"]
    );
    let both = ["swingdb main one a one_a_pkey 1", "swingdb other one k one_k_pkey 1"];
    assert_eq!(asked(&mut client, of(None, "one")).await, both);
    assert_eq!(asked(&mut client, of(Some("other"), "one")).await, both[1..]);
    let elsewhere = CommandGetPrimaryKeys { catalog: Some("x".to_string()), ..of(None, "one") };
    assert!(asked(&mut client, elsewhere).await.is_empty());
    for (schema, table) in [(None, "nosuch"), (None, "ONE"), (Some(""), "one")] {
        assert!(asked(&mut client, of(schema, table)).await.is_empty(), "{schema:?} {table}");
    }
    // The newest state, and temporary tables.
    server.write("CREATE TABLE late (a INTEGER PRIMARY KEY)");
    assert_eq!(asked(&mut client, of(None, "late")).await, ["swingdb main late a late_a_pkey 1"]);
    let temporary = "CREATE TEMP TABLE mine (a INTEGER PRIMARY KEY)";
    client.execute_update(temporary.to_string(), None).await.unwrap();
    assert_eq!(asked(&mut client, of(None, "mine")).await.len(), 1);
}

#[tokio::test]
async fn foreign_keys_are_found_from_both_sides() {
    let server = Server::start(&[], MADE_BY);
    let mut client = server.client().await;
    let of_child = [
        "swingdb main one a swingdb main child p 1 child_p_a_fkey one_a_pkey 3 3",
        "swingdb main one u swingdb main child t 1 child_t_u_fkey one_u_key 3 3",
        "swingdb main two x swingdb main child m 1 child_m_n_x_y_fkey two_y_x_pkey 3 3",
        "swingdb main two y swingdb main child n 2 child_m_n_x_y_fkey two_y_x_pkey 3 3",
    ];
    let of_two = "swingdb main one a swingdb main two z 1 two_z_a_fkey one_a_pkey 3 3";
    let imported = |schema: Option<&str>, table: &str| CommandGetImportedKeys {
        catalog: None,
        db_schema: schema.map(str::to_string),
        table: table.to_string(),
    };
    assert_eq!(asked(&mut client, imported(Some("main"), "child")).await, of_child);
    assert_eq!(asked(&mut client, imported(None, "two")).await, [of_two]);
    assert!(asked(&mut client, imported(None, "one")).await.is_empty());
    let of_other = "swingdb other one k swingdb other child k 1 child_k_k_fkey one_k_pkey 3 3";
    assert_eq!(asked(&mut client, imported(Some("other"), "child")).await, [of_other]);
    let exported = |schema: Option<&str>, table: &str| CommandGetExportedKeys {
        catalog: Some("swingdb".to_string()),
        db_schema: schema.map(str::to_string),
        table: table.to_string(),
    };
    assert_eq!(
        asked(&mut client, exported(Some("main"), "one")).await,
        [of_child[0], of_child[1], of_two]
    );
    assert_eq!(asked(&mut client, exported(None, "two")).await, of_child[2..]);
    assert_eq!(asked(&mut client, exported(Some("other"), "one")).await, [of_other]);
    let both = |parent: &str, child: &str| CommandGetCrossReference {
        pk_table: parent.to_string(),
        fk_table: child.to_string(),
        fk_db_schema: Some("main".to_string()),
        ..CommandGetCrossReference::default()
    };
    assert_eq!(asked(&mut client, both("one", "child")).await, of_child[..2]);
    assert_eq!(asked(&mut client, both("one", "two")).await, [of_two]);
    assert!(asked(&mut client, both("two", "one")).await.is_empty());
}
