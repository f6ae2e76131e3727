//! The statements of a text, as they are parsed: those of SQL, and those that only this database
//! has.

#![allow(missing_docs, reason = "the syntax above a statement says what its parts are")]

use std::collections::VecDeque;

use datafusion::sql::parser::{CreateExternalTable, ExplainStatement, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{DataType, Expr, Ident, ObjectName, Query, Statement};
use swingdb_common::error::Result;
use swingdb_files::options::OptionValue;
use swingdb_store::MacroKind;

use crate::text::parameters;
use crate::text::parameters::{Numbering, refuse_parameters};

/// The statements of a text, each with the line in which it begins.
pub type Statements = VecDeque<(u64, Parsed)>;

/// One statement of a text.
#[derive(Clone, Debug)]
pub enum Parsed {
    /// Standard SQL.
    Sql(Box<Statement>),
    /// EXPLAIN of something.
    Explain(ExplainStatement),
    /// COPY.
    Copy(Box<crate::text::statement::CopyStatement>),
    /// CREATE EXTERNAL TABLE.
    External(CreateExternalTable),
    /// RESET.
    Reset(ObjectName),
    /// What only this database has.
    Own(Own),
}

/// Statements that only this database has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Own {
    /// `SHARE`: new snapshots see the last committed state.
    Share,
    /// `CHECKPOINT`: the store on the disk gets the last committed state; `CHECKPOINT TO 'dir'`: a
    /// copy of it is made there.
    Checkpoint { directory: Option<String>, database: Option<String> },
    /// `REFRESH`: a snapshot moves to the newest shared state.
    Refresh,
    /// `ATTACH 'name' [AS alias]`: takes a snapshot and attaches it.
    Attach { name: String, alias: Option<String> },
    /// `DETACH alias`.
    Detach { alias: String },
    /// `SHOW SNAPSHOTS`: the databases of this machine.
    ShowSnapshots,
    /// `CREATE MACRO`.
    CreateMacro(Box<CreateMacro>),
    /// `DROP MACRO`.
    DropMacro(DropMacro),
    /// `SHOW MACROS`.
    ShowMacros,
    /// `SHOW CREATE MACRO`.
    ShowCreateMacro { name: ObjectName },
    /// `CREATE SEQUENCE`.
    CreateSequence(Box<CreateSequence>),
    /// `DROP SEQUENCE`.
    DropSequence(DropSequence),
    /// `SHOW SEQUENCES`.
    ShowSequences,
    /// `ALTER SEQUENCE`.
    AlterSequence(AlterSequence),
    /// `CREATE TYPE`.
    CreateType(Box<CreateType>),
    /// `DROP TYPE`.
    DropType(DropType),
    /// `EXPORT DATABASE`.
    ExportDatabase(Box<ExportDatabase>),
    /// `IMPORT DATABASE 'folder'`.
    ImportDatabase { folder: String },
    /// `CREATE FORCE VIEW`.
    ForceView(Box<Statement>),
    /// `USE name`.
    Use { name: ObjectName },
    /// `ANALYZE [table]` and `VACUUM [table]`.
    Tidy { verb: &'static str, table: Option<ObjectName>, columns: Vec<Ident> },
    /// `SET VARIABLE name = value`.
    SetVariable { name: Ident, value: Box<Expr> },
    /// `RESET VARIABLE name`.
    ResetVariable { name: Ident },
    /// `SUMMARIZE table`.
    Summarize { name: ObjectName },
    /// `SUMMARIZE SELECT ...`.
    SummarizeQuery { query: Box<Query> },
}

/// `CREATE [OR REPLACE] [TEMP] [FORCE] MACRO [IF NOT EXISTS] name(...) AS ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateMacro {
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub temporary: bool,
    /// Whether what its bodies name need not be there.
    pub force: bool,
    pub name: ObjectName,
    pub variants: Vec<Variant>,
}

impl CreateMacro {
    /// What it stands for, variant by variant.
    pub fn bodies(&mut self) -> impl Iterator<Item = &mut Body> {
        self.variants.iter_mut().map(|variant| &mut variant.body)
    }
}

/// `(a, b := 1) AS a + b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    pub parameters: Vec<Parameter>,
    pub body: Body,
}

/// `b := 1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: Ident,
    pub default: Option<Expr>,
}

/// What a macro stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Expr(Box<Expr>),
    Query(Box<Query>),
}

impl Body {
    pub fn kind(&self) -> MacroKind {
        match self {
            Self::Expr(_) => MacroKind::Scalar,
            Self::Query(_) => MacroKind::Table,
        }
    }
}

/// `DROP MACRO [TABLE] [IF EXISTS] name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropMacro {
    pub kind: MacroKind,
    pub if_exists: bool,
    pub names: Vec<ObjectName>,
}

/// `CREATE [OR REPLACE] SEQUENCE [IF NOT EXISTS] name ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSequence {
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub temporary: bool,
    pub name: ObjectName,
    pub options: Options,
}

/// What is said of the numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub start: Option<i64>,
    pub increment: Option<i64>,
    pub min: Option<i64>,
    pub max: Option<i64>,
    pub cycle: bool,
}

/// `ALTER SEQUENCE [IF EXISTS] name ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterSequence {
    pub if_exists: bool,
    pub name: ObjectName,
    pub change: Change,
}

