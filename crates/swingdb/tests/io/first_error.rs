//! Of several bad lines the first one is named, whatever the blocks are that a file is cut into.

use swingdb::io::{FileFormat, ImportOptions};

use super::support::{Place, import_error, seeded};

const ROUNDS: usize = 60;

/// Files of one to some hundred records, of which some are bad.
struct File {
    text: Vec<u8>,
    first_bad: Option<u64>,
}

fn file(
    random: &mut fastrand::Rng,
    head: &[u8],
    good: &[&[u8]],
    bad: &[&[u8]],
    last: &[&[u8]],
) -> File {
    let mut text = head.to_vec();
    let mut first_bad = None;
    let records = random.usize(1..300);
    let bad_ones = random.usize(1..6);
    let mut add = |text: &mut Vec<u8>, record: &[u8], is_bad: bool| {
        let line = text.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        if is_bad && first_bad.is_none() {
            first_bad = Some(line);
        }
        text.extend_from_slice(record);
        text.push(b'\n');
    };
    for _ in 0..records {
        match random.usize(0..records) < bad_ones {
            true => add(&mut text, bad[random.usize(0..bad.len())], true),
            false => add(&mut text, good[random.usize(0..good.len())], false),
        }
    }
    if !last.is_empty() && random.bool() {
        add(&mut text, last[random.usize(0..last.len())], true);
    }
    File { text, first_bad }
}

fn named(place: &Place, name: &str, options: &ImportOptions) -> Option<(u64, String)> {
    match place.import(name, "t", options.clone()) {
        Ok(_) => None,
        Err(error) => {
            let (_, line, message) = import_error(error);
            Some((line.unwrap_or_else(|| panic!("no line: {message}")), message))
        }
    }
}

/// Every way of cutting the file names the same line.
fn assert_first(place: &Place, random: &mut fastrand::Rng, file: &File, options: ImportOptions) {
    let name = match options.format {
        Some(FileFormat::Json) => "f.json",
        _ => "f.csv",
    };
    place.file(name, &file.text);
    let before = place.value("SELECT count(*) FROM t");
    let sizes = [1, 7, 64, 1_000, 1 << 20, random.usize(1..5_000)];
    for block_bytes in sizes {
        let threads = Some(random.usize(1..4));
        let options = ImportOptions { block_bytes: Some(block_bytes), threads, ..options.clone() };
        let found = named(place, name, &options);
        let shown = String::from_utf8_lossy(&file.text);
        let line = found.as_ref().map(|(line, _)| *line);
        assert_eq!(line, file.first_bad, "{block_bytes}: {found:?} in\n{shown}");
    }
    if file.first_bad.is_some() {
        assert_eq!(place.value("SELECT count(*) FROM t"), before);
    }
}

#[test]
fn of_csv() {
    let mut random = seeded();
    let place = Place::new();
    place.run("CREATE TABLE t (a BIGINT, b VARCHAR, c INTEGER[], d DATE)");
    let good: [&[u8]; 4] = [
        b"1,x,\"[1, 2]\",2024-01-01",
        b"2,\"two\nlines\",,",
        b"3,\"a \"\"word\"\"\n\n\",\"[]\",2024-02-29",
        b"",
    ];
    let bad: [&[u8]; 7] = [
        b"x,y,\"[1]\",2024-01-01",
        b"1,y",
        b"1,y,\"[1]\",2024-01-01,5,6",
        b"1,\"y\"z,\"[1]\",2024-01-01",
        b"1,\xFF\xFE,\"[1]\",2024-01-01",
        b"1,y,\"[1\",2024-01-01",
        b"1,y,\"[1]\",2024-02-30",
    ];
    let unclosed: [&[u8]; 1] = [b"1,\"never closed"];
    let options = ImportOptions {
        header: Some(true),
        delimiter: Some(b','.into()),
        quote: Some(Some(b'"')),
        ..Default::default()
    };
    for _ in 0..ROUNDS {
        // Most records are good, so that it is no question how many fields they have.
        let head = [b"a,b,c,d\n".to_vec(), b"0,x,[],2024-01-01\n".repeat(300)].concat();
        let file = file(&mut random, &head, &good, &bad, &unclosed);
        assert_first(&place, &mut random, &file, options.clone());
    }
}

#[test]
fn of_json_lines() {
    let mut random = seeded();
    let place = Place::new();
    place.run("CREATE TABLE t (a BIGINT, b VARCHAR)");
    let good: [&[u8]; 4] =
        [b"{\"a\": 1, \"b\": \"x\"}", b"  {\"b\":\"{\"} ", b"", b"{\"a\": null, \"b\": \"\"}"];
    let bad: [&[u8]; 7] = [
        b"{\"a\": 1,",
        b"[1]",
        b"{\"a\": \"word\"}",
        b"{\"a\": 1} {\"a\": 2}",
        b"{\"a\": 1, \"b\": \"\xFF\"}",
        b"{\"a\": {\"b\": 1}}",
        b"{\"a\":\n1}",
    ];
    // Some errors are in the sample, some behind it.
    for round in 0..ROUNDS {
        let options = ImportOptions {
            format: Some(FileFormat::Json),
            sample_rows: [None, Some(1), Some(20)][round % 3],
            ..Default::default()
        };
        let file = file(&mut random, b"{\"a\": 1, \"b\": \"x\"}\n", &good, &bad, &[]);
        assert_first(&place, &mut random, &file, options);
    }
}

#[test]
fn of_json_whose_rows_do_not_go_together() {
    let place = Place::new();
    place.file("f.json", "{\"a\": 1}\n\n{\"a\": 2}\n{\"a\": {\"x\": 1}}\n{\"a\": 3,\n");
    let error = place.import("f.json", "t", ImportOptions::default()).unwrap_err();
    let (_, line, message) = import_error(error);
    // Rows of different kinds have a column of JSON; the next line is none.
    assert_eq!(line, Some(5), "{message}");
    assert!(message.contains("no JSON"), "{message}");
    place.file("f.json", "{\"a\": 1}\n{\"a\":\n2}\n");
    let error = place.import("f.json", "t", ImportOptions::default()).unwrap_err();
    let (_, line, message) = import_error(error);
    assert_eq!(line, Some(2), "{message}");
    assert!(message.contains("one line"), "{message}");
}
