//! Names with quotes, spaces, capitals and reserved words: rows stay on the nodes where they are
//! looked for, and answers are those of one database.

mod common;

use common::{asked, cluster, expected, nodes, with_room};
use swingdb::{Connection, Database};
use swingdb_cluster::{Cut, Error, Session};

/// Columns by which tables are cut, as SQL writes them.
const COLUMNS: [&str; 9] = [
    "\"a\"\"b\"",
    "\"\"\"\"",
    "\"\"\"x\"",
    "\"two words\"",
    "Upper",
    "\"select\"",
    "\"set\"",
    "`back\"tick`",
    "\"Äö\"",
];
/// Tables, as SQL writes them.
const TABLES: [&str; 9] = [
    "plain",
    "\"t\"\"q\"",
    "\"A table\"",
    "Orders",
    "\"from\"",
    "\"\"\"y\"\"\"",
    "\"where\"",
    "\"U V\"",
    "\"Ünï\"",
];

fn name(written: &str) -> String {
    let quote = written.chars().next().unwrap();
    match quote {
        '"' | '`' => {
            let inner = &written[1..written.len() - 1];
            inner.replace(&quote.to_string().repeat(2), &quote.to_string())
        }
        _ => written.to_string(),
    }
}

fn both(session: &Session, one: &Connection, cut: &Cut, sql: &str) {
    one.query(sql).unwrap_or_else(|error| panic!("one database: {sql}: {error}"));
    session.execute(sql, cut).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn same(session: &Session, one: &Connection, sql: &str) {
    assert_eq!(asked(session, sql), expected(one, sql), "{sql}");
}

/// Each row is found by its value of the cut's column, at a node that the value names.
fn found(session: &Session, one: &Connection, table: &str, column: &str) {
    same(session, one, &format!("SELECT * FROM {table}"));
    for key in 0..30 {
        let sql = format!("SELECT * FROM {table} WHERE {column} = {key}");
        same(session, one, &sql);
    }
    let plan = asked(session, &format!("EXPLAIN SELECT * FROM {table} WHERE {column} = 3"));
    assert!(plan.concat().concat().contains("1 of 3 nodes"), "{table} {column}: {plan:?}");
}

fn refused(session: &Session, sql: &str) {
    let done = session.query(sql);
    assert!(matches!(done.err(), Some(Error::Unsupported(_))), "{sql}");
}

/// A key would be there twice.
fn twice(session: &Session, sql: &str) {
    let done = session.query(sql);
    assert!(matches!(done.err(), Some(Error::Statement { .. })), "{sql}");
}

#[test]
fn rows_stay_where_their_cut_says_whatever_the_names() {
    with_room(|| {
        let nodes = nodes(3);
        let session = cluster(&nodes).session().unwrap();
        let one = Database::private().unwrap().connect();
        for (table, column) in TABLES.iter().zip(COLUMNS) {
            let cut = Cut::Hash { column: name(column) };
            let lies = Cut::AsItLies;
            let made =
                format!("CREATE TABLE {table} ({column} INTEGER PRIMARY KEY, \"v\"\"w\" INTEGER)");
            both(&session, &one, &cut, &made);
            let rows = "SELECT i, i * 10 FROM generate_series(1, 20) AS s(i)";
            both(&session, &one, &lies, &format!("INSERT INTO {table} {rows}"));
            found(&session, &one, table, column);
            let sql = format!("INSERT INTO {table} (\"v\"\"w\", {column}) VALUES (7, 21), (8, 22)");
            both(&session, &one, &lies, &sql);
            let sql =
                format!("UPDATE {table} SET \"v\"\"w\" = {column} + 1 WHERE {column} % 3 = 0");
            both(&session, &one, &lies, &sql);
            // The column of the cut, in each way to write it: rows move, and keys stay unique.
            for by in ["+ 100", "- 100"] {
                let sql = format!("UPDATE {table} SET {column} = {column} {by}");
                both(&session, &one, &lies, &sql);
                let key = if by == "+ 100" { 103 } else { 3 };
                same(&session, &one, &format!("SELECT * FROM {table} WHERE {column} = {key}"));
            }
            twice(&session, &format!("UPDATE {table} SET \"v\"\"w\" = 1, {column} = 100"));
            twice(
                &session,
                &format!(
                    "UPDATE {table} SET \"v\"\"w\" = CASE WHEN {column} = 1 THEN 1 END, \
                     {column} = 100"
                ),
            );
            let other = name(column).to_uppercase().replace('"', "\"\"");
            twice(&session, &format!("UPDATE {table} SET \"{other}\" = 100"));
            let conflict = format!("INSERT INTO {table} VALUES (1, 5), (23, 6) ON CONFLICT");
            refused(&session, &format!("{conflict} ({column}) DO UPDATE SET {column} = 100"));
            let sql = format!(
                "{conflict} ({column}) DO UPDATE SET \"v\"\"w\" = excluded.\"v\"\"w\" + 1000"
            );
            both(&session, &one, &lies, &sql);
            found(&session, &one, table, column);
        }
    });
}

#[test]
fn merges_and_joins_know_quoted_names() {
    with_room(|| {
        let nodes = nodes(3);
        let session = cluster(&nodes).session().unwrap();
        let one = Database::private().unwrap().connect();
        let lies = Cut::AsItLies;
        for (nth, column) in COLUMNS.iter().enumerate() {
            let cut = Cut::Hash { column: name(column) };
            let (table, other) = (format!("\"t \"\"{nth}\""), format!("\"O{nth}\""));
            for (table, rows) in [(&table, 20), (&other, 12)] {
                let sql = format!(
                    "CREATE TABLE {table} AS SELECT i AS {column}, i * 7 AS \"V\" \
                     FROM generate_series(1, {rows}) AS s(i)"
                );
                both(&session, &one, &cut, &sql);
            }
            let on = format!("t.{column} = o.{column}");
            let joined =
                format!("SELECT t.\"V\", o.{column} FROM {table} t JOIN {other} o ON {on}");
            same(&session, &one, &joined);
            let plan = asked(&session, &format!("EXPLAIN {joined}")).concat().concat();
            assert!(!plan.contains("NetworkShuffle"), "{plan}");
            same(&session, &one, &format!("SELECT {column}, count(*) FROM {table} GROUP BY 1"));
            let source = format!("(SELECT {column} + 5 AS \"k\"\"2\", \"V\" FROM {other})");
            let merge = format!("MERGE INTO {table} AS \"T t\" USING {source} AS \"s\"\"s\"");
            let on = format!("ON \"T t\".{column} = \"s\"\"s\".\"k\"\"2\"");
            let insert = format!(
                "WHEN NOT MATCHED THEN INSERT ({column}, \"V\") VALUES (\"s\"\"s\".\"k\"\"2\", 1)"
            );
            let set = format!("WHEN MATCHED THEN UPDATE SET {column} = 100");
            refused(&session, &format!("{merge} {on} {set} {insert}"));
            let set = "WHEN MATCHED THEN UPDATE SET \"V\" = \"s\"\"s\".\"V\"";
            both(&session, &one, &lies, &format!("{merge} {on} {set} {insert}"));
            found(&session, &one, &table, column);
            let sql = format!(
                "UPDATE {table} SET \"V\" = o.\"V\" FROM {other} o \
                 WHERE {table}.{column} = o.{column}"
            );
            both(&session, &one, &lies, &sql);
            let sql =
                format!("DELETE FROM {table} WHERE {column} IN (SELECT {column} FROM {other})");
            both(&session, &one, &lies, &sql);
            found(&session, &one, &table, column);
        }
    });
}

#[test]
fn a_cut_finds_its_column_in_any_case() {
    with_room(|| {
        let nodes = nodes(3);
        let session = cluster(&nodes).session().unwrap();
        let one = Database::private().unwrap().connect();
        let cut = "hash:ID".parse().unwrap();
        both(&session, &one, &cut, "CREATE TABLE t (id INTEGER, v INTEGER)");
        assert_eq!(session.cut("t"), Some("hash:id".parse().unwrap()));
        both(&session, &one, &Cut::AsItLies, "INSERT INTO T VALUES (1, 2), (2, 3), (3, 4)");
        found(&session, &one, "t", "Id");
        both(&session, &one, &cut, "CREATE TABLE u AS SELECT id AS \"Id\", v FROM t");
        found(&session, &one, "u", "id");
        let missing = session.execute("CREATE TABLE w (a INTEGER)", &cut);
        assert!(matches!(missing.err(), Some(Error::Table { .. })));
        let missing = session.execute("CREATE TABLE w AS SELECT 1 AS a", &cut);
        assert!(matches!(missing.err(), Some(Error::Table { .. })));
        // A transaction reads what it has changed, in each way to write it.
        session.query("BEGIN").unwrap();
        session.query("DELETE FROM \"T\" WHERE id = 1").unwrap();
        for written in ["\"T\"", "`t`", "main.T"] {
            let counted = asked(&session, &format!("SELECT count(*) FROM {written}"));
            assert_eq!(counted, [["2"]], "{written}");
        }
        session.query("ROLLBACK").unwrap();
        same(&session, &one, "SELECT * FROM t");
    });
}

#[test]
fn macros_of_quoted_names_are_seen_in_changes() {
    with_room(|| {
        let nodes = nodes(2);
        let session = cluster(&nodes).session().unwrap();
        session.query("CREATE TABLE t AS SELECT 1 AS a").unwrap();
        for macro_name in ["\"f\"\"g\"", "main.\"other one\"", "Loud"] {
            session.query(&format!("CREATE MACRO {macro_name}(x) AS x + random()")).unwrap();
            refused(&session, &format!("UPDATE t SET a = {macro_name}(1)"));
        }
    });
}
