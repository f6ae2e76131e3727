//! Syntax the SQL parser does not know, rewritten token by token into syntax it does.
//!
//! | written | becomes |
//! |---|---|
//! | `STRUCT(a INT, b VARCHAR)` as a type | `STRUCT<a INT, b VARCHAR>` |
//! | `CREATE TABLE t (a, b) AS ...` | `CREATE TABLE t (a #untyped, b #untyped) AS ...` |
//! | `CREATE TABLE t (a INT, b AS (a + 1))` | `CREATE TABLE t (a INT, b #untyped AS (a + 1))` |
//! | `INSERT INTO t BY NAME SELECT ...` | `INSERT INTO t#by_name SELECT ...` |
//! | `INSERT INTO t AS x ...` | `INSERT INTO t#as x ...` |
//! | `INSERT INTO t (VALUES ...)` | `INSERT INTO t VALUES ...` |
//! | `MERGE ... WHEN MATCHED THEN DO NOTHING` | `... THEN UPDATE SET #nothing = NULL` |
//! | `MERGE ... WHEN NOT MATCHED THEN DO NOTHING` | `... THEN INSERT VALUES (#nothing)` |
//! | `MERGE ... THEN UPDATE SET *`, `THEN UPDATE` | `... THEN UPDATE SET #all = NULL` |
//! | `MERGE ... THEN INSERT *`, `THEN INSERT` | `... THEN INSERT VALUES (#all)` |
//! | `MERGE ... WHEN MATCHED THEN ERROR 'x'` | `... THEN UPDATE SET #error = 'x'` |
//! | `MERGE ... WHEN NOT MATCHED THEN ERROR` | `... THEN INSERT VALUES (#error, NULL)` |
//! | `MERGE INTO t USING s USING (a)` | `MERGE INTO t USING s ON #using(a)` |
//! | `ALTER VIEW v RENAME TO w` | `ALTER TABLE v RENAME TO w` |
//! | `COMMENT ON MACRO f IS ...` | `COMMENT ON FUNCTION f IS ...` |
//! | `TABLE t` as a query, `ABORT` | `FROM t`, `ROLLBACK` |
//! | `read_csv('a.csv', delim = ';')` | `read_csv('a.csv', 'delim', ';')` |
//! | `WITH a AS MATERIALIZED (...)` | `WITH a AS (...)` |
//! | `EXPLAIN (FORMAT json)`, `FORMAT text` | `EXPLAIN (FORMAT pgjson)`, `indent` |
//! | `1_000`, `0x1F`, `0o17`, `0b101` | `1000`, `31`, `15`, `5` |
//! | `json -> 'key'`, `json -> 0` | `json #> 'key'`, which is no lambda |
//!
//! The marks written here as `#name` begin with a control character, which no identifier a person
//! writes contains; the statements' own code takes them off again. Text that does not match one of
//! the patterns exactly is left alone, so its errors are the parser's, with the user's own
//! positions.

use std::ops::Range;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::text::json_arrows;

/// Ends the last part of the table name of `INSERT ... BY NAME`.
pub const BY_NAME_MARK: &str = "\u{1}by_name";
/// Ends the last part of the table name of `INSERT INTO t AS x`; the alias follows it.
pub const ALIAS_MARK: &str = "\u{1}as ";
/// The type of a column that is given without one.
pub const UNTYPED_MARK: &str = "\u{1}untyped";
/// Stands as the assigned column or the value of a `DO NOTHING`.
pub const NOTHING_MARK: &str = "\u{1}nothing";
/// Stands for `*` in a MERGE clause.
pub const ALL_MARK: &str = "\u{1}all";
/// Stands as the assigned column or the first value of an `ERROR` of MERGE.
pub const ERROR_MARK: &str = "\u{1}error";
/// The function of columns that stands for `USING (...)` of MERGE.
pub const USING_MARK: &str = "\u{1}using";

/// Applies all rewrites of the [module documentation](self).
pub(crate) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut pass = Pass::new(tokens);
    pass.numbers();
    json_arrows::of_json(&mut pass.tokens, &pass.words);
    pass.structs();
    pass.statements();
    pass.tokens
}

/// The tokens of a text, by the words that count.
pub(crate) struct Pass {
    tokens: Vec<TokenWithSpan>,
    /// Indices of the tokens that are not white space or comments.
    words: Vec<usize>,
}

