//! Bulk ingestion into temporary tables of a session.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{
    CommandStatementIngest, EndTransaction, TableDefinitionOptions, TableExistsOption,
    TableNotExistOption,
};
use common::{Client, Server, answer, status};
use futures::StreamExt;
use tonic::Code;

fn batch(from: i64, rows: i64) -> RecordBatch {
    let numbers = Int64Array::from_iter_values(from..from + rows);
    let texts = StringArray::from_iter_values((from..from + rows).map(|n| format!("row {n}")));
    let columns: [(&str, ArrayRef); 2] = [("n", Arc::new(numbers)), ("s", Arc::new(texts))];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn to(
    table: &str,
    missing: TableNotExistOption,
    there: TableExistsOption,
) -> CommandStatementIngest {
    let options = TableDefinitionOptions { if_not_exist: missing.into(), if_exists: there.into() };
    CommandStatementIngest {
        table_definition_options: Some(options),
        table: table.to_string(),
        temporary: true,
        ..CommandStatementIngest::default()
    }
}

fn create(table: &str) -> CommandStatementIngest {
    to(table, TableNotExistOption::Create, TableExistsOption::Fail)
}

async fn ingested(
    client: &mut Client,
    asked: CommandStatementIngest,
    batches: Vec<RecordBatch>,
) -> Result<i64, FlightError> {
    client.execute_ingest(asked, futures::stream::iter(batches.into_iter().map(Ok))).await
}

async fn refused(client: &mut Client, asked: CommandStatementIngest, code: Code) {
    let error = ingested(client, asked, vec![batch(0, 1)]).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(status(error).code(), code, "{text}");
}

const COUNT: &str = "SELECT count(*) || ' rows ' || coalesce(sum(n), 0) AS c FROM mine";

#[tokio::test]
async fn batches_become_temporary_tables() {
    let server = Server::start(&[], "CREATE TABLE t AS SELECT 1 AS n");
    let mut client = server.client().await;
    let batches = (0..50).map(|nth| batch(nth * 1000, 1000)).collect::<Vec<_>>();
    assert_eq!(ingested(&mut client, create("mine"), batches).await.unwrap(), 50_000);
    assert!(answer(&mut client, COUNT).await.contains("50000 rows 1249975000"));
    let joined = "SELECT s FROM mine JOIN t USING (n)";
    assert!(answer(&mut client, joined).await.contains("row 1 "));
    refused(&mut client, create("mine"), Code::AlreadyExists).await;
    let append = |table| to(table, TableNotExistOption::Fail, TableExistsOption::Append);
    assert_eq!(ingested(&mut client, append("mine"), vec![batch(0, 10)]).await.unwrap(), 10);
    refused(&mut client, append("nosuch"), Code::NotFound).await;
    let replace = to("mine", TableNotExistOption::Create, TableExistsOption::Replace);
    assert_eq!(ingested(&mut client, replace.clone(), vec![batch(5, 3)]).await.unwrap(), 3);
    assert!(answer(&mut client, COUNT).await.contains("3 rows 18"));
    // Also where there was none, without rows, and beside a table of the database.
    let anew = to("new", TableNotExistOption::Create, TableExistsOption::Replace);
    assert_eq!(ingested(&mut client, anew, vec![batch(5, 0)]).await.unwrap(), 0);
    assert!(answer(&mut client, "SELECT count(*) AS c, min(s) AS m FROM new").await.contains("0"));
    assert_eq!(ingested(&mut client, create("t"), vec![batch(7, 1)]).await.unwrap(), 1);
    assert!(answer(&mut client, "SELECT n FROM t").await.contains("7"));
    // Nobody else sees any of it.
    let mut other = server.client().await;
    assert!(answer(&mut other, "SELECT n FROM t").await.contains("1"));
    common::refused(&mut other, "SELECT n FROM mine", Code::NotFound).await;
}

#[tokio::test]
async fn what_is_not_whole_leaves_nothing() {
    let server = Server::start(&[], "CREATE TABLE t AS SELECT 1 AS n");
    let mut client = server.client().await;
    ingested(&mut client, create("mine"), vec![batch(0, 3)]).await.unwrap();
    let left = "SELECT count(*) AS c FROM duckdb_tables() WHERE temporary";
    // A value that does not fit comes last.
    let wrong = |table: &str, there| {
        let sql = format!(
            "CREATE TEMP TABLE IF NOT EXISTS {table} (n BIGINT CHECK (n < 100), s VARCHAR)"
        );
        (sql, to(table, TableNotExistOption::Create, there))
    };
    let (sql, asked) = wrong("checked", TableExistsOption::Append);
    client.execute_update(sql, None).await.unwrap();
    let batches = vec![batch(0, 50), batch(60, 50)];
    assert!(ingested(&mut client, asked, batches).await.is_err());
    assert!(answer(&mut client, "SELECT count(*) AS c FROM checked").await.contains(" 0 "));
    // The client stops in the middle.
    for there in [TableExistsOption::Append, TableExistsOption::Replace] {
        for table in ["mine", "never"] {
            let asked = to(table, TableNotExistOption::Create, there);
            let mut leaving = client.clone();
            let endless = futures::stream::iter([Ok(batch(0, 1000)), Ok(batch(0, 1000))])
                .chain(futures::stream::pending());
            let call = leaving.execute_ingest(asked, endless);
            let given_up = tokio::time::timeout(Duration::from_millis(700), call).await;
            assert!(given_up.is_err());
        }
    }
    // The server hears that a client has left a moment after it has.
    comes(&mut client, left, " 2 ").await;
    let count = answer(&mut client, COUNT).await;
    assert!(count.contains("3 rows 3"), "{count}");
}

/// Asks until an answer has a text; panics where none has it in time.
async fn comes(client: &mut Client, sql: &str, text: &str) {
    let begun = Instant::now();
    loop {
        let answer = answer(client, sql).await;
        if answer.contains(text) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn what_a_session_cannot_have_is_refused() {
    let server = Server::start(&[], "CREATE TABLE t AS SELECT 1 AS n");
    let mut client = server.client().await;
    let lasting = CommandStatementIngest { temporary: false, ..create("x") };
    refused(&mut client, lasting, Code::FailedPrecondition).await;
    let elsewhere = CommandStatementIngest { catalog: Some("swingdb".to_string()), ..create("x") };
    refused(&mut client, elsewhere, Code::InvalidArgument).await;
    let strange = CommandStatementIngest {
        transaction_id: Some(bytes::Bytes::from_static(b"nosuch")),
        ..create("x")
    };
    refused(&mut client, strange, Code::NotFound).await;
    // What a transaction has ingested goes with it.
    let transaction = client.begin_transaction().await.unwrap();
    let within =
        CommandStatementIngest { transaction_id: Some(transaction.clone()), ..create("mine") };
    ingested(&mut client, within, vec![batch(0, 3)]).await.unwrap();
    assert!(answer(&mut client, COUNT).await.contains("3 rows 3"));
    client.end_transaction(transaction, EndTransaction::Rollback).await.unwrap();
    common::refused(&mut client, COUNT, Code::NotFound).await;
}
