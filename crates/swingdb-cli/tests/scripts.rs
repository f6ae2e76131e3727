//! `swingdb sql` and statements from `-c`, pipes and files: output, errors, exit status.

mod common;

use common::World;
use std::io::{BufRead, BufReader};

const CITIES: &str = "SELECT * FROM city ORDER BY id";

#[test]
fn every_mode_shows_values_and_nulls() {
    let world = World::new();
    world.cities();
    let sql = |mode| world.ok(&["sql", "cities", CITIES, "--mode", mode]);
    let table = "\
┌────┬────────┬────────┐
│ id │ name   │ people │
├────┼────────┼────────┤
│  1 │ Oslo   │ 717710 │
│  2 │ Bergen │   NULL │
│  3 │ Å \"x\"  │      7 │
└────┴────────┴────────┘
3 rows
";
    assert_eq!(sql("table"), table);
    assert_eq!(sql("csv"), "id,name,people\n1,Oslo,717710\n2,Bergen,\n3,\"Å \"\"x\"\"\",7\n");
    let lines = sql("jsonl");
    let rows: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows[0], serde_json::json!({"id": 1, "name": "Oslo", "people": 717710}));
    assert!(rows[1]["people"].is_null() && rows[1].as_object().unwrap().contains_key("people"));
    let array: serde_json::Value = serde_json::from_str(&sql("json")).unwrap();
    assert_eq!(array, serde_json::Value::Array(rows));
    let markdown = sql("markdown");
    assert!(markdown.starts_with("| id | name | people |\n|---:|---|---:|\n| 1 | Oslo | 717710 |"));
    assert!(sql("line").contains("    id = 2\n  name = Bergen\npeople = NULL\n\n    id = 3\n"));
}

#[test]
fn an_empty_result_has_its_columns() {
    let world = World::new();
    world.cities();
    let sql = |mode| world.ok(&["sql", "cities", "SELECT id FROM city WHERE id > 9", "-m", mode]);
    assert_eq!(sql("csv"), "id\n");
    assert_eq!(sql("json").trim(), "[]");
    assert_eq!(sql("jsonl"), "");
    assert!(sql("table").ends_with("0 rows\n"));
}

#[test]
fn long_results_are_shortened_with_a_note() {
    let world = World::new();
    let sql = "SELECT unnest(range(1, 1001)) AS i";
    let text = world.ok(&["sql", sql]);
    assert!(text.contains("│    1 │") && text.contains("│ 1000 │"), "{text}");
    assert!(text.contains("…") && text.ends_with("1 000 rows (40 shown)\n"), "{text}");
    assert!(text.lines().count() < 50);
    let all = world.ok(&["sql", sql, "--max-rows", "0"]);
    assert!(all.ends_with("\n1 000 rows\n") && all.lines().count() > 1000);
    let csv = world.ok(&["sql", sql, "--mode", "csv"]);
    assert_eq!(csv.lines().count(), 1001);
}

#[test]
fn files_are_queried_without_a_database() {
    let world = World::new();
    world.write("numbers.csv", "a,b\n1,x\n2,y\n");
    let text = world.ok(&["sql", "SELECT sum(a) AS s FROM 'numbers.csv'", "-m", "csv"]);
    assert_eq!(text, "s\n3\n");
}

#[test]
fn a_snapshot_is_the_default_and_is_not_changed_for_nothing() {
    let world = World::new();
    world.cities();
    let script = "DELETE FROM city; SELECT count(*) AS n FROM city";
    for changing in [script, "CREATE TABLE c AS SELECT 1", "BEGIN IMMEDIATE", "DROP TABLE city"] {
        let error = world.fails(1, &["sql", "cities", changing]);
        assert!(error.contains("--write") && error.contains("--scratch"), "{error}");
    }
    let scratch = ["sql", "cities", script, "-m", "csv", "--scratch"];
    assert_eq!(world.ok(&scratch), "n\n0\n");
    let temporary = "CREATE TEMP TABLE c AS SELECT id FROM city; DELETE FROM c WHERE id > 1; \
                     SELECT count(*) AS n FROM c";
    assert_eq!(world.ok(&["sql", "cities", temporary, "-m", "csv"]), "n\n1\n");
    let count = ["sql", "cities", "SELECT count(*) AS n FROM city", "-m", "csv"];
    assert_eq!(world.ok(&count), "n\n3\n");
    // Committed, but not shared: snapshots see it after `share` only.
    world.ok(&["sql", "cities", "DELETE FROM city WHERE id = 1", "--write"]);
    assert_eq!(world.ok(&count), "n\n3\n");
    assert!(world.ok(&["share", "cities"]).starts_with("cities shared, epoch "));
    assert_eq!(world.ok(&count), "n\n2\n");
    world.ok(&["sql", "cities", "DELETE FROM city WHERE id = 2", "--write", "--share"]);
    assert_eq!(world.ok(&count), "n\n1\n");
}

