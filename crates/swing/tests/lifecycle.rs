//! Ownership, removal, pins, waiting, listing, thresholds: areas over their whole life.

#[macro_use]
mod common;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use common::*;
use swing::{
    AreaName, AreaOffset, AreaOptions, ByteLen, CreateError, Epoch, HookError, MapForeignError,
    Namespace, OpenError, Publish, RemoveError, StateId, WriteIntent,
};

fn allocated(h: &Home, area: &str) -> u64 {
    std::fs::metadata(memory_of(&h.dir.path().join(area))).unwrap().blocks() * 512
}

/// Also what is write-protected and was never published, as after a hold or for a hook.
fn what_was_not_published_goes_with_its_owner() {
    for protected in [false, true] {
        let h = home();
        let area = h.ns.create(&name("a"), &options()).unwrap();
        area.track().unwrap();
        let store_all = |value| (0..8).for_each(|i| store(&area, data_at(i), value));
        store_all(1);
        area.publish(Publish::Shared, b"").unwrap();
        // Keeps the memory of a memfd.
        let snapshot = h.ns.hook(&name("a")).unwrap();
        store_all(2);
        assert_eq!(allocated(&h, "a"), 16 * DATA);
        if protected {
            drop(area.hold_stores().unwrap());
        }
        drop(area);
        assert_eq!(allocated(&h, "a"), 8 * DATA, "{protected}");
        assert!((0..8).all(|i| value_in(&snapshot, data_at(i)) == 1));
        let area = h.ns.open_area(&name("a")).unwrap();
        assert!((0..8).all(|i| load(&area, data_at(i)) == 1));
    }
}

fn memory_is_given_back_when_the_last_lease_ends() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, data_at(0), 8 * DATA, 1);
    area.publish(Publish::Shared, b"").unwrap();
    let first = h.ns.hook(&name("a")).unwrap();
    let second = first.clone();
    fill(&area, data_at(0), 8 * DATA, 2);
    area.publish(Publish::Shared, b"").unwrap();
    assert_eq!(area.stats().retired.get(), 8 * DATA);
    assert_eq!(allocated(&h, "a"), 16 * DATA);
    drop(first);
    area.reclaim().unwrap();
    assert_eq!(allocated(&h, "a"), 16 * DATA, "a clone still reads");
    assert!(snapshot_is(&second, data_at(0), 8 * DATA, 1));
    drop(second);
    assert_eq!(area.reclaim().unwrap().get(), 8 * DATA);
    assert_eq!(allocated(&h, "a"), 8 * DATA);
    // And without being asked: publishes look, a few manifests at a time.
    area.discard(range(data_at(0), 7 * DATA)).unwrap();
    area.publish(Publish::Shared, b"").unwrap();
    let stats = area.stats();
    assert!(stats.retired.get() == 0 && stats.spare <= ByteLen::mib(16), "{stats:?}");
}

fn a_namespace_that_was_deleted_is_an_error_of_its_own() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, data_at(0), DATA, 1);
    std::fs::remove_dir_all(h.dir.path()).unwrap();
    let refused = h.ns.create(&name("b"), &options()).unwrap_err();
    let CreateError::Io(failure) = &refused else { panic!("{refused:?}") };
    assert_eq!(failure.path, h.dir.path());
    assert!(refused.to_string().contains("it has been deleted"), "{refused}");
    assert!(matches!(h.ns.create_unnamed(&options()), Err(CreateError::Io(_))));
    // What was there before stays usable in this process, and ends without an uproar.
    fill(&area, data_at(0), DATA, 2);
    let unpublished = area.publish(Publish::Shared, b"").unwrap_err();
    assert!(unpublished.to_string().contains("it has been deleted"), "{unpublished}");
    drop(area);
    // Made again, it is another directory, for whoever opens it.
    let again = Namespace::open(h.dir.path()).unwrap();
    again.create(&name("a"), &options()).unwrap();
    assert!(matches!(h.ns.create(&name("a"), &options()), Err(CreateError::Io(_))));
}

