//! `FROM (DESCRIBE t)`: what DESCRIBE, SHOW and SUMMARIZE tell, as a relation.
//!
//! The parser is given a call of a function that stands for a table, whose argument is the text of
//! the statement. Parameters are arguments of their own, between pieces of the text: `FROM
//! (SUMMARIZE SELECT $1 AS x)` is a call with `'SUMMARIZE SELECT '`, `$1` and `' AS x'`. No person
//! can write the function's name, so it is never that of a macro.
//!
//! Before a query is bound, the statements in it are run ([`name_each`]). What one tells is a
//! table, whose name then stands in the place of the call. A call that is still there when the
//! query is planned is an error: it stands in a statement that is no query. Views and macros
//! refuse such statements.

use std::ops::ControlFlow;

use datafusion::common::ScalarValue;
use datafusion::logical_expr;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, Statement, TableFactor, Value,
    ValueWithSpan, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use swingdb_common::error::{Error, Result};
use swingdb_common::hidden;

use crate::ast::walk::walk_mut;
use crate::text::tokens::Pass;

/// The function.
const FUNCTION: &str = hidden!("statement");

/// Puts calls for the statements in brackets.
pub(crate) fn rewrite(pass: &mut Pass) {
    for open in (1..pass.len()).rev() {
        let is_relation = matches!(pass.keyword(open - 1), Some(Keyword::FROM | Keyword::JOIN));
        let tells = ["describe", "show", "summarize"].iter().any(|w| pass.is_word(open + 1, w));
        if is_relation
            && tells
            && pass.token(open) == Some(&Token::LParen)
            && let Some(close) = pass.closing(open)
            && let Some(span) = pass.with_span(open).map(|token| token.span)
        {
            let call = call((open + 1..close).filter_map(|word| pass.token(word)));
            let call = call.into_iter().map(|token| TokenWithSpan { token, span });
            pass.splice(open..close + 1, call.collect());
        }
    }
}

/// The call that has the rows of the statement of these words.
fn call<'a>(words: impl Iterator<Item = &'a Token>) -> Vec<Token> {
    let mut call = vec![Token::make_word(FUNCTION, Some('"')), Token::LParen];
    let mut text = String::new();
    for word in words {
        if let Token::Placeholder(_) = word {
            call.extend([Token::SingleQuotedString(std::mem::take(&mut text)), Token::Comma]);
            call.extend([word.clone(), Token::Comma]);
        } else {
            text.push_str(&spelled(word));
        }
        text.push(' ');
    }
    text.truncate(text.trim_end().len());
    call.extend([Token::SingleQuotedString(text), Token::RParen]);
    call
}

/// A token as it is read again, with the quotes in it.
fn spelled(token: &Token) -> String {
    match token {
        Token::SingleQuotedString(text) => format!("'{}'", text.replace('\'', "''")),
        Token::Word(word) if word.quote_style == Some('"') => {
            format!("\"{}\"", word.value.replace('"', "\"\""))
        }
        other => other.to_string(),
    }
}

/// Whether a name in FROM is that of the function.
pub fn is_call(name: &str) -> bool {
    name.trim_matches('"') == FUNCTION
}

/// The statement whose rows a relation has.
fn text_of(factor: &TableFactor) -> Option<String> {
    let TableFactor::Table { name, args: Some(args), .. } = factor else { return None };
    let piece = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(text) | Value::Placeholder(text),
            ..
        }))) => Some(text.clone()),
        _ => None,
    };
    is_call(&name.to_string()).then(|| args.args.iter().filter_map(piece).collect())
}

/// The texts of all such statements in a statement.
pub fn texts(statement: &mut Statement) -> Vec<String> {
    texts_in(statement)
}

fn texts_in<T: VisitMut>(tree: &mut T) -> Vec<String> {
    struct Texts(Vec<String>);
    impl VisitorMut for Texts {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            self.0.extend(text_of(factor));
            ControlFlow::Continue(())
        }
    }
    let mut texts = Texts(Vec::new());
    // Never breaks.
    let _ = walk_mut(tree, &mut texts);
    texts.0
}