impl Pass {
    pub(crate) fn new(tokens: Vec<TokenWithSpan>) -> Self {
        let words = significant(&tokens);
        Self { tokens, words }
    }

    pub(crate) fn finish(self) -> Vec<TokenWithSpan> {
        self.tokens
    }

    /// The number of words.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Puts `tokens` before each of the words `at`, which are in ascending order; behind the last
    /// word for a place behind it.
    pub(crate) fn insert_before(&mut self, at: &[usize], tokens: &[Token]) {
        let Some(end) = self.tokens.last().map(|token| token.span) else { return };
        let at = at.iter().map(|word| self.words.get(*word).copied().unwrap_or(self.tokens.len()));
        let at = at.collect::<Vec<_>>();
        let mut at = at.into_iter().peekable();
        if at.peek().is_none() {
            return;
        }
        let given = |span| tokens.iter().cloned().map(move |token| TokenWithSpan { token, span });
        let mut all = Vec::with_capacity(self.tokens.len() + tokens.len());
        for (index, token) in std::mem::take(&mut self.tokens).into_iter().enumerate() {
            if at.next_if_eq(&index).is_some() {
                all.extend(given(token.span));
            }
            all.push(token);
        }
        if at.next().is_some() {
            all.extend(given(end));
        }
        self.words = significant(&all);
        self.tokens = all;
    }

    /// Puts other tokens in the place of some words and what lies between them.
    pub(crate) fn splice(&mut self, words: Range<usize>, tokens: Vec<TokenWithSpan>) {
        let (Some(first), Some(last)) =
            (self.words.get(words.start), words.end.checked_sub(1).and_then(|w| self.words.get(w)))
        else {
            return;
        };
        if first <= last {
            self.tokens.splice(*first..=*last, tokens);
            self.words = significant(&self.tokens);
        }
    }

    pub(crate) fn with_span(&self, word: usize) -> Option<&TokenWithSpan> {
        self.words.get(word).map(|index| &self.tokens[*index])
    }

    pub(crate) fn token(&self, word: usize) -> Option<&Token> {
        self.words.get(word).map(|index| &self.tokens[*index].token)
    }

    /// The keyword at a place; quoted identifiers are none.
    pub(crate) fn keyword(&self, word: usize) -> Option<Keyword> {
        match self.token(word)? {
            Token::Word(w) if w.quote_style.is_none() => Some(w.keyword),
            _ => None,
        }
    }

    pub(crate) fn is_word(&self, word: usize, text: &str) -> bool {
        matches!(self.token(word), Some(Token::Word(w))
            if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(text))
    }

    pub(crate) fn set(&mut self, word: usize, token: Token) {
        let index = self.words[word];
        self.tokens[index].token = token;
    }

    /// Replaces `count` significant tokens from `word` on (and what lies between them).
    pub(crate) fn replace(&mut self, word: usize, count: usize, with: Vec<Token>) {
        let (first, last) = (self.words[word], self.words[word + count - 1]);
        let span = self.tokens[first].span;
        let with: Vec<TokenWithSpan> =
            with.into_iter().map(|token| TokenWithSpan { token, span }).collect();
        self.tokens.splice(first..=last, with);
        self.words = significant(&self.tokens);
    }

    /// Takes the underscores out of numbers, and writes those of other bases with ten digits.
    fn numbers(&mut self) {
        for word in 0..self.words.len() {
            let index = self.words[word];
            if let Token::Number(digits, _) = &mut self.tokens[index].token
                && digits.contains('_')
            {
                digits.retain(|c| c != '_');
            }
        }
        let mut word = 0;
        while word < self.words.len() {
            if let Some((digits, count)) = self.in_base(word) {
                self.replace(word, count, vec![Token::Number(digits, false)]);
            }
            word += 1;
        }
    }

