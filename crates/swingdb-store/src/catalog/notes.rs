//! Notes: what a database knows of its objects beside what they are.
//!
//! Comments on tables and columns, and the indexes that statements have named, belong to a table's
//! definition, so that they go with the table: into snapshots, clones and stores, and out with
//! DROP. Comments on other objects belong to their schema.
//!
//! In a record notes are *sections* behind all else: how many, and for each a number and its bytes.
//! A record without notes has no sections, and its bytes are those of programs that know none. A
//! section that is not known is an error: its writer was a newer program.

use std::collections::BTreeMap;
use std::sync::Arc;

use swingdb_common::error::{Error, Result};

use crate::catalog::names::check_name;
use crate::catalog::rules::{ForeignKey, Generated, Parents, References};
use crate::catalog::types::Types;
use crate::codec::{Reader, Writer};
use crate::errors::area::corrupt;

/// Longest comment, in bytes.
const MAX_COMMENT_BYTES: usize = 1 << 20;
/// Indexes that a table may have.
const MAX_INDEXES: usize = 1_000;

/// Sections of a table's record.
const TABLE_COMMENT: u64 = 1;
const COLUMN_COMMENTS: u64 = 2;
const INDEXES: u64 = 3;
const FOREIGN_KEYS: u64 = 4;
const GENERATED: u64 = 5;
/// Sections of the root record.
const COMMENTS: u64 = 1;
const TYPES: u64 = 2;
const REFERENCES: u64 = 3;

/// An index as `CREATE INDEX` made it. A unique one is enforced by a key of the table; others
/// change no answer, and nothing has to be kept for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Name; one of its kind in the schema.
    pub name: String,
    /// What it is on: for each column or expression its SQL text.
    pub on: Vec<String>,
    /// The columns that it reads (indices into [`Table::columns`](crate::Table::columns)),
    /// ascending.
    pub columns: Vec<usize>,
    /// Whether it is UNIQUE.
    pub unique: bool,
    /// Whether the key that enforces it came with it, and goes with it.
    pub owns_key: bool,
    /// The comment on it.
    pub comment: Option<String>,
}

/// Notes on a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableNotes {
    /// The comment on the table.
    pub comment: Option<String>,
    /// Comments on columns, by their indices.
    pub columns: BTreeMap<usize, String>,
    /// Indexes, in the order in which they were made.
    pub indexes: Vec<Index>,
    /// Foreign keys, in the order of their declaration.
    pub foreign_keys: Vec<ForeignKey>,
    /// Columns whose values are computed from others of their row, by their indices.
    pub generated: BTreeMap<usize, Generated>,
}

