//! Hive folders and files' names as columns, and options of reading. Expected is what DuckDB 2.0
//! answers.

use swingdb::Error;

use super::support::Place;

fn types(place: &Place, query: &str) -> Vec<String> {
    let rows = place.rows(&format!("DESCRIBE {query}"));
    rows.into_iter().map(|row| format!("{} {}", row[0], row[1])).collect()
}

/// Files of every format in folders of two keys.
fn folders(place: &Place) {
    for (year, month, x) in [("2023", "01", 1), ("2024", "02", 2)] {
        let folder = place.path(&format!("hp/year={year}/m={month}"));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["f.parquet", "f.csv", "f.json", "f.arrow", "f.arrows"] {
            let path = folder.join(name);
            place.run(&format!("COPY (SELECT {x} AS x, {x}0 AS y) TO '{}'", path.display()));
        }
    }
}

const NAMES: [&str; 5] = ["f.parquet", "f.csv", "f.json", "f.arrow", "f.arrows"];

#[test]
fn keys_of_folders_are_columns() {
    let place = Place::new();
    folders(&place);
    for name in NAMES {
        let from = format!("'{{}}/hp/*/*/{name}'");
        let rows = place.rows(&format!("SELECT * FROM {from} ORDER BY x"));
        assert_eq!(rows, [["1", "10", "01", "2023"], ["2", "20", "02", "2024"]], "{name}");
        let found = types(&place, &place.fill_in(&format!("SELECT m, year FROM {from}")));
        assert_eq!(found, ["m VARCHAR", "year BIGINT"], "{name}");
        for (query, expected) in [
            ("SELECT year, x FROM {} WHERE year = 2024", vec![vec!["2024", "2"]]),
            ("SELECT x FROM {} WHERE m = '01'", vec![vec!["1"]]),
            ("SELECT count(*) FROM {} WHERE year > 3000", vec![vec!["0"]]),
            ("SELECT count(*), min(year), max(year) FROM {}", vec![vec!["2", "2023", "2024"]]),
            (
                "SELECT year, sum(y) FROM {} GROUP BY 1 ORDER BY 1",
                vec![vec!["2023", "10"], vec!["2024", "20"]],
            ),
            ("SELECT year FROM {} ORDER BY year DESC LIMIT 1", vec![vec!["2024"]]),
        ] {
            assert_eq!(place.rows(&query.replace("{}", &from)), expected, "{name}: {query}");
        }
        // One file has its keys too.
        let one = format!("SELECT year FROM '{{}}/hp/year=2023/m=01/{name}'");
        assert_eq!(place.value(&one), "2023", "{name}");
    }
}

#[test]
fn options_about_folders_and_names() {
    let place = Place::new();
    folders(&place);
    let columns = |options: &str| {
        let from = format!("read_parquet('{{}}/hp/*/*/f.parquet'{options})");
        types(&place, &place.fill_in(&format!("SELECT * EXCLUDE (x, y) FROM {from}")))
    };
    assert_eq!(columns(", hive_types = {'year': 'INTEGER'}"), ["m VARCHAR", "year INTEGER"]);
    assert_eq!(columns(", hive_types_autocast = false"), ["m VARCHAR", "year VARCHAR"]);
    assert_eq!(columns(", filename = true")[0], "filename VARCHAR");
    for function in ["read_parquet", "read_csv", "read_json", "read_arrow"] {
        let name = match function {
            "read_parquet" => "f.parquet",
            "read_csv" => "f.csv",
            "read_json" => "f.json",
            _ => "f.arrow",
        };
        let off = format!("FROM {function}('{{}}/hp/*/*/{name}', hive_partitioning = false)");
        assert_eq!(place.rows(&format!("{off} ORDER BY x")), [["1", "10"], ["2", "20"]]);
        let named = format!(
            "SELECT src, x FROM {function}('{{}}/hp/*/*/{name}', filename = 'src') ORDER BY x"
        );
        let found = place.rows(&named);
        let path = place.path(&format!("hp/year=2023/m=01/{name}"));
        assert_eq!(found[0], [path.to_str().unwrap(), "1"]);
    }
    // The name of a column that there is already.
    place.run_in("COPY (SELECT 1 AS filename) TO '{}/fn.parquet'").unwrap();
    let error = place.run_in("FROM read_parquet('{}/fn.parquet', filename = true)").unwrap_err();
    assert!(error.to_string().contains("another name"), "{error}");
}

