//! A file that names the nodes of a cluster: [`List`].
//!
//! ```text
//! # The cluster of sales.
//! token_file = secrets/token
//! tls_ca = ca.pem
//! 10.0.0.1:7411/sales
//! 10.0.0.2:7411/sales
//! ```
//!
//! A line is a node (`HOST:PORT/DATABASE`; their order is that of the shards), a setting, or a
//! comment. The nodes that have copies of one shard stand on one line, with commas. Paths that are
//! not absolute begin at the folder of the file.

use std::path::{Path, PathBuf};

use crate::cluster::places_of;
use crate::error::{Error, Result};

/// See the [module documentation](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// The nodes of each shard.
    pub nodes: Vec<String>,
    /// The file with the secret of the nodes.
    pub token_file: Option<PathBuf>,
    /// The file with the certificates that those of the nodes are signed by.
    pub tls_ca: Option<PathBuf>,
}

impl List {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let wrong = |line, message| Error::List { file: path.to_path_buf(), line, message };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(0, error.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut list = Self::default();
        for (nth, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            list.take(line, folder).map_err(|message| wrong(nth + 1, message))?;
        }
        if list.nodes.is_empty() {
            return Err(wrong(0, "it names no node".to_string()));
        }
        places_of(&list.nodes).map_err(|error| wrong(0, error.to_string()))?;
        Ok(list)
    }

    fn take(&mut self, line: &str, folder: &Path) -> Result<(), String> {
        let Some((name, value)) = line.split_once('=') else {
            places_of(&[line]).map_err(|error| error.to_string())?;
            self.nodes.push(line.to_string());
            return Ok(());
        };
        let (name, value) = (name.trim(), value.trim());
        let place = match name {
            "token_file" => &mut self.token_file,
            "tls_ca" => &mut self.tls_ca,
            _ => return Err(format!("there is no setting {name:?}; there are token_file, tls_ca")),
        };
        if value.is_empty() {
            return Err(format!("{name} needs the path of a file"));
        }
        if place.is_some() {
            return Err(format!("{name} is set twice"));
        }
        *place = Some(folder.join(value));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_nodes_and_settings() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("nodes");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            List::read(&file).map_err(|error| error.to_string())
        };
        let list =
            read("# a\n\n10.0.0.1:1/a\n tls_ca = ca.pem\n[::1]:2/b\ntoken_file=/t\n").unwrap();
        assert_eq!(list.nodes, ["10.0.0.1:1/a", "[::1]:2/b"]);
        assert_eq!(list.tls_ca, Some(folder.path().join("ca.pem")));
        assert_eq!(list.token_file, Some("/t".into()));
        for (text, line) in [
            ("10.0.0.1:1/a\n10.0.0.1", "line 2"),
            ("a:1/b\ntls = x", "there are token_file, tls_ca"),
            ("a:1/b\ntls_ca =", "line 2"),
            ("tls_ca = a\ntls_ca = b\na:1/b", "twice"),
            ("# nothing", "names no node"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(line) && error.contains("nodes"), "{error}");
        }
        assert!(List::read(&folder.path().join("missing")).is_err());
    }
}
