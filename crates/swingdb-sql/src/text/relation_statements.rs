//! `FROM (DESCRIBE t)`: what DESCRIBE, SHOW and SUMMARIZE tell, as a relation.
//!
//! The brackets become a name that holds the statement in them. It is run before the names of the
//! statement around it are looked up, and what it tells is a table of that name.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart, Statement, VisitorMut};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::ast::walk::walk_mut;
use crate::text::dialect::DIALECT;
use crate::text::tokens::Pass;

/// Begins the names of such relations.
const MARK: &str = "\u{1}told ";

/// Puts names for the statements in brackets.
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
            let words = (open + 1..close).filter_map(|word| pass.token(word));
            let token = Token::make_word(&marked(words), Some('"'));
            pass.splice(open..close + 1, vec![TokenWithSpan { token, span }]);
        }
    }
}

/// The name of the relation that has the rows of the statement of these words.
fn marked<'a>(words: impl Iterator<Item = &'a Token>) -> String {
    format!("{MARK}{}", words.map(spelled).collect::<Vec<_>>().join(" "))
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

/// The statement whose rows a relation of this name has.
pub fn told(name: &str) -> Option<&str> {
    name.strip_prefix(MARK)
}

/// Lets `rewrite` change each parameter of the statement that a name holds.
pub(crate) fn rewrite_parameters(name: &mut ObjectName, rewrite: &mut dyn FnMut(&mut String)) {
    if let [ObjectNamePart::Identifier(ident)] = name.0.as_mut_slice()
        && let Some(text) = told(&ident.value)
        && text.contains(['$', ':', '@'])
        && let Ok(mut words) = Tokenizer::new(&DIALECT, text).tokenize()
    {
        for word in &mut words {
            if let Token::Placeholder(text) = word {
                rewrite(text);
            }
        }
        let words = words.iter().filter(|word| !matches!(word, Token::Whitespace(_)));
        ident.value = marked(words);
    }
}

/// The names of all such relations in a statement.
pub fn told_relations(statement: &mut Statement) -> Vec<String> {
    struct Names(Vec<String>);
    impl VisitorMut for Names {
        type Break = ();
        fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
            if let [ObjectNamePart::Identifier(ident)] = name.0.as_slice()
                && told(&ident.value).is_some()
                && !self.0.contains(&ident.value)
            {
                self.0.push(ident.value.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(Vec::new());
    // Never breaks.
    let _ = walk_mut(statement, &mut names);
    names.0
}
