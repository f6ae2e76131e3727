//! The statements that make what a catalog has, in an order in which they can run.
//!
//! They are tried out in an empty private database without access to files, which ends with the
//! export. Its definitions must then be the same as the exported ones, or the export fails: a
//! backup that cannot be imported would be found out too late. A view or macro that cannot be made
//! there (a table that it reads was dropped, or is a file, or in an attached database) is written
//! as CREATE FORCE.
//!
//! **Cycle.** It tries views out by running them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use swingdb_common::error::{Error, Result};
use swingdb_common::types::sql_names::exact_type;
use swingdb_sql::ast::create::{
    comment_on, create_index, create_table, create_view, qualified, quoted,
};
use swingdb_sql::ast::names::SCHEMA as MAIN;
use swingdb_sql::options::limits::Limits;
use swingdb_sql::text::dialect::DIALECT;
use swingdb_sql::text::parameters::Params;
use swingdb_sql::text::parser;
use swingdb_store::{Catalog, Commented, MacroKind, Sequence, Table};

use crate::database::Database;
use crate::execute::backup::{OWN, SCHEMA};
use crate::execute::show::macros;
use crate::execute::statement;
use crate::session::Session;

/// The texts of `schema.sql` and `swingdb.sql`.
pub(crate) struct Scripts {
    pub(crate) schema: String,
    /// May be empty.
    pub(crate) own: String,
}

/// The scripts for what a catalog has.
pub(crate) fn scripts(session: &Session, catalog: &Catalog) -> Result<Scripts> {
    let trial = Trial::new(session)?;
    let (mut schema, mut own) = (Script::default(), Script::default());
    for name in catalog.schema_names().iter().filter(|name| *name != MAIN) {
        let sql = format!("CREATE SCHEMA {}", quoted(name));
        trial.must_run(&format!("schema {name:?}"), &sql)?;
        schema.add(sql);
    }
    before_tables(&trial, catalog, &mut schema, &mut own)?;
    for (of, table) in tables(catalog)? {
        let sql = create_table(Some(of.as_str()).filter(|of| *of != MAIN), &table);
        let notes = note_statements(Some(of.as_str()).filter(|of| *of != MAIN), &table);
        for sql in std::iter::once(sql).chain(notes) {
            trial.must_run(&format!("table {:?}", table.name()), &sql)?;
            schema.add(sql);
        }
    }
    let mut waiting = in_order(texts(catalog)?);
    while !waiting.is_empty() {
        let before = waiting.len();
        let mut failed = Vec::new();
        for item in waiting {
            if trial.run(&item.sql)?.is_err() {
                failed.push(item);
                continue;
            }
            // The same to whoever uses it, and here in the same words.
            let made = trial.catalog()?;
            if definition(&made, &item)? != item.definition {
                let forced = item.forced("CREATE OR REPLACE FORCE ");
                trial.must_run(&item.shown(), &forced)?;
                own.add(forced);
            }
            schema.add(item.sql.clone());
            for sql in item.comments(catalog) {
                trial.must_run(&item.shown(), &sql)?;
                schema.add(sql);
            }
        }
        if failed.len() == before {
            for item in failed {
                let forced = item.forced("CREATE FORCE ");
                for sql in std::iter::once(forced).chain(item.comments(catalog)) {
                    trial.must_run(&item.shown(), &sql)?;
                    own.add(sql);
                }
            }
            break;
        }
        waiting = failed;
    }
    trial.check(catalog)?;
    Ok(Scripts { schema: schema.text(SCHEMA)?, own: own.text(OWN)? })
}

