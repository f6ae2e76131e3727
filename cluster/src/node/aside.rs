//! Keeps the network apart from what computes: [`Aside`].
//!
//! An operator may compute for seconds without a pause. On the threads of the network it would hold
//! up the answers to pings, and others would take this node for lost. So requests are answered by
//! the threads of another runtime, and the rows come from there through a short queue.
//!
//! An answer may end early without an error: tasks of `datafusion-distributed` that panic just stop
//! sending. So an answer that looks whole is an error if the process has had a panic meanwhile
//! ([`count_panics`]).

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

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

/// How an answer says whether it is whole, and why not.
const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";
/// The status of a defect, and its text in the form of a header.
const INTERNAL: &str = "13";
const DEFECT: &str = "a%20defect%20of%20this%20node%20has%20ended%20a%20part%20of%20a%20plan";

/// How many panics the process has had.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Lets panics be counted from now on. To be called once, at the start of the process.
pub fn count_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        before(panic);
    }));
}

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
        let panics = PANICS.load(Ordering::SeqCst);
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
                    threads.spawn(hand_over(body, sender, panics));
                    Ok(Response::from_parts(parts, Body::new(Queue::new(receiver))))
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
        headers.insert(MESSAGE, HeaderValue::from_static(TOO_LONG));
    }
}

/// Makes the end of an answer that looks whole one of a defect.
fn fail(trailers: &mut HeaderMap) {
    if trailers.get(STATUS).is_some_and(|status| status == "0") {
        trailers.insert(STATUS, HeaderValue::from_static(INTERNAL));
        trailers.insert(MESSAGE, HeaderValue::from_static(DEFECT));
    }
}

type Framed = Result<Frame<Bytes>, Status>;

/// Puts the frames of an answer into the queue, until the answer ends or nobody wants it; `None` is
/// its end. `panics`: how many there were when the answer began.
async fn hand_over(body: Body, queue: Sender<Option<Framed>>, panics: u64) {
    let mut body = std::pin::pin!(body);
    loop {
        let next = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx));
        let frame = tokio::select! {
            biased;
            () = queue.closed() => return,
            frame = next => frame,
        };
        let Some(mut frame) = frame else {
            // Nobody may want it any more.
            let _ = queue.send(None).await;
            return;
        };
        if let Ok(frame) = &mut frame
            && let Some(trailers) = frame.trailers_mut()
        {
            shorten(trailers);
            if PANICS.load(Ordering::SeqCst) != panics {
                fail(trailers);
            }
        }
        if queue.send(Some(frame)).await.is_err() {
            return;
        }
    }
}

/// The frames of an answer as the network takes them. Only behind `None` they are whole.
struct Queue {
    frames: Receiver<Option<Framed>>,
    is_whole: bool,
}

impl Queue {
    fn new(frames: Receiver<Option<Framed>>) -> Self {
        Self { frames, is_whole: false }
    }
}

impl HttpBody for Queue {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_whole {
            return Poll::Ready(None);
        }
        let next = ready!(self.frames.poll_recv(cx));
        self.is_whole = next.as_ref().is_none_or(Option::is_none);
        let broken = || Some(Err(Status::internal("an answer broke off in the middle")));
        Poll::Ready(next.unwrap_or_else(broken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn frames(mut queue: Queue) -> Vec<bool> {
        let mut all = Vec::new();
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut queue).poll_frame(cx)).await
        {
            all.push(frame.is_ok());
            if frame.is_err() {
                break;
            }
        }
        all
    }

    #[tokio::test]
    async fn answers_without_an_end_are_errors() {
        for (has_end, expected) in [(true, vec![true]), (false, vec![true, false])] {
            let (sender, receiver) = channel(FRAMES);
            let frame = Frame::data(Bytes::from_static(b"rows"));
            sender.send(Some(Ok(frame))).await.unwrap();
            if has_end {
                sender.send(None).await.unwrap();
            }
            drop(sender);
            assert_eq!(frames(Queue::new(receiver)).await, expected);
        }
    }

    #[test]
    fn what_looks_whole_becomes_an_error() {
        for (said, expected) in [("0", "13"), ("8", "8")] {
            let mut trailers = HeaderMap::new();
            trailers.insert(STATUS, HeaderValue::from_static(said));
            fail(&mut trailers);
            assert_eq!(trailers[STATUS], expected);
        }
    }
}
