//! Syntax of types and statements that the SQL parser does not know, rewritten token by token into
//! syntax it does.
//!
//! | written | becomes |
//! |---|---|
//! | `STRUCT(a INT, b VARCHAR)` as a type | `STRUCT<a INT, b VARCHAR>` |
//! | `CREATE TABLE t (a, b) AS ...` | `CREATE TABLE t (a ANY TYPE, b ANY TYPE) AS ...` |
//! | `CREATE TABLE t (a INT, b AS (a + 1))` | `CREATE TABLE t (a INT, b ANY TYPE AS (a + 1))` |
//! | `INSERT INTO t BY NAME SELECT ...` | `INSERT INTO t AS t PARTITION (*) SELECT ...` |
//! | `INSERT INTO t FROM s`, `INSERT INTO t BY POSITION FROM s` | `INSERT INTO t AS t FROM s` |
//! | `INSERT INTO t (VALUES ...)` | `INSERT INTO t VALUES ...` |
//! | `MERGE ... WHEN MATCHED THEN DO NOTHING` | `... THEN UPDATE SET ROW = * WHERE FALSE` |
//! | `MERGE ... WHEN NOT MATCHED THEN DO NOTHING` | `... THEN INSERT ROW WHERE FALSE` |
//! | `MERGE ... THEN UPDATE SET *`, `UPDATE BY NAME`, `UPDATE` | `... THEN UPDATE SET ROW = *` |
//! | `MERGE ... THEN INSERT *`, `INSERT BY NAME`, `INSERT` | `... THEN INSERT ROW` |
//! | `MERGE ... WHEN MATCHED THEN ERROR 'x'` | `... THEN UPDATE SET ROW = * WHERE 'x'` |
//! | `MERGE ... WHEN NOT MATCHED THEN ERROR` | `... THEN INSERT ROW WHERE NULL` |
//! | `MERGE INTO t USING s USING (a)` | `MERGE INTO t USING s ON ROW(a)` |
//! | `ALTER VIEW v RENAME TO w` | `ALTER TABLE v RENAME TO w` |
//! | `COMMENT ON MACRO f IS ...` | `COMMENT ON FUNCTION f IS ...` |
//! | `TABLE t` as a query, `ABORT` | `FROM t`, `ROLLBACK` |
//! | `read_csv('a.csv', delim = ';')` | `read_csv('a.csv', 'delim', ';')` |
//! | `WITH a AS MATERIALIZED (...)` | `WITH a AS (...)` |
//! | `EXPLAIN (FORMAT json)`, `FORMAT text` | `EXPLAIN (FORMAT pgjson)`, `indent` |
//! | `1_000`, `0x1F`, `0o17`, `0b101` | `1000`, `31`, `15`, `5` |
//! | `json -> 'key'`, `json -> 0` | `json #> 'key'`, which is no lambda |
//! | `list[2:-:-1]`, `list[2::-1]` | `list[2:"-":-1]` |
//!
//! The parser has a node for each form on the right. The dialect reads the `*` of INSERT and MERGE
//! ([`text::dialect`](crate::text::dialect)). [`ast::insert`](crate::ast::insert) and
//! [`ast::merge`](crate::ast::merge) say what their nodes mean; a column of `ANY TYPE` has the type
//! of its values. A form on the right means the same where a user writes it.
//!
//! Text that does not match one of the patterns exactly is left alone, so its errors are the
//! parser's, with the user's own positions.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::text::json_arrows;
use crate::text::tokens::Pass;

/// Applies all rewrites of the [module documentation](self).
pub(crate) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut pass = Pass::new(tokens);
    numbers(&mut pass);
    open_ends(&mut pass);
    let (tokens, words) = pass.parts();
    json_arrows::of_json(tokens, words);
    structs(&mut pass);
    statements(&mut pass);
    pass.finish()
}

