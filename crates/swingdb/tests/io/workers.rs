//! A thread that reads a file and ends before the file does is an error, never the end of the file.

use swingdb::Error;

use super::support::{Place, import_error};

/// A record longer than any may be, between two halves of a file that are whole.
fn long_record() -> String {
    let mut text = "a,b\n".to_string();
    text += &"1,s\n".repeat(200_000);
    text += "2,";
    text += &"x".repeat(70 << 20);
    text += "\n";
    text + &"3,t\n".repeat(200_000)
}

#[test]
fn a_record_that_is_too_long_is_an_error_everywhere() {
    let place = Place::new();
    place.file("f.csv", long_record());
    place.run("CREATE TABLE t (a BIGINT, b VARCHAR)");
    for sql in [
        "SELECT count(*) FROM '{}/f.csv'",
        "SELECT a FROM '{}/f.csv'",
        "CREATE TABLE new AS SELECT * FROM '{}/f.csv'",
        "INSERT INTO t SELECT * FROM '{}/f.csv'",
        "COPY (SELECT * FROM '{}/f.csv') TO '{}/out.csv'",
        "COPY t FROM '{}/f.csv'",
    ] {
        let (path, line, message) = import_error(place.run_in(sql).unwrap_err());
        assert_eq!((path, line), (place.path("f.csv"), Some(200_002)), "{sql}: {message}");
        assert!(message.contains("longer than 64 MiB"), "{sql}: {message}");
    }
    assert_eq!(place.value("SELECT count(*) FROM t"), "0");
    assert!(matches!(place.con.query("TABLE new"), Err(Error::NotFound { .. })));
    assert!(!place.path("out.csv").exists());
}
