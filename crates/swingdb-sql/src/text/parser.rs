//! From a text to statements.
//!
//! A text is parsed as a whole before its first statement runs, so that a typing error changes
//! nothing.

use std::collections::VecDeque;

use datafusion::sql::parser::{
    DFParser, DFParserBuilder, ResetStatement, Statement as DfStatement,
};
use datafusion::sql::sqlparser::ast::{DataType, Expr, Statement, VisitMut};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use swingdb_common::error::{Error, Result};

use crate::text::depth::{settle, with_stack};
use crate::text::dialect::DIALECT;
use crate::text::parameters::number_tokens;
use crate::text::statement::{Body, Named, Own, Parsed, Statements, What};
use crate::text::types;
use crate::text::words::{ends, next_word, parse_name, parser_error, unexpected};
use crate::text::{
    about_session, backup, clauses, collations, depth, dropped_words, forms, frame_exclude, macros,
    refused, sequences, statement_forms, tokens, using_key,
};

/// Parses a text into statements.
pub fn parse(sql: &str) -> Result<VecDeque<Parsed>> {
    Ok(parse_lines(sql)?.into_iter().map(|(_, statement)| statement).collect())
}

/// The statements of a text with the lines in which they begin.
pub fn parse_lines(sql: &str) -> Result<Statements> {
    let tokens = tokens(sql)?;
    with_stack(depth::room(&tokens)?, || parse_all(tokens))
}

fn parse_all(tokens: Vec<TokenWithSpan>) -> Result<Statements> {
    let is_collate = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => word.keyword == Keyword::COLLATE,
        _ => false,
    };
    let collates = tokens.iter().any(is_collate);
    let mut parser = parser(tokens)?;
    let mut statements = VecDeque::new();
    let mut ended = true;
    loop {
        while parser.parser.consume_token(&Token::SemiColon) {
            ended = true;
        }
        let next = parser.parser.peek_token();
        if next.token == Token::EOF {
            return Ok(statements);
        }
        if !ended {
            return Err(unexpected("the end of the statement", &next));
        }
        let mut statement = parse_one(&mut parser)?;
        settle_parsed(&mut statement, collates)?;
        refuse_unread(&mut statement)?;
        statements.push_back((next.span.start.line, statement));
        ended = false;
    }
}

/// A syntax tree of any kind.
trait Tree {
    /// Refuses clauses that nobody would carry out.
    fn check(&mut self) -> Result<()>;

    /// Writes collations out, and makes the tree flat where its shape has no meaning.
    fn settle(&mut self, collates: bool) -> Result<()>;
}

impl<T: VisitMut> Tree for T {
    fn check(&mut self) -> Result<()> {
        clauses::check(self)
    }

    fn settle(&mut self, collates: bool) -> Result<()> {
        settled(self, collates)
    }
}

/// All syntax trees that a statement holds.
fn trees(parsed: &mut Parsed) -> Vec<&mut dyn Tree> {
    match parsed {
        Parsed::Sql(statement) | Parsed::Own(Own::ForceView(statement)) => {
            vec![statement.as_mut()]
        }
        Parsed::Explain(explain) => match explain.statement.as_mut() {
            DfStatement::Statement(statement) => vec![statement.as_mut()],
            _ => Vec::new(),
        },
        Parsed::Copy(copy) => match &mut copy.what {
            What::To(query) | What::TableTo { query, .. } => vec![query.as_mut()],
            What::From { .. } => Vec::new(),
        },
        Parsed::External(create) => vec![&mut create.columns],
        Parsed::Own(Own::SummarizeQuery { query }) => vec![query.as_mut()],
        Parsed::Own(Own::SetVariable { name: _, value }) => vec![value.as_mut()],
        Parsed::Own(Own::CreateType(create)) => match &mut create.what {
            Named::EnumOf(query) => vec![query.as_mut()],
            Named::Type(_) => Vec::new(),
        },
        Parsed::Own(Own::CreateMacro(create)) => {
            let mut trees: Vec<&mut dyn Tree> = Vec::new();
            for variant in &mut create.variants {
                for parameter in &mut variant.parameters {
                    trees.push(&mut parameter.default);
                }
                match &mut variant.body {
                    Body::Expr(expr) => trees.push(expr.as_mut()),
                    Body::Query(query) => trees.push(query.as_mut()),
                }
            }
            trees
        }
        Parsed::Own(_) | Parsed::Reset(_) => Vec::new(),
    }
}

