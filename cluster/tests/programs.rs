//! Parameters, encrypted connections, and the programs themselves.

mod common;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use common::{Node, asked, cluster, nodes, texts, with_room};
use serde_json::{Value as Json, json};
use swingdb::Value;
use swingdb_cluster::{Cluster, Cut, Error, Options, Session};

fn hash(column: &str) -> Cut {
    Cut::Hash { column: column.to_string() }
}

fn with(session: &Session, sql: &str, values: &[Value]) -> Vec<Vec<String>> {
    let rows = session.query_with(sql, values).and_then(|rows| rows.collect());
    let mut rows = texts(&rows.unwrap_or_else(|error| panic!("{sql}\n{error}")));
    rows.sort();
    rows
}

#[test]
fn statements_have_parameters() {
    with_room(|| {
        let mut nodes = nodes(2);
        let session = cluster(&nodes).session().unwrap();
        session.execute("CREATE TABLE t (k INTEGER, s VARCHAR, d DATE)", &hash("k")).unwrap();
        for key in 0..20_i64 {
            let values = [key.into(), format!("row {key}").into(), Value::Date32(19_000)];
            let sql = "INSERT INTO t VALUES (?, ?, ?)";
            assert_eq!(session.query_with(sql, &values).unwrap().rows_changed(), Some(1));
        }
        assert_eq!(with(&session, "SELECT s FROM t WHERE k = ?", &[7.into()]), [["row 7"]]);
        assert_eq!(
            with(&session, "SELECT $2 || s FROM t WHERE k = $1", &[7.into(), "a ".into()]),
            [["a row 7"]]
        );
        let grouped = "SELECT k % ?, count(*) FROM t WHERE d > ? GROUP BY 1";
        let values = [2.into(), Value::Date32(18_000)];
        assert_eq!(with(&session, grouped, &values), [["0", "10"], ["1", "10"]]);
        // A parameter leaves out nodes as a literal does.
        let plan = with(&session, "EXPLAIN SELECT s FROM t WHERE k = ?", &[7.into()]);
        assert!(plan.concat().concat().contains("1 of 2 nodes"), "{plan:?}");
        let sql = "UPDATE t SET s = ? WHERE k = ?";
        let changed = session.query_with(sql, &["seven's".into(), 7.into()]).unwrap();
        assert_eq!(changed.rows_changed(), Some(1));
        assert_eq!(with(&session, "SELECT s FROM t WHERE k = ?", &[7.into()]), [["seven's"]]);
        let deleted = session.query_with("DELETE FROM t WHERE k >= ?", &[10.into()]).unwrap();
        assert_eq!(deleted.rows_changed(), Some(10));
        let sql = "CREATE TABLE u AS SELECT k, ? AS x FROM t WHERE k < ?";
        session.execute_with(sql, &["x".into(), 3.into()], &hash("k")).unwrap();
        assert_eq!(asked(&session, "SELECT count(*), min(x) FROM u"), [["3", "x"]]);
        // Those of several statements are numbered in their order.
        let several = "DELETE FROM t WHERE k = ?; SELECT count(*) + ? FROM t WHERE k < ?";
        let values = [9.into(), 100.into(), 50.into()];
        assert_eq!(with(&session, several, &values), [["109"]]);
        for (sql, count) in [("SELECT ? + ?", 1), ("SELECT ?; SELECT 2", 2), ("SELECT $name", 1)] {
            assert!(session.query_with(sql, &values[..count]).is_err(), "{sql}");
        }
        let named = |sql: &str| {
            let values = [("name", "row 7".into()), ("at_most", Value::from(7))];
            let values = values.map(|(name, value)| (name.to_string(), value));
            session.query_named(sql, &values).and_then(|rows| rows.collect()).map(|r| texts(&r))
        };
        let sql = "UPDATE t SET s = $name WHERE k = $at_most; \
                   SELECT count(*), max(s) FROM t WHERE k <= $at_most AND s >= $name";
        assert_eq!(named(sql).unwrap(), [["1", "row 7"]]);
        assert!(named("SELECT $other").is_err() && named("SELECT ?").is_err());
        // They are in the log of a change, too.
        nodes[1].restart();
        session.refresh().unwrap();
        assert_eq!(asked(&session, "SELECT count(*) FROM t"), [["9"]]);
    });
}

