//! The SQL that is understood: DataFusion's permissive dialect, which takes in most of DuckDB's and
//! PostgreSQL's forms (`FROM t` alone, `* EXCLUDE`, brackets for arrays, `QUALIFY`),
//! and what it leaves out of them: lambdas, `ORDER BY ALL`, `1_000`, PostgreSQL's `ALTER TABLE`.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DateTimeField, Expr, Interval, UnaryOperator, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion::sql::sqlparser::keywords::{Keyword, RESERVED_FOR_COLUMN_ALIAS};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use swingdb_common::time::intervals::{Length, unit};

use crate::ast::asof::{self, Kind};
use crate::ast::build::call;
use crate::text::pivot_clauses;
use crate::text::words::is_behind;

/// The dialect of all statements.
pub const DIALECT: SwingDialect = SwingDialect;

/// The parser's generic dialect with additions. The parser's own checks take it for the generic
/// one.
#[derive(Debug)]
pub struct SwingDialect;

/// Answers as the generic dialect does.
macro_rules! as_generic {
    ($($question:ident)*) => {$(
        fn $question(&self) -> bool {
            GenericDialect.$question()
        }
    )*};
}

/// Has what the generic dialect lacks.
macro_rules! also {
    ($($question:ident)*) => {$(
        fn $question(&self) -> bool {
            true
        }
    )*};
}

/// How strongly `^`, the power, binds: more than `*`, less than a cast.
const POWER: u8 = 45;

/// How strongly `||` binds: less than arithmetic and `|`, more than comparisons.
const CONCAT: u8 = 21;
const BITWISE_OR: u8 = 22;

/// How strongly `->` and `->>` of JSON bind: more than arithmetic, so that `j ->> 'a' = 'x'`
/// compares.
const MEMBER: u8 = 42;

/// The operator of `s GLOB 'a*'`, and the function that it calls.
const GLOB: &str = "glob";

/// The operator of `a ISNULL`.
const ISNULL: &str = "isnull";

/// What stands behind the `*` of a LEFT JOIN's match condition.
pub(crate) const OUTER: [Token; 3] = [Token::LParen, Token::Plus, Token::RParen];

/// An interval, whose unit is known: the parser would take an unknown one for an alias, and the
/// number for seconds. `None` where INTERVAL may be the name of a column.
fn interval(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    let is_signed = |at: usize| {
        let number = &parser.peek_nth_token_ref(at + 1).token;
        matches!(parser.peek_nth_token_ref(at).token, Token::Minus | Token::Plus)
            && matches!(number, Token::Number(..))
            && unit_named(&parser.peek_nth_token_ref(at + 2).token).is_some()
    };
    match &parser.peek_nth_token_ref(1).token {
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::LParen
        | Token::Placeholder(_) => {}
        _ if is_signed(1) => {}
        _ => return None,
    }
    parser.advance_token();
    let value = match parser.parse_prefix() {
        Ok(value) => value,
        Err(error) => return Some(Err(error)),
    };
    Some(with_unit(parser, value))
}

/// The name and the length of the unit that a word is.
fn unit_named(token: &Token) -> Option<(String, Length)> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => {
            unit(&word.value).map(|length| (word.value.clone(), length))
        }
        _ => None,
    }
}

/// The interval of so many of the units that come next.
fn with_unit(parser: &mut Parser<'_>, value: Expr) -> Result<Expr, ParserError> {
    let next = parser.peek_token_ref().token.clone();
    let named = unit_named(&next);
    let wrong = |message: String| Err(ParserError::ParserError(message));
    let text = match &value {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    };
    if let Some(text) = text {
        let is_number = text.trim().parse::<f64>().is_ok();
        let is_keyword = matches!(&next, Token::Word(word) if word.keyword != Keyword::NoKeyword);
        match &named {
            Some((name, _)) if !is_number && is_keyword => {
                return wrong(format!("INTERVAL '{text}' {name}: the text has its units already"));
            }
            Some(_) if is_number => {}
            None if is_number
                && matches!(&next, Token::Word(word)
                if word.quote_style.is_none() && !is_keyword) =>
            {
                return wrong(unknown_unit(&format!("'{text}'"), &next));
            }
            // Behind a text with units, or seconds, it is an alias.
            _ => return Ok(interval_of(value, None)),
        }
    }
    let Some((name, length)) = named else { return wrong(unknown_unit(&value.to_string(), &next)) };
    parser.advance_token();
    if is_word(parser, "to") {
        return wrong(format!("INTERVAL {value} {name} TO ...; write INTERVAL '1 year 2 months'"));
    }
    match signed_digits(&value) {
        Some(digits) => {
            let written = Value::SingleQuotedString(format!("{digits} {name}"));
            Ok(interval_of(Expr::Value(written.with_empty_span()), None))
        }
        None => Ok(computed(value, length)),
    }
}