#[test]
fn errors_have_a_message_and_status_one() {
    let world = World::new();
    world.cities();
    let error = world.fails(1, &["sql", "cities", "SELEC 1"]);
    assert!(error.to_lowercase().contains("selec"), "{error}");
    let error = world.fails(1, &["sql", "cities", "SELECT * FROM citi"]);
    assert!(error.contains("citi") && error.contains("city"), "{error}");
    let error = world.fails(1, &["sql", "missing", "SELECT 1"]);
    assert!(error.contains("missing"), "{error}");
    let error = world.fails(1, &["sql", "SELECT 1 FROM 'no such file.parquet'"]);
    assert!(error.contains("no such file.parquet"), "{error}");
    world.fails(1, &["share", "missing"]);
    assert!(!world.ok(&["ls"]).contains("missing"));
}

#[test]
fn wrong_usage_has_status_two() {
    let world = World::new();
    for args in [
        &["--no-such-option"][..],
        &["--snapshot"],
        &["import", "x.csv"],
        &["import", "x.csv", "--into", "nodot"],
        &["export", "db", "x.csv"],
        &["sql", "--write", "SELECT 1"],
        &["sql", "x", "SELECT 1", "--share"],
        &["generate", "weather", "x"],
        &["somewhere", "ls"],
    ] {
        let output = world.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: "), "{args:?}");
    }
    assert!(world.ok(&["ls"]).starts_with("no databases"));
}

#[test]
fn the_first_error_ends_a_script() {
    let world = World::new();
    let output = world.fed(&[], "SELECT 1 AS a;\nSELECT nothing;\nSELECT 2 AS b;");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("│ a │") && !text.contains("│ b │"), "{text}");
}

#[test]
fn scripts_mix_sql_and_dot_commands() {
    let world = World::new();
    world.write("more.sql", ".mode line\nSELECT 'it''s; so' AS said;\n");
    let script = ".mode csv\nSELECT 1 AS a; SELECT\n2 AS b;\n.read more.sql\n.mode\n";
    let text = world.fed_ok(&[], script);
    assert_eq!(text, "a\n1\nb\n2\nsaid = it's; so\nline\n");
    let text =
        world.fed_ok(&[], ".output out.csv\n.mode csv\nSELECT 1 AS a;\n.output\nSELECT 2 AS b");
    assert_eq!(text, "b\n2\n");
    assert_eq!(std::fs::read_to_string(world.file("out.csv")).unwrap(), "a\n1\n");
    let output = world.fed(&[], ".nothing\n");
    assert_eq!(output.status.code(), Some(1));
    world.write("loop.sql", ".read loop.sql\n");
    assert_eq!(world.fed(&[], ".read loop.sql\n").status.code(), Some(1));
    // The pieces of a quoted file name with blanks belong together.
    world.write("a b.sql", "SELECT 3 AS c;");
    assert!(world.fed_ok(&[], ".read 'a b.sql'").contains("│ c │"));
}

