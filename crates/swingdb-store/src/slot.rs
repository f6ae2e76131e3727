//! The slot that has the writer of a store, and [`Held`], the writer while somebody has it.
//!
//! # After a panic
//! A thread that unwinds while it holds the writer may have left its tables half changed: blocks
//! that are live for some of them only, a group that was published for half of its members. So
//! the store takes no more changes then, and nothing is published (INV-DB-15). The last committed
//! state is read as before, since nothing that it reaches is changed or freed. A statement that
//! panics with a transaction open is only rolled back: what a transaction does up to its commit is
//! undone by dropping it.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::go_on;

use super::catalog::Catalog;
use super::commit::Writer;
use super::handle::Store;
use super::txn::WRITER_WAIT;

/// How long a statement that waits for the writer does not ask whether it is to end.
const PATIENCE: Duration = Duration::from_millis(50);

/// Where the writer is when nobody has it.
pub(super) struct Slot {
    pub writer: Option<Box<Writer>>,
    pub closed: bool,
    /// A thread has panicked while it held the writer.
    pub broken: bool,
    /// Threads that wait for the writer.
    pub waiting: usize,
}

impl Slot {
    pub fn new(writer: Box<Writer>) -> Self {
        Self { writer: Some(writer), closed: false, broken: false, waiting: 0 }
    }

    /// Takes the writer; `None` when somebody else has it.
    pub fn take(&mut self, store: &Store) -> Option<Held> {
        let writer = Some(self.writer.take()?);
        Some(Held { store: store.clone(), writer, unwinding: std::thread::panicking() })
    }
}

/// The writer, until [`Store::give_back`] or the drop.
pub(super) struct Held {
    store: Store,
    /// `None` only after the end.
    writer: Option<Box<Writer>>,
    /// The thread was unwinding already: what it does meanwhile may well succeed.
    unwinding: bool,
}

impl Deref for Held {
    type Target = Writer;

    fn deref(&self) -> &Writer {
        // Only `give_back`, which takes `self`, and the drop take the writer out.
        self.writer.as_deref().expect("the writer is here until the end")
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Writer {
        // Only `give_back`, which takes `self`, and the drop take the writer out.
        self.writer.as_deref_mut().expect("the writer is here until the end")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(writer) = self.writer.take() else { return };
        if std::thread::panicking() && !self.unwinding {
            self.store.break_off(writer);
        } else {
            self.store.put_back(writer);
        }
    }
}

impl Store {
    /// Whether others wait for the writer.
    pub(super) fn others_wait(&self) -> bool {
        self.inner.slot.lock().waiting > 0
    }

    /// Outcomes were written to tickets: those who wait for one look again. Takes the slot's lock,
    /// so that nobody is between looking and waiting.
    pub(super) fn wake_told(&self) {
        drop(self.inner.slot.lock());
        self.inner.told.notify_all();
    }

    /// Takes the writer's slot, when the database is in memory whole.
    pub(super) fn take_writer(&self) -> Result<Held> {
        self.check_process()?;
        self.loaded()?;
        self.take_slot()
    }

    /// That it is not a forked child. Looked at before the locks, which another thread may have
    /// held when the process forked.
    pub(super) fn check_process(&self) -> Result<()> {
        if self.inner.pid == std::process::id() { Ok(()) } else { Err(Error::Forked) }
    }

    /// Takes the writer's slot; what was committed before is published then.
    pub(super) fn take_slot(&self) -> Result<Held> {
        let mut writer = self.take_slot_as_it_is()?;
        self.flush(&mut writer);
        Ok(writer)
    }

    pub(super) fn take_slot_as_it_is(&self) -> Result<Held> {
        self.check_process()?;
        let deadline = Instant::now() + WRITER_WAIT;
        let mut slot = self.inner.slot.lock();
        slot.waiting += 1;
        let taken = loop {
            if slot.broken {
                break Err(self.broken());
            }
            if slot.closed {
                break Err(Error::Closed { what: "database" });
            }
            if let Some(writer) = slot.take(self) {
                break Ok(writer);
            }
            if let Err(ended) = go_on() {
                break Err(ended);
            }
            let until = deadline.min(Instant::now() + PATIENCE);
            let timed_out = self.inner.free.wait_until(&mut slot, until).timed_out();
            if timed_out && until == deadline {
                let name = self.name().unwrap_or("(unnamed)").to_owned();
                break Err(Error::Busy { name, pid: None, command: None });
            }
        };
        slot.waiting -= 1;
        if taken.is_err() {
            // Those who left the publish to this one do it themselves.
            self.inner.told.notify_all();
        }
        taken
    }

