//! SET, RESET and SHOW of a session's settings.
//!
//! | setting | meaning |
//! |---|---|
//! | `threads` | partitions a plan is cut into, threads that write |
//! | `memory_limit` | bytes the operators of this session's statements may hold (`'4GB'`) |
//! | `temp_directory`, `max_temp_directory_size` | where they write what does not fit, how much |
//! | `timezone` | the zone whose clock shows points in time: its name |
//! | `statement_timeout` and others | what statements may do, see [`limits`] |
//! | `enable_progress_bar`, `progress_bar_time` | whether long statements show a bar, and when |
//! | some of `datafusion.*` | options of the query engine that change how fast it answers |
//!
//! The engine's other options can be looked at, and not set: answers depend on them. One SET with
//! several settings changes all or none.
//!
//! [`limits`]: swingdb_sql::options::limits

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Set, UnaryOperator, Value};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::runtime::threads::MAX_THREADS;
use swingdb_common::time::zones::Zone;
use swingdb_sql::engine;
use swingdb_sql::options::bar::ProgressBar;
use swingdb_sql::options::limits::{Limits, parse_timeout};
use swingdb_sql::options::temporary::{Directory, Most, TemporaryFiles};
use swingdb_sql::options::{parse_bytes, shown};

use crate::session::Session;
use crate::session::duckdb_settings;
use crate::session::result::QueryResult;

const TIME_ZONE: &str = "datafusion.execution.time_zone";
const OWN: [&str; 12] = [
    "threads",
    "memory_limit",
    "temp_directory",
    "max_temp_directory_size",
    "timezone",
    "enable_external_access",
    "lock_configuration",
    "statement_timeout",
    "max_result_rows",
    "max_result_bytes",
    "enable_progress_bar",
    "progress_bar_time",
];

/// Options of the engine that change how fast it answers, or how EXPLAIN looks, and nothing else.
const OF_ENGINE: [&str; 25] = [
    "datafusion.execution.batch_size",
    "datafusion.execution.target_partitions",
    "datafusion.execution.time_zone",
    "datafusion.execution.planning_concurrency",
    "datafusion.execution.perfect_hash_join_small_build_threshold",
    "datafusion.execution.perfect_hash_join_min_key_density",
    "datafusion.execution.spill_compression",
    "datafusion.execution.sort_spill_reservation_bytes",
    "datafusion.execution.sort_in_place_threshold_bytes",
    "datafusion.execution.skip_partial_aggregation_probe_ratio_threshold",
    "datafusion.execution.skip_partial_aggregation_probe_rows_threshold",
    "datafusion.execution.parquet.enable_page_index",
    "datafusion.execution.parquet.pruning",
    "datafusion.execution.parquet.metadata_size_hint",
    "datafusion.execution.parquet.bloom_filter_on_read",
    "datafusion.optimizer.repartition_aggregations",
    "datafusion.optimizer.repartition_joins",
    "datafusion.optimizer.repartition_windows",
    "datafusion.optimizer.repartition_file_min_size",
    "datafusion.explain.logical_plan_only",
    "datafusion.explain.physical_plan_only",
    "datafusion.explain.show_statistics",
    "datafusion.explain.show_sizes",
    "datafusion.explain.show_schema",
    "datafusion.explain.format",
];

/// Rows of a batch.
const MAX_BATCH_ROWS: usize = 1 << 20;

/// SET.
pub(crate) fn set(session: &Session, set: &Set) -> Result<QueryResult> {
    let mut changes = Vec::new();
    match set {
        Set::SingleAssignment { variable, values, .. } => match values.as_slice() {
            [value] => changes.push((variable.to_string(), given(value)?)),
            _ => return Err(Error::unsupported(format!("SET {variable} to several values"))),
        },
        Set::MultipleAssignments { assignments } => {
            for assignment in assignments {
                changes.push((assignment.name.to_string(), given(&assignment.value)?));
            }
        }
        Set::SetTimeZone { value, .. } => changes.push(("timezone".to_string(), given(value)?)),
        other => return Err(Error::unsupported(other.to_string())),
    }
    change(session, &changes)?;
    Ok(QueryResult::changed(None, "SET"))
}