    /// The digits of a number like `0x1F` or `0b101`, and the words that the tokenizer makes of it:
    /// bytes, or a zero and a name right behind it.
    fn in_base(&self, word: usize) -> Option<(String, usize)> {
        let first = self.with_span(word)?;
        let (base, digits, count) = match &first.token {
            // `x'1F'` are bytes, and one character longer.
            Token::HexStringLiteral(digits) => {
                let length = first.span.end.column.checked_sub(first.span.start.column)?;
                let is_number = length == digits.len() as u64 + 2;
                (16, is_number.then_some(digits.as_str())?, 1)
            }
            Token::Number(zero, false) if zero == "0" => {
                let behind = self.with_span(word + 1)?;
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
    fn beginning(&mut self, word: usize) {
        if self.keyword(word) == Some(Keyword::ALTER) {
            self.view_rename(word + 1);
            return;
        }
        if self.keyword(word) == Some(Keyword::EXPLAIN) {
            self.explain_format(word + 1);
        }
        if self.is_word(word, "COMMENT") && self.is_word(word + 2, "MACRO") {
            self.set(word + 2, Token::make_keyword("FUNCTION"));
            return;
        }
        let with = match self.keyword(word) {
            Some(Keyword::TABLE) => "FROM",
            Some(Keyword::ABORT) => "ROLLBACK",
            _ => return,
        };
        self.set(word, Token::make_keyword(with));
    }

    /// `VIEW [IF EXISTS] a.b RENAME TO`: tables are renamed by the same statement.
    fn view_rename(&mut self, view: usize) {
        let mut word = view + 1;
        if self.is_word(word, "IF") && self.is_word(word + 1, "EXISTS") {
            word += 2;
        }
        while self.token(word + 1) == Some(&Token::Period) {
            word += 2;
        }
        if self.is_word(view, "VIEW") && self.is_word(word + 1, "RENAME") {
            self.set(view, Token::make_keyword("TABLE"));
        }
    }

    /// `AS [NOT] MATERIALIZED (`: each query of a WITH is computed once for each use anyway.
    fn materialized(&mut self, word: usize) {
        let not = usize::from(self.is_word(word + 1, "NOT"));
        if self.is_word(word, "AS")
            && self.is_word(word + 1 + not, "MATERIALIZED")
            && self.token(word + 2 + not) == Some(&Token::LParen)
            && !self.is_window(word + 3 + not)
        {
            (word + 1..=word + 1 + not).for_each(|extra| self.blank(extra));
            self.words = significant(&self.tokens);
        }
    }

    /// Whether a window begins here, behind its bracket: `WINDOW w AS (PARTITION BY a)`.
    fn is_window(&self, word: usize) -> bool {
        let words = ["PARTITION", "ORDER", "ROWS", "RANGE", "GROUPS"];
        self.token(word) == Some(&Token::RParen) || words.iter().any(|one| self.is_word(word, one))
    }

    /// `read_...(path, option = value)`, `sniff_csv` and others: the names of options become
    /// strings.
    fn file_options(&mut self, function: usize) {
        let named = matches!(self.token(function), Some(Token::Word(w)) if {
            let name = w.value.to_ascii_lowercase();
            name.starts_with("read_")
                || ["parquet_scan", "sniff_csv", "csv_rejects", "delta_scan"].contains(&&*name)
        });
        if !named || self.token(function + 1) != Some(&Token::LParen) {
            return;
        }
        let Some(close) = self.closing(function + 1) else { return };
        let mut depth = 0usize;
        for word in function + 2..close {
            match self.token(word) {
                Some(Token::LParen | Token::LBracket | Token::LBrace) => depth += 1,
                Some(Token::RParen | Token::RBracket | Token::RBrace) => {
                    depth = depth.saturating_sub(1);
                }
                Some(Token::Eq | Token::Assignment) if depth == 0 => {
                    let Some(Token::Word(name)) = self.token(word - 1).cloned() else { continue };
                    if self.token(word - 2) == Some(&Token::Comma) {
                        self.set(word - 1, Token::SingleQuotedString(name.value));
                        self.set(word, Token::Comma);
                    }
                }
                _ => {}
            }
        }
    }

    fn structs(&mut self) {
        for word in 0..self.words.len() {
            if self.is_word(word, "STRUCT")
                && self.token(word + 1) == Some(&Token::LParen)
                && self.looks_like_field(word + 2)
                && let Some(close) = self.closing(word + 1)
            {
                self.set(word + 1, Token::Lt);
                self.set(close, Token::Gt);
            }
        }
    }

    /// `name type`, as against an argument of the function `struct(...)`.
    fn looks_like_field(&self, word: usize) -> bool {
        let is_name = matches!(self.token(word), Some(Token::Word(_)));
        let is_type = matches!(self.token(word + 1), Some(Token::Word(w)) if w.quote_style.is_none()
            && !matches!(w.keyword, Keyword::AS | Keyword::IS | Keyword::IN | Keyword::NOT
                | Keyword::AND | Keyword::OR | Keyword::LIKE | Keyword::BETWEEN | Keyword::DIV));
        is_name && is_type
    }

    /// The words behind one that are in no brackets, to the end of the query it is in.
    pub(crate) fn words_after(&self, word: usize) -> impl Iterator<Item = usize> {
        self.outside_brackets(word + 1..self.len(), true)
    }

    /// The words before one that are in no brackets, back to where the brackets around it begin.
    pub(crate) fn words_before(&self, word: usize) -> impl Iterator<Item = usize> {
        self.outside_brackets((0..word).rev(), false)
    }

    fn outside_brackets(
        &self,
        words: impl Iterator<Item = usize>,
        forwards: bool,
    ) -> impl Iterator<Item = usize> {
        let mut depth = 0_usize;
        let outside = words.map_while(move |word| {
            let opens = match self.token(word)? {
                Token::LParen | Token::LBracket | Token::LBrace => true,
                Token::RParen | Token::RBracket | Token::RBrace => false,
                Token::SemiColon | Token::VerticalBarRightAngleBracket => return None,
                _ => return Some((depth == 0).then_some(word)),
            };
            depth = if opens == forwards { depth + 1 } else { depth.checked_sub(1)? };
            Some(None)
        });
        outside.flatten()
    }

    pub(crate) fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0usize;
        for word in open..self.words.len() {
            match self.token(word)? {
                Token::LParen => depth += 1,
                Token::RParen => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(word);
                    }
                }
                Token::SemiColon => return None,
                _ => {}
            }
        }
        None
    }

