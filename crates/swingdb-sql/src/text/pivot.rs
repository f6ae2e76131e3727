//! PIVOT and UNPIVOT as the parser knows them.
//!
//! | written | becomes |
//! |---|---|
//! | `PIVOT t ON s USING sum(x)` | `SELECT * FROM (SELECT * FROM t) PIVOT (#pivot(...) ...)` |
//! | `FROM t PIVOT (sum(x) FOR s IN ('a') GROUP BY g)` | `FROM t PIVOT (#pivot(...) ...)` |
//! | `UNPIVOT t ON a INTO NAME k VALUE v` | `... (SELECT * FROM t) UNPIVOT (v FOR k IN (a))` |
//!
//! The call carries what the parser has no place for: `#on(s)` or `#in(s, 'a', #as('b', 'name'))`
//! for what is spread out, `#using(sum(x), 'name')` for the aggregates, `#group(g)`. The marks
//! begin with a control character. What does not match is left alone.

use std::ops::Range;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::text::query_starts;
use crate::text::tokens::Pass;

pub(crate) const PIVOT_MARK: &str = "\u{1}pivot";
pub(crate) const ON_MARK: &str = "\u{1}on";
pub(crate) const IN_MARK: &str = "\u{1}in";
pub(crate) const AS_MARK: &str = "\u{1}as";
pub(crate) const USING_MARK: &str = "\u{1}using";
pub(crate) const GROUP_MARK: &str = "\u{1}group";

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

    fn mark(&mut self, mark: &str) {
        let (value, keyword) = (mark.to_string(), Keyword::NoKeyword);
        self.push(Token::Word(Word { value, quote_style: Some('"'), keyword }));
    }

    /// A mark and the bracket of its arguments.
    fn open(&mut self, mark: &str) {
        self.mark(mark);
        self.push(Token::LParen);
    }

    /// `#using(sum(x), 'name')`, and the same of `#as`.
    fn named(&mut self, mark: &str, item: Range<usize>, implicit: bool) {
        let (expr, name) = split_name(self.pass, item, implicit);
        self.open(mark);
        self.words(expr);
        if let Some(name) = name {
            self.push(Token::Comma);
            self.push(Token::SingleQuotedString(name));
        }
        self.push(Token::RParen);
    }

    /// `s` or `s IN ('a', 'b' AS c)`.
    fn spread(&mut self, item: Range<usize>) -> Option<()> {
        let Some((expr, values)) = split_in(self.pass, item.clone()) else {
            self.open(ON_MARK);
            self.words(item);
            self.push(Token::RParen);
            return Some(());
        };
        self.open(IN_MARK);
        self.words(expr);
        let begins = self.pass.keyword(values.start);
        if matches!(begins, Some(Keyword::SELECT | Keyword::WITH | Keyword::FROM)) {
            self.push(Token::Comma);
            self.push(Token::LParen);
            self.words(values);
            self.push(Token::RParen);
        } else {
            for value in items(self.pass, values)? {
                self.push(Token::Comma);
                self.named(AS_MARK, value, false);
            }
        }
        self.push(Token::RParen);
        Some(())
    }

    /// `#pivot(...) FOR #pivot IN (ANY)`.
    fn carrier(
        &mut self,
        on: &[Range<usize>],
        using: &[Range<usize>],
        groups: &[Range<usize>],
    ) -> Option<()> {
        self.open(PIVOT_MARK);
        let mut first = true;
        let mut comma = |out: &mut Self| {
            if !std::mem::take(&mut first) {
                out.push(Token::Comma);
            }
        };
        for item in on {
            comma(self);
            self.spread(item.clone())?;
        }
        for item in using {
            comma(self);
            self.named(USING_MARK, item.clone(), true);
        }
        for item in groups {
            comma(self);
            self.open(GROUP_MARK);
            self.words(item.clone());
            self.push(Token::RParen);
        }
        self.push(Token::RParen);
        self.keywords("FOR");
        self.mark(PIVOT_MARK);
        self.keywords("IN");
        self.push(Token::LParen);
        self.keywords("ANY");
        self.push(Token::RParen);
        Some(())
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
    let behind = |at: Option<usize>, skip: usize, others: &[Option<usize>]| {
        let at = at?;
        let end = others.iter().flatten().filter(|other| **other > at).min();
        Some(at + skip..end.copied().unwrap_or(parts.end))
    };
    let on = behind(parts.on, 1, &[parts.using, parts.group]);
    let using = behind(parts.using, 1, &[parts.group]);
    let groups = behind(parts.group, 2, &[]);
    let source = word + 1..[parts.on, parts.using, parts.group].into_iter().flatten().min()?;
    if source.is_empty() {
        return None;
    }
    let all = |range: Option<Range<usize>>| range.map_or(Some(Vec::new()), |r| items(pass, r));
    let mut out = Out::new(pass, word);
    out.all_of(source);
    out.keywords("PIVOT");
    out.push(Token::LParen);
    out.carrier(&all(on)?, &all(using)?, &all(groups)?)?;
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
    let using = items(pass, word + 2..spread)?;
    let groups = group.map_or(Some(Vec::new()), |group| items(pass, group + 2..close))?;
    let mut out = Out::new(pass, word);
    out.carrier(&on, &using, &groups)?;
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

/// `expr IN (values)`.
fn split_in(pass: &Pass, item: Range<usize>) -> Option<(Range<usize>, Range<usize>)> {
    let outer = outer(pass, item.clone());
    let [.., list, open, close] = outer.as_slice() else { return None };
    let negated = pass.keyword(list.checked_sub(1)?) == Some(Keyword::NOT);
    let found = pass.keyword(*list) == Some(Keyword::IN)
        && pass.token(*open) == Some(&Token::LParen)
        && pass.token(*close) == Some(&Token::RParen)
        && close + 1 == item.end;
    (found && !negated).then_some((item.start..*list, open + 1..*close))
}

/// `expr [AS] name`; `implicit` when AS may be left out behind a bracket.
fn split_name(pass: &Pass, item: Range<usize>, implicit: bool) -> (Range<usize>, Option<String>) {
    let whole = (item.clone(), None);
    let Some(last) = item.end.checked_sub(1) else { return whole };
    let name = match pass.token(last) {
        Some(Token::Word(word)) => word.value.clone(),
        Some(Token::SingleQuotedString(text)) => text.clone(),
        _ => return whole,
    };
    if last <= item.start + 1 {
        return whole;
    }
    if pass.keyword(last - 1) == Some(Keyword::AS) {
        return (item.start..last - 1, Some(name));
    }
    let behind = pass.token(last - 1) == Some(&Token::RParen);
    if implicit && behind { (item.start..last, Some(name)) } else { whole }
}

#[cfg(test)]
mod tests {
    use crate::text::forms::tests::parsed;

    fn marked(sql: &str) -> String {
        parsed(sql).replace('\u{1}', "#")
    }

    #[test]
    fn statements_become_clauses() {
        assert_eq!(
            marked("PIVOT t JOIN u ON t.k = u.k ON s IN ('a', b AS bb), y USING sum(x) q LIMIT 1"),
            "SELECT * FROM (SELECT * FROM t JOIN u ON t.k = u.k) PIVOT(#pivot(\
             \"#in\"(s, \"#as\"('a'), \"#as\"(b, 'bb')), \"#on\"(y), \"#using\"(sum(x), 'q')) \
             FOR \"#pivot\" IN (ANY)) LIMIT 1"
        );
        assert_eq!(
            marked("CREATE VIEW v AS SELECT a FROM t PIVOT (max(x) FOR s IN (1) GROUP BY g) AS p"),
            "CREATE VIEW v AS SELECT a FROM t PIVOT(#pivot(\"#in\"(s, \"#as\"(1)), \
             \"#using\"(max(x)), \"#group\"(g)) FOR \"#pivot\" IN (ANY)) AS p"
        );
        assert_eq!(
            marked("WITH c AS (UNPIVOT t ON a, b) FROM c WHERE value > 1"),
            "WITH c AS (SELECT * FROM (SELECT * FROM t) UNPIVOT(value FOR name IN (a, b))) \
             SELECT * FROM c WHERE value > 1"
        );
    }

    #[test]
    fn names_stay() {
        for same in ["SELECT pivot FROM t AS pivot", "SELECT a AS unpivot, pivot FROM t"] {
            assert_eq!(marked(same), same);
        }
    }
}
