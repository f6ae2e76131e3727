//! The tokens of JSON text, one after the other: RFC 8259, strictly.
//!
//! A string is what stands between its quotes, and is only copied where it has escapes. Everything
//! is a slice of the text, so that a number can be taken exactly as it is written.

use std::borrow::Cow;

/// How deep values may be nested.
pub(crate) const MAX_LEVELS: usize = 127;

/// What is wrong with the text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Position in the text.
    pub(crate) at: usize,
    what: String,
    /// Names of the members that it is in, the innermost first.
    inside: Vec<String>,
}

impl Fault {
    pub(crate) fn new(at: usize, what: impl Into<String>) -> Self {
        Self { at, what: what.into(), inside: Vec::new() }
    }

    /// The same, in member `name`.
    pub(crate) fn inside(mut self, name: &str) -> Self {
        self.inside.push(name.to_string());
        self
    }

    /// What is wrong, and in which member.
    pub(crate) fn message(&self) -> String {
        let path: Vec<&str> = self.inside.iter().rev().map(String::as_str).collect();
        match path.is_empty() {
            true => self.what.clone(),
            false => format!("member {:?}: {}", path.join("."), self.what),
        }
    }
}

pub(crate) type Scanned<T> = std::result::Result<T, Fault>;

/// A string as it stands in the text, without its quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    raw: &'a str,
    escaped: bool,
}

/// A value up to where the next decision is to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(Text<'a>),
    /// `[` is behind us.
    List,
    /// `{` is behind us.
    Object,
}

