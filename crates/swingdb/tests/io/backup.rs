//! EXPORT DATABASE and IMPORT DATABASE: everything comes back, all of it or nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use swingdb::Error;
use swingdb::arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchIterator, StringViewArray};
use swingdb::arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Schema};

use super::common::random_array;
use super::support::{Place, import_error, seeded};

/// What there is in a database: statements, and the rows of tables.
#[derive(PartialEq, Debug)]
struct State {
    texts: Vec<Vec<String>>,
    rows: BTreeMap<String, RecordBatch>,
}

fn quoted(parts: &[&str]) -> String {
    let parts = parts.iter().map(|part| format!("\"{}\"", part.replace('"', "\"\"")));
    parts.collect::<Vec<_>>().join(".")
}

fn state(place: &Place) -> State {
    let mut texts = place.rows("SHOW SCHEMAS");
    texts.extend(place.rows("SHOW SEQUENCES"));
    texts.extend(place.rows("SHOW MACROS"));
    let mut rows = BTreeMap::new();
    for found in place.rows("SHOW TABLES") {
        let name = quoted(&[&found[1], &found[0]]);
        texts.extend(place.rows(&format!("SHOW CREATE TABLE {name}")));
        if found[3] == "table" {
            rows.insert(name.clone(), place.table(&name));
        }
    }
    State { texts, rows }
}

fn export(place: &Place, folder: &str, options: &str) -> Result<(), Error> {
    place.run_in(&format!("EXPORT DATABASE '{{}}/{folder}' {options}"))
}

/// A new database with what another one has exported.
fn imported(from: &Place, folder: &str) -> Place {
    let place = Place::new();
    import(&place, &from.path(folder)).unwrap();
    place
}

fn import(place: &Place, folder: &Path) -> Result<(), Error> {
    let folder = folder.to_str().unwrap().replace('\'', "''");
    place.con.query(&format!("IMPORT DATABASE '{folder}'"))?.collect().map(drop)
}

#[track_caller]
fn comes_back(place: &Place, folder: &str, options: &str) {
    export(place, folder, options).unwrap();
    let (before, after) = (state(place), state(&imported(place, folder)));
    assert_eq!(after.texts, before.texts, "{options}");
    for (name, rows) in &before.rows {
        same_rows(&after.rows[name], rows, &format!("{name} {options}"));
    }
    assert_eq!(after.rows.len(), before.rows.len());
}

#[track_caller]
fn same_rows(found: &RecordBatch, expected: &RecordBatch, what: &str) {
    assert_eq!(found.schema(), expected.schema(), "{what}");
    assert_eq!(found.num_rows(), expected.num_rows(), "{what}");
    for (at, (found, expected)) in found.columns().iter().zip(expected.columns()).enumerate() {
        if found != expected {
            let row = (0..found.len()).find(|row| found.slice(*row, 1) != expected.slice(*row, 1));
            let row = row.unwrap();
            let values = (found.slice(row, 1), expected.slice(row, 1));
            panic!("{what}: column {at}, row {row}: {values:?}");
        }
    }
}

fn script(place: &Place, folder: &str, name: &str) -> String {
    std::fs::read_to_string(place.path(folder).join(name)).unwrap()
}

