//! A text cut into statements, without understanding them: [`split`].
//!
//! A query message may hold several statements, and each gets an answer of its own. A `;` ends a
//! statement unless it stands inside a string, a quoted name, a comment or a dollar-quoted string.

/// The statements of a text without their semicolons; empty ones and lone comments left out.
pub fn split(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let (mut found, mut start, mut at, mut something) = (Vec::new(), 0, 0, false);
    while at < bytes.len() {
        let (end, is_comment) = part_end(bytes, at);
        if bytes[at] == b';' {
            if something {
                found.push(text[start..at].trim());
            }
            (start, something) = (end, false);
        } else {
            something |= !is_comment && !bytes[at].is_ascii_whitespace();
        }
        at = end;
    }
    if something {
        found.push(text[start..].trim());
    }
    found
}

/// The first words of a statement in lower case, comments left out.
pub fn first_words(statement: &str, count: usize) -> Vec<String> {
    let bytes = statement.as_bytes();
    let (mut words, mut at) = (Vec::new(), 0);
    while at < bytes.len() && words.len() < count {
        let (end, is_comment) = part_end(bytes, at);
        if is_comment || bytes[at].is_ascii_whitespace() {
            at = end;
            continue;
        }
        let length = bytes[at..].iter().take_while(|byte| is_word(**byte)).count();
        if length == 0 {
            break;
        }
        words.push(statement[at..at + length].to_lowercase());
        at += length;
    }
    words
}

/// Where the string, comment or single byte that begins at `at` ends, and whether it is a comment.
pub(crate) fn part_end(bytes: &[u8], at: usize) -> (usize, bool) {
    let rest = &bytes[at..];
    let to_end = |length: Option<usize>| at + length.unwrap_or(rest.len());
    match rest {
        [b'\'', ..] if at > 0 && is_escaping(bytes, at) => (to_end(escaped(rest)), false),
        // A doubled quote ends one string and begins the next: the same end is found.
        [quote @ (b'\'' | b'"'), ..] => {
            let close = rest[1..].iter().position(|byte| byte == quote);
            (to_end(close.map(|index| index + 2)), false)
        }
        [b'-', b'-', ..] => (to_end(rest.iter().position(|byte| *byte == b'\n')), true),
        [b'/', b'*', ..] => (to_end(block_comment(rest)), true),
        [b'$', ..] if at == 0 || !is_word(bytes[at - 1]) => match dollar_mark(rest) {
            Some(mark) => {
                let body = &rest[mark.len()..];
                let close = body.windows(mark.len()).position(|window| window == mark);
                (to_end(close.map(|index| index + 2 * mark.len())), false)
            }
            None => (at + 1, false),
        },
        _ => (at + 1, false),
    }
}

/// Whether the quote at `at` begins a string with escapes, `E'...'`.
fn is_escaping(bytes: &[u8], at: usize) -> bool {
    matches!(bytes[at - 1], b'e' | b'E') && (at == 1 || !is_word(bytes[at - 2]))
}

/// Length of a string in which a backslash takes the next byte.
fn escaped(rest: &[u8]) -> Option<usize> {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'\'' => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
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

/// `$$` or `$tag$`; `$1` and `$name` are parameters.
fn dollar_mark(rest: &[u8]) -> Option<&[u8]> {
    let tag = 1 + rest[1..].iter().take_while(|byte| is_word(**byte)).count();
    let numbered = rest.get(1).is_some_and(u8::is_ascii_digit);
    (rest.get(tag) == Some(&b'$') && !numbered).then(|| &rest[..=tag])
}

pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_end_statements_only_outside_of_strings_and_comments() {
        assert_eq!(split("SELECT 1; SELECT ';' ;; -- ;\n"), ["SELECT 1", "SELECT ';'"]);
        assert_eq!(
            split("SELECT \";\" /* ; /* ; */ ; */ ;x"),
            ["SELECT \";\" /* ; /* ; */ ; */", "x"]
        );
        assert_eq!(split("SELECT $$;$$, $a$;$$;$a$, $1;"), ["SELECT $$;$$, $a$;$$;$a$, $1"]);
        assert_eq!(split(r"SELECT E'\';', 'a\'; SELECT 2"), [r"SELECT E'\';', 'a\'", "SELECT 2"]);
        assert_eq!(split("SELECT 'it''s;'"), ["SELECT 'it''s;'"]);
        assert!(split(" ; -- nothing\n /* at all */").is_empty());
        assert_eq!(split("SELECT 'open; SELECT 2"), ["SELECT 'open; SELECT 2"]);
    }

    #[test]
    fn first_words_are_found_behind_comments() {
        assert_eq!(first_words("/* x */ Set -- y\n TIME zone 'UTC'", 3), ["set", "time", "zone"]);
        assert_eq!(first_words("(SELECT 1)", 2), [""; 0]);
    }
}
