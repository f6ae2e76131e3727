//! Changes in which something dies at a random time: [`Program`], which makes them, and [`Rounds`].

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Coordinators as processes.
pub struct Program {
    folder: tempfile::TempDir,
}

impl Program {
    pub fn in_a_folder() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A file that names nodes.
    pub fn list(&self, name: &str, lines: &[String]) -> PathBuf {
        let file = self.folder.path().join(name);
        std::fs::write(&file, lines.join("\n")).unwrap();
        file
    }

    pub fn start(&self, list: &Path, arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_swingdb-cluster"));
        command.arg(list).args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// Runs it to its end, and says how long that takes.
    pub fn run(&self, list: &Path, arguments: &[&str]) -> Duration {
        let start = Instant::now();
        assert!(self.start(list, arguments).wait().unwrap().success(), "{arguments:?}");
        start.elapsed()
    }
}

/// At least so many rounds, and at most so many until both outcomes were seen.
const LEAST: u32 = 12;
const MOST: u32 = 60;

/// Rounds of a change in which something dies. They go on until some changes were dropped and some
/// were kept: rounds of one outcome only show nothing.
pub struct Rounds {
    random: fastrand::Rng,
    /// How long the change takes if nothing dies.
    whole: Duration,
    nth: u32,
    dropped: u32,
    kept: u32,
}

impl Rounds {
    /// What two changes take in which nothing dies; the first does more than those that follow.
    pub fn new(wholes: [Duration; 2]) -> Self {
        let whole = wholes[0].min(wholes[1]);
        let seed = std::env::var("SWINGDB_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| fastrand::u64(..));
        println!("SWINGDB_SEED={seed}; a change takes {whole:?}");
        let random = fastrand::Rng::with_seed(seed);
        Self { random, whole, nth: 0, dropped: 0, kept: 0 }
    }

    /// The number of the next round, if there is one.
    pub fn again(&mut self) -> Option<u32> {
        self.nth += 1;
        let has_both = self.dropped > 0 && self.kept > 0;
        let goes_on = self.nth <= LEAST || !has_both && self.nth <= MOST;
        goes_on.then_some(self.nth)
    }

    pub fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }

    /// When something dies in this round: at any time of the change, or about its end, where it is
    /// decided.
    pub fn at(&mut self) -> Duration {
        let from = if self.random.bool() { 0.0 } else { 0.7 };
        self.whole.mul_f64(from + (1.2 - from) * self.random.f64())
    }

    /// What has become of the change of this round.
    pub fn note(&mut self, is_kept: bool) {
        match is_kept {
            true => self.kept += 1,
            false => self.dropped += 1,
        }
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        println!("{} changes were dropped, {} were kept", self.dropped, self.kept);
        assert!(self.dropped > 0 && self.kept > 0, "only one outcome was seen");
    }
}
