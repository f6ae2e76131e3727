//! How joins of our own are shown: as the engine's, under their own names.

use std::fmt;

use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};

/// Writes what the engine says of a join, with another operator's name.
pub(crate) fn write_as(
    name: &str,
    join: &HashJoinExec,
    format: DisplayFormatType,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    if matches!(format, DisplayFormatType::TreeRender) {
        return join.fmt_as(format, f);
    }
    struct Engines<'a>(&'a HashJoinExec, DisplayFormatType);
    impl fmt::Display for Engines<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt_as(self.1, f)
        }
    }
    let described = Engines(join, format).to_string();
    let rest = described.strip_prefix("HashJoinExec: mode=CollectLeft, ");
    write!(f, "{name}: {}", rest.unwrap_or(&described))
}
