//! Texts cut into statements, and statements into words, without parsing: [`split`], [`words`].
//!
//! A `;` ends a statement unless it stands inside a string, a quoted name, a comment or a
//! dollar-quoted string. The borders are those that the tokenizer finds; a test compares both on
//! random texts. Unlike the tokenizer, nothing here fails: a shell asks after every line whether a
//! text is finished, and a server answers the statements before a broken one.
//!
//! Two texts are cut otherwise. `$1$` is a parameter and a sign, as in PostgreSQL; and a word may
//! begin with `#` or `@`, whatever follows.
//!
//! ```
//! use swingdb_sql::text::cutter::split;
//! let text = r"SELECT E'\';'; SELECT 2 /* ; /* ; */ */";
//! let statements = split(text);
//! assert_eq!(statements.complete, [r"SELECT E'\';'"]);
//! assert_eq!(statements.rest, "SELECT 2 /* ; /* ; */ */");
//! assert!(!statements.open && split("SELECT $$;").open);
//! ```

/// A text cut at its semicolons.
#[derive(Debug, PartialEq, Eq)]
pub struct Statements<'a> {
    /// Statements without their semicolons; empty ones and lone comments left out.
    pub complete: Vec<&'a str>,
    /// What follows the last semicolon; empty if only blanks and comments follow.
    pub rest: &'a str,
    /// The rest ends inside a string, a quoted name or a block comment.
    pub open: bool,
}

impl<'a> Statements<'a> {
    /// Whether the text has no statement.
    pub fn is_empty(&self) -> bool {
        self.complete.is_empty() && self.rest.is_empty()
    }

    /// All statements, also the one without a semicolon.
    pub fn all(self) -> Vec<&'a str> {
        let mut all = self.complete;
        all.extend(Some(self.rest).filter(|rest| !rest.is_empty()));
        all
    }
}

/// What a piece of a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// White space.
    Blank,
    /// A comment.
    Comment,
    /// A name or a keyword without quotes, or a number.
    Word,
    /// A string of any form, or a quoted name.
    Quoted,
    /// `$1`, `$name`.
    Parameter,
    /// Anything else: one character, or an operator that ends with a slash.
    Sign,
}

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its characters, quotes included.
    pub text: &'a str,
    /// The text ends before the string or the comment does.
    pub is_open: bool,
}

/// The pieces of a text, which together are the text.
pub fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (kind, end) = next(rest)?;
        let (text, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        Some(Piece { kind, text, is_open: end.is_none() })
    })
}

/// The statements of a text.
pub fn split(text: &str) -> Statements<'_> {
    let mut complete = Vec::new();
    let (mut start, mut at, mut something, mut open) = (0, 0, false, false);
    for piece in pieces(text) {
        let before = at;
        at += piece.text.len();
        if (piece.kind, piece.text) == (Kind::Sign, ";") {
            if something {
                complete.push(text[start..before].trim());
            }
            (start, something) = (at, false);
        } else {
            something |= !matches!(piece.kind, Kind::Blank | Kind::Comment);
            open |= piece.is_open;
        }
    }
    let rest = if something || open { text[start..].trim() } else { "" };
    Statements { complete, rest, open }
}

/// The words, strings and signs of a statement, without blanks and comments.
pub fn words(statement: &str) -> impl Iterator<Item = Piece<'_>> {
    pieces(statement).filter(|piece| !matches!(piece.kind, Kind::Blank | Kind::Comment))
}

/// The first words of a statement in lower case, up to something that is no word.
pub fn first_words(statement: &str, count: usize) -> Vec<String> {
    let words = words(statement).take_while(|piece| piece.kind == Kind::Word);
    words.take(count).map(|piece| piece.text.to_lowercase()).collect()
}

/// What a text begins with, and where that ends; `None`: behind the text.
fn next(text: &str) -> Option<(Kind, Option<usize>)> {
    let bytes = text.as_bytes();
    let first = text.chars().next()?;
    Some(match bytes {
        [b'-', b'-', ..] => (Kind::Comment, Some(line(text))),
        // What would begin a comment behind these does not.
        [b'/', b'/', ..] | [b'|', b'/', ..] => (Kind::Sign, Some(2)),
        [b'|', b'|', b'/', ..] => (Kind::Sign, Some(3)),
        [b'/', b'*', ..] => {
            // The tokenizer reads what stands in such a comment, as MySQL does.
            let kind = if bytes.get(2) == Some(&b'!') { Kind::Quoted } else { Kind::Comment };
            (kind, block_comment(bytes))
        }
        [b'\'' | b'"' | b'`', ..] => (Kind::Quoted, quoted(bytes, 0, false)),
        [b'$', ..] => dollar(text),
        [b'0'..=b'9', ..] => (Kind::Word, Some(number(bytes))),
        _ if first.is_whitespace() => {
            let other = text.find(|c: char| !c.is_whitespace());
            (Kind::Blank, Some(other.unwrap_or(text.len())))
        }
        _ if first.is_alphabetic() || matches!(first, '_' | '#' | '@') => match prefixed(text) {
            Some(end) => (Kind::Quoted, end),
            None => (Kind::Word, Some(word(text))),
        },
        _ => (Kind::Sign, Some(first.len_utf8())),
    })
}