/// Makes what tables may need: named types and sequences.
fn before_tables(
    trial: &Trial<'_>,
    catalog: &Catalog,
    schema: &mut Script,
    own: &mut Script,
) -> Result<()> {
    for (of, name, sql) in types(catalog) {
        let written = qualified(Some(of.as_str()).filter(|of| *of != MAIN), &name);
        let sql = format!("CREATE TYPE {written} AS {sql}");
        trial.must_run(&format!("type {name:?}"), &sql)?;
        schema.add(sql);
    }
    for (name, sequence) in sequences(catalog) {
        let (create, changes) = sequence_statements(&name, &sequence);
        for sql in std::iter::once(&create).chain(&changes) {
            trial.must_run(&format!("sequence {:?}", sequence.name), sql)?;
        }
        schema.add(create);
        changes.into_iter().for_each(|sql| own.add(sql));
        let written = qualified(name.schema(), name.table());
        let of = name.schema().unwrap_or(MAIN);
        if let Some(comment) = catalog.comment(of, Commented::Sequence, name.table()) {
            let sql = comment_on("SEQUENCE", &written, &comment);
            trial.must_run(&format!("sequence {:?}", sequence.name), &sql)?;
            schema.add(sql);
        }
    }
    Ok(())
}

/// Statements of a file.
#[derive(Default)]
struct Script(Vec<String>);

impl Script {
    fn add(&mut self, sql: String) {
        self.0.push(sql);
    }

    /// The text, which the parser has to cut into the same statements.
    fn text(self, file: &str) -> Result<String> {
        let text: String = self.0.iter().map(|sql| format!("{sql};\n")).collect();
        match parser::parse(&text)?.len() == self.0.len() {
            true => Ok(text),
            false => Err(Error::internal(format!("{file} does not read back as it was written"))),
        }
    }
}

/// A database in which statements are tried out.
struct Trial<'a> {
    /// The session that waits.
    outer: &'a Session,
    session: Arc<Session>,
}

impl<'a> Trial<'a> {
    fn new(outer: &'a Session) -> Result<Self> {
        let database = match outer.database().home() {
            Some(home) => Database::private_in(home)?,
            None => Database::private()?,
        };
        let session = Arc::new(Session::new(database));
        session.configure(|state| {
            let limits = Limits { external_access: false, ..Limits::default() };
            limits.carry(state.config_mut());
            Ok(())
        })?;
        Ok(Self { outer, session })
    }

    /// Runs a statement; the outer error is that of the session that waits.
    fn run(&self, sql: &str) -> Result<Result<()>> {
        self.outer.cancel_token().check()?;
        let run = || {
            let result = statement::execute_all(&self.session, sql, Params::default())?;
            result.collect().map(drop)
        };
        Ok(run())
    }

    fn must_run(&self, what: &str, sql: &str) -> Result<()> {
        self.run(sql)?.map_err(|error| {
            let message = format!("EXPORT DATABASE of {what}, which {sql} does not make: {error}");
            Error::unsupported(message)
        })
    }

    /// What there is now.
    fn catalog(&self) -> Result<Arc<Catalog>> {
        Ok(self.session.view()?.main.catalog)
    }

    /// That the statements have made the same as there is.
    fn check(&self, catalog: &Catalog) -> Result<()> {
        let made = self.catalog()?;
        let (expected, found) = (definitions(catalog)?, definitions(&made)?);
        let mut found = found.iter();
        for definition in &expected {
            let found = found.next();
            if found != Some(definition) {
                let found = found.map_or("nothing", String::as_str);
                return Err(Error::unsupported(format!(
                    "EXPORT DATABASE of this definition, which does not come back as it is: \
                     {definition} (but {found})"
                )));
            }
        }
        Ok(())
    }
}

