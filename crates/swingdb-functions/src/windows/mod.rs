//! Functions of windows that the engine has wrong.

pub mod places;
pub mod shifts;