/// Refuses such statements in what is kept as text, which somebody else runs later.
pub fn refuse<T: VisitMut>(tree: &mut T, what: &str) -> Result<()> {
    match texts_in(tree).first() {
        Some(text) => Err(misplaced(text, what)),
        None => Ok(()),
    }
}

fn misplaced(text: &str, place: &str) -> Error {
    Error::unsupported(format!("({text}) in {place}; SELECT can read it"))
}

/// Lets tables stand for all such statements in a statement. `table` gets the text of each, and the
/// name that the table of its rows is to have.
pub fn name_each(
    statement: &mut Statement,
    table: &mut dyn FnMut(&str, &str) -> Result<()>,
) -> Result<()> {
    struct Namer<'a> {
        table: &'a mut dyn FnMut(&str, &str) -> Result<()>,
        failed: Option<Error>,
    }
    impl VisitorMut for Namer<'_> {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            let Some(text) = text_of(factor) else { return ControlFlow::Continue(()) };
            // EXPLAIN shows the name.
            let own = format!(hidden!("{}"), text);
            if let Err(error) = (self.table)(&text, &own) {
                self.failed = Some(error);
                return ControlFlow::Break(());
            }
            if let TableFactor::Table { name, args, .. } = factor {
                *name = ObjectName::from(vec![Ident::with_quote('"', own)]);
                *args = None;
            }
            ControlFlow::Continue(())
        }
    }
    let mut namer = Namer { table, failed: None };
    // Breaks only with an error, which it keeps.
    let _ = walk_mut(statement, &mut namer);
    namer.failed.map_or(Ok(()), Err)
}

/// The error for a call that nothing has taken the place of.
pub(crate) fn unasked(args: &[logical_expr::Expr]) -> Error {
    let piece = |arg: &logical_expr::Expr| match arg {
        logical_expr::Expr::Literal(ScalarValue::Utf8(text), _) => text.clone(),
        logical_expr::Expr::Placeholder(parameter) => Some(parameter.id.clone()),
        _ => None,
    };
    misplaced(&args.iter().filter_map(piece).collect::<String>(), "this place")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parser::parse;
    use crate::text::statement::Parsed;

    fn sql(text: &str) -> Statement {
        match parse(text).unwrap().pop_front() {
            Some(Parsed::Sql(statement)) => *statement,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn statements_are_arguments() {
        for (given, expected) in [
            ("FROM (DESCRIBE s.t)", vec!["DESCRIBE s . t"]),
            ("SELECT * FROM a JOIN (SHOW TABLES) x(n) ON true", vec!["SHOW TABLES"]),
            (
                "SELECT (SELECT 1 FROM (SUMMARIZE SELECT ? AS x, 'it''s', \"q\"\"\"))",
                vec!["SUMMARIZE SELECT $1 AS x , 'it''s' , \"q\"\"\""],
            ),
            (
                "WITH c AS (FROM (DESCRIBE t)) FROM c JOIN (DESCRIBE u) ON true",
                vec!["DESCRIBE t", "DESCRIBE u"],
            ),
            ("SELECT 'FROM (DESCRIBE t)' FROM show", vec![]),
        ] {
            assert_eq!(texts(&mut sql(given)), expected, "{given}");
        }
    }

    #[test]
    fn tables_take_their_places() {
        let mut statement = sql("FROM (SHOW TABLES) AS a JOIN (SHOW TABLES) AS b USING (name)");
        let mut asked = Vec::new();
        let mut table = |text: &str, name: &str| {
            asked.push((text.to_string(), name.to_string()));
            Ok(())
        };
        name_each(&mut statement, &mut table).unwrap();
        let one = ("SHOW TABLES".to_string(), "\u{1}SHOW TABLES".to_string());
        assert_eq!(asked, [one.clone(), one]);
        let written = statement.to_string().replace('\u{1}', "#");
        let expected = "FROM \"#SHOW TABLES\" AS a JOIN \"#SHOW TABLES\" AS b USING(name)";
        assert_eq!(written, expected);
        assert!(texts(&mut statement).is_empty());
    }
}