/// What is to be the same after an import, one text for each schema, type, table, view, macro
/// and sequence.
fn definitions(catalog: &Catalog) -> Result<Vec<String>> {
    let mut all: Vec<String> = catalog.schema_names().iter().map(|s| format!("{s:?}")).collect();
    for (schema, table) in tables(catalog)? {
        let columns = table.columns().iter().map(|column| {
            let (name, default) = (&column.name, &column.default_sql);
            format!("{name:?} {} {default:?} {}", exact_type(&column.field()), column.nullable)
        });
        let columns = columns.collect::<Vec<_>>().join(", ");
        // In which order a table got its keys says nothing.
        let mut keys: Vec<_> = table.constraints().iter().map(|key| format!("{key:?}")).collect();
        keys.sort();
        let (name, checks, notes) = (table.name(), table.checks(), table.notes());
        all.push(format!("{schema:?} table {name:?} ({columns}) {keys:?} {checks:?} {notes:?}"));
    }
    all.extend(types(catalog).iter().map(|found| format!("type {found:?}")));
    all.extend(texts(catalog)?.into_iter().map(|item| {
        let comments = item.comments(catalog);
        format!("{} {comments:?}", item.definition)
    }));
    for schema in catalog.schema_names() {
        for name in catalog.sequence_names(&schema) {
            let comment = catalog.comment(&schema, Commented::Sequence, &name);
            all.push(format!("{schema:?} {:?} {comment:?}", catalog.sequence(&schema, &name)));
        }
    }
    Ok(all)
}

/// The statements that make the indexes and the comments of a table.
fn note_statements(schema: Option<&str>, table: &Table) -> Vec<String> {
    let (notes, name) = (table.notes(), qualified(schema, table.name()));
    let mut all = Vec::new();
    for index in &notes.indexes {
        all.push(create_index(schema, table.name(), index));
        let name = qualified(schema, &index.name);
        all.extend(index.comment.as_ref().map(|text| comment_on("INDEX", &name, text)));
    }
    all.extend(notes.comment.as_ref().map(|text| comment_on("TABLE", &name, text)));
    for (at, text) in &notes.columns {
        let column = format!("{name}.{}", quoted(&table.columns()[*at].name));
        all.push(comment_on("COLUMN", &column, text));
    }
    all
}

/// All tables, with their schemas; each behind those that its foreign keys refer to.
pub(crate) fn tables(catalog: &Catalog) -> Result<Vec<(String, Arc<Table>)>> {
    let mut all = Vec::new();
    for schema in catalog.schema_names() {
        for name in catalog.table_names(&schema)? {
            let table = catalog.table(&schema, &name)?;
            all.extend(table.map(|table| (schema.clone(), table)));
        }
    }
    let has_keys = |(_, table): &(String, Arc<Table>)| !table.notes().foreign_keys.is_empty();
    if !all.iter().any(has_keys) {
        return Ok(all);
    }
    let mut waiting = all;
    let mut ordered = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let waits: HashSet<(String, String)> = waiting
            .iter()
            .map(|(schema, table)| (schema.clone(), table.name().to_string()))
            .collect();
        let (later, now): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(schema, table)| {
            table.notes().foreign_keys.iter().any(|key| {
                let is_own = key.schema == *schema && key.table == table.name();
                !is_own && waits.contains(&(key.schema.clone(), key.table.clone()))
            })
        });
        // Tables that refer to each other cannot be made; nothing is left out.
        let stuck = now.is_empty();
        ordered.extend(now);
        waiting = later;
        if stuck {
            ordered.append(&mut waiting);
        }
    }
    Ok(ordered)
}

/// All named types: schema, name, and the SQL of the type.
fn types(catalog: &Catalog) -> Vec<(String, String, Arc<str>)> {
    let mut all = Vec::new();
    for schema in catalog.schema_names() {
        for name in catalog.type_names(&schema) {
            let sql = catalog.find_type(&schema, &name);
            all.extend(sql.map(|sql| (schema.clone(), name, sql)));
        }
    }
    all
}

fn sequences(catalog: &Catalog) -> Vec<(TableReference, Arc<Sequence>)> {
    let mut all = Vec::new();
    for schema in catalog.schema_names() {
        for name in catalog.sequence_names(&schema) {
            let reference = match schema.as_str() {
                MAIN => TableReference::bare(name.as_str()),
                schema => TableReference::partial(schema, name.as_str()),
            };
            all.extend(catalog.sequence(&schema, &name).map(|sequence| (reference, sequence)));
        }
    }
    all
}

