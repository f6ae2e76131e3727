//! Opening databases together with a store on a disk ([`attach`]), and copies of them ([`copy`]).

pub(crate) mod attach;
pub(crate) mod copy;