/// Takes the underscores out of numbers, and writes those of other bases with ten digits.
fn numbers(pass: &mut Pass) {
    for TokenWithSpan { token, .. } in pass.parts().0 {
        if let Token::Number(digits, _) = token
            && digits.contains('_')
        {
            digits.retain(|c| c != '_');
        }
    }
    let mut word = 0;
    while word < pass.len() {
        if let Some((digits, count)) = in_base(pass, word) {
            pass.replace(word, count, vec![Token::Number(digits, false)]);
        }
        word += 1;
    }
}

/// What stands for the end of a slice that is left open before a step.
pub(crate) const OPEN_END: &str = "-";

/// `:-:` and `::-1` of slices; the parser takes the latter for a cast.
fn open_ends(pass: &mut Pass) {
    for word in 0..pass.len() {
        let count = match [0, 1, 2].map(|behind| pass.token(word + behind)) {
            [Some(Token::Colon), Some(Token::Minus), Some(Token::Colon)] => 3,
            [Some(Token::DoubleColon), Some(Token::Minus), _] => 1,
            _ => continue,
        };
        let end = Word {
            value: OPEN_END.to_string(),
            quote_style: Some('"'),
            keyword: Keyword::NoKeyword,
        };
        pass.replace(word, count, vec![Token::Colon, Token::Word(end), Token::Colon]);
    }
}

/// The digits of a number like `0x1F` or `0b101`, and the words that the tokenizer makes of it:
/// bytes, or a zero and a name right behind it.
fn in_base(pass: &Pass, word: usize) -> Option<(String, usize)> {
    let first = pass.with_span(word)?;
    let (base, digits, count) = match &first.token {
        // `x'1F'` are bytes, and one character longer.
        Token::HexStringLiteral(digits) => {
            let length = first.span.end.column.checked_sub(first.span.start.column)?;
            let is_number = length == digits.len() as u64 + 2;
            (16, is_number.then_some(digits.as_str())?, 1)
        }
        Token::Number(zero, false) if zero == "0" => {
            let behind = pass.with_span(word + 1)?;
            let Token::Word(Word { value, quote_style: None, .. }) = &behind.token else {
                return None;
            };
            let base = match value.chars().next()? {
                'x' | 'X' => 16,
                'o' | 'O' => 8,
                'b' | 'B' => 2,
                _ => return None,
            };
            (base, (behind.span.start == first.span.end).then_some(&value[1..])?, 2)
        }
        _ => return None,
    };
    let digits = digits.replace('_', "");
    let is_digit = |c: char| c.is_digit(base);
    match !digits.is_empty() && digits.chars().all(is_digit) {
        true => Some((u128::from_str_radix(&digits, base).ok()?.to_string(), count)),
        false => None,
    }
}

/// The words a statement begins with.
fn beginning(pass: &mut Pass, word: usize) {
    if pass.keyword(word) == Some(Keyword::ALTER) {
        view_rename(pass, word + 1);
        return;
    }
    if pass.keyword(word) == Some(Keyword::EXPLAIN) {
        explain_format(pass, word + 1);
    }
    if pass.is_word(word, "COMMENT") && pass.is_word(word + 2, "MACRO") {
        pass.set(word + 2, Token::make_keyword("FUNCTION"));
        return;
    }
    let with = match pass.keyword(word) {
        Some(Keyword::TABLE) => "FROM",
        Some(Keyword::ABORT) => "ROLLBACK",
        _ => return,
    };
    pass.set(word, Token::make_keyword(with));
}

/// `VIEW [IF EXISTS] a.b RENAME TO`: tables are renamed by the same statement.
fn view_rename(pass: &mut Pass, view: usize) {
    let mut word = view + 1;
    if pass.is_word(word, "IF") && pass.is_word(word + 1, "EXISTS") {
        word += 2;
    }
    while pass.token(word + 1) == Some(&Token::Period) {
        word += 2;
    }
    if pass.is_word(view, "VIEW") && pass.is_word(word + 1, "RENAME") {
        pass.set(view, Token::make_keyword("TABLE"));
    }
}