/// What makes a sequence as it is now: for any system, so that its next number is the right one;
/// and what only this one knows, so that its first number and the last one are right too.
fn sequence_statements(name: &TableReference, sequence: &Sequence) -> (String, Vec<String>) {
    let Sequence { start, increment, min, max, cycle, last, .. } = sequence;
    let written = qualified(name.schema(), name.table());
    // One that has no next number has no words for that.
    let next = sequence.clone().take().unwrap_or_else(|_| last.unwrap_or(*start));
    let cycle = if *cycle { "CYCLE" } else { "NO CYCLE" };
    let create = format!(
        "CREATE SEQUENCE {written} INCREMENT BY {increment} MINVALUE {min} MAXVALUE {max} \
         START {next} {cycle}"
    );
    let mut own = Vec::new();
    if let Some(last) = last {
        let text = name.to_quoted_string().replace('\'', "''");
        own.push(format!("ALTER SEQUENCE {written} RESTART WITH {last}"));
        own.push(format!("SELECT nextval('{text}')"));
        if last != start {
            own.push(format!("ALTER SEQUENCE {written} START {start}"));
        }
    }
    (create, own)
}

/// A view or a macro.
struct Item {
    schema: String,
    name: String,
    /// That of a macro.
    kind: Option<MacroKind>,
    /// The statement that makes it.
    sql: String,
    /// All that the catalog has of it.
    definition: String,
}

impl Item {
    /// The statement that makes it whether what it names is there or not; it begins so.
    fn forced(&self, begin: &str) -> String {
        self.sql.replacen("CREATE ", begin, 1)
    }

    /// The statements that set its comment, and those on the columns of a view.
    fn comments(&self, catalog: &Catalog) -> Vec<String> {
        let schema = Some(self.schema.as_str()).filter(|schema| *schema != MAIN);
        let name = qualified(schema, &self.name);
        let on = match self.kind {
            None => {
                let all = catalog.comments_of_view(&self.schema, &self.name).into_iter();
                let statement = |(column, text): (Option<String>, Arc<str>)| match column {
                    None => comment_on("VIEW", &name, &text),
                    Some(column) => {
                        comment_on("COLUMN", &format!("{name}.{}", quoted(&column)), &text)
                    }
                };
                return all.map(statement).collect();
            }
            Some(MacroKind::Scalar) => Commented::Macro,
            Some(MacroKind::Table) => Commented::TableMacro,
        };
        let comment = catalog.comment(&self.schema, on, &self.name);
        comment.iter().map(|text| comment_on("MACRO", &name, text)).collect()
    }

    fn shown(&self) -> String {
        format!("{} {:?}", if self.kind.is_some() { "macro" } else { "view" }, self.name)
    }
}

/// All macros and views.
fn texts(catalog: &Catalog) -> Result<Vec<Item>> {
    let mut all = Vec::new();
    for schema in catalog.schema_names() {
        let of = Some(schema.as_str()).filter(|schema| *schema != MAIN);
        let mut add = |name: String, kind, sql| {
            let definition = String::new();
            all.push(Item { schema: schema.clone(), name, kind, sql, definition });
        };
        for kind in [MacroKind::Scalar, MacroKind::Table] {
            for name in catalog.macro_names(&schema, kind) {
                if let Some(found) = catalog.find_macro(&schema, &name, kind) {
                    add(name, Some(kind), macros::create_text(of, &found));
                }
            }
        }
        for name in catalog.view_names(&schema) {
            if let Some(view) = catalog.view(&schema, &name)? {
                add(name, None, create_view(of, &view));
            }
        }
    }
    for item in &mut all {
        item.definition = definition(catalog, item)?;
    }
    Ok(all)
}

/// All that a catalog has of a view or macro, as a text.
fn definition(catalog: &Catalog, item: &Item) -> Result<String> {
    let Item { schema, name, kind, .. } = item;
    Ok(match kind {
        Some(kind) => format!("{schema:?} {:?}", catalog.find_macro(schema, name, *kind)),
        None => format!("{schema:?} {:?}", catalog.view(schema, name)?),
    })
}

