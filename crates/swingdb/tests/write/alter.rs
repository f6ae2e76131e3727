//! ALTER TABLE.

use crate::support::Db;

fn table() -> Db {
    Db::with(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR DEFAULT 'd');
         INSERT INTO t VALUES (1, 10, 'x'), (2, NULL, NULL)",
    )
}

#[test]
fn add_columns() {
    let db = table();
    db.run("ALTER TABLE t ADD COLUMN c INT");
    db.run("ALTER TABLE t ADD COLUMN d VARCHAR NOT NULL DEFAULT 'new'");
    db.run("ALTER TABLE t ADD COLUMN IF NOT EXISTS d INT");
    db.run("ALTER TABLE t ADD COLUMN e DOUBLE DEFAULT random()");
    db.check("SELECT id, c, d FROM t ORDER BY id", &["1|NULL|new", "2|NULL|new"]);
    db.check("SELECT count(DISTINCT e) FROM t", &["2"]);
    db.run("INSERT INTO t (id) VALUES (3)");
    db.check("SELECT c, d, e IS NOT NULL FROM t WHERE id = 3", &["NULL|new|true"]);
    db.fails("ALTER TABLE t ADD COLUMN A INT", &["column \"A\" already exists"]);
    db.fails("ALTER TABLE t ADD COLUMN z INT NOT NULL", &["NOT NULL", "z"]);
    db.fails("ALTER TABLE t ADD COLUMN z WOMBAT", &["WOMBAT"]);
    db.fails("ALTER TABLE nosuch ADD COLUMN z INT", &["table \"nosuch\" does not exist"]);
    db.run("ALTER TABLE IF EXISTS nosuch ADD COLUMN z INT");
}

#[test]
fn drop_columns() {
    let db = table();
    db.run("ALTER TABLE t DROP COLUMN a");
    db.check("SELECT * FROM t ORDER BY id", &["1|x", "2|NULL"]);
    db.run("ALTER TABLE t DROP COLUMN IF EXISTS a");
    db.fails("ALTER TABLE t DROP COLUMN a", &["column \"a\" does not exist"]);
    db.fails("ALTER TABLE t DROP COLUMN id", &["key"]);
    db.run("CREATE TABLE one (x INT)");
    db.fails("ALTER TABLE one DROP COLUMN x", &["only one"]);
}

#[test]
fn rename() {
    let db = table();
    db.run("ALTER TABLE t RENAME COLUMN a TO \"A b\"");
    db.check("SELECT \"A b\" FROM t WHERE id = 1", &["10"]);
    db.fails("ALTER TABLE t RENAME COLUMN b TO id", &["column \"id\" already exists"]);
    db.run("ALTER TABLE t RENAME TO u");
    db.check("SELECT count(*) FROM u", &["2"]);
    db.fails("SELECT * FROM t", &["does not exist"]);
    db.run("CREATE TABLE t (x INT)");
    db.fails("ALTER TABLE u RENAME TO t", &["table \"t\" already exists"]);
    db.fails("INSERT INTO u (id) VALUES (1)", &["PRIMARY KEY"]);
}

#[test]
fn defaults_and_nulls() {
    let db = table();
    db.run("ALTER TABLE t ALTER COLUMN a SET DEFAULT 5, ALTER COLUMN b DROP DEFAULT");
    db.run("INSERT INTO t (id) VALUES (3)");
    db.check("SELECT a, b FROM t WHERE id = 3", &["5|NULL"]);
    db.fails("ALTER TABLE t ALTER COLUMN a SET NOT NULL", &["a"]);
    db.run("UPDATE t SET a = 0 WHERE a IS NULL; ALTER TABLE t ALTER COLUMN a SET NOT NULL");
    db.fails("INSERT INTO t (id, a) VALUES (4, NULL)", &["NOT NULL", "a"]);
    db.run("ALTER TABLE t ALTER a DROP NOT NULL");
    db.run("INSERT INTO t (id, a) VALUES (4, NULL)");
    db.fails("ALTER TABLE t ALTER COLUMN id DROP NOT NULL", &["PRIMARY KEY"]);
    db.fails("ALTER TABLE t ALTER COLUMN a SET DEFAULT 'x'", &["'x'"]);
}

