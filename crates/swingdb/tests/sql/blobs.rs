//! Bytes: how they are written as text, and the functions of them.

use super::common::fixture;
use swingdb::Error;

#[test]
fn text_as_bytes_and_back() {
    let f = fixture();
    for (sql, expected) in [
        (r"SELECT '\xAA\xff'::BLOB", "aaff"),
        (r"SELECT BLOB '\x00\x80' || 'a'::BLOB", "008061"),
        (r"SELECT hex('a\x0Ab'::BLOB)", "610A62"),
        (r"SELECT 'a\x5C\x22\x27 ~\x7F'::BLOB::VARCHAR", r"a\x5C\x22\x27 ~\x7F"),
        ("SELECT 'ü'::BLOB::VARCHAR", r"\xC3\xBC"),
        (r"SELECT ['\x01'::BLOB, NULL::BLOB]::VARCHAR", r"['\\x01', NULL]"),
        (r"SELECT TRY_CAST('\x0' AS BLOB) IS NULL, TRY_CAST('\n' AS BLOB) IS NULL", "true|true"),
        (r"SELECT encode('ü\x41')", "c3bc5c783431"),
        (r"SELECT decode('\xC3\xBC'::BLOB), decode(encode('x'))", "ü|x"),
        (r"SELECT octet_length('\xAA\xBB'::BLOB), length('\xAA\xBB'::BLOB), strlen('ü')", "2|2|2"),
        (r"SELECT octet_length(NULL) IS NULL, decode(NULL) IS NULL", "true|true"),
        (r"SELECT '\x61'::BLOB = 'a', '\xAA'::BLOB < '\xAB'", "true|true"),
        (r"SELECT md5('\x61'::BLOB) = md5('a'), sha256('\x61'::BLOB) = sha256('a')", "true|true"),
    ] {
        assert_eq!(f.value(sql), expected, "{sql}");
    }
    for wrong in [r"'\x0'::BLOB", r"'a\'::BLOB", r"BLOB '\xGG'"] {
        let error = f.error(&format!("SELECT {wrong}"));
        assert!(matches!(error, Error::Conversion { .. }), "{wrong}: {error}");
    }
    assert!(f.error(r"SELECT decode('\xFF'::BLOB)").to_string().contains("no UTF-8"));
}

/// All bytes there are, through text, a table and a file.
#[test]
fn all_bytes_read_back() {
    let f = fixture();
    f.run("CREATE TABLE t (id INT, b BLOB, c BINARY(2))");
    f.run(
        r"INSERT INTO t SELECT range, '\x' || lpad(to_hex(range), 2, '0') || 'z',
          '\x' || lpad(to_hex(range), 2, '0') || '\x00' FROM range(256)",
    );
    f.run("INSERT INTO t VALUES (256, NULL, NULL), (257, '', '\\x00\\x01')");
    let right = "SELECT count(*) FROM t WHERE hex(b) = lpad(upper(to_hex(id)), 2, '0') || '7A' \
                 AND hex(c) = lpad(upper(to_hex(id)), 2, '0') || '00'";
    assert_eq!(f.value(right), "256");
    let back = "SELECT count(*) FROM t WHERE b::VARCHAR::BLOB IS DISTINCT FROM b \
                OR c::VARCHAR::BINARY(2) IS DISTINCT FROM c";
    assert_eq!(f.value(back), "0");
    let file = f.home.path().join("bytes.csv");
    f.run(&format!("COPY t TO '{}'", file.display()));
    f.run("CREATE TABLE u (id INT, b BLOB, c BINARY(2))");
    f.run(&format!("COPY u FROM '{}'", file.display()));
    let lost = "SELECT count(*) FROM t JOIN u USING (id) WHERE t.b IS DISTINCT FROM u.b \
                OR t.c IS DISTINCT FROM u.c";
    assert_eq!((f.value(lost), f.value("SELECT count(*) FROM u")), ("0".into(), "258".into()));
    let texts = format!(
        "SELECT count(*) FROM t JOIN read_csv('{}', all_varchar = true) AS x \
                         ON t.id = x.id::INT WHERE t.b::VARCHAR = x.b",
        file.display()
    );
    assert_eq!(f.value(&texts), "257");
}
