//! What a sample of a CSV file did not show: it is read as what it says, or refused with its line;
//! never changed.

use swingdb::io::ImportOptions;

use super::support::{Place, import_error};

/// Rows before the odd one: behind the sample, and before any further piece.
const BEFORE: usize = 30_000;
const ROWS: usize = 300_000;

/// The message for a file with one odd field, which must have the field's line.
fn refused(place: &Place, usual: &str, odd: &str) -> String {
    let line = format!("1,{usual}\n");
    let text = format!("a,b\n{}2,{odd}\n{}", line.repeat(BEFORE), line.repeat(ROWS - BEFORE));
    place.file("f.csv", text);
    let error = place.run_in("SELECT sum(a), max(b) FROM '{}/f.csv'").unwrap_err();
    let (_, at, message) = import_error(error);
    assert_eq!(at, Some(BEFORE as u64 + 2), "{odd}: {message}");
    let error = place.import("f.csv", "t", ImportOptions::default()).unwrap_err();
    let (_, at, message) = import_error(error);
    assert_eq!(at, Some(BEFORE as u64 + 2), "{odd}: {message}");
    message
}

#[test]
fn values_that_say_more_than_the_type_found() {
    let place = Place::new();
    for (usual, odd) in [
        ("123456", "007"),
        ("123456", "+49"),
        ("123456", "-07"),
        ("123456", "1.5"),
        ("123456", "9223372036854775808"),
        ("1.5", "007"),
        ("1.5", "+1.5"),
        ("1.5", "9007199254740993"),
        ("12345678901234567890", "007"),
        ("true", "1"),
        ("true", "yes"),
        ("2024-01-31", "2024-01-31 10:30:00"),
        ("2024-01-31 10:30:00", "2024-01-31 10:30:00+02"),
        ("2024-01-31 10:30:00", "2024-01-31 10:30:00Z"),
        ("2024-01-31 10:30:00+02", "2024-01-31 10:30:00"),
        ("2024-01-31 10:30:00", "2024-01-31 10:30:00.123456789"),
    ] {
        let message = refused(&place, usual, odd);
        assert!(message.contains("sample_size -1"), "{message}");
    }
    // All rows of the sample, or a type that is given, take it.
    place.file("f.csv", format!("a,b\n{}2,007\n", "1,123456\n".repeat(BEFORE)));
    for options in ["sample_size = -1", "columns = {'b': 'VARCHAR'}"] {
        let sql = format!("SELECT b FROM read_csv('{{}}/f.csv', {options}) WHERE a = 2");
        assert_eq!(place.value(&sql), "007");
    }
    let given = "SELECT b FROM read_csv('{}/f.csv', columns = {'b': 'BIGINT'}) WHERE a = 2";
    assert_eq!(place.value(given), "7");
}

#[test]
fn whole_numbers_that_no_double_holds_stay_text() {
    let place = Place::new();
    place.file("f.csv", "n\n9007199254740993\n0.5\n");
    assert_eq!(place.rows("SELECT n FROM '{}/f.csv'"), [["9007199254740993"], ["0.5"]]);
    place.file("f.csv", "n\n9007199254740992\n0.5\n");
    assert_eq!(place.value("SELECT sum(n) FROM '{}/f.csv'"), "9007199254740992.0");
    place.file("f.csv", "n\n1e400\n0.5\n");
    assert_eq!(place.rows("SELECT n FROM '{}/f.csv'"), [["1e400"], ["0.5"]]);
}

#[test]
fn headers() {
    let place = Place::new();
    for (text, expected) in [
        (",a,b\n0,1,2\n1,3,4\n", "column0 a b"),
        ("a,,b\n0,1,2\n1,3,4\n", "a column1 b"),
        ("city\nOslo\nBern\n", "city"),
        ("a,,\nx,y,z\nu,v,w\n", "a column1 column2"),
        ("\"a\",\"\",c\n1,2,3\n", "a column1 c"),
        ("id,name,\n1,a,b\n2,c,d\n", "id name column2"),
        (",,\n1,2,3\n", "column0 column1 column2"),
        ("name,2020,2021\nx,1,2\ny,3,4\n", "column0 column1 column2"),
    ] {
        place.file("h.csv", text);
        let rows = place.rows(&place.fill_in("DESCRIBE SELECT * FROM '{}/h.csv'"));
        let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(names.join(" "), expected, "{text}");
    }
    place.file("h.csv", "city\nOslo\nBern\n");
    assert_eq!(place.value("SELECT count(*) FROM '{}/h.csv'"), "2");
}

