//! The PostgreSQL protocol, version 3.0: [`serve`].
//!
//! The messages are those of the crate `pgwire`; one thread reads and answers them.
//!
//! | file | what is in it |
//! |---|---|
//! | [`wire`] | messages in and out of a transport |
//! | [`startup`] | TLS, the token, parameters, requests to cancel |
//! | [`messages`] | the messages of a session, each answered |
//! | [`conversation`] | one session and its statements |
//! | [`extended`], [`portals`] | messages about prepared statements and portals, and these |
//! | [`copy_out`] | rows that are copied to the client, as text, CSV and binary |
//! | [`cursors`] | cursors, of which so many rows at a time are fetched |
//! | [`failure`] | why a message is not answered as it asks |
//! | [`types`] | the PostgreSQL type for each Arrow type |
//! | [`columns`] | arrays in the few forms that values are written from |
//! | [`values`] | single values as PostgreSQL writes them, as text and binary |
//! | [`rows`] | batches as messages |
//! | [`parameters`] | values that clients send |
//! | [`sqlstate`] | errors as messages |
//! | [`settings`] | settings that clients of PostgreSQL expect |

pub mod columns;
pub mod conversation;
pub mod copy_out;
pub mod cursors;
pub mod extended;
pub mod failure;
pub mod messages;
pub mod parameters;
pub mod portals;
pub mod rows;
pub mod settings;
pub mod sqlstate;
pub mod startup;
pub mod types;
pub mod values;
pub mod wire;

pub use startup::serve;
