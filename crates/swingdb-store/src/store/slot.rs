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

use swing::Publish;
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::{go_on, to_the_end};

use crate::commit::group::Ticket;
use crate::commit::writer::{MAX_LEFT_BY_COMMITS, Writer};
use crate::store::handle::{Slot, Store};

/// How long [`Store::begin`] waits for another transaction of this process.
pub const WRITER_WAIT: Duration = Duration::from_secs(30);

/// How long a statement that waits for the writer does not ask whether it is to end.
const PATIENCE: Duration = Duration::from_millis(50);

/// The writer, until [`Store::give_back`] or the drop.
pub(crate) struct Held {
    store: Store,
    /// `None` only after the end.
    writer: Option<Box<Writer>>,
    /// The thread was unwinding already: what it does meanwhile may well succeed.
    unwinding: bool,
}

impl Held {
    /// Takes the writer; `None` when somebody else has it.
    fn take(slot: &mut Slot, store: &Store) -> Option<Self> {
        let writer = Some(slot.writer.take()?);
        Some(Self { store: store.clone(), writer, unwinding: std::thread::panicking() })
    }
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
    /// Takes the writer's slot; what was committed before is published then.
    pub(crate) fn take_slot(&self) -> Result<Held> {
        let mut writer = self.take_slot_as_it_is()?;
        self.flush(&mut writer);
        Ok(writer)
    }

    pub(crate) fn take_slot_as_it_is(&self) -> Result<Held> {
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
            if let Some(writer) = Held::take(&mut slot, self) {
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
    pub(crate) fn give_back(&self, mut held: Held) {
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

    /// Publishes the group that the writer has.
    pub(crate) fn flush(&self, writer: &mut Writer) {
        let (Some(newest), Some(ground)) = (writer.group.newest(), writer.ground.clone()) else {
            return;
        };
        // The statement that happens to do this is not the one that would be undone.
        match to_the_end(|| writer.publish(&ground, &newest, Publish::Committed)) {
            Ok(epoch) => {
                let published = writer.group.published();
                self.install(newest);
                published.tell(epoch);
            }
            Err(error) => writer.undo_group(&error),
        }
        self.wake_told();
    }

    /// Waits until a transaction that joined a group was published; publishes the group where
    /// nobody else is about to.
    pub(crate) fn wait_published(&self, ticket: &Ticket) -> Result<u64> {
        let mut slot = self.inner.slot.lock();
        loop {
            if let Some(outcome) = ticket.outcome() {
                return outcome;
            }
            if slot.waiting == 0
                && let Some(mut writer) = Held::take(&mut slot, self)
            {
                drop(slot);
                self.flush(&mut writer);
                self.give_back(writer);
                slot = self.inner.slot.lock();
                continue;
            }
            self.inner.told.wait(&mut slot);
        }
    }

    /// Gives memory back that statements have dropped, if it is much and nobody is writing. For the
    /// end of a statement, when nobody of it looks at the old state any more.
    pub fn give_back_dropped(&self) {
        let much = self.latest().space.queued_bytes() > MAX_LEFT_BY_COMMITS;
        if !much || self.inner.pid != std::process::id() || self.loading().is_some() {
            return;
        }
        let held = Held::take(&mut self.inner.slot.lock(), self);
        let Some(mut writer) = held else { return };
        self.flush(&mut writer);
        writer.give_back_dropped(&self.latest());
        self.give_back(writer);
    }

    /// Ends the use of this store: new transactions of all handles get
    /// [`Error::Closed`]; catalogs and arrays that are still held stay readable. A named database
    /// stays in memory.
    pub fn close(self) -> Result<()> {
        let mut slot = self.inner.slot.lock();
        slot.closed = true;
        let mut writer = slot.writer.take();
        drop(slot);
        if let Some(writer) = &mut writer {
            self.flush(writer);
        }
        self.inner.free.notify_all();
        let finished = self.inner.finish_disk();
        drop(writer);
        finished
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
