//! Keeps the network apart from what computes: [`Aside`].
//!
//! An operator may compute for seconds without a pause. On the threads of the network it would hold
//! up the answers to pings, and others would take this node for lost. So requests are answered by
//! the threads of another runtime, and the rows come from there through a short queue.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body as HttpBody, Frame};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::NamedService;

use crate::client::MAX_HEADER_BYTES;

/// Frames of an answer that wait for the network.
const FRAMES: usize = 4;
/// Where an answer says what its error is.
const DETAILS: &str = "grpc-status-details-bin";
/// The most bytes of it. Larger headers break the connection, and the node seems to be lost.
const MAX_DETAILS_BYTES: usize = MAX_HEADER_BYTES as usize / 2;
/// What an answer says instead, in the form of its header.
const TOO_LONG: &str = "an%20error%20whose%20text%20is%20too%20long%20to%20be%20sent";

/// A service whose work is done by the threads of a runtime.
#[derive(Clone)]
pub struct Aside<S> {
    inner: S,
    threads: Handle,
}

impl<S> Aside<S> {
    /// `inner`, on the threads of a runtime.
    pub fn new(inner: S, threads: Handle) -> Self {
        Self { inner, threads }
    }
}

impl<S: NamedService> NamedService for Aside<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Aside<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let fresh = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, fresh);
        let (sender, receiver) = channel(FRAMES);
        // Dropped with the future: then nobody waits for the answer any more.
        let work = self.threads.spawn(async move {
            let Ok(response) = ready.call(request).await;
            let (mut parts, body) = response.into_parts();
            shorten(&mut parts.headers);
            (parts, body)
        });
        let threads = self.threads.clone();
        let work = Ends(work);
        Box::pin(async move {
            let mut work = work;
            match (&mut work.0).await {
                Ok((parts, body)) => {
                    threads.spawn(hand_over(body, sender));
                    Ok(Response::from_parts(parts, Body::new(Queue(receiver))))
                }
                Err(panic) => Ok(Status::internal(panic.to_string()).into_http()),
            }
        })
    }
}

/// A task that ends when nobody waits for it.
struct Ends<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for Ends<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Leaves out what is said of an error where that is too long. Errors may quote any value.
fn shorten(headers: &mut HeaderMap) {
    if headers.get(DETAILS).is_some_and(|said| said.len() > MAX_DETAILS_BYTES) {
        headers.remove(DETAILS);
        headers.insert("grpc-message", HeaderValue::from_static(TOO_LONG));
    }
}

type Framed = Result<Frame<Bytes>, Status>;

/// Puts the frames of an answer into the queue, until the answer ends or nobody wants it.
async fn hand_over(body: Body, queue: Sender<Framed>) {
    let mut body = std::pin::pin!(body);
    loop {
        let next = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx));
        let frame = tokio::select! {
            biased;
            () = queue.closed() => return,
            frame = next => frame,
        };
        let Some(mut frame) = frame else { return };
        if let Ok(frame) = &mut frame
            && let Some(trailers) = frame.trailers_mut()
        {
            shorten(trailers);
        }
        if queue.send(frame).await.is_err() {
            return;
        }
    }
}

/// The frames of an answer as the network takes them.
struct Queue(Receiver<Framed>);

impl HttpBody for Queue {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.0.poll_recv(cx)
    }
}