/// Makes a certificate authority and a certificate for 127.0.0.1 in a folder.
fn certificates(folder: &Path) {
    let extension = folder.join("extension");
    std::fs::write(&extension, "subjectAltName=IP:127.0.0.1,DNS:localhost\n").unwrap();
    let openssl = |command: &str| {
        let done = Command::new("openssl").args(command.split(' ')).current_dir(folder).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!(
        "req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=test-authority"
    ));
    openssl(&format!("req {key} -keyout node.key -out node.csr -subj /CN=node"));
    openssl(
        "x509 -req -in node.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out node.pem -days 2 \
         -extfile extension",
    );
}

#[test]
fn connections_are_encrypted_where_nodes_have_certificates() {
    with_room(|| {
        let folder = tempfile::tempdir().unwrap();
        certificates(folder.path());
        certificates(&{
            let other = folder.path().join("other");
            std::fs::create_dir(&other).unwrap();
            other
        });
        std::fs::write(folder.path().join("token"), "0123456789abcdef").unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
        let (cert, key, ca, token) =
            (path("node.pem"), path("node.key"), path("ca.pem"), path("token"));
        let options =
            ["--tls-cert", &cert, "--tls-key", &key, "--tls-ca", &ca, "--token-file", &token];
        // All of the machine's addresses, which is refused without TLS and a token.
        let mut nodes = Vec::new();
        for _ in 0..2 {
            nodes.push(Node::start_at("0.0.0.0:0", &options));
        }
        let places = nodes.iter().map(|node| node.place().replace("0.0.0.0", "127.0.0.1"));
        let places = places.collect::<Vec<_>>();
        let connect = |tls_ca: Option<&str>, token: &str| {
            let (token, tls_ca) = (Some(token.to_string()), tls_ca.map(Into::into));
            let options = Options { token, tls_ca, ..Options::default() };
            Cluster::connect(&places, options).and_then(|cluster| cluster.session())
        };
        let session = connect(Some(&ca), "0123456789abcdef").unwrap();
        let sql =
            "CREATE TABLE t AS SELECT i AS k, i % 5 AS g FROM generate_series(1, 500) AS s(i)";
        session.execute(sql, &hash("k")).unwrap();
        // Nodes send each other rows.
        let sql = "SELECT a.g, count(*) FROM t a JOIN t b ON a.k = b.g GROUP BY a.g";
        assert_eq!(asked(&session, sql).len(), 4);
        assert!(asked(&session, &format!("EXPLAIN {sql}")).concat().concat().contains("Network"));
        for (tls_ca, token) in [
            (None, "0123456789abcdef"),
            (Some(path("other/ca.pem")), "0123456789abcdef"),
            (Some(ca.clone()), "0123456789abcdeX"),
        ] {
            let refused = connect(tls_ca.as_deref(), token).err();
            let is_named = matches!(
                &refused,
                Some(Error::NodeLost { .. } | Error::NodeFailed { .. } | Error::NodeSlow { .. })
            );
            assert!(is_named, "{refused:?}");
        }
        assert!(connect(Some("/no/such/file"), "0123456789abcdef").is_err());
        // The program speaks it too.
        let file = folder.path().join("nodes");
        std::fs::write(&file, places.join("\n")).unwrap();
        let done = Command::new(env!("CARGO_BIN_EXE_swingdb-cluster"))
            .args(["--tls-ca", &ca, "--token-file", &token])
            .arg(&file)
            .arg("SELECT sum(k) AS total FROM t")
            .output()
            .unwrap();
        assert!(String::from_utf8_lossy(&done.stdout).contains("125250"), "{done:?}");
    });
}

#[test]
fn nodes_that_others_can_reach_need_tls_and_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_swingdb-node"))
        .args(["--listen", "0.0.0.0:0", "--home"])
        .arg(folder.path())
        .env_remove("SWINGDB_CLUSTER_TOKEN")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && said.contains("--tls-cert"), "{said}");
}

/// A program that asks `swingdb-cluster --serve`.
struct Served {
    child: std::process::Child,
}

impl Served {
    fn send(&mut self, request: &Json, more: Option<&[u8]>) {
        let into = self.child.stdin.as_mut().unwrap();
        for part in [Some(request.to_string().as_bytes()), more].into_iter().flatten() {
            into.write_all(&(part.len() as u32).to_le_bytes()).unwrap();
            into.write_all(part).unwrap();
        }
        into.flush().unwrap();
    }

