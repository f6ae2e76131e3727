//! Functions of texts that the engine lacks: how alike two texts are, all matches of a regular
//! expression, shell patterns, and what addresses of the web are written in.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Float64Builder, Int64Builder, ListBuilder,
    StringViewArray, StringViewBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{
    DataFusionError, Result, ScalarValue, exec_datafusion_err, exec_err, plan_err,
};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use regex::Regex;
use swingdb_common::runtime::cancel;

use crate::text::patterns::{behind_char, compiled, each_match};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// Places at which two texts of one length differ.
    Hamming,
    DamerauLevenshtein,
    /// The share of the characters that both have.
    Jaccard,
    Jaro,
    JaroWinkler,
    /// Whether all of the text is as a pattern of the shell.
    Glob,
    /// All that a regular expression matches, or one of its groups.
    ExtractAll,
    /// What is between the matches.
    Split,
    UrlEncode,
    UrlDecode,
}

const FUNCTIONS: &[(&str, Kind)] = &[
    ("hamming", Kind::Hamming),
    ("mismatches", Kind::Hamming),
    ("damerau_levenshtein", Kind::DamerauLevenshtein),
    ("jaccard", Kind::Jaccard),
    ("jaro_similarity", Kind::Jaro),
    ("jaro_winkler_similarity", Kind::JaroWinkler),
    ("glob", Kind::Glob),
    ("regexp_extract_all", Kind::ExtractAll),
    ("regexp_split_to_array", Kind::Split),
    ("string_split_regex", Kind::Split),
    ("str_split_regex", Kind::Split),
    ("url_encode", Kind::UrlEncode),
    ("url_decode", Kind::UrlDecode),
];

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    FUNCTIONS.iter().map(|(name, kind)| {
        let signature = match kind {
            Kind::ExtractAll => Signature::variadic_any(Volatility::Immutable),
            Kind::UrlEncode | Kind::UrlDecode => Signature::any(1, Volatility::Immutable),
            _ => Signature::any(2, Volatility::Immutable),
        };
        ScalarUDF::new_from_impl(OfTexts { name, kind: *kind, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfTexts {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for OfTexts {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let texts = types.len().min(2);
        let group = types.get(2).is_none_or(|group| group.is_integer() || group.is_null());
        let options = types.get(3).is_none_or(|options| options.is_string() || options.is_null());
        let fits = group && options && types.len() <= 4;
        if texts == 0 || !fits || (self.kind == Kind::ExtractAll && texts < 2) {
            return plan_err!(
                "{} takes a text, a pattern, and perhaps a number of a group and options",
                self.name
            );
        }
        if let Some(other) = types[..texts].iter().find(|t| !t.is_string() && !t.is_null()) {
            return plan_err!("{} takes text, not {other}", self.name);
        }
        Ok(match self.kind {
            Kind::Hamming | Kind::DamerauLevenshtein => DataType::Int64,
            Kind::Jaccard | Kind::Jaro | Kind::JaroWinkler => DataType::Float64,
            Kind::Glob => DataType::Boolean,
            Kind::ExtractAll | Kind::Split => DataType::new_list(DataType::Utf8View, true),
            Kind::UrlEncode | Kind::UrlDecode => DataType::Utf8View,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let column = |at: usize, of: &DataType| -> Result<ArrayRef> {
            match args.args.get(at) {
                Some(arg) => Ok(cast(&arg.to_array(rows)?, of)?),
                None => ScalarValue::new_default(of)?.to_array_of_size(rows),
            }
        };
        let (first, second) = (column(0, &DataType::Utf8View)?, column(1, &DataType::Utf8View)?);
        let (first, second) = (first.as_string_view(), second.as_string_view());
        let (groups, options) = (column(2, &DataType::Int64)?, column(3, &DataType::Utf8View)?);
        let found = self.rows(first, second, &(groups, options))?;
        crate::args::as_given(&args, found)
    }
}

/// Characters of one text times those of the other, from which a row takes long.
const LONG: usize = 1 << 16;

/// One entry of an array for each pair of texts; NULL where one of them is.
macro_rules! each {
    ($a:ident, $b:ident, $builder:expr, $one:expr) => {{
        let mut made = $builder;
        for pair in $a.iter().zip($b.iter()) {
            match pair {
                (Some(a), Some(b)) => {
                    if a.len().saturating_mul(b.len()) > LONG {
                        cancel::check()?;
                    }
                    made.append_value($one(a, b)?);
                }
                _ => made.append_null(),
            }
        }
        Ok(Arc::new(made.finish()) as ArrayRef)
    }};
}

impl OfTexts {
    fn rows(
        &self,
        a: &StringViewArray,
        b: &StringViewArray,
        more: &(ArrayRef, ArrayRef),
    ) -> Result<ArrayRef> {
        let mut patterns = Patterns::default();
        let name = self.name;
        match self.kind {
            Kind::Hamming => each!(a, b, Int64Builder::new(), |a: &str, b: &str| {
                let Ok(differ) = strsim::hamming(a, b) else {
                    return exec_err!("{name} takes texts of the same length");
                };
                Ok(differ as i64)
            }),
            Kind::DamerauLevenshtein => each!(a, b, Int64Builder::new(), |a: &str, b: &str| {
                Ok::<_, DataFusionError>(strsim::damerau_levenshtein(a, b) as i64)
            }),
            Kind::Jaccard => each!(a, b, Float64Builder::new(), |a: &str, b: &str| {
                match jaccard(a, b) {
                    Some(share) => Ok(share),
                    None => exec_err!("{name} takes texts that are not empty"),
                }
            }),
            Kind::Jaro => each!(a, b, Float64Builder::new(), |a: &str, b: &str| {
                Ok::<_, DataFusionError>(alike(a, b, strsim::jaro))
            }),
            Kind::JaroWinkler => each!(a, b, Float64Builder::new(), |a: &str, b: &str| {
                Ok::<_, DataFusionError>(alike(a, b, strsim::jaro_winkler))
            }),
            Kind::Glob => each!(a, b, BooleanBuilder::new(), |a: &str, b: &str| {
                patterns.of(name, b, shell_pattern).map(|pattern| pattern.is_match(a))
            }),
            Kind::UrlEncode => each!(a, b, StringViewBuilder::new(), |a: &str, _: &str| {
                Ok::<_, DataFusionError>(url_encoded(a))
            }),
            Kind::UrlDecode => each!(a, b, StringViewBuilder::new(), |a: &str, _: &str| {
                url_decoded(a).ok_or_else(|| exec_datafusion_err!("{name} of {a:?}: no UTF-8"))
            }),
            Kind::ExtractAll | Kind::Split => self.pieces(a, b, more),
        }
    }

    /// Lists of parts of texts.
    fn pieces(
        &self,
        a: &StringViewArray,
        b: &StringViewArray,
        (groups, options): &(ArrayRef, ArrayRef),
    ) -> Result<ArrayRef> {
        let groups = groups.as_primitive::<Int64Type>();
        let options = options.as_string_view();
        let mut patterns = Patterns::default();
        let mut made = ListBuilder::new(StringViewBuilder::new());
        for (row, pair) in a.iter().zip(b.iter()).enumerate() {
            let (Some(text), Some(pattern)) = pair else {
                made.append_null();
                continue;
            };
            if groups.is_null(row) || options.is_null(row) {
                made.append_null();
                continue;
            }
            let options = options.value(row);
            // Between all characters, but neither before the first nor behind the last.
            let is_empty = pattern.is_empty();
            let pattern = match options {
                "" => patterns.of(self.name, pattern, Regex::new)?,
                options => &compiled(self.name, pattern, options)?,
            };
            if self.kind == Kind::Split && is_empty && !text.is_empty() {
                let pieces = text.char_indices().map(|(at, char)| &text[at..at + char.len_utf8()]);
                pieces.for_each(|piece| made.values().append_value(piece));
            } else if self.kind == Kind::Split {
                split(text, pattern, |piece| made.values().append_value(piece));
            } else {
                let group = usize::try_from(groups.value(row)).ok();
                let group = group.filter(|group| *group < pattern.captures_len());
                let Some(group) = group else {
                    return exec_err!(
                        "{}: the pattern has no group {}",
                        self.name,
                        groups.value(row)
                    );
                };
                each_match(text, pattern, |found| {
                    made.values().append_option(found.get(group).map(|part| part.as_str()));
                });
            }
            made.append(true);
        }
        Ok(Arc::new(made.finish()))
    }
}

/// The pieces between the matches. A match of nothing cuts behind one character, and none cuts
/// behind the last one.
fn split<'t>(text: &'t str, pattern: &Regex, mut with: impl FnMut(&'t str)) {
    let mut from = 0;
    while from < text.len()
        && let Some(found) = pattern.find_at(text, from)
    {
        let (mut begin, mut end) = (found.start(), found.end());
        if end == from {
            begin = behind_char(text, from);
            end = begin;
            if begin >= text.len() {
                break;
            }
        }
        with(&text[from..begin]);
        from = end;
    }
    with(&text[from..]);
}

/// The last pattern, compiled: it is mostly one for all rows.
#[derive(Default)]
struct Patterns {
    last: Option<(String, Regex)>,
}

impl Patterns {
    fn of(
        &mut self,
        name: &str,
        text: &str,
        compile: fn(&str) -> std::result::Result<Regex, regex::Error>,
    ) -> Result<&Regex> {
        if self.last.as_ref().is_none_or(|(known, _)| known != text) {
            let pattern = compile(text)
                .map_err(|error| exec_datafusion_err!("{name}: {text:?} is no pattern: {error}"))?;
            self.last = Some((text.to_owned(), pattern));
        }
        match &self.last {
            Some((_, pattern)) => Ok(pattern),
            None => exec_err!("{name}: no pattern"),
        }
    }
}

/// What matches as a pattern of the shell does: nothing, where a bracket is not closed.
fn shell_pattern(pattern: &str) -> std::result::Result<Regex, regex::Error> {
    const NOTHING: &str = r"[^\s\S]";
    Regex::new(&of_shell(pattern)).or_else(|_| Regex::new(NOTHING))
}

/// A regular expression for a pattern of the shell: `*`, `?`, `[a-z]`, `[!a-z]`, `\*`. A bracket
/// that is not closed stays open in it.
fn of_shell(pattern: &str) -> String {
    let mut regex = String::from("(?s)^");
    let mut rest = pattern.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '\\' => regex.push_str(&regex::escape(&rest.next().unwrap_or('\\').to_string())),
            '[' => {
                regex.push('[');
                if rest.next_if(|next| matches!(next, '!' | '^')).is_some() {
                    regex.push('^');
                }
                let mut first = true;
                for char in rest.by_ref() {
                    if char == ']' && !first {
                        regex.push(']');
                        break;
                    }
                    first = false;
                    if matches!(char, '[' | ']' | '^' | '\\' | '&' | '~') {
                        regex.push('\\');
                    }
                    regex.push(char);
                }
            }
            char => regex.push_str(&regex::escape(char.encode_utf8(&mut [0; 4]))),
        }
    }
    regex + "$"
}

/// How alike texts are by a measure; empty ones have nothing in common.
fn alike(a: &str, b: &str, measure: fn(&str, &str) -> f64) -> f64 {
    if a.is_empty() && b.is_empty() { 0.0 } else { measure(a, b) }
}

/// The characters that both have over those that one of them has; `None` of an empty text.
fn jaccard(a: &str, b: &str) -> Option<f64> {
    let set = |text: &str| text.chars().collect::<std::collections::BTreeSet<char>>();
    let (a, b) = (set(a), set(b));
    let both = a.intersection(&b).count();
    (!a.is_empty() && !b.is_empty()).then(|| both as f64 / (a.len() + b.len() - both) as f64)
}

fn url_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// `None` when it is no UTF-8. What is no code stays as it is.
fn url_decoded(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        let digits = after.get(..2).filter(|_| *byte == b'%');
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(code) => {
                decoded.push(code);
                rest = &after[2..];
            }
            None => {
                decoded.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(decoded).ok()
}
