//! Bad files, bad names, bad rights: typed errors, and tables as they were.

use std::os::unix::fs::PermissionsExt;

use swingdb::Error;
use swingdb::io::{ExportOptions, FileFormat, ImportOptions};

use super::mutations::alone;
use super::support::{Place, import_error, seeded};

#[test]
fn missing_files_directories_and_empty_ones() {
    let place = Place::new();
    place.file("taxi.csv", "a\n1\n");
    let error = place.import("taxis.csv", "t", ImportOptions::default()).unwrap_err();
    let Error::NotFound { suggestion, .. } = &error else { panic!("{error:?}") };
    assert_eq!(suggestion.as_deref(), Some("taxi.csv"));
    assert!(matches!(
        place.import("*.none", "t", ImportOptions::default()),
        Err(Error::NotFound { .. })
    ));
    std::fs::create_dir(place.path("dir")).unwrap();
    let (path, _, message) =
        import_error(place.import("dir", "t", ImportOptions::default()).unwrap_err());
    assert_eq!(path, place.path("dir"));
    assert!(message.contains("directory"), "{message}");
    for name in ["empty.csv", "empty.json", "empty.parquet", "empty.arrow"] {
        place.file(name, "");
        let (path, ..) =
            import_error(place.import(name, "t", ImportOptions::default()).unwrap_err());
        assert_eq!(path, place.path(name));
    }
    assert!(place.con.query("SELECT * FROM t").is_err());
}

#[test]
fn a_file_that_must_not_be_read() {
    let place = Place::new();
    let path = place.file("f.csv", "a\n1\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser may read everything.
    if std::fs::read(&path).is_err() {
        let error = place.import("f.csv", "t", ImportOptions::default()).unwrap_err();
        assert!(matches!(error, Error::Io { path: Some(_), .. }), "{error:?}");
    }
}

/// Damaged values add up to more than a BIGINT.
const CONTENT: &str = "SELECT count(*) || ' ' || sum(CAST(a AS DECIMAL(38, 0))) FROM t";

#[test]
fn truncated_and_damaged_files_of_every_format() {
    let _alone = alone();
    let mut random = seeded();
    let place = Place::new();
    place.run(
        "CREATE TABLE t AS SELECT value AS a, concat('text ', value) AS b FROM \
        generate_series(1, 5000) AS value",
    );
    for name in ["f.parquet", "f.arrow", "f.arrows", "f.csv.gz", "f.csv.zst"] {
        place.con.export_file("t", place.path(name), ExportOptions::default()).unwrap();
        let whole = std::fs::read(place.path(name)).unwrap();
        let (mut refused, rounds) = (0, 60);
        for round in 0..rounds {
            let mut bytes = whole.clone();
            if round % 2 == 0 {
                bytes.truncate(random.usize(1..whole.len()));
            } else {
                for _ in 0..random.usize(1..20) {
                    let at = random.usize(0..bytes.len());
                    bytes[at] = random.u8(..);
                }
            }
            place.file(name, &bytes);
            let before = place.value(CONTENT);
            match place.import(name, "t", ImportOptions::default()) {
                // A flipped byte in a value is not noticed by formats without checksums.
                Ok(rows) => place.run(&format!("DELETE FROM t WHERE false AND a = {rows}")),
                Err(Error::Import { path, .. }) => {
                    assert_eq!(path, place.path(name));
                    refused += 1;
                    assert_eq!(place.value(CONTENT), before);
                }
                Err(other) => {
                    assert!(
                        matches!(
                            other,
                            Error::Conversion { .. }
                                | Error::Io { .. }
                                | Error::Execution { .. }
                                | Error::NotFound { .. }
                        ),
                        "{name}: {other:?}"
                    );
                    refused += 1;
                }
            }
        }
        assert!(refused >= rounds / 4, "{name}: {refused} of {rounds} refused");
    }
}

#[test]
fn parquet_that_does_not_fit_the_table() {
    let place = Place::new();
    place.run("CREATE TABLE t (a SMALLINT, b VARCHAR)");
    place.run(
        "COPY (SELECT 70000 AS a, 'x' AS b) TO '{}/f.parquet'"
            .replace("{}", place.directory.path().to_str().unwrap())
            .as_str(),
    );
    let (path, _, message) =
        import_error(place.import("f.parquet", "t", ImportOptions::default()).unwrap_err());
    assert_eq!(path, place.path("f.parquet"));
    assert!(message.contains("70000") && message.contains("\"a\""), "{message}");
    assert_eq!(place.value("SELECT count(*) FROM t"), "0");
}

#[test]
fn json_errors_have_lines() {
    let place = Place::new();
    place.run("CREATE TABLE t (a BIGINT, b VARCHAR)");
    let good = "{\"a\": 1, \"b\": \"x\"}\n";
    for (bad, expected) in
        [("{\"a\": 1,", "no JSON"), ("[1]", "no JSON object"), ("{\"a\": \"x\"}", "is no BIGINT")]
    {
        for before in [0, 1, 30_000] {
            place.file("f.json", good.repeat(before) + bad + "\n" + &good.repeat(3));
            let options = ImportOptions {
                block_bytes: Some(1_000),
                format: Some(FileFormat::Json),
                ..Default::default()
            };
            let (_, line, message) =
                import_error(place.import("f.json", "t", options).unwrap_err());
            assert_eq!(line, Some(before as u64 + 1), "{message}");
            assert!(message.contains(expected) || bad.starts_with('['), "{message}");
        }
    }
    assert_eq!(place.value("SELECT count(*) FROM t"), "0");
}

#[test]
fn a_json_member_behind_the_sample_does_not_go_astray() {
    let place = Place::new();
    let mut text = "{\"a\": 1}\n".repeat(25_000);
    text.push_str("{\"a\": 2, \"b\": \"late\"}\n");
    place.file("f.json", &text);
    place.run("CREATE TABLE t (a BIGINT, b VARCHAR)");
    let error = place.import("f.json", "t", ImportOptions::default()).unwrap_err();
    let (_, line, message) = import_error(error);
    assert_eq!(line, Some(25_001));
    assert!(message.contains("\"b\"") && message.contains("sample_size -1"), "{message}");
    assert_eq!(place.value("SELECT count(*) FROM t"), "0");
    place.import("f.json", "new", ImportOptions::default()).unwrap_err();
    let all = ImportOptions { sample_rows: Some(u64::MAX), ..Default::default() };
    assert_eq!(place.import("f.json", "t", all).unwrap(), 25_001);
    assert_eq!(place.value("SELECT count(b) || max(b) FROM t"), "1late");
}

#[test]
fn blocks_have_a_largest_size() {
    let place = Place::new();
    place.file("f.csv", "a,b\n1,x\n2,y\n");
    place.file("f.json", "{\"a\": 1}\n");
    place.run("CREATE TABLE t (a BIGINT, b VARCHAR)");
    for (name, rows) in [("f.csv", 2), ("f.json", 1)] {
        for block_bytes in [0, usize::MAX, 1 << 40] {
            let options = ImportOptions { block_bytes: Some(block_bytes), ..Default::default() };
            assert_eq!(place.import(name, "t", options).unwrap(), rows, "{name} {block_bytes}");
        }
    }
}

#[test]
fn no_rows_are_imported_from_an_empty_export() {
    let place = Place::new();
    place.run("CREATE TABLE t (a BIGINT, b VARCHAR)");
    for name in ["f.json", "f.csv", "f.parquet", "f.arrow"] {
        place.con.export_file("t", place.path(name), ExportOptions::default()).unwrap();
        assert_eq!(place.import(name, "t", ImportOptions::default()).unwrap(), 0, "{name}");
    }
}

#[test]
fn exports_that_fail_leave_what_was_there() {
    let place = Place::new();
    place.run("CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 100000) AS value");
    let path = place.file("f.csv", "old");
    let late_failure = "SELECT CAST(CASE WHEN a = 90000 THEN 'x' ELSE '1' END AS BIGINT) FROM t";
    place.con.export_file(late_failure, &path, ExportOptions::default()).unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(place.directory.path()).unwrap().count(), 1);
    let missing = place.path("no/dir/f.csv");
    assert!(matches!(
        place.con.export_file("t", missing, ExportOptions::default()),
        Err(Error::Io { .. })
    ));
    let error = place.con.export_file("nothing", &path, ExportOptions::default()).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
    assert!(
        place
            .con
            .export_file(
                "t",
                place.directory.path(),
                ExportOptions { format: Some(FileFormat::Csv), ..Default::default() }
            )
            .is_err()
    );
}

