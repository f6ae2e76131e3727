//! Analysis: changes of a logical plan, its types settled, that SQL's meaning requires.
//!
//! Every rule here changes answers. A rule that only buys speed belongs into
//! [`optimize`](super::optimize).

pub(crate) mod arithmetic;
pub(crate) mod asof;
pub(crate) mod decorrelate;
pub(crate) mod equality;
pub(crate) mod lambda_types;
pub(crate) mod settled;
pub(crate) mod zones;
