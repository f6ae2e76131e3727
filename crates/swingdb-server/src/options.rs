//! The command line, checked: [`Options`].
//!
//! Without TLS and a token the server listens on loopback addresses only. Every user of the
//! machine can connect there and read the database; a token keeps others out.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::limits::Limits;
use crate::session::Source;
use crate::token::Token;

const EXAMPLES: &str = "Examples:
  swingdb-server taxi                       psql -h 127.0.0.1 -d taxi
  swingdb-server taxi --port 0              a free port, which is printed
  swingdb-server taxi --listen 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --token-file token
  swingdb-server taxi --memory 2GB --statement-timeout 30 --max-sessions 20";

/// Serves snapshots of a database to programs that speak the PostgreSQL protocol.
///
/// Each session reads the newest shared state of the database, in each statement or for a whole
/// transaction, while its one writer writes. Sessions cannot change the database. The server needs
/// no rights on it but to read, and the database needs no server.
#[derive(Debug, Parser)]
#[command(name = "swingdb-server", version, after_help = EXAMPLES, after_long_help = EXAMPLES)]
pub struct Options {
    /// The database to serve
    pub name: String,
    /// Directory of the databases (default: $SWINGDB_HOME, else /dev/shm/swingdb-<uid>)
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Address to listen on; others than loopback need --tls-cert, --tls-key and a token
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub listen: IpAddr,
    /// Port of the PostgreSQL protocol; 0: a free one, which is printed
    #[arg(long, value_name = "PORT", default_value_t = 5432)]
    pub port: u16,
    /// Certificates of the server, PEM; with them, only TLS is spoken
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the server, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Secret that clients give as their password, at least 16 characters; others who may list
    /// processes can read it, so prefer --token-file or $SWINGDB_SERVER_TOKEN
    #[arg(long, value_name = "SECRET", conflicts_with = "token_file")]
    pub token: Option<String>,
    /// File with that secret
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The most sessions at a time
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub max_sessions: usize,
    /// Memory that operators of the statements of one session may hold: '4GB', '20%'
    #[arg(long, value_name = "BYTES", default_value = "50%")]
    pub memory: String,
    /// Seconds that a statement and reading its rows may take; 0: without end
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub statement_timeout: f64,
    /// Let statements read files and other databases, with the rights of the server
    #[arg(long)]
    pub external_access: bool,
}

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    /// It would be open to the network.
    #[error(
        "{0} can be reached by other machines: that needs --tls-cert, --tls-key and a token \
         (--token-file, --token or $SWINGDB_SERVER_TOKEN)"
    )]
    Open(IpAddr),
    /// The secret is no secret.
    #[error("the token has fewer than {} characters", Token::MIN_LEN)]
    ShortToken,
    /// A file cannot be read, or is of another kind.
    #[error("{}: {message}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem.
        message: String,
    },
    /// Certificates and key do not fit each other.
    #[error("the certificate cannot be used: {0}")]
    Tls(#[from] rustls::Error),
    /// A number that means nothing.
    #[error("--statement-timeout {0} is no number of seconds")]
    Timeout(f64),
}

impl Wrong {
    fn file(path: &Path, message: impl ToString) -> Self {
        Self::File { path: path.to_path_buf(), message: message.to_string() }
    }
}

impl Options {
    /// Where to listen.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.listen, self.port)
    }

    /// Which database is served, and how.
    pub fn source(&self) -> Result<Source, Wrong> {
        let timeout = Duration::try_from_secs_f64(self.statement_timeout);
        let timeout = timeout.map_err(|_| Wrong::Timeout(self.statement_timeout))?;
        let limits = Limits {
            sessions: self.max_sessions,
            memory: self.memory.clone(),
            statement_timeout: (!timeout.is_zero()).then_some(timeout),
            external_access: self.external_access,
        };
        Ok(Source { home: self.home.clone(), name: self.name.clone(), limits })
    }

    /// The secret of the command line, a file or the environment.
    pub fn token(&self) -> Result<Option<Token>, Wrong> {
        let secret = match (&self.token, &self.token_file) {
            (Some(secret), _) => Some(secret.clone()),
            (None, Some(file)) => {
                let text = std::fs::read_to_string(file);
                Some(text.map_err(|error| Wrong::file(file, error))?)
            }
            (None, None) => std::env::var("SWINGDB_SERVER_TOKEN").ok(),
        };
        let token = secret.map(|secret| Token::new(&secret).ok_or(Wrong::ShortToken));
        token.transpose()
    }

    /// How TLS is spoken.
    pub fn tls(&self) -> Result<Option<Arc<ServerConfig>>, Wrong> {
        let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let certificates = CertificateDer::pem_file_iter(cert);
        let certificates = certificates.and_then(|all| all.collect::<Result<Vec<_>, _>>());
        let certificates = certificates.map_err(|error| Wrong::file(cert, error))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| Wrong::file(key, error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certificates, secret)?;
        Ok(Some(Arc::new(config)))
    }

    /// Refuses to be open to other machines without TLS and a token.
    pub fn check(&self, tls: bool, token: bool) -> Result<(), Wrong> {
        match self.listen.is_loopback() || (tls && token) {
            true => Ok(()),
            false => Err(Wrong::Open(self.listen)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_need_tls_and_a_token() {
        let options = |listen: &str| {
            Options::try_parse_from(["swingdb-server", "taxi", "--listen", listen]).unwrap()
        };
        assert!(options("127.0.0.1").check(false, false).is_ok());
        assert!(options("::1").check(false, false).is_ok());
        for (tls, token) in [(false, false), (true, false), (false, true)] {
            assert!(matches!(options("0.0.0.0").check(tls, token), Err(Wrong::Open(_))));
            assert!(matches!(options("::").check(tls, token), Err(Wrong::Open(_))));
        }
        assert!(options("0.0.0.0").check(true, true).is_ok());
        let alone = ["swingdb-server", "taxi", "--tls-cert", "x"];
        assert!(Options::try_parse_from(alone).is_err());
    }
}
