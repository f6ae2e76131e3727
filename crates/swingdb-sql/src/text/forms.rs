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
//! | `[1, 2, ]`, `f(a, )`, `VALUES (1), ` | `[1, 2]`, `f(a)`, `VALUES (1)` |
//! | `TIMESTAMP_S '2024-01-01'` | `'2024-01-01'::TIMESTAMP_S`; `TIMESTAMP_MS` and so on, too |
//! | `a ASOF JOIN b ON c` | [`asof`]: `a ASOF JOIN b MATCH_CONDITION (*) ON c` |
//! | `'a'`, and `'b'` in a later line | `'ab'`; in one line they are an error |
//! | `LIMIT 40%` | [`limit_percent`]: `LIMIT #percent(40)` |
//! | `sum(x) FILTER (a)` | [`filter_clause`]: `sum(x) FILTER (WHERE a)` |
//! | `MAP {'k' || i: v}` | [`map_keys`]: `MAP {('k' || i): v}` |

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use swingdb_common::error::{Error, Result};

use crate::text::tokens::Pass;
use crate::text::{
    asof, comprehensions, filter_clause, from_first, grouping_sets, limit_percent, map_keys, pivot,
    postgres, relation_statements, star_patterns, using_sample,
};

/// Rewrites what the parser does not know into what it does, token by token.
pub(crate) fn rewrite_tokens(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let mut pass = Pass::new(without_last_commas(tokens));
    adjacent_texts(&mut pass)?;
    relation_statements::rewrite(&mut pass);
    postgres::rewrite(&mut pass);
    comprehensions::rewrite(&mut pass);
    star_patterns::rewrite(&mut pass);
    using_sample::rewrite(&mut pass);
    limit_percent::rewrite(&mut pass);
    pivot::rewrite(&mut pass);
    from_first::rewrite(&mut pass);
    filter_clause::rewrite(&mut pass);
    grouping_sets::rewrite_tokens(&mut pass);
    map_keys::rewrite(&mut pass);
    powers(&mut pass);
    typed_texts(&mut pass);
    asof::rewrite_tokens(&mut pass)?;
    Ok(pass.finish())
}

