//! Text taken for SQL: a result or an error, never a panic, and the session goes on.
//!
//! Bytes choose and mutate statements made of words that belong together often enough to get past
//! the parser.

use std::sync::mpsc;
use std::time::Duration;

use swingdb::{Connection, Database, Error};

use super::bytes::Bytes;
use crate::home::Home;

const STATEMENTS: &[&str] = &[
    "SELECT * FROM t",
    "SELECT a , count ( * ) FROM t GROUP BY a HAVING count ( * ) > 1 ORDER BY 1 LIMIT 3",
    "SELECT t . a , u . k FROM t JOIN u ON t . a = u . k WHERE b IS NOT NULL",
    "WITH x AS ( SELECT a FROM t ) SELECT * FROM x WHERE a IN ( SELECT k FROM u )",
    "SELECT sum ( a ) OVER ( PARTITION BY s ORDER BY d ROWS BETWEEN 1 PRECEDING AND CURRENT ROW ) \
     FROM t",
    "SELECT CASE WHEN a > 1 THEN s ELSE 'x' END FROM t UNION ALL SELECT w FROM u",
    "INSERT INTO t ( a , s ) VALUES ( 1 , 'x' ) , ( NULL , 'y' )",
    "INSERT INTO k VALUES ( 1 , 2 ) ON CONFLICT ( id ) DO UPDATE SET v = excluded . v",
    "UPDATE t SET a = a + 1 , s = ( SELECT max ( w ) FROM u WHERE u . k = t . a ) \
     WHERE d < now ( )",
    "DELETE FROM t WHERE a NOT IN ( SELECT k FROM u ) OR s LIKE '%a_'",
    "MERGE INTO k USING u ON k . id = u . k WHEN MATCHED THEN UPDATE SET v = u . k \
     WHEN NOT MATCHED THEN INSERT VALUES ( u . k , 1 )",
    "CREATE TABLE n ( x INT PRIMARY KEY , y VARCHAR DEFAULT 'q' )",
    "CREATE OR REPLACE TABLE n AS SELECT a AS x , s AS y FROM t",
    "CREATE TABLE c CLONE t",
    "CREATE VIEW w AS SELECT a FROM t",
    "ALTER TABLE t ADD COLUMN z DECIMAL ( 9 , 2 ) DEFAULT 0.5",
    "ALTER TABLE t RENAME COLUMN a TO b2",
    "ALTER TABLE t ALTER COLUMN a TYPE VARCHAR USING a || 'x'",
    "DROP TABLE IF EXISTS n , c",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT p",
    "ROLLBACK TO p",
    "EXPLAIN ANALYZE SELECT a FROM t ORDER BY s",
    "SHOW TABLES",
    "DESCRIBE t",
    "SHARE",
    "SET memory_limit = '1GB'",
    "SELECT [ 1 , 2 ] [ 1 ] , { 'a' : 1 } , MAP { 'k' : 1 } , s [ 1 : 2 ] FROM t",
    "SELECT date_trunc ( 'month' , d ) , d + INTERVAL '1 month' , extract ( year FROM d ) FROM t",
    "SELECT * FROM range ( 10 ) AS r , generate_series ( 1 , 3 )",
    "COPY t TO '/nonexistent/x.csv' ( FORMAT CSV )",
    "SELECT * FROM information_schema . columns",
];
const WORDS: &[&str] = &[
    "NULL",
    "TRUE",
    "0",
    "-1",
    "1e400",
    "9223372036854775807",
    "0.1",
    "'a'",
    "''",
    "'",
    "\"",
    "\"a\"",
    "'2020-01-01'",
    "X'0g'",
    "?",
    "$1",
    "$x",
    ":",
    "::",
    "::INT",
    "::DECIMAL(38,10)",
    "::TINYINT",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ";",
    "--",
    "/*",
    "*/",
    ".",
    "*",
    "+",
    "-",
    "/",
    "%",
    "||",
    "<<",
    "=",
    "<>",
    "<",
    ">=",
    "AND",
    "OR",
    "NOT",
    "IS",
    "IN",
    "LIKE",
    "BETWEEN",
    "EXISTS",
    "ANY",
    "ALL",
    "DISTINCT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "LIMIT",
    "OFFSET",
    "UNION",
    "INTERSECT ALL",
    "JOIN",
    "LEFT JOIN",
    "CROSS JOIN",
    "LATERAL",
    "ON",
    "USING",
    "AS",
    "WITH",
    "RECURSIVE",
    "CASE",
    "OVER ()",
    "FILTER (WHERE a > 0)",
    "WITHIN GROUP",
    "ROLLUP (a, s)",
    "INTERVAL '1' day",
    "CAST(a AS",
    "t",
    "u",
    "k",
    "a",
    "b",
    "s",
    "d",
    "id",
    "v",
    "w",
    "x",
    "main.t",
    "t.a",
    "swingdb",
    "__row_id",
    "sum(",
    "max(a)",
    "count(*)",
    "substr(s, -1, 9)",
    "round(a, -400)",
    "regexp_like(s, '(')",
    "array_agg(a)",
    "unnest([1, 2])",
    "a::VARCHAR",
    "random()",
    "RETURNING *",
    "DEFAULT",
    "VALUES (1)",
    "SELECT",
    "INSERT INTO",
    "UPDATE",
    "DELETE FROM",
    "ALTER TABLE",
    "CREATE TABLE",
    "DROP TABLE",
    "ATTACH",
    "ü",
    "\u{0}",
    "🦀",
    "/*+ hint */",
    "1..2",
    "a->b",
    "x -> x + 1",
    "@",
    "#",
    "\\",
    "`a`",
];
/// Edits of a statement.
const MAX_EDITS: usize = 8;
/// Statements of one input.
const MAX_STATEMENTS: usize = 12;
/// What runs longer is interrupted.
const PATIENCE: Duration = Duration::from_secs(5);