#[test]
fn definitions_of_all_kinds_come_back() {
    let place = Place::new();
    place.run(
        "CREATE SCHEMA geo; CREATE SCHEMA \"We ird/é\";
         CREATE SEQUENCE s START 5 INCREMENT 2; CREATE SEQUENCE used_up MAXVALUE 3;
         CREATE SEQUENCE fresh START -2 INCREMENT -3;
         CREATE SEQUENCE geo.\"Q'x\" CYCLE MINVALUE -3 MAXVALUE 4;
         SELECT nextval('s') FROM range(3); SELECT nextval('used_up') FROM range(3);
         SELECT nextval('geo.\"Q''x\"') FROM range(8);
         CREATE TABLE t (id INT PRIMARY KEY DEFAULT nextval('s'), v VARCHAR DEFAULT 'x;\"''y' NOT
             NULL, d DECIMAL(10, 2), at TIMESTAMPTZ DEFAULT now(), \"Two Words\" INT, UNIQUE (v, d),
             CONSTRAINT \"Big one\" CHECK (d > 1), CHECK (\"Two Words\" <> 7 OR v LIKE '%;%'));
         CREATE TABLE geo.\"a\"\"b/c.d\" (\"select\" INT UNIQUE, \"x y\" VARCHAR);
         CREATE TABLE \"T/ü\" (n INT); CREATE TABLE \"../up.csv\" (n INT);
         CREATE TABLE \"empty\" (v VARCHAR);
         INSERT INTO t (v, d) VALUES ('', 2), ('b', 3);
         INSERT INTO geo.\"a\"\"b/c.d\" VALUES (1, ''), (NULL, NULL), (2, 'x,\"y\"\n''');
         INSERT INTO \"T/ü\" VALUES (1); INSERT INTO \"../up.csv\" VALUES (2);
         CREATE MACRO plus(x, y := 2) AS x + y; CREATE MACRO many(a) AS a, (a, b) AS a + b;
         CREATE MACRO rows(a) AS TABLE (SELECT a AS x), (a, b) AS TABLE (SELECT a AS x, b AS y);
         CREATE MACRO geo.large(least) AS TABLE SELECT * FROM main.\"T/ü\" WHERE n >= least;
         CREATE VIEW z AS SELECT * FROM t; CREATE VIEW a (\"Id no\") AS SELECT id FROM z;
         CREATE VIEW \"M v\" AS SELECT plus(n) AS n FROM geo.large(0);
         CREATE VIEW geo.asof_view AS SELECT a.n FROM main.\"T/ü\" a ASOF JOIN \"../up.csv\" b
             ON a.n <= b.n",
    );
    for options in ["", "(FORMAT csv)", "(FORMAT csv, DELIMITER ';', NULL 'none', QUOTE '|')"] {
        let folder = format!("out{}", options.len());
        comes_back(&place, &folder, options);
    }
    let after = imported(&place, "out0");
    assert_eq!(after.value("SELECT nextval('s')"), "15");
    assert_eq!(after.value("SELECT currval('used_up')"), "3");
    assert!(after.run_in("SELECT nextval('used_up')").is_err());
    assert_eq!(after.value("SELECT nextval('geo.\"Q''x\"')"), "-3");
    assert_eq!(after.value("SELECT nextval('fresh')"), "-2");
    assert_eq!(after.value("SELECT n FROM \"M v\""), "3");
    assert!(after.run_in("INSERT INTO t (id, v) VALUES (11, 'again')").is_err());
    assert!(after.run_in("INSERT INTO t (v, d) VALUES ('c', 0)").is_err());
    assert!(after.run_in("INSERT INTO t (v) VALUES (NULL)").is_err());
}

#[test]
fn the_scripts_are_sql_that_runs_by_hand() {
    let place = Place::new();
    place.run(
        "CREATE SEQUENCE s; CREATE TABLE t (a INT DEFAULT nextval('s'), b INTERVAL);
         INSERT INTO t (b) VALUES ('1 month'), (NULL); CREATE VIEW v AS SELECT * FROM t",
    );
    export(&place, "out", "").unwrap();
    let other = Place::new();
    other.run(&script(&place, "out", "schema.sql"));
    other.run(&script(&place, "out", "swingdb.sql"));
    let folder = place.path("out").display().to_string();
    other.run(&script(&place, "out", "load.sql").replace("FROM '", &format!("FROM '{folder}/")));
    assert_eq!(state(&other), state(&place));
}

/// Views whose tables are gone keep their text, and so does a backup.
#[test]
fn broken_views_come_back() {
    let place = Place::new();
    place.file("f.csv", "a\n1\n");
    place.run(
        "CREATE TABLE gone (x INT); CREATE VIEW a AS SELECT x FROM gone;
         CREATE MACRO m() AS TABLE SELECT * FROM gone; CREATE VIEW calls AS SELECT * FROM m();
         CREATE VIEW z (y) AS SELECT x FROM a; CREATE MACRO g(n) AS n; CREATE MACRO f(n) AS g(n);
         DROP MACRO g; DROP TABLE gone",
    );
    place.run(&place.fill_in("CREATE VIEW of_file AS SELECT * FROM '{}/f.csv'"));
    comes_back(&place, "out", "");
    // The folder alone is enough, without the file.
    std::fs::remove_file(place.path("f.csv")).unwrap();
    let after = imported(&place, "out");
    after.run("CREATE TABLE gone AS SELECT 7 AS x");
    assert_eq!(after.value("SELECT y FROM z"), "7");
    assert_eq!(after.value("SELECT x FROM calls"), "7");
    assert!(after.run_in("SELECT * FROM of_file").is_err());
    let forced = "CREATE OR REPLACE FORCE VIEW z AS SELECT * FROM nowhere";
    after.run(forced);
    assert!(after.run_in("CREATE FORCE VIEW z AS SELECT 1").is_err());
    assert!(after.run_in("CREATE FORCE VIEW gone AS SELECT 1").is_err());
    for wrong in ["1 FOR UPDATE", "$1", "nextval('s')"] {
        let sql = format!("CREATE FORCE VIEW w AS SELECT {wrong}");
        assert!(after.run_in(&sql).is_err(), "{wrong}");
    }
    after.run(
        "CREATE FORCE MACRO h(x) AS nothing(x); CREATE FORCE VIEW IF NOT EXISTS z AS SELECT 2",
    );
    assert_eq!(after.value("SHOW CREATE VIEW z"), "CREATE VIEW z AS SELECT * FROM nowhere");
}

#[test]
fn an_export_is_one_state() {
    let place = Place::new();
    place.run("CREATE TABLE t (a INT); INSERT INTO t VALUES (1); CREATE TEMP TABLE tt AS SELECT 1");
    place.run("BEGIN; INSERT INTO t VALUES (2); CREATE TABLE u AS SELECT 3 AS b");
    export(&place, "inside", "").unwrap();
    place.run("ROLLBACK");
    let inside = imported(&place, "inside");
    assert_eq!(inside.rows("SELECT a FROM t ORDER BY a").len(), 2);
    assert_eq!(inside.value("SELECT b FROM u"), "3");
    assert_eq!(inside.rows("SHOW TABLES").len(), 2);
    place.run("BEGIN TRANSACTION READ ONLY");
    export(&place, "read", "").unwrap();
    place.run("COMMIT");
    place.con.set_read_only("only read");
    export(&place, "only", "").unwrap();
    assert!(matches!(import(&place, &place.path("only")), Err(Error::Transaction { .. })));
    assert_eq!(imported(&place, "only").rows("SELECT a FROM t"), [["1"]]);
}

#[test]
fn an_export_never_covers_anything() {
    let place = Place::new();
    place.run("CREATE TABLE t AS SELECT 1 AS a");
    std::fs::create_dir(place.path("empty")).unwrap();
    export(&place, "empty", "").unwrap();
    for taken in ["empty", "file", "empty/t.parquet", "no/such"] {
        place.file("file", "x");
        assert!(matches!(export(&place, taken, ""), Err(Error::Io { .. })), "{taken}");
    }
    let names = |place: &Place| {
        let entries = std::fs::read_dir(place.directory.path()).unwrap().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&place), ["empty", "file"]);
    assert_eq!(imported(&place, "empty").value("SELECT a FROM t"), "1");
    for options in ["(FORMAT json)", "(FORMAT arrow)", "(DELIMITER ';')", "(COLOUR red)"] {
        assert!(export(&place, "other", options).is_err(), "{options}");
    }
    assert!(place.run_in("EXPORT DATABASE nowhere TO '{}/other'").is_err());
    place.run_in("EXPORT DATABASE swingdb TO '{}/other'").unwrap();
    assert_eq!(names(&place), ["empty", "file", "other"]);
}

#[test]
fn an_import_is_all_or_nothing() {
    let place = Place::new();
    place.run(
        "CREATE SEQUENCE s; SELECT nextval('s'); CREATE TABLE a (x INT); INSERT INTO a VALUES (1);
         CREATE TABLE b (y INT UNIQUE); INSERT INTO b VALUES (1); CREATE VIEW v AS SELECT x FROM a",
    );
    export(&place, "out", "(FORMAT csv)").unwrap();
    let other = Place::new();
    other.run("CREATE TABLE mine AS SELECT 1 AS m");
    let before = state(&other);
    let refused = |what: &str| {
        let error = import(&other, &place.path("out")).expect_err(what);
        assert_eq!(state(&other), before, "{what}");
        assert!(!other.con.in_transaction(), "{what}");
        other.run("BEGIN; CREATE TABLE kept AS SELECT 5 AS k");
        assert!(import(&other, &place.path("out")).is_err(), "{what}");
        assert_eq!(other.value("SELECT k FROM kept"), "5");
        assert_eq!(other.rows("SHOW TABLES").len(), 2);
        other.run("ROLLBACK");
        assert_eq!(state(&other), before, "{what}");
        error
    };
    let file = place.path("out/b.csv");
    std::fs::write(&file, "y\n1\n1\n").unwrap();
    assert!(matches!(refused("a key"), Error::Constraint { .. }));
    std::fs::write(&file, "y\n1\nx\n").unwrap();
    assert_eq!(import_error(refused("a wrong value")).0, file);
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(refused("a missing file"), Error::Import { line: Some(2), .. }));
    std::fs::write(&file, "y\n1\n").unwrap();
    let schema = script(&place, "out", "schema.sql");
    let path = place.path("out/schema.sql");
    for (sql, line) in [
        ("COMMIT", 1),
        ("DROP TABLE mine", 1),
        ("UPDATE mine SET m = 2", 1),
        ("SELECT * FROM mine", 1),
        ("SET threads = 1", 1),
        ("COPY mine TO '/tmp/x.csv'", 1),
        ("CREATE TEMP TABLE x (a INT)", 1),
        ("SHARE", 1),
        ("\n\nCREATE VIEW w AS SELECT * FROM nowhere", 3),
        ("\nCREATE TABEL x", 2),
    ] {
        std::fs::write(&path, format!("{sql};\n{schema}")).unwrap();
        let (file, found, message) = import_error(refused(sql));
        assert_eq!((file, found), (path.clone(), Some(line)), "{sql}: {message}");
    }
    std::fs::write(&path, &schema).unwrap();
    import(&other, &place.path("out")).unwrap();
    assert_eq!(other.value("SELECT count(*) FROM a, b, mine"), "1");
    assert!(matches!(import(&other, &place.path("out")), Err(Error::AlreadyExists { .. })));
    assert!(matches!(import(&other, &place.path("nowhere")), Err(Error::NotFound { .. })));
}

