//! UUIDs by value: one form in columns and casts, equal however they are written.

use super::common::{Fixture, fixture};

const UPPER: &str = "AAAA0000-0000-0000-0000-00000000000F";
const LOWER: &str = "aaaa0000-0000-0000-0000-00000000000f";

fn with_table() -> Fixture {
    let f = fixture();
    f.run("CREATE TABLE t (u UUID PRIMARY KEY, n INT)");
    f.run(&format!("INSERT INTO t VALUES ('{UPPER}', 1)"));
    f
}

#[test]
fn casts_give_one_form() {
    let f = fixture();
    for text in [UPPER, LOWER, "aaaa000000000000000000000000000f", &format!("{{{UPPER}}}")] {
        assert_eq!(f.value(&format!("SELECT '{text}'::UUID")), LOWER, "{text}");
        assert_eq!(f.value(&format!("SELECT UUID '{text}' = '{UPPER}'")), "true", "{text}");
    }
    assert_eq!(f.value("SELECT TRY_CAST('x' AS UUID)"), "-");
    assert_eq!(f.value("SELECT typeof('aaaa000000000000000000000000000f'::UUID)"), "UUID");
    f.refuses(&[
        ("SELECT 'x'::UUID", "'x' is no valid UUID"),
        ("SELECT ' aaaa0000-0000-0000-0000-00000000000f'::UUID", "is no valid UUID"),
        ("SELECT 5::UUID", "BIGINT cannot be cast to UUID"),
    ]);
}

#[test]
fn columns_hold_one_form() {
    let f = with_table();
    assert_eq!(f.value("SELECT u FROM t"), LOWER);
    for statement in [
        format!("INSERT INTO t VALUES ('{LOWER}', 2)"),
        format!("INSERT INTO t VALUES ('{{{LOWER}}}', 2)"),
        format!("INSERT INTO t SELECT '{LOWER}', 2"),
    ] {
        let error = f.error(&statement).to_string();
        assert!(error.contains("PRIMARY KEY"), "{statement}: {error}");
    }
    f.refuses(&[
        ("INSERT INTO t VALUES ('x', 2)", "column \"u\": row 1: 'x' is no valid UUID"),
        ("INSERT INTO t SELECT 'x', 2", "is no valid UUID"),
        ("UPDATE t SET u = 'x'", "is no valid UUID"),
        ("INSERT INTO t VALUES (5, 2)", "UUID"),
        ("ALTER TABLE t ADD COLUMN v UUID DEFAULT 'x'", "is no valid UUID"),
    ]);
    f.run(&format!("INSERT INTO t VALUES ('{UPPER}', 3) ON CONFLICT (u) DO UPDATE SET n = 3"));
    f.run(&format!("INSERT INTO t VALUES ('{UPPER}', 4) ON CONFLICT DO NOTHING"));
    f.run(&format!("INSERT OR REPLACE INTO t VALUES ('{UPPER}', 5)"));
    assert_eq!(f.rows("SELECT u, n FROM t"), [format!("{LOWER}|5")]);
    f.run("UPDATE t SET u = 'BBBB0000-0000-0000-0000-00000000000F'");
    assert_eq!(f.value("SELECT u FROM t"), "bbbb0000-0000-0000-0000-00000000000f");
    f.run(&format!("ALTER TABLE t ADD COLUMN v UUID DEFAULT '{UPPER}'"));
    assert_eq!(f.value("SELECT v FROM t"), LOWER);
    f.run(&format!(
        "MERGE INTO t USING (SELECT '{UPPER}' AS k) s ON t.v = s.k \
                    WHEN MATCHED THEN UPDATE SET n = 9"
    ));
    assert_eq!(f.value("SELECT n FROM t"), "9");
}

#[test]
fn comparisons_are_by_value() {
    let f = with_table();
    for condition in [
        format!("u = '{UPPER}'"),
        format!("'{UPPER}' = u"),
        format!("u = '{UPPER}'::VARCHAR"),
        format!("u IN ('{UPPER}')"),
        format!("u IN (SELECT '{UPPER}')"),
        format!("u BETWEEN '{UPPER}' AND '{UPPER}'"),
        format!("u IS NOT DISTINCT FROM '{UPPER}'"),
        format!("NOT u <> '{UPPER}'"),
        format!("(SELECT max(u) FROM t) = '{UPPER}'::UUID"),
    ] {
        assert_eq!(
            f.value(&format!("SELECT count(*) FROM t WHERE {condition}")),
            "1",
            "{condition}"
        );
    }
    f.run(&format!("CREATE TABLE s AS SELECT '{UPPER}' AS v, '{UPPER}' AS u"));
    for join in ["s ON t.u = s.v", "s USING (u)", "s ON s.v = t.u AND t.n > 0"] {
        assert_eq!(f.value(&format!("SELECT count(*) FROM t JOIN {join}")), "1", "{join}");
    }
    f.refuses(&[("SELECT * FROM t WHERE u = 'x'", "is no valid UUID")]);
    assert_eq!(f.value(&format!("SELECT count(*) FROM s WHERE v = '{LOWER}'")), "0");
}

#[test]
fn the_type_is_known() {
    let f = with_table();
    assert_eq!(f.value("SELECT typeof(u) FROM t"), "UUID");
    let made = f.value("SHOW CREATE TABLE t");
    assert!(made.contains("u UUID"), "{made}");
    f.run("CREATE TABLE c AS SELECT u, u::VARCHAR AS text FROM t");
    f.run("CREATE TABLE l LIKE t");
    f.refuses(&[("INSERT INTO c VALUES ('x', 'x')", "is no valid UUID")]);
    f.run(&format!("INSERT INTO c VALUES ('{UPPER}', 'x')"));
    f.run("ALTER TABLE c ALTER COLUMN u TYPE VARCHAR");
    f.run("INSERT INTO c VALUES ('x', 'x')");
    f.refuses(&[("ALTER TABLE c ALTER COLUMN u TYPE UUID", "is no valid UUID")]);
}

#[test]
fn a_column_of_uuids_inside_of_others_is_refused() {
    let f = with_table();
    let inside = "texts inside of other values are not checked";
    f.refuses(&[
        ("CREATE TABLE x (a UUID[])", inside),
        ("CREATE TABLE x (a UUID[3])", inside),
        ("CREATE TABLE x (a STRUCT(u UUID, n INT))", inside),
        ("CREATE TABLE x (a MAP(VARCHAR, UUID[]))", inside),
        ("CREATE TEMP TABLE x (a UUID[][])", inside),
        ("ALTER TABLE t ADD COLUMN a UUID[]", inside),
    ]);
    f.run("CREATE TABLE x (a VARCHAR[])");
    f.run(&format!("INSERT INTO x VALUES (['{UPPER}']::UUID[])"));
    assert_eq!(f.value("SELECT a[1] FROM x"), LOWER);
}
