//! What functions of regular expressions share: options, and all matches of a text.

use datafusion::common::{Result, exec_err};
use regex::{Captures, Regex, RegexBuilder};

/// A pattern with the options of a call, for the function `name`.
pub(crate) fn compiled(name: &str, pattern: &str, options: &str) -> Result<Regex> {
    let literal = options.contains('l').then(|| regex::escape(pattern));
    let mut builder = RegexBuilder::new(literal.as_deref().unwrap_or(pattern));
    for option in options.chars() {
        match option {
            'c' => builder.case_insensitive(false),
            'i' => builder.case_insensitive(true),
            's' => builder.dot_matches_new_line(true),
            'm' | 'n' | 'p' => builder.dot_matches_new_line(false),
            'l' | ' ' => &mut builder,
            other => return exec_err!("{name} takes the options cilmnps, not {other:?}"),
        };
    }
    match builder.build() {
        Ok(regex) => Ok(regex),
        Err(error) => exec_err!("{name}: {pattern:?} is no pattern: {error}"),
    }
}

/// All matches. An empty one may follow a match at once; the crate's own iterator leaves it out.
pub(crate) fn each_match<'t>(text: &'t str, pattern: &Regex, mut with: impl FnMut(&Captures<'t>)) {
    let mut from = 0;
    while let Some(found) = pattern.captures_at(text, from) {
        with(&found);
        let (begin, end) = found.get(0).map_or((from, from), |whole| (whole.start(), whole.end()));
        from = if begin == end { behind_char(text, end) } else { end };
        if from > text.len() {
            return;
        }
    }
}

/// The place behind the character at a place; past the end of the text where none is.
pub(crate) fn behind_char(text: &str, at: usize) -> usize {
    at + text[at..].chars().next().map_or(1, char::len_utf8)
}