#[test]
fn types() {
    let db = table();
    db.run("ALTER TABLE t ALTER COLUMN a TYPE VARCHAR");
    db.check("SELECT a || '!' FROM t WHERE id = 1", &["10!"]);
    db.run("ALTER TABLE t ALTER a SET DATA TYPE BIGINT USING CAST(a AS BIGINT) * 2");
    db.check("SELECT id, a, b FROM t ORDER BY id", &["1|20|x", "2|NULL|NULL"]);
    db.fails("ALTER TABLE t ALTER COLUMN b TYPE INT", &["column \"b\"", "'d' is no valid"]);
    db.run("ALTER TABLE t ALTER COLUMN b DROP DEFAULT");
    db.fails("ALTER TABLE t ALTER COLUMN b TYPE INT", &["column \"b\"", "'x' is no valid"]);
    db.fails("INSERT INTO t (id) VALUES (2)", &["PRIMARY KEY"]);
    db.check("SELECT count(*) FROM t", &["2"]);
}

#[test]
fn keys() {
    let db = table();
    db.run("ALTER TABLE t ADD UNIQUE (b)");
    db.fails("INSERT INTO t VALUES (3, 1, 'x')", &["UNIQUE", "x"]);
    db.run("INSERT INTO t VALUES (3, 10, 'y')");
    db.fails("ALTER TABLE t ADD UNIQUE (a)", &["UNIQUE", "10"]);
    db.fails("ALTER TABLE t ADD PRIMARY KEY (b)", &["one PRIMARY KEY"]);
    db.run("CREATE TABLE u (x INT, y INT); INSERT INTO u VALUES (1, 1), (1, 2)");
    db.run("ALTER TABLE u ADD CONSTRAINT pk PRIMARY KEY (x, y)");
    db.fails("INSERT INTO u VALUES (1, 2)", &["PRIMARY KEY"]);
    db.fails("INSERT INTO u VALUES (1, NULL)", &["NOT NULL"]);
}

#[test]
fn several_operations_are_one_statement() {
    let db = table();
    db.fails("ALTER TABLE t ADD COLUMN c INT, DROP COLUMN nosuch", &["nosuch"]);
    db.fails("SELECT c FROM t", &["c"]);
    db.run("ALTER TABLE t ADD COLUMN c INT DEFAULT 1, DROP COLUMN a");
    db.check("SELECT * FROM t WHERE id = 1", &["1|x|1"]);
}

#[test]
fn views_cannot_be_altered() {
    let db = table();
    db.run("CREATE VIEW v AS SELECT * FROM t");
    db.fails("ALTER TABLE v ADD COLUMN c INT", &["is a view"]);
}

#[test]
fn a_unique_column_that_becomes_the_primary_key_has_no_nulls() {
    let db = Db::with("CREATE TABLE u (i INT UNIQUE, j INT); ALTER TABLE u ADD PRIMARY KEY (i)");
    db.fails("INSERT INTO u VALUES (NULL, 5)", &["NOT NULL"]);
    db.fails("ALTER TABLE u ADD PRIMARY KEY (j)", &["only one PRIMARY KEY"]);
    db.run("CREATE TABLE w (i INT UNIQUE PRIMARY KEY)");
    db.fails("INSERT INTO w VALUES (NULL)", &["NOT NULL"]);
    db.run("CREATE TABLE v (i INT UNIQUE); INSERT INTO v VALUES (NULL)");
    db.fails("ALTER TABLE v ADD PRIMARY KEY (i)", &["NOT NULL"]);
}