#[test]
fn text_that_is_no_utf8() {
    let place = Place::new();
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let marked = [b"\xFF\xFE".to_vec(), utf16("name,n\nRené,1\n")].concat();
    for (bytes, expected) in [
        (b"pr\xE9nom,n\nRene,1\nPaul,2\n".to_vec(), "column name"),
        (utf16("name,n\nRene,1\n"), "encoding = 'utf-16'"),
        (marked, "encoding = 'utf-16'"),
    ] {
        place.file("f.csv", &bytes);
        for sql in ["SELECT * FROM '{}/f.csv'", "SELECT count(*) FROM '{}/f.csv'"] {
            let (_, _, message) = import_error(place.run_in(sql).unwrap_err());
            assert!(message.contains(expected), "{message}");
        }
    }
    // In a further file, which has a header of its own.
    place.file("g1.csv", "name,n\nRene,1\n");
    place.file("g2.csv", b"n\xE9me,n\nRene,1\n");
    assert!(place.run_in("SELECT * FROM '{}/g*.csv'").is_err());
    place.file("f.json", utf16("{\"a\": 1}\n"));
    let (_, _, message) = import_error(place.run_in("SELECT * FROM '{}/f.json'").unwrap_err());
    assert!(message.contains("UTF-16"), "{message}");
    // Zeros in text are text.
    place.file("z.csv", "a,b\nx\0y,1\n");
    assert_eq!(place.value("SELECT length(a) FROM '{}/z.csv'"), "3");
}

#[test]
fn very_many_columns() {
    let place = Place::new();
    let record = |columns: usize, text: &dyn Fn(usize) -> String| {
        (0..columns).map(text).collect::<Vec<_>>().join(",") + "\n"
    };
    let file = |columns: usize| {
        let header = record(columns, &|column| format!("c{column}"));
        header + &record(columns, &|column| column.to_string())
    };
    place.file("f.csv", file(12_000));
    assert_eq!(place.value("SELECT c11999 FROM '{}/f.csv'"), "11999");
    place.file("f.csv", file(100_000));
    let (_, _, message) = import_error(place.run_in("SELECT * FROM '{}/f.csv'").unwrap_err());
    assert!(message.contains("more than 65536 columns"), "{message}");
    // Records longer than the usual sample.
    let long = |column: usize| format!("{column:0>3000}x");
    let text = record(1000, &|column| format!("c{column}")) + &record(1000, &long);
    place.file("f.csv", text.clone() + &record(1000, &long));
    assert_eq!(place.value("SELECT count(c999) FROM '{}/f.csv'"), "2");
}

/// Lists and structs in fields are read as exactly as other values.
#[test]
fn nested_values_in_fields() {
    let place = Place::new();
    place.file("f.csv", "l,s\n\"[1, null]\",\"{\"\"a\"\": 1.5}\"\n");
    let read = |l: &str, s: &str| {
        let columns = format!("{{'l': '{l}', 's': '{s}'}}");
        place.run_in(&format!("SELECT l, s FROM read_csv('{{}}/f.csv', columns = {columns})"))
    };
    read("INT[]", "STRUCT(a DOUBLE)").unwrap();
    let (_, line, message) = import_error(read("INT[]", "STRUCT(a INT)").unwrap_err());
    assert!(line == Some(2) && message.contains("1.5"), "{message}");
    let (_, _, message) = import_error(read("INT[]", "STRUCT(b INT)").unwrap_err());
    assert!(message.contains("\"a\""), "{message}");
}