/// `AS [NOT] MATERIALIZED (`: each query of a WITH is computed once for each use anyway.
fn materialized(pass: &mut Pass, word: usize) {
    let not = usize::from(pass.is_word(word + 1, "NOT"));
    if pass.is_word(word, "AS")
        && pass.is_word(word + 1 + not, "MATERIALIZED")
        && pass.token(word + 2 + not) == Some(&Token::LParen)
        && !is_window(pass, word + 3 + not)
    {
        pass.blank(&(word + 1..=word + 1 + not).collect::<Vec<_>>());
    }
}

/// Whether a window begins here, behind its bracket: `WINDOW w AS (PARTITION BY a)`.
fn is_window(pass: &Pass, word: usize) -> bool {
    let words = ["PARTITION", "ORDER", "ROWS", "RANGE", "GROUPS"];
    pass.token(word) == Some(&Token::RParen) || words.iter().any(|one| pass.is_word(word, one))
}

/// `read_...(path, option = value)`, `sniff_csv` and others: the names of options become
/// strings.
fn file_options(pass: &mut Pass, function: usize) {
    let named = matches!(pass.token(function), Some(Token::Word(w)) if {
        let name = w.value.to_ascii_lowercase();
        name.starts_with("read_")
            || ["parquet_scan", "sniff_csv", "csv_rejects", "delta_scan"].contains(&&*name)
    });
    if !named || pass.token(function + 1) != Some(&Token::LParen) {
        return;
    }
    let Some(close) = pass.closing(function + 1) else { return };
    let mut depth = 0usize;
    for word in function + 2..close {
        match pass.token(word) {
            Some(Token::LParen | Token::LBracket | Token::LBrace) => depth += 1,
            Some(Token::RParen | Token::RBracket | Token::RBrace) => {
                depth = depth.saturating_sub(1);
            }
            Some(Token::Eq | Token::Assignment) if depth == 0 => {
                let Some(Token::Word(name)) = pass.token(word - 1).cloned() else { continue };
                if pass.token(word - 2) == Some(&Token::Comma) {
                    pass.set(word - 1, Token::SingleQuotedString(name.value));
                    pass.set(word, Token::Comma);
                }
            }
            _ => {}
        }
    }
}

fn structs(pass: &mut Pass) {
    for word in 0..pass.len() {
        if pass.is_word(word, "STRUCT")
            && pass.token(word + 1) == Some(&Token::LParen)
            && looks_like_field(pass, word + 2)
            && let Some(close) = pass.closing(word + 1)
        {
            pass.set(word + 1, Token::Lt);
            pass.set(close, Token::Gt);
        }
    }
}

/// `name type`, as against an argument of the function `struct(...)`.
fn looks_like_field(pass: &Pass, word: usize) -> bool {
    let is_name = matches!(pass.token(word), Some(Token::Word(_)));
    let is_type = matches!(pass.token(word + 1), Some(Token::Word(w)) if w.quote_style.is_none()
        && !matches!(w.keyword, Keyword::AS | Keyword::IS | Keyword::IN | Keyword::NOT
            | Keyword::AND | Keyword::OR | Keyword::LIKE | Keyword::BETWEEN | Keyword::DIV));
    is_name && is_type
}

fn statements(pass: &mut Pass) {
    let mut in_merge = false;
    let mut matched = true;
    let mut word = 0;
    while word < pass.len() {
        if word == 0 || pass.token(word - 1) == Some(&Token::SemiColon) {
            beginning(pass, word);
        }
        file_options(pass, word);
        materialized(pass, word);
        match pass.keyword(word) {
            Some(Keyword::MERGE) => {
                in_merge = true;
                merge_keys(pass, word);
            }
            Some(Keyword::INSERT) => insert_target(pass, word),
            Some(Keyword::REPLACE) if pass.is_word(word + 1, "INTO") => insert_target(pass, word),
            Some(Keyword::TABLE) if is_query(pass, word) => {
                pass.set(word, Token::make_keyword("FROM"));
            }
            Some(Keyword::TABLE) => untyped_columns(pass, word),
            Some(Keyword::MATCHED) if in_merge => {
                let negated = word > 0 && pass.keyword(word - 1) == Some(Keyword::NOT);
                let by_source = pass.is_word(word + 1, "BY") && pass.is_word(word + 2, "SOURCE");
                matched = !negated || by_source;
            }
            Some(Keyword::THEN) if in_merge => merge_action(pass, word + 1, matched),
            _ if pass.token(word) == Some(&Token::SemiColon) => in_merge = false,
            _ => {}
        }
        word += 1;
    }
}

