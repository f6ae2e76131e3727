//! `format('{} {:.2f}', ...)` and `printf('%s %.2f', ...)`: values written into a text.
//!
//! What stands in a place is `[[fill]align][sign][#][0][width][,][.precision][type]` in the one,
//! and `%[flags][width][.precision]type` with the flags `-+ #0,_'` in the other; `%.d` has points
//! between groups of digits. Types are `d`, `x`,
//! `X`, `o`, `b`, `c` of whole numbers, `f`, `e`, `E`, `g` of any, `s` of everything. NULL anywhere
//! makes the result NULL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type};
use datafusion::common::{Result, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use swingdb_common::cast::normalize::as_text;

/// Widths and numbers of digits, at most.
const MAX_WIDTH: usize = 10_000;

/// Both functions.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [("format", true), ("printf", false)].into_iter().map(|(name, braces)| {
        let signature = Signature::variadic_any(Volatility::Immutable);
        ScalarUDF::new_from_impl(Formatted { name, braces, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Formatted {
    name: &'static str,
    braces: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Formatted {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(first) if first.is_string() || first.is_null() => Ok(DataType::Utf8View),
            _ => plan_err!("{} takes a text with places, and values for these", self.name),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let found = self.rows(&columns)?;
        crate::args::as_given(&args, found)
    }
}

impl Formatted {
    fn rows(&self, columns: &[ArrayRef]) -> Result<ArrayRef> {
        let [formats, values @ ..] = columns else {
            return exec_err!("{} takes a text with places", self.name);
        };
        let values = values.iter().map(Values::new).collect::<Result<Vec<_>>>()?;
        let formats = cast(formats, &DataType::Utf8View)?;
        let mut known: Option<(&str, Vec<Piece>)> = None;
        let mut made = StringViewBuilder::new();
        for (row, format) in formats.as_string_view().iter().enumerate() {
            let Some(format) = format.filter(|_| values.iter().all(|v| v.array.is_valid(row)))
            else {
                made.append_null();
                continue;
            };
            if known.as_ref().is_none_or(|(text, _)| *text != format) {
                known = Some((format, self.pieces(format)?));
            }
            let pieces = known.as_ref().map_or(&[][..], |(_, pieces)| pieces);
            made.append_value(self.filled(pieces, &values, row)?);
        }
        Ok(Arc::new(made.finish()))
    }

    fn pieces(&self, format: &str) -> Result<Vec<Piece>> {
        let pieces = if self.braces { braces(format) } else { percents(format) };
        pieces.map_err(|wrong| exec_datafusion_err!("{}: {wrong} in {format:?}", self.name))
    }

    fn filled(&self, pieces: &[Piece], values: &[Values], row: usize) -> Result<String> {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Argument { value, how } => {
                    let Some(values) = values.get(*value) else {
                        return exec_err!("{} has no value {}", self.name, value + 1);
                    };
                    let written = how.written(&values.value(row)).map_err(|wrong| {
                        exec_datafusion_err!("{}: value {}: {wrong}", self.name, value + 1)
                    })?;
                    text.push_str(&written);
                }
            }
        }
        Ok(text)
    }
}

/// A column of values, as far as they are told apart.
struct Values {
    array: ArrayRef,
}

enum Value<'a> {
    Whole(i128),
    Number(f64),
    Text(&'a str),
}

impl Values {
    fn new(array: &ArrayRef) -> Result<Self> {
        let to = match array.data_type() {
            // Forty digits do not fit; none of these types has so many.
            whole if whole.is_integer() => DataType::Decimal128(38, 0),
            DataType::Decimal128(_, 0) => DataType::Decimal128(38, 0),
            number if number.is_floating() || matches!(number, DataType::Decimal128(..)) => {
                DataType::Float64
            }
            _ => return Ok(Self { array: as_text(array)? }),
        };
        Ok(Self { array: cast(array, &to)? })
    }

    fn value(&self, row: usize) -> Value<'_> {
        match self.array.data_type() {
            DataType::Decimal128(..) => {
                Value::Whole(self.array.as_primitive::<Decimal128Type>().value(row))
            }
            DataType::Float64 => Value::Number(self.array.as_primitive::<Float64Type>().value(row)),
            _ => Value::Text(self.array.as_string_view().value(row)),
        }
    }
}

enum Piece {
    Text(String),
    Argument { value: usize, how: How },
}

