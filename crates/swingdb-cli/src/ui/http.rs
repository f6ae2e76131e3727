//! HTTP/1.1 as far as a page on the same machine needs it: [`Wire`] reads requests and writes
//! responses.
//!
//! `httparse` takes heads apart. Bodies have a `Content-Length`; chunked ones are refused. Every
//! wait has a deadline for the whole head, body or response, so that a client that sends or reads
//! one byte at a time is cut off as well as one that does nothing.

use std::io::{ErrorKind, Read, Result as IoResult, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// The most bytes of a request's first line and headers.
const MAX_HEAD: usize = 16 << 10;
/// The most headers of a request.
const MAX_HEADERS: usize = 64;
/// The most bytes of a request's body: a cell of SQL, and some.
pub const MAX_BODY: usize = 1 << 20;
/// How long a connection may wait for its next request.
const IDLE: Duration = Duration::from_secs(15);
/// How long a head may take from its first byte on, and a body after it.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a response may take to be read.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// How much of a refused request is read before the connection is closed.
const MAX_DRAIN: usize = 256 << 10;
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

/// A request.
pub struct Request {
    pub method: String,
    /// Without the query.
    pub path: String,
    query: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the client may send another one on the same connection.
    pub keeps: bool,
}

impl Request {
    /// The value of a header that is there once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let (_, value) = values.next()?;
        values.next().is_none().then_some(value)
    }

    /// Whether there is such a header, be it more than once.
    pub fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// A number of the query: `?name=7`.
    pub fn number(&self, name: &str) -> Option<u64> {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(known, _)| *known == name)?.1.parse().ok()
    }
}

/// Why there is no request.
#[derive(Debug, PartialEq, Eq)]
pub enum Broken {
    /// The client is gone, or has nothing to ask.
    Closed,
    /// It says something that is not understood or too much: the status and the reason.
    Refused(u16, &'static str),
}

/// A response.
pub struct Response {
    pub status: u16,
    kind: &'static str,
    body: std::borrow::Cow<'static, [u8]>,
}

impl Response {
    /// A file of the page.
    pub fn file(kind: &'static str, text: &'static str) -> Self {
        Response { status: 200, kind, body: text.as_bytes().into() }
    }

    /// JSON.
    pub fn json(status: u16, text: String) -> Self {
        Response { status, kind: "application/json", body: text.into_bytes().into() }
    }

    /// An error, as JSON.
    pub fn error(status: u16, reason: &str) -> Self {
        Response::json(status, serde_json::json!({"error": reason}).to_string())
    }

    fn head(&self, keeps: bool) -> String {
        // The page loads what this program serves, and nothing else; no other page may show it.
        format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\n\
             Connection: {}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
             Referrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n\
             Cross-Origin-Opener-Policy: same-origin\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\n\
             Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; \
             img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'\r\n\r\n",
            self.status,
            phrase(self.status),
            self.kind,
            self.body.len(),
            if keeps { "keep-alive" } else { "close" },
        )
    }
}

fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

/// A connection: requests in, responses out.
pub struct Wire {
    stream: TcpStream,
    /// What has come and is not used yet.
    come: Vec<u8>,
}

impl Wire {
    pub fn new(stream: TcpStream) -> Self {
        // A response is one write; what is left of it must not wait for an acknowledgement.
        let _ = stream.set_nodelay(true);
        Wire { stream, come: Vec::new() }
    }

    /// The next request.
    pub fn request(&mut self) -> Result<Request, Broken> {
        if self.come.is_empty() {
            self.fill(Instant::now() + IDLE).map_err(|_| Broken::Closed)?;
        }
        let late = |error: std::io::Error| match error.kind() {
            ErrorKind::TimedOut => Broken::Refused(408, "the request takes too long"),
            _ => Broken::Closed,
        };
        let until = Instant::now() + PATIENCE;
        let (mut request, length) = loop {
            if let Some((request, head, length)) = parse(&self.come)? {
                self.come.drain(..head);
                break (request, length);
            }
            if self.come.len() > MAX_HEAD {
                return Err(Broken::Refused(431, "the head of the request is too long"));
            }
            self.fill(until).map_err(late)?;
        };
        let until = Instant::now() + PATIENCE;
        while self.come.len() < length {
            self.fill(until).map_err(late)?;
        }
        let rest = self.come.split_off(length);
        request.body = std::mem::replace(&mut self.come, rest);
        Ok(request)
    }