/// An import writes to the database, whatever else its session calls by the names.
#[test]
fn names_of_the_session_do_not_matter() {
    let place = Place::new();
    place.run("CREATE TABLE t (a INT); INSERT INTO t VALUES (1); CREATE VIEW v AS SELECT a FROM t");
    let folder = "id=7/a=*[1] it''s";
    std::fs::create_dir(place.path("id=7")).unwrap();
    export(&place, folder, "").unwrap();
    let other = Place::new();
    other.run("CREATE TEMP TABLE t (a VARCHAR); CREATE TEMP VIEW v AS SELECT 5 AS a");
    other.run("SET TimeZone = 'Asia/Tokyo'");
    import(&other, &place.path("id=7/a=*[1] it's")).unwrap();
    assert_eq!(other.rows("SELECT a FROM t").len(), 0);
    assert_eq!(other.rows("SELECT a FROM main.t"), [["1"]]);
    assert_eq!(other.value("SHOW CREATE VIEW main.v"), "CREATE VIEW v AS SELECT a FROM t");
    let after = imported(&place, "id=7/a=*[1] it's");
    assert_eq!(after.value("SELECT a FROM v"), "1");
}

#[test]
fn confined_sessions_neither_export_nor_import() {
    let place = Place::new();
    place.run("CREATE TABLE t AS SELECT 1 AS a");
    place.run("INSERT INTO t SELECT range FROM range(1000000)");
    export(&place, "out", "").unwrap();
    place.run("SET enable_external_access = false");
    assert!(matches!(export(&place, "other", ""), Err(Error::NotAllowed { .. })));
    assert!(matches!(import(&place, &place.path("out")), Err(Error::NotAllowed { .. })));
    let other = Place::new();
    other.run("SET statement_timeout = '1ms'");
    let stopped = import(&other, &place.path("out"));
    assert!(matches!(stopped, Err(Error::TimedOut { .. })), "{stopped:?}");
    other.run("SET statement_timeout = 0");
    assert!(other.rows("SHOW TABLES").is_empty());
}

