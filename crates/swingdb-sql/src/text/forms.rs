//! Forms that the parser does not know, rewritten token by token into forms that it does: all
//! passes, in their order.
//!
//! | this | becomes |
//! |---|---|
//! | `FROM t WHERE i = 3` | [`from_first`]: `SELECT * FROM t WHERE i = 3` |
//! | `FROM t WHERE a USING SAMPLE 5` | [`using_sample`]: `FROM t TABLESAMPLE (5) WHERE a` |
//! | `SELECT * LIKE 'k%'` | [`star_patterns`]: `COLUMNS(*, lambda name: name LIKE 'k%')` |
//! | `[x * 2 FOR x IN l IF x > 1]` | [`comprehensions`]: `list_transform(list_filter(...), ...)` |
//! | `FROM (DESCRIBE t)` | [`relation_statements`]: a table of what that tells |
//! | `pg_catalog.version()` | [`postgres`]: `version()` |
//! | `[1, 2, ]` | `[1, 2]` |
//! | `sum(x) FILTER (a)` | [`filter_clause`]: `sum(x) FILTER (WHERE a)` |

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::text::tokens::Pass;
use crate::text::{
    asof, comprehensions, filter_clause, from_first, grouping_sets, pivot, postgres,
    relation_statements, star_patterns, using_sample,
};

/// Rewrites what the parser does not know into what it does, token by token.
pub(crate) fn rewrite_tokens(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut pass = Pass::new(tokens);
    relation_statements::rewrite(&mut pass);
    postgres::rewrite(&mut pass);
    comprehensions::rewrite(&mut pass);
    star_patterns::rewrite(&mut pass);
    using_sample::rewrite(&mut pass);
    pivot::rewrite(&mut pass);
    from_first::rewrite(&mut pass);
    filter_clause::rewrite(&mut pass);
    grouping_sets::rewrite_tokens(&mut pass);
    powers(&mut pass);
    last_commas(&mut pass);
    asof::rewrite_tokens(&mut pass);
    pass.finish()
}

/// `2 ** 3`: two stars without anything between them.
fn powers(pass: &mut Pass) {
    let mut word = 0;
    while word + 1 < pass.len() {
        let star = |at| pass.with_span(at).filter(|t: &&TokenWithSpan| t.token == Token::Mul);
        if let (Some(first), Some(second)) = (star(word), star(word + 1))
            && first.span.end == second.span.start
        {
            pass.replace(word, 2, vec![Token::Caret]);
        }
        word += 1;
    }
}

/// `[1, 2, ]`: a comma behind the last element of a list says nothing.
fn last_commas(pass: &mut Pass) {
    let is = |word: usize, token: &Token, pass: &Pass| pass.token(word) == Some(token);
    for word in (1..pass.len()).rev() {
        if is(word, &Token::Comma, pass)
            && is(word + 1, &Token::RBracket, pass)
            && !is(word - 1, &Token::LBracket, pass)
            && !is(word - 1, &Token::Comma, pass)
        {
            pass.replace(word, 1, Vec::new());
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::text::parser::parse;
    use crate::text::statement::Parsed;

    /// A statement as it is parsed, its tokens rewritten.
    pub(crate) fn parsed(sql: &str) -> String {
        match parse(sql).unwrap().pop_front() {
            Some(Parsed::Sql(statement)) => statement.to_string(),
            other => panic!("{sql}: {other:?}"),
        }
    }
}