/// How a value is written.
#[derive(Debug, Clone, Default)]
struct How {
    fill: Option<char>,
    /// `<`, `>`, `^`.
    align: Option<char>,
    /// `+`, ` `.
    sign: Option<char>,
    /// With `0x` and the like.
    prefix: bool,
    zeros: bool,
    width: usize,
    /// What stands between groups of three digits.
    group: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// A number, if one stands there.
fn number(rest: &mut Chars<'_>) -> std::result::Result<Option<usize>, String> {
    let mut digits = String::new();
    while let Some(digit) = rest.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    match digits.parse::<usize>() {
        _ if digits.is_empty() => Ok(None),
        Ok(number) if number <= MAX_WIDTH => Ok(Some(number)),
        _ => Err(format!("{digits} is more than {MAX_WIDTH}")),
    }
}

fn push(pieces: &mut Vec<Piece>, char: char) {
    match pieces.last_mut() {
        Some(Piece::Text(text)) => text.push(char),
        _ => pieces.push(Piece::Text(char.to_string())),
    }
}

fn braces(format: &str) -> std::result::Result<Vec<Piece>, String> {
    let (mut pieces, mut next) = (Vec::new(), 0);
    let mut rest = format.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '{' if rest.next_if_eq(&'{').is_some() => push(&mut pieces, '{'),
            '}' if rest.next_if_eq(&'}').is_some() => push(&mut pieces, '}'),
            '{' => {
                let given = number(&mut rest)?;
                let value = given.unwrap_or(next);
                next = if given.is_none() { next + 1 } else { next };
                let how = match rest.next_if_eq(&':') {
                    Some(_) => braces_how(&mut rest)?,
                    None => How::default(),
                };
                if rest.next() != Some('}') {
                    return Err("a place that does not end with }".to_owned());
                }
                pieces.push(Piece::Argument { value, how });
            }
            '}' => return Err("a } without {".to_owned()),
            char => push(&mut pieces, char),
        }
    }
    Ok(pieces)
}

fn braces_how(rest: &mut Chars<'_>) -> std::result::Result<How, String> {
    let mut how = How::default();
    let is_align = |char: &char| matches!(char, '<' | '>' | '^');
    let mut ahead = rest.clone();
    ahead.next();
    if ahead.peek().is_some_and(is_align) {
        how.fill = rest.next();
    }
    how.align = rest.next_if(is_align);
    how.sign = rest.next_if(|char| matches!(char, '+' | '-' | ' '));
    how.prefix = rest.next_if_eq(&'#').is_some();
    how.zeros = rest.next_if_eq(&'0').is_some();
    how.width = number(rest)?.unwrap_or(0);
    how.group = rest.next_if(|char| matches!(char, ',' | '_' | '\''));
    if rest.next_if_eq(&'.').is_some() {
        how.precision = Some(number(rest)?.ok_or("a point without a number")?);
    }
    how.kind = rest.next_if(char::is_ascii_alphabetic);
    Ok(how)
}

fn percents(format: &str) -> std::result::Result<Vec<Piece>, String> {
    let (mut pieces, mut value) = (Vec::new(), 0);
    let mut rest = format.chars().peekable();
    while let Some(char) = rest.next() {
        if char != '%' || rest.next_if_eq(&'%').is_some() {
            push(&mut pieces, char);
            continue;
        }
        let mut how = How { align: Some('>'), ..How::default() };
        while let Some(flag) =
            rest.next_if(|char| matches!(char, '-' | '+' | ' ' | '#' | '0' | ',' | '_' | '\''))
        {
            match flag {
                '-' => how.align = Some('<'),
                '+' | ' ' => how.sign = Some(flag),
                '#' => how.prefix = true,
                ',' | '_' | '\'' => how.group = Some(flag),
                _ => how.zeros = true,
            }
        }
        how.width = number(&mut rest)?.unwrap_or(0);
        if rest.next_if_eq(&'.').is_some() {
            let precision = number(&mut rest)?;
            match rest.peek() {
                // Without a number the point stands between groups of digits.
                Some('d' | 'i' | 'u') if precision.is_none() => how.group = Some('.'),
                _ => how.precision = Some(precision.unwrap_or(0)),
            }
        }
        while rest.next_if(|char| matches!(char, 'l' | 'h' | 'q' | 'j' | 'z')).is_some() {}
        how.kind = rest.next();
        if !how.kind.is_some_and(|kind| kind.is_ascii_alphabetic()) {
            return Err("a % without a type".to_owned());
        }
        pieces.push(Piece::Argument { value, how });
        value += 1;
    }
    Ok(pieces)
}

impl How {
    fn written(&self, value: &Value<'_>) -> std::result::Result<String, String> {
        let kind = self.kind.map(|kind| if kind == 'i' || kind == 'u' { 'd' } else { kind });
        let (negative, digits, is_number) = match (value, kind) {
            // All digits, where a float has no more than sixteen.
            (Value::Whole(whole), Some('f' | 'F')) => {
                let digits = self.precision.unwrap_or(6);
                let point = if digits == 0 { "" } else { "." };
                let text = format!("{}{point}{}", whole.unsigned_abs(), "0".repeat(digits));
                (*whole < 0, self.grouped(&text), true)
            }
            (Value::Whole(whole), Some('e' | 'E' | 'g' | 'G')) => {
                let number = *whole as f64;
                (number < 0.0, self.of_float(number.abs(), kind), true)
            }
            (Value::Whole(whole), Some('c')) => {
                let char = u32::try_from(*whole).ok().and_then(char::from_u32);
                (false, char.ok_or_else(|| format!("{whole} is no character"))?.to_string(), false)
            }
            (Value::Whole(whole), _) => {
                (*whole < 0, self.of_whole(whole.unsigned_abs(), kind)?, true)
            }
            (Value::Number(_), Some('d' | 'x' | 'X' | 'o' | 'b' | 'c')) => {
                return Err(format!("{:?} is for whole numbers", self.kind.unwrap_or('d')));
            }
            (Value::Number(number), _) => {
                let negative = number.is_sign_negative() && !number.is_nan();
                (negative, self.of_float(number.abs(), kind), number.is_finite())
            }
            (Value::Text(text), None | Some('s')) => {
                (false, text.chars().take(self.precision.unwrap_or(usize::MAX)).collect(), false)
            }
            (Value::Text(_), Some(other)) => return Err(format!("{other:?} is for numbers")),
        };
        let sign = match self.sign {
            _ if negative => "-",
            Some('+') if !matches!(value, Value::Text(_)) => "+",
            Some(' ') if !matches!(value, Value::Text(_)) => " ",
            _ => "",
        };
        Ok(self.placed(sign, &digits, is_number, matches!(value, Value::Text(_))))
    }

