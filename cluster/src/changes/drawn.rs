//! UPDATE and DELETE with functions that give another value each time: [`Drawn`].
//!
//! `DELETE FROM t WHERE random() < 0.1` would draw other numbers at each copy of a shard, and other
//! ones again when a node carries the change out a second time. So the coordinator draws them once:
//! by a query that gives the primary keys of the rows, and their new values, which nodes join with
//! their rows. Without a primary key that is one of the whole table only new values can be drawn:
//! then the rows are replaced by others, as if they moved ([`moved`](super::moved)).

use datafusion::sql::sqlparser::ast::{
    Assignment, Expr, FromTable, Ident, SelectItem, Statement, TableFactor, TableWithJoins,
};
use swingdb::cutter::{Kind, words};
use swingdb_sql::ast::build;
use swingdb_sql::text::parser::parse;
use swingdb_sql::text::statement::Parsed;

use crate::error::{Result, refused};
use crate::names::quoted;

/// The functions.
pub(crate) const DRAWN: [&str; 6] =
    ["random", "rand", "uuid", "uuidv4", "uuidv7", "gen_random_uuid"];
/// What the query is called in the statement, and how the names of its columns begin.
const ROWS: &str = "__swingdb_cluster_drawn";

/// How a statement is carried out.
#[derive(Debug, PartialEq)]
pub(crate) enum Drawn {
    /// As this statement, whose subquery is computed once.
    Joined(String),
    /// By other rows in the places of those that it changes.
    Replaced,
}

/// Whether a text calls one of [`DRAWN`].
pub(crate) fn draws(text: &str) -> bool {
    let all = words(text).collect::<Vec<_>>();
    all.windows(2).any(|next| {
        let is = |name: &&str| next[0].text.eq_ignore_ascii_case(name);
        next[0].kind == Kind::Word && next[1].text == "(" && DRAWN.iter().any(is)
    })
}

/// The parts of a statement.
struct Parts {
    table: TableWithJoins,
    assignments: Vec<Assignment>,
    condition: Option<Expr>,
    returning: Option<Vec<SelectItem>>,
}

impl Parts {
    /// `None`: a form that nothing is drawn for.
    fn of(sql: &str) -> Result<Option<Self>> {
        let Some(Parsed::Sql(statement)) = parse(sql)?.pop_front() else { return Ok(None) };
        let (is_plain, parts) = match *statement {
            Statement::Update(update) => {
                let is_plain = update.from.is_none()
                    && update.or.is_none()
                    && update.output.is_none()
                    && update.limit.is_none()
                    && update.order_by.is_empty();
                let (condition, returning) = (update.selection, update.returning);
                let (table, assignments) = (update.table, update.assignments);
                (is_plain, Self { table, assignments, condition, returning })
            }
            Statement::Delete(delete) => {
                let (FromTable::WithFromKeyword(mut from) | FromTable::WithoutKeyword(mut from)) =
                    delete.from;
                let is_plain = delete.using.is_none()
                    && delete.tables.is_empty()
                    && delete.output.is_none()
                    && delete.limit.is_none()
                    && delete.order_by.is_empty()
                    && from.len() == 1;
                let (condition, returning) = (delete.selection, delete.returning);
                let Some(table) = from.pop() else { return Ok(None) };
                (is_plain, Self { table, assignments: Vec::new(), condition, returning })
            }
            _ => return Ok(None),
        };
        Ok((is_plain && parts.table.joins.is_empty()).then_some(parts))
    }

    /// What the statement calls its table.
    fn called(&self) -> Option<Ident> {
        let TableFactor::Table { name, alias, .. } = &self.table.relation else { return None };
        let last = name.0.last().and_then(|part| part.as_ident());
        alias.as_ref().map(|alias| &alias.name).or(last).cloned()
    }

    fn condition_text(&self) -> String {
        self.condition.as_ref().map_or_else(String::new, ToString::to_string)
    }

    fn returning_text(&self) -> String {
        let items = self.returning.iter().map(|items| {
            let items = items.iter().map(ToString::to_string).collect::<Vec<_>>();
            format!(" RETURNING {}", items.join(", "))
        });
        items.collect()
    }

    /// Whether they are those of a statement that was written from them.
    fn are_those_of(&self, written: &str) -> Result<bool> {
        let read = match parse(written)?.pop_front() {
            Some(Parsed::Sql(statement)) => match *statement {
                Statement::Update(one) => (one.table, one.assignments, one.returning),
                Statement::Delete(one) => {
                    let (FromTable::WithFromKeyword(mut all) | FromTable::WithoutKeyword(mut all)) =
                        one.from;
                    let Some(table) = all.pop() else { return Ok(false) };
                    (table, Vec::new(), one.returning)
                }
                _ => return Ok(false),
            },
            _ => return Ok(false),
        };
        let (table, assignments, returning) = read;
        let is_same = table == self.table && returning == self.returning;
        Ok(is_same && assignments == self.assignments)
    }
}

