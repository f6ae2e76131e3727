//! Functions of windows that the engine has wrong.

pub mod shifts;
