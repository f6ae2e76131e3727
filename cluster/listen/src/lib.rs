//! Accepting connections for a gRPC server, so many at most: [`incoming`].
//!
//! Each connection has a [`Watch`], which lives as long as the connection and may end it. Calls see
//! what the watch says of their connection ([`Connected`]).

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::transport::server::Connected;

/// The pause after a connection could not be accepted, for want of files perhaps.
const PAUSE: Duration = Duration::from_millis(100);

/// What is known of a connection beside its bytes.
pub trait Watch: Unpin {
    /// What calls are told of their connection.
    type Info: Clone + Send + Sync + 'static;

    /// What calls are told of their connection.
    fn info(&self) -> Self::Info;

    /// Called before each read and write; an error ends the connection.
    fn check(&mut self, cx: &mut Context<'_>) -> Result<()>;
}

/// Nothing is known of a connection, and it may stay.
impl Watch for () {
    type Info = ();

    fn info(&self) -> Self::Info {}

    fn check(&mut self, _cx: &mut Context<'_>) -> Result<()> {
        Ok(())
    }
}

/// A connection, which has one of the places.
pub struct Socket<W> {
    stream: TcpStream,
    watch: W,
    _place: OwnedSemaphorePermit,
}

impl<W> Socket<W> {
    /// Its watch.
    pub fn watch(&self) -> &W {
        &self.watch
    }
}

/// The connections that come; of those that are open, at most so many. Further ones are closed at
/// once.
pub fn incoming<W>(
    listener: TcpListener,
    most: usize,
    watch: impl Fn() -> W,
) -> impl Stream<Item = Result<Socket<W>>> {
    let places = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
    let first = (listener, places, watch);
    futures::stream::unfold(first, |(listener, places, watch)| async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            // Dropped, it is closed.
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            // Answers are small and wait for nothing; without it they are only slower.
            let _ = stream.set_nodelay(true);
            let socket = Socket { stream, watch: watch(), _place: place };
            return Some((Ok(socket), (listener, places, watch)));
        }
    })
}

impl<W: Watch> Connected for Socket<W> {
    type ConnectInfo = W::Info;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.watch.info()
    }
}

impl<W: Watch> AsyncRead for Socket<W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        self.watch.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<W: Watch> AsyncWrite for Socket<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        self.watch.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.watch.check(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.watch.check(cx)?;
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
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn further_connections_are_closed_until_one_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut connections = std::pin::pin!(incoming(listener, 1, || ()));
        let first = TcpStream::connect(address).await.unwrap();
        let socket = connections.next().await.unwrap().unwrap();
        let mut further = TcpStream::connect(address).await.unwrap();
        let next = tokio::time::timeout(Duration::from_millis(200), connections.next()).await;
        assert!(next.is_err());
        assert_eq!(further.read(&mut [0]).await.unwrap(), 0);
        drop((first, socket));
        let _third = TcpStream::connect(address).await.unwrap();
        assert!(connections.next().await.unwrap().is_ok());
    }
}
