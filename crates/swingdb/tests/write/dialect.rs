//! Runs every example of `docs/sql.md`.
//!
//! Each section (`## ...`) gets a new database. A block of kind `sql` must succeed, and a block of
//! kind `text` after it is what its last statement returns; a block of kind `sql error` must fail,
//! and the text is part of the message.

use swingdb::Database;

use crate::support::{Db, text};

struct Example {
    section: String,
    sql: String,
    fails: bool,
    expected: Option<String>,
}

fn examples(page: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut section = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title.to_string();
        }
        let Some(kind) = line.strip_prefix("```") else { continue };
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let body = body.join("\n");
        match kind {
            "sql" | "sql error" => {
                let fails = kind != "sql";
                examples.push(Example {
                    section: section.clone(),
                    sql: body,
                    fails,
                    expected: None,
                });
            }
            "text" => examples.last_mut().expect("a statement before").expected = Some(body),
            other => panic!("a block of kind {other:?}"),
        }
    }
    examples
}

#[test]
fn every_example_does_what_the_page_says() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sql.md"));
    let examples = examples(&page.expect("docs/sql.md"));
    assert!(examples.len() > 15, "only {} examples found", examples.len());
    let mut db = Db::new();
    let mut section = "";
    let mut _elsewhere = None;
    for example in &examples {
        if example.section != section {
            section = &example.section;
            db = Db::new();
            _elsewhere = (section == "Snapshots").then(|| elsewhere(&db));
        }
        let result = db.con.query(&example.sql).and_then(|rows| rows.collect());
        match (result, example.fails) {
            (Ok(rows), false) => {
                if let Some(expected) = &example.expected {
                    assert_eq!(text(&rows).join("\n"), *expected, "{section}: {}", example.sql);
                }
            }
            (Err(error), true) => {
                let expected = example.expected.as_deref().unwrap_or_default();
                let message = error.to_string();
                assert!(message.contains(expected), "{section}: {}: {message}", example.sql);
            }
            (Ok(_), true) => panic!("{section}: succeeded: {}", example.sql),
            (Err(error), false) => panic!("{section}: {}: {error}", example.sql),
        }
    }
}

/// The database that the page's section on snapshots attaches.
fn elsewhere(db: &Db) -> Database {
    let database = Database::open_in(db.home.path(), "elsewhere").unwrap();
    let con = database.connect();
    con.query("CREATE TABLE measurements AS SELECT range AS id, range AS value FROM range(3)")
        .unwrap();
    database.share().unwrap();
    database
}