    fn statements(&mut self) {
        let mut in_merge = false;
        let mut matched = true;
        let mut word = 0;
        while word < self.words.len() {
            if word == 0 || self.token(word - 1) == Some(&Token::SemiColon) {
                self.beginning(word);
            }
            self.file_options(word);
            self.materialized(word);
            match self.keyword(word) {
                Some(Keyword::MERGE) => {
                    in_merge = true;
                    self.merge_keys(word);
                }
                Some(Keyword::INSERT) => self.insert_target(word),
                Some(Keyword::TABLE) if self.is_query(word) => {
                    self.set(word, Token::make_keyword("FROM"));
                }
                Some(Keyword::TABLE) => self.untyped_columns(word),
                Some(Keyword::MATCHED) if in_merge => {
                    let negated = word > 0 && self.keyword(word - 1) == Some(Keyword::NOT);
                    let by_source =
                        self.is_word(word + 1, "BY") && self.is_word(word + 2, "SOURCE");
                    matched = !negated || by_source;
                }
                Some(Keyword::THEN) if in_merge => self.merge_action(word + 1, matched),
                _ if self.token(word) == Some(&Token::SemiColon) => in_merge = false,
                _ => {}
            }
            word += 1;
        }
    }

    /// Whether a `TABLE a.b` stands where a query inside of a statement does.
    fn is_query(&self, table: usize) -> bool {
        use Keyword::{ALL, AS, DISTINCT, EXCEPT, FETCH, INTERSECT, LIMIT, OFFSET, ORDER, UNION};
        let Some(before) = table.checked_sub(1) else { return false };
        let begins = match self.token(before) {
            Some(Token::LParen | Token::RParen) => true,
            _ => matches!(
                self.keyword(before),
                Some(UNION | EXCEPT | INTERSECT | ALL | DISTINCT | AS)
            ),
        };
        let mut word = table + 1;
        while self.token(word + 1) == Some(&Token::Period) {
            word += 2;
        }
        let ends = match self.token(word + 1) {
            None | Some(Token::RParen | Token::SemiColon | Token::EOF) => true,
            _ => matches!(
                self.keyword(word + 1),
                Some(UNION | EXCEPT | INTERSECT | ORDER | LIMIT | OFFSET | FETCH)
            ),
        };
        begins && matches!(self.token(word), Some(Token::Word(_))) && ends
    }