impl Drawn {
    /// How an UPDATE or DELETE is carried out of a table whose rows have these keys, where they are
    /// keys of the whole table.
    pub(crate) fn of(sql: &str, keys: &[String]) -> Result<Self> {
        let what = "random values in this form of UPDATE or DELETE";
        let Some(mut parts) = Parts::of(sql)? else { return refused(what) };
        let Some(called) = parts.called() else { return refused(what) };
        if keys.is_empty() {
            return match draws(&parts.condition_text()) {
                true => refused(
                    "random values in the condition of UPDATE or DELETE, by which each node would \
                     choose other rows: give the table a PRIMARY KEY with the column of its cut",
                ),
                false => Ok(Self::Replaced),
            };
        }
        let column = |kind: &str, nth: usize| format!("{ROWS}_{kind}{nth}");
        let mut items = Vec::new();
        for (nth, key) in keys.iter().enumerate() {
            items.push(build::item(build::field(&called, key), column("key", nth)));
        }
        let rows = Ident::with_quote('"', ROWS);
        for (nth, one) in parts.assignments.iter_mut().enumerate() {
            if draws(&one.value.to_string()) {
                let named = column("value", nth);
                let value = std::mem::replace(&mut one.value, build::field(&rows, &named));
                items.push(build::item(value, named));
            }
        }
        let made = build::select(items, vec![parts.table.clone()], parts.condition.clone())?;
        let query = made.to_string();
        let is_meant = match parse(&query)?.pop_front() {
            Some(Parsed::Sql(read)) => *read == Statement::Query(Box::new(made)),
            _ => false,
        };
        let equal = keys.iter().enumerate().map(|(nth, key)| {
            let key = build::field(&called, key);
            format!("{key} = {}", build::field(&rows, &column("key", nth)))
        });
        let equal = equal.collect::<Vec<_>>().join(" AND ");
        let (table, returning, rows) = (&parts.table, parts.returning_text(), quoted(ROWS));
        let assignments = parts.assignments.iter().map(ToString::to_string).collect::<Vec<_>>();
        let written = match assignments.as_slice() {
            [] => format!("DELETE FROM {table} USING ({query}) AS {rows} WHERE {equal}{returning}"),
            some => format!(
                "UPDATE {table} SET {} FROM ({query}) AS {rows} WHERE {equal}{returning}",
                some.join(", ")
            ),
        };
        // What is run has to be what was meant.
        match is_meant && parts.are_those_of(&written)? {
            true => Ok(Self::Joined(written)),
            false => refused(format!("{what}: {written}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(sql: &str, keys: &[&str]) -> Result<Drawn> {
        Drawn::of(sql, &keys.iter().map(|key| key.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn rows_are_found_and_values_are_drawn_once() {
        let joined = |sql: &str, keys: &[&str]| match drawn(sql, keys).unwrap() {
            Drawn::Joined(sql) => sql.replace(ROWS, "d").replace('"', "'"),
            Drawn::Replaced => panic!("{sql}"),
        };
        assert_eq!(
            joined("DELETE FROM t WHERE random() < 0.5 AND a > 1 RETURNING a", &["k"]),
            "DELETE FROM t USING (SELECT t.'k' AS 'd_key0' FROM t WHERE random() < 0.5 AND a > 1) \
             AS 'd' WHERE t.'k' = 'd'.'d_key0' RETURNING a"
        );
        assert_eq!(
            joined(
                "UPDATE t AS x SET a = b + 1, b = uuid(), c = DEFAULT WHERE x.a > 1",
                &["k", "l"]
            ),
            "UPDATE t AS x SET a = b + 1, b = 'd'.'d_value1', c = DEFAULT FROM (SELECT x.'k' AS \
             'd_key0', x.'l' AS 'd_key1', uuid() AS 'd_value1' FROM t AS x WHERE x.a > 1) AS 'd' \
             WHERE x.'k' = 'd'.'d_key0' AND x.'l' = 'd'.'d_key1'"
        );
    }

    #[test]
    fn rows_without_keys_are_replaced() {
        assert_eq!(drawn("UPDATE t SET a = random() WHERE b > 1", &[]).unwrap(), Drawn::Replaced);
        for (sql, keys) in [
            ("UPDATE t SET a = 1 WHERE random() < 0.5", &[][..]),
            ("DELETE FROM t WHERE random() < 0.5", &[]),
            ("DELETE FROM t USING u WHERE random() < 0.5 AND t.k = u.k", &["k"]),
            ("UPDATE t SET a = random() FROM u WHERE t.k = u.k", &["k"]),
        ] {
            assert!(drawn(sql, keys).is_err(), "{sql}");
        }
    }

    #[test]
    fn calls_are_told_from_names() {
        for (text, expected) in [
            ("a < RANDOM ( )", true),
            ("a = 'random()' OR random = 1", false),
            ("gen_random_uuid() = b", true),
            ("\"random\"(1)", false),
            ("b + randomly(1)", false),
        ] {
            assert_eq!(draws(text), expected, "{text}");
        }
    }
}
