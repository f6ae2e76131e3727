//! The secret that clients show: [`Token`].

use std::fmt;

use subtle::ConstantTimeEq;

/// A secret that every client has to show. It is never printed.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// The shortest secret that is taken.
    pub const MIN_LEN: usize = 16;

    /// `None` if the secret is too short to be one.
    pub fn new(secret: &str) -> Option<Self> {
        let secret = secret.trim();
        (secret.len() >= Self::MIN_LEN).then(|| Self(secret.to_string()))
    }

    /// Whether a client knows the secret. The time that this takes says nothing about where texts
    /// of the same length differ.
    pub fn is(&self, shown: &str) -> bool {
        self.0.as_bytes().ct_eq(shown.as_bytes()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(...)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_text_is_the_token() {
        let token = Token::new("0123456789abcdef\n").unwrap();
        assert!(token.is("0123456789abcdef"));
        assert!(!token.is("0123456789abcdeF") && !token.is("0123456789abcde") && !token.is(""));
        assert!(Token::new("short").is_none());
        assert_eq!(format!("{token:?}"), "Token(...)");
    }
}
