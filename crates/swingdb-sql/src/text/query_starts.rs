//! Where queries begin that do not begin with SELECT: with FROM, PIVOT or UNPIVOT.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::text::tokens::Pass;

/// What is known of the query at one depth of brackets.
#[derive(Clone, Copy, Default)]
struct Level {
    /// After a SELECT whose FROM is still to come.
    selecting: bool,
    /// After WITH or INSERT, whose query is still to come.
    awaiting: bool,
    /// A query has begun, so that AS gives names.
    begun: bool,
}

/// The words that begin a query, in ascending order.
pub(crate) fn of_queries(pass: &Pass) -> Vec<usize> {
    let mut levels = vec![Level::default()];
    let mut found = Vec::new();
    for word in 0..pass.len() {
        match pass.token(word) {
            Some(Token::LParen) => levels.push(Level::default()),
            Some(Token::RParen) if levels.len() > 1 => {
                levels.pop();
            }
            Some(Token::SemiColon) => levels = vec![Level::default()],
            _ => {
                if levels.last_mut().is_some_and(|level| begins(pass, word, level)) {
                    found.push(word);
                }
            }
        }
    }
    found
}

/// Whether a query begins with this word, which is no SELECT.
fn begins(pass: &Pass, word: usize, level: &mut Level) -> bool {
    use Keyword::{
        DELETE, EXCEPT, FROM, INSERT, INTERSECT, MERGE, PIVOT, SELECT, UNION, UNPIVOT, UPDATE, WITH,
    };
    match pass.keyword(word) {
        Some(SELECT) => *level = Level { selecting: true, awaiting: false, begun: true },
        Some(UNION | EXCEPT | INTERSECT) => *level = Level::default(),
        Some(WITH | INSERT) if !level.selecting => level.awaiting = true,
        Some(UPDATE | DELETE | MERGE) => level.awaiting = false,
        Some(FROM) if is_comparison(pass, word) => {}
        Some(FROM | PIVOT | UNPIVOT) => {
            let first = stands_first(pass, word, *level) || level.awaiting;
            let begins = !level.selecting && first;
            if begins || pass.keyword(word) == Some(FROM) {
                *level = Level { begun: true, ..Level::default() };
            }
            return begins;
        }
        _ => {}
    }
    false
}

/// `IS [NOT] DISTINCT FROM`.
fn is_comparison(pass: &Pass, from: usize) -> bool {
    let before = |count| from.checked_sub(count).and_then(|word| pass.keyword(word));
    let is = match before(2) {
        Some(Keyword::NOT) => before(3),
        other => other,
    };
    before(1) == Some(Keyword::DISTINCT) && is == Some(Keyword::IS)
}

/// Whether what is before a word is what a query follows.
fn stands_first(pass: &Pass, from: usize, level: Level) -> bool {
    use Keyword::{
        ALL, ANALYZE, AS, DESC, DESCRIBE, DISTINCT, EXCEPT, EXPLAIN, INTERSECT, NAME, TABLE, UNION,
        VERBOSE,
    };
    let Some(before) = from.checked_sub(1) else { return true };
    match pass.token(before) {
        Some(Token::SemiColon) => true,
        _ if level.begun => false,
        Some(Token::LParen) => !(before > 0 && pass.is_word(before - 1, "trim")),
        _ => {
            let first = [
                ALL, ANALYZE, AS, DESC, DESCRIBE, DISTINCT, EXCEPT, EXPLAIN, INTERSECT, NAME,
                TABLE, UNION, VERBOSE,
            ];
            pass.is_word(before, "summarize")
                || pass.keyword(before).is_some_and(|keyword| first.contains(&keyword))
        }
    }
}
