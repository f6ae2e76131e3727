//! Files into tables, and tables and queries into files: [`statement`] is `COPY`, [`import`] and
//! [`export`] are what it and the methods of a connection do.

pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod statement;
