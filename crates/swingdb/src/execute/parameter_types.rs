//! The types of a query's parameters, from where they stand: [`parameter_types`].
//!
//! `WHERE id = $1` says that `$1` is compared with `id`, and so what type a value would best have.
//! The query is planned without values. Its plan tells the types, and is dropped.

use arrow::datatypes::FieldRef;
use datafusion::sql::sqlparser::ast::Statement;
use swingdb_common::error::Result;
use swingdb_common::runtime::cancel::stoppable;

use crate::session::Session;
use crate::sql::planner::Planner;
use crate::sql::text::depth;
use crate::sql::text::parameters::number_parameters;
use crate::sql::text::parser::parse_lines;
use crate::sql::text::statement::Parsed;

/// The types of `$1`, `$2` and so on, as far as the query says. Empty for any other statement.
pub(crate) fn parameter_types(session: &Session, sql: &str) -> Result<Vec<Option<FieldRef>>> {
    let _one_at_a_time = session.lock_statement();
    let token = session.cancel_token();
    depth::with_enough_stack(|| stoppable(&token, || types_of(session, sql)))
}

fn types_of(session: &Session, sql: &str) -> Result<Vec<Option<FieldRef>>> {
    let mut statements = parse_lines(sql)?;
    let (last, other) = (statements.pop_back(), statements.pop_back());
    let (Some((_, Parsed::Sql(mut statement))), None) = (last, other) else {
        return Ok(Vec::new());
    };
    if !matches!(*statement, Statement::Query(_)) {
        return Ok(Vec::new());
    }
    let (mut next, mut names) = (1, Vec::new());
    number_parameters(statement.as_mut(), &mut next, &mut names)?;
    let (view, engine) = (session.view()?, session.engine()?);
    let planner = Planner::new(&view, &engine);
    planner.prepare(statement.as_mut())?;
    let plan = planner.plan_for(*statement)?;
    let mut fields = plan.get_parameter_fields()?;
    Ok((1..next).map(|number| fields.remove(&format!("${number}")).flatten()).collect())
}