    /// `INSERT [OR x] INTO a.b BY NAME` and `... INTO a.b AS x`: marks the last part of the name.
    /// Brackets around VALUES are no list of columns.
    fn insert_target(&mut self, insert: usize) {
        let mut word = insert + 1;
        if self.is_word(word, "OR") {
            word += 2;
        }
        if !self.is_word(word, "INTO") {
            return;
        }
        word += 1;
        while matches!(self.token(word), Some(Token::Word(_)))
            && self.token(word + 1) == Some(&Token::Period)
        {
            word += 2;
        }
        if self.token(word + 1) == Some(&Token::LParen)
            && self.keyword(word + 2) == Some(Keyword::VALUES)
            && self.token(word + 3) == Some(&Token::LParen)
            && let Some(close) = self.closing(word + 1)
        {
            [word + 1, close].into_iter().for_each(|bracket| self.blank(bracket));
            self.words = significant(&self.tokens);
            return;
        }
        let mark = match self.token(word + 2) {
            Some(Token::Word(last)) if self.is_word(word + 1, "BY") => {
                if !last.value.eq_ignore_ascii_case("name") {
                    return;
                }
                BY_NAME_MARK.to_string()
            }
            Some(Token::Word(alias)) if self.is_word(word + 1, "AS") => {
                format!("{ALIAS_MARK}{}", alias.value)
            }
            _ => return,
        };
        if let Some(Token::Word(name)) = self.token(word).cloned() {
            let value = format!("{}{mark}", name.value);
            self.set(word, Token::Word(Word { value, keyword: Keyword::NoKeyword, ..name }));
            for extra in [word + 1, word + 2] {
                self.blank(extra);
            }
            self.words = significant(&self.tokens);
        }
    }

    /// `TABLE [IF NOT EXISTS] a.b (c, d) AS`: gives the columns a type.
    fn untyped_columns(&mut self, table: usize) {
        // A macro that stands for a query.
        if table.checked_sub(1).is_some_and(|before| self.keyword(before) == Some(Keyword::AS)) {
            return;
        }
        let mut word = table + 1;
        if self.is_word(word, "IF") {
            word += 3;
        }
        while matches!(self.token(word), Some(Token::Word(_)))
            && self.token(word + 1) == Some(&Token::Period)
        {
            word += 2;
        }
        word += 1;
        if self.token(word) != Some(&Token::LParen) {
            return;
        }
        self.quoted_columns(word);
        self.untyped_generated(word);
        let mut names = Vec::new();
        loop {
            word += 1;
            if !matches!(self.token(word), Some(Token::Word(_))) {
                return;
            }
            names.push(word);
            word += 1;
            match self.token(word) {
                Some(Token::Comma) => {}
                Some(Token::RParen) if self.is_word(word + 1, "AS") => break,
                _ => return,
            }
        }
        self.mark_untyped(names);
    }

