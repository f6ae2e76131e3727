//! Which requests are answered: [`Guard`].
//!
//! The page is served to the programs of one machine, but these include browsers that show the
//! pages of others. Three things keep those out, each by itself:
//!
//! * Calls need a random token in a header. A page of another origin cannot set that header: a
//!   browser asks first (CORS), and is never allowed to.
//! * The `Host` must be a name of this machine's loopback. After DNS rebinding it is another one.
//! * `Origin` and `Sec-Fetch-Site`, which browsers set, must be those of the page itself.
//!
//! The files of the page are served without a token: they are the same for everybody, and the token
//! is behind the `#` of the address, which browsers do not send.

use super::http::Request;
use std::fmt::Write;
use std::io::Read;
use subtle::ConstantTimeEq;

/// Random bytes of a token.
const TOKEN_BYTES: usize = 24;
/// How a call shows the token.
const SCHEME: &str = "Bearer ";

/// The secret of one run of the program.
pub struct Token(String);

impl Token {
    /// A new one, from the system's random numbers.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let mut text = String::with_capacity(2 * TOKEN_BYTES);
        for byte in bytes {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        Ok(Token(text))
    }

    /// The text that opens the page.
    pub fn text(&self) -> &str {
        &self.0
    }

    fn is(&self, shown: &str) -> bool {
        self.0.as_bytes().ct_eq(shown.as_bytes()).into()
    }
}

/// See the [module documentation](self).
pub struct Guard {
    token: Token,
}

/// The status and the reason of a refusal.
pub type Refusal = (u16, &'static str);

impl Guard {
    pub fn new(token: Token) -> Self {
        Guard { token }
    }

    /// Whether a request may have a file of the page.
    pub fn admit(&self, request: &Request) -> Result<(), Refusal> {
        match request.header("host") {
            Some(host) if is_loopback(host) => Ok(()),
            _ => Err((421, "the Host is not 127.0.0.1, [::1] or localhost")),
        }
    }

    /// Whether a request may call.
    pub fn admit_call(&self, request: &Request) -> Result<(), Refusal> {
        self.admit(request)?;
        let foreign = Err((403, "the call comes from another page"));
        if request.has_header("origin") {
            let own = request.header("host").map(|host| format!("http://{host}"));
            if own.as_deref() != request.header("origin") {
                return foreign;
            }
        }
        if request.has_header("sec-fetch-site")
            && request.header("sec-fetch-site") != Some("same-origin")
        {
            return foreign;
        }
        let shown = request.header("authorization").and_then(|value| value.strip_prefix(SCHEME));
        match shown {
            Some(shown) if self.token.is(shown) => Ok(()),
            _ => Err((401, "the token is missing or wrong: open the address that was printed")),
        }
    }
}

/// Whether a `Host` names this machine's loopback. The port may be another one, as behind a tunnel.
fn is_loopback(host: &str) -> bool {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| {
        let rest = host
            .get(..name.len())
            .filter(|begin| begin.eq_ignore_ascii_case(name))
            .map(|_| &host[name.len()..]);
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_a_host() {
        for host in ["127.0.0.1", "127.0.0.1:4477", "localhost:1", "LocalHost", "[::1]:80"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "127.0.0.1:80.evil",
            "127.0.0.1:",
            "evil:127.0.0.1",
            "lécalhost",
            "0.0.0.0:80",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn tokens_are_random_and_compared_whole() {
        let (one, two) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(one.text().len(), 2 * TOKEN_BYTES);
        assert!(one.is(one.text()) && !one.is(two.text()) && !one.is(&one.text()[1..]));
    }
}