#[test]
fn a_sequence_is_altered() {
    let place = Place::new();
    place.run("CREATE SEQUENCE s START 3 MAXVALUE 9");
    let next = || place.value("SELECT nextval('s')");
    assert_eq!(next(), "3");
    place.run("ALTER SEQUENCE s INCREMENT BY 2 MAXVALUE 5 CYCLE MINVALUE 2");
    assert_eq!([next(), next()], ["5", "2"]);
    place.run("ALTER SEQUENCE S RESTART");
    assert_eq!(next(), "3");
    place.run("ALTER SEQUENCE s RESTART WITH 4 NO CYCLE");
    assert_eq!(next(), "4");
    assert!(place.run_in("SELECT nextval('s')").is_err());
    place.run("ALTER SEQUENCE s START 2; ALTER SEQUENCE IF EXISTS none RESTART");
    assert_eq!(place.value("SELECT currval('s')"), "4");
    for wrong in ["", "START", "START 7", "RESTART START 2 START 3", "OWNED BY t", "MAXVALUE 3"] {
        assert!(place.run_in(&format!("ALTER SEQUENCE s {wrong}")).is_err(), "{wrong}");
    }
    assert!(matches!(place.run_in("ALTER SEQUENCE none RESTART"), Err(Error::NotFound { .. })));
}