/// The items, each behind those whose names its text mentions. A name may mean something else, and
/// macros may mention each other, so this is only a good first guess.
fn in_order(items: Vec<Item>) -> Vec<Item> {
    let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, item) in items.iter().enumerate() {
        by_name.entry(item.name.to_lowercase()).or_default().push(at);
    }
    let needs = items.iter().map(|item| {
        let words = words(&item.sql).into_iter();
        words.flat_map(|word| by_name.get(&word).into_iter().flatten().copied()).collect()
    });
    let needs: Vec<Vec<usize>> = needs.collect();
    let mut order = Vec::with_capacity(items.len());
    let mut seen = vec![false; items.len()];
    for start in 0..items.len() {
        // An item, and how many of its needs were looked at; no recursion, for chains may be long.
        let mut path = if seen[start] { Vec::new() } else { vec![(start, 0)] };
        seen[start] = true;
        while let Some((at, next)) = path.last_mut() {
            match needs[*at].get(*next) {
                Some(&need) => {
                    *next += 1;
                    if !std::mem::replace(&mut seen[need], true) {
                        path.push((need, 0));
                    }
                }
                None => {
                    order.push(*at);
                    path.pop();
                }
            }
        }
    }
    let mut items: Vec<Option<Item>> = items.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| items[at].take()).collect()
}

/// The words of a text in lower case, also those in quotes.
fn words(sql: &str) -> Vec<String> {
    let tokens = Tokenizer::new(&DIALECT, sql).tokenize().unwrap_or_default();
    let words = tokens.into_iter().filter_map(|token| match token {
        Token::Word(word) => Some(word.value.to_lowercase()),
        _ => None,
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(items: &[(&str, &str)]) -> Vec<String> {
        let item = |(name, sql): &(&str, &str)| Item {
            schema: MAIN.to_string(),
            name: name.to_string(),
            kind: None,
            sql: sql.to_string(),
            definition: String::new(),
        };
        in_order(items.iter().map(item).collect()).into_iter().map(|item| item.name).collect()
    }

    #[test]
    fn items_stand_behind_what_they_mention() {
        let chain = [("a", "SELECT * FROM B"), ("b", "SELECT \"C\"()"), ("c", "1"), ("d", "'a'")];
        assert_eq!(order(&chain), ["c", "b", "a", "d"]);
        assert_eq!(order(&[("a", "b"), ("b", "a")]), ["b", "a"]);
        let names: Vec<String> = (0..20_000).map(|n| format!("v{n:05}")).collect();
        let texts: Vec<String> = (1..=20_000).map(|n| format!("SELECT * FROM v{n:05}")).collect();
        let long: Vec<(&str, &str)> =
            names.iter().zip(&texts).map(|(n, t)| (n.as_str(), t.as_str())).collect();
        assert_eq!(order(&long).first().map(String::as_str), Some("v19999"));
    }

    #[test]
    fn a_sequence_goes_on_where_it_was() {
        let mut sequence = Sequence {
            name: "s".into(),
            start: 5,
            increment: 2,
            min: 1,
            max: 9,
            cycle: false,
            last: None,
        };
        let name = TableReference::partial("geo", "S'x");
        let create = |start: i64| {
            format!(
                "CREATE SEQUENCE geo.\"S'x\" INCREMENT BY 2 MINVALUE 1 MAXVALUE 9 \
                 START {start} NO CYCLE"
            )
        };
        assert_eq!(sequence_statements(&name, &sequence), (create(5), Vec::new()));
        sequence.last = Some(7);
        let restart = "ALTER SEQUENCE geo.\"S'x\" RESTART WITH 7".to_string();
        let take = "SELECT nextval('geo.\"S''x\"')".to_string();
        let start = "ALTER SEQUENCE geo.\"S'x\" START 5".to_string();
        assert_eq!(sequence_statements(&name, &sequence), (create(9), vec![restart, take, start]));
        sequence.last = Some(9);
        assert_eq!(sequence_statements(&name, &sequence).0, create(9));
    }
}