/// INV-AREA-2: an extent nobody shares any more is written in place, without a copy.
fn unshared_extents_are_written_in_place() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, data_at(0), 4 * DATA, 1);
    let view = area.freeze_view().unwrap();
    let before = area.stats();
    drop(view);
    // The view is gone, but nobody has told the owner; the next write looks.
    fill(&area, data_at(0), 4 * DATA, 2);
    let after = area.stats();
    assert_eq!(after.copied, before.copied, "{after:?}");
    assert_eq!(after.in_place.get() - before.in_place.get(), 4 * DATA);
}

fn a_reader_cannot_make_its_mapping_writable() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, data_at(0), DATA, 1);
    area.publish(Publish::Shared, b"").unwrap();
    for snapshot in [h.ns.hook(&name("a")).unwrap(), area.freeze_view().unwrap()] {
        // SAFETY: only asks for a protection that the kernel must refuse (INV-AREA-4).
        let refused = unsafe {
            let at = snapshot.base().as_ptr().add(data_at(0) as usize).cast();
            libc::mprotect(at, DATA as usize, libc::PROT_READ | libc::PROT_WRITE)
        };
        assert_eq!(refused, -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EACCES));
    }
}

fn a_derived_area_survives_its_parents_name_owner_and_memory() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, data_at(0), 4 * DATA, 1);
    area.publish(Publish::Shared, b"").unwrap();
    let derived = h.ns.hook(&name("a")).unwrap().derive(Some(&name("b"))).unwrap();
    fill(&derived, data_at(0), DATA, 2);
    derived.publish(Publish::Shared, b"").unwrap();
    drop(derived);
    fill(&area, data_at(0), 4 * DATA, 9);
    area.publish(Publish::Shared, b"").unwrap();
    area.reclaim().unwrap();
    drop(area);
    h.ns.gc().unwrap();
    let report = h.ns.remove(&name("a")).unwrap();
    assert_eq!((report.freed.get(), report.kept.get()), (4 * DATA, 4 * DATA));
    assert!(matches!(h.ns.hook(&name("a")), Err(HookError::NotFound { .. })));
    assert_eq!(std::fs::read_dir(h.dir.path()).unwrap().count(), 1);
    let again = h.ns.create(&name("a"), &options()).unwrap();
    fill(&again, data_at(0), 4 * DATA, 7);
    again.publish(Publish::Shared, b"").unwrap();
    let b = h.ns.open_area(&name("b")).unwrap();
    assert_eq!(read(&b, data_at(0), 1), [2]);
    assert!(read(&b, data_at(1), 3 * DATA).iter().all(|x| *x == 1));
    // Overwriting all of it ends the dependency: pin and link go.
    fill(&b, data_at(1), 3 * DATA, 3);
    b.publish(Publish::Shared, b"").unwrap();
    b.publish(Publish::Shared, b"").unwrap();
    assert_eq!(std::fs::read_dir(h.dir.path().join("b/parents")).unwrap().count(), 0);
    let info = h.ns.list().unwrap();
    assert_eq!(info[1].parents.len(), 1, "the lineage stays");
}

fn a_removed_area_stays_for_its_readers_and_goes_with_the_last() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, data_at(0), 2 * DATA, 1);
    area.publish(Publish::Shared, b"").unwrap();
    assert!(matches!(h.ns.remove(&name("a")), Err(RemoveError::Owned { .. })));
    let snapshot = h.ns.hook(&name("a")).unwrap();
    fill(&area, data_at(0), DATA, 2);
    area.publish(Publish::Shared, b"").unwrap();
    drop(area);
    assert!(h.ns.remove(&name("a")).unwrap().kept.get() >= 2 * DATA);
    assert!(matches!(h.ns.remove(&name("a")), Err(RemoveError::NotFound { .. })));
    h.ns.gc().unwrap();
    assert!(snapshot_is(&snapshot, data_at(0), 2 * DATA, 1));
    // It can still be derived from, and published on.
    let derived = snapshot.derive(Some(&name("b"))).unwrap();
    derived.publish(Publish::Shared, b"").unwrap();
    drop((derived, snapshot));
    let names: Vec<_> = std::fs::read_dir(h.dir.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(snapshot_is(&h.ns.hook(&name("b")).unwrap(), data_at(0), 2 * DATA, 1));
}