#[test]
fn sql_from_the_standard_input() {
    let world = World::new();
    world.cities();
    let text = world.fed_ok(&["sql", "cities", "-m", "csv"], "SELECT max(id) AS m\nFROM city");
    assert_eq!(text, "m\n3\n");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let world = World::new();
    let mut child = world.start(&["sql", "SELECT unnest(range(0, 3000000)) AS i", "-m", "csv"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "i");
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert!(output.status.success());
}

#[test]
fn the_timer_goes_to_the_standard_error() {
    let world = World::new();
    let output = world.run(&["sql", "SELECT 1 AS a", "--timer", "-m", "csv"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "a\n1\n");
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("time: "));
}

#[test]
fn every_command_has_help_with_examples() {
    let world = World::new();
    let help = world.ok(&["--help"]);
    for command in ["sql", "import", "export", "generate", "share", "ls", "tree", "drop", "doctor"]
    {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
        let text = world.ok(&[command, "--help"]);
        assert!(text.contains("Example") && text.contains("swingdb "), "{command}: {text}");
    }
    assert!(help.contains("Examples:"));
    assert!(world.ok(&["--version"]).starts_with("swingdb 0."));
}

#[test]
fn errors_of_a_script_name_their_line() {
    let world = World::new();
    let script = "SELECT 1;\n\nSELECT 2;\nSELECT\n  1 AS a b c;\n";
    let error = world.fails(1, &["sql", script]);
    assert!(error.contains("line 5"), "{error}");
    let error = world.fails(1, &["sql", "SELECT 1;\n\nSELECT nothing;\nSELECT 2"]);
    assert!(error.contains("line 3: ") && error.contains("nothing"), "{error}");
    // The only statement needs no line.
    let error = world.fails(1, &["sql", "SELECT nothing"]);
    assert!(!error.contains("line"), "{error}");
}

#[test]
fn names_that_are_not_there_are_pointed_at() {
    let world = World::new();
    let error = world.fails(1, &["sql", "SELECT 1;\nSELECT 2,\n  nope FROM range(3)"]);
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines[0], "error: line 2: column \"nope\" does not exist");
    assert_eq!(lines[1..], ["    nope FROM range(3)", "    ^"], "{error}");
    let error = world.fails(1, &["sql", "SELECT nope, nope"]);
    assert_eq!(error.lines().count(), 1, "{error}");
    let error = world.fails(1, &["sql", "SELECT 1 +"]);
    assert!(error.ends_with("SELECT 1 +\n            ^\n"), "{error}");
}

#[test]
fn measured_plans_are_trees() {
    let world = World::new();
    let sql = "SELECT range, count(*) FROM range(3) GROUP BY range ORDER BY 1";
    let text = world.ok(&["sql", &format!("EXPLAIN ANALYZE {sql}")]);
    assert!(text.contains("share  operator") && text.contains("└─ "), "{text}");
    assert!(!text.contains("metrics="), "{text}");
    let all = world.ok(&["sql", &format!("EXPLAIN ANALYZE VERBOSE {sql}")]);
    assert!(all.contains("output_bytes") && !all.contains("share  operator"), "{all}");
    let csv = world.ok(&["sql", &format!("EXPLAIN ANALYZE {sql}"), "--mode", "csv"]);
    assert!(csv.contains("output_bytes"), "{csv}");
}

#[test]
fn plans_are_printed_line_by_line() {
    let world = World::new();
    let text = world.ok(&["sql", "EXPLAIN SELECT count(*) FROM range(3) WHERE range > 1"]);
    assert!(text.starts_with("logical_plan\n  ") && !text.contains('│'), "{text}");
    assert!(text.lines().count() > 4 && !text.contains("\\n"), "{text}");
}

#[test]
fn tabs_and_insert_statements() {
    let world = World::new();
    let sql = "SELECT 1 AS a, 'x,y' AS b, NULL AS c UNION ALL SELECT 2, 'it''s', '' ORDER BY a";
    assert_eq!(world.ok(&["sql", sql, "-m", "tsv"]), "a\tb\tc\n1\tx,y\t\n2\tit's\t\"\"\n");
    let insert = world.ok(&["sql", sql, "-m", "insert"]);
    assert_eq!(insert, "INSERT INTO \"table\" VALUES (1, 'x,y', NULL),\n (2, 'it''s', '');\n");
    let named = world.fed_ok(&[], &format!(".mode insert t\n{sql};"));
    assert!(named.starts_with("INSERT INTO t VALUES (1, "), "{named}");
    let refused = world.fails(1, &["-c", ".mode csv t"]);
    assert!(refused.contains("only the mode insert takes a table"), "{refused}");
}

#[test]
fn the_text_for_null_is_chosen() {
    let world = World::new();
    let shown = |mode| {
        let text = format!(".nullvalue N/A\n.mode {mode}\nSELECT NULL AS a, 'N/A' AS b;\n");
        world.fed_ok(&[], &text)
    };
    assert_eq!(shown("csv"), "a,b\nN/A,\"N/A\"\n");
    assert!(shown("table").contains("│ N/A │ N/A │"));
    assert!(shown("markdown").contains("| N/A | N/A |"));
    assert!(shown("line").contains("a = N/A"));
    assert!(shown("jsonl").contains("\"a\":null"));
}

#[test]
fn modes_have_their_names_of_other_shells() {
    let world = World::new();
    let text = ".mode duckbox\n.mode\n.print a  b\n.mode ndjson\n.mode\n";
    assert_eq!(world.fed_ok(&[], text), "table\na b\njsonl\n");
}

