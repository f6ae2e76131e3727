//! Which column of a file goes to which column of a table.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::Field;
use swingdb_common::error::{Error, ObjectKind, Result};

use crate::reading::Target;

/// For each column of the file its place in the table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Matched {
    pub(crate) target_columns: Vec<usize>,
}

/// Matches by name when the file's names are columns of the table, by position when none is, and
/// refuses what lies in between: a column must not be dropped silently.
pub(crate) fn match_columns(
    path: &Path,
    names: Option<&[String]>,
    count: usize,
    target: &Target<'_>,
) -> Result<Matched> {
    let fields = target.fields;
    if let (Some(names), false) = (names, target.listed) {
        let places: Vec<Option<usize>> = names.iter().map(|name| find(fields, name)).collect();
        if let Some(all) = places.iter().copied().collect::<Option<Vec<usize>>>() {
            return unique(path, all, fields);
        }
        if let Some(missing) = places.iter().position(Option::is_none)
            && places.iter().any(Option::is_some)
        {
            let known = fields.iter().map(|field| field.name());
            let error = Error::not_found(ObjectKind::Column, names[missing].clone(), known);
            let message = format!("{error}: the file has it, the table does not");
            return Err(Error::Import { path: path.to_path_buf(), line: None, message });
        }
    }
    if count != fields.len() {
        let message = format!("has {count} columns, the table takes {}", fields.len());
        return Err(Error::Import { path: path.to_path_buf(), line: None, message });
    }
    Ok(Matched { target_columns: (0..count).collect() })
}

fn find(fields: &[Arc<Field>], name: &str) -> Option<usize> {
    let name = name.trim();
    let exact = fields.iter().position(|field| field.name() == name);
    exact.or_else(|| fields.iter().position(|field| field.name().eq_ignore_ascii_case(name)))
}

fn unique(path: &Path, columns: Vec<usize>, fields: &[Arc<Field>]) -> Result<Matched> {
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].contains(column) {
            let message = format!("has column {:?} twice", fields[*column].name());
            return Err(Error::Import { path: path.to_path_buf(), line: None, message });
        }
    }
    Ok(Matched { target_columns: columns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;

    fn matched(names: &[&str], table: &[&str], listed: bool) -> Result<Vec<usize>> {
        let field = |name: &&str| Arc::new(Field::new(*name, DataType::Int64, true));
        let fields: Vec<Arc<Field>> = table.iter().map(field).collect();
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let target = Target { fields: &fields, listed };
        let matched = match_columns(Path::new("f"), Some(&names), names.len(), &target)?;
        Ok(matched.target_columns)
    }

    #[test]
    fn by_name_by_position_or_not_at_all() {
        assert_eq!(matched(&["b", "A"], &["a", "b"], false).unwrap(), [1, 0]);
        assert_eq!(matched(&["b"], &["a", "b"], false).unwrap(), [1]);
        assert_eq!(matched(&["x", "y"], &["a", "b"], false).unwrap(), [0, 1]);
        assert_eq!(matched(&["b", "a"], &["a", "b"], true).unwrap(), [0, 1]);
        assert!(matched(&["a", "y"], &["a", "b"], false).is_err());
        assert!(matched(&["x"], &["a", "b"], false).is_err());
        assert!(matched(&["a", "a"], &["a", "b"], false).is_err());
    }
}