#[test]
fn odd_keys() {
    let place = Place::new();
    let write = |folder: &str, query: &str| {
        std::fs::create_dir_all(place.path(folder)).unwrap();
        place.run_in(&format!("COPY ({query}) TO '{{}}/{folder}/f.parquet'")).unwrap();
    };
    // NULL, dates, bytes that stand for others.
    write("a/d=2024-01-02/k=a%20b", "SELECT 1 AS x");
    write("a/d=__HIVE_DEFAULT_PARTITION__/k=c", "SELECT 2 AS x");
    let rows = place.rows("SELECT * FROM '{}/a/*/*/f.parquet' ORDER BY x");
    assert_eq!(rows, [["1", "2024-01-02", "a b"], ["2", "NULL", "c"]]);
    let counts = "SELECT count(d), count(*), max(d) FROM '{}/a/*/*/f.parquet'";
    assert_eq!(place.rows(counts), [["1", "2", "2024-01-02"]]);
    let null = "SELECT x FROM '{}/a/*/*/f.parquet' WHERE d IS NULL";
    assert_eq!(place.rows(null), [["2"]]);
    // The folder's value in place of the file's.
    write("b/x=7", "SELECT 1 AS x, 5 AS y");
    assert_eq!(place.rows("SELECT * FROM '{}/b/*/f.parquet'"), [["7", "5"]]);
    assert_eq!(place.rows("SELECT y, x FROM '{}/b/*/f.parquet' WHERE x = 7"), [["5", "7"]]);
    // Different keys are no columns, unless asked for.
    write("c/p=1", "SELECT 1 AS x");
    write("c/q=1", "SELECT 2 AS x");
    assert_eq!(place.rows("SELECT * FROM '{}/c/*/f.parquet' ORDER BY x"), [["1"], ["2"]]);
    let asked = "SELECT * FROM read_parquet('{}/c/*/f.parquet', hive_partitioning = true)";
    assert!(matches!(place.run_in(asked), Err(Error::Import { .. })));
    // The same file twice, as the engine takes it, and one that is replaced.
    let twice = "SELECT count(*) FROM read_parquet(['{}/c/p=1/f.parquet', '{}/c/p=1/f.parquet'])";
    assert_eq!(place.value(twice), "2");
    place
        .run_in("CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '{}/c/p=1/f.parquet'")
        .unwrap();
    write("c/p=1", "SELECT unnest([7, 8, 9]) AS x");
    assert_eq!(place.value("SELECT sum(x) FROM e"), "24");
    write("c/p=1", "SELECT 'text' AS x");
    assert!(matches!(place.run_in("SELECT * FROM e"), Err(Error::Import { .. })));
}

#[test]
fn folders_into_tables() {
    let place = Place::new();
    folders(&place);
    place.run("CREATE TABLE whole (year INT, x INT, m VARCHAR, y INT)");
    place.run("CREATE TABLE own (x INT, y INT)");
    place.run("CREATE TABLE part (y INT, year INT, x INT, z INT DEFAULT 5)");
    for name in NAMES {
        for (table, expected) in [
            ("whole", vec![vec!["2023", "1", "01", "10"], vec!["2024", "2", "02", "20"]]),
            ("own", vec![vec!["1", "10"], vec!["2", "20"]]),
            ("part", vec![vec!["10", "2023", "1", "5"], vec!["20", "2024", "2", "5"]]),
        ] {
            place.run_in(&format!("COPY {table} FROM '{{}}/hp/*/*/{name}'")).unwrap();
            let rows = place.rows(&format!("SELECT * FROM {table} ORDER BY x"));
            assert_eq!(rows, expected, "{name}");
            place.run(&format!("DELETE FROM {table}"));
        }
        let asked = format!("COPY own FROM '{{}}/hp/*/*/{name}' (hive_partitioning)");
        assert!(matches!(place.run_in(&asked), Err(Error::NotFound { .. })), "{name}");
    }
}

