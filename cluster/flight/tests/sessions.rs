//! What a session of Flight SQL sees: the answers of the embedded database, one state of it.

mod common;

use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use arrow_flight::sql::{CommandGetDbSchemas, CommandGetTables, EndTransaction, SqlInfo};
use common::{Server, answer, expected, query, refused, rows, status};
use tonic::Code;

const MADE_BY: &str = "CREATE TABLE t AS SELECT i AS id, i % 7 AS g, 'row ' || i AS s, \
       i * 1.5::DOUBLE AS d, DATE '2024-01-01' + i::INTEGER AS day \
       FROM generate_series(1, 5000) AS q(i); \
     CREATE VIEW some AS SELECT id FROM t WHERE id % 100 = 0; \
     CREATE SCHEMA other; CREATE TABLE other.\"A table\" (\"a\"\"b\" VARCHAR, n DECIMAL(10, 2))";

#[tokio::test]
async fn answers_are_those_of_the_embedded_database() {
    let server = Server::start(&[], MADE_BY);
    let (mut client, embedded) = (server.client().await, server.embedded());
    for sql in [
        "SELECT * FROM t ORDER BY id",
        "SELECT g, count(*), sum(d), min(s) FROM t GROUP BY g ORDER BY g",
        "SELECT 1 AS a, 2 AS a",
        "SELECT id FROM t WHERE id < 0",
        "SELECT true, 1::TINYINT, 2::UBIGINT, 3::HUGEINT, 1.25::DECIMAL(8, 3), NULL, 'x'::BLOB",
        "SELECT TIME '01:02:03', TIMESTAMP '2024-01-02 03:04:05.6', INTERVAL '3 days', \
         '123e4567-e89b-12d3-a456-426614174000'::UUID",
        "SELECT [1, 2, NULL], {'a': 'x', 'b': [1]}, MAP {'k': 'v'}, ['a', 'b']",
        "SELECT 'happy'::ENUM('sad', 'happy') AS mood",
        "FROM some ORDER BY id",
        "EXPLAIN SELECT 1",
        "SHOW TABLES",
        "WITH x AS (SELECT 1 AS a) SELECT * FROM x UNION ALL VALUES (2)",
    ] {
        assert_eq!(answer(&mut client, sql).await, expected(&embedded, sql), "{sql}");
    }
    assert!(answer(&mut client, "SELECT version()").await.contains("SwingDB 0."));
    // Several results at the same time, and a ticket that is used twice.
    let first = client.execute("SELECT max(id) AS m FROM t".to_string(), None).await.unwrap();
    let second = client.execute("SELECT min(id) AS m FROM t".to_string(), None).await.unwrap();
    assert_eq!(rows(&mut client, second).await.unwrap()[0].num_rows(), 1);
    rows(&mut client, first.clone()).await.unwrap();
    let again = status(rows(&mut client, first).await.unwrap_err());
    assert_eq!(again.code(), Code::NotFound);
    assert!(server.stop());
}

#[tokio::test]
async fn a_statement_sees_the_newest_state_and_a_transaction_one() {
    let server = Server::start(&[], "CREATE TABLE t AS SELECT 1 AS a");
    let mut client = server.client().await;
    let count = "SELECT count(*) AS n FROM t";
    let number = |rows: Vec<RecordBatch>| {
        rows[0].column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0)
    };
    assert_eq!(number(query(&mut client, count).await.unwrap()), 1);
    // A result keeps the state that it was started from.
    let waiting = client.execute("SELECT a FROM t".to_string(), None).await.unwrap();
    server.write("INSERT INTO t VALUES (2)");
    assert_eq!(number(query(&mut client, count).await.unwrap()), 2);
    assert_eq!(rows(&mut client, waiting).await.unwrap()[0].num_rows(), 1);
    let transaction = client.begin_transaction().await.unwrap();
    server.write("INSERT INTO t VALUES (3)");
    let within = client.execute(count.to_string(), Some(transaction.clone())).await.unwrap();
    assert_eq!(number(rows(&mut client, within).await.unwrap()), 2);
    assert!(client.begin_transaction().await.is_err());
    let mut other = server.client().await;
    assert_eq!(number(query(&mut other, count).await.unwrap()), 3);
    assert!(other.execute(count.to_string(), Some(transaction.clone())).await.is_err());
    let end = EndTransaction::Commit;
    // Only the calls begin and end it, and by its name.
    for sql in ["COMMIT", "ROLLBACK", "begin", "START TRANSACTION", "/* a */ END"] {
        let error = refused(&mut client, sql, Code::InvalidArgument).await;
        assert!(error.message().contains("EndTransaction"), "{error}");
    }
    let error = client.end_transaction(bytes::Bytes::new(), end).await.unwrap_err();
    assert!(error.to_string().contains("not named"), "{error}");
    assert_eq!(number(query(&mut client, count).await.unwrap()), 2);
    client.end_transaction(transaction.clone(), end).await.unwrap();
    assert_eq!(number(query(&mut client, count).await.unwrap()), 3);
    assert!(client.end_transaction(transaction.clone(), end).await.is_err());
    assert!(client.execute(count.to_string(), Some(transaction)).await.is_err());
    // One of many that want to begin at the same time.
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let mut client = client.clone();
        calls.spawn(async move { client.begin_transaction().await.ok() });
    }
    let mut begun = Vec::new();
    while let Some(done) = calls.join_next().await {
        begun.extend(done.unwrap());
    }
    assert_eq!(begun.len(), 1);
    let end = EndTransaction::Rollback;
    client.end_transaction(begun.remove(0), end).await.unwrap();
    // The database is dropped and made again.
    client
        .execute_update("CREATE TEMP TABLE mine AS SELECT 7 AS x".to_string(), None)
        .await
        .unwrap();
    assert_eq!(number(query(&mut client, "SELECT x::BIGINT FROM mine").await.unwrap()), 7);
    refused(&mut other, "SELECT x FROM mine", Code::NotFound).await;
}

