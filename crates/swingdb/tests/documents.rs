//! The Rust blocks of the documents compile: each stands here once more, and is compared with the
//! document. One document is about another crate, whose tests do the same calls.

use swingdb::{
    Connection, Database, ExportOptions, ImportOptions, OpenOptions, Result, StoreOptions,
};

/// Defines a function with this body, which need not be called, and a constant that is its text.
macro_rules! block {
    (
        $(#[$attribute:meta])*
        $function:ident($($given:ident: $type:ty),*), $text:ident, { $($body:tt)* }
    ) => {
        #[expect(dead_code, reason = "only compiled")]
        $(#[$attribute])*
        fn $function($($given: $type),*) -> Result<()> {
            $($body)*
            Ok(())
        }
        const $text: &str = stringify!($($body)*);
    };
}

block!(
    #[expect(unused_variables, reason = "the block ends where the database is open")]
    durability(),
    DURABILITY,
    {
        let options = OpenOptions::default().store(StoreOptions::new("/data/taxi"));
        let taxi = Database::open_with_options("taxi", &options)?;
    }
);

block!(files(con: &Connection), FILES, {
    con.import_file("trips.csv", "trips", ImportOptions::default())?;
    con.export_file(
        "SELECT * FROM trips ORDER BY time", "trips.parquet", ExportOptions::default())?;
});

/// Documents with their blocks.
const KNOWN: [(&str, &[&str]); 2] =
    [("durability.md", &[DURABILITY]), ("import-export.md", &[FILES])];
/// Documents about crates that this one does not know.
const OTHERS: [&str; 1] = ["heap.md"];

/// The Rust blocks of a text.
fn blocks(text: &str) -> Vec<&str> {
    let parts = text.split("\n```rust\n").skip(1);
    parts.map(|part| part.split("\n```").next().unwrap_or(part)).collect()
}

/// A text without comments and white space.
fn plain(code: &str) -> String {
    let lines = code.lines().map(|line| line.split(" //").next().unwrap_or(line));
    lines.collect::<String>().split_whitespace().collect()
}

#[test]
fn documents_say_what_compiles() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let mut found = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        if path.extension().is_none_or(|end| end != "md") || OTHERS.contains(&name.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let written: Vec<_> = blocks(&text).into_iter().map(plain).collect();
        let known = KNOWN.iter().find(|(document, _)| *document == name);
        let known: Vec<_> =
            known.map_or(&[][..], |(_, blocks)| blocks).iter().map(|b| plain(b)).collect();
        assert_eq!(written, known, "{name}: add the block to this test, too");
        found += written.len();
    }
    assert_eq!(found, 2);
}