#[test]
fn tables_say_their_types_exactly() {
    let place = Place::new();
    for (type_name, shown) in [
        ("TIME(0)", "TIME(0)"),
        ("TIME(9)[]", "TIME(9)[]"),
        ("BINARY(4)", "BINARY(4)"),
        ("TIMESTAMP(0) WITH TIME ZONE", "TIMESTAMP(0) WITH TIME ZONE"),
        ("ARROW('LargeUtf8')", "ARROW('LargeUtf8')"),
        ("ARROW('Timestamp(ns, \"+02:00\")')", "ARROW('Timestamp(ns, \"+02:00\")')"),
        ("HUGEINT", "DECIMAL(38,0)"),
        ("MAP(VARCHAR, BINARY(2))", "MAP(VARCHAR, BINARY(2))"),
        ("STRUCT(\"A \"\"b\" TIME(3))", "STRUCT(\"A \"\"b\" TIME(3))"),
    ] {
        place.run(&format!("CREATE OR REPLACE TABLE t (a {type_name})"));
        let text = place.value("SHOW CREATE TABLE t");
        assert_eq!(text, format!("CREATE TABLE t (\n    a {shown}\n)"));
        let before = place.con.table("t").unwrap().schema();
        place.run(&format!("DROP TABLE t; {text}"));
        assert_eq!(place.con.table("t").unwrap().schema(), before, "{type_name}");
    }
}

const TYPES: [&str; 44] = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "HUGEINT",
    "FLOAT",
    "DOUBLE",
    "HALF",
    "DECIMAL(9, 2)",
    "DECIMAL(38, 10)",
    "DECIMAL(76, 5)",
    "VARCHAR",
    "UUID",
    "BLOB",
    "BINARY(5)",
    "DATE",
    "TIME",
    "TIME(0)",
    "TIME(3)",
    "TIME(9)",
    "TIMESTAMP",
    "TIMESTAMP_S",
    "TIMESTAMP_MS",
    "TIMESTAMP_NS",
    "TIMESTAMPTZ",
    "TIMESTAMP(0) WITH TIME ZONE",
    "TIMESTAMP(9) WITH TIME ZONE",
    "INTERVAL",
    "INTEGER[]",
    "VARCHAR[][]",
    "DOUBLE[3]",
    "INTERVAL[2]",
    "STRUCT(\"A b\" INTERVAL, c INTERVAL[], d STRUCT(e BLOB))",
    "MAP(INTEGER, INTERVAL)",
    "STRUCT(a INTEGER, b VARCHAR)[]",
    "ARROW('LargeUtf8')",
    "ARROW('Dictionary(Int32, Utf8)')",
    "ARROW('Duration(ms)')",
    "ARROW('Interval(YearMonth)')",
];

