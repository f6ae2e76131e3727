//! What an area's owner tells the fault handler, and asks of its words.

use std::sync::atomic::Ordering;

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::units::ExtentId;
use crate::trap::table;
use crate::trap::trapped_area::Tracked;

impl Core {
    /// Keeps private extents writable until the next publish; `false` when some are not private.
    pub(crate) fn keep_open(&self, mut extents: std::ops::Range<u32>) -> bool {
        match self.tracked.get() {
            Some(_) => extents.all(|e| self.words.keep_hot(ExtentId(e))),
            None => self.words.all_private(extents),
        }
    }

    /// Whether live hooks are expected.
    pub(crate) fn expect_live_hooks(&self, expected: bool) {
        if let Some(tracked) = self.tracked.get() {
            tracked.hooked_live.store(expected, Ordering::Relaxed);
        }
    }

    /// Stores wait no longer for what the newest publish sets free.
    pub(crate) fn end_settling(&self) {
        if let Some(tracked) = self.tracked.get() {
            tracked.spare_wait.end();
        }
    }

    /// Faults in the area are no longer handled.
    pub(crate) fn stop_tracking(&self) {
        if let Some(tracked) = self.tracked.get() {
            table::forget(tracked);
        }
    }

    /// At a publish, after it is known what was rewritten: another interval begins. Where stores
    /// are followed, what they will come to needs spare memory, whenever it was stored to before.
    pub(crate) fn turn_ahead(&self, state: &mut Tables) {
        let followed = |t: &Tracked| t.ahead.is_wanted() && t.order.next().is_some();
        if self.tracked.get().is_some_and(followed) {
            state.spare.reuse = state.spare.reuse.max(state.runs.bytes_of(0));
        }
        state.heuristics.ahead.turn();
    }

    /// Has the responder run where a trapped store has copied an extent last.
    pub(crate) fn move_responder(&self) {
        if !self.ns.switches().affinity {
            return;
        }
        let processor = self.tracked.get().map_or(0, |t| t.processor.load(Ordering::Relaxed));
        if let Some(processor) = processor.checked_sub(1)
            && let Some(live) = self.live.try_lock()
            && let Some(responder) = &live.responder
        {
            responder.move_to(processor);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::area::live_slot::LiveResponder;
    use crate::policy::switches::Switches;
    use crate::sys::file::Folder;
    use crate::{AreaName, AreaOptions, ByteLen, Namespace};

    /// One that notes where it is moved.
    #[derive(Debug)]
    struct Noting(Arc<AtomicU32>);

    impl LiveResponder for Noting {
        fn move_to(&self, processor: u32) {
            self.0.store(processor + 1, Ordering::Relaxed);
        }

        fn abandon_in_child(self: Box<Self>) {}

        fn stop(self: Box<Self>, _: &Folder) {}
    }

    #[test]
    fn switched_off_the_responder_is_not_moved_and_nothing_is_copied_ahead() {
        for on in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let switches = Switches { affinity: on, copy_ahead: on, ..Switches::ON };
            let ns = Namespace::open(dir.path()).unwrap().with_switches(switches);
            let options = AreaOptions::with_reserve(ByteLen::mib(64));
            let area = ns.create(&AreaName::new("a").unwrap(), &options).unwrap();
            area.track().unwrap();
            area.copy_ahead(true);
            let tracked = area.core.tracked.get().unwrap();
            assert_eq!(tracked.ahead.is_wanted(), on);
            tracked.processor.store(1, Ordering::Relaxed);
            let moved = Arc::new(AtomicU32::new(0));
            area.core.live.lock().responder = Some(Box::new(Noting(moved.clone())));
            area.core.move_responder();
            assert_eq!(moved.load(Ordering::Relaxed), u32::from(on));
        }
    }
}