fn statement(bytes: &mut Bytes<'_>) -> String {
    let mut words: Vec<&str> = bytes.pick::<&str>(STATEMENTS).split(' ').collect();
    for _ in 0..usize::from(bytes.byte()) % MAX_EDITS {
        let at = bytes.below(words.len().max(1));
        match bytes.byte() % 6 {
            0 | 1 => words.insert(at.min(words.len()), *bytes.pick::<&str>(WORDS)),
            2 | 3 if at < words.len() => words[at] = *bytes.pick::<&str>(WORDS),
            4 if at < words.len() => {
                words.remove(at);
            }
            _ => {
                let other = bytes.below(words.len().max(1));
                if at < words.len() && other < words.len() {
                    words.swap(at, other);
                }
            }
        }
    }
    words.join(" ")
}

/// Runs statements made from the bytes on a small database.
pub fn sql(input: &[u8]) {
    let home = Home::new();
    let database = Database::open_in(home.path(), "db").expect("a new database");
    let con = database.connect();
    for setup in [
        "CREATE TABLE t (a INT, b BOOLEAN, s VARCHAR, d TIMESTAMP)",
        "INSERT INTO t VALUES (1, true, 'x', now()), (2, NULL, 'yy', NULL)",
        "INSERT INTO t VALUES (NULL, false, '', now())",
        "CREATE TABLE u AS SELECT range AS k, 'w' || range AS w FROM range(5)",
        "CREATE TABLE k (id INT PRIMARY KEY, v INT)",
    ] {
        con.query(setup).expect(setup);
    }
    let mut bytes = Bytes::new(input);
    for _ in 0..MAX_STATEMENTS {
        if bytes.is_empty() {
            break;
        }
        let sql = statement(&mut bytes);
        run(&con, &sql);
    }
    let _ = con.query("ROLLBACK");
    let one =
        con.query("SELECT 1").and_then(|result| result.collect()).expect("the session goes on");
    assert_eq!(one.len(), 1);
}

/// Runs one statement, and interrupts it when it takes too long.
fn run(con: &Connection, sql: &str) {
    let handle = con.interrupt_handle();
    let (done, waits) = mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        while waits.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            handle.interrupt();
        }
    });
    let result = con.query(sql).and_then(|result| result.collect());
    drop(done);
    watchdog.join().expect("the watchdog");
    if let Err(Error::Internal { message }) = result {
        assert!(!message.contains("panic"), "{sql}: {message}");
    }
}
