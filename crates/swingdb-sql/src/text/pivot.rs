//! PIVOT and UNPIVOT as the parser knows them.
//!
//! | written | becomes |
//! |---|---|
//! | `PIVOT t ON s USING sum(x)` | `SELECT * FROM (SELECT * FROM t) PIVOT (...)` |
//! | `FROM t PIVOT (sum(x) FOR s IN ('a') GROUP BY g)` | `FROM t PIVOT (...)` |
//! | `UNPIVOT t ON a INTO NAME k VALUE v` | `... (SELECT * FROM t) UNPIVOT (v FOR k IN (a))` |
//!
//! `PIVOT (...)` is `PIVOT (PIVOT () FOR (ON s USING sum(x) GROUP BY g) IN (ANY))`, whose clauses
//! [`pivot_clauses`](super::pivot_clauses) reads. What does not match is left alone.

use std::ops::Range;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::text::query_starts;
use crate::text::tokens::Pass;

/// Applies the rewrites of the [module documentation](self), the innermost first.
pub(crate) fn rewrite(pass: &mut Pass) {
    let is_found =
        |pass: &Pass, word| matches!(pass.keyword(word), Some(Keyword::PIVOT | Keyword::UNPIVOT));
    if !(0..pass.len()).any(|word| is_found(pass, word)) {
        return;
    }
    let starts = query_starts::of_queries(pass);
    for word in (0..pass.len()).rev() {
        if !is_found(pass, word) {
            continue;
        }
        let pivots = pass.keyword(word) == Some(Keyword::PIVOT);
        let rewritten = match (starts.binary_search(&word).is_ok(), pivots) {
            (true, true) => pivot(pass, word),
            (true, false) => unpivot(pass, word),
            (false, true) => clause(pass, word),
            (false, false) => None,
        };
        if let Some((words, tokens)) = rewritten {
            pass.splice(words, tokens);
        }
    }
}

type Rewritten = Option<(Range<usize>, Vec<TokenWithSpan>)>;

/// Tokens put together from those of the text and some more.
struct Out<'a> {
    pass: &'a Pass,
    /// Where the parser is to say that it is.
    at: usize,
    tokens: Vec<TokenWithSpan>,
}

impl<'a> Out<'a> {
    fn new(pass: &'a Pass, at: usize) -> Self {
        Self { pass, at, tokens: Vec::new() }
    }

    fn push(&mut self, token: Token) {
        if let Some(place) = self.pass.with_span(self.at) {
            self.tokens.push(TokenWithSpan { token, span: place.span });
        }
    }

    fn keywords(&mut self, words: &str) {
        words.split(' ').for_each(|word| self.push(Token::make_keyword(word)));
    }

    fn words(&mut self, words: Range<usize>) {
        self.tokens.extend(words.filter_map(|word| self.pass.with_span(word)).cloned());
    }

    /// `PIVOT () FOR (clauses) IN (ANY)`.
    fn around_clauses(&mut self, clauses: impl FnOnce(&mut Self)) {
        self.keywords("PIVOT");
        self.push(Token::LParen);
        self.push(Token::RParen);
        self.keywords("FOR");
        self.push(Token::LParen);
        clauses(self);
        self.push(Token::RParen);
        self.keywords("IN");
        self.push(Token::LParen);
        self.keywords("ANY");
        self.push(Token::RParen);
    }

    /// `SELECT * FROM (SELECT * FROM source)`.
    fn all_of(&mut self, source: Range<usize>) {
        self.keywords("SELECT");
        self.push(Token::Mul);
        self.keywords("FROM");
        self.push(Token::LParen);
        self.keywords("SELECT");
        self.push(Token::Mul);
        self.keywords("FROM");
        self.words(source);
        self.push(Token::RParen);
    }
}

/// `PIVOT source [ON ...] [USING ...] [GROUP BY ...]`.
fn pivot(pass: &Pass, word: usize) -> Rewritten {
    let parts = Parts::of(pass, word + 1);
    let clauses = [parts.on, parts.using, parts.group].into_iter().flatten().min()?;
    let source = word + 1..clauses;
    if source.is_empty() {
        return None;
    }
    let mut out = Out::new(pass, word);
    out.all_of(source);
    out.keywords("PIVOT");
    out.push(Token::LParen);
    out.around_clauses(|out| out.words(clauses..parts.end));
    out.push(Token::RParen);
    Some((word..parts.end, out.tokens))
}