    /// `(key INT, index INT)`: columns with names that the parser takes for the beginning of what
    /// MySQL has there.
    fn quoted_columns(&mut self, open: usize) {
        let mut depth = 0_usize;
        for word in open.. {
            match self.token(word) {
                None => return,
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) => depth -= 1,
                Some(_) => {}
            }
            if depth == 0 {
                return;
            }
            let begins = word == open || self.token(word) == Some(&Token::Comma);
            let is_name = ["key", "index", "fulltext", "spatial"]
                .iter()
                .any(|name| self.is_word(word + 1, name));
            let is_typed =
                matches!(self.token(word + 2), Some(Token::Word(_) | Token::Comma | Token::RParen));
            if depth == 1
                && begins
                && is_name
                && is_typed
                && let Some(Token::Word(name)) = self.token(word + 1).cloned()
            {
                let keyword = Keyword::NoKeyword;
                self.set(word + 1, Token::Word(Word { quote_style: Some('"'), keyword, ..name }));
            }
        }
    }

    /// `(a INT, b AS (a + 1))`: gives generated columns a type.
    fn untyped_generated(&mut self, open: usize) {
        let (mut depth, mut names) = (0_usize, Vec::new());
        for word in open.. {
            match self.token(word) {
                None => return,
                Some(Token::LParen | Token::LBracket | Token::LBrace) => depth += 1,
                Some(Token::RParen | Token::RBracket | Token::RBrace) => depth -= 1,
                Some(_) => {}
            }
            if depth == 0 {
                break;
            }
            let begins = word == open || self.token(word) == Some(&Token::Comma);
            let is_name = matches!(self.token(word + 1), Some(Token::Word(_)));
            let computed =
                self.is_word(word + 2, "AS") && self.token(word + 3) == Some(&Token::LParen);
            let generated = self.is_word(word + 2, "GENERATED") && self.is_word(word + 3, "ALWAYS");
            if depth == 1 && begins && is_name && (computed || generated) {
                names.push(word + 1);
            }
        }
        self.mark_untyped(names);
    }

    /// Gives columns a type that says that they have none.
    fn mark_untyped(&mut self, names: Vec<usize>) {
        for name in names.into_iter().rev() {
            if let Some(token) = self.token(name).cloned() {
                self.replace(name, 1, vec![token, mark(UNTYPED_MARK)]);
            }
        }
    }

    fn blank(&mut self, word: usize) {
        use datafusion::sql::sqlparser::tokenizer::Whitespace;
        self.set(word, Token::Whitespace(Whitespace::Space));
    }

    /// `EXPLAIN (FORMAT json)`, by the engine's name of the format.
    fn explain_format(&mut self, word: usize) {
        let is_option = |token: Option<&Token>| match token {
            Some(Token::Word(word)) => {
                let options = ["ANALYZE", "VERBOSE", "FORMAT", "JSON", "TEXT", "TRUE", "FALSE"];
                options.iter().any(|option| word.value.eq_ignore_ascii_case(option))
            }
            Some(Token::LParen | Token::Comma) => true,
            _ => false,
        };
        let mut at = word;
        while is_option(self.token(at)) {
            if self.is_word(at, "FORMAT") && self.is_word(at + 1, "JSON") {
                self.set(at + 1, keyword("pgjson", Keyword::NoKeyword));
            } else if self.is_word(at, "FORMAT") && self.is_word(at + 1, "TEXT") {
                self.set(at + 1, keyword("indent", Keyword::NoKeyword));
            }
            at += 1;
        }
    }

    /// `USING (a, b)` where the condition of a MERGE stands: behind the USING of its source.
    fn merge_keys(&mut self, word: usize) {
        let is_condition = |at: &usize| {
            matches!(self.keyword(*at), Some(Keyword::USING | Keyword::ON | Keyword::WHEN))
        };
        let Some(at) = self.words_after(word).filter(is_condition).nth(1) else { return };
        if self.keyword(at) == Some(Keyword::USING) && self.token(at + 1) == Some(&Token::LParen) {
            self.replace(at, 1, vec![keyword("ON", Keyword::ON), mark(USING_MARK)]);
        }
    }

    fn merge_action(&mut self, word: usize, matched: bool) {
        if self.is_word(word, "ERROR") {
            let text = self.token(word + 1).filter(|t| matches!(t, Token::SingleQuotedString(_)));
            let count = 1 + usize::from(text.is_some());
            let text = text.cloned().unwrap_or(keyword("NULL", Keyword::NULL));
            return self.replace(
                word,
                count,
                match matched {
                    true => update_to(ERROR_MARK, text),
                    false => insert_of(ERROR_MARK, [Token::Comma, text]),
                },
            );
        }
        // Behind an action without columns the next clause begins, or the statement ends.
        let is_bare = match self.token(word + 1) {
            None | Some(Token::SemiColon | Token::RParen | Token::EOF) => true,
            _ => matches!(self.keyword(word + 1), Some(Keyword::WHEN | Keyword::RETURNING)),
        };
        if is_bare && self.is_word(word, "UPDATE") {
            return self.replace(word, 1, update(ALL_MARK));
        }
        if is_bare && self.is_word(word, "INSERT") {
            return self.replace(word, 1, insert(ALL_MARK));
        }
        let nothing = self.is_word(word, "DO") && self.is_word(word + 1, "NOTHING");
        let star = |at: usize| self.token(at) == Some(&Token::Mul);
        let by_name = self.is_word(word + 1, "BY") && self.is_word(word + 2, "NAME");
        let update_all = self.is_word(word, "UPDATE")
            && (by_name || self.is_word(word + 1, "SET") && star(word + 2));
        let inserts = self.is_word(word, "INSERT");
        if nothing && matched {
            self.replace(word, 2, update(NOTHING_MARK));
        } else if nothing {
            self.replace(word, 2, insert(NOTHING_MARK));
        } else if update_all {
            self.replace(word, 3, update(ALL_MARK));
        } else if inserts && by_name {
            self.replace(word, 3 + usize::from(star(word + 3)), insert(ALL_MARK));
        } else if inserts && star(word + 1) {
            self.replace(word, 2, insert(ALL_MARK));
        }
    }
}

fn significant(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let is_text = |index: &usize| !matches!(tokens[*index].token, Token::Whitespace(_));
    (0..tokens.len()).filter(is_text).collect()
}