#[test]
fn options_are_known_and_honoured_or_refused() {
    let place = Place::new();
    place.file("f.csv", "a\n1\n");
    place.file("f.json", "{\"a\": 1}\n");
    place.run_in("COPY (SELECT 1 AS a) TO '{}/f.parquet'").unwrap();
    for (sql, expected) in [
        ("FROM read_csv('{}/f.csv', bogus = 1)", "there are format, header, delimiter"),
        ("FROM read_csv('{}/f.csv', heder = true)", "\"header\""),
        ("FROM read_parquet('{}/f.parquet', header = true)", "is for CSV files"),
        ("FROM read_json('{}/f.json', delim = ';')", "is for CSV files"),
        ("FROM read_parquet('{}/f.parquet', sample_size = 5)", "is for CSV and JSON files"),
        ("FROM read_csv('{}/f.csv', auto_detect = false)", "auto_detect"),
        ("FROM read_csv('{}/f.csv', compression = 'gzip')", "none"),
        ("FROM read_csv('{}/f.csv', compression = 'lzma')", "gzip and zstd"),
        ("COPY t FROM '{}/f.csv' (union_by_name)", "BY NAME"),
        ("FROM read_csv('{}/f.csv', union_by_name = 7)", "true or false"),
        ("COPY (SELECT 1) TO '{}/g.parquet' (header)", "is for CSV files"),
        ("COPY (SELECT 1) TO '{}/g.csv' (row_group_size 5)", "is for Parquet files"),
    ] {
        let error = place.run_in(sql).unwrap_err();
        assert!(error.to_string().contains(expected), "{sql}: {error}");
    }
    for sql in [
        "FROM read_csv('{}/f.csv', auto_detect = true, parallel = false, compression = 'none')",
        "FROM read_csv('{}/f.csv', compression = 'auto', union_by_name = false)",
        "FROM read_csv('{}/f.csv', union_by_name = true)",
    ] {
        assert_eq!(place.rows(sql), [["1"]], "{sql}");
    }
}

/// Expected values are DuckDB's.
#[test]
fn files_with_other_columns_are_one_table() {
    let place = Place::new();
    for folder in ["d/m=1", "d/m=x2"] {
        std::fs::create_dir_all(place.path(folder)).unwrap();
    }
    for end in ["csv", "json", "parquet"] {
        let write = |name: &str, sql: &str| {
            place.run_in(&format!("COPY ({sql}) TO '{{}}/{name}.{end}'")).unwrap();
        };
        write("d/m=1/a", "SELECT * FROM (VALUES (1, 'x'), (2, NULL)) v(a, b)");
        write("d/m=x2/b", "SELECT 'y' AS \"B\", 2.5 AS a, DATE '2020-01-02' AS c");
        write("d/m=x2/c", "SELECT 'text' AS a, 7 AS \"D e\"");
        let function = format!("read_{end}");
        let all = format!("{function}('{{}}/d/*/*.{end}', union_by_name = true)");
        let rows = place.rows(&format!("SELECT * FROM {all}"));
        assert_eq!(
            rows,
            [
                ["1", "x", "NULL", "NULL", "1"],
                ["2", "NULL", "NULL", "NULL", "1"],
                ["2.5", "y", "2020-01-02", "NULL", "x2"],
                ["text", "NULL", "NULL", "7", "x2"],
            ],
            "{end}"
        );
        let names: Vec<String> = place
            .rows(&format!("DESCRIBE SELECT * FROM {all}"))
            .into_iter()
            .map(|mut row| row.remove(0))
            .collect();
        assert_eq!(names, ["a", "b", "c", "D e", "m"], "{end}");
        let some = format!(
            "{function}(['{{}}/d/m=1/a.{end}', '{{}}/d/m=x2/b.{end}'], union_by_name = true, \
             filename = true, hive_partitioning = false)"
        );
        let rows =
            place.rows(&format!("SELECT a, b, filename LIKE '%b.{end}' FROM {some} WHERE a > 1"));
        assert_eq!(rows, [["2.0", "NULL", "false"], ["2.5", "y", "true"]], "{end}");
        let count = place.value(&format!("SELECT count(*) || ' ' || count(c) FROM {all}"));
        assert_eq!(count, "4 1", "{end}");
        let unlike = place.run_in(&format!("SELECT * FROM {function}('{{}}/d/*/*.{end}')"));
        assert!(matches!(unlike, Err(Error::Import { .. })), "{end}: {unlike:?}");
    }
    place.run_in("COPY (SELECT [1] AS a) TO '{}/d/m=1/l.parquet'").unwrap();
    let error = place.run_in("FROM read_parquet('{}/d/*/*.parquet', union_by_name = true)");
    let Err(Error::Import { path, message, .. }) = error else { panic!("{error:?}") };
    assert!(path.ends_with("d/m=1/l.parquet"), "{path:?}");
    assert!(message.contains("BIGINT[]"), "{message}");
    place.run("CREATE TABLE t (a VARCHAR, c DATE, z INT DEFAULT 4)");
    place
        .run_in(
            "INSERT INTO t BY NAME SELECT a, c FROM read_csv('{}/d/*/*.csv', union_by_name = true)",
        )
        .unwrap();
    assert_eq!(place.rows("SELECT * FROM t WHERE c IS NOT NULL"), [["2.5", "2020-01-02", "4"]]);
}
