//! Open databases: [`Store`](handle::Store), and who may change one.
//!
//! [`handle`] is what all clones of a store share. The writer lies in a [`slot`], which a
//! transaction or a share empties and fills again; [`area`] makes a snapshot writable when it gets
//! there. [`in_memory`] opens databases, [`mod@share`] publishes their states to other processes,
//! [`loading`] waits for those that come from a disk. [`info`] and [`check`] look at them.

pub(crate) mod area;
pub(crate) mod check;
pub(crate) mod handle;
pub(crate) mod in_memory;
pub(crate) mod info;
pub(crate) mod loading;
pub(crate) mod share;
pub(crate) mod slot;
