//! Scans of random tables against a naive filter, with deleted rows, NULLs and pruning on and off.

use arrow::array::AsArray;

use super::common::{Fixture, analyzed, fixture, seeded};

/// Rows of the model: what the table should hold.
#[derive(Clone, Debug)]
struct Row {
    id: i64,
    /// Ascending with gaps, so that segments have narrow bounds.
    time: i64,
    group: Option<i64>,
    text: Option<String>,
    x: f64,
}

fn random_rows(random: &mut fastrand::Rng, count: i64) -> Vec<Row> {
    let mut time = 0;
    let row = |id| {
        time += random.i64(0..5);
        Row {
            id,
            time,
            group: (random.u8(..10) > 0).then(|| random.i64(-50..50)),
            text: (random.u8(..10) > 0).then(|| format!("t{}", random.u32(..1000))),
            x: (random.f64() * 1000.0).round() / 8.0,
        }
    };
    (0..count).map(row).collect()
}

fn load(f: &Fixture, rows: &[Row]) {
    use arrow::array::{
        Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringViewArray,
    };
    use arrow::datatypes::{DataType, Field, Schema};
    use std::sync::Arc;
    f.run("CREATE TABLE t (id BIGINT, time BIGINT, grp BIGINT, txt VARCHAR, x DOUBLE)");
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("time", DataType::Int64, true),
        Field::new("grp", DataType::Int64, true),
        Field::new("txt", DataType::Utf8View, true),
        Field::new("x", DataType::Float64, true),
    ]));
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.id))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.time))),
            Arc::new(Int64Array::from_iter(rows.iter().map(|r| r.group))),
            Arc::new(StringViewArray::from_iter(rows.iter().map(|r| r.text.as_deref()))),
            Arc::new(Float64Array::from_iter_values(rows.iter().map(|r| r.x))),
        ],
    );
    let reader = RecordBatchIterator::new([batch], schema);
    assert_eq!(f.con.append("t", reader).unwrap(), rows.len() as u64);
}

/// Whether a row fulfils a condition.
type Meaning = Box<dyn Fn(&Row) -> bool>;

/// A random condition: its SQL and what it means.
fn condition(random: &mut fastrand::Rng, span: i64) -> (String, Meaning) {
    let a = random.i64(0..span.max(1));
    let b = a + random.i64(0..span / 4 + 1);
    let g = random.i64(-60..60);
    let s = format!("t{}", random.u32(..1000));
    match random.u8(..9) {
        0 => (format!("time BETWEEN {a} AND {b}"), Box::new(move |r| (a..=b).contains(&r.time))),
        1 => (format!("time > {b}"), Box::new(move |r| r.time > b)),
        2 => (format!("time < {a}"), Box::new(move |r| r.time < a)),
        3 => (format!("grp = {g}"), Box::new(move |r| r.group == Some(g))),
        4 => ("grp IS NULL".into(), Box::new(|r| r.group.is_none())),
        5 => (format!("txt >= '{s}'"), Box::new(move |r| r.text.as_ref().is_some_and(|t| *t >= s))),
        6 => (format!("id IN ({a}, {b})"), Box::new(move |r| r.id == a || r.id == b)),
        7 => (
            format!("(time < {a} OR grp > {g})"),
            Box::new(move |r| r.time < a || r.group.is_some_and(|x| x > g)),
        ),
        _ => (format!("x < {g}"), Box::new(move |r| r.x < g as f64)),
    }
}

#[test]
fn scans_equal_a_naive_filter() {
    let (mut random, seed) = seeded();
    let f = fixture();
    let mut rows = random_rows(&mut random, 400_000);
    load(&f, &rows);
    let span = rows.last().unwrap().time;
    for round in 0..60 {
        if round % 10 == 9 {
            let (sql, holds) = condition(&mut random, span);
            f.run(&format!("DELETE FROM t WHERE {sql}"));
            rows.retain(|row| !holds(row));
        }
        let (one, holds_one) = condition(&mut random, span);
        let (two, holds_two) = condition(&mut random, span);
        let expected = rows.iter().filter(|row| holds_one(row) && holds_two(row));
        let expected = expected.collect::<Vec<_>>();
        let ids = expected.iter().map(|row| row.id).sum::<i64>();
        let sum = match expected.is_empty() {
            true => "-".to_string(),
            false => ids.to_string(),
        };
        let plain = format!("SELECT count(*), sum(id) FROM t WHERE {one} AND {two}");
        let wanted = format!("{}|{sum}", expected.len());
        assert_eq!(f.value(&plain), wanted, "seed {seed}: {plain}");
        // Written so that no segment can be ruled out.
        let hidden = format!(
            "SELECT count(*), sum(id) FROM t WHERE CASE WHEN {one} AND {two} THEN true ELSE \
                false END"
        );
        assert_eq!(f.value(&hidden), wanted, "seed {seed}: {hidden}");
        // The best rows by an order, with segments ruled out while it runs.
        let top = format!("SELECT time, id FROM t WHERE {one} ORDER BY time DESC, id DESC LIMIT 3");
        let mut best = rows.iter().filter(|row| holds_one(row)).collect::<Vec<_>>();
        best.sort_by_key(|row| std::cmp::Reverse((row.time, row.id)));
        let best = best.iter().take(3).map(|r| format!("{}|{}", r.time, r.id));
        assert_eq!(f.rows(&top), best.collect::<Vec<_>>(), "seed {seed}: {top}");
    }
}

