//! The driver and its databases: [`SwingDriver`], [`SwingDatabase`].
//!
//! `uri` names a database; without one it is private, and gone with the handle. The option
//! `swingdb.snapshot` takes a snapshot of the newest shared state instead of opening it as writer,
//! and `swingdb.home` is the directory of a namespace.

use std::path::PathBuf;

use adbc_core::options::{OptionConnection, OptionDatabase, OptionValue};
use adbc_core::{Database, Driver, Optionable};

use crate::connection::SwingConnection;
use crate::error::{Result, argument, of_database, unknown_option};
use crate::option_values::{flag, text};

const HOME: &str = "swingdb.home";
const SNAPSHOT: &str = "swingdb.snapshot";

/// The driver, which has no state.
#[derive(Default)]
pub(crate) struct SwingDriver;

impl Driver for SwingDriver {
    type DatabaseType = SwingDatabase;

    fn new_database(&mut self) -> Result<SwingDatabase> {
        self.new_database_with_opts([])
    }

    fn new_database_with_opts(
        &mut self,
        opts: impl IntoIterator<Item = (OptionDatabase, OptionValue)>,
    ) -> Result<SwingDatabase> {
        let mut options = Options::default();
        for (key, value) in opts {
            options.set(key.as_ref(), &value)?;
        }
        let database = options.open().map_err(of_database)?;
        Ok(SwingDatabase { database, options })
    }
}

/// What a database is opened by.
#[derive(Default)]
struct Options {
    name: Option<String>,
    home: Option<PathBuf>,
    snapshot: bool,
}

impl Options {
    fn set(&mut self, key: &str, value: &OptionValue) -> Result<()> {
        match key {
            "uri" => {
                let uri = text(key, value)?;
                let name = uri.strip_prefix("swingdb:").unwrap_or(uri).trim_start_matches('/');
                self.name = (!name.is_empty() && name != ":memory:").then(|| name.to_string());
            }
            HOME => self.home = Some(PathBuf::from(text(key, value)?)),
            SNAPSHOT => self.snapshot = flag(key, value)?,
            other => return Err(unknown_option(other)),
        }
        Ok(())
    }

    fn open(&self) -> swingdb::Result<swingdb::Database> {
        use swingdb::Database as D;
        match (&self.name, &self.home, self.snapshot) {
            (Some(name), None, true) => D::snapshot(name),
            (Some(name), Some(home), true) => D::snapshot_in(home, name),
            (Some(name), None, false) => D::open(name),
            (Some(name), Some(home), false) => D::open_in(home, name),
            (None, _, true) => {
                Err(swingdb::Error::plan("a snapshot is one of a database: give its name as uri"))
            }
            (None, None, false) => D::private(),
            (None, Some(home), false) => D::private_in(home),
        }
    }
}

/// A database that is open.
pub(crate) struct SwingDatabase {
    database: swingdb::Database,
    options: Options,
}

impl Optionable for SwingDatabase {
    type Option = OptionDatabase;

    fn set_option(&mut self, key: OptionDatabase, _value: OptionValue) -> Result<()> {
        let key = key.as_ref();
        Err(argument(format!("the option {key:?} is set before the database is opened")))
    }

    fn get_option_string(&self, key: OptionDatabase) -> Result<String> {
        match key.as_ref() {
            "uri" => Ok(self.options.name.clone().unwrap_or_default()),
            SNAPSHOT => Ok(self.options.snapshot.to_string()),
            other => Err(unknown_option(other)),
        }
    }

    fn get_option_bytes(&self, key: OptionDatabase) -> Result<Vec<u8>> {
        self.get_option_string(key).map(String::into_bytes)
    }

    fn get_option_int(&self, key: OptionDatabase) -> Result<i64> {
        Err(unknown_option(key.as_ref()))
    }

    fn get_option_double(&self, key: OptionDatabase) -> Result<f64> {
        Err(unknown_option(key.as_ref()))
    }
}

impl Database for SwingDatabase {
    type ConnectionType = SwingConnection;

    fn new_connection(&self) -> Result<SwingConnection> {
        self.new_connection_with_opts([])
    }

    fn new_connection_with_opts(
        &self,
        opts: impl IntoIterator<Item = (OptionConnection, OptionValue)>,
    ) -> Result<SwingConnection> {
        let mut connection = SwingConnection::new(self.database.connect());
        for (key, value) in opts {
            connection.set_option(key, value)?;
        }
        Ok(connection)
    }
}
