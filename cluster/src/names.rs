//! Names in SQL texts: [`name_of`] reads one, [`quoted`] writes one, [`is_same`] compares two.

use swingdb::cutter::{Kind, Piece};

/// The characters that names are quoted by.
const QUOTES: [char; 2] = ['"', '`'];

/// The name that a word of a statement is, without quotes; `None`: it is a string, a number or a
/// sign.
pub(crate) fn name_of(piece: &Piece<'_>) -> Option<String> {
    match piece.kind {
        Kind::Word if piece.text.starts_with(|first: char| first.is_ascii_digit()) => None,
        Kind::Word => Some(piece.text.to_string()),
        Kind::Quoted => unquoted(piece.text),
        Kind::Blank | Kind::Comment | Kind::Parameter | Kind::Sign => None,
    }
}

/// What a quoted name stands for: `"a""b"` is `a"b`; `None`: the text is no quoted name.
pub(crate) fn unquoted(text: &str) -> Option<String> {
    let quote = QUOTES.into_iter().find(|quote| text.starts_with(*quote))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let one = quote.to_string();
    Some(inner.replace(&one.repeat(2), &one))
}

/// A name as SQL writes it.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Whether SQL may take two names for one: they differ in the case of letters only.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other) || one.to_lowercase() == other.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use swingdb::cutter::words;

    #[test]
    fn quotes_inside_of_names_are_doubled() {
        for (sql, name) in [
            ("abc", Some("abc")),
            ("\"a b\"", Some("a b")),
            ("\"a\"\"b\"", Some("a\"b")),
            ("\"\"\"\"", Some("\"")),
            ("\"\"\"a\"\"\"", Some("\"a\"")),
            ("\"\"", Some("")),
            ("`a``b`", Some("a`b")),
            ("`a\"b`", Some("a\"b")),
            ("'abc'", None),
            ("E'\"'", None),
            ("$1", None),
            ("12", None),
            ("(", None),
        ] {
            let all = words(sql).collect::<Vec<_>>();
            assert_eq!(all.len(), 1, "{sql}");
            assert_eq!(name_of(&all[0]).as_deref(), name, "{sql}");
        }
        // One that does not end.
        assert_eq!(name_of(&words("\"a").next().unwrap()), None);
        assert_eq!(name_of(&words("\"").next().unwrap()), None);
        for name in ["a", "a\"b", "\"", "a b", ""] {
            assert_eq!(unquoted(&quoted(name)).as_deref(), Some(name));
        }
    }

    #[test]
    fn the_case_of_letters_makes_no_other_name() {
        assert!(is_same("Id", "iD") && is_same("Größe", "GRÖßE") && is_same("Ä", "ä"));
        assert!(!is_same("a", "b") && !is_same("a", "a "));
    }
}