/// Addresses outlive the handles: a next owner must not take their memory away.
fn addresses_stay_valid_after_their_area_is_closed() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, data_at(0), DATA, 1);
    area.publish(Publish::Committed, b"").unwrap();
    fill(&area, data_at(1), DATA, 2);
    // Memory that is kept for the next stores goes, though others still read.
    fill(&area, data_at(2), 3 * DATA, 9);
    area.discard(range(data_at(2), 3 * DATA)).unwrap();
    assert!(allocated(&h, "a") > 2 * DATA);
    let mapping = area.mapping().clone();
    drop(area);
    assert_eq!(allocated(&h, "a"), 2 * DATA);
    let next = h.ns.open_area(&name("a")).unwrap();
    fill(&next, data_at(0), 2 * DATA, 3);
    next.publish(Publish::Committed, b"").unwrap();
    next.reclaim().unwrap();
    for (extent, byte) in [(0, 1), (1, 2)] {
        // SAFETY: the mapping is alive, the extents were mapped when the area was closed.
        let seen = unsafe { mapping.base().add(data_at(extent) as usize).read() };
        assert_eq!(seen, byte);
    }
    drop(mapping);
    next.reclaim().unwrap();
    assert_eq!(allocated(&h, "a"), 2 * DATA);
}

fn unnamed_and_unpublished_areas_leave_nothing() {
    let h = home();
    let unnamed = h.ns.create_unnamed(&options()).unwrap();
    let named = h.ns.create(&name("a"), &options()).unwrap();
    fill(&unnamed, 0, 8, 1);
    fill(&named, 0, 8, 1);
    let view = unnamed.freeze_view().unwrap();
    let list = h.ns.list().unwrap();
    assert_eq!(list.len(), 2);
    // Also the size of memory that has no name yet is known.
    assert_eq!(list[0].own.get(), SMALL);
    assert_eq!(h.ns.gc().unwrap().removed, 0);
    let mapping = unnamed.mapping().clone();
    drop((unnamed, named));
    assert!(snapshot_is(&view, 0, 8, 1));
    // SAFETY: the mapping keeps its addresses.
    assert_eq!(unsafe { mapping.base().read() }, 1);
    drop((view, mapping));
    assert_eq!(std::fs::read_dir(h.dir.path()).unwrap().count(), 0);
}

fn one_owner_of_many_that_try() {
    let h = home();
    for round in 0..20 {
        let start = Barrier::new(8);
        let text = format!("a{round}");
        let areas: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        h.ns.create(&name(&text), &options())
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(areas.iter().filter(|a| a.is_ok()).count(), 1);
        for area in areas {
            match area {
                Ok(area) => drop(area.publish(Publish::Committed, b"")),
                Err(CreateError::Owned { pid, .. }) => assert_eq!(pid, std::process::id()),
                Err(CreateError::AlreadyExists { .. }) => {}
                Err(e) => panic!("{e}"),
            }
        }
        let opened: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| h.ns.open_area(&name(&text)))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(opened.iter().filter(|a| a.is_ok()).count(), 1);
        let errors = opened.iter().filter_map(|a| a.as_ref().err());
        assert!(errors.into_iter().all(|e| matches!(e, OpenError::Owned { .. })));
    }
}

