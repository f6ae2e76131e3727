//! Names that PostgreSQL's clients write with their schema.
//!
//! | written | becomes |
//! |---|---|
//! | `pg_catalog.version()` | `version()` |
//! | `a::pg_catalog.text`, `CAST(a AS pg_catalog.text)` | `a::text`, `CAST(a AS text)` |
//! | `a OPERATOR(pg_catalog.~) b` | `a ~ b` |
//! | `a COLLATE pg_catalog.default` | `a` |
//! | `polroles = '{0}'`, of `pg_policy` | `polroles = [0]` |
//! | `array(SELECT f(x) FROM pg_catalog.unnest(a) x)` | `list_transform(a, lambda x: f(x))` |
//! | `FROM pg_catalog.unnest(a) x` | `FROM unnest(a) x(x)`: the column has the name of the alias |
//!
//! Functions, operators and types have no schemas here. Tables of `pg_catalog` keep theirs.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::text::tokens::Pass;

const SCHEMA: &str = "pg_catalog";

/// Takes the schema off, where it is not that of a table.
pub(crate) fn rewrite(pass: &mut Pass) {
    let mut word = 0;
    while word < pass.len() {
        roles_of_policy(pass, word);
        // What follows has moved to the left.
        word = match is_schema(pass, word) && at_schema(pass, word) {
            true => word.saturating_sub(2),
            false => word + 1,
        };
    }
}

/// The list of roles that psql compares with, in PostgreSQL's form.
fn roles_of_policy(pass: &mut Pass, word: usize) {
    let of_all = Token::SingleQuotedString("{0}".to_string());
    if pass.is_word(word, "polroles")
        && matches!(pass.token(word + 1), Some(Token::Eq | Token::Neq))
        && pass.token(word + 2) == Some(&of_all)
    {
        let list = [Token::LBracket, Token::Number("0".to_string(), false), Token::RBracket];
        pass.replace(word + 2, 1, list.to_vec());
    }
}

/// `pg_catalog.` at a word.
fn is_schema(pass: &Pass, word: usize) -> bool {
    let name = matches!(pass.token(word), Some(Token::Word(name))
        if name.value.eq_ignore_ascii_case(SCHEMA));
    name && pass.token(word + 1) == Some(&Token::Period)
}

/// Takes the schema at a word off, if it is not that of a table.
fn at_schema(pass: &mut Pass, word: usize) -> bool {
    let Some(before) = word.checked_sub(1) else { return false };
    let is_default = matches!(pass.token(word + 2), Some(Token::Word(name))
        if name.value.eq_ignore_ascii_case("default"));
    if pass.is_word(before, "collate") && is_default {
        pass.splice(before..word + 3, Vec::new());
        return true;
    }
    if let Some(operator) = before.checked_sub(1)
        && pass.is_word(operator, "operator")
        && pass.token(before) == Some(&Token::LParen)
        && let Some(close) = pass.closing(before)
        && close == word + 3
        && let Some(token) = pass.token(word + 2).cloned()
    {
        pass.replace(operator, close + 1 - operator, vec![token]);
        return true;
    }
    let is_call = pass.token(word + 3) == Some(&Token::LParen);
    let is_type = pass.token(before) == Some(&Token::DoubleColon) || pass.is_word(before, "as");
    if is_call && pass.is_word(word + 2, "unnest") {
        if transformed_list(pass, word) {
            return true;
        }
        name_column(pass, word + 3);
        pass.splice(word..word + 2, Vec::new());
        return true;
    }
    let stands_for_table = ["from", "join"].iter().any(|from| pass.is_word(before, from));
    let goes = matches!(pass.token(word + 2), Some(Token::Word(_)))
        && (is_type || is_call && !stands_for_table);
    if goes {
        pass.splice(word..word + 2, Vec::new());
    }
    goes
}

/// `array(SELECT f(x) FROM pg_catalog.unnest(l) x)`, with the schema at a word, is the list with
/// each element changed.
fn transformed_list(pass: &mut Pass, word: usize) -> bool {
    let Some(close) = pass.closing(word + 3) else { return false };
    let begins = |at: usize| {
        pass.is_word(at, "array")
            && pass.token(at + 1) == Some(&Token::LParen)
            && pass.is_word(at + 2, "select")
            && pass.closing(at + 1) == Some(close + 2)
    };
    let Some(begin) = (0..word).rev().find(|at| begins(*at)) else { return false };
    if !pass.is_word(word - 1, "from") || (begin + 3..word - 1).any(|at| pass.is_word(at, "from")) {
        return false;
    }
    let tokens = |range: std::ops::Range<usize>| range.filter_map(|at| pass.token(at).cloned());
    let word_of = |text: &str| Token::make_word(text, None);
    let mut made = vec![word_of("list_transform"), Token::LParen];
    made.extend(tokens(word + 4..close));
    made.extend([Token::Comma, word_of("lambda")]);
    made.extend(tokens(close + 1..close + 2));
    made.push(Token::Colon);
    made.extend(tokens(begin + 3..word - 1));
    made.push(Token::RParen);
    pass.replace(begin, close + 3 - begin, made);
    true
}

/// Gives the column of a table function, whose arguments begin at a word, the name of its alias.
fn name_column(pass: &mut Pass, open: usize) {
    let Some(close) = pass.closing(open) else { return };
    let Some(Token::Word(alias)) = pass.token(close + 1).cloned() else { return };
    let is_alias = alias.quote_style.is_some() || alias.keyword == Keyword::NoKeyword;
    if is_alias && pass.token(close + 2) != Some(&Token::LParen) {
        let name = Token::Word(alias);
        let named = [name.clone(), Token::LParen, name, Token::RParen];
        pass.replace(close + 1, 1, named.to_vec());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parser;

    fn rewritten(sql: &str) -> String {
        let mut pass = Pass::new(parser::tokens(sql).unwrap());
        rewrite(&mut pass);
        pass.finish().iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn schemas_of_functions_types_and_operators_go() {
        for (given, expected) in [
            ("SELECT pg_catalog.version()", "SELECT version()"),
            ("SELECT a::pg_catalog.text", "SELECT a::text"),
            ("SELECT a OPERATOR(pg_catalog.~) b", "SELECT a ~ b"),
            ("SELECT a COLLATE pg_catalog.default, b", "SELECT a , b"),
            ("SELECT a COLLATE pg_catalog.default AND pg_catalog.f(b)", "SELECT a  AND f(b)"),
            ("SELECT a OPERATOR(pg_catalog.=) pg_catalog.f(b)", "SELECT a = f(b)"),
            ("SELECT 1 FROM pg_catalog.unnest(a) x", "SELECT 1 FROM unnest(a) x(x)"),
            (
                "SELECT array(SELECT 'a' || x FROM pg_catalog.unnest(t.b) x) FROM t",
                "SELECT list_transform(t.b,lambdax:'a'||x) FROM t",
            ),
            ("SELECT 1 FROM pg_catalog.unnest(a)", "SELECT 1 FROM unnest(a)"),
            ("SELECT polroles = '{0}', '{0}'", "SELECT polroles = [0], '{0}'"),
            ("SELECT * FROM pg_catalog.pg_class", "SELECT * FROM pg_catalog.pg_class"),
            ("SELECT pg_catalog.pg_class.oid", "SELECT pg_catalog.pg_class.oid"),
        ] {
            assert_eq!(rewritten(given), expected);
        }
    }
}