/// Decimals that are compared as floating point numbers, where the last bit of one may decide.
#[test]
fn segments_of_decimals_are_ruled_out_by_numbers() {
    let (mut random, seed) = seeded();
    let f = fixture();
    for digits in ["12, 2", "18, 3", "38, 20", "30, 0"] {
        f.run(&format!(
            "CREATE OR REPLACE TABLE t AS
             SELECT i, ((i - 200000) * 0.1428571428)::DECIMAL({digits}) AS d
             FROM generate_series(1, 400000) AS i"
        ));
        let plan = analyzed(&f, "SELECT sum(i) FROM t WHERE d::DOUBLE > 28500.5");
        assert!(plan.contains("segments=1 of 4"), "{digits}: {plan}");
        for _ in 0..3 {
            let row = random.i32(1..400000);
            let number = f.value(&format!("SELECT d::DOUBLE FROM t WHERE i = {row}"));
            for op in ["<", "<=", ">", ">=", "=", "<>"] {
                let count =
                    |condition: &str| f.value(&format!("SELECT count(*) FROM t WHERE {condition}"));
                let number = format!("{number}::DOUBLE");
                // What is hidden rules out nothing.
                let hidden = format!("coalesce(d::DOUBLE + random() * 0, 0) {op} {number}");
                let found = count(&format!("d::DOUBLE {op} {number}"));
                assert_eq!(found, count(&hidden), "seed {seed}: {digits} {op} {number}");
                let turned = count(&format!("NOT ({number} {op} d::DOUBLE)"));
                let hidden = format!("NOT ({number} {op} d::DOUBLE + random() * 0)");
                assert_eq!(turned, count(&hidden), "seed {seed}: {digits} {op} {number}");
            }
        }
    }
}

#[test]
fn segments_are_ruled_out_by_conditions_orders_and_joins() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT i AS n, i * 2 AS m FROM generate_series(1, 1500000) AS i");
    let plan = analyzed(&f, "SELECT sum(m) FROM t WHERE n BETWEEN 700000 AND 700100");
    assert!(plan.contains("segments=1 of 12"), "{plan}");
    let plan = analyzed(&f, "SELECT * FROM t ORDER BY m DESC LIMIT 3");
    let pruned = metric(&plan, "morsels_pruned=");
    assert!(pruned > 0, "{plan}");
    f.run("CREATE TABLE few AS SELECT 42 AS n UNION ALL SELECT 43");
    let plan = analyzed(&f, "SELECT count(*), sum(m) FROM t JOIN few USING (n)");
    assert!(metric(&plan, "morsels_pruned=") > 0, "{plan}");
}

/// The largest value of a counter in the text of a plan.
fn metric(plan: &str, name: &str) -> u64 {
    let values = plan.split(name).skip(1).map(|rest| {
        let digits = rest.chars().take_while(char::is_ascii_digit).collect::<String>();
        digits.parse().unwrap_or(0)
    });
    values.max().unwrap_or(0)
}

#[test]
fn a_limit_reads_little() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 1500000) AS value");
    let plan = analyzed(&f, "SELECT * FROM t LIMIT 10");
    assert!(metric(&plan, "morsels_read=") <= 2, "{plan}");
    assert_eq!(f.rows("SELECT n FROM t LIMIT 10").len(), 10);
    assert_eq!(f.rows("SELECT n FROM t LIMIT 5 OFFSET 1499998"), ["1499999", "1500000"]);
    f.run("DELETE FROM t WHERE n < 1499000");
    assert_eq!(f.rows("SELECT n FROM t LIMIT 2000").len(), 1001);
}

