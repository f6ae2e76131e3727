//! The settings of a session and their values, as they are shown.

use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::session_state::SessionState;
use swingdb_common::time::zones::Zone;

use crate::options::bar::ProgressBar;
use crate::options::limits::{Limits, show_timeout};
use crate::options::temporary::TemporaryFiles;

/// Names and values of all settings: ours first, then the engine's.
pub fn all(state: &SessionState) -> Vec<(String, String)> {
    let mut all = own(state);
    for entry in state.config().options().entries() {
        all.push((entry.key, entry.value.unwrap_or_else(|| "NULL".to_string())));
    }
    all
}

/// Those of our own.
pub(crate) fn own(state: &SessionState) -> Vec<(String, String)> {
    let limits = Limits::of(state.config());
    let bar = ProgressBar::of(state.config());
    let files = TemporaryFiles::of(state.config());
    let number = |limit: Option<u64>| limit.unwrap_or_default().to_string();
    vec![
        ("threads".to_string(), state.config().target_partitions().to_string()),
        ("memory_limit".to_string(), memory_limit(state)),
        ("temp_directory".to_string(), files.directory.show()),
        ("max_temp_directory_size".to_string(), files.most.show()),
        ("timezone".to_string(), Zone::of(state.config_options()).to_string()),
        ("enable_external_access".to_string(), limits.external_access.to_string()),
        ("lock_configuration".to_string(), limits.locked.to_string()),
        ("statement_timeout".to_string(), show_timeout(limits.statement_timeout)),
        ("max_result_rows".to_string(), number(limits.max_result_rows)),
        ("max_result_bytes".to_string(), number(limits.max_result_bytes)),
        ("enable_progress_bar".to_string(), bar.enabled.to_string()),
        ("progress_bar_time".to_string(), bar.after.as_millis().to_string()),
    ]
}

/// The type of a setting's value.
pub(crate) fn input_type(name: &str) -> &'static str {
    match name {
        "threads" | "max_result_rows" | "max_result_bytes" | "progress_bar_time" => "BIGINT",
        "enable_external_access" | "lock_configuration" | "enable_progress_bar" => "BOOLEAN",
        _ => "VARCHAR",
    }
}

fn memory_limit(state: &SessionState) -> String {
    match state.runtime_env().memory_pool.memory_limit() {
        MemoryLimit::Finite(bytes) => bytes.to_string(),
        _ => "unlimited".to_string(),
    }
}