/// Values of a column; only of keys each is there once.
fn values(rng: &mut Rng, field: &Field, rows: usize) -> ArrayRef {
    if field.name() == "key" {
        let keys = (0..rows as i64).map(|key| key * 3 - 50);
        return Arc::new(swingdb::arrow::array::Int64Array::from_iter_values(keys));
    }
    if field.metadata().is_empty() {
        return one_nan(random_array(rng, field.data_type(), rows, field.is_nullable()));
    }
    let uuid = |rng: &mut Rng| {
        let digits = format!("{:032x}", rng.u128(..));
        let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
        parts.join("-")
    };
    Arc::new(StringViewArray::from_iter_values((0..rows).map(|_| uuid(rng))))
}

/// All NaN are one number, whatever their bits: text does not keep these.
fn one_nan(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => {
            let floats = array.as_primitive::<Float32Type>();
            Arc::new(floats.unary::<_, Float32Type>(|x| if x.is_nan() { f32::NAN } else { x }))
        }
        DataType::Float64 => {
            let floats = array.as_primitive::<Float64Type>();
            Arc::new(floats.unary::<_, Float64Type>(|x| if x.is_nan() { f64::NAN } else { x }))
        }
        _ => array,
    }
}

fn random_table(rng: &mut Rng, place: &Place, name: &str, types: &[&str]) {
    let mut parts = Vec::new();
    if rng.bool() {
        let kind = ["PRIMARY KEY", "UNIQUE", "DEFAULT 7", "NOT NULL CHECK (\"key\" >= -50)"];
        parts.push(format!("\"key\" BIGINT {}", kind[rng.usize(..kind.len())]));
    }
    for at in 0..rng.usize(1..6) {
        let column = ["a", "B c", "sel\"ect", "ü", "x.y", "order"][at];
        let not_null = if rng.u8(..) < 60 { " NOT NULL" } else { "" };
        parts.push(format!("{} {}{not_null}", quoted(&[column]), types[rng.usize(..types.len())]));
    }
    place.run(&format!("CREATE TABLE {name} ({})", parts.join(", ")));
    let schema = place.con.table(name).unwrap().schema();
    for _ in 0..rng.usize(0..3) {
        let rows = [0, 1, 7, 300, 3000][rng.usize(..5)];
        let columns: Vec<ArrayRef> =
            schema.fields().iter().map(|field| values(rng, field, rows)).collect();
        let fields = schema.fields().iter().map(|f| Field::clone(f).with_nullable(true));
        let plain = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(Arc::clone(&plain), columns).unwrap();
        let reader = RecordBatchIterator::new([Ok(batch)], plain);
        // Keys of a second batch are there already.
        let _ = place.con.append(name, reader);
    }
}

/// Names of views by turns, so that one stands often before those that it reads.
fn random_views(rng: &mut Rng, place: &Place, tables: &[String]) {
    let mut names: Vec<String> = (0..6).map(|n| format!("v{n}")).collect();
    rng.shuffle(&mut names);
    let mut known: Vec<String> = tables.to_vec();
    for name in names {
        let from = &known[rng.usize(..known.len())];
        match rng.u8(..3) {
            0 => {
                place.run(&format!("CREATE MACRO m_{name}() AS TABLE SELECT * FROM {from}"));
                place.run(&format!("CREATE VIEW {name} AS SELECT count(*) AS n FROM m_{name}()"));
            }
            1 => place.run(&format!("CREATE VIEW {name} (n) AS SELECT count(*) FROM {from}")),
            _ => place.run(&format!("CREATE VIEW {name} AS SELECT * FROM {from}")),
        }
        known.push(name);
    }
}