fn line(text: &str) -> usize {
    text.find('\n').map_or(text.len(), |end| end + 1)
}

fn word(text: &str) -> usize {
    let is_part =
        |c: char| c.is_alphabetic() || c.is_ascii_digit() || matches!(c, '_' | '#' | '@' | '$');
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

/// Length of a number: `12`, `1_000`, `0xff`, `1.5e-3`.
fn number(bytes: &[u8]) -> usize {
    let digits = |from: usize, is_digit: fn(&u8) -> bool| {
        let is_part = |at: usize| match bytes.get(at) {
            Some(b'_') => bytes.get(at + 1).is_some_and(u8::is_ascii_hexdigit),
            byte => byte.is_some_and(is_digit),
        };
        (from..).find(|at| !is_part(*at)).unwrap_or(from)
    };
    if bytes.starts_with(b"0x") {
        return digits(2, u8::is_ascii_hexdigit);
    }
    let mut end = digits(0, u8::is_ascii_digit);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1, u8::is_ascii_digit);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = bytes[end + 1 + sign..].iter().take_while(|b| b.is_ascii_digit()).count();
        end += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    end
}

/// The end of a string that begins with letters, such as `E'...'`; `None`: there is none.
fn prefixed(text: &str) -> Option<Option<usize>> {
    let bytes = text.as_bytes();
    match bytes {
        [b'e' | b'E' | b'x' | b'X', b'\'', ..] => Some(quoted(bytes, 1, true)),
        [b'n' | b'N', b'\'', ..] => Some(quoted(bytes, 1, false)),
        [b'r' | b'R', b'\'', b'\'', b'\'', ..] => Some(tripled(text, "'''")),
        [b'r' | b'R', b'"', b'"', b'"', ..] => Some(tripled(text, "\"\"\"")),
        [b'b' | b'B' | b'r' | b'R', b'\'' | b'"', ..] => Some(quoted(bytes, 1, false)),
        [b'u' | b'U', b'&', b'\'', ..] => Some(quoted(bytes, 2, false)),
        [b'q' | b'Q', b'\'', ..] => Some(delimited(text, 2)),
        [b'n' | b'N', b'q' | b'Q', b'\'', ..] => Some(delimited(text, 3)),
        _ => None,
    }
}

/// Where `r'''...'''` ends.
fn tripled(text: &str, quotes: &str) -> Option<usize> {
    let begin = 1 + quotes.len();
    text[begin..].find(quotes).map(|length| begin + length + quotes.len())
}

