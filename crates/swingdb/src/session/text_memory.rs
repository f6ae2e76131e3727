//! Memory that a statement's text takes, with the trees made of it.

use datafusion::execution::memory_pool::MemoryReservation;
use swingdb_common::error::Result;
use swingdb_common::runtime::memory::reserve;

use crate::session::Session;

/// Texts up to this size are not asked for.
const UNASKED_TEXT: usize = 64 << 10;
/// What a byte of text takes: a long literal is in the tokens, the tree, the plan and its copies.
const PER_BYTE: u64 = 8;
/// What a token takes as a part of trees and plans, at its peak.
const PER_TOKEN: u64 = 600;

/// Memory for what is made of a statement's text; nothing for an ordinary one.
pub(crate) fn for_text(sql: &str, session: &Session) -> Result<Option<MemoryReservation>> {
    if sql.len() <= UNASKED_TEXT {
        return Ok(None);
    }
    let bytes = PER_BYTE * sql.len() as u64 + PER_TOKEN * tokens(sql) as u64;
    reserve("text of the statement", &session.memory()?, bytes).map(Some)
}

/// About how many tokens there are: words and signs outside of texts in quotes.
fn tokens(sql: &str) -> usize {
    let (mut quoted, mut in_word, mut count) = (false, false, 0);
    for byte in sql.bytes() {
        let is_word = byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.' || byte >= 0x80;
        quoted ^= byte == b'\'';
        count += usize::from(!(quoted || is_word && in_word));
        in_word = is_word;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_quotes_are_one_token_each() {
        assert_eq!(tokens("SELECT 'a b c d e f' , 12"), 7);
        assert_eq!(tokens("(1,2),(3,4)"), 11);
        assert!(tokens(&format!("'{}'", "a b ".repeat(1000))) < 3);
    }
}
