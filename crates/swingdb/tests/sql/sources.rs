//! Attached databases and registered Arrow tables.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};

use super::common::fixture;
use swingdb::{Database, Error};

fn batch(values: &[i64], names: &[&str]) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![
        Field::new("Id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(values.to_vec())),
        Arc::new(StringArray::from(names.to_vec())),
    ];
    RecordBatch::try_new(schema, columns).unwrap()
}

#[test]
fn rows_of_registered_batches_come_in_their_order() {
    let f = fixture();
    let mut next = 0;
    // More batches than processors, of many sizes, some of none.
    let sizes = [3, 1, 0, 700, 2, 40, 0, 1, 1, 9000, 5, 1, 3, 20_000, 2, 1, 1, 0];
    let batches = sizes.map(|rows| {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(next..next + rows));
        next += rows;
        RecordBatch::try_from_iter([("n", values)]).unwrap()
    });
    f.con.register("frame", batches[0].schema(), batches.to_vec()).unwrap();
    let wanted: Vec<_> = (0..next).map(|n| n.to_string()).collect();
    for threads in [1, 2, 3, 8, 40] {
        f.run(&format!("SET threads = {threads}"));
        assert!(f.rows("SELECT n FROM frame") == wanted, "{threads} threads");
        assert!(f.rows("SELECT unnest(list(n)) FROM frame") == wanted, "{threads} threads");
        f.run("CREATE OR REPLACE TABLE kept AS SELECT n FROM frame WHERE n >= 0");
        assert!(f.rows("SELECT n FROM kept") == wanted, "{threads} threads");
        for (sql, answer) in [
            ("SELECT n FROM frame LIMIT 4", "0 1 2 3"),
            ("SELECT n FROM frame OFFSET 29759", "29759 29760"),
            ("SELECT first(n), last(n), count(*) FROM frame", "0|29760|29761"),
            ("SELECT DISTINCT row_number() OVER () - n AS d FROM frame", "1"),
            ("SELECT n FROM frame WHERE n % 10000 = 1 LIMIT 2", "1 10001"),
            ("(SELECT n FROM frame LIMIT 1) UNION ALL SELECT n FROM frame LIMIT 3", "0 0 1"),
        ] {
            assert_eq!(f.rows(sql).join(" "), answer, "{threads} threads: {sql}");
        }
    }
}

#[test]
fn registered_tables_are_queried_by_name() {
    let f = fixture();
    let data = batch(&[1, 2, 3], &["a", "b", "c"]);
    f.con.register("frame", data.schema(), vec![data.clone(), data]).unwrap();
    assert_eq!(f.rows("SELECT count(*), sum(id) FROM Frame"), ["6|12"]);
    let running = f.run("SELECT id FROM frame");
    f.con.deregister("frame");
    f.con.deregister("frame");
    assert!(matches!(f.error("SELECT * FROM frame"), Error::NotFound { .. }));
    assert_eq!(super::common::rows(running).unwrap().len(), 6);
    // A real table goes first.
    f.run("CREATE TABLE frame AS SELECT 99 AS id");
    let data = batch(&[1], &["a"]);
    f.con.register("frame", data.schema(), vec![data]).unwrap();
    assert_eq!(f.rows("SELECT id FROM frame"), ["99"]);
}

#[test]
fn names_that_are_no_table_are_told() {
    let f = fixture();
    f.run("CREATE TABLE known AS SELECT 1 AS a");
    let names = |sql: &str| f.con.unresolved_tables(sql).unwrap();
    assert_eq!(
        names("SELECT * FROM known JOIN df USING (a), Other WHERE a IN (SELECT b FROM df2)"),
        ["Other", "df", "df2"]
    );
    assert_eq!(names("WITH c AS (SELECT 1) SELECT * FROM c, frame"), ["frame"]);
    assert_eq!(names("INSERT INTO known SELECT * FROM frame"), ["frame"]);
    assert!(names("this is no sql").is_empty());
}

#[test]
fn attached_databases_are_joined() {
    let f = fixture();
    let home = f.home.path();
    let orders = Database::open_in(home, "orders").unwrap();
    let con = orders.connect();
    con.query("CREATE TABLE o AS SELECT 1 AS customer, 10 AS amount UNION ALL SELECT 1, 5")
        .unwrap();
    con.query("CREATE SCHEMA s").unwrap();
    con.query("CREATE TABLE s.deep AS SELECT 'd' AS d").unwrap();
    con.query(
        "CREATE VIEW total AS SELECT customer, sum(amount) AS amount FROM o GROUP BY customer",
    )
    .unwrap();
    orders.share().unwrap();
    f.run("CREATE TABLE o AS SELECT 1 AS id, 'Ann' AS name");
    f.run("ATTACH 'orders' AS x");
    assert_eq!(
        f.rows("SELECT name, amount FROM o JOIN x.total t ON t.customer = o.id"),
        ["Ann|15"]
    );
    assert_eq!(f.rows("SELECT count(*) FROM x.o"), ["2"]);
    assert_eq!(f.rows("SELECT d FROM X.S.Deep"), ["d"]);
    // The snapshot stays as it was taken.
    con.query("INSERT INTO o VALUES (1, 100)").unwrap();
    orders.share().unwrap();
    assert_eq!(f.rows("SELECT count(*) FROM x.o"), ["2"]);
    assert!(matches!(f.error("ATTACH 'orders' AS X"), Error::AlreadyExists { .. }));
    f.run("DETACH x");
    assert!(matches!(f.error("SELECT * FROM x.o"), Error::NotFound { .. }));
    assert!(matches!(f.error("DETACH x"), Error::NotFound { .. }));
    // A database of this process, through the interface.
    f.con.attach(&orders, "live").unwrap();
    assert_eq!(f.rows("SELECT count(*) FROM live.o"), ["3"]);
}
