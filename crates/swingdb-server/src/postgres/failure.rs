//! Why a message is not answered as it asks: [`Failure`].

use crate::postgres::sqlstate::Refusal;
use crate::postgres::wire::End;

/// Why a message is not answered as it asks.
#[derive(Debug)]
pub enum Failure {
    /// The client gets an error.
    Refused(Refusal),
    /// There is no client any more.
    Ended(End),
}

impl<T: Into<Refusal>> From<T> for Failure {
    fn from(refusal: T) -> Self {
        Self::Refused(refusal.into())
    }
}

impl From<End> for Failure {
    fn from(end: End) -> Self {
        Self::Ended(end)
    }
}