/// RESET.
pub(crate) fn reset(session: &Session, name: &ObjectName) -> Result<QueryResult> {
    let name = name.to_string();
    let changes = match name.eq_ignore_ascii_case("all") {
        false => vec![(name, None)],
        true => {
            let own = OWN.iter().filter(|name| !CONFINING.contains(name));
            own.chain(&OF_ENGINE).map(|name| (name.to_string(), None)).collect()
        }
    };
    change(session, &changes)?;
    Ok(QueryResult::changed(None, "RESET"))
}

/// Settings that only become stricter.
const CONFINING: [&str; 2] = ["enable_external_access", "lock_configuration"];

/// Gives settings their values, or their defaults: all or none.
fn change(session: &Session, changes: &[(String, Option<String>)]) -> Result<()> {
    session.configure(|state| {
        for (name, value) in changes {
            Limits::of(state.config()).change_of(name)?;
            assign(state, name, value.as_deref())?;
        }
        Ok(())
    })
}

/// SHOW name, or SHOW ALL.
pub(crate) fn show(session: &Session, name: &str) -> Result<QueryResult> {
    let state = session.engine()?;
    let mut entries = shown::all(&state);
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

fn full_key(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "timezone" | "time.zone" | "time_zone" => TIME_ZONE.to_string(),
        "threads" => "datafusion.execution.target_partitions".to_string(),
        "max_memory" => "memory_limit".to_string(),
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

/// Gives one setting its value, or its default.
fn assign(state: &mut SessionState, name: &str, value: Option<&str>) -> Result<()> {
    let key = full_key(name);
    let mut limits = Limits::of(state.config());
    match key.as_str() {
        "memory_limit" => {
            let limit = match value {
                Some(value) => parse_memory(value)?,
                None => engine::default_memory_limit(),
            };
            *state = engine::with_memory_limit(state, limit)?;
            return Ok(());
        }
        "temp_directory" | "max_temp_directory_size" => return assign_files(state, &key, value),
        "enable_external_access" => {
            let allowed = value.map_or(Ok(true), |value| truth(name, value))?;
            if allowed {
                limits.external("SET enable_external_access = true")?;
            }
            limits.external_access = allowed;
        }
        // Where it is true already, nothing can be changed.
        "lock_configuration" => {
            limits.locked = value.map_or(Ok(false), |value| truth(name, value))?;
        }
        "statement_timeout" => {
            limits.statement_timeout = value.map_or(Ok(None), parse_timeout)?;
        }
        "max_result_rows" => limits.max_result_rows = count(name, value)?,
        "max_result_bytes" => {
            let bytes = value.map_or(Ok(0), parse_bytes)?;
            limits.max_result_bytes = (bytes > 0).then_some(bytes as u64);
        }
        "enable_progress_bar" | "progress_bar_time" => return assign_bar(state, name, value),
        _ => return assign_option(state, name, &key, value),
    }
    limits.carry(state.config_mut());
    Ok(())
}

/// The same of the settings of temporary files.
fn assign_files(state: &mut SessionState, key: &str, value: Option<&str>) -> Result<()> {
    let (default, mut files) = (TemporaryFiles::configured()?, TemporaryFiles::of(state.config()));
    match (key, value) {
        ("temp_directory", Some(value)) => {
            Limits::of(state.config()).external("SET temp_directory")?;
            files.directory = Directory::parse(value)?;
        }
        ("temp_directory", None) => files.directory = default.directory,
        (_, value) => files.most = value.map_or(Ok(default.most), Most::parse)?,
    }
    *state = engine::with_temporary_files(state, files)?;
    Ok(())
}

/// The same of the settings of the progress bar.
fn assign_bar(state: &mut SessionState, name: &str, value: Option<&str>) -> Result<()> {
    let (default, mut bar) = (ProgressBar::default(), ProgressBar::of(state.config()));
    if name.eq_ignore_ascii_case("enable_progress_bar") {
        bar.enabled = value.map_or(Ok(default.enabled), |value| truth(name, value))?;
    } else {
        let wrong = |value: &str| {
            Error::plan(format!("SET {name}: {value:?} is no number of milliseconds"))
        };
        let parse = |value: &str| value.trim().parse().map_err(|_| wrong(value));
        bar.after = value.map(parse).transpose()?.map_or(default.after, Duration::from_millis);
    }
    bar.carry(state.config_mut());
    Ok(())
}

/// The same of an option of the engine.
fn assign_option(
    state: &mut SessionState,
    name: &str,
    key: &str,
    value: Option<&str>,
) -> Result<()> {
    let known = engine::base_state()?.config().options().entries();
    let Some(entry) = known.iter().find(|entry| entry.key == key) else {
        if let Some(done) = duckdb_settings::set(name, value) {
            return done;
        }
        let names = OWN.iter().copied().chain(known.iter().map(|entry| entry.key.as_str()));
        return Err(Error::not_found(ObjectKind::Setting, name, names));
    };
    if !OF_ENGINE.contains(&key) {
        return Err(Error::unsupported(format!(
            "SET {name}: answers depend on this option of the query engine, so it is fixed"
        )));
    }
    let value = match value {
        Some(value) => value.to_string(),
        None => entry.value.clone().unwrap_or_default(),
    };
    let bounds = match key {
        "datafusion.execution.target_partitions" => Some(MAX_THREADS),
        "datafusion.execution.batch_size" => Some(MAX_BATCH_ROWS),
        _ => None,
    };
    if let Some(most) = bounds
        && !value.trim().parse::<usize>().is_ok_and(|number| (1..=most).contains(&number))
    {
        return Err(Error::plan(format!("SET {name}: {value:?} is no number from 1 to {most}")));
    }
    let value = if key == TIME_ZONE { zone_named(&value)? } else { value };
    state.config_mut().options_mut().set(key, &value)?;
    Ok(())
}

/// TRUE or FALSE, in the words that PostgreSQL and DuckDB take.
fn truth(name: &str, value: &str) -> Result<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(Error::plan(format!("SET {name}: {value:?} is neither true nor false"))),
    }
}