/// Without a condition, as DuckDB does; threads must not race for the first rows.
#[test]
fn a_limit_takes_the_rows_in_the_order_of_their_insertion() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 600000) AS value");
    f.run("INSERT INTO t SELECT value FROM generate_series(600001, 700000) AS value");
    f.run("CREATE VIEW v AS SELECT n * 10 AS tens FROM t");
    let all = |from: i64, step: usize, until: i64| {
        (from..=until).step_by(step).map(|n| n.to_string()).collect::<Vec<_>>()
    };
    for _ in 0..20 {
        assert_eq!(f.rows("SELECT n FROM t LIMIT 3"), ["1", "2", "3"]);
        assert_eq!(f.rows("SELECT n + 1 FROM t LIMIT 3 OFFSET 400000")[0], "400002");
        assert_eq!(f.rows("SELECT tens FROM v LIMIT 2 OFFSET 650000"), ["6500010", "6500020"]);
    }
    assert_eq!(f.rows("SELECT n FROM t LIMIT 300000"), all(1, 1, 300_000));
    assert_eq!(f.rows("SELECT tens FROM v LIMIT 300000"), all(10, 10, 3_000_000));
    let plan = f.rows("EXPLAIN SELECT tens FROM v LIMIT 300000").join("\n");
    assert!(!plan.contains("RepartitionExec"), "{plan}");
    let sums = "SELECT sum(n), count(*) FROM (SELECT n FROM t LIMIT 1000 OFFSET 500000)";
    assert_eq!(f.value(sums), format!("{}|1000", (500_001..=501_000).sum::<i64>()));
    f.run("DELETE FROM t WHERE n % 2 = 1");
    assert_eq!(f.rows("SELECT n FROM t LIMIT 200000"), all(2, 2, 400_000));
    f.run("CREATE TABLE few AS SELECT * FROM t LIMIT 100000 OFFSET 100000");
    assert_eq!(f.rows("SELECT n FROM few LIMIT 100000"), all(200_002, 2, 400_000));
}

#[test]
fn a_limit_counts_the_rows_that_fulfil_the_condition() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT i AS n, i % 7 AS m FROM generate_series(1, 400000) AS i");
    f.run("DELETE FROM t WHERE n % 3 = 0");
    for threads in [1, 2] {
        f.run(&format!("SET threads = {threads}"));
        for limit in [1, 10, 5000, 9000, 38094, 38095, 40000] {
            for order in ["", "ORDER BY n"] {
                let sql = format!("SELECT n FROM t WHERE m = 3 {order} LIMIT {limit}");
                let found = f.rows(&sql);
                assert_eq!(found.len(), limit.min(38095), "{sql}");
                let fulfil = |n: &String| n.parse::<i64>().is_ok_and(|n| n % 7 == 3 && n % 3 != 0);
                assert!(found.iter().all(fulfil), "{sql}");
            }
        }
        let count = "SELECT count(*) FROM (SELECT n FROM t WHERE m = 3 LIMIT 1000)";
        assert_eq!(f.value(count), "1000");
    }
}

#[test]
fn conditions_that_may_fail_see_only_rows_that_the_others_leave() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT i AS n, i % 10 AS m FROM generate_series(1, 100000) AS i");
    for (sql, expected) in [
        ("SELECT count(*) FROM t WHERE 100 / m > 30 AND m <> 0", "30000"),
        ("SELECT count(*) FROM t WHERE m <> 0 AND 100 / m > 30", "30000"),
        ("SELECT count(*) FROM t WHERE CAST(m - 5 AS UBIGINT) > 2 AND m >= 5", "20000"),
        ("SELECT count(*) FROM t WHERE m >= 5 AND 9223372036854775802 + (10 - m) > 0", "50000"),
    ] {
        assert_eq!(f.value(sql), expected, "{sql}");
    }
}

#[test]
fn keys_that_cannot_be_computed_for_other_rows_leave_none_out() {
    let f = fixture();
    f.run(
        "CREATE TABLE t AS SELECT i AS id, CASE WHEN i % 10 = 1 THEN i::VARCHAR ELSE 'x' || i END \
         AS s FROM generate_series(0, 99999) AS g(i)",
    );
    f.run("CREATE TABLE k AS SELECT unnest([1, 2, 99991]) AS k");
    for condition in
        ["id % 10 = 1", "id % 10 + 1 = 2 AND id >= 0", "id % 10 NOT IN (0, 2, 3, 4, 5, 6, 7, 8, 9)"]
    {
        let rows = format!("(SELECT s::INT AS a, id FROM t WHERE {condition})");
        let sql = format!("SELECT count(*), sum(id) FROM {rows} JOIN k ON a = k");
        assert_eq!(f.value(&sql), "2|99992", "{sql}");
        let sql = format!("SELECT a FROM {rows} ORDER BY a LIMIT 2");
        assert_eq!(f.rows(&sql), ["1", "11"], "{sql}");
        assert_eq!(f.value(&format!("SELECT max(a) FROM {rows}")), "99991");
    }
}