#[tokio::test]
async fn prepared_statements_have_parameters() {
    let server = Server::start(&[], MADE_BY);
    let mut client = server.client().await;
    let sql = "SELECT id, s FROM t WHERE id = ? OR s = ?";
    let mut prepared = client.prepare(sql.to_string(), None).await.unwrap();
    let types = prepared.parameter_schema().unwrap();
    let types = types.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
    assert_eq!(types, [DataType::Int64, DataType::Utf8]);
    let columns = prepared.dataset_schema().unwrap().fields().len();
    assert_eq!(columns, 2);
    for (id, text, found) in [(7, "row 8", 2), (7, "row 7", 1), (-1, "'", 0)] {
        let values = RecordBatch::try_from_iter([
            ("1", Arc::new(Int64Array::from(vec![id])) as _),
            ("2", Arc::new(StringArray::from(vec![text])) as _),
        ]);
        prepared.set_parameters(values.unwrap()).unwrap();
        let info = prepared.execute().await.unwrap();
        let got = rows(&mut client, info).await.unwrap();
        assert_eq!(got.iter().map(RecordBatch::num_rows).sum::<usize>(), found);
    }
    let two = RecordBatch::try_from_iter([("1", Arc::new(Int64Array::from(vec![1, 2])) as _)]);
    prepared.set_parameters(two.unwrap()).unwrap();
    assert!(prepared.execute().await.unwrap_err().to_string().contains("one row"));
    prepared.close().await.unwrap();
    // Without parameters, without values, and what is no query.
    let mut plain = client.prepare("SELECT 42 AS x".to_string(), None).await.unwrap();
    let info = plain.execute().await.unwrap();
    assert_eq!(rows(&mut client, info).await.unwrap()[0].num_rows(), 1);
    let mut without = client.prepare("SELECT ? + id FROM t".to_string(), None).await.unwrap();
    assert!(without.execute().await.is_err());
    client.execute_update("CREATE TEMP TABLE mine (x BIGINT)".to_string(), None).await.unwrap();
    let mut insert = client.prepare("INSERT INTO mine VALUES (?)".to_string(), None).await.unwrap();
    assert!(insert.dataset_schema().unwrap().fields().is_empty());
    let two = RecordBatch::try_from_iter([("1", Arc::new(Int64Array::from(vec![1, 2])) as _)]);
    insert.set_parameters(two.unwrap()).unwrap();
    assert_eq!(insert.execute_update().await.unwrap(), 2);
    assert!(answer(&mut client, "SELECT sum(x) FROM mine").await.contains(" 3 "));
    assert!(client.prepare("SELECT nosuch FROM t".to_string(), None).await.is_err());
}

