//! COPY through FIFOs: each format, packed or not, is the same as through a file.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use swingdb::Error;
use swingdb::io::{ExportOptions, ImportOptions};

use super::support::Place;

const ROWS: usize = 400_000;

fn fifo(place: &Place, name: &str) -> PathBuf {
    let path = place.path(name);
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// Writes a file into a FIFO, in another thread.
fn feed(from: &Path, to: &Path) -> JoinHandle<()> {
    let (from, to) = (from.to_path_buf(), to.to_path_buf());
    std::thread::spawn(move || {
        let mut to = std::fs::OpenOptions::new().write(true).open(to).unwrap();
        // A reader that fails ends before.
        let _ = std::io::copy(&mut std::fs::File::open(from).unwrap(), &mut to);
    })
}

#[test]
fn a_fifo_gives_what_a_file_gives() {
    let place = Place::new();
    place.run(&format!(
        "CREATE TABLE t AS SELECT i AS id, i / 7 AS part, 'some words ' || i AS words \
         FROM generate_series(1, {ROWS}) AS s(i)"
    ));
    let expected = place.table("t");
    for name in [
        "t.csv",
        "t.csv.gz",
        "t.csv.zst",
        "t.json",
        "t.json.gz",
        "t.arrow",
        "t.arrows",
        "t.parquet",
    ] {
        place.con.export_file("t", place.path(name), ExportOptions::default()).unwrap();
        let pipe = fifo(&place, &format!("pipe-{name}"));
        let feeder = feed(&place.path(name), &pipe);
        let table = name.replace('.', "_");
        let report = place.con.import_file(&pipe, &table, ImportOptions::default()).unwrap();
        feeder.join().unwrap();
        assert_eq!(report.rows, ROWS as u64, "{name}");
        let bytes = std::fs::metadata(place.path(name)).unwrap().len();
        assert_eq!(report.bytes, bytes, "{name}");
        assert_eq!(place.table(&table), expected, "{name}");
    }
}

#[test]
fn options_of_text_hold_for_a_fifo() {
    let place = Place::new();
    let text: String = (0..200_000).map(|i| format!("{i};x{i}\n")).collect();
    let file = place.file("odd.txt", format!("nothing\n{text}").as_bytes());
    let pipe = fifo(&place, "pipe");
    let feeder = feed(&file, &pipe);
    place.run("CREATE TABLE t (a INTEGER, b VARCHAR)");
    place
        .run_in("COPY t FROM '{}/pipe' (FORMAT csv, SKIP 1, DELIMITER ';', SAMPLE_SIZE -1)")
        .unwrap();
    feeder.join().unwrap();
    assert_eq!(place.value("SELECT count(*) || ' ' || sum(a) FROM t"), "200000 19999900000");
}

#[test]
fn a_row_that_does_not_fit_behind_the_sample_leaves_the_table() {
    let place = Place::new();
    let mut text: String = (0..400_000).map(|i| format!("{i},x\n")).collect();
    text.push_str("none,x\n");
    let file = place.file("bad.csv", &text);
    let pipe = fifo(&place, "pipe");
    place.run("CREATE TABLE t (a INTEGER, b VARCHAR)");
    place.run("INSERT INTO t VALUES (1, 'before')");
    let feeder = feed(&file, &pipe);
    let error = place.run_in("COPY t FROM '{}/pipe' (FORMAT csv, HEADER false)").unwrap_err();
    feeder.join().unwrap();
    assert!(matches!(error, Error::Import { line: Some(400_001), .. }), "{error}");
    assert_eq!(place.value("SELECT count(*) FROM t"), "1");
}

#[test]
fn zero_copy_is_for_arrow_through_pipes() {
    let place = Place::new();
    place.run("CREATE TABLE t AS SELECT 1 AS a");
    for (sql, expected) in [
        ("COPY t TO '{}/x.csv' (ZERO_COPY)", "zero_copy is for Arrow files"),
        ("COPY t TO '{}/x.arrow' (ZERO_COPY)", "zero_copy is for pipes"),
        ("COPY t TO '{}/x.arrows' (ZERO_COPY true)", "zero_copy is for pipes"),
    ] {
        let error = place.run_in(sql).unwrap_err();
        assert!(error.to_string().contains(expected), "{sql}: {error}");
        assert!(!place.path("x.arrow").exists() && !place.path("x.arrows").exists());
    }
    let pipe = fifo(&place, "pipe.arrow");
    let reader = std::thread::spawn(move || std::fs::read(pipe).unwrap());
    place.run_in("COPY t TO '{}/pipe.arrow' (ZERO_COPY)").unwrap();
    let through_pipe = reader.join().unwrap();
    place.run_in("COPY t TO '{}/t.arrows'").unwrap();
    assert_eq!(through_pipe, std::fs::read(place.path("t.arrows")).unwrap());
}
