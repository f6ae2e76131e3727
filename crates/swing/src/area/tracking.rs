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
        let processor = self.tracked.get().map_or(0, |t| t.processor.load(Ordering::Relaxed));
        if let Some(processor) = processor.checked_sub(1)
            && let Some(live) = self.live.try_lock()
            && let Some(responder) = &live.responder
        {
            responder.move_to(processor);
        }
    }
}
