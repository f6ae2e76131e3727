//! The command line of `swingdb-node`, checked.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;

/// The shortest secret that is taken.
pub const MIN_TOKEN_LEN: usize = 16;

/// Serves the databases of this machine to coordinators of a cluster.
#[derive(Debug, Parser)]
#[command(name = "swingdb-node", version)]
pub struct Options {
    /// Address to listen on; a port of 0 is a free one, which is printed
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:7411")]
    pub listen: SocketAddr,
    /// Directory of the databases (default: $SWINGDB_HOME, else /dev/shm/swingdb-<uid>)
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// A database that this node owns, so that the cluster can change it; made if it is missing
    #[arg(long = "write", value_name = "DATABASE")]
    pub writes: Vec<String>,
    /// File with the secret that coordinators and nodes show each other, at least 16 characters
    /// (default: $SWINGDB_CLUSTER_TOKEN, else none)
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Why the node does not start.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    /// It would be open to the network.
    #[error(
        "{0} can be reached by other machines, and this version of swingdb-node speaks no TLS: \
         listen on a loopback address, and let an encrypted tunnel lead there"
    )]
    Open(SocketAddr),
    /// The secret is no secret.
    #[error("the token has fewer than {MIN_TOKEN_LEN} characters")]
    ShortToken,
    /// A file cannot be read.
    #[error("{}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem.
        error: std::io::Error,
    },
}

impl Options {
    /// Refuses to be open to other machines.
    pub fn check(&self) -> Result<(), Wrong> {
        match self.listen.ip().is_loopback() {
            true => Ok(()),
            false => Err(Wrong::Open(self.listen)),
        }
    }

    /// The secret of the file or the environment.
    pub fn token(&self) -> Result<Option<String>, Wrong> {
        token(self.token_file.as_deref())
    }
}

/// The secret of a file or the environment.
pub fn token(file: Option<&std::path::Path>) -> Result<Option<String>, Wrong> {
    let secret = match file {
        Some(file) => Some(
            std::fs::read_to_string(file)
                .map_err(|error| Wrong::File { path: file.to_path_buf(), error })?,
        ),
        None => std::env::var("SWINGDB_CLUSTER_TOKEN").ok(),
    };
    let secret = secret.map(|secret| secret.trim().to_string());
    match secret {
        Some(secret) if secret.len() < MIN_TOKEN_LEN => Err(Wrong::ShortToken),
        secret => Ok(secret),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_served() {
        let options = |listen| Options::try_parse_from(["swingdb-node", "--listen", listen]);
        assert!(options("127.0.0.1:0").unwrap().check().is_ok());
        assert!(options("[::1]:0").unwrap().check().is_ok());
        assert!(matches!(options("0.0.0.0:1").unwrap().check(), Err(Wrong::Open(_))));
        assert!(matches!(options("10.0.0.1:1").unwrap().check(), Err(Wrong::Open(_))));
    }
}