    /// Also for a thread that unwinds, when it has undone what it did.
    pub(super) fn give_back(&self, mut held: Held) {
        if let Some(writer) = held.writer.take() {
            self.put_back(writer);
        }
    }

    fn put_back(&self, mut writer: Box<Writer>) {
        let mut slot = self.inner.slot.lock();
        // A store that was closed meanwhile gives up its area with the writer.
        if slot.closed {
            drop(slot);
            self.flush(&mut writer);
            drop(writer);
            self.wake_told();
            return;
        }
        let alone = slot.waiting == 0;
        slot.writer = Some(writer);
        if alone {
            self.inner.told.notify_all();
        } else {
            self.inner.free.notify_one();
        }
    }

    /// INV-DB-15: a thread has panicked while it held the writer. Whoever waits for the writer, or
    /// for the publish of its group, has an error.
    fn break_off(&self, mut writer: Box<Writer>) {
        let area = writer.ground.as_ref().map(|ground| ground.area().clone());
        if let Some(area) = area.or_else(|| writer.area.clone()) {
            area.break_off();
        }
        writer.group.fail(&self.broken());
        let mut slot = self.inner.slot.lock();
        slot.broken = true;
        self.inner.free.notify_all();
        self.inner.told.notify_all();
    }

    fn broken(&self) -> Error {
        let name = self.name().unwrap_or("(unnamed)");
        Error::internal(format!(
            "an earlier change of database {name:?} failed half way, so it takes no more: close it \
             and open it again; what was committed before can be read, and is unharmed"
        ))
    }

    /// Runs `work` with the writer's slot held.
    pub(super) fn with_writer<T>(
        &self,
        work: impl FnOnce(&mut Writer, &Catalog) -> Result<T>,
    ) -> Result<T> {
        let mut writer = self.take_writer()?;
        let result = work(&mut writer, &self.latest());
        self.give_back(writer);
        result
    }
}

#[cfg(test)]
mod tests {
    use swing::Namespace;

    use super::*;
    use crate::{IfExists, StoreKind};

    fn schemas(store: &Store) -> Vec<String> {
        store.latest().schema_names().into_iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn a_panic_while_the_writer_is_held_ends_all_changes() {
        let folder = tempfile::tempdir().unwrap();
        let namespace = Namespace::open(folder.path()).unwrap();
        let private = Store::create_private(&namespace).unwrap();
        for store in [Store::open(&namespace, "d").unwrap(), private] {
            let mut txn = store.begin().unwrap();
            txn.create_schema("kept", IfExists::Fail).unwrap();
            txn.commit().unwrap();
            let before = schemas(&store);
            let other = store.clone();
            let panics = std::thread::spawn(move || {
                other.with_writer(|_, _| -> Result<()> { panic!("what a broken invariant does") })
            });
            assert!(panics.join().is_err());
            let refused = store.begin().err();
            assert!(matches!(refused, Some(Error::Internal { .. })), "{refused:?}");
            assert!(store.with_writer(|_, _| Ok(())).is_err());
            assert_eq!(schemas(&store), before, "what was committed is read");
            let named = store.kind() == StoreKind::Writer;
            store.close().unwrap();
            if named {
                let again = Store::open(&namespace, "d").unwrap();
                assert_eq!(schemas(&again), before);
                again.begin().unwrap().rollback();
            }
        }
    }

    /// What a transaction did up to its commit is undone by dropping it.
    #[test]
    fn a_panic_in_a_transaction_only_ends_that() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Namespace::open(folder.path()).unwrap(), "d").unwrap();
        let other = store.clone();
        let panics = std::thread::spawn(move || {
            let mut txn = other.begin().unwrap();
            txn.create_schema("lost", IfExists::Fail).unwrap();
            panic!("what a defect of a function does");
        });
        assert!(panics.join().is_err());
        let mut txn = store.begin().unwrap();
        txn.create_schema("kept", IfExists::Fail).unwrap();
        txn.commit().unwrap();
        assert!(schemas(&store).iter().all(|name| name != "lost"));
    }
}
