//! Which columns a statement gives other values: [`assignments`].
//!
//! A word can be a keyword or a column: `UPDATE t SET end = 1, k = t.from`. So nothing depends on
//! where a list of assignments ends. What looks like one counts, also behind it: a column too many
//! has the statement refused, one that is missed would misplace rows.

use swingdb::cutter::{Kind, Piece};

use crate::error::{Result, refused};
use crate::names::name_of;

/// Signs that open and close what is not of the statement's own level.
const PAIRS: [(&str, &str); 3] = [("(", ")"), ("[", "]"), ("{", "}")];

/// The columns that get other values: all names before an equals sign that follows SET or a comma,
/// also those of a part of a value (`SET a.b = 1`, `SET a[1] = 2`) and of a list (`SET (a, b) =
/// ...`).
pub(crate) fn assignments(words: &[Piece<'_>]) -> Result<Vec<String>> {
    let opened = opened(words)?;
    let mut all = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let is_outermost = opened.get(at).is_some_and(Option::is_none);
        if word.text == "=" && is_outermost {
            all.extend(target(words, &opened, at).unwrap_or_default());
        }
    }
    Ok(all)
}

/// Whether a word can be nothing but a name: behind SET, a comma or a dot, or before an equals sign
/// or a dot.
pub(crate) fn is_name(words: &[Piece<'_>], at: usize) -> bool {
    let text = |at: Option<usize>| at.and_then(|at| words.get(at)).map_or("", |word| word.text);
    let (before, next) = (text(at.checked_sub(1)), text(Some(at + 1)));
    [",", "."].contains(&before) || before.eq_ignore_ascii_case("set") || ["=", "."].contains(&next)
}

/// For each word, where what it is in was opened; `None`: it is outermost. The signs that open and
/// close are in what they enclose.
fn opened(words: &[Piece<'_>]) -> Result<Vec<Option<usize>>> {
    let (mut open, mut opened) = (Vec::<(usize, &str)>::new(), Vec::with_capacity(words.len()));
    for (at, word) in words.iter().enumerate() {
        if let Some((_, close)) = PAIRS.iter().find(|(open, _)| *open == word.text) {
            open.push((at, close));
        }
        opened.push(open.last().map(|(at, _)| *at));
        if PAIRS.iter().any(|(_, close)| *close == word.text) {
            match open.pop() {
                Some((_, close)) if close == word.text => {}
                _ => return refused(format!("{} that nothing opens", word.text)),
            }
        }
    }
    match open.last() {
        Some((_, close)) => refused(format!("a statement without its last {close}")),
        None => Ok(opened),
    }
}

/// The names of what is assigned at an equals sign; `None`: it compares.
fn target(words: &[Piece<'_>], opened: &[Option<usize>], equals: usize) -> Option<Vec<String>> {
    let (mut names, mut at) = (Vec::new(), equals);
    loop {
        at = at.checked_sub(1)?;
        let word = words.get(at)?;
        match word.text {
            // An element of a list.
            "]" => {
                at = opened.get(at).copied()??;
                continue;
            }
            ")" if names.is_empty() => {
                let start = opened.get(at).copied()??;
                names.extend(words.get(start..at)?.iter().rev().filter_map(column));
                at = start;
            }
            _ => names.push(column(word)?),
        }
        at = at.checked_sub(1)?;
        match words.get(at)? {
            before if before.text == "." => {}
            before if before.text == "," || before.text.eq_ignore_ascii_case("set") => {
                names.reverse();
                return Some(names);
            }
            _ => return None,
        }
    }
}

/// A column's name, which the engine also takes in single quotes.
fn column(word: &Piece<'_>) -> Option<String> {
    let text = word.text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    match text {
        Some(text) if word.kind == Kind::Quoted => Some(text.replace("''", "'")),
        _ => name_of(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use swingdb::cutter::words;

    fn assigned(sql: &str) -> Result<String> {
        let words = words(sql).collect::<Vec<_>>();
        assignments(&words).map(|all| all.join(" "))
    }

    #[test]
    fn keywords_as_columns_hide_nothing() {
        for (set, expected) in [
            ("SET a = t.end, k = 3", "a k"),
            ("SET end = 1, k = 2", "end k"),
            ("SET end = excluded.end, k = excluded.k", "end k"),
            ("SET a = end, k = 2", "a k"),
            ("SET a = CASE WHEN end THEN 1 WHEN b THEN 2 END, k = 3", "a k"),
            ("SET case = 1, k = 2", "case k"),
            ("SET a = t.case, k = t.when", "a k"),
            ("SET from = 1, where = from, when = where, k = 2", "from where when k"),
            ("SET a = t.from, k = t.where WHERE b = 2", "a k"),
            ("SET t.set = set, k = 2", "t set k"),
            ("SET set = 1, returning = 2, k = 3 RETURNING a, b", "set returning k"),
            ("SET a = CASE b WHEN 1 THEN c = d ELSE e = f END, 'k' = 1", "a k"),
            ("SET (a, k) = (1, 2)", "a k"),
            ("SET a[end] = 1, b[1].c[2] = 2, \"k\" = 3", "a b c k"),
            ("SET a = {'x': k = 2}, b = (c, k = 2), d = [1, k = 2]", "a b d"),
            ("SET a = 1 FROM u, v WHERE v.k = 1 AND a >= 2 AND b != 3", "a"),
            ("ON t.k = u.k WHEN MATCHED THEN UPDATE SET end = 1, k = 2", "end k"),
        ] {
            assert_eq!(assigned(set).unwrap(), expected, "{set}");
        }
    }

    #[test]
    fn what_does_not_nest_is_refused() {
        for set in ["SET a = (1, k = 2", "SET a = 1), k = 2", "SET a = (1], k = 2", "SET a = [1"] {
            assert!(assigned(set).is_err(), "{set}");
        }
        assert_eq!(assigned("SET a = ')', k = 1").unwrap(), "a k");
    }
}