/// Whether a `TABLE a.b` stands where a query inside of a statement does.
fn is_query(pass: &Pass, table: usize) -> bool {
    use Keyword::{ALL, AS, DISTINCT, EXCEPT, FETCH, INTERSECT, LIMIT, OFFSET, ORDER, UNION};
    let Some(before) = table.checked_sub(1) else { return false };
    let begins = match pass.token(before) {
        Some(Token::LParen | Token::RParen) => true,
        _ => matches!(pass.keyword(before), Some(UNION | EXCEPT | INTERSECT | ALL | DISTINCT | AS)),
    };
    let mut word = table + 1;
    while pass.token(word + 1) == Some(&Token::Period) {
        word += 2;
    }
    let ends = match pass.token(word + 1) {
        None | Some(Token::RParen | Token::SemiColon | Token::EOF) => true,
        _ => matches!(
            pass.keyword(word + 1),
            Some(UNION | EXCEPT | INTERSECT | ORDER | LIMIT | OFFSET | FETCH)
        ),
    };
    begins && matches!(pass.token(word), Some(Token::Word(_))) && ends
}

/// What may stand between INSERT and the name of its table, in this order.
const BEFORE_TARGET: [&[&str]; 5] = [
    &["low_priority", "delayed", "high_priority"],
    &["ignore"],
    &["overwrite"],
    &["into"],
    &["table"],
];

/// Words behind the table of an INSERT that the parser takes for no alias of it.
const BEHIND_TARGET: [&str; 5] = ["as", "default", "select", "values", "with"];

/// `INSERT [OR x] INTO a.b BY NAME`, `BY POSITION`, and other words behind the name that are no
/// alias. Brackets around VALUES are no list of columns.
fn insert_target(pass: &mut Pass, insert: usize) {
    let mut word = insert + 1;
    if pass.is_word(word, "OR") {
        word += 2;
    }
    for words in BEFORE_TARGET {
        word += usize::from(words.iter().any(|one| pass.is_word(word, one)));
    }
    // Without INTO, and inside of a statement, it may be a name, or an action of MERGE.
    let begins = insert == 0 || pass.token(insert - 1) == Some(&Token::SemiColon);
    if !begins && !(insert + 1..word).any(|word| pass.is_word(word, "INTO")) {
        return;
    }
    while matches!(pass.token(word), Some(Token::Word(_)))
        && pass.token(word + 1) == Some(&Token::Period)
    {
        word += 2;
    }
    if pass.token(word + 1) == Some(&Token::LParen)
        && pass.keyword(word + 2) == Some(Keyword::VALUES)
        && pass.token(word + 3) == Some(&Token::LParen)
        && let Some(close) = pass.closing(word + 1)
    {
        pass.blank(&[word + 1, close]);
        return;
    }
    let Some(Token::Word(name)) = pass.token(word).cloned() else { return };
    let mut next = word + 1;
    if !BEHIND_TARGET.iter().any(|one| pass.is_word(next, one)) {
        if !matches!(pass.token(next), Some(Token::Word(_))) {
            return;
        }
        pass.insert_before(&[next], &[Token::make_keyword("AS"), Token::Word(name)]);
    }
    next += if pass.is_word(next, "AS") { 2 } else { 0 };
    if pass.is_word(next, "BY") && pass.is_word(next + 1, "NAME") {
        let star = [Token::make_keyword("PARTITION"), Token::LParen, Token::Mul, Token::RParen];
        pass.replace(next, 2, star.to_vec());
    } else if pass.is_word(next, "BY") && pass.is_word(next + 1, "POSITION") {
        pass.blank(&[next, next + 1]);
    }
}