fn random_database(rng: &mut Rng, types: &[&str]) -> Place {
    let place = Place::new();
    let schemas = ["main", "Geo data", "s/1", "Ü.x"];
    schemas[1..].iter().for_each(|name| place.run(&format!("CREATE SCHEMA {}", quoted(&[name]))));
    let mut tables = Vec::new();
    for name in ["t", "T 2", "a/b", "a.b", "a_b", "select", "q\"uote", "Größe", "-x"] {
        if rng.bool() {
            let name = quoted(&[schemas[rng.usize(..4)], name]);
            random_table(rng, &place, &name, types);
            tables.push(name);
        }
    }
    for name in ["s", "Se q"] {
        let (step, cycle) = ([-7, -1, 1, 3][rng.usize(..4)], if rng.bool() { "CYCLE" } else { "" });
        let name = quoted(&[schemas[rng.usize(..4)], name]);
        let sql = format!("CREATE SEQUENCE {name} INCREMENT {step} MINVALUE -20 MAXVALUE 20");
        place.run(&format!("{sql} START {} {cycle}", rng.i32(-20..21)));
        for _ in 0..rng.usize(..30) {
            let _ = place.run_in(&format!("SELECT nextval('{name}')"));
        }
    }
    tables.push("(SELECT 1 AS one)".to_string());
    random_views(rng, &place, &tables);
    place
}

#[test]
fn random_databases_come_back_from_parquet() {
    let mut rng = seeded();
    for round in 0..rounds() {
        let place = random_database(&mut rng, &TYPES);
        let rows = [1, 1000, 262_144][rng.usize(..3)];
        comes_back(&place, &format!("out{round}"), &format!("(ROW_GROUP_SIZE {rows})"));
    }
}

#[test]
fn random_databases_come_back_from_csv() {
    let mut rng = seeded();
    // What has a text that says it exactly.
    let is_text = |name: &&&str| {
        !["ARROW", "HALF", "DOUBLE[", "MAP(INTEGER"].iter().any(|no| name.contains(no))
    };
    let types: Vec<&str> = TYPES.iter().filter(is_text).copied().collect();
    for round in 0..rounds() {
        let place = random_database(&mut rng, &types);
        let packed = ["none", "gzip", "zstd"][rng.usize(..3)];
        comes_back(&place, &format!("out{round}"), &format!("(FORMAT csv, COMPRESSION {packed})"));
    }
}

fn rounds() -> usize {
    std::env::var("SWINGDB_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(6)
}

#[test]
fn all_types_come_back() {
    let mut rng = seeded();
    let place = Place::new();
    for (at, type_name) in TYPES.iter().enumerate() {
        let name = format!("t{at}");
        place.run(&format!("CREATE TABLE {name} (a {type_name})"));
        let schema = place.con.table(&name).unwrap().schema();
        let column = values(&mut rng, schema.field(0), 500);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
        place.con.append(&name, RecordBatchIterator::new([Ok(batch)], schema)).unwrap();
    }
    comes_back(&place, "out", "");
    let data = place.con.table("t0").unwrap().schema();
    assert_eq!(data.field(0).data_type(), &DataType::Boolean);
}

/// Months, days and nanoseconds of an interval come back each as they are.
#[test]
fn intervals_come_back_exactly() {
    use swingdb::arrow::array::IntervalMonthDayNanoArray;
    use swingdb::arrow::datatypes::IntervalMonthDayNano as Interval;
    let place = Place::new();
    place.run("CREATE TABLE t (a INTERVAL)");
    let ends = |months, days, nanos| Some(Interval::new(months, days, nanos));
    let column = IntervalMonthDayNanoArray::from(vec![
        ends(i32::MAX, i32::MAX, i64::MAX),
        ends(i32::MIN, i32::MIN, i64::MIN),
        ends(1, -30, 1),
        ends(0, 30, 86_400_000_000_000),
        ends(-12, 0, -1),
        ends(0, 0, 0),
        None,
    ]);
    let schema = place.con.table("t").unwrap().schema();
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(column)]).unwrap();
    place.con.append("t", RecordBatchIterator::new([Ok(batch)], schema)).unwrap();
    comes_back(&place, "parquet", "");
    comes_back(&place, "csv", "(FORMAT csv)");
}

#[test]
fn millions_of_rows_come_back() {
    let place = Place::new();
    place.run(
        "CREATE TABLE t AS SELECT range AS a, range % 7 AS b, 'row ' || range AS c
         FROM range(2000000); DELETE FROM t WHERE a % 3 = 1; UPDATE t SET b = -1 WHERE a = 999",
    );
    comes_back(&place, "out", "");
}
