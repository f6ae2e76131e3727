//! A writer killed at any moment loses nothing that was committed, and shares nothing half done.

use std::time::Duration;

use swingdb::{Database, Error};
use swingdb_processes::child::Victim;
use swingdb_processes::contents::{difference, read};
use swingdb_processes::home::Home;
use swingdb_processes::journal::Progress;
use swingdb_processes::model::{State, change};
use swingdb_processes::{kills, seed};

const VICTIM: &str = env!("CARGO_BIN_EXE_swingdb-victim");
/// The tables stay below a few MiB; what is more than this is leaked.
const MAX_MEMORY_BYTES: u64 = 512 << 20;

/// The database of one run of kills, and what is known of it.
struct Run {
    home: Home,
    journals: tempfile::TempDir,
    seed: u64,
    random: fastrand::Rng,
    /// The last step that was found in the database, and the model after it.
    reached: (i64, State),
    /// The step that is shared, and the model after it.
    shared: Option<(i64, State)>,
}

impl Run {
    fn new(seed: u64) -> Self {
        Self {
            home: Home::new(),
            journals: tempfile::tempdir().expect("a directory for journals"),
            seed,
            random: fastrand::Rng::with_seed(seed),
            reached: (0, State::default()),
            shared: None,
        }
    }

    /// Lets a child work for a while, kills it, and reads its journal.
    fn kill_one(&mut self, round: usize) -> Progress {
        let journal = self.journals.path().join(format!("round-{round}"));
        let from = (self.reached.0 + 1).to_string();
        let (seed, path) = (self.seed.to_string(), journal.display().to_string());
        let arguments = ["change", "db", &seed, &from, &path, "3"];
        let mut victim = Victim::start(VICTIM, self.home.path(), &arguments);
        // Some die while they still open the database, most in their work.
        if self.random.u8(0..8) > 0 {
            victim.line();
        }
        let delay = Duration::from_micros(self.random.u64(0..120_000));
        let ended = victim.kill_after(delay);
        ended.assert_killed_or_well(&format!("round {round}, seed {}", self.seed));
        let before = Progress {
            done: self.reached.0,
            begun: self.reached.0,
            shared: self.shared.as_ref().map(|shared| shared.0),
            sharing: None,
        };
        Progress::read(&journal, before).expect("the journal is readable")
    }

    /// Compares the shared and the committed contents with the model.
    fn check(&mut self, round: usize, progress: Progress) {
        let context = format!("round {round}, SWINGDB_SEED={}, {progress:?}", self.seed);
        self.check_shared(&context, progress);

        let (done, begun) = (self.after(progress.done), self.after(progress.begun));
        let database = Database::open_in(self.home.path(), "db")
            .unwrap_or_else(|error| panic!("{context}: adopting: {error}"));
        let found = read(&database).unwrap_or_else(|error| panic!("{context}: {error}"));
        database.close().expect("closing");
        assert!(
            found == done || found == begun,
            "{context}: neither the state before ({}) nor after ({})",
            difference(&found, &done),
            difference(&found, &begun),
        );
        // What was under way is committed after all, or never was; a step that changes nothing
        // looks the same either way.
        let step = if found == begun { progress.begun } else { progress.done };
        self.reached = (step, found);
    }

    fn check_shared(&mut self, context: &str, progress: Progress) {
        let found = match Database::snapshot_in(self.home.path(), "db") {
            Ok(snapshot) => Some(read(&snapshot).unwrap_or_else(|e| panic!("{context}: {e}"))),
            Err(Error::NotFound { .. } | Error::NotShared { .. }) => None,
            Err(other) => panic!("{context}: taking a snapshot: {other}"),
        };
        let candidates = [progress.shared, progress.sharing];
        let Some(found) = found else {
            assert_eq!(progress.shared, None, "{context}: what was shared is gone");
            return;
        };
        let step = candidates
            .into_iter()
            .flatten()
            .find(|step| self.after(*step) == found)
            .unwrap_or_else(|| panic!("{context}: the snapshot is no state that was shared"));
        self.shared = Some((step, found));
    }

    /// The model after `step`: one since the last check, or the one that was shared then.
    fn after(&self, step: i64) -> State {
        if let Some((shared, state)) = &self.shared
            && *shared == step
        {
            return state.clone();
        }
        assert!(step >= self.reached.0, "step {step} was overwritten");
        let mut state = self.reached.1.clone();
        (self.reached.0 + 1..=step).for_each(|step| state.apply(&change(self.seed, step)));
        state
    }

    /// Nothing is left when the database is dropped.
    fn check_nothing_left(self) {
        swingdb::drop_in(self.home.path(), "db").expect("dropping");
        swingdb::gc_in(self.home.path()).expect("collecting garbage");
        assert!(swingdb::list_in(self.home.path()).expect("listing").is_empty());
        self.home.assert_is_emptied(1 << 20);
    }
}

#[test]
fn nothing_committed_is_lost_and_nothing_half_done_is_seen() {
    let mut run = Run::new(seed("kill_writer"));
    let rounds = kills(0.6);
    for round in 0..rounds {
        let progress = run.kill_one(round);
        run.check(round, progress);
        let bytes = run.home.bytes();
        assert!(bytes < MAX_MEMORY_BYTES, "round {round}: {bytes} bytes, seed {}", run.seed);
    }
    eprintln!("{rounds} writers killed, {} changes applied", run.reached.0);
    assert!(run.reached.0 > 0, "no child got as far as its first change");
    run.check_nothing_left();
}