#[test]
fn keys_of_a_join_leave_out_rows_of_the_other_side() {
    let f = fixture();
    f.run(
        "CREATE TABLE t AS SELECT value * 7 % 400009 AS k, value AS v \
         FROM generate_series(1, 400000) AS value",
    );
    f.run("CREATE TABLE few AS SELECT value * 1000 AS k FROM generate_series(1, 200) AS value");
    let sql = "SELECT count(*), sum(v) FROM t JOIN few USING (k)";
    let (mut count, mut sum) = (0, 0);
    for v in 1..=400_000i64 {
        let k = v * 7 % 400_009;
        if k % 1000 == 0 && (1000..=200_000).contains(&k) {
            (count, sum) = (count + 1, sum + v);
        }
    }
    assert_eq!(f.value(sql), format!("{count}|{sum}"));
    let plan = analyzed(&f, sql);
    assert!(metric(&plan, "rows_filtered=") > 100, "{plan}");
}

#[test]
fn few_keys_are_looked_up_in_rows_that_are_in_order_of_them() {
    let f = fixture();
    let rows = 400_000i64;
    f.run(&format!(
        "CREATE TABLE t AS SELECT i * 2 AS id, i // 10 AS ten, i AS v, \
         'k' || lpad(i::VARCHAR, 6, '0') AS s FROM generate_series(0, {}) AS g(i)",
        rows - 1
    ));
    f.run("DELETE FROM t WHERE v % 1000 = 7");
    let is_live = |v: &i64| v % 1000 != 7;
    let found = |wanted: &dyn Fn(i64) -> bool| {
        let of = (0..rows).filter(is_live).filter(|v| wanted(*v)).collect::<Vec<_>>();
        format!("{}|{}", of.len(), of.iter().sum::<i64>())
    };
    // Some are there, some are deleted, odd, negative, too large or NULL; one comes twice.
    f.run(
        "CREATE TABLE few AS SELECT unnest([14, 2000, 2000, 15, -4, 799998, 800000, NULL]) AS id",
    );
    let ids = |v: i64| [14, 2000, 799_998].contains(&(v * 2));
    let tens = |v: i64| [0, 17, 39_999].contains(&(v / 10));
    for (sql, wanted) in [
        ("FROM t SEMI JOIN few USING (id)", found(&ids)),
        ("FROM t WHERE id IN (14, 2000, 15, -4, 799998, 800000)", found(&ids)),
        ("FROM t WHERE id = 14 OR 2000 = id OR id = 799998", found(&ids)),
        ("FROM t WHERE ten IN (0, 17, 39999, 40000)", found(&tens)),
        (
            "FROM t WHERE s IN ('k000003', 'k', 'k399999', 'l', '')",
            found(&|v| v == 3 || v == 399_999),
        ),
        ("FROM t WHERE id IN (14, 2000, 16, 8, 6) AND v > 5", found(&|v| [8, 1000].contains(&v))),
    ] {
        let sql = format!("SELECT count(*), sum(v) {sql}");
        assert_eq!(f.value(&sql), wanted, "{sql}");
        let plan = analyzed(&f, &sql);
        assert!(metric(&plan, "rows_pruned=") > 100, "{plan}");
    }
    // Everything but the keys; and values that are not looked up.
    let all = found(&|v| ![7, 1000, 399_999].contains(&v) && v != 4);
    let sql = "SELECT count(*), sum(v) FROM t WHERE id NOT IN (14, 2000, 799998, 8)";
    assert_eq!(f.value(sql), all);
    // Rows that are changed are not in order any more.
    f.run("UPDATE t SET id = 14 WHERE v = 300000");
    let sql = "SELECT count(*), sum(v) FROM t WHERE id IN (14, 2000, 6, 8, 10)";
    assert_eq!(f.value(sql), found(&|v| [1000, 3, 4, 5, 300_000].contains(&v)));
}