#[tokio::test]
async fn clients_find_out_what_there_is() {
    let server = Server::start(&[], MADE_BY);
    let mut client = server.client().await;
    let info = client.get_catalogs().await.unwrap();
    let catalogs = rows(&mut client, info).await.unwrap();
    assert!(catalogs[0].num_rows() > 0);
    let asked =
        CommandGetDbSchemas { catalog: None, db_schema_filter_pattern: Some("oth%".into()) };
    let info = client.get_db_schemas(asked).await.unwrap();
    let schemas = rows(&mut client, info).await.unwrap();
    assert_eq!(schemas[0].column(1).as_string::<i32>().value(0), "other");
    let mut asked = CommandGetTables { include_schema: true, ..CommandGetTables::default() };
    asked.db_schema_filter_pattern = Some("main".to_string());
    let info = client.get_tables(asked.clone()).await.unwrap();
    let tables = rows(&mut client, info).await.unwrap();
    let column = |nth: usize| {
        let texts = tables[0].column(nth).as_string::<i32>();
        texts.iter().map(|text| text.unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        (column(2), column(3)),
        (vec!["some".into(), "t".into()], vec!["VIEW".into(), "BASE TABLE".to_string()])
    );
    let bytes = tables[0].column(4).as_binary::<i32>().value(1).to_vec();
    let schema =
        arrow::datatypes::Schema::try_from(arrow_flight::IpcMessage(bytes.into())).unwrap();
    assert_eq!(
        schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(),
        ["id", "g", "s", "d", "day"]
    );
    asked =
        CommandGetTables { table_types: vec!["VIEW".to_string()], ..CommandGetTables::default() };
    let info = client.get_tables(asked).await.unwrap();
    assert_eq!(rows(&mut client, info).await.unwrap()[0].num_rows(), 1);
    let info = client.get_table_types().await.unwrap();
    assert_eq!(rows(&mut client, info).await.unwrap()[0].num_rows(), 3);
    let asked = vec![SqlInfo::FlightSqlServerName, SqlInfo::FlightSqlServerReadOnly];
    let info = client.get_sql_info(asked).await.unwrap();
    assert_eq!(rows(&mut client, info).await.unwrap()[0].num_rows(), 2);
    // A temporary table, names that need quotes, and a view whose table has gone.
    let sql = "CREATE TEMP TABLE mine AS SELECT 7 AS x";
    client.execute_update(sql.to_string(), None).await.unwrap();
    server.write("DROP TABLE t");
    let asked = CommandGetTables { include_schema: true, ..CommandGetTables::default() };
    let info = client.get_tables(asked).await.unwrap();
    let tables = rows(&mut client, info).await.unwrap();
    let found = (0..tables[0].num_rows()).map(|row| {
        let name = tables[0].column(2).as_string::<i32>().value(row);
        let bytes = tables[0].column(4).as_binary::<i32>().value(row).to_vec();
        let schema = arrow::datatypes::Schema::try_from(arrow_flight::IpcMessage(bytes.into()));
        let schema = schema.unwrap();
        let fields = schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        format!("{name}: {}", fields.join(", "))
    });
    let mut found = found.collect::<Vec<_>>();
    found.sort();
    assert_eq!(found, ["A table: a\"b, n", "mine: x", "some: "]);
}

#[tokio::test]
async fn errors_have_the_databases_words() {
    let server = Server::start(&[], MADE_BY);
    let (mut client, embedded) = (server.client().await, server.embedded());
    for (sql, code, state) in [
        ("SELEC 1", Code::InvalidArgument, "42601"),
        ("SELECT * FROM nosuch", Code::NotFound, "42P01"),
        ("SELECT nosuch FROM t", Code::NotFound, "42703"),
        ("SELECT 'x'::INTEGER", Code::InvalidArgument, "22P02"),
    ] {
        let refused = refused(&mut client, sql, code).await;
        let own = embedded.query(sql).and_then(|rows| rows.collect()).unwrap_err();
        assert_eq!(refused.message(), own.to_string());
        assert_eq!(refused.metadata().get("x-swingdb-sqlstate").unwrap(), state, "{sql}");
    }
    // Sessions read.
    for sql in ["INSERT INTO t (id) VALUES (1)", "DROP TABLE t", "CREATE TABLE x AS SELECT 1"] {
        let refused = refused(&mut client, sql, Code::FailedPrecondition).await;
        assert!(refused.message().contains("serves snapshots"), "{refused}");
        assert!(client.execute_update(sql.to_string(), None).await.is_err());
    }
    refused(&mut client, "SELECT 1; SELECT 2", Code::InvalidArgument).await;
    refused(&mut client, "", Code::InvalidArgument).await;
    refused(&mut client, "SET memory_limit = '1TB'", Code::PermissionDenied).await;
    refused(&mut client, "SELECT * FROM '/etc/passwd.csv'", Code::PermissionDenied).await;
    assert!(answer(&mut client, "SELECT 1 AS still").await.contains("still"));
}