/// A place in a text.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Text<'a> {
    /// What the string says.
    pub(crate) fn value(self) -> Cow<'a, str> {
        match self.escaped {
            false => Cow::Borrowed(self.raw),
            true => Cow::Owned(unescaped(self.raw)),
        }
    }

    /// The string where that is what stands in the text.
    #[inline]
    pub(crate) fn plain(self) -> Option<&'a str> {
        (!self.escaped).then_some(self.raw)
    }
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }

    /// Where the next byte is read.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Where the value begins whose beginning is `token`, which has just been read.
    pub(crate) fn start_of(&self, token: Token<'a>) -> usize {
        let length = match token {
            Token::Null | Token::Bool(true) => 4,
            Token::Bool(false) => 5,
            Token::Number(text) => text.len(),
            Token::Text(text) => text.raw.len() + 2,
            Token::List | Token::Object => 1,
        };
        self.at - length
    }

    /// What has been read since `from`.
    pub(crate) fn since(&self, from: usize) -> &'a str {
        &self.text[from..self.at]
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Goes past blanks; line ends are none.
    #[inline]
    pub(crate) fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    pub(crate) fn fault<T>(&self, what: impl Into<String>) -> Scanned<T> {
        Err(Fault::new(self.at, what))
    }

    /// The error of a byte that is not what has to be here.
    #[cold]
    fn expected<T>(&self, what: &str) -> Scanned<T> {
        match self.text[self.at..].chars().next() {
            Some('\n') | None => {
                self.fault(format!("is no JSON: the line ends where {what} is expected"))
            }
            Some(found) => self.fault(format!("is no JSON: {found:?} where {what} is expected")),
        }
    }

    /// Whether a blank line, or the end, comes here; then it is behind us.
    #[inline]
    pub(crate) fn line_end(&mut self) -> bool {
        self.blanks();
        match self.peek() {
            Some(b'\n') => {
                self.at += 1;
                true
            }
            None => true,
            Some(_) => false,
        }
    }

    pub(crate) fn at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Goes past `byte` if it comes next behind blanks.
    #[inline]
    fn accept(&mut self, byte: u8) -> bool {
        self.blanks();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// The next value's beginning.
    #[inline]
    pub(crate) fn token(&mut self) -> Scanned<Token<'a>> {
        self.blanks();
        match self.peek() {
            Some(b'"') => self.string().map(Token::Text),
            Some(b'-' | b'0'..=b'9') => self.number().map(Token::Number),
            Some(b'{') => {
                self.at += 1;
                Ok(Token::Object)
            }
            Some(b'[') => {
                self.at += 1;
                Ok(Token::List)
            }
            Some(b'n') => self.word("null").map(|()| Token::Null),
            Some(b't') => self.word("true").map(|()| Token::Bool(true)),
            Some(b'f') => self.word("false").map(|()| Token::Bool(false)),
            _ => self.expected("a value"),
        }
    }

    fn word(&mut self, word: &str) -> Scanned<()> {
        let rest = &self.text.as_bytes()[self.at..];
        let goes_on = rest.get(word.len()).is_some_and(|byte| byte.is_ascii_alphanumeric());
        if !rest.starts_with(word.as_bytes()) || goes_on {
            return self.expected("a value");
        }
        self.at += word.len();
        Ok(())
    }

    #[inline]
    fn digits(&mut self) -> Scanned<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { self.expected("a digit") } else { Ok(()) }
    }

    #[inline]
    fn number(&mut self) -> Scanned<&'a str> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        match self.peek() {
            Some(byte) if byte.is_ascii_alphanumeric() || byte == b'.' => {
                self.expected("the end of a number")
            }
            _ => Ok(self.since(start)),
        }
    }

    /// A string whose opening quote comes next.
    #[inline]
    fn string(&mut self) -> Scanned<Text<'a>> {
        let start = self.at + 1;
        let bytes = self.text.as_bytes();
        let mut at = start;
        let mut escaped = false;
        loop {
            match memchr::memchr3(b'"', b'\\', b'\n', &bytes[at..]) {
                Some(found) if bytes[at + found] == b'"' => {
                    at += found;
                    break;
                }
                Some(found) if bytes[at + found] == b'\\' => {
                    at = self.escape(at + found)?;
                    escaped = true;
                }
                _ => return self.fault("is no JSON: a string goes on behind the line"),
            }
        }
        self.at = at + 1;
        Ok(Text { raw: &self.text[start..at], escaped })
    }

    /// Where the escape that begins at `at` ends.
    fn escape(&self, at: usize) -> Scanned<usize> {
        let bytes = &self.text.as_bytes()[at..];
        let wrong = || Fault::new(at, "is no JSON: a string has an escape that there is not");
        match bytes.get(1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
            Some(b'u') => match unit(bytes) {
                Some(0xDC00..=0xDFFF) | None => Err(wrong()),
                Some(0xD800..=0xDBFF) => match unit(&bytes[6..]) {
                    Some(0xDC00..=0xDFFF) => Ok(at + 12),
                    _ => Err(wrong()),
                },
                Some(_) => Ok(at + 6),
            },
            _ => Err(wrong()),
        }
    }

    /// The next member's name of an object, behind its colon; `None` at the object's end. `first`:
    /// none has been read.
    #[inline]
    pub(crate) fn member(&mut self, first: bool) -> Scanned<Option<Text<'a>>> {
        if self.accept(b'}') {
            return Ok(None);
        }
        if !first && !self.accept(b',') {
            return self.expected("',' or '}'");
        }
        self.blanks();
        if self.peek() != Some(b'"') {
            return self.expected("a member's name in quotes");
        }
        let name = self.string()?;
        if !self.accept(b':') {
            return self.expected("':'");
        }
        Ok(Some(name))
    }

    /// Whether a further element of a list comes.
    #[inline]
    pub(crate) fn element(&mut self, first: bool) -> Scanned<bool> {
        if self.accept(b']') {
            return Ok(false);
        }
        if !first && !self.accept(b',') {
            return self.expected("',' or ']'");
        }
        Ok(true)
    }

    /// Goes past a value whose beginning is `token`, `depth` levels below the line's.
    pub(crate) fn skip(&mut self, token: Token<'a>, depth: usize) -> Scanned<()> {
        let depth = self.deeper(token, depth)?;
        match token {
            Token::List => {
                let mut first = true;
                while self.element(first)? {
                    first = false;
                    let token = self.token()?;
                    self.skip(token, depth)?;
                }
            }
            Token::Object => {
                let mut first = true;
                while self.member(first)?.is_some() {
                    first = false;
                    let token = self.token()?;
                    self.skip(token, depth)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The depth inside of a value, which is bounded: each level is a call.
    #[inline]
    pub(crate) fn deeper(&self, token: Token<'a>, depth: usize) -> Scanned<usize> {
        match token {
            Token::List | Token::Object if depth >= MAX_LEVELS => {
                self.fault(format!("is nested more than {MAX_LEVELS} levels deep"))
            }
            Token::List | Token::Object => Ok(depth + 1),
            _ => Ok(depth),
        }
    }
}

/// The code unit of `\uXXXX`.
fn unit(bytes: &[u8]) -> Option<u32> {
    let [b'\\', b'u', digits @ ..] = bytes else { return None };
    let digits = digits.get(..4)?;
    digits.iter().try_fold(0, |sum, digit| Some(sum << 4 | (*digit as char).to_digit(16)?))
}

/// What a string says whose escapes have been looked at.
fn unescaped(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let (character, length) = match rest.as_bytes().get(at + 1) {
            Some(b'b') => ('\u{8}', 2),
            Some(b'f') => ('\u{C}', 2),
            Some(b'n') => ('\n', 2),
            Some(b'r') => ('\r', 2),
            Some(b't') => ('\t', 2),
            Some(b'u') => {
                let high = unit(&rest.as_bytes()[at..]).unwrap_or(0);
                let low = rest.as_bytes().get(at + 6..).and_then(unit);
                let (code, length) = match (high, low) {
                    (0xD800..=0xDBFF, Some(low)) => {
                        (0x10000 + ((high & 0x3FF) << 10 | low & 0x3FF), 12)
                    }
                    _ => (high, 6),
                };
                (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), length)
            }
            Some(other) => (*other as char, 2),
            None => break,
        };
        out.push(character);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a line is one value, and the value as a library understands it.
    fn line(text: &str) -> bool {
        let mut scanner = Scanner::new(text, 0);
        let Ok(token) = scanner.token() else { return false };
        scanner.skip(token, 0).is_ok() && scanner.line_end() && scanner.at_end()
    }

    #[test]
    fn lines_are_values_when_a_library_says_so() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let pieces = [
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"a\"",
            "\"\\u00e9\\n\"",
            "\"\\ud83d\\ude00\"",
            "1",
            "-0.5",
            "1e5",
            "00",
            "-",
            "null",
            "true",
            "false",
            " ",
            "\"",
            "\\",
            "x",
            "\"é\"",
            "\"\\ud800\"",
            "{\"a\":",
            "[1,",
            "\t",
            "1.",
            ".5",
            "1E+",
            "nul",
            "\"\\x\"",
        ];
        let mut values = 0;
        for _ in 0..300_000 {
            let count = random.usize(1..8);
            let text: String = (0..count).map(|_| pieces[random.usize(..pieces.len())]).collect();
            let theirs = serde_json::from_str::<serde_json::Value>(&text);
            // Numbers that no double holds are still numbers.
            if theirs.as_ref().is_err_and(|error| error.to_string().contains("out of range")) {
                continue;
            }
            let theirs = theirs.is_ok();
            values += usize::from(theirs);
            // Raw tabs in strings are taken here.
            if !text.contains('\t') {
                assert_eq!(line(&text), theirs, "{text}");
            }
        }
        assert!(values > 1000, "{values}");
    }

    #[test]
    fn strings_say_what_they_say() {
        for text in [r#""a""#, r#""\"\\\/\b\f\n\r\t""#, r#""\u00e9x\ud83d\ude00é""#, r#""\u0000""#]
        {
            let Ok(Token::Text(found)) = Scanner::new(text, 0).token() else { panic!("{text}") };
            let theirs: String = serde_json::from_str(text).unwrap();
            assert_eq!(found.value(), theirs);
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(line(&nested(MAX_LEVELS)));
        assert!(!line(&nested(MAX_LEVELS + 1)));
        assert!(!line(&"{\"a\":".repeat(1_000_000)));
    }
}