fn unknown_unit(value: &str, next: &Token) -> String {
    match next {
        Token::Word(word) => format!(
            "INTERVAL {value} {}: this is no unit of time; units are millennia, centuries, \
             decades, years, quarters, months, weeks, days, hours, minutes, seconds, milliseconds \
             and microseconds",
            word.value
        ),
        _ => format!("INTERVAL {value} has no unit; write INTERVAL {value} DAY"),
    }
}

/// A number that is written, with its sign.
fn signed_digits(value: &Expr) -> Option<String> {
    match value {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => Some(digits.clone()),
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => {
            Some(text.trim().to_string())
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            signed_digits(expr).map(|digits| format!("-{digits}"))
        }
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => signed_digits(expr),
        _ => None,
    }
}

/// The interval of a number that is computed, in months, days or parts of seconds.
fn computed(value: Expr, length: Length) -> Expr {
    let (field, times) = match length {
        Length::Months(months) => (DateTimeField::Month, i64::from(months)),
        Length::Days(days) => (DateTimeField::Day, i64::from(days)),
        Length::Nanos(nanos @ 1..1_000) => (DateTimeField::Nanosecond, nanos),
        Length::Nanos(nanos) if nanos < 1_000_000 => (DateTimeField::Microsecond, nanos / 1_000),
        Length::Nanos(nanos) if nanos < 1_000_000_000 => {
            (DateTimeField::Millisecond, nanos / 1_000_000)
        }
        Length::Nanos(nanos) => match nanos / 1_000_000_000 {
            3_600 => (DateTimeField::Hour, 1),
            60 => (DateTimeField::Minute, 1),
            seconds => (DateTimeField::Second, seconds),
        },
    };
    let value = match times {
        1 => value,
        times => Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(value))),
            op: BinaryOperator::Multiply,
            right: Box::new(Expr::Value(Value::Number(times.to_string(), false).with_empty_span())),
        },
    };
    let value = match value {
        nested @ Expr::Nested(_) => nested,
        other => Expr::Nested(Box::new(other)),
    };
    interval_of(value, Some(field))
}

fn interval_of(value: Expr, leading_field: Option<DateTimeField>) -> Expr {
    Expr::Interval(Interval {
        value: Box::new(value),
        leading_field,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    })
}

/// A `*` that stands for all columns where the parser reads a single expression:
///
/// - `MATCH_CONDITION (*)` and `MATCH_CONDITION (* (+))`, see [`ast::asof`](crate::ast::asof);
/// - `INSERT INTO t AS t PARTITION (*)`, see [`ast::insert`](crate::ast::insert);
/// - `WHEN MATCHED THEN UPDATE SET ROW = *`, see [`ast::merge`](crate::ast::merge).
fn star(parser: &mut Parser<'_>) -> Option<Expr> {
    if parser.peek_token_ref().token != Token::Mul {
        return None;
    }
    if is_behind(parser, &["PARTITION", "("])
        || is_behind(parser, &["THEN", "UPDATE", "SET", "ROW", "="])
    {
        parser.advance_token();
        return Some(Expr::Wildcard(AttachedToken::empty()));
    }
    if !is_behind(parser, &["MATCH_CONDITION", "("]) {
        return None;
    }
    parser.advance_token();
    let is_outer = (0..).zip(&OUTER).all(|(at, of)| parser.peek_nth_token_ref(at).token == *of);
    if is_outer {
        OUTER.iter().for_each(|_| parser.advance_token());
    }
    Some(asof::match_condition(if is_outer { Kind::Left } else { Kind::Inner }))
}

