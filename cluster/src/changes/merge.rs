//! MERGE: each node merges the rows of the source that belong to it.
//!
//! The condition must compare the column of the cut with a column of the source. Then a row of the
//! source can only match rows of one node, and goes there. A row that matches none is inserted
//! there: so the cut's column has to get the value of that column of the source.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use swingdb::cutter::{Piece, words};
use swingdb::field_type;

use crate::changes::assigned::assignments;
use crate::cut::{Cut, deal};
use crate::error::{Error, Result, refused};
use crate::names::{is_same, name_of, quoted};
use crate::prune::is_equal_by_bytes;
use crate::session::{Known, Rows};

/// The name of the column by which the source is dealt out.
const KEY: &str = "__swingdb_cluster_key";
/// The name of the source's rows at a node.
pub(crate) const SOURCE: &str = "__swingdb_cluster_source";

/// A MERGE statement, cut into its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    /// The table.
    pub table: String,
    /// What the statement calls it.
    pub alias: String,
    /// The table or the query that is merged into it.
    pub source: String,
    /// What the statement calls the source.
    pub source_alias: String,
    /// The names that it gives the source's columns, in parentheses; empty: they keep theirs.
    pub source_columns: String,
    /// Everything from ON.
    pub on: String,
    /// Pairs of names that have to be equal: a qualifier and a column each.
    pub equal: Vec<[(String, String); 2]>,
}