#[test]
fn results_go_to_a_file_once_or_always() {
    let world = World::new();
    let text = ".mode csv\n.once 'a b.csv'\nSELECT 1 AS x;\nSELECT 2 AS x;\n.output c.csv\n\
                SELECT 3 AS x;\nSELECT 4 AS x;\n.output\nSELECT 5 AS x;\n";
    assert_eq!(world.fed_ok(&[], text), "x\n2\nx\n5\n");
    let read = |name| std::fs::read_to_string(world.file(name)).unwrap();
    assert_eq!(read("a b.csv"), "x\n1\n");
    assert_eq!(read("c.csv"), "x\n3\nx\n4\n");
}

#[test]
fn commands_of_the_system_and_directories() {
    let world = World::new();
    std::fs::create_dir(world.file("sub")).unwrap();
    world.write("sub/numbers.csv", "n\n41\n1\n");
    let text =
        ".cd sub\n.shell echo 'a;b' | tr a c\n.mode csv\nSELECT sum(n) AS s FROM 'numbers.csv';";
    assert_eq!(world.fed_ok(&[], text), "c;b\ns\n42\n");
    let missing = world.fails(1, &["-c", ".cd nowhere"]);
    assert!(missing.starts_with("error: nowhere: "), "{missing}");
    assert!(world.fails(1, &["-c", ".shell exit 3"]).contains("exit 3: exit status: 3"));
}

#[test]
fn a_dump_makes_the_database_anew() {
    let world = World::new();
    let made = "
        CREATE SCHEMA s;
        CREATE TABLE t (id BIGINT PRIMARY KEY, txt VARCHAR DEFAULT 'x', d DATE, at TIMESTAMP,
            f DOUBLE, m DECIMAL(9, 2), b BOOLEAN, l BIGINT[], bin BLOB, iv INTERVAL, u UUID,
            n STRUCT(\"a'b\" VARCHAR[], d DATE), mp MAP(VARCHAR, BLOB));
        INSERT INTO t VALUES
            (1, 'it''s;\n', DATE '2024-02-29', TIMESTAMP '2024-01-01 01:02:03.5', 0.1, 12.34, true,
             [1, NULL], 'a\\x00'::BLOB, INTERVAL '1 month 2 days',
             'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
             {'a''b': ['x, y', NULL, 'z'''], 'd': DATE '2024-03-01'}, MAP {'k,': 'b\\xFF'::BLOB}),
            (2, NULL, NULL, NULL, 'nan', -0.5, false, [], NULL, NULL, NULL, NULL, '{}');
        CREATE TABLE s.\"Big one\" AS SELECT range AS i, range / 7.0::DOUBLE AS q FROM range(1234);
        CREATE SEQUENCE q START 5;
        SELECT nextval('q');
        CREATE VIEW v AS SELECT id + 1 AS next FROM t;
        CREATE MACRO twice(x) AS x * 2;";
    world.fed_ok(&["db"], &format!("{made} SHARE;"));
    let dump = world.ok(&["db", "-c", ".dump"]);
    world.fed_ok(&["again"], &format!("{dump} SHARE;"));
    for sql in [
        "SELECT * FROM t ORDER BY id",
        "SELECT count(*), sum(i), sum(q) FROM s.\"Big one\"",
        "SELECT * FROM v ORDER BY next",
        "SELECT twice(21), nextval('q')",
        "DESCRIBE t",
    ] {
        let shown = |name| world.ok(&["sql", name, sql, "--scratch", "-m", "csv"]);
        assert_eq!(shown("db"), shown("again"), "{sql}");
    }
    assert_eq!(world.ok(&["again", "-c", ".dump"]), dump);
    let part = world.ok(&["db", "-c", ".dump t"]);
    assert!(part.starts_with("INSERT INTO t VALUES (1, 'it''s;\n', '2024-02-29', "), "{part}");
    assert_eq!(part.matches("INSERT").count(), 1);
}

#[test]
fn syntax_errors_show_their_line() {
    let world = World::new();
    let error = world.fails(1, &["sql", "SELECT 1;\nSELECT a FRM t u v"]);
    let lines: Vec<_> = error.lines().collect();
    assert!(lines[0].starts_with("error: line 2, column "), "{error}");
    assert_eq!(lines[1], "  SELECT a FRM t u v");
    assert!(lines[2].trim_start() == "^" && lines[2].len() < lines[1].len() + 1, "{error}");
}
