//! Child processes: started, watched, killed for real.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A child that has not ended by itself after this time is a failure of the test.
const MAX_RUN: Duration = Duration::from_secs(120);

/// A running `swingdb-victim`; killed when dropped.
pub struct Victim {
    child: Child,
    output: BufReader<ChildStdout>,
}

/// How a victim ended and what it said.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// The rest of its standard output.
    pub output: String,
    /// Its standard error.
    pub errors: String,
}

impl Victim {
    /// Starts `program` with the namespace `home`.
    pub fn start(program: &str, home: &Path, arguments: &[&str]) -> Self {
        Self::start_with(program, home, arguments, &[])
    }

    /// Starts it with more environment variables.
    pub fn start_with(
        program: &str,
        home: &Path,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .env("SWINGDB_HOME", home)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the victim can be started");
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        Self { child, output }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its next line; empty when it has ended.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("its output is text");
        line.trim_end().to_string()
    }

    /// Sends it a line and waits for its answer.
    pub fn ask(&mut self, line: &str) -> String {
        let input = self.child.stdin.as_mut().expect("its input is open until it is told to end");
        writeln!(input, "{line}").expect("it reads its input");
        self.line()
    }

    /// Waits for `delay`, then kills it with SIGKILL unless it has ended.
    pub fn kill_after(mut self, delay: Duration) -> Ended {
        std::thread::sleep(delay);
        self.child.kill().expect("a child can be killed");
        self.ended()
    }

    /// Closes its input and waits for its end.
    pub fn finish(mut self) -> Ended {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + MAX_RUN;
        while self.child.try_wait().expect("a child can be waited for").is_none() {
            assert!(Instant::now() < deadline, "the victim hangs: {:?}", self.child);
            std::thread::sleep(Duration::from_millis(2));
        }
        self.ended()
    }

    fn ended(&mut self) -> Ended {
        let status = self.child.wait().expect("a child can be waited for");
        let (mut output, mut errors) = (String::new(), String::new());
        self.output.read_to_string(&mut output).expect("its output is text");
        if let Some(mut stream) = self.child.stderr.take() {
            stream.read_to_string(&mut errors).expect("its errors are text");
        }
        Ended { status, output, errors }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Fails the test unless the child was killed by us or ended well.
    #[track_caller]
    pub fn assert_killed_or_well(&self, context: &str) {
        use std::os::unix::process::ExitStatusExt;
        let killed = self.status.signal() == Some(9);
        assert!(killed || self.status.success(), "{context}: {self:?}");
    }

    /// Fails the test unless the child ended well.
    #[track_caller]
    pub fn assert_well(&self, context: &str) {
        assert!(self.status.success(), "{context}: {self:?}");
    }
}