#[test]
fn an_import_can_be_interrupted() {
    let place = Place::new();
    let mut line = String::from("a,b\n");
    line.push_str(&"1,some text\n".repeat(2_000_000));
    place.file("f.csv", line);
    place.run("CREATE TABLE t (a BIGINT, b VARCHAR)");
    let handle = place.con.interrupt_handle();
    let ended = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stop = ended.clone();
    let interrupter = std::thread::spawn(move || {
        while !stop.load(std::sync::atomic::Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(2));
            handle.interrupt();
        }
    });
    let options = ImportOptions { block_bytes: Some(2_000), ..Default::default() };
    let result = place.import("f.csv", "t", options);
    ended.store(true, std::sync::atomic::Ordering::SeqCst);
    interrupter.join().unwrap();
    assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
    assert_eq!(place.value("SELECT count(*) FROM t"), "0");
}

#[test]
fn an_arrow_file_that_claims_to_be_longer_than_it_is() {
    let place = Place::new();
    place.run("CREATE TABLE t AS SELECT range AS a FROM range(5000)");
    for name in ["f.arrow", "f.arrows"] {
        place.con.export_file("t", place.path(name), ExportOptions::default()).unwrap();
        let whole = std::fs::read(place.path(name)).unwrap();
        let mut refused = 0;
        // Wherever the length of a body may stand, 64 bits of it.
        for at in (0..whole.len() - 8).step_by(8) {
            let mut damaged = whole.clone();
            let length = i64::from_le_bytes(damaged[at..at + 8].try_into().unwrap());
            if !(40_000..1_000_000).contains(&length) {
                continue;
            }
            damaged[at..at + 8].copy_from_slice(&(1_i64 << 60).to_le_bytes());
            std::fs::write(place.path(name), damaged).unwrap();
            refused += usize::from(place.import(name, "new", ImportOptions::default()).is_err());
            place.run("DROP TABLE IF EXISTS new");
        }
        assert!(refused > 0, "{name}");
    }
}
