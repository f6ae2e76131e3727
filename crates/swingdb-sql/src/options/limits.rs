//! What the statements of a session may do, and how much: confinement of SQL that is not trusted.
//!
//! A program sets these before it runs somebody else's statements, and locks them last:
//!
//! | setting | meaning |
//! |---|---|
//! | `enable_external_access` | `false`: no files, no other databases, no variables of a program |
//! | `lock_configuration` | `true`: no setting can be changed any more |
//! | `statement_timeout` | how long a statement and the reading of its result may take |
//! | `max_result_rows` | rows a result may have |
//! | `max_result_bytes` | bytes of memory the rows of a result may have together |
//!
//! The first two only ever become stricter: neither SET nor RESET takes them back in their session.
//! They travel with the engine's configuration, so that every function that opens a file can ask.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::prelude::SessionConfig;
use swingdb_common::error::{Error, Result};

/// The limits of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Whether statements may read or write what lies outside the database.
    pub external_access: bool,
    /// Whether settings are locked.
    pub locked: bool,
    /// How long a statement may take.
    pub statement_timeout: Option<Duration>,
    /// Rows that a result may have.
    pub max_result_rows: Option<u64>,
    /// Bytes that the values of a result may take.
    pub max_result_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            external_access: true,
            locked: false,
            statement_timeout: None,
            max_result_rows: None,
            max_result_bytes: None,
        }
    }
}

impl Limits {
    /// The limits that a configuration carries.
    pub fn of(config: &SessionConfig) -> Self {
        config.get_extension::<Self>().map(|limits| Self::clone(&limits)).unwrap_or_default()
    }

    /// Puts them into a configuration.
    pub fn carry(self, config: &mut SessionConfig) {
        config.set_extension(Arc::new(self));
    }

    /// Refuses what goes outside the database where that is not allowed.
    pub fn external(&self, what: &str) -> Result<()> {
        match self.external_access {
            true => Ok(()),
            false => Err(Error::NotAllowed {
                message: format!(
                    "{what}: this session has no access to files and other databases \
                     (enable_external_access is false)"
                ),
            }),
        }
    }

    /// Refuses changes of settings where these are locked.
    pub fn change_of(&self, setting: &str) -> Result<()> {
        match self.locked {
            false => Ok(()),
            true => Err(Error::NotAllowed {
                message: format!(
                    "setting {setting:?} cannot be changed: the settings of this session are \
                     locked (lock_configuration is true)"
                ),
            }),
        }
    }

    /// Counts the rows of a result, if there is a limit.
    pub fn meter(&self) -> Option<Meter> {
        let any = self.max_result_rows.is_some() || self.max_result_bytes.is_some();
        any.then(|| Meter { limits: self.clone(), rows: 0, bytes: 0 })
    }
}

/// How much of a result has been handed out.
#[derive(Debug)]
pub struct Meter {
    limits: Limits,
    rows: u64,
    bytes: u64,
}

impl Meter {
    /// Counts one batch more, which is not handed out when it is too much.
    pub fn count(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows = self.rows.saturating_add(batch.num_rows() as u64);
        self.bytes = self.bytes.saturating_add(used_bytes(batch));
        let checks = [
            ("max_result_rows", self.limits.max_result_rows, self.rows),
            ("max_result_bytes", self.limits.max_result_bytes, self.bytes),
        ];
        for (setting, limit, reached) in checks {
            if let Some(limit) = limit.filter(|limit| reached > *limit) {
                return Err(Error::LimitReached { setting, limit });
            }
        }
        Ok(())
    }
}

/// The bytes of a batch's rows, whatever else their buffers hold.
fn used_bytes(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(|column| bytes_of(column.as_ref())).sum()
}

fn bytes_of(array: &dyn Array) -> u64 {
    const VIEW: u64 = 16;
    // Texts of up to 12 bytes lie in the view itself.
    let of_views = |views: &[u128]| {
        let lengths = views.iter().map(|view| u64::from(*view as u32));
        VIEW * views.len() as u64 + lengths.filter(|length| *length > 12).sum::<u64>()
    };
    match array.data_type() {
        DataType::Utf8View => of_views(array.as_string_view().views()),
        DataType::BinaryView => of_views(array.as_binary_view().views()),
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(|field| bytes_of(field.as_ref())).sum()
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let offsets = list.value_offsets();
            let (first, last) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
            let values = list.values().slice(first, last - first);
            bytes_of(values.as_ref()) + size_of_val(offsets) as u64
        }
        _ => {
            let data = array.to_data();
            let size = data.get_slice_memory_size();
            size.unwrap_or_else(|_| array.get_array_memory_size()) as u64
        }
    }
}

/// A duration: `'5s'`, `'1min'`, `'250 ms'`, or a number of milliseconds as in PostgreSQL; 0 means
/// none.
pub fn parse_timeout(text: &str) -> Result<Option<Duration>> {
    let wrong = || Error::plan(format!("{text:?} is no span of time, as '30s' is one"));
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let number: f64 = trimmed[..digits].parse().map_err(|_| wrong())?;
    let seconds = match trimmed[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "ms" => number / 1e3,
        "us" => number / 1e6,
        "s" => number,
        "min" => number * 60.0,
        "h" => number * 3600.0,
        "d" => number * 86_400.0,
        _ => return Err(wrong()),
    };
    if number == 0.0 {
        return Ok(None);
    }
    Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| wrong())
}

/// How [`parse_timeout`] reads it.
pub(crate) fn show_timeout(limit: Option<Duration>) -> String {
    match limit {
        None => "0".to_string(),
        Some(limit) => format!("{}ms", limit.as_secs_f64() * 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time() {
        let parsed = |text| parse_timeout(text).unwrap();
        assert_eq!(parsed("1500"), Some(Duration::from_millis(1500)));
        assert_eq!(parsed(" 2 min "), Some(Duration::from_secs(120)));
        assert_eq!(parsed("0.5s"), Some(Duration::from_millis(500)));
        assert_eq!(parsed("0"), None);
        assert_eq!(parsed(&show_timeout(parsed("0.5s"))), Some(Duration::from_millis(500)));
        for wrong in ["", "soon", "-5", "5 weeks", "1e400"] {
            assert!(parse_timeout(wrong).is_err(), "{wrong}");
        }
    }
}