impl TableNotes {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.comment.is_none()
            && self.columns.is_empty()
            && self.indexes.is_empty()
            && self.foreign_keys.is_empty()
            && self.generated.is_empty()
    }

    /// The notes once the column `gone`, which no index reads, was dropped.
    pub(crate) fn without_column(&self, gone: usize) -> Self {
        let moved = |at: usize| if at > gone { at - 1 } else { at };
        let columns = self.columns.iter().filter(|(at, _)| **at != gone);
        let indexes = self.indexes.iter().map(|index| Index {
            columns: index.columns.iter().map(|at| moved(*at)).collect(),
            ..index.clone()
        });
        Self {
            comment: self.comment.clone(),
            columns: columns.map(|(at, text)| (moved(*at), text.clone())).collect(),
            indexes: indexes.collect(),
            foreign_keys: self
                .foreign_keys
                .iter()
                .map(|key| ForeignKey {
                    columns: key.columns.iter().map(|at| moved(*at)).collect(),
                    ..key.clone()
                })
                .collect(),
            generated: self
                .generated
                .iter()
                .filter(|(at, _)| **at != gone)
                .map(|(at, one)| {
                    let columns = one.columns.iter().map(|at| moved(*at)).collect();
                    (moved(*at), Generated { columns, ..one.clone() })
                })
                .collect(),
        }
    }

    /// The notes of a copy of the table in the same schema or elsewhere: names of indexes belong to
    /// one table, while the keys that enforce them are the copy's too. A foreign key is not copied:
    /// its parent may be in another database.
    pub(crate) fn of_copy(&self) -> Self {
        Self { indexes: Vec::new(), foreign_keys: Vec::new(), ..self.clone() }
    }

    /// That they can be the notes of a table with so many columns.
    pub(crate) fn check(&self, columns: usize) -> Result<()> {
        check_comment(self.comment.as_deref())?;
        self.columns.values().try_for_each(|text| check_comment(Some(text)))?;
        if self.indexes.len() > MAX_INDEXES {
            return Err(Error::plan(format!("a table has at most {MAX_INDEXES} indexes")));
        }
        for index in &self.indexes {
            check_name(&index.name)?;
            check_comment(index.comment.as_deref())?;
            if index.columns.iter().any(|column| *column >= columns) {
                return Err(Error::internal("an index of columns that do not exist"));
            }
        }
        match self.columns.keys().all(|column| *column < columns) {
            true => Ok(()),
            false => Err(Error::internal("a comment on a column that does not exist")),
        }
    }

    /// What a table with these notes refers to, for the list of its schema.
    pub(crate) fn references(&self) -> Option<Parents> {
        let keys = &self.foreign_keys;
        let parent =
            |key: &ForeignKey| (Arc::from(key.schema.as_str()), Arc::from(key.table.as_str()));
        (!keys.is_empty()).then(|| keys.iter().map(parent).collect())
    }

    /// Writes the sections of a table's record.
    pub(crate) fn write(&self, w: &mut Writer) {
        let mut sections = Sections::default();
        if let Some(comment) = &self.comment {
            sections.add(TABLE_COMMENT, |w| w.text(comment));
        }
        if !self.columns.is_empty() {
            sections.add(COLUMN_COMMENTS, |w| {
                w.len(self.columns.len());
                for (column, comment) in &self.columns {
                    w.len(*column);
                    w.text(comment);
                }
            });
        }
        if !self.indexes.is_empty() {
            sections.add(INDEXES, |w| {
                w.len(self.indexes.len());
                self.indexes.iter().for_each(|index| index.write(w));
            });
        }
        if !self.foreign_keys.is_empty() {
            sections.add(FOREIGN_KEYS, |w| {
                w.len(self.foreign_keys.len());
                self.foreign_keys.iter().for_each(|key| key.write(w));
            });
        }
        if !self.generated.is_empty() {
            sections.add(GENERATED, |w| {
                w.len(self.generated.len());
                for (column, one) in &self.generated {
                    w.len(*column);
                    one.write(w);
                }
            });
        }
        sections.write(w);
    }

    /// Reads what is left of the record of a table with so many columns.
    pub(crate) fn read(r: &mut Reader<'_>, columns: usize) -> Result<Self> {
        let last = (columns as u64).saturating_sub(1);
        let mut notes = Self::default();
        read_sections(r, |tag, r| {
            match tag {
                TABLE_COMMENT => notes.comment = Some(r.text()?.to_owned()),
                COLUMN_COMMENTS => {
                    let comments = r.list(|r| {
                        let column = r.bounded(last, "a column")?;
                        Ok((column, r.text()?.to_owned()))
                    })?;
                    notes.columns = comments.into_iter().collect();
                }
                INDEXES => notes.indexes = r.list(|r| Index::read(r, last))?,
                FOREIGN_KEYS => notes.foreign_keys = r.list(|r| ForeignKey::read(r, last))?,
                GENERATED => {
                    let all = r.list(|r| {
                        let column = r.bounded(last, "a column")?;
                        Ok((column, Generated::read(r, last)?))
                    })?;
                    notes.generated = all.into_iter().collect();
                }
                other => return Err(unknown_section(other)),
            }
            Ok(())
        })?;
        Ok(notes)
    }
}

impl Index {
    fn write(&self, w: &mut Writer) {
        w.text(&self.name);
        w.len(self.on.len());
        self.on.iter().for_each(|sql| w.text(sql));
        w.len(self.columns.len());
        self.columns.iter().for_each(|column| w.len(*column));
        w.bool(self.unique);
        w.bool(self.owns_key);
        w.option(self.comment.as_deref(), |w, comment| w.text(comment));
    }

    fn read(r: &mut Reader<'_>, last: u64) -> Result<Self> {
        Ok(Self {
            name: r.text()?.to_owned(),
            on: r.list(|r| Ok(r.text()?.to_owned()))?,
            columns: r.list(|r| r.bounded(last, "a column"))?,
            unique: r.bool()?,
            owns_key: r.bool()?,
            comment: r.option(|r| Ok(r.text()?.to_owned()))?,
        })
    }
}

/// What a comment on an object of a schema is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Commented {
    /// A view.
    View,
    /// A macro for an expression.
    Macro,
    /// A macro for a query.
    TableMacro,
    /// A sequence.
    Sequence,
    /// A column of a view; [`view_column`] makes its name.
    ViewColumn,
}

const COMMENTED: [Commented; 5] = [
    Commented::View,
    Commented::Macro,
    Commented::TableMacro,
    Commented::Sequence,
    Commented::ViewColumn,
];

/// The name under which a comment on a column of a view is kept; those of a view begin alike.
pub fn view_column(view: &str, column: &str) -> String {
    format!("{}:{view}.{column}", view.len())
}

/// Comments on what a schema has beside tables.
pub(crate) type Comments = BTreeMap<(Commented, Arc<str>), Arc<str>>;

/// What the sections of the root record say of a schema.
#[derive(Default)]
pub(crate) struct RootNotes {
    pub comments: Comments,
    pub types: Types,
    pub references: References,
}

