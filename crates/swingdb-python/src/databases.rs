//! The databases of this machine, for `swingdb._databases`.

use std::path::Path;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use swingdb::AreaInfo;

use crate::errors;

/// Runs `with_home` if a namespace directory was given, else `usual`, without the interpreter's
/// lock.
fn call<T: Send>(
    py: Python<'_>,
    home: Option<String>,
    with_home: impl FnOnce(&Path) -> swingdb::Result<T> + Send,
    usual: impl FnOnce() -> swingdb::Result<T> + Send,
) -> PyResult<T> {
    py.detach(|| match &home {
        Some(home) => with_home(Path::new(home)),
        None => usual(),
    })
    .map_err(|error| errors::raise(&error))
}

/// All databases and named snapshots, each as a dict of `DatabaseInfo`'s fields.
#[pyfunction]
pub fn list_databases<'py>(
    py: Python<'py>,
    home: Option<String>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let infos = call(py, home, swingdb::list_in, swingdb::list)?;
    infos.iter().map(|info| as_dict(py, info)).collect()
}

type Node<'py> = (Bound<'py, PyDict>, Vec<String>, Vec<String>);

/// All databases with the names of those they came from and of those that came from them.
#[pyfunction]
pub fn lineage<'py>(py: Python<'py>, home: Option<String>) -> PyResult<Vec<Node<'py>>> {
    let nodes = call(py, home, swingdb::lineage_in, swingdb::lineage)?;
    nodes
        .into_iter()
        .map(|node| Ok((as_dict(py, &node.info)?, node.parents, node.children)))
        .collect()
}

/// Drops a database: (bytes freed, bytes kept for others).
#[pyfunction]
pub fn drop(py: Python<'_>, name: String, home: Option<String>) -> PyResult<(u64, u64)> {
    let report = call(py, home, |home| swingdb::drop_in(home, &name), || swingdb::drop(&name))?;
    Ok((report.freed.0, report.kept.0))
}

/// Drops a named snapshot: (bytes freed, bytes kept for others).
#[pyfunction]
pub fn discard_snapshot(
    py: Python<'_>,
    name: String,
    home: Option<String>,
) -> PyResult<(u64, u64)> {
    let report = call(
        py,
        home,
        |home| swingdb::discard_snapshot_in(home, &name),
        || swingdb::discard_snapshot(&name),
    )?;
    Ok((report.freed.0, report.kept.0))
}

/// Frees what dead processes left: (bytes freed, databases removed, databases swept).
#[pyfunction]
pub fn gc(py: Python<'_>, home: Option<String>) -> PyResult<(u64, usize, usize)> {
    let report = call(py, home, swingdb::gc_in, swingdb::gc)?;
    Ok((report.freed.0, report.removed, report.swept))
}

/// What costs speed or capacity here: (what, cost, the command that mends it).
#[pyfunction]
pub fn doctor(py: Python<'_>) -> Vec<(String, String, String)> {
    let findings = py.detach(swingdb::doctor);
    findings.into_iter().map(|finding| (finding.what, finding.cost, finding.mend)).collect()
}

fn as_dict<'py>(py: Python<'py>, info: &AreaInfo) -> PyResult<Bound<'py, PyDict>> {
    let parents: Vec<_> = info
        .parents
        .iter()
        .map(|parent| (parent.name.as_ref().map(|name| name.as_str()), parent.epoch.0))
        .collect();
    let dict = PyDict::new(py);
    dict.set_item("name", info.name.as_ref().map(|name| name.as_str()))?;
    dict.set_item("own_bytes", info.own.0)?;
    dict.set_item("shared_bytes", info.shared.0)?;
    dict.set_item("private_bytes", info.private.0)?;
    dict.set_item("pid", info.owner.as_ref().map(|owner| owner.pid))?;
    dict.set_item("command", info.owner.as_ref().map(|owner| owner.command.as_str()))?;
    dict.set_item("shared_epoch", info.shared_epoch.map(|epoch| epoch.0))?;
    dict.set_item("committed_epoch", info.committed_epoch.map(|epoch| epoch.0))?;
    dict.set_item("readers", &info.readers)?;
    dict.set_item("created", info.created_ns as f64 / 1e9)?;
    dict.set_item("shared", info.shared_ns.map(|ns| ns as f64 / 1e9))?;
    dict.set_item("parents", parents)?;
    dict.set_item("label", info.label.as_deref())?;
    Ok(dict)
}