    fn of_whole(&self, value: u128, kind: Option<char>) -> std::result::Result<String, String> {
        let prefix = |text: &str| if self.prefix { text.to_owned() } else { String::new() };
        // The precision of a whole number is how many digits it has at least.
        let least = |digits: String| match self.precision {
            Some(least) => format!("{digits:0>least$}"),
            None => digits,
        };
        Ok(match kind {
            None | Some('d' | 's') => self.grouped(&least(value.to_string())),
            Some('x') => prefix("0x") + &least(format!("{value:x}")),
            Some('X') => prefix("0X") + &least(format!("{value:X}")),
            Some('o') => prefix("0") + &least(format!("{value:o}")),
            Some('b' | 'B') => prefix("0b") + &format!("{value:b}"),
            Some(other) => return Err(format!("there is no type {other:?}")),
        })
    }

    fn of_float(&self, value: f64, kind: Option<char>) -> String {
        if !value.is_finite() {
            return if value.is_nan() { "nan" } else { "inf" }.to_owned();
        }
        let digits = self.precision.unwrap_or(6);
        match kind {
            Some('f' | 'F') => self.grouped(&format!("{value:.digits$}")),
            Some('e') => exponent(&format!("{value:.digits$e}")),
            Some('E') => exponent(&format!("{value:.digits$e}")).to_uppercase(),
            Some('g') => self.grouped(&shortest(value, digits)),
            Some('G') => self.grouped(&shortest(value, digits)).to_uppercase(),
            _ => match self.precision {
                Some(digits) => self.grouped(&shortest(value, digits)),
                None => self.grouped(&plain(value)),
            },
        }
    }

    /// Groups of three digits before the point.
    fn grouped(&self, digits: &str) -> String {
        let Some(between) = self.group else { return digits.to_owned() };
        let end = digits.find(|char: char| !char.is_ascii_digit()).unwrap_or(digits.len());
        let (whole, rest) = digits.split_at(end);
        let mut grouped = String::with_capacity(digits.len() * 2);
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at).is_multiple_of(3) {
                grouped.push(between);
            }
            grouped.push(digit);
        }
        grouped + rest
    }

    fn placed(&self, sign: &str, digits: &str, is_number: bool, is_text: bool) -> String {
        let missing = self.width.saturating_sub(sign.len() + digits.chars().count());
        let fill = |count: usize| self.fill.unwrap_or(' ').to_string().repeat(count);
        let is_precise_whole = self.precision.is_some() && matches!(self.kind, Some('d' | 'i'));
        if self.zeros
            && is_number
            && !is_precise_whole
            && !(self.align == Some('<') || self.fill.is_some())
        {
            return format!("{sign}{}{digits}", "0".repeat(missing));
        }
        match self.align.unwrap_or(if is_text { '<' } else { '>' }) {
            '<' => format!("{sign}{digits}{}", fill(missing)),
            '^' => format!("{}{sign}{digits}{}", fill(missing / 2), fill(missing - missing / 2)),
            _ => format!("{}{sign}{digits}", fill(missing)),
        }
    }
}

/// An exponent has a sign and two digits.
fn exponent(text: &str) -> String {
    let Some((digits, power)) = text.split_once('e') else { return text.to_owned() };
    let (sign, power) = match power.strip_prefix('-') {
        Some(power) => ('-', power),
        None => ('+', power),
    };
    format!("{digits}e{sign}{power:0>2}")
}

/// So many digits that count, without zeros at the end.
fn shortest(value: f64, digits: usize) -> String {
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits - 1);
    let power = scientific.split_once('e').and_then(|(_, power)| power.parse::<i64>().ok());
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match power.unwrap_or(0) {
        power if power < -4 || power >= digits as i64 => {
            let (digits, _) = scientific.split_once('e').unwrap_or((&scientific, ""));
            exponent(&format!("{}e{power}", trimmed(digits)))
        }
        power => trimmed(&format!("{value:.*}", (digits as i64 - 1 - power).max(0) as usize)),
    }
}

/// All digits that a number needs, and a point.
fn plain(value: f64) -> String {
    if value != 0.0 && !(1e-4..1e16).contains(&value) {
        return exponent(&format!("{value:e}"));
    }
    let text = value.to_string();
    if text.contains('.') { text } else { text + ".0" }
}
