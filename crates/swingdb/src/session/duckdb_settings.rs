//! Settings of DuckDB that there are not here. A value is taken where it asks for what is so
//! anyway, and refused with a reason elsewhere.

use swingdb_common::error::{Error, Result};

/// What setting one of these does; `None`: it is no setting of DuckDB's. Without a value it is
/// reset.
pub(super) fn set(name: &str, value: Option<&str>) -> Option<Result<()>> {
    let folded = name.to_ascii_lowercase();
    let only = |allowed: &[&str], why: &str| {
        let Some(value) = value else { return Ok(()) };
        let folded = value.trim().to_ascii_lowercase().replace([' ', '"'], "_");
        match allowed.contains(&folded.trim_matches('_')) {
            true => Ok(()),
            false => Err(Error::unsupported(format!("SET {name} = {value:?}: {why}"))),
        }
    };
    let never = |why: &str| Err(Error::unsupported(format!("SET {name}: {why}")));
    Some(match folded.as_str() {
        "schema" | "search_path" => only(
            &["main", "swingdb.main"],
            "names without a schema mean those of schema main; write schema.table",
        ),
        "default_null_order" | "null_order" => only(
            &["nulls_last", "last", "postgres", "default"],
            "NULLs come last; write NULLS FIRST in ORDER BY",
        ),
        "default_order" => only(&["asc", "ascending"], "write DESC in ORDER BY"),
        // What need not be kept may be kept.
        "preserve_insertion_order" => only(
            &["true", "false", "on", "off", "yes", "no", "1", "0"],
            "this is neither true nor false",
        ),
        "autoinstall_known_extensions" | "autoload_known_extensions" | "extension_directory" => {
            never("there are no extensions")
        }
        "enable_object_cache" => never("footers of Parquet files are kept anyway"),
        "enable_profiling" | "profiling_mode" | "profiling_output" => {
            never("write EXPLAIN ANALYZE before the statement")
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_so_anyway_is_taken() {
        for (name, value) in [
            ("schema", "main"),
            ("search_path", "\"main\""),
            ("default_null_order", "NULLS LAST"),
            ("default_order", "ASC"),
            ("preserve_insertion_order", "false"),
        ] {
            assert!(matches!(set(name, Some(value)), Some(Ok(()))), "{name}");
            assert!(matches!(set(name, None), Some(Ok(()))), "{name}");
        }
        for (name, value) in [
            ("search_path", "other"),
            ("default_null_order", "nulls_first"),
            ("default_order", "desc"),
            ("preserve_insertion_order", "soon"),
            ("enable_profiling", "json"),
        ] {
            assert!(matches!(set(name, Some(value)), Some(Err(_))), "{name}");
        }
        assert!(set("nosuch", Some("1")).is_none());
    }
}
