//! A process that has run out of mappings gets an error and its area is as it was (INV-AREA-8).

#[macro_use]
mod common;

use common::*;
use swing::{HookError, Publish, WriteError, WriteIntent};

/// Uses up the mappings of this process: pages of alternating protection cannot merge.
struct Exhausted {
    base: *mut libc::c_void,
    len: usize,
}

impl Exhausted {
    fn new() -> Self {
        let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
        let max: usize = text.trim().parse().unwrap();
        let len = (max + 1000) * 2 * 4096;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping wherever there is room.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        for page in (0..len / 4096).step_by(2) {
            // SAFETY: a page of the mapping just made.
            let failed =
                unsafe { libc::mprotect(base.byte_add(page * 4096), 4096, libc::PROT_READ) };
            if failed != 0 {
                break;
            }
        }
        Self { base, len }
    }
}

impl Drop for Exhausted {
    fn drop(&mut self) {
        // SAFETY: the mapping is this object's own.
        assert_eq!(unsafe { libc::munmap(self.base, self.len) }, 0);
    }
}

fn out_of_mappings() {
    // The mappings are the process's: one back end after the other.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = ALONE.lock();
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, 0, 8 * SMALL, 1);
    fill(&area, data_at(0), 8 * DATA, 1);
    area.publish(Publish::Shared, b"").unwrap();
    let exhausted = Exhausted::new();
    let requests = [
        (SMALL, WriteIntent::Keep),
        (data_at(2), WriteIntent::Keep),
        (data_at(2), WriteIntent::Overwrite),
        (data_at(20), WriteIntent::Keep),
    ];
    for (at, intent) in requests {
        let refused =
            area.make_writable(range(at, if at < data_at(0) { SMALL } else { DATA }), intent);
        assert!(
            matches!(refused, Err(WriteError::TooManyMappings)),
            "{at:#x} {intent:?} {refused:?}"
        );
    }
    assert!(area.discard(range(data_at(3), DATA)).is_err());
    let hook = h.ns.hook(&name("a"));
    let typed = matches!(hook, Err(HookError::TooManyMappings | HookError::AddressSpace { .. }));
    assert!(typed, "{hook:?}");
    drop(exhausted);
    assert!(read(&area, 0, 8 * SMALL).iter().all(|b| *b == 1));
    assert!(read(&area, data_at(0), 8 * DATA).iter().all(|b| *b == 1));
    for (at, _) in requests {
        fill(&area, at, 8, 2);
    }
    area.publish(Publish::Shared, b"").unwrap();
    let snapshot = h.ns.hook(&name("a")).unwrap();
    assert_eq!(read_snapshot(&snapshot, data_at(2), 9), [2, 2, 2, 2, 2, 2, 2, 2, 1]);
}

over_both_back_ends! {
    out_of_mappings,
}
