//! `delta_scan('directory')`: a Delta table, `delta_scan('directory', version = 3)` as it was.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::logical_expr::Expr;
use swingdb_common::error::{Error, Result};

use crate::delta;
use crate::input::check_local;
use crate::options::OptionValue;
use crate::table::arguments::literal;

/// The function of this file.
pub(super) fn function() -> (&'static str, Arc<dyn TableFunctionImpl>) {
    ("delta_scan", Arc::new(DeltaScan))
}

#[derive(Debug)]
struct DeltaScan;

impl TableFunctionImpl for DeltaScan {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> datafusion::error::Result<Arc<dyn TableProvider>> {
        let (path, version) = given(args.exprs()).map_err(DataFusionError::from)?;
        delta::table(&path, version).map_err(DataFusionError::from)
    }
}

/// The directory and the version of a call.
fn given(args: &[Expr]) -> Result<(String, Option<u64>)> {
    let usage = || {
        Error::plan(
            "delta_scan takes the directory of a Delta table, and perhaps a version: \
             delta_scan('directory', version = 3)",
        )
    };
    let Some(OptionValue::Text(path)) = args.first().and_then(literal) else {
        return Err(usage());
    };
    check_local(&path)?;
    let path = path.strip_prefix("file://").unwrap_or(&path).to_string();
    let mut version = None;
    let mut options = args[1..].iter().map(literal);
    while let Some(name) = options.next() {
        let (Some(OptionValue::Text(name)), Some(value)) = (name, options.next()) else {
            return Err(usage());
        };
        if !name.eq_ignore_ascii_case("version") {
            return Err(Error::plan(format!(
                "delta_scan has no option {name:?}; there is: version"
            )));
        }
        let Some(OptionValue::Number(number)) = &value else { return Err(usage()) };
        let number = number.parse();
        version = Some(number.map_err(|_| Error::plan("a version is a whole number from 0"))?);
    }
    Ok((path, version))
}
