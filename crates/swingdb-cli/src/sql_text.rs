//! Cutting a text into statements, without understanding them.
//!
//! A `;` ends a statement unless it stands inside a string, a quoted name, a comment or a
//! dollar-quoted string. Whether a text is finished is what the shell asks after every line.

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

impl Statements<'_> {
    /// Whether the text has no statement.
    pub fn is_empty(&self) -> bool {
        self.complete.is_empty() && self.rest.is_empty()
    }
}

/// Cuts `text`.
pub fn split(text: &str) -> Statements<'_> {
    let bytes = text.as_bytes();
    let mut complete = Vec::new();
    let (mut start, mut at, mut open, mut something) = (0, 0, false, false);
    while at < bytes.len() {
        let byte = bytes[at];
        if byte == b';' {
            if something {
                complete.push(text[start..at].trim());
            }
            at += 1;
            (start, something) = (at, false);
            continue;
        }
        match token_end(bytes, at) {
            Token::Plain => {
                something |= !byte.is_ascii_whitespace();
                at += 1;
            }
            Token::Comment(end) => at = end,
            Token::Quoted(end) => (at, something) = (end, true),
            Token::Open { comment } => {
                something |= !comment;
                (at, open) = (bytes.len(), true);
            }
        }
    }
    let rest = if something || open { text[start..].trim() } else { "" };
    Statements { complete, rest, open }
}

enum Token {
    Plain,
    Comment(usize),
    Quoted(usize),
    Open { comment: bool },
}

/// What begins at `at`, and where it ends.
fn token_end(bytes: &[u8], at: usize) -> Token {
    let rest = &bytes[at..];
    match rest {
        [quote @ (b'\'' | b'"' | b'`'), ..] => {
            // A doubled quote ends one string and begins the next: the same end is found.
            let close = rest[1..].iter().position(|b| b == quote);
            close.map_or(Token::Open { comment: false }, |i| Token::Quoted(at + i + 2))
        }
        [b'-', b'-', ..] => {
            let line = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
            Token::Comment(at + line)
        }
        [b'/', b'*', ..] => block_comment(rest)
            .map_or(Token::Open { comment: true }, |len| Token::Comment(at + len)),
        [b'$', ..] if at == 0 || !is_word(bytes[at - 1]) => dollar_quoted(rest, at),
        _ => Token::Plain,
    }
}

/// Length of a block comment; they nest.
fn block_comment(rest: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while at + 1 < rest.len() {
        match &rest[at..at + 2] {
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
fn dollar_quoted(rest: &[u8], at: usize) -> Token {
    let tag = 1 + rest[1..].iter().take_while(|b| is_word(**b)).count();
    let numbered = rest.get(1).is_some_and(u8::is_ascii_digit);
    if rest.get(tag) != Some(&b'$') || numbered {
        return Token::Plain;
    }
    let mark = &rest[..=tag];
    let body = &rest[mark.len()..];
    let close = body.windows(mark.len()).position(|window| window == mark);
    close
        .map_or(Token::Open { comment: false }, |i| Token::Quoted(at + mark.len() + i + mark.len()))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }

    #[test]
    fn quoted_semicolons_do_not() {
        for text in ["'a;b'", "\"a;b\"", "`a;b`", "'it''s;'", "$$a;b$$", "$t$a;$$;$t$"] {
            assert_eq!(cut(&format!("{text};")), (vec![text], "", false), "{text}");
            assert_eq!(cut(text), (vec![], text, false), "{text}");
            let cut_short = &text[..text.len() - 1];
            assert!(split(cut_short).open, "{cut_short}");
        }
    }

    #[test]
    fn comments_are_no_statements() {
        assert_eq!(cut("-- a; b"), (vec![], "", false));
        assert_eq!(cut("-- a;\n;/* b; /* c; */ */ ;"), (vec![], "", false));
        assert_eq!(cut("a -- ';\n;"), (vec!["a -- ';"], "", false));
        assert_eq!(cut("a /* ' */ ;"), (vec!["a /* ' */"], "", false));
        assert!(split("a /* ;").open && split("/* /* */").open);
        assert_eq!(cut("1 - 1 / 2;"), (vec!["1 - 1 / 2"], "", false));
    }

    #[test]
    fn parameters_are_no_quotes() {
        assert_eq!(cut("x = $1; y = $name; a$b$c;").0.len(), 3);
        assert_eq!(cut("$1$;").0.len(), 1);
    }

    #[test]
    fn any_bytes_are_survived() {
        let alphabet = ['a', ';', '\'', '"', '$', '-', '/', '*', '\n', 'ü', '1'];
        let mut state = 7_usize;
        for _ in 0..5000 {
            let mut text = String::new();
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push(alphabet[(state >> 33) % alphabet.len()]);
            }
            let parts = split(&text);
            assert!(parts.complete.iter().all(|part| text.contains(part)));
        }
    }
}
