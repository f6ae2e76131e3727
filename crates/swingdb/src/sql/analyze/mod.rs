//! TODO

pub(crate) mod arithmetic;
pub(crate) mod asof;
pub(crate) mod decorrelate;
pub(crate) mod equality;
pub(crate) mod settled;
pub(crate) mod zones;