/// `TABLE [IF NOT EXISTS] a.b (c, d) AS`: gives the columns a type.
fn untyped_columns(pass: &mut Pass, table: usize) {
    // A macro that stands for a query.
    if table.checked_sub(1).is_some_and(|before| pass.keyword(before) == Some(Keyword::AS)) {
        return;
    }
    let mut word = table + 1;
    if pass.is_word(word, "IF") {
        word += 3;
    }
    while matches!(pass.token(word), Some(Token::Word(_)))
        && pass.token(word + 1) == Some(&Token::Period)
    {
        word += 2;
    }
    word += 1;
    if pass.token(word) != Some(&Token::LParen) {
        return;
    }
    quoted_columns(pass, word);
    untyped_generated(pass, word);
    let mut names = Vec::new();
    loop {
        word += 1;
        if !matches!(pass.token(word), Some(Token::Word(_))) {
            return;
        }
        names.push(word);
        word += 1;
        match pass.token(word) {
            Some(Token::Comma) => {}
            Some(Token::RParen) if pass.is_word(word + 1, "AS") => break,
            _ => return,
        }
    }
    mark_untyped(pass, names);
}

/// `(key INT, index INT)`: columns with names that the parser takes for the beginning of what
/// MySQL has there.
fn quoted_columns(pass: &mut Pass, open: usize) {
    let mut depth = 0_usize;
    for word in open.. {
        match pass.token(word) {
            None => return,
            Some(Token::LParen) => depth += 1,
            Some(Token::RParen) => depth -= 1,
            Some(_) => {}
        }
        if depth == 0 {
            return;
        }
        let begins = word == open || pass.token(word) == Some(&Token::Comma);
        let is_name =
            ["key", "index", "fulltext", "spatial"].iter().any(|name| pass.is_word(word + 1, name));
        let is_typed =
            matches!(pass.token(word + 2), Some(Token::Word(_) | Token::Comma | Token::RParen));
        if depth == 1
            && begins
            && is_name
            && is_typed
            && let Some(Token::Word(name)) = pass.token(word + 1).cloned()
        {
            let keyword = Keyword::NoKeyword;
            pass.set(word + 1, Token::Word(Word { quote_style: Some('"'), keyword, ..name }));
        }
    }
}

/// `(a INT, b AS (a + 1))`: gives generated columns a type.
fn untyped_generated(pass: &mut Pass, open: usize) {
    let (mut depth, mut names) = (0_usize, Vec::new());
    for word in open.. {
        match pass.token(word) {
            None => return,
            Some(Token::LParen | Token::LBracket | Token::LBrace) => depth += 1,
            Some(Token::RParen | Token::RBracket | Token::RBrace) => depth -= 1,
            Some(_) => {}
        }
        if depth == 0 {
            break;
        }
        let begins = word == open || pass.token(word) == Some(&Token::Comma);
        let is_name = matches!(pass.token(word + 1), Some(Token::Word(_)));
        let computed = pass.is_word(word + 2, "AS") && pass.token(word + 3) == Some(&Token::LParen);
        let generated = pass.is_word(word + 2, "GENERATED") && pass.is_word(word + 3, "ALWAYS");
        if depth == 1 && begins && is_name && (computed || generated) {
            names.push(word + 1);
        }
    }
    mark_untyped(pass, names);
}

/// Gives columns a type that says that they have none.
fn mark_untyped(pass: &mut Pass, names: Vec<usize>) {
    for name in names.into_iter().rev() {
        if let Some(token) = pass.token(name).cloned() {
            let any_type = ["ANY", "TYPE"].map(Token::make_keyword);
            pass.replace(name, 1, [token].into_iter().chain(any_type).collect());
        }
    }
}

