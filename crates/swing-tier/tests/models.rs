//! Models of a log: those who commit, those who read and those who collect garbage, in each order
//! of their steps (`make test-concurrency`). The storage is one in memory.
#![cfg(loom)]

mod common;

mod models {
    use std::sync::Arc;

    use super::common::model::small_options;
    use super::common::recorder::Recorder;
    use loom::thread;
    use swing_tier::{Log, RecordId, SMALL_BYTES};

    /// Runs a model in each order of its threads' steps in which they are interrupted so often at
    /// most.
    fn model(interruptions: usize, act: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(interruptions);
        builder.max_branches = 20_000;
        builder.check(act);
    }

    /// Bytes of a record that has a block of its own.
    fn bytes(n: u8) -> Vec<u8> {
        vec![n; SMALL_BYTES + 1]
    }

    fn put(log: &Log, n: u8) -> RecordId {
        let mut batch = log.batch().unwrap();
        let id = batch.put(&bytes(n)).unwrap();
        batch.commit().unwrap();
        id
    }

    /// An empty log.
    fn log() -> Arc<Log> {
        Arc::new(Log::create(Arc::new(Recorder::new(1)), small_options()).unwrap())
    }

    /// What a lease shows it reads, whatever is committed or moved meanwhile.
    fn read(log: &Log, ids: [RecordId; 2]) {
        let lease = log.lease();
        let shown = lease.records();
        assert!(shown.contains(&ids[1]), "nobody has freed it");
        for id in shown {
            let first = lease.read(id).unwrap()[0];
            assert!(lease.read(id).unwrap().iter().all(|byte| *byte == first));
            assert!(id != ids[0] || first == 1);
            assert!(id != ids[1] || first == 2);
        }
    }

    /// A record is freed, and its file is emptied, while somebody reads it.
    #[test]
    fn a_lease_shows_its_state_while_others_commit_and_collect() {
        model(2, || {
            let log = log();
            let ids = [put(&log, 1), put(&log, 2)];
            let other = log.clone();
            let reads = thread::spawn(move || read(&other, ids));
            let other = log.clone();
            let commits = thread::spawn(move || {
                let mut batch = other.batch().unwrap();
                batch.free(ids[0]).unwrap();
                batch.commit().unwrap();
            });
            log.compact().unwrap();
            reads.join().unwrap();
            commits.join().unwrap();
            log.compact().unwrap();
            let lease = log.lease();
            assert_eq!(lease.records(), ids[1..]);
            assert_eq!(lease.read(ids[1]).unwrap(), bytes(2));
            log.verify().unwrap();
        });
    }

    /// Batches that are committed at the same moment share a commit, or come one behind the other;
    /// each hears of its own.
    #[test]
    fn commits_at_the_same_moment_all_happen() {
        model(2, || {
            let log = log();
            let first = put(&log, 1);
            let threads = [2, 3].map(|n| {
                let log = log.clone();
                thread::spawn(move || {
                    let id = put(&log, n);
                    assert_eq!(log.lease().read(id).unwrap(), bytes(n), "it has happened");
                    id
                })
            });
            let mut batch = log.batch().unwrap();
            batch.free(first).unwrap();
            batch.commit().unwrap();
            let ids = threads.map(|thread| thread.join().unwrap());
            let (lease, mut all) = (log.lease(), ids.to_vec());
            all.sort();
            assert_eq!(lease.records(), all);
            ids.iter()
                .zip([2, 3])
                .for_each(|(id, n)| assert_eq!(lease.read(*id).unwrap(), bytes(n)));
            log.verify().unwrap();
        });
    }
}
