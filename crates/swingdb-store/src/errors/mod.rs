//! Errors of the layers below in the words of this crate: those of areas ([`area`]) and of the log
//! ([`log`]); and values as errors show them ([`values`]).

pub(crate) mod area;
pub(crate) mod log;
pub(crate) mod values;
