//! The standard output of an export and the standard input of an import: pipes, sockets, files,
//! readers that are slow, end early or are killed.

mod common;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::World;

const ALL: &str = "SELECT * FROM city ORDER BY id";
const ROWS: u32 = 200_000;

/// A database `big` of some megabytes, shared: numbers, texts, NULLs.
fn big(world: &World) {
    let make = format!(
        "CREATE TABLE t AS SELECT i AS id, i * 0.5 AS half, CASE WHEN i % 3 = 0 THEN NULL ELSE i \
         END AS some, 'text number ' || i AS words FROM generate_series(1, {ROWS}) AS s(i)"
    );
    world.ok(&["big", "-c", &make, "-c", "SHARE"]);
}

/// What an export of `big.t` gives to somebody who reads all of it at once.
fn exported(world: &World, more: &[&str]) -> Vec<u8> {
    let mut child = world.start(&[&["export", "big.t", "-"], more].concat());
    let mut bytes = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    bytes
}

/// Imports these bytes through a pipe as `copy.t`.
fn imported(world: &World, name: &str, bytes: &[u8], more: &[&str]) {
    let target = format!("{name}.t");
    let words = [&["import", "-", "--into", &target, "--share"], more].concat();
    let mut child = world.start(&words);
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("200 000 rows ("), "{said}");
}

fn sums(world: &World, name: &str) -> String {
    let sql = "SELECT count(*), sum(id), sum(half), count(some), sum(some), min(words), \
               max(words), count(DISTINCT words) FROM t";
    world.ok(&["sql", name, sql, "-m", "csv"])
}

#[test]
fn every_format_goes_through_a_pipe_and_back() {
    let world = World::new();
    big(&world);
    let expected = sums(&world, "big");
    let ways: [&[&str]; 9] = [
        &[],
        &["--zero-copy"],
        &["--compression", "zstd"],
        &["--compression", "lz4", "--zero-copy"],
        &["--format", "csv"],
        &["--format", "csv", "--compression", "gzip"],
        &["--format", "json"],
        &["--format", "json", "--compression", "zstd"],
        &["--format", "parquet"],
    ];
    for (number, way) in ways.iter().enumerate() {
        let bytes = exported(&world, way);
        let name = format!("copy{number}");
        // Once the format is said, once the bytes tell it.
        let said = match way {
            ["--format", format, ..] if number % 2 == 0 => vec!["--format", *format],
            _ => vec![],
        };
        imported(&world, &name, &bytes, &said);
        assert_eq!(sums(&world, &name), expected, "{way:?}");
    }
    // The file format of Arrow is read from its end.
    world.ok(&["export", "big.t", "t.arrow"]);
    let bytes = std::fs::read(world.file("t.arrow")).unwrap();
    imported(&world, "copy_file", &bytes, &["--format", "arrow"]);
    assert_eq!(sums(&world, "copy_file"), expected);
    assert_eq!(exported(&world, &["--zero-copy"]), exported(&world, &[]));
}

#[test]
fn a_query_goes_from_program_to_program() {
    let world = World::new();
    world.cities();
    let before = world.ok(&["sql", "cities", ALL, "-m", "csv"]);
    for zero_copy in [false, true] {
        let mut words = vec!["export", "cities", "-", "--query", ALL];
        words.extend(zero_copy.then_some("--zero-copy"));
        let mut from = world.start(&words);
        let name = format!("copy_{zero_copy}");
        let target = format!("{name}.city");
        let mut to = world.command(["import", "-", "--into", &target, "--share"]);
        let output = to.stdin(from.stdout.take().unwrap()).output().unwrap();
        assert!(output.status.success() && from.wait().unwrap().success());
        assert_eq!(world.ok(&["sql", &name, ALL, "-m", "csv"]), before);
    }
}

#[test]
fn a_slow_reader_sees_the_state_that_was_exported() {
    let world = World::new();
    big(&world);
    let expected = exported(&world, &[]);
    for more in [&[][..], &["--zero-copy"]] {
        let mut child = world.start(&[&["export", "big.t", "-"], more].concat());
        let mut reader = child.stdout.take().unwrap();
        // All the rest is in the pipe then, and what exports has written its last byte.
        let mut seen = vec![0; expected.len() - 700_000];
        reader.read_exact(&mut seen).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(child.try_wait().unwrap().is_some(), more.is_empty(), "{more:?}");
        // What the pipe shows would be the place of new versions, if it were not held.
        let change = "UPDATE t SET id = id + 1, half = 0, words = 'another text ' || id";
        world.ok(&[&["big"][..], &["-c", change, "-c", "SHARE"].repeat(12)].concat());
        let mut block = vec![0; 50_000];
        loop {
            let read = reader.read(&mut block).unwrap();
            if read == 0 {
                break;
            }
            seen.extend_from_slice(&block[..read]);
            std::thread::sleep(Duration::from_micros(300));
        }
        assert!(child.wait().unwrap().success());
        assert!(seen == expected, "{more:?}: the reader has seen other bytes");
        world.ok(&["drop", "big"]);
        big(&world);
    }
}