/// Whether an unquoted word comes next.
fn is_word(parser: &Parser<'_>, text: &str) -> bool {
    is_unquoted(&parser.peek_token_ref().token, text)
}

fn is_unquoted(token: &Token, text: &str) -> bool {
    matches!(token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
}

/// Whether the operator GLOB comes next, and NOT before it. Nothing follows a name for a column.
fn glob(parser: &Parser<'_>) -> Option<bool> {
    let negated = is_word(parser, "not");
    let word = usize::from(negated);
    if !negated && !is_word(parser, GLOB)
        || negated && !is_unquoted(&parser.peek_nth_token_ref(1).token, GLOB)
    {
        return None;
    }
    let behind = &parser.peek_nth_token_ref(word + 1).token;
    let ends = matches!(behind, Token::Comma | Token::RParen | Token::SemiColon | Token::EOF)
        || is_unquoted(behind, "from");
    (!ends).then_some(negated)
}

/// Whether `IN` and a list value come next, and NOT before it: `a IN ?`, `a NOT IN list`. What SQL
/// itself has in this place is a bracket, or UNNEST.
fn in_list_value(parser: &Parser<'_>) -> Option<bool> {
    let negated = is_word(parser, "not");
    let word = usize::from(negated);
    if !is_unquoted(&parser.peek_nth_token_ref(word).token, "in") {
        return None;
    }
    let behind = &parser.peek_nth_token_ref(word + 1).token;
    let is_standard = matches!(behind, Token::LParen | Token::SemiColon | Token::EOF)
        || is_unquoted(behind, "unnest");
    (!is_standard).then_some(negated)
}

/// `left IN list` is `left = ANY(list)`, and `left NOT IN list` is `left <> ALL(list)`.
fn in_list(left: &Expr, list: Expr, negated: bool) -> Expr {
    let (left, right) = (Box::new(left.clone()), Box::new(list));
    match negated {
        true => Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right },
        false => Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, is_some: false },
    }
}