fn waiting_for_a_newer_state() {
    let h = home();
    let missing = h.ns.wait_newer(&name("x"), None, Duration::ZERO);
    assert!(matches!(missing, Err(HookError::NotFound { .. })));
    let area = h.ns.create(&name("a"), &options()).unwrap();
    assert_eq!(h.ns.shared_state(&name("a")).unwrap(), None);
    let start = Instant::now();
    assert!(!h.ns.wait_newer(&name("a"), None, Duration::from_millis(30)).unwrap());
    assert!(start.elapsed() >= Duration::from_millis(29));
    area.publish(Publish::Committed, b"").unwrap();
    let state = |epoch| StateId { area: area.id(), epoch };
    let first = state(area.publish(Publish::Shared, b"").unwrap());
    assert!(h.ns.wait_newer(&name("a"), None, Duration::ZERO).unwrap());
    // Much longer than anything takes here.
    const LONG: Duration = Duration::from_secs(600);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| h.ns.wait_newer(&name("a"), Some(first), LONG).unwrap());
        std::thread::sleep(Duration::from_millis(50));
        area.publish(Publish::Committed, b"").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        let shared = area.publish(Publish::Shared, b"").unwrap();
        let start = Instant::now();
        assert!(waiting.join().unwrap() && start.elapsed() < LONG / 10, "{:?}", start.elapsed());
        assert_eq!(h.ns.shared_state(&name("a")).unwrap(), Some(state(shared)));
    });
    let far = state(Epoch(1000));
    drop(area);
    std::thread::scope(|scope| {
        let ns = &h.ns;
        let waiting = scope.spawn(move || ns.wait_newer(&name("a"), Some(far), LONG));
        std::thread::sleep(Duration::from_millis(50));
        h.ns.remove(&name("a")).unwrap();
        assert!(matches!(waiting.join().unwrap(), Err(HookError::NotFound { .. })));
    });
    // Another area of the name, whose epochs begin anew.
    let again = h.ns.create(&name("a"), &options()).unwrap();
    assert!(!h.ns.wait_newer(&name("a"), Some(far), Duration::ZERO).unwrap());
    let epoch = again.publish(Publish::Shared, b"").unwrap();
    assert!(epoch < far.epoch && h.ns.wait_newer(&name("a"), Some(far), LONG).unwrap());
    let now = h.ns.shared_state(&name("a")).unwrap();
    assert_eq!(now, Some(StateId { area: again.id(), epoch }));
    assert_eq!(h.ns.hook(&name("a")).ok().map(|snapshot| snapshot.state()), now);
    assert!(!h.ns.wait_newer(&name("a"), now, Duration::ZERO).unwrap());
}

