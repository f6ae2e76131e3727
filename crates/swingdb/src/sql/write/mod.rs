//! Statements that change something (placeholder with the signatures the dispatcher calls).

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast::{Query, Statement};

use crate::error::{Error, Result};
use crate::sql::params::Params;
use crate::sql::session::Session;
use crate::store::{Catalog, Store};

pub(crate) mod tokens {
    //! Placeholder.
    use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;
    pub(crate) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
        tokens
    }
}

pub(crate) mod types {
    //! Placeholder.
    #[derive(Debug)]
    pub(crate) struct SqlTypes;
    impl datafusion::logical_expr::planner::TypePlanner for SqlTypes {}
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) rows_changed: Option<u64>,
    pub(crate) tag: &'static str,
    pub(crate) rows: Option<(SchemaRef, Vec<RecordBatch>)>,
}

#[derive(Default)]
pub(crate) struct TxnState;

impl TxnState {
    pub(crate) fn catalog(&self, store: &Store) -> Arc<Catalog> {
        store.latest()
    }

    pub(crate) fn is_open(&self) -> bool {
        false
    }
}

pub(crate) fn handles(statement: &Statement) -> bool {
    !matches!(statement, Statement::Query(_))
}

pub(crate) fn execute(_: &Session, statement: &Statement, _: &Params) -> Result<Outcome> {
    Err(Error::unsupported(statement.to_string()))
}

pub(crate) fn explain_query(_: &Session, _: &Statement) -> Result<Option<Query>> {
    Ok(None)
}