/// Writes the sections of the root record.
pub(crate) fn write_root<'a>(
    w: &mut Writer,
    schemas: impl Iterator<Item = (&'a Arc<str>, RootNotes)>,
) {
    let all: Vec<_> = schemas.collect();
    let mut sections = Sections::default();
    let commented = all.iter().filter(|(_, noted)| !noted.comments.is_empty());
    let commented = commented.collect::<Vec<_>>();
    if !commented.is_empty() {
        sections.add(COMMENTS, |w| {
            w.len(commented.len());
            for (schema, noted) in &commented {
                w.text(schema);
                w.len(noted.comments.len());
                for ((on, name), comment) in &noted.comments {
                    w.len(*on as usize);
                    w.text(name);
                    w.text(comment);
                }
            }
        });
    }
    let typed = all.iter().filter(|(_, noted)| !noted.types.is_empty()).collect::<Vec<_>>();
    if !typed.is_empty() {
        sections.add(TYPES, |w| {
            w.len(typed.len());
            for (schema, noted) in &typed {
                w.text(schema);
                w.len(noted.types.len());
                for (name, sql) in &noted.types {
                    w.text(name);
                    w.text(sql);
                }
            }
        });
    }
    let referring = all.iter().filter(|(_, noted)| !noted.references.is_empty());
    let referring = referring.collect::<Vec<_>>();
    if !referring.is_empty() {
        sections.add(REFERENCES, |w| {
            w.len(referring.len());
            for (schema, noted) in &referring {
                w.text(schema);
                w.len(noted.references.len());
                for (child, parents) in &noted.references {
                    w.text(child);
                    w.len(parents.len());
                    for (schema, table) in parents.iter() {
                        w.text(schema);
                        w.text(table);
                    }
                }
            }
        });
    }
    sections.write(w);
}

/// Reads what is left of the root record: for each schema with comments or named types, these.
pub(crate) fn read_root(r: &mut Reader<'_>) -> Result<BTreeMap<Arc<str>, RootNotes>> {
    let mut all: BTreeMap<Arc<str>, RootNotes> = BTreeMap::new();
    read_sections(r, |tag, r| {
        match tag {
            COMMENTS => {
                let schemas = r.list(|r| {
                    let schema: Arc<str> = Arc::from(r.text()?);
                    let comments = r.list(|r| {
                        let on = r.bounded(COMMENTED.len() as u64 - 1, "a kind of object")?;
                        Ok(((COMMENTED[on], Arc::from(r.text()?)), Arc::from(r.text()?)))
                    })?;
                    Ok((schema, comments.into_iter().collect()))
                })?;
                schemas.into_iter().for_each(|(of, found)| {
                    all.entry(of).or_default().comments = found;
                });
            }
            TYPES => {
                let schemas = r.list(|r| {
                    let schema: Arc<str> = Arc::from(r.text()?);
                    let types = r.list(|r| Ok((Arc::from(r.text()?), Arc::from(r.text()?))))?;
                    Ok((schema, types.into_iter().collect()))
                })?;
                schemas.into_iter().for_each(|(of, found)| {
                    all.entry(of).or_default().types = found;
                });
            }
            REFERENCES => {
                let schemas = r.list(|r| {
                    let schema: Arc<str> = Arc::from(r.text()?);
                    let references = r.list(|r| {
                        let child: Arc<str> = Arc::from(r.text()?);
                        let parents =
                            r.list(|r| Ok((Arc::from(r.text()?), Arc::from(r.text()?))))?;
                        Ok((child, Arc::from(parents)))
                    })?;
                    Ok((schema, references.into_iter().collect()))
                })?;
                schemas.into_iter().for_each(|(of, found)| {
                    all.entry(of).or_default().references = found;
                });
            }
            other => return Err(unknown_section(other)),
        }
        Ok(())
    })?;
    Ok(all)
}

#[derive(Default)]
struct Sections(Vec<(u64, Vec<u8>)>);

impl Sections {
    fn add(&mut self, tag: u64, write: impl FnOnce(&mut Writer)) {
        let mut w = Writer::default();
        write(&mut w);
        self.0.push((tag, w.into_bytes()));
    }

    fn write(&self, w: &mut Writer) {
        if self.0.is_empty() {
            return;
        }
        w.len(self.0.len());
        for (tag, bytes) in &self.0 {
            w.u64(*tag);
            w.blob(bytes);
        }
    }
}

fn read_sections(
    r: &mut Reader<'_>,
    mut read: impl FnMut(u64, &mut Reader<'_>) -> Result<()>,
) -> Result<()> {
    if r.is_empty() {
        return Ok(());
    }
    let mut before = 0;
    let tags = r.list(|r| {
        let tag = r.u64()?;
        // Ascending, so that there is one way to write the same notes.
        if tag <= before {
            return Err(corrupt("sections of a record in disorder"));
        }
        before = tag;
        let mut part = Reader::part(r.blob()?);
        read(tag, &mut part)?;
        part.finish()
    })?;
    if tags.is_empty() {
        return Err(corrupt("a record with no sections behind it"));
    }
    Ok(())
}

fn unknown_section(tag: u64) -> Error {
    corrupt(format!("section {tag} of a record, which only a newer program can have written"))
}

/// That a comment is not too long.
pub(crate) fn check_comment(comment: Option<&str>) -> Result<()> {
    match comment {
        Some(text) if text.len() > MAX_COMMENT_BYTES => {
            Err(Error::plan(format!("a comment has at most {MAX_COMMENT_BYTES} bytes")))
        }
        _ => Ok(()),
    }
}