/// Whoever waits meanwhile hears that there is no area, or goes on to wait for the new one.
fn waiting_while_the_area_is_made_anew() {
    const LONG: Duration = Duration::from_secs(600);
    const ROUNDS: u64 = 20;
    let h = home();
    let shared = |times: u64| {
        let area = h.ns.create(&name("a"), &options()).unwrap();
        area.publish(Publish::Committed, b"").unwrap();
        for _ in 0..times {
            area.publish(Publish::Shared, b"").unwrap();
        }
        area
    };
    drop(shared(ROUNDS + 1));
    // Each one's last epoch is before that of the one before.
    for times in (1..=ROUNDS).rev() {
        let seen = h.ns.shared_state(&name("a")).unwrap();
        std::thread::scope(|scope| {
            let ns = &h.ns;
            let waiting = scope.spawn(move || {
                loop {
                    match ns.wait_newer(&name("a"), seen, LONG) {
                        Ok(newer) => break newer,
                        Err(HookError::NotFound { .. }) => std::thread::yield_now(),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
            std::thread::sleep(Duration::from_millis(times % 3));
            ns.remove(&name("a")).unwrap();
            let area = shared(0);
            std::thread::sleep(Duration::from_millis(times % 5));
            assert!(!waiting.is_finished(), "the new one has shared nothing");
            for _ in 0..times {
                area.publish(Publish::Shared, b"").unwrap();
            }
            let start = Instant::now();
            assert!(waiting.join().unwrap() && start.elapsed() < LONG / 10);
            let now = ns.hook(&name("a")).unwrap().state();
            assert!(now.area == area.id() && seen.is_some_and(|seen| now.epoch < seen.epoch));
        });
    }
}

fn listing_shows_sizes_owner_readers_and_lineage() {
    let h = home();
    let area = h.ns.create(&name("a/b c"), &options()).unwrap();
    fill(&area, data_at(0), 2 * DATA, 1);
    let epoch = area.publish(Publish::Shared, b"").unwrap();
    let snapshot = h.ns.hook(&name("a/b c")).unwrap();
    let derived = snapshot.derive(Some(&name("derived"))).unwrap();
    fill(&derived, data_at(0), DATA, 2);
    derived.publish(Publish::Shared, b"").unwrap();
    fill(&area, data_at(0), DATA, 2);
    let list = h.ns.list().unwrap();
    assert_eq!(list.len(), 2);
    let (a, d) = (&list[0], &list[1]);
    assert_eq!(a.name, Some(name("a/b c")));
    assert_eq!((a.own.get(), a.private.get(), a.shared.get()), (3 * DATA, DATA, 0));
    assert_eq!((a.shared_epoch, a.committed_epoch), (Some(epoch), Some(epoch)));
    assert_eq!(a.owner.as_ref().unwrap().pid, std::process::id());
    assert!(a.owner.as_ref().unwrap().command.contains("lifecycle"));
    assert_eq!(a.readers, [std::process::id()]);
    assert_eq!((d.own.get(), d.shared.get(), d.mapped.get()), (DATA, DATA, 2 * DATA));
    assert_eq!(d.parents.len(), 1);
    assert_eq!((d.parents[0].id, d.parents[0].epoch), (area.id(), epoch));
    assert_eq!(d.parents[0].name, Some(name("a/b c")));
    assert!(d.created_ns > 0 && d.shared_ns.unwrap() >= d.created_ns);
    drop((snapshot, derived, area));
    let list = h.ns.list().unwrap();
    assert!(list.iter().all(|i| i.owner.is_none()));
    assert_eq!(h.ns.names().unwrap(), [name("a/b c"), name("derived")]);
}

fn hooks_can_be_refused_and_allowed_again() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    area.set_hookable(false).unwrap();
    area.publish(Publish::Shared, b"1").unwrap();
    assert!(matches!(h.ns.hook(&name("a")), Err(HookError::NotHookable { .. })));
    area.set_hookable(true).unwrap();
    let snapshot = h.ns.hook(&name("a")).unwrap();
    area.set_hookable(false).unwrap();
    area.publish(Publish::Shared, b"2").unwrap();
    assert!(matches!(h.ns.hook(&name("a")), Err(HookError::NotHookable { .. })));
    assert_eq!(snapshot.payload(), b"1");
    drop(area);
    let area = h.ns.open_area(&name("a")).unwrap();
    assert!(matches!(h.ns.hook(&name("a")), Err(HookError::NotHookable { .. })));
    area.set_hookable(true).unwrap();
    assert_eq!(h.ns.hook(&name("a")).unwrap().payload(), b"2");
}

/// The paper's threshold on memory consumed by copy-on-write.
fn hooks_are_refused_above_the_threshold() {
    let h = home();
    let mut options = options();
    options.cow_threshold = Some(ByteLen(2 * DATA));
    let mut area = h.ns.create(&name("a"), &options).unwrap();
    fill(&area, data_at(0), 4 * DATA, 1);
    area.publish(Publish::Shared, b"").unwrap();
    let snapshot = h.ns.hook(&name("a")).unwrap();
    fill(&area, data_at(0), 2 * DATA, 2);
    area.publish(Publish::Shared, b"").unwrap();
    drop(h.ns.hook(&name("a")).unwrap());
    fill(&area, data_at(2), DATA, 2);
    area.publish(Publish::Shared, b"").unwrap();
    assert!(matches!(h.ns.hook(&name("a")), Err(HookError::NotHookable { .. })));
    area.set_cow_threshold(None).unwrap();
    drop(h.ns.hook(&name("a")).unwrap());
    area.set_cow_threshold(Some(ByteLen(DATA))).unwrap();
    assert!(matches!(h.ns.hook(&name("a")), Err(HookError::NotHookable { .. })));
    // The threshold ends with its owner, and with it the refusal; another one is for good.
    for refused in [false, true] {
        area.set_hookable(!refused).unwrap();
        area.publish(Publish::Shared, b"").unwrap();
        assert!(matches!(h.ns.hook(&name("a")), Err(HookError::NotHookable { .. })));
        assert!(h.ns.list().unwrap()[0].shared_epoch.is_some());
        drop(area);
        area = h.ns.open_area(&name("a")).unwrap();
        let hook = h.ns.hook(&name("a"));
        assert_eq!(matches!(hook, Err(HookError::NotHookable { .. })), refused, "{hook:?}");
        area.set_hookable(true).unwrap();
        area.set_cow_threshold(Some(ByteLen(DATA))).unwrap();
        fill(&area, data_at(0), 4 * DATA, 3);
        area.publish(Publish::Shared, b"").unwrap();
    }
    drop(snapshot);
    area.publish(Publish::Shared, b"").unwrap();
    drop(h.ns.hook(&name("a")).unwrap());
}

fn what_the_dead_left_does_not_pile_up() {
    let h = home();
    for i in 0..20u64 {
        let folder = h.dir.path().join(format!(".unnamed-{i:016x}"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("owner.lock"), "1 1\ngone\n").unwrap();
    }
    for _ in 0..200 {
        drop(h.ns.create_unnamed(&options()).unwrap());
    }
    assert_eq!(std::fs::read_dir(h.dir.path()).unwrap().count(), 0);
}

fn parts_of_several_areas_are_mapped_into_one() {
    let h = home();
    let make = |text: &str, byte| {
        let area = h.ns.create(&name(text), &options()).unwrap();
        fill(&area, data_at(0), 3 * DATA, byte);
        area.publish(Publish::Shared, b"").unwrap();
        h.ns.hook(&name(text)).unwrap()
    };
    let (a, b) = (make("a", 1), make("b", 2));
    let target = h.ns.create(&name("t"), &AreaOptions::with_reserve(ByteLen::gib(2))).unwrap();
    let zone = target.geometry().small_zone().get();
    let at = |i: u64| AreaOffset(zone + i * DATA);
    let wide = |from: u64, n: u64| range(data_at(from), n * DATA);
    target.map_foreign(&a, wide(0, 2), at(5)).unwrap();
    target.map_foreign(&b, wide(1, 2), at(7)).unwrap();
    target.map_foreign(&a, wide(2, 1), at(9)).unwrap();
    fill(&target, at(6).get() + 3, 1, 9);
    target.publish(Publish::Shared, b"").unwrap();
    // Cloned again inside the same area.
    let view = target.freeze_view().unwrap();
    target.map_foreign(&view, at(6)..at(8), at(20)).unwrap();
    fill(&target, at(6).get(), 2 * DATA, 0);
    target.publish(Publish::Shared, b"").unwrap();
    drop((a, b, view, target));
    h.ns.remove(&name("a")).unwrap();
    h.ns.remove(&name("b")).unwrap();
    let t = h.ns.hook(&name("t")).unwrap();
    assert!(snapshot_is(&t, at(5).get(), DATA, 1) && snapshot_is(&t, at(6).get(), 2 * DATA, 0));
    assert!(snapshot_is(&t, at(8).get(), DATA, 2) && snapshot_is(&t, at(9).get(), DATA, 1));
    assert_eq!(read_snapshot(&t, at(20).get(), 5), [1, 1, 1, 9, 1]);
    assert!(snapshot_is(&t, at(21).get(), DATA, 2));
    let t = h.ns.open_area(&name("t")).unwrap();
    assert_eq!(read(&t, at(20).get(), 5), [1, 1, 1, 9, 1]);
    for (from, to) in [
        (range(data_at(0) + 1, DATA), at(1)),
        (range(data_at(0), DATA), AreaOffset(at(1).get() + 1)),
        (range(0, SMALL), at(1)),
        (range(data_at(0), 100 * DATA), at(1)),
        (range(data_at(0), DATA), AreaOffset(0)),
        (range(data_at(0), DATA), AreaOffset(ByteLen::gib(2).get())),
    ] {
        let source = h.ns.hook(&name("t")).unwrap();
        let refused = t.map_foreign(&source, from, to);
        assert!(matches!(refused, Err(MapForeignError::OutOfRange { .. })), "{refused:?}");
    }
}

fn a_namespace_others_may_write_to_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    assert!(Namespace::open(dir.path()).is_err());
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).unwrap();
    assert!(Namespace::open(dir.path()).is_ok());
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(Namespace::open(&file).is_err());
    let made = Namespace::open(dir.path().join("x/y")).unwrap();
    assert_eq!(std::fs::metadata(made.path()).unwrap().permissions().mode() & 0o777, 0o700);
}

fn many_threads_make_memory_at_once() {
    let h = home();
    let area = h.ns.create_unnamed(&options()).unwrap();
    std::thread::scope(|scope| {
        for t in 0..8u64 {
            let area = &area;
            scope.spawn(move || {
                for i in 0..16 {
                    // Neighbours overlap at their edges: two threads ask for one extent at once.
                    let start = data_at(0) + (i * 8 + t) * (DATA / 2);
                    area.make_writable(range(start, DATA / 2), WriteIntent::Keep).unwrap();
                    // SAFETY: each thread stores into its own half of an extent.
                    unsafe {
                        let at = area.base().as_ptr().add(start as usize);
                        std::ptr::write_bytes(at, (t * 16 + i) as u8 + 1, DATA as usize / 2);
                    }
                }
            });
        }
    });
    for t in 0..8u64 {
        for i in 0..16 {
            let bytes = read(&area, data_at(0) + (i * 8 + t) * (DATA / 2), DATA / 2);
            assert!(bytes.iter().all(|b| *b == (t * 16 + i) as u8 + 1));
        }
    }
    let stats = area.stats();
    assert_eq!((stats.mapped.get(), stats.runs, stats.populated.get()), (64 * DATA, 1, 64 * DATA));
}

fn an_area_is_mapped_where_it_was_when_that_is_free() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, 0, 8, 1);
    area.publish(Publish::Shared, b"").unwrap();
    let base = area.base();
    assert_ne!(h.ns.hook(&name("a")).unwrap().base(), base, "in use here");
    drop(area);
    assert_eq!(h.ns.hook(&name("a")).unwrap().base(), base);
    let again = h.ns.open_area(&name("a")).unwrap();
    assert_eq!(again.base(), base);
    // 4 GiB away, on the side where areas can be.
    let hint = base.as_ptr() as usize ^ (4 << 30);
    let hinted = AreaOptions { base_hint: Some(hint), ..options() };
    let other = h.ns.create_unnamed(&hinted).unwrap();
    assert_eq!(other.base().as_ptr() as usize, hint);
}

