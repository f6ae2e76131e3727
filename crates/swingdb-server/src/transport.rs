//! Bytes of a client, plain or in TLS: [`Transport`].

use std::io::{Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A connection, plain or in TLS. One thread reads and writes.
pub enum Transport {
    /// As it comes.
    Plain(TcpStream),
    /// In TLS.
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Transport {
    /// The same connection in TLS, of which the client has asked already. The handshake takes place
    /// with the first bytes.
    pub fn into_tls(self, config: &Arc<ServerConfig>) -> Result<Self> {
        let Self::Plain(stream) = self else { return Ok(self) };
        let connection =
            ServerConnection::new(Arc::clone(config)).map_err(std::io::Error::other)?;
        Ok(Self::Tls(Box::new(StreamOwned::new(connection, stream))))
    }

    /// Whether it is in TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref(),
        }
    }

    /// How long a read may wait; `None`: without end.
    pub fn set_read_patience(&self, patience: Option<Duration>) -> Result<()> {
        self.socket().set_read_timeout(patience)
    }

    /// How long a write may wait for the client to read; `None`: without end.
    pub fn set_write_patience(&self, patience: Option<Duration>) -> Result<()> {
        self.socket().set_write_timeout(patience)
    }

    /// Says goodbye. Errors change nothing: the other side may be gone.
    pub fn close(&mut self) {
        if let Self::Tls(stream) = self {
            stream.conn.send_close_notify();
        }
        let _ = self.flush();
        let _ = self.socket().shutdown(Shutdown::Both);
    }
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