/// `PIVOT (sum(x) FOR s IN ('a', 'b') GROUP BY g)` behind a relation.
fn clause(pass: &Pass, word: usize) -> Rewritten {
    let close = pass.closing(word + 1).filter(|_| pass.token(word + 1) == Some(&Token::LParen))?;
    let outer = outer(pass, word + 2..close);
    let find = |keyword| outer.iter().copied().find(|w| pass.keyword(*w) == Some(keyword));
    let spread = find(Keyword::FOR)?;
    let group = find(Keyword::GROUP).filter(|group| *group > spread);
    let mut on = Vec::new();
    let mut start = spread + 1;
    let is_list = |w: usize| {
        pass.keyword(w) == Some(Keyword::IN) && pass.token(w + 1) == Some(&Token::LParen)
    };
    for list in outer.iter().copied().filter(|w| *w > spread && is_list(*w)) {
        let end = pass.closing(list + 1)?;
        on.push(start..end + 1);
        start = end + 1;
    }
    if start != group.unwrap_or(close) {
        return None;
    }
    let mut out = Out::new(pass, word);
    out.around_clauses(|out| {
        for (index, item) in on.into_iter().enumerate() {
            match index {
                0 => out.keywords("ON"),
                _ => out.push(Token::Comma),
            }
            out.words(item);
        }
        out.keywords("USING");
        out.words(word + 2..spread);
        out.words(group.unwrap_or(close)..close);
    });
    Some((word + 2..close, out.tokens))
}

/// `UNPIVOT source ON ... [INTO NAME k VALUE v]`.
fn unpivot(pass: &Pass, word: usize) -> Rewritten {
    let parts = Parts::of(pass, word + 1);
    let on = parts.on?;
    let source = word + 1..on;
    let end = parts.into.unwrap_or(parts.end);
    let (name, value) = match parts.into {
        None => (None, None),
        Some(into) => {
            let is_value = pass.is_word(into + 3, "value") || pass.is_word(into + 3, "values");
            if !pass.is_word(into + 1, "name") || !is_value || into + 4 >= parts.end {
                return None;
            }
            (Some(into + 2..into + 3), Some(into + 4..parts.end))
        }
    };
    if source.is_empty() || on + 1 >= end {
        return None;
    }
    let mut out = Out::new(pass, word);
    out.all_of(source);
    out.keywords("UNPIVOT");
    out.push(Token::LParen);
    match value {
        Some(value) => {
            out.push(Token::LParen);
            out.words(value);
            out.push(Token::RParen);
        }
        None => out.keywords("value"),
    }
    out.keywords("FOR");
    match name {
        Some(name) => out.words(name),
        None => out.keywords("name"),
    }
    out.keywords("IN");
    out.push(Token::LParen);
    for (index, item) in items(pass, on + 1..end)?.into_iter().enumerate() {
        if index > 0 {
            out.push(Token::Comma);
        }
        // `*` alone is no expression.
        let star = pass.token(item.start) == Some(&Token::Mul);
        if star {
            out.keywords("COLUMNS");
            out.push(Token::LParen);
        }
        out.words(item);
        if star {
            out.push(Token::RParen);
        }
    }
    out.push(Token::RParen);
    out.push(Token::RParen);
    Some((word..parts.end, out.tokens))
}

/// Where the clauses of a statement begin, and where it ends.
#[derive(Default)]
struct Parts {
    on: Option<usize>,
    using: Option<usize>,
    group: Option<usize>,
    into: Option<usize>,
    end: usize,
}

