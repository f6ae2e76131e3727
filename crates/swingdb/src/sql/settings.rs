//! SET, RESET and SHOW of a session's settings.
//!
//! | setting | meaning |
//! |---|---|
//! | `threads` | partitions a plan is cut into |
//! | `memory_limit` | bytes the operators of this session's statements may hold (`'4GB'`) |
//! | `timezone` | the zone whose clock shows points in time: its name |
//! | `datafusion.*` | every option of the query engine, by its own name |

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Set, UnaryOperator, Value};

use crate::error::{Error, ObjectKind, Result};
use crate::sql::engine;
use crate::sql::result::QueryResult;
use crate::sql::runtime;
use crate::sql::session::Session;
use crate::zone::Zone;

const TIME_ZONE: &str = "datafusion.execution.time_zone";
const OWN: [&str; 3] = ["threads", "memory_limit", "timezone"];

/// SET.
pub(crate) fn set(session: &Session, set: &Set) -> Result<QueryResult> {
    match set {
        Set::SingleAssignment { variable, values, .. } => match values.as_slice() {
            [value] => assign(session, &variable.to_string(), &text(value)?)?,
            _ => return Err(Error::unsupported(format!("SET {variable} to several values"))),
        },
        Set::MultipleAssignments { assignments } => {
            for assignment in assignments {
                assign(session, &assignment.name.to_string(), &text(&assignment.value)?)?;
            }
        }
        Set::SetTimeZone { value, .. } => assign(session, "timezone", &text(value)?)?,
        other => return Err(Error::unsupported(other.to_string())),
    }
    Ok(QueryResult::changed(None, "SET"))
}

/// RESET.
pub(crate) fn reset(session: &Session, name: &ObjectName) -> Result<QueryResult> {
    let name = name.to_string();
    let default = match name.to_ascii_lowercase().as_str() {
        "threads" => runtime::cores().to_string(),
        "memory_limit" => engine::default_memory_limit().to_string(),
        other => {
            let default = engine::base_state()?.config().options().entries();
            let key = full_key(other);
            let entry = default.into_iter().find(|entry| entry.key == key);
            let entry = entry.ok_or_else(|| unknown(session, &name))?;
            entry.value.unwrap_or_default()
        }
    };
    assign(session, &name, &default)?;
    Ok(QueryResult::changed(None, "RESET"))
}

/// SHOW name, or SHOW ALL.
pub(crate) fn show(session: &Session, name: &str) -> Result<QueryResult> {
    let state = session.engine()?;
    let mut entries = vec![
        ("threads".to_string(), state.config().target_partitions().to_string()),
        ("memory_limit".to_string(), memory_limit(&state)),
        ("timezone".to_string(), Zone::of(state.config_options()).to_string()),
    ];
    for entry in state.config().options().entries() {
        entries.push((entry.key, entry.value.unwrap_or_else(|| "NULL".to_string())));
    }
    if !name.eq_ignore_ascii_case("all") {
        let (own, full) = (name.to_ascii_lowercase(), full_key(name));
        let is_own = entries.iter().any(|(key, _)| *key == own);
        entries.retain(|(key, _)| *key == if is_own { &*own } else { &*full });
        if entries.is_empty() {
            return Err(unknown(session, name));
        }
    }
    let (names, values): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
    let schema = Arc::new(Schema::new(vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("value", DataType::Utf8, true),
    ]));
    let columns: Vec<arrow::array::ArrayRef> =
        vec![Arc::new(StringArray::from(names)), Arc::new(StringArray::from(values))];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    Ok(QueryResult::ready(schema, vec![batch], "SHOW"))
}

fn memory_limit(state: &SessionState) -> String {
    use datafusion::execution::memory_pool::MemoryLimit;
    match state.runtime_env().memory_pool.memory_limit() {
        MemoryLimit::Finite(bytes) => bytes.to_string(),
        _ => "unlimited".to_string(),
    }
}

fn full_key(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "timezone" | "time.zone" | "time_zone" => TIME_ZONE.to_string(),
        "threads" => "datafusion.execution.target_partitions".to_string(),
        _ => name,
    }
}

/// The name of a zone that there is.
fn zone_named(value: &str) -> Result<String> {
    if ["default", "local"].iter().any(|word| value.eq_ignore_ascii_case(word)) {
        return Ok(Zone::UTC.to_string());
    }
    Zone::named(value).map(|zone| zone.to_string()).ok_or_else(|| {
        Error::plan(format!(
            "there is no time zone {value:?}; zones have names, as 'Europe/Berlin', 'UTC' or \
             'Etc/GMT-2', which is two hours ahead of UTC"
        ))
    })
}

fn unknown(session: &Session, name: &str) -> Error {
    let mut known = OWN.map(str::to_string).to_vec();
    if let Ok(state) = session.engine() {
        known.extend(state.config().options().entries().into_iter().map(|e| e.key));
    }
    Error::not_found(ObjectKind::Setting, name, known)
}

fn assign(session: &Session, name: &str, value: &str) -> Result<()> {
    match name.to_ascii_lowercase().as_str() {
        "memory_limit" | "max_memory" => {
            let limit = parse_bytes(value)?;
            session.configure(|state| {
                *state = engine::with_memory_limit(state, limit)?;
                Ok(())
            })
        }
        _ => {
            let key = full_key(name);
            let known = engine::base_state()?.config().options().entries();
            if !known.iter().any(|entry| entry.key == key) {
                return Err(unknown(session, name));
            }
            let zone = (key == TIME_ZONE).then(|| zone_named(value)).transpose()?;
            let value = zone.as_deref().unwrap_or(value);
            session.configure(|state| {
                state.config_mut().options_mut().set(&key, value)?;
                Ok(())
            })
        }
    }
}

/// The text of a setting's value.
fn text(value: &Expr) -> Result<String> {
    match value {
        Expr::Value(value) => Ok(match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            Value::Number(number, _) => number.clone(),
            Value::Boolean(truth) => truth.to_string(),
            other => other.to_string(),
        }),
        Expr::Identifier(ident) => Ok(ident.value.clone()),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Ok(format!("-{}", text(expr)?)),
        other => Err(Error::plan(format!("{other} is no value for a setting"))),
    }
}

/// `4GB`, `512 MiB`, `80%` of the machine's memory, or a number of bytes.
fn parse_bytes(text: &str) -> Result<usize> {
    let wrong = || Error::plan(format!("{text:?} is no amount of memory, as '4GB' is one"));
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().map_err(|_| wrong())?;
    let factor = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "%" => engine::default_memory_limit() as f64 / 80.0,
        _ => return Err(wrong()),
    };
    Ok((number * factor) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_memory() {
        assert_eq!(parse_bytes("4GB").unwrap(), 4_000_000_000);
        assert_eq!(parse_bytes("1.5 MiB").unwrap(), 1_572_864);
        assert_eq!(parse_bytes("123").unwrap(), 123);
        assert!(parse_bytes("much").is_err());
        assert!(parse_bytes("4 parsec").is_err());
    }
}