    fn message(&mut self) -> Vec<u8> {
        let out = self.child.stdout.as_mut().unwrap();
        let mut length = [0; 4];
        out.read_exact(&mut length).unwrap();
        let mut message = vec![0; u32::from_le_bytes(length) as usize];
        out.read_exact(&mut message).unwrap();
        message
    }

    fn json(&mut self) -> Json {
        serde_json::from_slice(&self.message()).unwrap()
    }

    fn rows(&mut self) -> (Vec<RecordBatch>, Json) {
        let mut stream = Vec::new();
        loop {
            match self.message() {
                piece if piece.is_empty() => break,
                piece => stream.extend(piece),
            }
        }
        let end = self.json();
        let reader = StreamReader::try_new(stream.as_slice(), None).unwrap();
        (reader.map(Result::unwrap).collect(), end)
    }
}

#[test]
fn a_program_in_another_language_has_a_session() {
    with_room(|| {
        let mut nodes = nodes(2);
        let child = Command::new(env!("CARGO_BIN_EXE_swingdb-cluster"))
            .arg("--serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut served = Served { child };
        served.send(&json!({"do": "query", "sql": "SELECT 1"}), None);
        assert_eq!(served.json()["failed"]["class"], "NotSupportedError");
        let places = [nodes[0].place(), nodes[1].place()];
        served.send(&json!({"do": "open", "nodes": places}), None);
        assert_eq!(served.json(), "done");
        let sql = "CREATE TABLE t AS SELECT i AS k, 'row ' || i::VARCHAR AS s \
            FROM generate_series(1, 20000) AS g(i)";
        served.send(&json!({"do": "query", "sql": sql, "cut": "hash:k"}), None);
        assert_eq!(served.json(), json!({"changed": 20_000}));
        let values = RecordBatch::try_from_iter([
            ("p0", std::sync::Arc::new(Int64Array::from(vec![3])) as _),
            ("p1", std::sync::Arc::new(StringArray::from(vec!["!"])) as _),
        ])
        .unwrap();
        let mut writer = StreamWriter::try_new(Vec::new(), &values.schema()).unwrap();
        writer.write(&values).unwrap();
        let values = writer.into_inner().unwrap();
        let sql = "SELECT k, s || $2 AS s FROM t WHERE k <= $1";
        served.send(&json!({"do": "query", "sql": sql, "has_parameters": true}), Some(&values));
        assert_eq!(served.json(), "rows");
        let (rows, end) = served.rows();
        let mut rows = texts(&rows);
        rows.sort();
        assert_eq!(rows, [["1", "row 1!"], ["2", "row 2!"], ["3", "row 3!"]]);
        assert_eq!(end, json!({"failed": null}));
        let sql = "SELECT count(*) || $p1 AS n FROM t WHERE k <= $p0";
        let request = json!({"do": "query", "sql": sql, "has_parameters": true, "by_name": true});
        served.send(&request, Some(&values));
        assert_eq!(served.json(), "rows");
        assert_eq!(texts(&served.rows().0), [["3!"]]);
        served.send(&json!({"do": "query", "sql": "SELECT * FROM t"}), None);
        assert_eq!(served.json(), "rows");
        assert_eq!(texts(&served.rows().0).len(), 20_000);
        served.send(&json!({"do": "query", "sql": "SELECT * FROM missing"}), None);
        assert_eq!(served.json()["failed"]["class"], "NotFoundError");
        // An error in the middle of a result comes behind its rows.
        served.send(&json!({"do": "query", "sql": "SELECT 100 / (k - 20000) FROM t"}), None);
        let answer = served.json();
        let failed = if answer == "rows" { served.rows().1 } else { answer };
        assert!(failed["failed"]["class"].is_string() || failed["failed"].is_null(), "{failed}");
        served.send(&json!({"do": "refresh"}), None);
        assert_eq!(served.json(), "done");
        nodes[1].kill();
        served.send(&json!({"do": "query", "sql": "SELECT sum(k) FROM t WHERE k > 0"}), None);
        let answer = served.json();
        let failed = if answer == "rows" { served.rows().1 } else { answer };
        assert_eq!(failed["failed"]["class"], "NodeLostError", "{failed}");
        assert_eq!(failed["failed"]["node"], json!(nodes[1].address));
        drop(served.child.stdin.take());
        assert!(served.child.wait().unwrap().success());
    });
}