/// `'a'` and `'b'` in a later line are one text, as SQL says. In one line a comma or an operator is
/// missing; the parser would take the second for the name of a column.
fn adjacent_texts(pass: &mut Pass) -> Result<()> {
    let mut word = 0;
    while word + 1 < pass.len() {
        // Names and values of options stand beside each other.
        if pass.is_word(word, "options") && pass.token(word + 1) == Some(&Token::LParen) {
            word = pass.closing(word + 1).unwrap_or(pass.len());
            continue;
        }
        let text = |at| match pass.with_span(at) {
            Some(TokenWithSpan { token: Token::SingleQuotedString(text), span }) => {
                Some((text, *span))
            }
            _ => None,
        };
        let (Some((first, place)), Some((second, behind))) = (text(word), text(word + 1)) else {
            word += 1;
            continue;
        };
        if place.end.line == behind.start.line {
            return Err(Error::Parse {
                message: format!("expected a comma or an operator before the text '{second}'"),
                line: Some(behind.start.line),
                column: Some(behind.start.column),
            });
        }
        let joined = Token::SingleQuotedString(format!("{first}{second}"));
        pass.splice(
            word..word + 2,
            vec![TokenWithSpan { token: joined, span: place.union(&behind) }],
        );
    }
    Ok(())
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

/// `TIMESTAMP_S '2024-01-01'`: the parser knows such constants of the standard's types alone.
fn typed_texts(pass: &mut Pass) {
    let types = ["timestamp_s", "timestamp_ms", "timestamp_ns"];
    let mut word = 0;
    while word < pass.len() {
        let is_cast = word > 0 && pass.token(word - 1) == Some(&Token::DoubleColon);
        if !is_cast
            && types.iter().any(|of| pass.is_word(word, of))
            && let (Some(of), Some(text @ Token::SingleQuotedString(_))) =
                (pass.token(word).cloned(), pass.token(word + 1).cloned())
        {
            pass.replace(word, 2, vec![text, Token::DoubleColon, of]);
        }
        word += 1;
    }
}

/// Words before `(`, behind which a single value and a comma are a row.
const BEFORE_ROWS: [&str; 19] = [
    "and",
    "as",
    "by",
    "case",
    "distinct",
    "else",
    "from",
    "having",
    "limit",
    "not",
    "offset",
    "on",
    "or",
    "returning",
    "select",
    "set",
    "then",
    "when",
    "where",
];

/// What is known of brackets that are open.
#[derive(Default)]
struct Brackets {
    /// Whether a comma behind the only element of them says nothing.
    is_list: bool,
    commas: usize,
    /// Whether the keys of GROUP BY, ORDER BY or PARTITION BY come here.
    are_keys: bool,
}

/// Whether a word is the BY behind which keys come.
fn is_before_keys(before: Option<&Token>, word: &Word) -> bool {
    let Some(Token::Word(before)) = before else { return false };
    word.quote_style.is_none()
        && word.keyword == Keyword::BY
        && before.quote_style.is_none()
        && matches!(before.keyword, Keyword::GROUP | Keyword::ORDER | Keyword::PARTITION)
}

/// Whether a word begins what comes behind keys.
fn is_behind_keys(word: &Word) -> bool {
    use Keyword::{EXCEPT, HAVING, INTERSECT, LIMIT, ORDER, QUALIFY, UNION, WINDOW};
    word.quote_style.is_none()
        && [EXCEPT, HAVING, INTERSECT, LIMIT, ORDER, QUALIFY, UNION, WINDOW].contains(&word.keyword)
}

/// `[1, 2, ]`: a comma behind the last element of a list says nothing, nor does one behind the last
/// column of a table, the last row of VALUES, the last argument, the last key of GROUP BY.
fn without_last_commas(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut before: Option<Token> = None;
    let mut comma = None;
    let mut open: Vec<Brackets> = Vec::new();
    let mut outside = Brackets::default();
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => {}
            Token::Comma => {
                let begins = [Token::LBracket, Token::LBrace, Token::LParen, Token::Comma];
                let is_behind = before.as_ref().is_some_and(|before| !begins.contains(before));
                comma = is_behind.then_some(kept.len());
                open.iter_mut().rev().take(1).for_each(|brackets| brackets.commas += 1);
                before = Some(Token::Comma);
            }
            other => {
                let ends = match other {
                    Token::RBracket | Token::RBrace => true,
                    Token::RParen => {
                        open.last().is_some_and(|last| last.is_list || last.commas > 1)
                    }
                    Token::SemiColon | Token::EOF => open.is_empty(),
                    Token::Word(word) => {
                        let place = open.last_mut().unwrap_or(&mut outside);
                        let ends = place.are_keys && is_behind_keys(word);
                        place.are_keys = is_before_keys(before.as_ref(), word)
                            || place.are_keys && !is_behind_keys(word);
                        ends
                    }
                    _ => false,
                };
                if let Some(at) = comma.take()
                    && ends
                {
                    kept.remove(at);
                }
                match other {
                    Token::LBracket | Token::LBrace | Token::LParen => {
                        let is_list = *other != Token::LParen || is_before_list(before.as_ref());
                        open.push(Brackets { is_list, ..Brackets::default() });
                    }
                    Token::RBracket | Token::RBrace | Token::RParen => drop(open.pop()),
                    _ => {}
                }
                before = Some(other.clone());
            }
        }
        kept.push(token);
    }
    if let Some(at) = comma
        && open.is_empty()
    {
        kept.remove(at);
    }
    kept
}

/// Whether `(` behind a token begins a list, and no row of one value.
fn is_before_list(before: Option<&Token>) -> bool {
    match before {
        Some(Token::Word(word)) => {
            word.quote_style.is_some()
                || !BEFORE_ROWS.iter().any(|row| word.value.eq_ignore_ascii_case(row))
        }
        _ => false,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::text::parser::parse;
    use crate::text::statement::Parsed;

    #[test]
    fn texts_of_a_type() {
        let found = parsed("SELECT TIMESTAMP_S '2024-01-01', 'x'::timestamp_ns, timestamp_ms");
        assert_eq!(found, "SELECT '2024-01-01'::TIMESTAMP_S, 'x'::timestamp_ns, timestamp_ms");
    }

    #[test]
    fn a_comma_may_end_a_list() {
        assert_eq!(parsed("SELECT [1, 2 , ], [[a,],]"), "SELECT [1, 2], [[a]]");
        assert_eq!(parsed("SELECT f(1, ), (1, 2,), a, FROM t"), "SELECT f(1), (1, 2), a FROM t");
        assert_eq!(
            parsed("INSERT INTO t (a, ) VALUES (1), (2),"),
            "INSERT INTO t (a) VALUES (1), (2)"
        );
        assert_eq!(parsed("CREATE TABLE t (a INT, );"), "CREATE TABLE t (a INT)");
        assert_eq!(
            parsed("SELECT a FROM t GROUP BY a, ORDER BY a, LIMIT 1"),
            "SELECT a FROM t GROUP BY a ORDER BY a LIMIT 1"
        );
        let columns = "CREATE TABLE t (a INT, having INT)";
        assert_eq!(parsed(columns), columns);
        for wrong in ["SELECT [,]", "SELECT [1,,]", "SELECT (1,)", "SELECT f(,)"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    /// A statement as it is parsed, its tokens rewritten.
    pub(crate) fn parsed(sql: &str) -> String {
        match parse(sql).unwrap().pop_front() {
            Some(Parsed::Sql(statement)) => statement.to_string(),
            other => panic!("{sql}: {other:?}"),
        }
    }
}
