//! The settings of a session that travel with its plans: [`SessionSettings`].

use std::any::Any;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use crate::functions::ByName;
use crate::wire::Budget;

fn read<T: DeserializeOwned>(value: &str) -> Result<T> {
    serde_json::from_str(value).map_err(|error| DataFusionError::External(Box::new(error)))
}

/// The settings of a session that parts of its plans need wherever they run; a statement has its
/// own.
#[derive(Clone, Debug, Default)]
pub struct SessionSettings {
    /// The time zone.
    pub time_zone: String,
    /// The limit of memory at each node; `None`: the node's own.
    pub budget: Option<Budget>,
    /// What the statement's plans have of functions that carry something. The planner adds to
    /// them; what runs the plan reads them.
    pub functions: Arc<Mutex<ByName>>,
    /// Whether a plan is made for nodes, where scans are told what joins have found. It does not
    /// travel.
    pub for_stages: bool,
}

impl ExtensionOptions for SessionSettings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "time_zone" => self.time_zone = value.to_string(),
            "budget" => self.budget = read(value)?,
            "functions" => self.functions = Arc::new(Mutex::new(read(value)?)),
            other => {
                let message = format!("there is no setting {other} of a cluster");
                return Err(DataFusionError::Configuration(message));
            }
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let functions = serde_json::to_string(&*self.functions.lock()).unwrap_or_default();
        let entry = |key: &str, value: String| ConfigEntry {
            key: key.to_string(),
            value: Some(value),
            description: "",
        };
        let budget = serde_json::to_string(&self.budget).unwrap_or_default();
        vec![
            entry("time_zone", self.time_zone.clone()),
            entry("budget", budget),
            entry("functions", functions),
        ]
    }
}

impl ConfigExtension for SessionSettings {
    const PREFIX: &'static str = "swingdb_session";
}
