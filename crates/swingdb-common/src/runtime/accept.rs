//! Accepting connections, each of which gets a thread: [`Acceptor`].

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How long accepting pauses when the system has no room for a connection.
const PAUSE: Duration = Duration::from_millis(50);
/// Address space of a connection's thread: the engine plans deep statements on stacks of its own.
const STACK: usize = 4 << 20;

/// A listening socket.
pub struct Acceptor {
    listener: TcpListener,
    ending: Arc<AtomicBool>,
    /// Connections that are open.
    open: Arc<AtomicUsize>,
    /// The most of them; further ones are closed at once.
    most: usize,
}

/// Ends an [`Acceptor`] from another thread.
#[derive(Clone)]
pub struct Stop {
    address: SocketAddr,
    ending: Arc<AtomicBool>,
}

impl Stop {
    /// Has [`Acceptor::run`] return.
    pub fn stop(&self) {
        self.ending.store(true, Ordering::Release);
        // Wakes the thread that accepts. Where this fails, the listener is gone already.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

impl Acceptor {
    /// Listens at an address, for so many connections at a time.
    pub fn bind(address: SocketAddr, most: usize) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        Ok(Self { listener, ending: Arc::default(), open: Arc::default(), most })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// A handle that ends it.
    pub fn stopper(&self) -> io::Result<Stop> {
        let mut address = self.address()?;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        Ok(Stop { address, ending: Arc::clone(&self.ending) })
    }

    /// Accepts connections until it is stopped, and has each served in a thread so named. A panic
    /// ends its connection; `defect` is what standard error says then.
    pub fn run<Serve>(&self, thread: &str, defect: &'static str, serve: Serve)
    where
        Serve: Fn(TcpStream) + Send + Sync + 'static,
    {
        let serve = Arc::new(serve);
        while !self.ending.load(Ordering::Acquire) {
            match self.listener.accept() {
                Ok(_) if self.ending.load(Ordering::Acquire) => break,
                Ok((stream, _)) => self.start(thread, defect, &serve, stream),
                // The client is gone again, or the process has no room for its connection.
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    fn start<Serve>(
        &self,
        thread: &str,
        defect: &'static str,
        serve: &Arc<Serve>,
        stream: TcpStream,
    ) where
        Serve: Fn(TcpStream) + Send + Sync + 'static,
    {
        let place = Open::new(&self.open);
        if self.open.load(Ordering::Acquire) > self.most {
            return;
        }
        let serve = Arc::clone(serve);
        let work = move || {
            let _place = place;
            if catch_unwind(AssertUnwindSafe(|| serve(stream))).is_err() {
                eprintln!("{defect}");
            }
        };
        let thread = std::thread::Builder::new().name(thread.to_owned()).stack_size(STACK);
        // Without a thread the stream is dropped, which closes it.
        if thread.spawn(work).is_err() {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Counts a connection while it is open.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
