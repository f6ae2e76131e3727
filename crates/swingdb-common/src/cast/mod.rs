//! Values of one type as another, as SQL converts them.
//!
//! | module | |
//! |---|---|
//! | [`convert`] | what a statement computed, as the type of the column that stores it |
//! | [`normalize`] | what comes before the engine's cast: forms it does not know |
//! | [`nested`], [`nested_json`], [`maps`] | lists, structs and maps from text and from JSON |
//! | [`fields`] | which field of a struct becomes which |
//! | [`parts`], [`shown`] | what nested values are made of, and values in messages |
//! | [`encoded`] | dictionaries and unions from other libraries |
//! | [`narrow`], [`refused`] | values that do not fit, and conversions that nobody may ask for |
//! | [`blobs`], [`exponents`] | byte strings as text, and `1e3` as a decimal |

pub mod blobs;
pub mod convert;
pub mod encoded;
mod exponents;
mod fields;
pub mod maps;
mod narrow;
pub mod nested;
mod nested_json;
pub mod normalize;
mod parts;
pub mod refused;
pub mod shown;
