//! The command line of `swingdb-node`, checked.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use tonic::transport::{Identity, ServerTlsConfig};

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
    /// Most connections that are open at the same time: coordinators have one each, and each other
    /// node; further ones are closed at once
    #[arg(long, value_name = "N", default_value_t = 1024)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: u32,
    /// File with the secret that coordinators and nodes show each other, at least 16 characters
    /// (default: $SWINGDB_CLUSTER_TOKEN, else none)
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// File with this node's certificate (PEM), for its name or address; then it speaks TLS only
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    pub tls_cert: Option<PathBuf>,
    /// File with the private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// File with the certificates (PEM) that those of the other nodes are signed by
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_ca: Option<PathBuf>,
}

/// Why the node does not start.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    /// It would be open to the network.
    #[error(
        "{0} can be reached by other machines: that needs --tls-cert, --tls-key, --tls-ca, and a \
         token (--token-file or $SWINGDB_CLUSTER_TOKEN); without them listen on a loopback address"
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
    /// Refuses to be open to other machines without encryption and a secret.
    pub fn check(&self) -> Result<(), Wrong> {
        let is_safe = self.tls_cert.is_some() && self.token()?.is_some();
        match self.listen.ip().is_loopback() || is_safe {
            true => Ok(()),
            false => Err(Wrong::Open(self.listen)),
        }
    }

    /// How the node encrypts its connections; `None`: it does not.
    pub fn tls(&self) -> Result<Option<ServerTlsConfig>, Wrong> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|error| Wrong::File { path: path.clone(), error })
        };
        let identity = Identity::from_pem(read(certificate)?, read(key)?);
        Ok(Some(ServerTlsConfig::new().identity(identity)))
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
    fn only_this_machine_is_served_without_tls_and_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, "0123456789abcdef").unwrap();
        let token = token.to_str().unwrap();
        let read = |more: &[&str]| {
            let all = [&["swingdb-node", "--token-file", token], more].concat();
            Options::try_parse_from(all).map_err(|error| error.to_string())
        };
        for own in ["127.0.0.1:0", "[::1]:0"] {
            assert!(read(&["--listen", own]).unwrap().check().is_ok());
        }
        let tls = ["--tls-cert", "c", "--tls-key", "k", "--tls-ca", "a"];
        for open in ["0.0.0.0:1", "10.0.0.1:1"] {
            let alone = read(&["--listen", open]).unwrap();
            assert!(matches!(alone.check(), Err(Wrong::Open(_))));
            let safe = read(&[&["--listen", open], &tls[..]].concat()).unwrap();
            assert!(safe.check().is_ok());
        }
        assert!(read(&["--tls-cert", "c", "--tls-key", "k"]).is_err());
        assert!(read(&["--tls-key", "k"]).is_err());
    }
}
