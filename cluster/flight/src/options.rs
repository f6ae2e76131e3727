//! The command line: that of `swingdb-server`, with other words and another port.

use clap::{Command, CommandFactory, FromArgMatches};
use swingdb_server::options::{Options, Wrong};
use tonic::transport::{Identity, ServerTlsConfig};

/// The port that clients of Flight SQL expect.
const PORT: &str = "31337";
const EXAMPLES: &str = "Examples:
  swingdb-flight taxi                       clients connect to grpc://127.0.0.1:31337
  swingdb-flight taxi --port 0              a free port, which is printed
  swingdb-flight taxi --listen 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --token-file token
  swingdb-flight taxi --memory 2GB --statement-timeout 30 --max-sessions 20";

/// The command, with its help.
pub fn command() -> Command {
    let about = "Serves snapshots of a database to Arrow Flight SQL clients";
    Options::command()
        .name("swingdb-flight")
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .long_about(format!(
            "{about}.\n\nEach connection is a session. It reads the newest shared state of the \
             database, in each statement or for a whole transaction, while its one writer writes. \
             Sessions cannot change the database. The server needs no rights on it but to read, \
             and the database needs no server."
        ))
        .after_help(EXAMPLES)
        .after_long_help(EXAMPLES)
        .mut_arg("port", |port| {
            port.default_value(PORT).help("Port of Flight SQL; 0: a free one, which is printed")
        })
        .mut_arg("token", |token| {
            token.help(
                "Secret that clients show as bearer token or password, at least 16 characters; \
                 others who may list processes can read it, so prefer --token-file or \
                 $SWINGDB_SERVER_TOKEN",
            )
        })
}

/// The arguments of this process; ends it where they are wrong.
pub fn parse() -> Options {
    let mut command = command();
    let matches = command.get_matches_mut();
    Options::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
}

/// How connections are encrypted; `None`: they are not.
pub fn tls(options: &Options) -> Result<Option<ServerTlsConfig>, Wrong> {
    // Checks that the files are what they have to be.
    if options.tls()?.is_none() {
        return Ok(None);
    }
    let (Some(certificate), Some(key)) = (&options.tls_cert, &options.tls_key) else {
        return Ok(None);
    };
    let read = |path: &std::path::PathBuf| {
        std::fs::read(path)
            .map_err(|error| Wrong::File { path: path.clone(), message: error.to_string() })
    };
    let identity = Identity::from_pem(read(certificate)?, read(key)?);
    Ok(Some(ServerTlsConfig::new().identity(identity)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Options {
        let all = [&["swingdb-flight"], arguments].concat();
        Options::from_arg_matches(&command().try_get_matches_from(all).unwrap()).unwrap()
    }

    #[test]
    fn the_options_are_those_of_the_other_server_with_another_port() {
        command().debug_assert();
        assert_eq!(read(&["taxi"]).port, 31337);
        let options = read(&["taxi", "--port", "0", "--max-sessions", "3"]);
        assert_eq!((options.port, options.max_sessions), (0, 3));
        assert!(read(&["taxi", "--listen", "0.0.0.0"]).check(false, false).is_err());
        let help = command().render_long_help().to_string();
        assert!(!help.contains("PostgreSQL") && !help.contains("psql"), "{help}");
        assert!(help.contains("swingdb-flight taxi"), "{help}");
    }
}
