//! The constraints of a table, by the names that they have in listings.

use swingdb_store::{Constraint as Key, ForeignKey, Table};

use crate::ast::create::{quoted, references};

/// What a constraint demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Primary,
    Unique,
    Check,
    NotNull,
    Foreign,
}

impl Kind {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Primary => "PRIMARY KEY",
            Self::Unique => "UNIQUE",
            Self::Check => "CHECK",
            Self::NotNull => "NOT NULL",
            Self::Foreign => "FOREIGN KEY",
        }
    }

    /// The letter of `pg_constraint.contype`.
    pub(super) fn letter(self) -> &'static str {
        match self {
            Self::Primary => "p",
            Self::Unique => "u",
            Self::Check => "c",
            Self::NotNull => "n",
            Self::Foreign => "f",
        }
    }
}

/// A constraint of a table.
pub(super) struct Constraint {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) text: String,
    /// The condition of a CHECK.
    pub(super) expression: Option<String>,
    pub(super) columns: Vec<usize>,
    /// Of a FOREIGN KEY.
    pub(super) references: Option<ForeignKey>,
}

/// The constraints of a table: keys, conditions, NOT NULL. A key that a unique index came with is
/// none of them.
pub(super) fn of(table: &Table) -> Vec<Constraint> {
    let names = |columns: &[usize], with: &str| {
        let names = columns.iter().filter_map(|at| table.columns().get(*at));
        names.map(|column| column.name.as_str()).collect::<Vec<_>>().join(with)
    };
    let shown = |columns: &[usize]| {
        let names = columns.iter().filter_map(|at| table.columns().get(*at));
        names.map(|column| shown_name(&column.name)).collect::<Vec<_>>().join(", ")
    };
    let mut all = Vec::new();
    let mut add = |kind: Kind, columns: Vec<usize>, name: Option<&String>, sql: Option<&String>| {
        let end = match kind {
            Kind::Primary => "pkey",
            Kind::Unique => "key",
            Kind::Check => "check",
            Kind::NotNull => "not_null",
            Kind::Foreign => "fkey",
        };
        let made = || format!("{}_{}_{end}", table.name(), names(&columns, "_"));
        let name = name.cloned().unwrap_or_else(made);
        let text = match (kind, sql) {
            (Kind::NotNull, _) => kind.words().to_string(),
            (Kind::Check, Some(sql)) => format!("CHECK({sql})"),
            _ => format!("{}({})", kind.words(), shown(&columns)),
        };
        let expression = sql.cloned();
        all.push(Constraint { kind, name, text, expression, columns, references: None });
    };
    let indexes = &table.notes().indexes;
    for key in table.constraints() {
        let of_index = |key: &[usize]| indexes.iter().any(|i| i.owns_key && i.columns == key);
        match key {
            Key::Primary(columns) => add(Kind::Primary, columns.clone(), None, None),
            Key::Unique(columns) if !of_index(columns) => {
                add(Kind::Unique, columns.clone(), None, None);
            }
            Key::Unique(_) => {}
        }
    }
    for check in table.checks() {
        add(Kind::Check, check.columns.clone(), check.name.as_ref(), Some(&check.sql));
    }
    for (at, column) in table.columns().iter().enumerate() {
        if !column.nullable {
            add(Kind::NotNull, vec![at], None, None);
        }
    }
    for key in &table.notes().foreign_keys {
        let names = key.columns.iter().filter_map(|at| table.columns().get(*at));
        let names = names.map(|column| column.name.as_str()).collect::<Vec<_>>();
        let (own, keys) = (names.join("_"), key.keys.join("_"));
        all.push(Constraint {
            kind: Kind::Foreign,
            name: format!("{}_{own}_{keys}_fkey", table.name()),
            text: references(table, key),
            expression: None,
            columns: key.columns.clone(),
            references: Some(key.clone()),
        });
    }
    all
}

/// A name in a listing: in quotes where a statement could not do without.
fn shown_name(name: &str) -> String {
    /// Words that the parser knows and DuckDB does not, and that columns are called often.
    const PLAIN: [&str; 32] = [
        "account",
        "author",
        "category",
        "channel",
        "condition",
        "contact",
        "count",
        "date",
        "datetime",
        "element",
        "event",
        "file",
        "host",
        "id",
        "item",
        "label",
        "line",
        "lower",
        "max",
        "member",
        "message",
        "min",
        "number",
        "owner",
        "part",
        "point",
        "region",
        "result",
        "status",
        "tag",
        "url",
        "user",
    ];
    if PLAIN.contains(&name) { name.to_string() } else { quoted(name) }
}