/// Refuses clauses that nobody would carry out.
fn refuse_unread(parsed: &mut Parsed) -> Result<()> {
    if let Parsed::External(create) = parsed {
        clauses::define::check_external(create)?;
    }
    trees(parsed).into_iter().try_for_each(|tree| tree.check())
}

/// Parses the text of a view.
pub fn parse_query(sql: &str) -> Result<Statement> {
    match parse(sql)?.pop_front() {
        Some(Parsed::Sql(statement)) => Ok(*statement),
        _ => Err(Error::internal(format!("the text of a view is no query: {sql}"))),
    }
}

/// Parses the text of an expression.
pub fn parse_expression(sql: &str) -> Result<Expr> {
    let tokens = tokens(sql)?;
    with_stack(depth::room(&tokens)?, || {
        let mut parser = parser(tokens)?;
        let mut expr = parser.parser.parse_expr().map_err(parser_error)?;
        let next = parser.parser.peek_token();
        if next.token != Token::EOF {
            return Err(unexpected("the end of the expression", &next));
        }
        depth::settle(&mut expr)?;
        Ok(expr)
    })
}

/// Parses the text of a type.
pub fn parse_type(sql: &str) -> Result<DataType> {
    if sql == "ENUM()" {
        return Ok(DataType::Enum(Vec::new(), None));
    }
    let mut parser = parser(tokens(sql)?)?;
    let found = parser.parser.parse_data_type().map_err(parser_error)?;
    let next = parser.parser.peek_token();
    match next.token {
        Token::EOF => Ok(found),
        _ => Err(unexpected("the end of the type", &next)),
    }
}

/// The tokens of a text, those that the parser does not know rewritten.
pub(crate) fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&DIALECT, sql).tokenize_with_location();
    let mut tokens = tokens.map_err(|error| Error::Parse {
        message: error.message,
        line: Some(error.location.line),
        column: Some(error.location.column),
    })?;
    number_tokens(&mut tokens);
    let mut pass = tokens::Pass::new(tokens);
    dropped_words::rewrite(&mut pass)?;
    using_key::refuse(&pass)?;
    let tokens = pass.finish();
    frame_exclude::rewrite(forms::rewrite_tokens(statement_forms::rewrite(tokens))?)
}

pub(crate) fn parser(tokens: Vec<TokenWithSpan>) -> Result<DFParser<'static>> {
    let builder = DFParserBuilder::new(tokens).with_dialect(&DIALECT);
    Ok(builder.with_recursion_limit(RECURSION_LIMIT).build()?)
}

fn parse_one(parser: &mut DFParser<'_>) -> Result<Parsed> {
    if let Some(own) = parse_own(parser)? {
        return Ok(Parsed::Own(own));
    }
    if let Some(parsed) = about_session::pragma(parser)? {
        return Ok(parsed);
    }
    // DataFusion's own COPY knows only one direction.
    if next_word(parser, 0, "copy") {
        let copy = crate::text::copy::parse(&mut parser.parser)?;
        return Ok(Parsed::Copy(Box::new(copy)));
    }
    if let Some(error) = refused::unknown(parser) {
        return Err(error);
    }
    Ok(match parser.parse_statement()? {
        DfStatement::Statement(statement) => Parsed::Sql(statement),
        DfStatement::Explain(explain) => Parsed::Explain(explain),
        DfStatement::CopyTo(copy) => return Err(Error::unsupported(copy.to_string())),
        DfStatement::CreateExternalTable(create) => Parsed::External(create),
        DfStatement::Reset(ResetStatement::Variable(name)) => Parsed::Reset(name),
    })
}

