//! Bytes of an area: how they become buffers, who keeps them, and when they are freed.
//!
//! [`raw`] has the only unsafe code. [`space`] knows which blocks are in use, pinned, or to be
//! freed, and allocates; a [`record`] of the catalog is a block, too. Blocks of a database that was
//! opened from a store on a disk may have their bytes there still: [`block_ref`] says where, and
//! [`fetch`] reads them when they are needed. Nothing here knows what the bytes mean.

pub(crate) mod block_ref;
pub(crate) mod fetch;
pub(crate) mod raw;
pub(crate) mod record;
pub(crate) mod space;