/// Where the quotes end that begin at `at`. A doubled quote belongs to what is quoted.
fn quoted(bytes: &[u8], at: usize, has_escapes: bool) -> Option<usize> {
    let quote = bytes[at];
    let mut at = at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if has_escapes => at += 2,
            byte if byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

/// Where `Q'[...]'` ends, whose content begins at `at` with what delimits it.
fn delimited(text: &str, at: usize) -> Option<usize> {
    let open = text[at..].chars().next()?;
    let close = match open {
        '[' => ']',
        '(' => ')',
        '{' => '}',
        '<' => '>',
        same => same,
    };
    let (begin, end) = (at + open.len_utf8(), format!("{close}'"));
    text[begin..].find(&end).map(|length| begin + length + end.len())
}

/// Length of a block comment; they nest.
fn block_comment(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
    None
}

/// `$$...$$` or `$tag$...$tag$`; `$1` and `$name` are parameters.
fn dollar(text: &str) -> (Kind, Option<usize>) {
    let tag = &text[1..];
    let tag = 1 + tag.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(tag.len());
    let is_numbered = text.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    if is_numbered || text.as_bytes().get(tag) != Some(&b'$') {
        return (Kind::Parameter, Some(tag));
    }
    let (mark, body) = text.split_at(tag + 1);
    (Kind::Quoted, body.find(mark).map(|end| end + 2 * mark.len()))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Whitespace};

    use super::*;
    use crate::text::dialect::DIALECT;

    fn cut(text: &str) -> (Vec<&str>, &str, bool) {
        let Statements { complete, rest, open } = split(text);
        (complete, rest, open)
    }

    #[test]
    fn semicolons_end_statements() {
        assert_eq!(cut(""), (vec![], "", false));
        assert_eq!(cut(" ;; ;\n"), (vec![], "", false));
        assert_eq!(cut("a; b ;c"), (vec!["a", "b"], "c", false));
        assert_eq!(cut("SELECT 1;"), (vec!["SELECT 1"], "", false));
        assert_eq!(split("SELECT 1; SELECT ';' ;; -- ;\n").all(), ["SELECT 1", "SELECT ';'"]);
        assert_eq!(split("SELECT 'open; SELECT 2").all(), ["SELECT 'open; SELECT 2"]);
    }

    #[test]
    fn quoted_semicolons_do_not() {
        let escaped = [r"E'a\';b'", r"e'a''b\';'", "U&'a;b'", "N';'", "R';'", "B';'", "x';'"];
        let delimited = ["Q'[a';]'", "nq'!a;!'", "q'<;>'"];
        let plain = ["'a;b'", "\"a;b\"", "`a;b`", "'it''s;'", "$$a;b$$", "$t$a;$$;$t$", "$ü$;$ü$"];
        for text in plain.into_iter().chain(escaped).chain(delimited) {
            assert_eq!(cut(&format!("{text};")), (vec![text], "", false), "{text}");
            assert_eq!(cut(text), (vec![], text, false), "{text}");
            let cut_short = &text[..text.len() - 1];
            assert!(split(cut_short).open, "{cut_short}");
        }
        assert_eq!(split(r"SELECT E'\';', 'a\'; SELECT 2").all().len(), 2);
        assert_eq!(split(r"e'\\'; a'\';b").all(), [r"e'\\'", r"a'\'", "b"]);
    }

    #[test]
    fn comments_are_no_statements() {
        assert_eq!(cut("-- a; b"), (vec![], "", false));
        assert_eq!(cut("-- a;\n;/* b; /* c; */ */ ;"), (vec![], "", false));
        assert_eq!(cut("a -- ';\n;"), (vec!["a -- ';"], "", false));
        assert_eq!(cut("a /* ' */ ;"), (vec!["a /* ' */"], "", false));
        assert!(split("a /* ;").open && split("/* /* */").open);
        assert_eq!(cut("1 - 1 / 2;"), (vec!["1 - 1 / 2"], "", false));
        let nested = "SELECT \";\" /* ; /* ; */ ; */ ;x";
        assert_eq!(split(nested).all(), ["SELECT \";\" /* ; /* ; */ ; */", "x"]);
        assert!(split(" ; -- nothing\n /* at all */").is_empty());
    }

    #[test]
    fn parameters_are_no_quotes() {
        assert_eq!(cut("x = $1; y = $name; a$b$c;").0.len(), 3);
        assert_eq!(cut("$1$;").0.len(), 1);
        let parameters = words("$1 + f($name, '$2', $$3$$, a$4)")
            .filter(|piece| piece.kind == Kind::Parameter)
            .map(|piece| piece.text);
        assert!(parameters.eq(["$1", "$name"]));
    }

    #[test]
    fn first_words_are_found_behind_comments() {
        assert_eq!(first_words("/* x */ Set -- y\n TIME zone 'UTC'", 3), ["set", "time", "zone"]);
        assert_eq!(first_words("(SELECT 1)", 2), [""; 0]);
    }

    /// The statements of a text that the tokenizer takes, each as its tokens.
    fn by_tokenizer(text: &str) -> Option<Vec<Vec<Token>>> {
        let mut found = vec![Vec::new()];
        for token in Tokenizer::new(&DIALECT, text).tokenize().ok()? {
            match token {
                Token::SemiColon => found.push(Vec::new()),
                Token::Whitespace(_) => {}
                token => found.last_mut()?.push(token),
            }
        }
        found.retain(|statement| !statement.is_empty());
        Some(found)
    }

    fn is_comment(token: &Token) -> bool {
        let Token::Whitespace(space) = token else { return false };
        matches!(space, Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_))
    }

    #[test]
    fn statements_are_those_that_the_tokenizer_finds() {
        const PARTS: [&str; 31] = [
            ";", ";", "'", "'", "''", "\"", "`", "$", "$", "$$", "$t$", "e", "E'", "x'", "n'",
            "r'", "u&'", "q'[", "]'", "\\", "--", "\n", "/*", "*/", "/", "ü", "1", "1e5", ".", " ",
            "|",
        ];
        let mut random = fastrand::Rng::with_seed(7);
        let (mut taken, mut several) = (0, 0);
        for _ in 0..200_000 {
            let count = random.usize(..12);
            let text: String = (0..count).map(|_| PARTS[random.usize(..PARTS.len())]).collect();
            let whole: String = pieces(&text).map(|piece| piece.text).collect();
            assert_eq!(whole, text);
            let Some(expected) = by_tokenizer(&text) else { continue };
            if text.contains("$1") {
                continue;
            }
            let found = split(&text);
            assert!(!found.open, "{text:?}");
            let found = found.all();
            let tokens: Vec<_> = found.iter().map(|statement| by_tokenizer(statement)).collect();
            let tokens: Option<Vec<_>> =
                tokens.into_iter().map(|one| one.and_then(|mut one| one.pop())).collect();
            assert_eq!(tokens.as_ref(), Some(&expected), "{text:?}: {found:?}");
            let comments = Tokenizer::new(&DIALECT, &text).tokenize().unwrap();
            let comments = comments.iter().filter(|token| is_comment(token)).count();
            let ours = pieces(&text).filter(|piece| piece.kind == Kind::Comment).count();
            assert_eq!(ours, comments, "{text:?}");
            taken += 1;
            several += usize::from(expected.len() > 1);
        }
        assert!(taken > 10_000 && several > 1_000, "{taken} texts, {several} of several");
    }
}