impl Parts {
    fn of(pass: &Pass, from: usize) -> Self {
        use Keyword::{
            CROSS, EXCEPT, FETCH, GROUP, INTERSECT, INTO, JOIN, LIMIT, NATURAL, OFFSET, ON, ORDER,
            UNION, USING,
        };
        let mut parts = Self { end: pass.len(), ..Self::default() };
        // Joins of the source whose condition is still to come.
        let mut joins = 0_usize;
        let outer = outer(pass, from..pass.len());
        for word in &outer {
            let word = *word;
            let clauses = parts.on.or(parts.using).or(parts.group);
            let before = |back| word.checked_sub(back).and_then(|w| pass.keyword(w));
            match pass.keyword(word) {
                Some(JOIN) if clauses.is_none() && before(1) != Some(CROSS) => {
                    let natural = (1..4).any(|back| before(back) == Some(NATURAL));
                    joins += usize::from(!natural);
                }
                Some(ON | USING) if joins > 0 && clauses.is_none() => joins -= 1,
                Some(ON) if clauses.is_none() => parts.on = Some(word),
                Some(USING) if parts.using.is_none() => parts.using = Some(word),
                Some(GROUP) if parts.group.is_none() => parts.group = Some(word),
                Some(INTO) if parts.into.is_none() => parts.into = Some(word),
                Some(EXCEPT | FETCH | INTERSECT | LIMIT | OFFSET | ORDER | UNION) => {
                    parts.end = word;
                    return parts;
                }
                _ => {}
            }
        }
        parts.end = outer.last().map_or(from, |last| last + 1);
        parts
    }
}

/// The words of a range outside of brackets, with the brackets themselves, up to the end of the
/// query.
pub(crate) fn outer(pass: &Pass, words: Range<usize>) -> Vec<usize> {
    let mut depth = 0_usize;
    let mut found = Vec::new();
    for word in words {
        match pass.token(word) {
            Some(Token::LParen | Token::LBracket | Token::LBrace) => {
                if depth == 0 {
                    found.push(word);
                }
                depth += 1;
                continue;
            }
            Some(Token::RParen | Token::RBracket | Token::RBrace) => {
                let Some(around) = depth.checked_sub(1) else { return found };
                depth = around;
            }
            Some(Token::SemiColon | Token::EOF | Token::VerticalBarRightAngleBracket) | None => {
                return found;
            }
            _ => {}
        }
        if depth == 0 {
            found.push(word);
        }
    }
    found
}

/// The parts of a range between commas; nothing behind a last one. None if there is nothing between
/// two of them.
fn items(pass: &Pass, words: Range<usize>) -> Option<Vec<Range<usize>>> {
    let commas = outer(pass, words.clone()).into_iter();
    let commas = commas.filter(|word| pass.token(*word) == Some(&Token::Comma));
    let mut all = Vec::new();
    let mut start = words.start;
    for end in commas.chain([words.end]) {
        match start < end {
            true => all.push(start..end),
            false if end == words.end => {}
            false => return None,
        }
        start = end + 1;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use crate::text::forms::tests::parsed;

    #[test]
    fn statements_become_clauses() {
        assert_eq!(
            parsed("PIVOT t JOIN u ON t.k = u.k ON s IN ('a', b AS bb), y USING sum(x) q LIMIT 1"),
            "SELECT * FROM (SELECT * FROM t JOIN u ON t.k = u.k) PIVOT(PIVOT() FOR \
             ((s IN ('a', b AS bb), y), (sum(x) AS q), ()) IN (ANY)) LIMIT 1"
        );
        assert_eq!(
            parsed("CREATE VIEW v AS SELECT a FROM t PIVOT (max(x) FOR s IN (1) GROUP BY g) AS p"),
            "CREATE VIEW v AS SELECT a FROM t PIVOT(PIVOT() FOR \
             ((s IN (1)), (max(x)), (g)) IN (ANY)) AS p"
        );
        assert_eq!(
            parsed("WITH c AS (UNPIVOT t ON a, b) FROM c WHERE value > 1"),
            "WITH c AS (SELECT * FROM (SELECT * FROM t) UNPIVOT(value FOR name IN (a, b))) \
             SELECT * FROM c WHERE value > 1"
        );
    }

    #[test]
    fn names_stay() {
        for same in ["SELECT pivot FROM t AS pivot", "SELECT a AS unpivot, pivot FROM t"] {
            assert_eq!(parsed(same), same);
        }
    }
}