/// `EXPLAIN (FORMAT json)`, by the engine's name of the format.
fn explain_format(pass: &mut Pass, word: usize) {
    let is_option = |token: Option<&Token>| match token {
        Some(Token::Word(word)) => {
            let options = ["ANALYZE", "VERBOSE", "FORMAT", "JSON", "TEXT", "TRUE", "FALSE"];
            options.iter().any(|option| word.value.eq_ignore_ascii_case(option))
        }
        Some(Token::LParen | Token::Comma) => true,
        _ => false,
    };
    let mut at = word;
    while is_option(pass.token(at)) {
        if pass.is_word(at, "FORMAT") && pass.is_word(at + 1, "JSON") {
            pass.set(at + 1, Token::make_word("pgjson", None));
        } else if pass.is_word(at, "FORMAT") && pass.is_word(at + 1, "TEXT") {
            pass.set(at + 1, Token::make_word("indent", None));
        }
        at += 1;
    }
}

/// `USING (a, b)` where the condition of a MERGE stands: behind the USING of its source.
fn merge_keys(pass: &mut Pass, word: usize) {
    let is_condition = |at: &usize| {
        matches!(pass.keyword(*at), Some(Keyword::USING | Keyword::ON | Keyword::WHEN))
    };
    let Some(at) = pass.words_after(word).filter(is_condition).nth(1) else { return };
    if pass.keyword(at) == Some(Keyword::USING) && pass.token(at + 1) == Some(&Token::LParen) {
        pass.replace(at, 1, vec![Token::make_keyword("ON"), Token::make_keyword("ROW")]);
    }
}

