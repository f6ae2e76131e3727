//! `sum(x) FILTER (a > 1)`: the parser wants `FILTER (WHERE a > 1)`.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::text::tokens::Pass;

/// Puts WHERE into each FILTER behind a call that has none.
pub(crate) fn rewrite(pass: &mut Pass) {
    let is_bare = |word: &usize| {
        let behind = word + 2;
        pass.is_word(*word, "FILTER")
            && pass.token(word + 1) == Some(&Token::LParen)
            && pass.keyword(behind) != Some(Keyword::WHERE)
            && is_behind_call(pass, *word)
    };
    let found: Vec<usize> = (1..pass.len()).filter(is_bare).map(|filter| filter + 2).collect();
    pass.insert_before(&found, &[Token::make_keyword("WHERE")]);
}

/// Whether `name(...)` or `WITHIN GROUP (...)` comes before a word: a relation in brackets may be
/// called `filter`, and its columns follow.
fn is_behind_call(pass: &Pass, word: usize) -> bool {
    let Some(opening) = opening(pass, word - 1) else { return false };
    match opening.checked_sub(1).and_then(|name| pass.token(name)) {
        Some(Token::Word(name)) => {
            let relation = [Keyword::FROM, Keyword::JOIN, Keyword::LATERAL];
            name.quote_style.is_some() || !relation.contains(&name.keyword)
        }
        _ => false,
    }
}

/// The bracket that a closing one belongs to.
fn opening(pass: &Pass, closing: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for word in (0..=closing).rev() {
        match pass.token(word) {
            Some(Token::RParen) => depth += 1,
            Some(Token::LParen) => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(word);
                }
            }
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::text::forms::tests::parsed;

    #[test]
    fn where_is_put_in() {
        for (given, expected) in [
            (
                "SELECT count(*) FILTER (a = (1)), sum(b) FILTER (WHERE c) FROM t",
                "SELECT count(*) FILTER (WHERE a = (1)), sum(b) FILTER (WHERE c) FROM t",
            ),
            ("SELECT max(f(a)) FILTER (b) OVER ()", "SELECT max(f(a)) FILTER (WHERE b) OVER ()"),
            ("SELECT filter(l, x -> x > 1) FROM t", "SELECT filter(l, x -> x > 1) FROM t"),
        ] {
            assert_eq!(parsed(given), expected);
        }
        assert_eq!(
            parsed("SELECT a FROM (SELECT 1) filter (a)"),
            "SELECT a FROM (SELECT 1) filter (a)"
        );
    }
}