#[test]
fn rows_in_order_need_no_sort() {
    let f = fixture();
    f.run(
        "CREATE TABLE t AS SELECT i AS n, i % 7 AS m FROM generate_series(1, 300000) AS i \
         ORDER BY i",
    );
    let plan = f.rows("EXPLAIN SELECT n, m FROM t ORDER BY n").join("\n");
    assert!(!plan.contains("SortExec"), "{plan}");
    let ordered = f.rows("SELECT n FROM t ORDER BY n");
    assert!(ordered.iter().enumerate().all(|(i, n)| *n == (i + 1).to_string()));
    // Rows out of order end it.
    f.run("INSERT INTO t VALUES (5, 5)");
    let plan = f.rows("EXPLAIN SELECT n, m FROM t ORDER BY n").join("\n");
    assert!(plan.contains("SortExec"), "{plan}");
    assert_eq!(f.rows("SELECT n FROM t ORDER BY n LIMIT 6").last().unwrap(), "5");
}

#[test]
fn an_empty_table_and_one_without_live_rows() {
    let f = fixture();
    f.run("CREATE TABLE t (n INT, s VARCHAR)");
    assert_eq!(f.value("SELECT count(*), max(n), min(s) FROM t"), "0|-|-");
    assert!(f.rows("SELECT * FROM t ORDER BY n").is_empty());
    f.run("INSERT INTO t VALUES (1, 'x'), (2, NULL)");
    f.run("DELETE FROM t");
    assert_eq!(f.value("SELECT count(*), max(n), min(s) FROM t"), "0|-|-");
    assert!(f.rows("SELECT * FROM t").is_empty());
}

/// Rows that nothing works on come in large batches, with the same values in the same order.
#[test]
fn rows_of_a_table_come_in_large_batches() {
    const ROWS: i64 = 400_000;
    let f = fixture();
    // Each thread finds several parts of a table, which are the shorter the more threads there are.
    f.run("SET threads = 2");
    f.run(&format!("CREATE TABLE t AS SELECT i, (i % 100)::TINYINT AS g FROM range({ROWS}) r(i)"));
    f.run("DELETE FROM t WHERE i % 1000 = 17");
    f.run("UPDATE t SET g = 3 WHERE i % 5000 = 40");
    let group = |i: i64| if i % 5000 == 40 { 3 } else { i % 100 };
    let batches = |sql: &str| {
        let batches = f.run(sql).map(|batch| batch.unwrap()).collect::<Vec<_>>();
        let numbers = |batch: &arrow::array::RecordBatch| {
            let numbers = batch.column(0).as_primitive::<arrow::datatypes::Int64Type>();
            numbers.values().to_vec()
        };
        let lengths = batches.iter().map(|batch| batch.num_rows()).collect::<Vec<_>>();
        (lengths, batches.iter().flat_map(numbers).collect::<Vec<_>>())
    };
    let left = |keeps: fn(i64, i64) -> bool| {
        let all = (0..ROWS).filter(|i| i % 1000 != 17);
        all.filter(|i| keeps(*i, group(*i))).collect::<Vec<_>>()
    };
    for (condition, wanted) in [
        ("true", left(|_, _| true)),
        // Holds for all rows, which no bound of a segment rules out.
        ("g < 100 AND i >= 0", left(|_, _| true)),
        // For all rows of some segments.
        ("i >= 150000 AND g <> 100", left(|i, _| i >= 150_000)),
        ("g >= 3", left(|_, g| g >= 3)),
        ("g = 3", left(|_, g| g == 3)),
    ] {
        let sql = format!("SELECT i FROM t WHERE {condition}");
        let (lengths, numbers) = batches(&sql);
        assert!(numbers == wanted, "{sql}");
        let most = *lengths.iter().max().unwrap();
        assert!(most > 8192 || wanted.len() < 9000, "{sql}: {lengths:?}");
        f.run("SET datafusion.execution.batch_size = 1000");
        let (lengths, numbers) = batches(&sql);
        assert!(
            numbers == wanted && lengths.iter().all(|rows| *rows <= 1000),
            "{sql}: {lengths:?}"
        );
        f.run("RESET datafusion.execution.batch_size");
    }
}

/// Scans that wait for the table of a join are woken together.
#[test]
fn all_partitions_of_a_scan_read_behind_a_join() {
    let f = fixture();
    f.run("SET threads = 2");
    f.run("CREATE TABLE few AS SELECT value * 3999 AS k FROM generate_series(0, 999) AS value");
    f.run(
        "CREATE TABLE many AS SELECT value * 7919 % 4000037 AS k \
         FROM generate_series(1, 4000000) AS value",
    );
    let plan = analyzed(&f, "SELECT count(*) FROM few JOIN many USING (k)");
    let scan = plan.lines().find(|line| line.contains("main.many")).unwrap();
    assert!(metric(scan, "morsels_read=") > 16, "{scan}");
    assert_eq!(metric(scan, "readers="), 2, "{scan}");
}
