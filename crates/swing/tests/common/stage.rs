//! Processes of a test: the test program itself, told what to do by lines, answering by lines.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What a started process is to do.
pub const ROLE: &str = "SWING_STAGE_ROLE";
/// The namespace it does that in.
pub const PLACE: &str = "SWING_STAGE_PLACE";

/// A started process; killed at the end if it still lives.
pub struct Stage {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Stage {
    /// Starts this program's test `child_entry`, which does what `role` says.
    pub fn start(role: &str, place: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        if super::is_over_one() {
            command.env(swing::BACKING_VARIABLE, super::backing_text());
        }
        let mut child = command
            .args(["child_entry", "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(PLACE, place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().unwrap());
        Self { child, to, from }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line `answer TEXT` and returns the text.
    pub fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.from.read_line(&mut line).unwrap();
            assert!(read > 0, "the process ended without an answer");
            if let Some(text) = line.trim_end().strip_prefix("answer ") {
                return text.to_owned();
            }
        }
    }

    /// Sends a line.
    pub fn tell(&mut self, line: &str) {
        self.to.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Sends a line and waits for the answer.
    pub fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.answer()
    }

    /// Lets it come to its end, which must be a good one.
    pub fn finish(mut self) {
        drop(self.to.take());
        let mut rest = String::new();
        self.from.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
    }

    /// Ends it by SIGKILL, and waits until it is gone.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.end();
    }
}

/// In a started process: answers.
pub fn say(text: &str) {
    println!("\nanswer {text}");
}

/// In a started process: the next line, without its end; `None` when the test has gone.
pub fn next_line() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).unwrap();
    (read > 0).then(|| line.trim_end().to_owned())
}

/// Where namespaces are in a small `/dev/shm`.
pub const HERE: &str = "/dev/shm/swing-small";

/// Runs `child_entry` with a role in a mount namespace of its own, over whose `/dev/shm` a tmpfs of
/// 64 MB is mounted, as containers have it. Where that is forbidden it says so and does nothing.
pub fn in_small_shm(role: &str) {
    in_mounts(role, HERE, "mount -t tmpfs -o size=64m tmpfs /dev/shm");
}

/// The same, after other mounts.
pub fn in_mounts(role: &str, place: &str, mounts: &str) {
    let script = format!("({mounts}) || exit 77; exec \"$0\" \"$@\"");
    // SAFETY: asks only.
    let flags = if unsafe { libc::geteuid() } == 0 { "-m" } else { "-Urm" };
    let out = Command::new("unshare")
        .args([flags, "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args(["child_entry", "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(PLACE, place)
        .env_remove(swing::BACKING_VARIABLE)
        .output();
    let out = match out {
        Ok(out) if out.status.success() => return,
        Ok(out) => out,
        Err(e) => {
            println!("skipped: no unshare program: {e}");
            return;
        }
    };
    let text = String::from_utf8_lossy(&out.stderr);
    let forbidden = out.status.code() == Some(77) || text.contains("unshare");
    assert!(forbidden, "{}\n{text}", String::from_utf8_lossy(&out.stdout));
    println!("skipped: no mount namespace of one's own here: {text}");
}