impl Dialect for SwingDialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        GenericDialect.is_identifier_part(ch)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        match parser.peek_token_ref().token {
            Token::Caret => Some(Ok(POWER)),
            Token::StringConcat => Some(Ok(CONCAT)),
            Token::HashArrow | Token::LongArrow => Some(Ok(MEMBER)),
            _ if glob(parser).is_some() => Some(Ok(self.prec_value(Precedence::Like))),
            _ if is_word(parser, ISNULL) => Some(Ok(self.prec_value(Precedence::Is))),
            _ => None,
        }
    }

    fn prec_value(&self, of: Precedence) -> u8 {
        match of {
            Precedence::Pipe => BITWISE_OR,
            other => GenericDialect.prec_value(other),
        }
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        if is_word(parser, "interval") {
            return interval(parser);
        }
        pivot_clauses::parse(parser).or_else(|| star(parser).map(Ok))
    }

    /// `a ISNULL` is `a IS NULL`, and no name for `a`.
    ///
    /// `a IS DISTINCT FROM b AND c` is `(a IS DISTINCT FROM b) AND c`; the parser would take all
    /// that follows for what is compared.
    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        use Keyword::{DISTINCT, FROM, IS, NOT};
        if is_word(parser, ISNULL) {
            parser.advance_token();
            return Some(Ok(Expr::IsNull(Box::new(left.clone()))));
        }
        if let Some(negated) = glob(parser) {
            (0..=usize::from(negated)).for_each(|_| parser.advance_token());
            return Some(parser.parse_subexpr(precedence).map(|pattern| {
                let found = call(GLOB, [left.clone(), pattern]);
                match negated {
                    true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(found) },
                    false => found,
                }
            }));
        }
        if let Some(negated) = in_list_value(parser) {
            (0..=usize::from(negated)).for_each(|_| parser.advance_token());
            return Some(parser.parse_subexpr(precedence).map(|list| in_list(left, list, negated)));
        }
        let negated = parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]);
        if !negated && !parser.parse_keywords(&[IS, DISTINCT, FROM]) {
            return None;
        }
        let left = Box::new(left.clone());
        Some(parser.parse_subexpr(precedence).map(|right| match negated {
            true => Expr::IsNotDistinctFrom(left, Box::new(right)),
            false => Expr::IsDistinctFrom(left, Box::new(right)),
        }))
    }

    /// `SELECT 1 ON CONFLICT ...` of an INSERT: ON is no name for the 1.
    fn is_column_alias(&self, word: &Keyword, _parser: &mut Parser<'_>) -> bool {
        *word != Keyword::ON && !RESERVED_FOR_COLUMN_ALIAS.contains(word)
    }

    also! {
        supports_alter_column_type_using
        supports_insert_table_alias
        supports_lambda_functions
        supports_numeric_literal_underscores
        supports_order_by_all
        supports_notnull_operator
    }

    as_generic! {
        supports_unicode_string_literal
        supports_partition_by_after_order_by
        supports_array_join_syntax
        supports_group_by_expr
        supports_group_by_with_modifier
        supports_left_associative_joins_without_parens
        supports_connect_by
        supports_match_recognize
        supports_pipe_operator
        supports_start_transaction_modifier
        supports_window_function_null_treatment_arg
        supports_dictionary_syntax
        supports_window_clause_named_window_reference
        supports_parenthesized_set_variables
        supports_select_wildcard_except
        support_map_literal_syntax
        allow_extract_custom
        allow_extract_single_quotes
        supports_extract_comma_syntax
        supports_create_view_comment_syntax
        supports_parens_around_table_factor
        supports_values_as_table_factor
        supports_create_index_with_clause
        supports_explain_with_utility_options
        supports_limit_comma
        supports_update_order_by
        supports_from_first_select
        supports_projection_trailing_commas
        supports_asc_desc_in_column_definition
        supports_try_convert
        supports_bitwise_shift_operators
        supports_comment_on
        supports_load_extension
        supports_named_fn_args_with_assignment_operator
        supports_struct_literal
        supports_empty_projections
        supports_nested_comments
        supports_multiline_comment_hints
        supports_user_host_grantee
        supports_string_escape_constant
        supports_array_typedef_with_brackets
        supports_match_against
        supports_set_names
        supports_comma_separated_set_assignments
        supports_filter_during_aggregation
        supports_select_wildcard_exclude
        supports_data_type_signed_suffix
        supports_interval_options
        supports_quote_delimited_string
        supports_select_wildcard_replace
        supports_select_wildcard_ilike
        supports_select_wildcard_rename
        supports_optimize_table
        supports_install
        supports_detach
        supports_prewhere
        supports_with_fill
        supports_limit_by
        supports_interpolate
        supports_settings
        supports_select_format
        supports_comment_optimizer_hint
        supports_key_column_option
        supports_comma_separated_trim
        supports_cte_without_as
        supports_select_item_multi_column_alias
        supports_xml_expressions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_and_more() {
        for sql in [
            "FROM t",
            "SELECT * EXCLUDE (a) FROM t",
            "SELECT {'a': 1}, [1, 2], MAP {'k': 1}",
            "CREATE TABLE t (m MAP(VARCHAR, INT))",
            "ALTER TABLE t ALTER COLUMN a TYPE INT USING a + 1",
            "SELECT list_transform([1], x -> x + 1), list_filter([1], lambda x: x > 0)",
            "SELECT 1_000 FROM t ORDER BY ALL DESC",
            "SELECT s GLOB 'a*' AND s NOT GLOB 'b', s glob, glob FROM t",
            "SELECT a NOTNULL, a + 1 ISNULL AND b, a AS isnull FROM t",
            "INSERT INTO t SELECT 1, a + 2 ON CONFLICT DO NOTHING",
            "SELECT a IN $1 AND b NOT IN [1, 2], a IN (1, 2), a IN UNNEST([1]) FROM t",
        ] {
            assert!(Parser::parse_sql(&DIALECT, sql).is_ok(), "{sql}");
        }
    }
}
