//! Where the databases are, and opening them there.

use crate::failure::{Failure, Outcome};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use swingdb::{BACKING_VARIABLE, Database, Durability, OpenOptions, Progress, StoreOptions};

/// The directory of the databases: the user's choice, or the library's default.
#[derive(Clone, Debug)]
pub struct Home {
    directory: Option<PathBuf>,
    /// The store on a disk of the database that is opened for writing.
    store: Option<(PathBuf, Option<Durability>)>,
}

impl Home {
    pub fn new(directory: Option<PathBuf>, store: Option<(PathBuf, Option<Durability>)>) -> Self {
        Home { directory, store }
    }

    /// The user's choice; `None`: the library's default.
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// Whether the user has named a store.
    pub fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// The same, for databases that the user has named no store for: theirs are remembered.
    pub fn without_store(&self) -> Self {
        Home { directory: self.directory.clone(), store: None }
    }

    fn options(&self) -> OpenOptions {
        let options = OpenOptions::default().lasting();
        match &self.directory {
            Some(home) => options.home(home),
            None => options,
        }
    }

    /// A new database from a store on a disk.
    pub fn restore(
        &self,
        directory: &Path,
        name: Option<&str>,
        progress: Option<Arc<dyn Progress>>,
    ) -> Outcome<Database> {
        let options = match progress {
            Some(progress) => self.options().progress(progress),
            None => self.options(),
        };
        Ok(Database::restore(directory, name, &options)?)
    }

    /// The store that a database has, and when its changes get there.
    pub fn store_of(&self, name: &str) -> Option<(PathBuf, Durability)> {
        match &self.directory {
            Some(home) => swingdb::store_of_in(home, name),
            None => swingdb::store_of(name),
        }
    }

    /// As the one writer; created when missing, with its first commit. The database outlives the
    /// command, or is an error.
    pub fn open(&self, name: &str) -> Outcome<Database> {
        if std::env::var_os(BACKING_VARIABLE).is_some_and(|backing| backing == "memfd") {
            let text = format!(
                "{BACKING_VARIABLE} is \"memfd\", so {name:?} would end with this command: unset \
                 it, or write the database in a program that goes on running"
            );
            return Err(Failure::message(text));
        }
        let options = match &self.store {
            Some((directory, durability)) => {
                let mut store = StoreOptions::new(directory);
                store.durability = *durability;
                self.options().store(store)
            }
            None => self.options(),
        };
        crate::progress::during("store", |progress| {
            // With somebody to tell it to, opening waits until everything is in memory: the next
            // command finds it there.
            let nobody = || -> Arc<dyn Progress> { Arc::new(|_, _, _: &str| {}) };
            let options = options.progress(progress.unwrap_or_else(nobody));
            Ok(Database::open_with_options(name, &options)?)
        })
    }

    pub fn snapshot(&self, name: &str) -> Outcome<Database> {
        Ok(match &self.directory {
            Some(home) => Database::snapshot_in(home, name)?,
            None => Database::snapshot(name)?,
        })
    }

    pub fn private(&self) -> Outcome<Database> {
        Ok(match &self.directory {
            Some(home) => Database::private_in(home)?,
            None => Database::private()?,
        })
    }

    /// At the end of a session on a database that did not exist and does not now, says so: its name
    /// was perhaps mistyped.
    pub fn tell_if_new(&self, database: &Database) {
        let Some(name) = database.name().filter(|_| database.is_new()) else { return };
        let near = self.suggestion(name).map(|near| format!("; did you mean {near:?}?"));
        let near = near.unwrap_or_default();
        eprintln!("note: database {name:?} does not exist, and nothing was created in it{near}");
    }