/// The pairs of columns that a condition compares, as one of its conjuncts each.
pub(crate) fn equal_columns(condition: &[Piece<'_>]) -> Vec<[(String, String); 2]> {
    let (mut depth, mut parts) = (0, vec![Vec::new()]);
    for word in condition {
        match word.text.to_lowercase().as_str() {
            "(" => depth += 1,
            ")" => depth -= 1,
            // CASE may end with any condition, and a column may be called as its parts are.
            "or" | "between" | "case" if depth == 0 => return Vec::new(),
            "and" if depth == 0 => {
                parts.push(Vec::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(*word);
        }
    }
    parts.iter().filter_map(|part| pair(part)).collect()
}

fn pair(words: &[Piece<'_>]) -> Option<[(String, String); 2]> {
    let at = words.iter().position(|word| word.text == "=")?;
    Some([column(&words[..at])?, column(&words[at + 1..])?])
}

/// A column and its qualifier, which may be empty.
fn column(words: &[Piece<'_>]) -> Option<(String, String)> {
    match words {
        [column] => Some((String::new(), name_of(column)?)),
        [table, dot, column] if dot.text == "." => Some((name_of(table)?, name_of(column)?)),
        _ => None,
    }
}

impl Merge {
    /// The source's column that has to be equal to the column of the cut.
    fn key(&self, column: &str) -> Option<&str> {
        let is_target =
            |(of, name): &(String, String)| is_same(of, &self.alias) && is_same(name, column);
        let is_source = |(of, _): &(String, String)| is_same(of, &self.source_alias);
        self.equal.iter().find_map(|[left, right]| {
            let (target, source) = if is_target(left) { (left, right) } else { (right, left) };
            (is_target(target) && is_source(source)).then_some(source.1.as_str())
        })
    }

    /// The query of the source's rows; a column says where each goes, unless all nodes get all.
    pub(crate) fn source_query(&self, known: &Known) -> Result<String> {
        let (source, alias) = (&self.source, quoted(&self.source_alias));
        let named = format!("{source} AS {alias}{}", self.source_columns);
        let Some(column) = known.cut.column() else {
            return match known.cut {
                Cut::Replicated => Ok(format!("SELECT * FROM {named}")),
                _ => refused(format!("MERGE into {}, which lies as it lies", self.table)),
            };
        };
        if !is_equal_by_bytes(known.schema.field_with_name(column)?) {
            return refused(format!("MERGE into a table that is cut by {column}'s type"));
        }
        let key = self.key(column).ok_or_else(|| {
            Error::Unsupported(format!(
                "MERGE whose condition does not say {}.{column} = {}.COLUMN (both with their \
                 tables): {column} is the column by which {} is cut",
                self.alias, self.source_alias, self.table
            ))
        })?;
        let wanted = field_type(known.schema.field_with_name(column)?);
        let on = words(&self.on).collect::<Vec<_>>();
        check_writes(&on, column, self, key, known)?;
        let key = quoted(key);
        Ok(format!("SELECT *, CAST({alias}.{key} AS {wanted}) AS {KEY} FROM {named}"))
    }

    /// The rows of the source for each shard.
    pub(crate) fn dealt_out(
        &self,
        rows: Rows,
        known: &Known,
        bounds: &[ScalarValue],
        shards: usize,
    ) -> Result<(SchemaRef, Vec<Vec<RecordBatch>>)> {
        let schema = rows.schema().unwrap_or_else(|| Schema::empty().into());
        self.check_types(known, &schema)?;
        let cut = match &known.cut {
            Cut::Hash { .. } => Cut::Hash { column: KEY.to_string() },
            Cut::Range { bounds, .. } => {
                Cut::Range { column: KEY.to_string(), bounds: bounds.clone() }
            }
            other => other.clone(),
        };
        let keep = (0..schema.fields().len()).filter(|nth| schema.field(*nth).name() != KEY);
        let keep = keep.collect::<Vec<_>>();
        let mut parts = vec![Vec::new(); shards];
        for batch in rows {
            for (part, dealt) in parts.iter_mut().zip(deal(&batch?, &cut, bounds, shards, 0)?) {
                part.push(dealt.project(&keep)?);
            }
        }
        Ok((schema.project(&keep)?.into(), parts))
    }

    /// Refuses a comparison by which values may be equal that are not the same in the type of the
    /// cut's column: `'01' = 1` is one of numbers.
    fn check_types(&self, known: &Known, source: &Schema) -> Result<()> {
        let Some(column) = known.cut.column() else { return Ok(()) };
        let Some(key) = self.key(column) else { return Ok(()) };
        let of = known.schema.field_with_name(column)?.data_type();
        let given = source.fields().iter().find(|field| is_same(field.name(), key));
        let is_alike = given.is_none_or(|given| {
            let given = given.data_type();
            (!is_text(of) || is_text(given) || given.is_null()) && !given.is_floating()
        });
        match is_alike {
            true => Ok(()),
            false => refused(format!(
                "MERGE whose condition compares {column}, by which {} is cut, with values of \
                 another type: cast {key} in the source",
                self.table
            )),
        }
    }

    /// The statement that nodes run.
    pub(crate) fn statement(&self) -> String {
        let (table, alias) = (quoted(&self.table), quoted(&self.alias));
        let (source, on) = (quoted(&self.source_alias), &self.on);
        format!("MERGE INTO {table} AS {alias} USING (SELECT * FROM {SOURCE}) AS {source} {on}")
    }
}

fn is_text(of: &DataType) -> bool {
    matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Refuses clauses that could put a row on another node than its value says.
fn check_writes(
    words: &[Piece<'_>],
    cut: &str,
    merge: &Merge,
    key: &str,
    known: &Known,
) -> Result<()> {
    let is = |one: &str, other: &str| one.eq_ignore_ascii_case(other);
    // By their names, the columns that have to be equal get each other's values.
    let is_same_name = is_same(key, cut);
    let by_name = |at: usize| {
        let next = |nth: usize, word: &str| words.get(nth).is_some_and(|next| is(next.text, word));
        is_same_name && next(at, "by") && next(at + 1, "name")
    };
    let wrong = || {
        Error::Unsupported(format!(
            "MERGE INTO {} that gives {cut}, by which it is cut, another value than {}.{key}: \
             write INSERT (...) VALUES (...) with it, or BY NAME if both have one name, and no \
             UPDATE of it",
            merge.table, merge.source_alias
        ))
    };
    if assignments(words)?.iter().any(|name| is_same(name, cut)) {
        return Err(wrong());
    }
    for (at, word) in words.iter().enumerate() {
        if is(word.text, "set") && words.get(at + 1).is_some_and(|next| next.text == "*") {
            return Err(wrong());
        }
        let is_update = is(word.text, "update") && !by_name(at + 1);
        if is_update && !words.get(at + 1).is_some_and(|next| is(next.text, "set")) {
            return Err(wrong());
        }
        if !is(word.text, "insert") || by_name(at + 1) {
            continue;
        }
        let (mut columns, mut next) = (Vec::new(), at + 1);
        if words.get(next).is_some_and(|word| word.text == "(") {
            (columns, next) = list(words, next).ok_or_else(wrong)?;
        }
        let values = words.get(next).is_some_and(|word| is(word.text, "values"));
        let values = values.then(|| list(words, next + 1)).flatten().ok_or_else(wrong)?.0;
        let names = known.schema.fields().iter().map(|field| field.name().as_str());
        let place = match columns.is_empty() {
            true => names.into_iter().position(|name| is_same(name, cut)),
            false => columns
                .iter()
                .position(|name| column(name).is_some_and(|(_, name)| is_same(&name, cut))),
        };
        let value = place.and_then(|place| values.get(place)).and_then(|value| column(value));
        let is_key = value.is_some_and(|(of, name)| {
            is_same(&name, key) && (of.is_empty() || is_same(&of, &merge.source_alias))
        });
        if !is_key {
            return Err(wrong());
        }
    }
    Ok(())
}

/// The parts of a list in parentheses, and where it ends.
fn list<'a>(words: &[Piece<'a>], open: usize) -> Option<(Vec<Vec<Piece<'a>>>, usize)> {
    if words.get(open)?.text != "(" {
        return None;
    }
    let (mut depth, mut parts) = (0, vec![Vec::new()]);
    for (at, word) in words.iter().enumerate().skip(open + 1) {
        match word.text {
            ")" if depth == 0 => return Some((parts, at + 1)),
            "," if depth == 0 => {
                parts.push(Vec::new());
                continue;
            }
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        parts.last_mut()?.push(*word);
    }
    None
}
