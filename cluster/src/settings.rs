//! The settings of a session that travel with its plans: [`SessionSettings`].

use std::any::Any;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::functions::ByName;
use crate::wire::Budget;

fn read<T: DeserializeOwned>(value: &str) -> Result<T> {
    serde_json::from_str(value).map_err(|error| DataFusionError::External(Box::new(error)))
}

/// JSON of ASCII alone: settings travel in headers, and types are called `Timestamp(µs)`.
fn written<T: Serialize>(value: &T) -> String {
    let json = serde_json::to_string(value).unwrap_or_default();
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c.is_ascii() && c != '\x7f' {
            true => text.push(c),
            // Such a character is within a text, where JSON has this form too.
            false => {
                let units = c.encode_utf16(&mut [0; 2]).to_vec();
                text.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
            }
        }
    }
    text
}

/// The settings of a session that parts of its plans need wherever they run; a statement has its
/// own.
#[derive(Clone, Debug, Default)]
pub struct SessionSettings {
    /// The time zone.
    pub time_zone: String,
    /// The limit of memory at each node; `None`: the node's own.
    pub budget: Option<Budget>,
    /// How many shards the cluster has.
    pub shards: usize,
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
            "shards" => self.shards = read(value)?,
            "functions" => self.functions = Arc::new(Mutex::new(read(value)?)),
            other => {
                let message = format!("there is no setting {other} of a cluster");
                return Err(DataFusionError::Configuration(message));
            }
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let functions = written(&*self.functions.lock());
        let entry = |key: &str, value: String| ConfigEntry {
            key: key.to_string(),
            value: Some(value),
            description: "",
        };
        let (budget, shards) = (written(&self.budget), written(&self.shards));
        vec![
            entry("time_zone", self.time_zone.clone()),
            entry("budget", budget),
            entry("shards", shards),
            entry("functions", functions),
        ]
    }
}

impl ConfigExtension for SessionSettings {
    const PREFIX: &'static str = "swingdb_session";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::Carried;

    #[test]
    fn settings_are_ascii_and_come_back() {
        let mut before = SessionSettings { time_zone: "Asia/Tokyo".into(), ..Default::default() };
        before.shards = 3;
        before.budget = Some(Budget { session: "a\"\u{7f}\n".to_string(), bytes: 5 });
        for name in ["to Timestamp(µs)", "ä\\\u{1f980}\u{7f}\"", ""] {
            before.functions.lock().insert(name.to_string(), Carried::Kept);
        }
        let mut after = SessionSettings::default();
        for entry in before.entries() {
            let value = entry.value.unwrap();
            assert!(value.bytes().all(|byte| (32..127).contains(&byte)), "{value}");
            after.set(&entry.key, &value).unwrap();
        }
        assert_eq!(*before.functions.lock(), *after.functions.lock());
        let shown = |settings: &SessionSettings| format!("{:?}", settings.budget);
        assert_eq!(after.shards, 3);
        assert_eq!((shown(&before), &before.time_zone), (shown(&after), &after.time_zone));
    }
}