    /// Waits for more bytes; an error at the end of the stream and at the deadline.
    fn fill(&mut self, until: Instant) -> IoResult<()> {
        let mut piece = [0; 16 << 10];
        self.stream.set_read_timeout(Some(left(until)?))?;
        let count = loop {
            match self.stream.read(&mut piece) {
                Ok(count) => break count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(ErrorKind::TimedOut.into());
                }
                Err(error) => return Err(error),
            }
        };
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.come.extend_from_slice(&piece[..count]);
        Ok(())
    }

    /// Sends a response.
    pub fn respond(&mut self, response: &Response, keeps: bool) -> IoResult<()> {
        let mut bytes = response.head(keeps).into_bytes();
        bytes.extend_from_slice(&response.body);
        let until = Instant::now() + WRITE_PATIENCE;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            self.stream.set_write_timeout(Some(left(until)?))?;
            match self.stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Closes the connection. What the client has sent meanwhile is read first: unread, it would
    /// have the system throw the response away.
    pub fn close(mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        let until = Instant::now() + DRAIN_PATIENCE;
        self.come.clear();
        while self.come.len() < MAX_DRAIN && self.fill(until).is_ok() {}
    }
}

/// The time up to a deadline; an error when that is over.
fn left(until: Instant) -> IoResult<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The request that `bytes` begin with, the length of its head, and that of its body; `None` when
/// the head is not complete.
fn parse(bytes: &[u8]) -> Result<Option<(Request, usize, usize)>, Broken> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let head = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Broken::Refused(431, "the request has too many headers"));
        }
        Err(_) => return Err(Broken::Refused(400, "this is no HTTP request")),
    };
    if head > MAX_HEAD {
        return Err(Broken::Refused(431, "the head of the request is too long"));
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let target = parsed.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let request = Request {
        method: parsed.method.unwrap_or_default().to_string(),
        path: path.to_string(),
        query: query.to_string(),
        headers: parsed.headers.iter().map(|h| (h.name.to_string(), text(h.value))).collect(),
        body: Vec::new(),
        keeps: false,
    };
    if request.has_header("transfer-encoding") {
        return Err(Broken::Refused(411, "a body needs a Content-Length"));
    }
    let length = match (request.has_header("content-length"), request.header("content-length")) {
        (false, _) => 0,
        // More than one of them is how requests are smuggled.
        (true, value) => value
            .filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|value| value.parse::<usize>().ok())
            .ok_or(Broken::Refused(400, "the Content-Length is no number"))?,
    };
    if length > MAX_BODY {
        return Err(Broken::Refused(413, "the body of the request is too long"));
    }
    let closes = request.header("connection").is_some_and(|v| v.eq_ignore_ascii_case("close"));
    let keeps = parsed.version == Some(1) && !closes;
    Ok(Some((Request { keeps, ..request }, head, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Option<u16> {
        match parse(text.as_bytes()) {
            Err(Broken::Refused(status, _)) => Some(status),
            _ => None,
        }
    }

    #[test]
    fn heads_are_taken_apart() {
        let text =
            "POST /api/x?offset=7&limit=x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
        let (request, head, length) = parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/api/x"));
        assert_eq!((request.number("offset"), request.number("limit")), (Some(7), None));
        assert_eq!((request.header("HOST"), request.header("x")), (Some("h"), None));
        assert_eq!((text.len() - head, length, request.keeps), (3, 3, true));
        assert!(matches!(parse(b"GET / HTTP/1.1\r\nHos"), Ok(None)));
        let (old, ..) = parse(b"GET / HTTP/1.0\r\n\r\n").unwrap().unwrap();
        assert!(!old.keeps);
        let (last, ..) = parse(b"GET / HTTP/1.1\r\nConnection: Close\r\n\r\n").unwrap().unwrap();
        assert!(!last.keeps);
    }

    #[test]
    fn doubtful_requests_are_refused() {
        assert_eq!(refused("nonsense\r\n\r\n"), Some(400));
        let with = |headers: &str| refused(&format!("POST / HTTP/1.1\r\n{headers}\r\n\r\n"));
        assert_eq!(with("Transfer-Encoding: chunked"), Some(411));
        assert_eq!(with("Content-Length: 1\r\nContent-Length: 2"), Some(400));
        assert_eq!(with("Content-Length: +1"), Some(400));
        assert_eq!(with("Content-Length: 99999999999999999999999"), Some(400));
        assert_eq!(with(&format!("Content-Length: {}", MAX_BODY + 1)), Some(413));
        assert_eq!(with(&"A: b\r\n".repeat(MAX_HEADERS + 1)), Some(431));
        assert_eq!(with(&format!("A: {}", "b".repeat(MAX_HEAD))), Some(431));
    }

    #[test]
    fn every_response_has_its_policy() {
        let head = Response::error(404, "<script>").head(false);
        assert!(head.starts_with("HTTP/1.1 404 Not Found\r\n") && head.ends_with("\r\n\r\n"));
        assert!(head.contains("default-src 'none'; script-src 'self'") && head.contains("nosniff"));
        assert!(head.contains("Connection: close") && !head.contains("Access-Control"));
    }
}