fn bad_ranges_and_options_are_errors() {
    let h = home();
    let area = h.ns.create_unnamed(&options()).unwrap();
    let end = area.geometry().reserve().get();
    for bad in [range(end, 1), range(end - 1, 2), AreaOffset(5)..AreaOffset(4)] {
        assert!(area.make_writable(bad.clone(), WriteIntent::Keep).is_err());
        assert!(area.discard(bad).is_err());
    }
    area.make_writable(AreaOffset(5)..AreaOffset(5), WriteIntent::Keep).unwrap();
    assert!(area.publish(Publish::Committed, &[0; 4097]).is_err());
    let odd = AreaOptions::with_reserve(ByteLen(12345));
    assert!(matches!(h.ns.create_unnamed(&odd), Err(CreateError::OutOfRange { .. })));
    assert!(AreaName::new("").is_err());
    assert!(AreaOptions::default_database().reserve >= ByteLen::gib(64));
}

fn what_a_removed_area_leaves_is_listed_with_its_holder() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, data_at(0), DATA, 1);
    area.publish(Publish::Shared, b"").unwrap();
    let (id, snapshot) = (area.id(), h.ns.hook(&name("a")).unwrap());
    drop(area);
    assert!(h.ns.list_removed().unwrap().is_empty());
    h.ns.remove(&name("a")).unwrap();
    assert!(h.ns.list().unwrap().is_empty());
    let removed = h.ns.list_removed().unwrap();
    assert_eq!((removed.len(), removed[0].id, &removed[0].name), (1, id, &None));
    assert_eq!(removed[0].readers, [std::process::id()]);
    assert!(removed[0].own.get() >= DATA, "{removed:?}");
    drop(snapshot);
    assert!(h.ns.list_removed().unwrap().is_empty());
}