fn parse_own(parser: &mut DFParser<'_>) -> Result<Option<Own>> {
    let skip = |parser: &mut DFParser<'_>, tokens: usize| {
        for _ in 0..tokens {
            parser.parser.next_token();
        }
    };
    if next_word(parser, 0, "share") && ends(parser, 1) {
        skip(parser, 1);
        return Ok(Some(Own::Share));
    }
    if next_word(parser, 0, "checkpoint") {
        if ends(parser, 1) {
            skip(parser, 1);
            return Ok(Some(Own::Checkpoint { directory: None, database: None }));
        }
        if next_word(parser, 1, "to") && !ends(parser, 2) {
            skip(parser, 2);
            let directory = Some(parse_name(parser)?);
            return Ok(Some(Own::Checkpoint { directory, database: None }));
        }
        if ends(parser, 2) {
            skip(parser, 1);
            let database = Some(parse_name(parser)?);
            return Ok(Some(Own::Checkpoint { directory: None, database }));
        }
    }
    if next_word(parser, 0, "refresh") && ends(parser, 1) {
        skip(parser, 1);
        return Ok(Some(Own::Refresh));
    }
    if next_word(parser, 0, "show") && next_word(parser, 1, "snapshots") && ends(parser, 2) {
        skip(parser, 2);
        return Ok(Some(Own::ShowSnapshots));
    }
    if let Some(own) = macros::parse(parser)? {
        return Ok(Some(own));
    }
    if let Some(own) = sequences::parse(parser)? {
        return Ok(Some(own));
    }
    if let Some(own) = types::parse(parser)? {
        return Ok(Some(own));
    }
    if let Some(own) = backup::parse(parser)? {
        return Ok(Some(own));
    }
    if let Some(own) = about_session::parse(parser)? {
        return Ok(Some(own));
    }
    if let Some(own) = parse_attached(parser)? {
        return Ok(Some(own));
    }
    if next_word(parser, 0, "summarize") {
        skip(parser, 1);
        let begins = ["select", "with", "from", "values"];
        let bracket = parser.parser.peek_token_ref().token == Token::LParen;
        if bracket || begins.iter().any(|word| next_word(parser, 0, word)) {
            let query = parser.parser.parse_query().map_err(parser_error)?;
            return Ok(Some(Own::SummarizeQuery { query }));
        }
        let name = parser.parser.parse_object_name(true).map_err(parser_error)?;
        return Ok(Some(Own::Summarize { name }));
    }
    Ok(None)
}

/// ATTACH and DETACH.
fn parse_attached(parser: &mut DFParser<'_>) -> Result<Option<Own>> {
    if next_word(parser, 0, "attach") {
        parser.parser.next_token();
        if next_word(parser, 0, "database") && !ends(parser, 1) && !next_word(parser, 1, "as") {
            parser.parser.next_token();
        }
        let name = parse_name(parser)?;
        let alias = match next_word(parser, 0, "as") {
            true => {
                parser.parser.next_token();
                Some(parse_name(parser)?)
            }
            false => None,
        };
        return Ok(Some(Own::Attach { name, alias }));
    }
    if next_word(parser, 0, "detach") {
        parser.parser.next_token();
        if next_word(parser, 0, "database") && !ends(parser, 1) {
            parser.parser.next_token();
        }
        return Ok(Some(Own::Detach { alias: parse_name(parser)? }));
    }
    Ok(None)
}

/// Writes collations out, and makes trees flat where their shape has no meaning.
pub(crate) fn settle_parsed(parsed: &mut Parsed, collates: bool) -> Result<()> {
    trees(parsed).into_iter().try_for_each(|tree| tree.settle(collates))
}

fn settled<T: VisitMut>(tree: &mut T, collates: bool) -> Result<()> {
    if collates {
        collations::rewrite(tree);
    }
    settle(tree)
}

/// Deepest nesting of expressions and queries the parser accepts.
pub(crate) const RECURSION_LIMIT: usize = 200;
