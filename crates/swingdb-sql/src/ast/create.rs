//! The statements that make tables and views, as texts.

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::keywords::ALL_KEYWORDS;
use swingdb_common::types::sql_names::exact_type;
use swingdb_store::{Constraint, ForeignKey, Index, Table, View as StoredView};

use crate::ast::names::SCHEMA;

/// A name as SQL needs it: in quotes unless it is a plain word.
pub fn quoted(name: &str) -> String {
    let mut chars = name.chars();
    let plain = chars.next().is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let keyword = ALL_KEYWORDS.binary_search(&name.to_uppercase().as_str()).is_ok();
    match plain && !keyword {
        true => name.to_string(),
        false => Ident::with_quote('"', name).to_string(),
    }
}

/// A name with its schema's before it.
pub fn qualified(schema: Option<&str>, name: &str) -> String {
    let schema = schema.map(|schema| format!("{}.", quoted(schema)));
    format!("{}{}", schema.unwrap_or_default(), quoted(name))
}

/// The statement that makes a table.
pub fn create_table(schema: Option<&str>, table: &Table) -> String {
    let mut parts = Vec::new();
    for (at, column) in table.columns().iter().enumerate() {
        let mut part = format!("{} {}", quoted(&column.name), exact_type(&column.field()));
        if let Some(generated) = table.notes().generated.get(&at) {
            part.push_str(&format!(" GENERATED ALWAYS AS ({})", generated.sql));
        }
        if let Some(default) = &column.default_sql {
            part.push_str(&format!(" DEFAULT {default}"));
        }
        if !column.nullable {
            part.push_str(" NOT NULL");
        }
        parts.push(part);
    }
    let indexes = &table.notes().indexes;
    for key in table.constraints() {
        // CREATE UNIQUE INDEX makes it anew.
        let of_index = indexes.iter().any(|i| i.owns_key && i.columns == key.columns());
        let kind = match key {
            Constraint::Unique(_) if of_index => continue,
            Constraint::Primary(_) => "PRIMARY KEY",
            Constraint::Unique(_) => "UNIQUE",
        };
        let columns = key.columns().iter().map(|c| quoted(&table.columns()[*c].name));
        parts.push(format!("{kind} ({})", columns.collect::<Vec<_>>().join(", ")));
    }
    for check in table.checks() {
        let name = check.name.as_ref().map(|name| format!("CONSTRAINT {} ", quoted(name)));
        parts.push(format!("{}CHECK ({})", name.unwrap_or_default(), check.sql));
    }
    parts.extend(table.notes().foreign_keys.iter().map(|key| references(table, key)));
    format!("CREATE TABLE {} (\n    {}\n)", qualified(schema, table.name()), parts.join(",\n    "))
}

/// `FOREIGN KEY (a) REFERENCES t(b)`.
pub(crate) fn references(table: &Table, key: &ForeignKey) -> String {
    let own = key.columns.iter().map(|c| quoted(&table.columns()[*c].name));
    let own = own.collect::<Vec<_>>().join(", ");
    let keys = key.keys.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    let schema = Some(key.schema.as_str()).filter(|schema| *schema != SCHEMA);
    format!("FOREIGN KEY ({own}) REFERENCES {}({keys})", qualified(schema, &key.table))
}

/// The statement that makes an index of a table.
pub fn create_index(schema: Option<&str>, table: &str, index: &Index) -> String {
    let unique = if index.unique { "UNIQUE " } else { "" };
    let (name, table) = (quoted(&index.name), qualified(schema, table));
    format!("CREATE {unique}INDEX {name} ON {table}({})", index.on.join(", "))
}

/// The statement that sets a comment on an object of a kind, whose name is written already.
pub fn comment_on(kind: &str, name: &str, comment: &str) -> String {
    format!("COMMENT ON {kind} {name} IS '{}'", comment.replace('\'', "''"))
}

/// The statement that makes a view.
pub fn create_view(schema: Option<&str>, view: &StoredView) -> String {
    let columns = view.columns.as_ref().map(|columns| {
        let columns = columns.iter().map(|column| quoted(column));
        format!(" ({})", columns.collect::<Vec<_>>().join(", "))
    });
    let columns = columns.unwrap_or_default();
    format!("CREATE VIEW {}{columns} AS {}", qualified(schema, &view.name), view.sql)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_they_must() {
        assert_eq!(quoted("trips_2"), "trips_2");
        for (name, shown) in
            [("Trips", "\"Trips\""), ("a\"b", "\"a\"\"b\""), ("order", "\"order\"")]
        {
            assert_eq!(quoted(name), shown);
        }
        assert_eq!(qualified(Some("s"), "t t"), "s.\"t t\"");
    }
}
