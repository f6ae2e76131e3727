//! Connections of clients: [`incoming`]. Each has a [`Client`], which ends with it.
//!
//! A connection has to make a call that is let in within a time ([`PATIENCE`]), TLS included; then
//! it may stay silent for as long as it likes. So nobody without the token keeps others out.

use std::future::Future;
use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use swingdb_listen::{Socket, Watch};
use swingdb_server::listen::SPARE;
use tokio::net::TcpListener;
use tokio::time::Sleep;

use crate::session::{Client, Shared};

/// How long a connection may take to its first call that is let in; as long as a client of
/// PostgreSQL may take to say who it is.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The client of a connection, and how long it may take to be let in.
pub struct Admission {
    client: Arc<Client>,
    /// When the connection is closed; `None`: a call has been let in.
    closes: Option<Pin<Box<Sleep>>>,
}

impl Admission {
    fn new(shared: &Arc<Shared>, patience: Duration) -> Self {
        let closes = Some(Box::pin(tokio::time::sleep(patience)));
        Self { client: Client::new(shared), closes }
    }
}

impl Watch for Admission {
    type Info = Arc<Client>;

    fn info(&self) -> Self::Info {
        Arc::clone(&self.client)
    }

    /// An error where no call has been let in in time.
    fn check(&mut self, cx: &mut Context<'_>) -> Result<()> {
        let Some(closes) = &mut self.closes else { return Ok(()) };
        if self.client.is_admitted() {
            self.closes = None;
            return Ok(());
        }
        match closes.as_mut().poll(cx) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => Err(Error::new(ErrorKind::TimedOut, "no call was let in in time")),
        }
    }
}

/// The connections that come; of at most so many sessions.
pub fn incoming(
    listener: TcpListener,
    shared: Arc<Shared>,
    sessions: usize,
) -> impl Stream<Item = Result<Socket<Admission>>> {
    patient(listener, shared, sessions, PATIENCE)
}

fn patient(
    listener: TcpListener,
    shared: Arc<Shared>,
    sessions: usize,
    patience: Duration,
) -> impl Stream<Item = Result<Socket<Admission>>> {
    let most = sessions.saturating_add(SPARE);
    swingdb_listen::incoming(listener, most, move || Admission::new(&shared, patience))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;
    use swingdb_server::limits::Limits;
    use swingdb_server::session::Source;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn who_is_not_let_in_in_time_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let source = Source { home: None, name: String::new(), limits: Limits::default() };
        let patience = Duration::from_millis(100);
        let connections = patient(listener, Shared::new(source), 1, patience);
        let mut connections = std::pin::pin!(connections);
        let mut silent = TcpStream::connect(address).await.unwrap();
        let mut socket = connections.next().await.unwrap().unwrap();
        let mut byte = [0];
        let error = socket.read(&mut byte).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(socket.write(&byte).await.is_err());
        drop(socket);
        assert_eq!(silent.read(&mut byte).await.unwrap(), 0);
        let mut known = TcpStream::connect(address).await.unwrap();
        let mut socket = connections.next().await.unwrap().unwrap();
        socket.watch().client.admit();
        tokio::time::sleep(patience * 2).await;
        known.write_all(b"x").await.unwrap();
        assert_eq!(socket.read(&mut byte).await.unwrap(), 1);
    }
}
