//! Rows without ORDER BY come in the order of their insertion.

use super::common::{Fixture, analyzed, fixture, planned, seeded};

const ROWS: i64 = 700_000;

fn numbers(f: &Fixture, sql: &str) -> Vec<i64> {
    f.rows(sql).iter().map(|row| row.parse().unwrap()).collect()
}

/// `t`: numbers in an order that no column tells, some deleted; the numbers in that order.
fn numbered(random: &mut fastrand::Rng) -> (Fixture, Vec<i64>) {
    let f = fixture();
    let step = [7_919, 104_729, 15_485_863][random.usize(0..3)];
    let scrambled = |from: i64, to: i64| {
        format!("SELECT (i * {step}) % {ROWS} AS k, i % 10 AS g FROM range({from}, {to}) r(i)")
    };
    let cut = random.i64(100_000..ROWS);
    f.run(&format!("CREATE TABLE t AS {}", scrambled(0, cut)));
    f.run(&format!("INSERT INTO t {}", scrambled(cut, ROWS)));
    f.run("DELETE FROM t WHERE k % 17 = 3");
    let all = (0..ROWS).map(|i| i * step % ROWS).filter(|k| k % 17 != 3).collect();
    (f, all)
}

#[test]
fn rows_come_in_the_order_of_insertion() {
    let (mut random, seed) = seeded();
    let (f, all) = numbered(&mut random);
    let some = |part: fn(&i64) -> bool| all.iter().copied().filter(part).collect::<Vec<_>>();
    let (third, rare) = (some(|k| k % 3 == 0), some(|k| k % 50_000 == 7));
    let offset = random.usize(0..third.len() - 1000);
    let twice: Vec<i64> = third.iter().copied().chain(rare.iter().map(|k| k + 1)).collect();
    let double: Vec<i64> = all.iter().flat_map(|k| [*k, -k]).collect();
    let limited = format!("SELECT k FROM t WHERE k % 3 = 0 LIMIT 1000 OFFSET {offset}");
    for (sql, wanted) in [
        ("SELECT k FROM t", &all),
        ("SELECT k + 0 FROM t WHERE k % 3 = 0", &third),
        ("SELECT k FROM t WHERE k % 50000 = 7", &rare),
        (
            "SELECT k FROM t WHERE k % 3 = 0 UNION ALL SELECT k + 1 FROM t WHERE k % 50000 = 7",
            &twice,
        ),
        ("SELECT unnest([k, -k]) FROM t", &double),
        ("FROM (SELECT k, row_number() OVER () AS n FROM t) SELECT k ORDER BY n", &all),
        (&limited, &third[offset..offset + 1000].to_vec()),
        (
            "SELECT sum(k) FROM (SELECT k FROM t WHERE k % 3 = 0 LIMIT 5)",
            &vec![third[..5].iter().sum()],
        ),
    ] {
        assert!(numbers(&f, sql) == *wanted, "seed {seed}: {sql}");
    }
    for plan in [planned(&f, "SELECT k + 0 FROM t"), analyzed(&f, "SELECT k + 0 FROM t")] {
        assert!(plan.contains("InOrderExec"), "{plan}");
    }
}

/// Tables and files made of a query have its order, and files are read in theirs.
#[test]
fn what_is_stored_keeps_the_order() {
    let (mut random, seed) = seeded();
    let (f, all) = numbered(&mut random);
    let odd: Vec<i64> = all.iter().copied().filter(|k| k % 2 == 1).collect();
    f.run("CREATE TABLE made AS SELECT k FROM t WHERE k % 2 = 1");
    assert!(numbers(&f, "SELECT k FROM made") == odd, "seed {seed}");
    f.run("INSERT INTO made SELECT k - 1 FROM made");
    let both: Vec<i64> = odd.iter().copied().chain(odd.iter().map(|k| k - 1)).collect();
    assert!(numbers(&f, "SELECT k FROM made") == both, "seed {seed}");
    let folder = tempfile::tempdir().unwrap();
    for kind in ["csv", "parquet", "arrow", "json"] {
        let path = folder.path().join(format!("odd.{kind}"));
        let path = path.display();
        f.run(&format!(
            "COPY (SELECT k, repeat('x', 40) || k AS pad FROM t WHERE k % 2 = 1) TO '{path}'"
        ));
        assert!(numbers(&f, &format!("SELECT k FROM '{path}'")) == odd, "seed {seed}: {kind}");
        f.run(&format!("CREATE TABLE {kind} AS SELECT k + 1 AS k FROM '{path}' WHERE k % 4 = 1"));
        let part: Vec<i64> = odd.iter().filter(|k| **k % 4 == 1).map(|k| k + 1).collect();
        assert!(numbers(&f, &format!("SELECT k FROM {kind}")) == part, "seed {seed}: {kind}");
    }
}

/// An error, or nobody who wants more, ends all partitions.
#[test]
fn what_is_computed_ahead_ends() {
    let (mut random, _) = seeded();
    let (f, all) = numbered(&mut random);
    let failing = format!("SELECT 1 // (k - {}) FROM t", all[all.len() - 1]);
    assert!(f.error(&failing).to_string().contains("zero"));
    let first = f.run("SELECT k * 2 FROM t").next().unwrap().unwrap();
    assert!(first.num_rows() > 0);
    assert_eq!(numbers(&f, "SELECT k FROM t LIMIT 1"), all[..1]);
}