#[test]
fn a_reader_that_ends_early_or_is_killed_is_an_error() {
    let world = World::new();
    big(&world);
    for more in [&[][..], &["--zero-copy"], &["--format", "csv"], &["--format", "parquet"]] {
        let mut child = world.start(&[&["export", "big.t", "-"], more].concat());
        let mut reader = child.stdout.take().unwrap();
        reader.read_exact(&mut [0; 1000]).unwrap();
        drop(reader);
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{more:?}: {error}");
        assert!(error.contains("the reader has ended"), "{more:?}: {error}");

        let mut sleeper = Command::new("sleep").arg("1000").stdin(Stdio::piped()).spawn().unwrap();
        let end = OwnedFd::from(sleeper.stdin.take().unwrap());
        let mut export = world.command([&["export", "big.t", "-"], more].concat());
        let child = export.stdout(end).stderr(Stdio::piped()).spawn().unwrap();
        // This process must not be one that may still read, or write.
        drop(export);
        std::thread::sleep(Duration::from_millis(200));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{more:?}: {error}");
        assert!(error.contains("the reader has ended"), "{more:?}: {error}");
    }
}

#[test]
fn sockets_are_written_to_and_read_from() {
    let world = World::new();
    big(&world);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut export = world.command(["export", "big.t", "-"]);
    let mut child = export.stdout(OwnedFd::from(theirs)).spawn().unwrap();
    drop(export);
    let mut import = world.command(["import", "-", "--into", "copy.t", "--share"]);
    let output = import.stdin(OwnedFd::from(ours)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(child.wait().unwrap().success());
    assert_eq!(sums(&world, "copy"), sums(&world, "big"));

    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut export = world.command(["export", "big.t", "-", "--zero-copy"]);
    let output = export.stdout(OwnedFd::from(theirs)).output().unwrap();
    drop(ours);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("zero_copy is for pipes"), "{error}");
}

#[test]
fn a_file_as_standard_output_is_written_from_where_it_is() {
    let world = World::new();
    world.cities();
    let before = std::fs::symlink_metadata("/dev/stdout").unwrap();
    let mut file = File::create_new(world.file("out.csv")).unwrap();
    file.write_all(b"first\n").unwrap();
    let copy = "COPY (SELECT id FROM city ORDER BY id) TO '/dev/stdout' (FORMAT csv)";
    for words in [
        vec!["export", "cities", "-", "--query", "SELECT 5 AS five", "--format", "csv"],
        vec!["sql", "cities", copy],
    ] {
        let mut command = world.command(&words);
        let output = command.stdout(file.try_clone().unwrap()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let text = std::fs::read_to_string(world.file("out.csv")).unwrap();
    assert_eq!(text, "first\nfive\n5\nid\n1\n2\n3\n");
    let after = std::fs::symlink_metadata("/dev/stdout").unwrap();
    assert!(after.file_type() == before.file_type() && after.len() == before.len());

    // As standard input it is read from where it is, too.
    let mut file = File::open(world.file("out.csv")).unwrap();
    file.seek(std::io::SeekFrom::Start(13)).unwrap();
    let mut import = world.command(["import", "-", "--into", "rest.t", "--share"]);
    assert!(import.stdin(file).output().unwrap().status.success());
    assert_eq!(world.ok(&["sql", "rest", "SELECT sum(id) FROM t", "-m", "csv"]), "sum(id)\n6\n");
}

#[test]
fn wrong_input_leaves_nothing() {
    let world = World::new();
    big(&world);
    let whole = exported(&world, &[]);
    let parquet = exported(&world, &["--format", "parquet"]);
    let cut = |bytes: &[u8]| bytes[..bytes.len() / 2].to_vec();
    let mut bad_csv = b"a,b\n".to_vec();
    (0..300_000).for_each(|i| bad_csv.extend(format!("{i},x\n").bytes()));
    bad_csv.extend(b"no number,x\n");
    let cases: [(&str, Vec<u8>, &str); 7] = [
        ("parquet", b"a,b\n1,2\n".to_vec(), "/dev/stdin"),
        ("parquet", cut(&parquet), "/dev/stdin"),
        ("arrow", cut(&whole), "/dev/stdin"),
        ("arrow", b"a,b\n1,2\n".to_vec(), "/dev/stdin"),
        ("csv", Vec::new(), "empty"),
        ("csv", bad_csv, "line 300002"),
        ("jsonl", b"{\"a\": 1}\n{\"a\": \n".to_vec(), "line 2"),
    ];
    for (format, bytes, expected) in cases {
        let words = ["import", "-", "--into", "db.t", "--share", "--format", format];
        let mut child = world.start(&words);
        let mut input = child.stdin.take().unwrap();
        // The program may have ended before it has read all.
        let _ = input.write_all(&bytes);
        drop(input);
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{format}: {error}");
        assert!(error.contains(expected), "{format}: {error}");
    }
    let twice = world.fails(2, &["import", "-", "-", "--into", "db.t"]);
    assert!(twice.contains("more than once"), "{twice}");
    assert_eq!(
        world.ok(&["sql", "big", "SELECT count(*) FROM t", "-m", "csv"]),
        "count(*)\n200000\n"
    );
}