fn keyword(text: &str, keyword: Keyword) -> Token {
    Token::Word(Word { value: text.to_string(), quote_style: None, keyword })
}

fn mark(text: &str) -> Token {
    Token::Word(Word {
        value: text.to_string(),
        quote_style: Some('"'),
        keyword: Keyword::NoKeyword,
    })
}

fn update(what: &str) -> Vec<Token> {
    update_to(what, keyword("NULL", Keyword::NULL))
}

fn update_to(what: &str, value: Token) -> Vec<Token> {
    vec![
        keyword("UPDATE", Keyword::UPDATE),
        keyword("SET", Keyword::SET),
        mark(what),
        Token::Eq,
        value,
    ]
}

fn insert(what: &str) -> Vec<Token> {
    insert_of(what, [])
}

fn insert_of(what: &str, more: impl IntoIterator<Item = Token>) -> Vec<Token> {
    let begin = [
        keyword("INSERT", Keyword::INSERT),
        keyword("VALUES", Keyword::VALUES),
        Token::LParen,
        mark(what),
    ];
    begin.into_iter().chain(more).chain([Token::RParen]).collect()
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
        texts.join("; ").replace('\u{1}', "#")
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
            "CREATE TABLE IF NOT EXISTS s.t (a \"#untyped\", \"B c\" \"#untyped\") AS SELECT 1, 2"
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
    fn insert_by_name() {
        assert_eq!(
            rewritten("INSERT INTO s.t BY NAME SELECT 1 AS a"),
            "INSERT INTO s.t#by_name SELECT 1 AS a"
        );
        assert_eq!(rewritten("INSERT INTO s.t AS x VALUES (1)"), "INSERT INTO s.t#as x VALUES (1)");
        assert_eq!(rewritten("INSERT INTO t SELECT 1 AS by"), "INSERT INTO t SELECT 1 AS by");
        assert_eq!(
            rewritten("INSERT INTO s.t (VALUES (1), (2)) RETURNING a"),
            "INSERT INTO s.t VALUES (1), (2) RETURNING a"
        );
        let list = "INSERT INTO t (values) VALUES (1)";
        assert_eq!(rewritten(list), list);
    }

    #[test]
    fn merge_shorthands() {
        let sql = "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED AND CASE WHEN TRUE THEN TRUE END \
            THEN DO NOTHING WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND s.a = 1 THEN DO \
            NOTHING \
            WHEN NOT MATCHED BY SOURCE THEN DO NOTHING WHEN NOT MATCHED THEN INSERT *";
        assert_eq!(
            rewritten(sql),
            "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED AND CASE WHEN true THEN true END THEN \
             UPDATE SET \"#nothing\" = NULL WHEN MATCHED THEN UPDATE SET \"#all\" = NULL WHEN NOT \
             MATCHED AND s.a = 1 THEN INSERT VALUES (\"#nothing\") WHEN NOT MATCHED BY SOURCE THEN \
             UPDATE SET \"#nothing\" = NULL WHEN NOT MATCHED THEN INSERT VALUES (\"#all\")"
        );
        assert_eq!(
            rewritten(
                "MERGE INTO t USING (SELECT a FROM b JOIN c USING (a)) AS s USING (a, d) \
                 WHEN MATCHED AND s.a > 1 THEN ERROR 'no' WHEN MATCHED THEN UPDATE \
                 WHEN NOT MATCHED AND s.a > 1 THEN ERROR WHEN NOT MATCHED THEN INSERT"
            ),
            "MERGE INTO t USING (SELECT a FROM b JOIN c USING(a)) AS s ON \"#using\"(a, d) \
             WHEN MATCHED AND s.a > 1 THEN UPDATE SET \"#error\" = 'no' \
             WHEN MATCHED THEN UPDATE SET \"#all\" = NULL \
             WHEN NOT MATCHED AND s.a > 1 THEN INSERT VALUES (\"#error\", NULL) \
             WHEN NOT MATCHED THEN INSERT VALUES (\"#all\")"
        );
    }

    #[test]
    fn numbers_of_other_bases() {
        assert_eq!(
            rewritten("SELECT 0x1F, 0b1_01, 0o17, 0XfF, x'1F', 0 b, 0b12, 0o8"),
            "SELECT 31, 5, 15, 255, X'1F', 0 AS b, 0 AS b12, 0 AS o8"
        );
    }
}