/// Also when it was published, as other areas stay for.
fn an_area_that_ends_with_its_process_is_collected_after_that() {
    let h = home();
    let areas = ["ends", "stays"].map(|text| h.ns.create(&name(text), &options()).unwrap());
    for area in &areas {
        fill(area, data_at(0), DATA, 1);
        area.publish(Publish::Shared, b"").unwrap();
    }
    let long = "ü".repeat(200);
    for (label, told) in [("", None), (long.as_str(), Some(127)), ("numbers", Some(7))] {
        areas[0].end_with_process(label).unwrap();
        let listed = h.ns.list().unwrap();
        assert_eq!(listed[0].label.as_ref().map(|label| label.chars().count()), told);
        assert_eq!((listed.len(), &listed[1].label), (2, &None));
    }
    h.ns.gc().unwrap();
    assert_eq!(h.ns.list().unwrap().len(), 2, "its process lives");
    // Keeps the memory of memfds.
    let held = h.ns.hook(&name("ends")).unwrap();
    drop(areas);
    assert_eq!(h.ns.gc().unwrap().removed, 1);
    let left = h.ns.list().unwrap();
    assert_eq!((left.len(), left[0].name.as_ref()), (1, Some(&name("stays"))));
    assert!(snapshot_is(&held, data_at(0), DATA, 1));
}

