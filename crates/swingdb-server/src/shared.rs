//! What all connections of a server share: [`Shared`].

use std::sync::Arc;

use rustls::ServerConfig;

use crate::registry::Registry;
use crate::session::Source;
use crate::token::Token;

/// Shared by all connections.
pub struct Shared {
    /// The database that is served.
    pub source: Source,
    /// The secret that clients have to show; `None`: nothing.
    pub token: Option<Token>,
    /// How TLS is spoken; with it, plain connections are refused.
    pub tls: Option<Arc<ServerConfig>>,
    /// The sessions.
    pub registry: Arc<Registry>,
}