/// A number of rows; 0 means no limit.
fn count(name: &str, value: Option<&str>) -> Result<Option<u64>> {
    let Some(value) = value else { return Ok(None) };
    match value.trim().parse::<u64>() {
        Ok(number) => Ok((number > 0).then_some(number)),
        Err(_) => Err(Error::plan(format!("SET {name}: {value:?} is no number of rows"))),
    }
}

/// The value of a SET; `None` for the word DEFAULT.
fn given(value: &Expr) -> Result<Option<String>> {
    let is_default = matches!(value, Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"));
    if is_default { Ok(None) } else { text(value).map(Some) }
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
fn parse_memory(text: &str) -> Result<usize> {
    let Some(percent) = text.trim().strip_suffix('%').map(str::trim) else {
        return parse_bytes(text);
    };
    let is_plain = percent.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = percent.parse::<f64>().ok().filter(|_| is_plain).ok_or_else(|| {
        Error::plan(format!("{text:?} is no part of the machine's memory, as '80%' is one"))
    })?;
    // By default it is 80 % of the memory.
    Ok((number * engine::default_memory_limit() as f64 / 80.0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_memory() {
        assert_eq!(parse_memory("1.5 MiB").unwrap(), 1_572_864);
        let usual = engine::default_memory_limit();
        assert!(parse_memory("80 %").unwrap().abs_diff(usual) <= 1);
        for wrong in ["much%", "%", "-5%", "1e3%", "inf%", "nan%", "1.2.3%"] {
            assert!(parse_memory(wrong).is_err(), "{wrong}");
        }
    }
}