/// Where everybody may make links, one of another user is not followed.
#[test]
fn a_link_of_another_user_is_no_namespace() {
    let dir = tempfile::tempdir().unwrap();
    let (target, link) = (dir.path().join("target"), dir.path().join("link"));
    std::fs::create_dir(&target).unwrap();
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    Namespace::open(&link).unwrap();
    if let Err(e) = std::os::unix::fs::lchown(&link, Some(12_345), None) {
        return println!("skipped: {e}");
    }
    let refused = Namespace::open(&link).unwrap_err().to_string();
    assert!(refused.contains("symbolic link of another user"), "{refused}");
}

over_both_back_ends! {
    what_a_removed_area_leaves_is_listed_with_its_holder,
    an_area_that_ends_with_its_process_is_collected_after_that,
    what_was_not_published_goes_with_its_owner,
    memory_is_given_back_when_the_last_lease_ends,
    a_namespace_that_was_deleted_is_an_error_of_its_own,
    unshared_extents_are_written_in_place,
    a_reader_cannot_make_its_mapping_writable,
    a_derived_area_survives_its_parents_name_owner_and_memory,
    a_removed_area_stays_for_its_readers_and_goes_with_the_last,
    addresses_stay_valid_after_their_area_is_closed,
    unnamed_and_unpublished_areas_leave_nothing,
    one_owner_of_many_that_try,
    waiting_for_a_newer_state,
    waiting_while_the_area_is_made_anew,
    listing_shows_sizes_owner_readers_and_lineage,
    hooks_can_be_refused_and_allowed_again,
    hooks_are_refused_above_the_threshold,
    what_the_dead_left_does_not_pile_up,
    parts_of_several_areas_are_mapped_into_one,
    a_namespace_others_may_write_to_is_refused,
    many_threads_make_memory_at_once,
    an_area_is_mapped_where_it_was_when_that_is_free,
    bad_ranges_and_options_are_errors,
}