fn merge_action(pass: &mut Pass, word: usize, matched: bool) {
    let nothing = pass.is_word(word, "DO") && pass.is_word(word + 1, "NOTHING");
    let error = pass.is_word(word, "ERROR");
    let text = pass.token(word + 1).filter(|t| matches!(t, Token::SingleQuotedString(_))).cloned();
    // Behind an action without columns the next clause begins, or the statement ends.
    let is_bare = match pass.token(word + 1) {
        None | Some(Token::SemiColon | Token::RParen | Token::EOF) => true,
        _ => matches!(pass.keyword(word + 1), Some(Keyword::WHEN | Keyword::RETURNING)),
    };
    let star = |at: usize| pass.token(at) == Some(&Token::Mul);
    let by_name = pass.is_word(word + 1, "BY") && pass.is_word(word + 2, "NAME");
    let updates = pass.is_word(word, "UPDATE");
    let update_all =
        updates && (is_bare || by_name || pass.is_word(word + 1, "SET") && star(word + 2));
    let inserts = pass.is_word(word, "INSERT");
    let words = match (nothing, update_all) {
        (true, _) => 2,
        _ if error => 1 + usize::from(text.is_some()),
        _ if is_bare && (updates || inserts) => 1,
        (_, true) => 3,
        _ if inserts && by_name => 3 + usize::from(star(word + 3)),
        _ if inserts && star(word + 1) => 2,
        _ => return,
    };
    let [update, set, insert, row, filter] =
        ["UPDATE", "SET", "INSERT", "ROW", "WHERE"].map(Token::make_keyword);
    let mut action = match update_all || (nothing || error) && matched {
        true => vec![update, set, row, Token::Eq, Token::Mul],
        false => vec![insert, row],
    };
    if nothing {
        action.extend([filter, Token::make_keyword("FALSE")]);
    } else if error {
        action.extend([filter, text.unwrap_or(Token::make_keyword("NULL"))]);
    }
    pass.replace(word, words, action);
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::parser::Parser;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::text::dialect::DIALECT;

    fn rewritten(sql: &str) -> String {
        let dialect = DIALECT;
        let tokens = Tokenizer::new(&dialect, sql).tokenize_with_location().unwrap();
        let statements = Parser::new(&dialect)
            .with_tokens_with_locations(rewrite(tokens))
            .parse_statements()
            .unwrap();
        let texts: Vec<String> = statements.iter().map(ToString::to_string).collect();
        texts.join("; ")
    }

    #[test]
    fn struct_types() {
        assert_eq!(
            rewritten("CREATE TABLE t (s STRUCT(a INT, b STRUCT(c VARCHAR, d DECIMAL(5, 2))[]))"),
            "CREATE TABLE t (s STRUCT<a INT, b STRUCT<c VARCHAR, d DECIMAL(5,2)>[]>)"
        );
        assert_eq!(rewritten("SELECT struct(a, b)"), "SELECT STRUCT(a, b)");
        assert_eq!(rewritten("SELECT struct(a IS NULL)"), "SELECT STRUCT(a IS NULL)");
    }

    #[test]
    fn columns_without_types() {
        assert_eq!(
            rewritten("CREATE TABLE IF NOT EXISTS s.t (a, \"B c\") AS SELECT 1, 2"),
            "CREATE TABLE IF NOT EXISTS s.t (a ANY TYPE, \"B c\" ANY TYPE) AS SELECT 1, 2"
        );
        assert_eq!(
            rewritten("CREATE TABLE t (a INT, b AS (a + 1), c GENERATED ALWAYS AS (a) STORED)"),
            "CREATE TABLE t (a INT, b ANY TYPE AS (a + 1), \
             c ANY TYPE GENERATED ALWAYS AS (a) STORED)"
        );
        let typed = "CREATE TABLE t (a INT) AS SELECT 1";
        assert_eq!(rewritten(typed), typed);
    }

    #[test]
    fn beginnings_numbers_and_options() {
        assert_eq!(rewritten("TABLE s.t; ABORT"), "FROM s.t; ROLLBACK");
        assert_eq!(rewritten("DROP TABLE t"), "DROP TABLE t");
        assert_eq!(rewritten("SELECT 1_000, 'a_1', b_1"), "SELECT 1000, 'a_1', b_1");
        assert_eq!(
            rewritten("SELECT * FROM read_csv('a', delim = ';', header := true) WHERE x = 1"),
            "SELECT * FROM read_csv('a', 'delim', ';', 'header', true) WHERE x = 1"
        );
        assert_eq!(
            rewritten("WITH a AS NOT MATERIALIZED (SELECT 1) SELECT * FROM a"),
            "WITH a AS (SELECT 1) SELECT * FROM a"
        );
        let other = "SELECT count(a = 1) FROM f(g, b = 2)";
        assert_eq!(rewritten(other), other);
    }

    #[test]
    fn targets_of_inserts() {
        for (given, expected) in [
            (
                "INSERT INTO s.t BY NAME SELECT 1 AS a",
                "INSERT INTO s.t AS t PARTITION (*) SELECT 1 AS a",
            ),
            (
                "INSERT OR IGNORE INTO t AS x BY NAME (SELECT 1 AS a) RETURNING x.a",
                "INSERT OR IGNORE INTO t AS x PARTITION (*) (SELECT 1 AS a) RETURNING x.a",
            ),
            ("INSERT INTO s.\"T u\" FROM v", "INSERT INTO s.\"T u\" AS \"T u\" FROM v"),
            ("INSERT t FROM v", "INSERT t AS t FROM v"),
            ("REPLACE INTO t FROM v", "REPLACE INTO t AS t FROM v"),
            (
                "WITH v AS (SELECT 1) INSERT INTO TABLE t FROM v",
                "WITH v AS (SELECT 1) INSERT INTO TABLE t AS t FROM v",
            ),
            (
                "INSERT INTO s.t (VALUES (1), (2)) RETURNING a",
                "INSERT INTO s.t VALUES (1), (2) RETURNING a",
            ),
        ] {
            assert_eq!(rewritten(given), expected);
            assert_eq!(rewritten(expected), expected);
        }
        for same in [
            "INSERT INTO s.t AS x VALUES (1)",
            "INSERT INTO s.t AS x DEFAULT VALUES",
            "INSERT INTO t DEFAULT VALUES",
            "INSERT INTO t WITH v AS (SELECT 1) SELECT * FROM v",
            "INSERT INTO t SELECT 1 AS by",
            "INSERT INTO t (values) VALUES (1)",
            "SELECT insert, a AS by FROM t AS insert",
        ] {
            assert_eq!(rewritten(same), same);
        }
        let named = "INSERT INTO t x VALUES (1)";
        let tokens = Tokenizer::new(&DIALECT, named).tokenize_with_location().unwrap();
        let parsed = Parser::new(&DIALECT).with_tokens_with_locations(rewrite(tokens));
        assert!({ parsed }.parse_statements().is_err());
    }

    #[test]
    fn merge_shorthands() {
        let into = "MERGE INTO t USING s ON t.a = s.a WHEN";
        for (given, expected) in [
            (
                "MATCHED AND CASE WHEN true THEN true END THEN DO NOTHING",
                "MATCHED AND CASE WHEN true THEN true END THEN UPDATE SET ROW = * WHERE false",
            ),
            ("MATCHED THEN UPDATE SET *", "MATCHED THEN UPDATE SET ROW = *"),
            ("MATCHED THEN UPDATE BY NAME", "MATCHED THEN UPDATE SET ROW = *"),
            ("NOT MATCHED THEN DO NOTHING", "NOT MATCHED THEN INSERT ROW WHERE false"),
            (
                "NOT MATCHED BY SOURCE THEN DO NOTHING",
                "NOT MATCHED BY SOURCE THEN UPDATE SET ROW = * WHERE false",
            ),
            ("NOT MATCHED THEN INSERT *", "NOT MATCHED THEN INSERT ROW"),
            ("NOT MATCHED THEN INSERT BY NAME", "NOT MATCHED THEN INSERT ROW"),
            ("NOT MATCHED THEN INSERT BY NAME *", "NOT MATCHED THEN INSERT ROW"),
            ("MATCHED THEN UPDATE", "MATCHED THEN UPDATE SET ROW = *"),
            ("NOT MATCHED THEN INSERT", "NOT MATCHED THEN INSERT ROW"),
            ("MATCHED THEN ERROR 'no'", "MATCHED THEN UPDATE SET ROW = * WHERE 'no'"),
            ("NOT MATCHED THEN ERROR", "NOT MATCHED THEN INSERT ROW WHERE NULL"),
            ("MATCHED THEN UPDATE SET row = 1", "MATCHED THEN UPDATE SET row = 1"),
        ] {
            let expected = format!("{into} {expected}");
            assert_eq!(rewritten(&format!("{into} {given}")), expected);
            assert_eq!(rewritten(&expected), expected);
        }
    }

    #[test]
    fn keys_of_merge() {
        assert_eq!(
            rewritten(
                "MERGE INTO t USING (SELECT a FROM b JOIN c USING (a)) AS s USING (a, d) \
                 WHEN MATCHED THEN DELETE"
            ),
            "MERGE INTO t USING (SELECT a FROM b JOIN c USING(a)) AS s ON ROW(a, d) \
             WHEN MATCHED THEN DELETE"
        );
    }

    #[test]
    fn numbers_of_other_bases() {
        assert_eq!(
            rewritten("SELECT 0x1F, 0b1_01, 0o17, 0XfF, x'1F', 0 b, 0b12, 0o8"),
            "SELECT 31, 5, 15, 255, X'1F', 0 AS b, 0 AS b12, 0 AS o8"
        );
    }

    /// What stands for whole rows in MERGE, and for the columns of INSERT, is no expression.
    #[test]
    fn stars_stand_nowhere_else() {
        for wrong in [
            "UPDATE t SET row = *",
            "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET a = *",
            "INSERT INTO t (a) VALUES (*)",
            "SELECT sum(x) OVER (PARTITION BY *) FROM t",
        ] {
            let tokens = Tokenizer::new(&DIALECT, wrong).tokenize_with_location().unwrap();
            let parsed = Parser::new(&DIALECT).with_tokens_with_locations(rewrite(tokens));
            assert!({ parsed }.parse_statements().is_err(), "{wrong}");
        }
    }
}
