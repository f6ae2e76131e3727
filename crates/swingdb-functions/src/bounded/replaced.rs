//! The size of texts in which something is replaced.
//!
//! How often it occurs is only counted where much depends on it.

use datafusion::common::Result;
use regex::Regex;

use super::column::{Column, Size};

/// Results that are not larger whatever occurs need not be looked at.
const SMALL: u64 = 1 << 20;

/// Texts with `to` in each place of `from`.
pub(super) fn replaced(text: &Column, from: &Column, to: &Column, rows: usize) -> Result<Size> {
    /// Whether `from` occurs is looked at only where much depends on it.
    const LARGE: usize = 1 << 16;
    let all = text.total(rows);
    let most = all.plus(all.plus(Size::of_text(rows as u64)).times(to.bytes()(0)));
    if to.same && most.bytes < SMALL {
        return Ok(all);
    }
    let ((text, t), (from, f), (to, o)) = (text.texts()?, from.texts()?, to.texts()?);
    let one = |row| {
        let (text, from, to) = (text.value(t(row)), from.value(f(row)), to.value(o(row)));
        let most = text.len() / from.len().max(1) + 1;
        let count = match most.saturating_mul(to.len()) > LARGE {
            true => text.matches(from).count(),
            false => most,
        };
        Size::of_text(to.len() as u64).times(count as u64)
    };
    Ok((0..rows).map(one).fold(all, Size::plus))
}

/// Texts with `to` in each place that a regular expression matches, or in the first.
pub(super) fn matched(
    text: &Column,
    pattern: &Column,
    to: &Column,
    flags: Option<&Column>,
    rows: usize,
) -> Result<Size> {
    let all = text.total(rows);
    let (texts, replacements) = (text.bytes(), to.bytes());
    // A replacement of two bytes may stand for all of the match.
    let most = |row| Size::of_text(replacements(row)).times(texts(row).saturating_add(1));
    if (0..rows).map(most).fold(all, Size::plus).bytes < SMALL {
        return Ok(all);
    }
    let ((text, t), (pattern, p), (to, o)) = (text.texts()?, pattern.texts()?, to.texts()?);
    let flags = flags.map(Column::texts).transpose()?;
    let mut last: Option<(String, Option<Regex>)> = None;
    let mut size = all;
    for row in 0..rows {
        let flags = flags.as_ref().map_or("", |(flags, f)| flags.value(f(row)));
        let (pattern, is_global) = (with_flags(pattern.value(p(row)), flags), flags.contains('g'));
        if last.as_ref().is_none_or(|(known, _)| *known != pattern) {
            let compiled = Regex::new(&pattern).ok();
            last = Some((pattern, compiled));
        }
        // What is no regular expression is an error of the function.
        let Some((_, Some(regex))) = &last else { continue };
        let found =
            regex.find_iter(text.value(t(row))).take(if is_global { usize::MAX } else { 1 });
        let (count, bytes) =
            found.fold((0, 0), |(count, bytes), one| (count + 1, bytes + one.len()));
        let to = to.value(o(row));
        let groups = to.matches(['\\', '$']).count();
        size = size
            .plus(Size::of_text(to.len() as u64).times(count))
            .plus(Size::of_text(bytes as u64).times(groups as u64));
    }
    Ok(size)
}

fn with_flags(pattern: &str, flags: &str) -> String {
    match flags.replace('g', "").as_str() {
        "" => pattern.to_string(),
        flags => format!("(?{flags}){pattern}"),
    }
}
