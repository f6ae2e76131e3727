//! Accepting connections: [`incoming`]. Each has a [`Client`], which ends with it.
//!
//! A connection has to make a call that is let in within a time ([`PATIENCE`]), TLS included; then
//! it may stay silent for as long as it likes. So nobody without the token keeps others out.

use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tonic::transport::server::Connected;

use crate::session::{Client, Shared};

/// The most connections that are open beside those of sessions: clients that have not shown their
/// token yet. Further ones are closed at once.
const SPARE: usize = 64;
/// The pause after a connection could not be accepted, for want of files perhaps.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a connection may take to its first call that is let in; as long as a client of
/// PostgreSQL may take to say who it is.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A connection of a client.
pub struct Socket {
    stream: TcpStream,
    client: Arc<Client>,
    /// When it is closed; `None`: a call has been let in.
    closes: Option<Pin<Box<Sleep>>>,
    _place: OwnedSemaphorePermit,
}

/// The connections that come; of at most so many sessions.
pub fn incoming(
    listener: TcpListener,
    shared: Arc<Shared>,
    sessions: usize,
) -> impl Stream<Item = Result<Socket>> {
    patient(listener, shared, sessions, PATIENCE)
}

fn patient(
    listener: TcpListener,
    shared: Arc<Shared>,
    sessions: usize,
    patience: Duration,
) -> impl Stream<Item = Result<Socket>> {
    let most = sessions.saturating_add(SPARE).min(Semaphore::MAX_PERMITS);
    let places = Arc::new(Semaphore::new(most));
    let first = (listener, shared, places);
    futures::stream::unfold(first, move |(listener, shared, places)| async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            // Dropped, it is closed.
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            // Answers are small and wait for nothing; without it they are only slower.
            let _ = stream.set_nodelay(true);
            let closes = Some(Box::pin(tokio::time::sleep(patience)));
            let socket = Socket { stream, client: Client::new(&shared), closes, _place: place };
            return Some((Ok(socket), (listener, shared, places)));
        }
    })
}

impl Socket {
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

impl Connected for Socket {
    type ConnectInfo = Arc<Client>;

    fn connect_info(&self) -> Self::ConnectInfo {
        Arc::clone(&self.client)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;
    use swingdb_server::limits::Limits;
    use swingdb_server::session::Source;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

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
        socket.client.admit();
        tokio::time::sleep(patience * 2).await;
        known.write_all(b"x").await.unwrap();
        assert_eq!(socket.read(&mut byte).await.unwrap(), 1);
    }
}
