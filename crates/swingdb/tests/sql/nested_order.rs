//! The order of lists, structs and maps: a NULL inside of one is greater than any value, wherever
//! two are compared.

use super::common::{fixture, seeded};

#[test]
fn comparisons() {
    let f = fixture();
    for (condition, expected) in [
        ("[1] < [NULL]", "true"),
        ("[NULL] > [1, 2]", "true"),
        ("[1] < [1, NULL]", "true"),
        ("[1, NULL] > [1, 2]", "true"),
        ("[] < [NULL]", "true"),
        ("[NULL] < [NULL]", "false"),
        ("[NULL] >= [NULL]", "true"),
        ("{'x': NULL} > {'x': 1}", "true"),
        ("{'x': 1, 'y': NULL} <= {'x': 1, 'y': 2}", "false"),
        ("[[NULL]] < [NULL]", "true"),
        ("MAP {'a': 1} < MAP {'a': NULL}", "true"),
        ("['NaN'::DOUBLE] < [NULL]", "true"),
        ("[-0.0::DOUBLE] < [0.0::DOUBLE]", "false"),
        ("[1] BETWEEN [0] AND [NULL]", "true"),
        ("[NULL] NOT BETWEEN [0] AND [1]", "true"),
        ("NULL::INT[] < [1]", "-"),
        ("greatest([1], [NULL], NULL)", "[-]"),
        ("least([NULL], [2], [1, NULL])", "[1, -]"),
        ("greatest(NULL::INT[], NULL)", "-"),
    ] {
        assert_eq!(f.value(&format!("SELECT {condition}")), expected, "{condition}");
    }
}

#[test]
fn order_and_extremes() {
    let f = fixture();
    f.run("CREATE TABLE t (g INT, l INT[], s STRUCT(a INT, b INT))");
    f.run(
        "INSERT INTO t VALUES (1, [2], {'a': 1, 'b': NULL}), (1, [NULL], {'a': NULL, 'b': 1}), \
         (1, NULL, NULL), (2, [], {'a': 1, 'b': 2}), (2, [2, NULL], {'a': 1, 'b': 3}), \
         (2, [2, 3], NULL)",
    );
    let sorted = ["[]", "[2]", "[2, 3]", "[2, -]", "[-]", "-"];
    assert_eq!(f.rows("SELECT l FROM t ORDER BY l"), sorted);
    let turned = ["[-]", "[2, -]", "[2, 3]", "[2]", "[]", "-"];
    assert_eq!(f.rows("SELECT l FROM t ORDER BY l DESC"), turned);
    assert_eq!(f.value("SELECT l FROM t ORDER BY l DESC LIMIT 1"), "[-]");
    assert_eq!(f.rows("SELECT DISTINCT l FROM t ORDER BY l NULLS FIRST LIMIT 2"), ["-", "[]"]);
    assert_eq!(
        f.value("SELECT min(l), max(l), min(s), max(s) FROM t"),
        "[]|[-]|{a: 1, b: 2}|{a: -, b: 1}"
    );
    assert_eq!(
        f.rows("SELECT g, min(l), max(l), max(s) FROM t GROUP BY g ORDER BY g"),
        ["1|[2]|[-]|{a: -, b: 1}", "2|[]|[2, -]|{a: 1, b: 3}"]
    );
    assert_eq!(f.value("SELECT min(l) IS NULL, max(s) IS NULL FROM t WHERE g > 5"), "true|true");
    assert_eq!(
        f.value("SELECT median(l), quantile_disc(l, 1.0), arg_max(g, l), max(l, 2) FROM t"),
        "[2, 3]|[-]|1|[[-], [2, -]]"
    );
    let window = "SELECT max(l) OVER (ORDER BY l ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), \
                  min(l) OVER (ORDER BY l ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), \
                  rank() OVER (ORDER BY l) FROM t ORDER BY l";
    assert_eq!(
        f.rows(window),
        ["[]|[]|1", "[2]|[]|2", "[2, 3]|[2]|3", "[2, -]|[2, 3]|4", "[-]|[2, -]|5", "[-]|[-]|6"]
    );
    assert_eq!(
        f.value("SELECT array_agg(l ORDER BY l) FROM t WHERE g = 2"),
        "[[], [2, 3], [2, -]]"
    );
    assert_eq!(
        f.rows("SELECT DISTINCT ON (g) g, l FROM t ORDER BY g, l DESC"),
        ["1|[-]", "2|[2, -]"]
    );
}

/// All ways to compare agree with one another, over random lists in many rows.
#[test]
fn random_lists_in_one_order() {
    let f = fixture();
    let (mut random, _) = seeded();
    f.run("CREATE TABLE t (id INT, l STRUCT(x INT, y DOUBLE[])[])");
    for id in 0..60 {
        let mut value = || match random.usize(0..3) {
            0 => "NULL".to_string(),
            value => value.to_string(),
        };
        let one = format!("{{'x': {}, 'y': [{}, {}]}}", value(), value(), value());
        let list = match id % 4 {
            0 => "[NULL]".to_string(),
            1 => format!("[{one}, NULL]"),
            _ => format!("[{one}]"),
        };
        f.run(&format!("INSERT INTO t VALUES ({id}, {list})"));
    }
    let numbered = "WITH n AS (SELECT l, rank() OVER (ORDER BY l) AS r FROM t)";
    let pairs = |condition: &str| {
        f.value(&format!("{numbered} SELECT count(*) FROM n a JOIN n b ON {condition}"))
    };
    let less = pairs("a.r < b.r");
    assert_eq!(pairs("a.l < b.l"), less);
    assert_eq!(pairs("a.l < b.l AND a.r < b.r"), less);
    assert_eq!(pairs("NOT a.l >= b.l"), less);
    assert_eq!(pairs("a.r = b.r"), pairs("a.l = b.l"));
    let last = format!(
        "{numbered} SELECT count(*) FROM n WHERE l = (SELECT max(l) FROM t) \
                        AND r < (SELECT max(r) FROM n)"
    );
    assert_eq!(f.value(&last), "0");
    assert_eq!(pairs("greatest(a.l, b.l) < least(a.l, b.l)"), "0");
}
