//! Taking spare memory out of the tables, while no handler uses it.

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::error::Result;
use crate::model::extent_word::{
    self, ABSENT, FAULTING, FROZEN, IN_PLACE, PLANNED, PRIVATE, UNARMED,
};
use crate::model::units::{AreaOffset, ByteLen, ExtentId};
use crate::sys::block_signals::Quiet;

/// Memory given back while the threads that store there wait: of small pages it takes long.
const PUNCH_STEP_HUGE: ByteLen = ByteLen::mib(8);
const PUNCH_STEP_SMALL: ByteLen = ByteLen::mib(1);

impl Core {
    /// Takes spare memory out of the tables and hands it to `punch`, while no handler uses it.
    pub(crate) fn take_spare(
        &self,
        state: &mut Tables,
        keep: ByteLen,
        limit: ByteLen,
        mut punch: impl FnMut(&Tables, u64, u64) -> Result<()>,
    ) -> Result<()> {
        let tracked = self.tracked.get().is_some();
        let most = self.for_pages(PUNCH_STEP_HUGE, PUNCH_STEP_SMALL).0;
        let mut left = limit.0;
        while left > 0 {
            let step = ByteLen(if tracked { left.min(most) } else { left });
            let mut taken = Vec::new();
            // Until all is armed again.
            let _quiet = tracked.then(Quiet::begin);
            let closed = self.close_gate();
            self.absorb(state);
            let ranges = state.versions.take_spare(&self.geometry, keep, step, |extent, plane| {
                let word = self.words.word(extent);
                let now = extent_word::state_of(word);
                if tracked && now == FAULTING && extent_word::plane_of(word) == plane {
                    return false;
                }
                if !tracked || extent_word::plane_of(word) != plane {
                    return true;
                }
                match now {
                    // Nobody uses these plans before the next publish.
                    PRIVATE | FROZEN if word & PLANNED != 0 => {}
                    FROZEN | ABSENT if word & IN_PLACE == 0 => {
                        self.words.set(extent, now | UNARMED);
                    }
                    _ => return true,
                }
                taken.push(extent);
                true
            });
            drop(closed);
            let bytes: u64 = ranges.iter().map(|(_, len)| len).sum();
            let mut result = Ok(());
            for (offset, len) in ranges {
                let punched = punch(state, offset, len);
                if punched.is_err() {
                    // Its old bytes are there still: who takes it again has to know.
                    for (extent, plane) in self.versions_in(offset, len) {
                        state.versions.add_spare(&self.geometry, extent, plane);
                    }
                }
                result = result.and(punched);
            }
            for extent in taken {
                self.arm(state, extent, false);
            }
            result?;
            if bytes == 0 {
                break;
            }
            left = left.saturating_sub(bytes);
        }
        Ok(())
    }

    /// The versions in a part of the memory file that is made of whole extents: extent and plane.
    pub(crate) fn versions_in(
        &self,
        offset: u64,
        len: u64,
    ) -> impl Iterator<Item = (ExtentId, u32)> + use<> {
        let (geometry, mut at, end) = (self.geometry, offset, offset + len);
        let reserve = geometry.reserve().0;
        std::iter::from_fn(move || {
            let extent = geometry.extent_of(AreaOffset((at < end).then_some(at % reserve)?));
            let plane = (at / reserve) as u32;
            at += geometry.len(extent).0;
            Some((extent, plane))
        })
    }
}
