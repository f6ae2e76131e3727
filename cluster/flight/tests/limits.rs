//! Who gets a session, and what ends what it computes.

mod common;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::{Action, CancelFlightInfoRequest};
use common::{Client, ENDLESS, Server, answer, command, query, refused, status};
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use tonic::Code;
use tonic::transport::{Certificate, Channel, ClientTlsConfig};

const ROWS: &str = "CREATE TABLE n AS SELECT i AS v FROM generate_series(1, 300000) AS q(i)";

/// Starts a query that takes hours, up to its computing.
async fn endless(client: &mut Client) -> arrow_flight::decode::FlightRecordBatchStream {
    let info = client.execute(ENDLESS.to_string(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let mut rows = client.do_get(ticket).await.unwrap();
    let first = tokio::time::timeout(Duration::from_secs(2), rows.next()).await;
    assert!(first.is_err(), "{first:?}");
    rows
}

#[tokio::test]
async fn what_nobody_waits_for_is_not_computed() {
    let server = Server::start(&[], ROWS);
    let mut client = server.client().await;
    // The call is given up; another one of the same session goes on.
    let info = client.execute("SELECT v FROM n ORDER BY v".to_string(), None).await.unwrap();
    let rows = endless(&mut client).await;
    drop(rows);
    server.wait_until_idle().await;
    let other = common::rows(&mut client, info).await.unwrap();
    assert_eq!(other.iter().map(RecordBatch::num_rows).sum::<usize>(), 300_000);
    // The connection goes.
    let mut leaving = server.client().await;
    let rows = endless(&mut leaving).await;
    drop((rows, leaving));
    server.wait_until_idle().await;
    // Rows that were never asked for.
    let leaving = {
        let mut leaving = server.client().await;
        leaving.execute(ENDLESS.to_string(), None).await.unwrap();
        leaving
    };
    drop(leaving);
    server.wait_until_idle().await;
    assert!(answer(&mut client, "SELECT 1 AS still").await.contains("still"));
    // It is cancelled by its name.
    for kind in ["CancelFlightInfo", "nonsense"] {
        let info = client.execute(ENDLESS.to_string(), None).await.unwrap();
        let mut rows = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
        let asked = CancelFlightInfoRequest { info: Some(info) };
        let action = Action { r#type: kind.to_string(), body: asked.encode_to_vec().into() };
        let done = client.do_action(tonic::Request::new(action)).await;
        match kind {
            "nonsense" => assert!(done.is_err()),
            _ => {
                let error = status(rows.next().await.unwrap().unwrap_err());
                assert_eq!(error.code(), Code::Cancelled);
            }
        }
    }
    server.wait_until_idle().await;
    let start = Instant::now();
    let _rows = endless(&mut client).await;
    assert!(server.stop() && start.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn results_are_streamed() {
    let server = Server::start(&[], ROWS);
    let mut client = server.client().await;
    answer(&mut client, "SELECT count(*) FROM n").await;
    let before = server.memory();
    let sql = "SELECT a.v, b.v AS w FROM n a JOIN n b ON a.v % 300 = b.v % 300 WHERE a.v < 20000";
    let info = client.execute(sql.to_string(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let mut rows = client.do_get(ticket).await.unwrap();
    // 20 million rows, 320 MB; some are read, and then none for a while.
    let mut count = 0;
    while count < 1_000_000 {
        count += rows.next().await.unwrap().unwrap().num_rows();
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 150 << 20, "{grown} bytes");
    let rest = rows.try_fold(count, |count, batch| async move { Ok(count + batch.num_rows()) });
    assert_eq!(rest.await.unwrap(), 19_999_000);
}

#[tokio::test]
async fn sessions_and_statements_have_limits() {
    let options = ["--max-sessions", "2", "--statement-timeout", "3", "--memory", "50MB"];
    let server = Server::start(&options, ROWS);
    let (mut first, mut second) = (server.client().await, server.client().await);
    answer(&mut first, "SELECT 1").await;
    answer(&mut second, "SELECT 1").await;
    let mut third = server.client().await;
    let full = refused(&mut third, "SELECT 1", Code::ResourceExhausted).await;
    assert!(full.message().contains("--max-sessions"), "{full}");
    drop(second);
    let until = Instant::now() + Duration::from_secs(20);
    while query(&mut third, "SELECT 1").await.is_err() {
        assert!(Instant::now() < until, "the place of a client that has gone stays taken");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let late = refused(&mut third, ENDLESS, Code::DeadlineExceeded).await;
    assert!(!late.message().is_empty());
    server.wait_until_idle().await;
    let large = "SELECT list(v || 'some more text') FROM \
                 (SELECT a.v FROM n a JOIN n b ON a.v % 3000 = b.v % 3000)";
    let error = status(query(&mut third, large).await.unwrap_err());
    assert!(matches!(error.code(), Code::ResourceExhausted | Code::DeadlineExceeded), "{error}");
    refused(&mut third, "SET statement_timeout = '1h'", Code::PermissionDenied).await;
    assert!(answer(&mut third, "SELECT 1 AS still").await.contains("still"));
}

#[tokio::test]
async fn no_statement_runs_while_a_limit_is_raised() {
    let server = Server::start(&["--memory", "50MB"], ROWS);
    let mut client = server.client().await;
    let limit = answer(&mut client, "SHOW memory_limit").await;
    let mut calls = tokio::task::JoinSet::new();
    for nth in 0..8 {
        let mut client = client.clone();
        let limit = limit.clone();
        calls.spawn(async move {
            for _ in 0..40 {
                if nth % 2 == 0 {
                    let sql = "SET memory_limit = '10GB'";
                    refused(&mut client, sql, Code::PermissionDenied).await;
                } else {
                    assert_eq!(answer(&mut client, "SHOW memory_limit").await, limit);
                }
            }
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn a_statement_ends_with_its_call() {
    let server = Server::start(&[], ROWS);
    let mut client = server.client().await;
    answer(&mut client, "SELECT 1").await;
    let long = format!("CREATE TEMP TABLE x AS {ENDLESS}");
    // One that has no rows yet, and one whose rows the server reads itself; the second waits for
    // the first.
    for sql in [long.as_str(), ENDLESS, long.as_str()] {
        let mut other = client.clone();
        let call = other.execute_update(sql.to_string(), None);
        assert!(tokio::time::timeout(Duration::from_secs(2), call).await.is_err(), "{sql}");
        server.wait_until_idle().await;
    }
    let (mut first, mut second) = (client.clone(), client.clone());
    let calls = async {
        tokio::join!(
            first.execute_update(long.clone(), None),
            second.execute_update(long.clone(), None)
        )
    };
    assert!(tokio::time::timeout(Duration::from_secs(2), calls).await.is_err());
    server.wait_until_idle().await;
    refused(&mut client, "SELECT * FROM x", Code::NotFound).await;
    // A result of another call is not ended for it.
    let info = client.execute("SELECT v FROM n".to_string(), None).await.unwrap();
    let mut other = client.clone();
    let call = other.execute_update(ENDLESS.to_string(), None);
    assert!(tokio::time::timeout(Duration::from_secs(2), call).await.is_err());
    server.wait_until_idle().await;
    let kept = common::rows(&mut client, info).await.unwrap();
    assert_eq!(kept.iter().map(RecordBatch::num_rows).sum::<usize>(), 300_000);
    // The connection goes, with a result that waits.
    client.execute("SELECT v FROM n".to_string(), None).await.unwrap();
    let call = client.execute_update(long, None);
    assert!(tokio::time::timeout(Duration::from_secs(2), call).await.is_err());
    drop((client, other, first, second));
    server.wait_until_idle().await;
    assert!(server.stop());
}

fn certificates(folder: &Path) {
    std::fs::write(folder.join("extension"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    let openssl = |command: &str| {
        let done = Command::new("openssl").args(command.split(' ')).current_dir(folder).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=authority"));
    openssl(&format!("req {key} -keyout key.pem -out server.csr -subj /CN=server"));
    openssl(
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 2 \
         -extfile extension",
    );
}

#[tokio::test]
async fn strangers_are_not_served() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let secret = "0123456789abcdef";
    std::fs::write(folder.path().join("token"), secret).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (cert, key, token) = (path("cert.pem"), path("key.pem"), path("token"));
    let tls = ["--tls-cert", &cert, "--tls-key", &key, "--token-file", &token];
    let server = Server::start(&[&["--listen", "0.0.0.0"], &tls[..]].concat(), ROWS);
    assert!(server.address.starts_with("grpc+tls://0.0.0.0:"), "{}", server.address);
    let address = server.address.replace("grpc+tls://0.0.0.0", "https://127.0.0.1");
    let ca = Certificate::from_pem(std::fs::read(path("ca.pem")).unwrap());
    let tls = ClientTlsConfig::new().ca_certificate(ca);
    let channel = Channel::from_shared(address.clone()).unwrap().tls_config(tls).unwrap();
    let channel = channel.connect().await.unwrap();
    let mut client = FlightSqlServiceClient::new(channel.clone());
    refused(&mut client, "SELECT 1", Code::Unauthenticated).await;
    client.set_token("0123456789abcdeX".to_string());
    refused(&mut client, "SELECT 1", Code::Unauthenticated).await;
    client.set_token(secret.to_string());
    assert!(answer(&mut client, "SELECT count(*) FROM n").await.contains("300000"));
    // A password in the place of the token.
    let mut client = FlightSqlServiceClient::new(channel);
    assert!(client.handshake("anybody", "wrong password here").await.is_err());
    client.handshake("anybody", secret).await.unwrap();
    assert!(answer(&mut client, "SELECT count(*) FROM n").await.contains("300000"));
    // Without TLS.
    let plain = Channel::from_shared(address.replace("https", "http")).unwrap().connect().await;
    if let Ok(channel) = plain {
        let mut client = FlightSqlServiceClient::new(channel);
        client.set_token(secret.to_string());
        assert!(query(&mut client, "SELECT 1").await.is_err());
    }
    for options in [&["--listen", "0.0.0.0"][..], &["--listen", "0.0.0.0", "--token-file", &token]]
    {
        let done = command().arg("served").args(options).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(1) && said.contains("--tls-cert"), "{said}");
    }
    let done = command().args(["nosuch", "--port", "0"]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(1) && said.contains("nosuch"), "{said}");
}
