//! Where rows come from: files that are found and opened ([`input_file`]), pipes and standard input
//! ([`stream`]), and object stores ([`remote`]), of whose Parquet files only parts are fetched
//! ([`parts`]) by a program that answers requests ([`fetcher`]). [`decoder`] bounds what a decoder
//! of a library may do with damaged bytes.

pub(crate) mod decoder;
mod fetcher;
mod input_file;
mod parts;
mod remote;
pub(crate) mod stream;

pub(crate) use input_file::{
    InputFile, check_local, find_files, find_input, find_read, format_by_name, is_pattern,
    no_such_file,
};
pub use input_file::{MAX_FILES, check_local_output};
