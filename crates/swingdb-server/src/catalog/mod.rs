//! `pg_catalog`, for the tools of PostgreSQL, as far as the engine has the things in it.
//!
//! A statement that names something of PostgreSQL's gets its text rewritten ([`rewrite`]). Its
//! tables ([`tables`]) are made for it, from the state that the session is at, and dropped again.
//! Functions ([`functions`]) are added to the session with its first such statement. Indexes,
//! triggers, policies and others are empty tables.

mod functions;
mod rewrite;
mod tables;
mod types;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use swingdb::{Connection, QueryResult, Result, Value};

pub use tables::Names;

/// The catalog of one session.
#[derive(Default)]
pub struct Catalog {
    has_functions: AtomicBool,
}

/// Whether a statement may name something of PostgreSQL's. A wrong yes only costs time.
pub fn is_asked(sql: &str) -> bool {
    const WORDS: [&[u8]; 9] = [
        b"pg_",
        b"regclass",
        b"regtype",
        b"regproc",
        b"current_user",
        b"session_user",
        b"_privilege",
        b"current_setting",
        b"_description",
    ];
    let bytes = sql.as_bytes();
    let is = |at: usize, word: &[u8]| {
        bytes.get(at..at + word.len()).is_some_and(|here| here.eq_ignore_ascii_case(word))
    };
    let begins = |byte: u8| matches!(byte | 0x20, b'p' | b'r' | b'c' | b's' | 0x7f);
    (0..bytes.len()).any(|at| begins(bytes[at]) && WORDS.iter().any(|word| is(at, word)))
}

impl Catalog {
    /// Runs a statement that may name something of PostgreSQL's.
    pub fn run(&self, connection: &Connection, sql: &str, values: &[Value]) -> Result<QueryResult> {
        let names = Arc::new(Names::of(connection)?);
        if !self.has_functions.swap(true, Ordering::Relaxed) {
            functions::add(connection)?;
        }
        functions::add_about(connection, &names)?;
        let rewritten = rewrite::rewrite(sql);
        let made = tables::register(connection, &names, &rewritten)?;
        let result = connection.execute(&rewritten, values);
        for name in made {
            connection.deregister(name);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_about_the_catalog_are_told_from_others() {
        assert!(is_asked("SELECT * FROM PG_catalog.pg_class"));
        assert!(is_asked("SELECT 't'::regclass") && is_asked("select CURRENT_USER"));
        assert!(is_asked("SELECT has_table_privilege('t', 'SELECT')"));
        assert!(!is_asked("SELECT id, page FROM trips WHERE speed > 3 AND user_id = 4"));
    }
}