    /// Another database whose name is nearly `name`.
    pub fn suggestion(&self, name: &str) -> Option<String> {
        let known = self.lineage().ok()?;
        let known = known.iter().filter_map(|node| node.info.name.as_ref());
        let others = known.map(|known| known.as_str()).filter(|known| *known != name);
        match swingdb::Error::not_found(swingdb::ObjectKind::Database, name, others) {
            swingdb::Error::NotFound { suggestion, .. } => suggestion,
            _ => None,
        }
    }

    /// What is open, in words.
    pub fn describe(&self, database: &Database) -> String {
        match (database.name(), database.is_snapshot(), database.epoch()) {
            (Some(name), false, _) if database.is_new() => {
                let near = self.suggestion(name).map(|near| format!("; did you mean {near:?}?"));
                format!("new database {name:?}, open for writing{}", near.unwrap_or_default())
            }
            (Some(name), false, _) => format!("database {name:?}, open for writing"),
            (Some(name), true, _) => format!("snapshot {name:?}"),
            (None, true, Some(epoch)) => {
                format!("a snapshot of epoch {epoch}; changes stay private")
            }
            (None, true, None) => "a snapshot; changes stay private".to_string(),
            (None, false, _) => "a private database; it ends with this shell".to_string(),
        }
    }

    /// All databases and named snapshots with their parents and children.
    pub fn lineage(&self) -> Outcome<Vec<swingdb::LineageNode>> {
        Ok(match &self.directory {
            Some(home) => swingdb::lineage_in(home)?,
            None => swingdb::lineage()?,
        })
    }

    /// What is left of dropped databases because somebody still uses it.
    pub fn removed(&self) -> Outcome<Vec<swingdb::AreaInfo>> {
        Ok(match &self.directory {
            Some(home) => swingdb::list_removed_in(home)?,
            None => swingdb::list_removed()?,
        })
    }

    pub fn drop(&self, name: &str) -> Result<swingdb::RemoveReport, swingdb::Error> {
        match &self.directory {
            Some(home) => swingdb::drop_in(home, name),
            None => swingdb::drop(name),
        }
    }

    pub fn doctor(&self) -> Vec<swingdb::Finding> {
        match &self.directory {
            Some(home) => swingdb::doctor_in(home),
            None => swingdb::doctor(),
        }
    }

    pub fn gc(&self) -> Outcome<swingdb::GcReport> {
        Ok(match &self.directory {
            Some(home) => swingdb::gc_in(home)?,
            None => swingdb::gc()?,
        })
    }
}

/// Splits `DATABASE.TABLE` at its first dot; a name in double quotes may contain dots.
pub fn split_target(text: &str) -> Outcome<(String, Option<String>)> {
    let wrong = || Failure::usage(format!("{text:?} is not DATABASE or DATABASE.TABLE"));
    let (database, rest) = match text.strip_prefix('"') {
        Some(quoted) => {
            let (name, rest) = quoted.split_once('"').ok_or_else(wrong)?;
            (name, rest.strip_prefix('.').or(rest.is_empty().then_some("")))
        }
        None => match text.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => return if text.is_empty() { Err(wrong()) } else { Ok((text.into(), None)) },
        },
    };
    let rest = rest.ok_or_else(wrong)?;
    if database.is_empty() || (rest.is_empty() && text.ends_with('.')) {
        return Err(wrong());
    }
    Ok((database.to_string(), (!rest.is_empty()).then(|| rest.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_split_at_the_first_dot() {
        let split = |text| split_target(text).ok();
        let pair = |d: &str, t: Option<&str>| Some((d.to_string(), t.map(str::to_string)));
        assert_eq!(split("taxi"), pair("taxi", None));
        assert_eq!(split("taxi.trips"), pair("taxi", Some("trips")));
        assert_eq!(split("taxi.main.trips"), pair("taxi", Some("main.trips")));
        assert_eq!(split("\"my.db\".trips"), pair("my.db", Some("trips")));
        assert_eq!(split("\"my.db\""), pair("my.db", None));
        for wrong in ["", ".", ".t", "taxi.", "\"open", "\"a\"b", "\"\".t"] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }
}
