//! Files in SQL: COPY, FROM 'file', table functions, CREATE EXTERNAL TABLE.

use swingdb::Error;

use super::support::{Place, import_error};

#[test]
fn copy_in_both_directions() {
    let place = Place::new();
    place.run("CREATE TABLE t (a BIGINT, b VARCHAR)");
    place.run("INSERT INTO t VALUES (1, 'x;y'), (2, NULL), (3, '')");
    place
        .run_in("COPY t TO '{}/t.csv' (FORMAT csv, HEADER false, DELIMITER ';', NULL 'NA')")
        .unwrap();
    assert_eq!(std::fs::read_to_string(place.path("t.csv")).unwrap(), "1;\"x;y\"\n2;NA\n3;\"\"\n");
    place.run("CREATE TABLE u (a BIGINT, b VARCHAR)");
    let copied = place
        .con
        .query(&place.fill_in("COPY u FROM '{}/t.csv' (DELIM ';', NULL 'NA', HEADER false)"));
    assert_eq!(copied.unwrap().rows_changed(), Some(3));
    assert_eq!(place.rows("SELECT * FROM u"), place.rows("SELECT * FROM t"));
    place.run_in("COPY (SELECT a * 2 AS twice FROM t WHERE a > $1) TO '{}/q.parquet'").unwrap_err();
    place
        .run_in(
            "COPY (SELECT a * 2 AS twice FROM t WHERE a > 1) TO '{}/q.parquet' (COMPRESSION zstd)",
        )
        .unwrap();
    assert_eq!(place.rows("SELECT * FROM '{}/q.parquet'"), [["4"], ["6"]]);
    place.run_in("COPY t (b, a) TO '{}/p.csv'").unwrap();
    place.run("CREATE TABLE v (x BIGINT, y VARCHAR, z DOUBLE)");
    place.run_in("COPY v (y, x) FROM '{}/p.csv' (HEADER)").unwrap();
    assert_eq!(place.rows("SELECT * FROM v WHERE x = 1"), [["1", "x;y", "NULL"]]);
}

#[test]
fn copy_is_one_statement_of_its_transaction() {
    let place = Place::new();
    place.run("CREATE TABLE t (a BIGINT)");
    place.file("good.csv", "a\n1\n2\n");
    place.file("bad.csv", "a\n3\nx\n");
    place.run("BEGIN");
    place.run_in("COPY t FROM '{}/good.csv'").unwrap();
    let (_, line, _) = import_error(place.run_in("COPY t FROM '{}/bad.csv'").unwrap_err());
    assert_eq!(line, Some(3));
    place.run("COMMIT");
    assert_eq!(place.value("SELECT sum(a) FROM t"), "3");
    let error = place.run_in("COPY nothing FROM '{}/good.csv'").unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
    let error = place.run_in("COPY t FROM '{}/good.csv' (HEDAER)").unwrap_err();
    assert!(error.to_string().contains("header"), "{error}");
}

#[test]
fn files_in_queries() {
    let place = Place::new();
    place.file("one.csv", "id,name\n1,ann\n2,bob\n");
    place.file("two.csv", "id,name\n3,cid\n");
    place.file("f.json", "{\"id\": 1, \"age\": 30}\n{\"id\": 3, \"age\": 40}\n");
    assert_eq!(place.value("SELECT count(*) FROM '{}/one.csv'"), "2");
    assert_eq!(place.value("SELECT max(name) FROM '{}/*.csv'"), "cid");
    let joined =
        "SELECT name, age FROM '{}/*.csv' p JOIN '{}/f.json' j ON p.id = j.id ORDER BY name";
    assert_eq!(place.rows(joined), [["ann", "30"], ["cid", "40"]]);
    assert_eq!(
        place.value("SELECT column1 FROM read_csv('{}/one.csv', 'header', false) LIMIT 1 OFFSET 1"),
        "ann"
    );
    place.run_in("CREATE TABLE t AS SELECT * FROM '{}/one.csv'").unwrap();
    place.run_in("INSERT INTO t SELECT * FROM read_csv('{}/two.csv')").unwrap();
    assert_eq!(place.value("SELECT sum(id) FROM t"), "6");
    let error = place.run_in("SELECT * FROM '{}/three.csv'").unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
}

#[test]
fn errors_in_files_of_queries_have_lines_too() {
    let place = Place::new();
    let mut file = "a,b\n".to_string();
    for row in 0..200_000 {
        file += &format!("{row},1\n");
    }
    let before = file.match_indices("\n66666,").next().unwrap().0 + 1;
    file.insert(before, 'x');
    place.file("f.csv", &file);
    let error = place.run_in("SELECT sum(a) FROM '{}/f.csv'").unwrap_err();
    let (path, line, _) = import_error(error);
    assert_eq!(path, place.path("f.csv"));
    assert_eq!(line, Some(66_668));
    // Columns that are not asked for are not looked at.
    assert_eq!(place.value("SELECT sum(b) FROM '{}/f.csv'"), "200000");
}

#[test]
fn external_tables() {
    let place = Place::new();
    place.file("f.tbl", "1|x|\n2|y|\n");
    let create = "CREATE EXTERNAL TABLE e (a INT, b VARCHAR) STORED AS CSV LOCATION '{}/f.tbl' \
                  OPTIONS ('format.delimiter' '|', 'format.has_header' 'false')";
    place.run_in(create).unwrap();
    assert_eq!(place.rows("SELECT b, a FROM e"), [["x", "1"], ["y", "2"]]);
    assert!(matches!(place.run_in(create), Err(Error::AlreadyExists { .. })));
    place.run("CREATE TABLE t AS SELECT * FROM e");
    assert_eq!(place.value("SELECT arrow_typeof(a) FROM t LIMIT 1"), "Int32");
}