/// What becomes other; the rest stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub start: Option<i64>,
    pub increment: Option<i64>,
    pub min: Option<i64>,
    pub max: Option<i64>,
    pub cycle: Option<bool>,
    /// Whether it begins again.
    pub restart: bool,
}

/// `DROP SEQUENCE [IF EXISTS] name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropSequence {
    pub if_exists: bool,
    pub cascade: bool,
    pub names: Vec<ObjectName>,
}

/// `CREATE [OR REPLACE] TYPE [IF NOT EXISTS] name AS ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateType {
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub temporary: bool,
    pub name: ObjectName,
    pub what: Named,
}

/// What a type's name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    Type(DataType),
    /// An ENUM of the texts that a query gives, in their order.
    EnumOf(Box<Query>),
}

/// `DROP TYPE [IF EXISTS] name, ... [CASCADE | RESTRICT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropType {
    pub if_exists: bool,
    pub names: Vec<ObjectName>,
}

/// `EXPORT DATABASE [name TO] 'folder' [(option [value], ...)]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportDatabase {
    /// The session's own database if it has no name.
    pub database: Option<String>,
    pub folder: String,
    pub options: Vec<(String, OptionValue)>,
}

/// A COPY statement.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyStatement {
    pub what: What,
    pub path: String,
    pub options: Vec<(String, OptionValue)>,
}

/// What is copied, and in which direction.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Files into a table's columns (all when none are named).
    From { table: ObjectName, columns: Vec<Ident> },
    /// A query's rows into a file.
    To(Box<Query>),
    /// A table's columns (all when none are named) into a file; the query says the same.
    TableTo { table: ObjectName, columns: Vec<Ident>, query: Box<Query> },
}

impl CopyStatement {
    /// Makes this a statement about a file of an exported database. The names of folders above say
    /// nothing about the rows. That a column's values are not NULL, its table says too; so no field
    /// is empty that DuckDB's `force_not_null` would make an empty text of.
    pub fn of_export(&mut self) {
        self.options.retain(|(name, _)| !name.eq_ignore_ascii_case("force_not_null"));
        let no = OptionValue::Text("false".to_string());
        self.options.push(("hive_partitioning".to_string(), no));
    }
}

/// Numbers the parameters of all statements.
pub fn number_all(statements: &mut Statements) -> Result<Numbering> {
    let (mut next, mut names) = (1, Vec::new());
    for (_, statement) in statements.iter_mut() {
        number(statement, &mut next, &mut names)?;
    }
    Ok(Numbering { count: next - 1, names })
}

pub fn number(statement: &mut Parsed, next: &mut usize, names: &mut Vec<String>) -> Result<()> {
    match statement {
        Parsed::Sql(statement) => match statement.as_mut() {
            // Its parameters get their values from EXECUTE.
            Statement::Prepare { statement, .. } => refuse_kept(statement),
            statement => number_statement(statement, next, names),
        },
        Parsed::Explain(explain) => match explain.statement.as_mut() {
            DfStatement::Statement(inner) => number_statement(inner, next, names),
            _ => Ok(()),
        },
        Parsed::Copy(copy) => match &mut copy.what {
            crate::text::statement::What::To(query)
            | crate::text::statement::What::TableTo { query, .. } => {
                parameters::number_parameters(query.as_mut(), next, names)
            }
            crate::text::statement::What::From { .. } => Ok(()),
        },
        Parsed::Own(Own::SummarizeQuery { query }) => {
            parameters::number_parameters(query.as_mut(), next, names)
        }
        Parsed::Own(Own::SetVariable { name: _, value }) => {
            parameters::number_parameters(value.as_mut(), next, names)
        }
        Parsed::Own(Own::ForceView(statement)) => refuse_kept(statement),
        Parsed::Own(Own::CreateMacro(create)) => {
            create.variants.iter_mut().try_for_each(refuse_in_macro)
        }
        Parsed::External(_) | Parsed::Reset(_) | Parsed::Own(_) => Ok(()),
    }
}

/// Numbers the parameters of one statement of SQL.
fn number_statement(
    statement: &mut Statement,
    next: &mut usize,
    names: &mut Vec<String>,
) -> Result<()> {
    refuse_kept(statement)?;
    parameters::number_parameters(statement, next, names)
}

/// Refuses parameters where a statement keeps a text, or takes what is written as it is.
fn refuse_kept(statement: &mut Statement) -> Result<()> {
    match statement {
        Statement::CreateView(_) => refuse_parameters(statement, "a view"),
        Statement::CreateTable(create) => {
            refuse_parameters(&mut create.columns, "a column's DEFAULT or CHECK")?;
            refuse_parameters(&mut create.constraints, "a CHECK")
        }
        Statement::AlterTable(_) => refuse_parameters(statement, "ALTER TABLE"),
        Statement::Set(_) => refuse_parameters(statement, "SET"),
        _ => Ok(()),
    }
}

fn refuse_in_macro(variant: &mut Variant) -> Result<()> {
    const WHAT: &str = "a macro, beside those that it names,";
    for parameter in &mut variant.parameters {
        refuse_parameters(&mut parameter.default, WHAT)?;
    }
    match &mut variant.body {
        Body::Expr(expr) => refuse_parameters(expr.as_mut(), WHAT),
        Body::Query(query) => refuse_parameters(query.as_mut(), WHAT),
    }
}
