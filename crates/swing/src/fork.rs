//! What a fork does to areas: registration of open areas.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::area::Core;

/// The open areas of this process.
static OPEN: Mutex<Vec<Weak<Core>>> = Mutex::new(Vec::new());

pub(crate) fn register(core: &Arc<Core>) {
    OPEN.lock().push(Arc::downgrade(core));
}

pub(crate) fn unregister(core: &Arc<Core>) {
    let me = Arc::as_ptr(core);
    OPEN.lock().retain(|w| w.as_ptr() != me);
}
