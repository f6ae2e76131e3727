//! `swingdb-remote` as a program that runs ([`Running`]), and that answers requests ([`Fetcher`]).
//!
//! A fetcher keeps programs that wait for their next request, with their connections. A program is
//! used by one request at a time. It is ended where a request fails or is interrupted: the rest
//! of its answer has no reader. It ends by itself when it has waited for half a minute, and
//! with the fetcher.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Deserialize;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::runtime::cancel::StatementName;
use swingdb_common::runtime::{cancel, pipes};

use crate::input::stream::PIPE_BYTES;

/// The program that fetches.
pub(crate) const PROGRAM: &str = "swingdb-remote";
/// Names it, where it is neither beside this program nor in `$PATH`.
const VARIABLE: &str = "SWINGDB_REMOTE";
/// Between two looks at whether the statement is interrupted.
const LOOK_MS: i32 = 100;
/// How that program says that there is no such object.
const NOT_FOUND: i32 = 3;
/// The most bytes of a message that are shown.
const MAX_MESSAGE: u64 = 4 << 10;
/// Programs that wait, at most.
const MAX_IDLE: usize = 4;
/// How long one may wait: well below what it waits itself, so that it is there when it is asked.
const IDLE: Duration = Duration::from_secs(10);
/// Bytes that are read at a time.
const BLOCK_BYTES: usize = 256 << 10;
/// A line of an answer is shorter.
const MAX_LINE: usize = 64 << 10;

/// The scheme and the rest of an address of the network or of an object store, which looks like the
/// name of a file.
pub(crate) fn address(path: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = path.split_once("://")?;
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let is_address = !scheme.is_empty() && scheme != "file" && scheme.bytes().all(is_scheme);
    is_address.then_some((scheme, rest))
}

/// The error for an address that is not fetched here; `why` may say more.
pub(crate) fn not_fetched(scheme: &str, rest: &str, why: &str) -> Error {
    let instead = match scheme {
        "http" | "https" => format!("fetch it first, such as with curl -O {scheme}://{rest}"),
        "s3" | "s3a" => format!("copy it first, such as with aws s3 cp s3://{rest} ."),
        "gs" | "gcs" => format!("copy it first, such as with gcloud storage cp gs://{rest} ."),
        _ => "name a file of this machine".to_string(),
    };
    Error::unsupported(format!(
        "{scheme}:// as the name of a file{why}; {instead}, or let a program write to a pipe: \
         program | swingdb import - --into DATABASE.TABLE"
    ))
}

pub(crate) fn broken(path: &str, message: &str) -> Error {
    Error::Import { path: PathBuf::from(path), line: None, message: message.to_string() }
}

pub(crate) fn no_such_object(path: &str) -> Error {
    Error::NotFound { kind: ObjectKind::File, name: path.to_string(), suggestion: None }
}

/// The program while it runs. It does not outlive a statement that is interrupted.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    output: Option<File>,
    /// A forked child must not end its parent's program.
    process: u32,
}

impl Running {
    /// Starts the program; `path` is what errors are about.
    pub(crate) fn start(arguments: &[&str], path: &str) -> Result<Self> {
        Self::start_with(arguments, path, Stdio::null())
    }

    fn start_with(arguments: &[&str], path: &str, input: Stdio) -> Result<Self> {
        let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
        // Installed together, both lie in one directory.
        let beside = || std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
        let program = named.or_else(|| beside().filter(|path| path.exists()));
        let mut command = Command::new(program.unwrap_or_else(|| PathBuf::from(PROGRAM)));
        command.args(arguments).stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                let (scheme, rest) = address(path).unwrap_or_default();
                let why = format!(
                    " needs the program {PROGRAM}, which is neither beside this program, nor in \
                     $PATH, nor what ${VARIABLE} names; `make remote` builds it"
                );
                not_fetched(scheme, rest, &why)
            }
            _ => broken(path, &format!("{PROGRAM} cannot be started: {error}")),
        })?;
        let output = child.stdout.take().map(|output| File::from(OwnedFd::from(output)));
        if let Some(output) = &output {
            pipes::widen(output.as_fd(), PIPE_BYTES);
        }
        Ok(Self { child, output, process: std::process::id() })
    }

    /// Reads what the program has written; 0 at its end.
    pub(crate) fn read(&mut self, block: &mut [u8], path: &str) -> Result<usize> {
        let Some(output) = &mut self.output else { return Ok(0) };
        loop {
            cancel::go_on()?;
            let ready = pipes::wait_readable(output.as_fd(), LOOK_MS);
            if !ready.map_err(|error| Error::io(path, error))? {
                continue;
            }
            match output.read(block) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(path, error)),
            }
        }
    }

    /// Waits until the program has ended, and says why if that was no good end.
    pub(crate) fn end(mut self, path: &str) -> Result<()> {
        let mut message = Vec::new();
        if let Some(errors) = self.child.stderr.take() {
            // A message that cannot be read is none.
            let _ = errors.take(MAX_MESSAGE).read_to_end(&mut message);
        }
        let status = self.child.wait().map_err(|error| Error::io(path, error))?;
        // Ctrl-C reaches that program, too.
        cancel::go_on()?;
        match status.code() {
            Some(0) => Ok(()),
            Some(NOT_FOUND) => Err(no_such_object(path)),
            Some(_) => Err(broken(path, String::from_utf8_lossy(&message).trim())),
            None => Err(broken(path, &format!("{PROGRAM}: {status}"))),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // One that has ended, and was waited for, is not there any more.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A part of an object that comes next.
#[derive(Debug, Deserialize)]
pub(crate) struct Part {
    /// The object's place in the request.
    pub(crate) of: usize,
    pub(crate) start: u64,
    pub(crate) length: u64,
    /// The length of the whole object.
    pub(crate) bytes: u64,
    /// What another object of this name would have another one of.
    pub(crate) version: String,
}

/// Asks for parts of objects.
#[derive(Debug, Default)]
pub(crate) struct Fetcher {
    idle: Mutex<Vec<(Helper, Instant)>>,
}

/// A program that waits for requests.
#[derive(Debug)]
struct Helper {
    running: Running,
    input: ChildStdin,
    /// Its output; the bytes before `taken` have been read.
    block: Vec<u8>,
    taken: usize,
}

impl Fetcher {
    /// The fetcher of the statement that this thread plans. Each statement has one: the next one
    /// may find other credentials in the environment.
    pub(crate) fn of_statement() -> Arc<Self> {
        static ALL: Mutex<Vec<(StatementName, Weak<Fetcher>)>> = Mutex::new(Vec::new());
        let Some(statement) = cancel::planning() else { return Arc::default() };
        let mut all = ALL.lock();
        all.retain(|(name, fetcher)| !name.has_ended() && fetcher.strong_count() > 0);
        let found = all.iter().find(|(name, _)| name.is_of(&statement));
        if let Some(found) = found.and_then(|(_, fetcher)| fetcher.upgrade()) {
            return found;
        }
        let fetcher = Arc::default();
        all.push((statement.name(), Arc::downgrade(&fetcher)));
        fetcher
    }

    /// Sends a request, and hands on what comes: with each piece its part, and how much of that was
    /// there before. `path` is what errors are about.
    pub(crate) fn ask(
        &self,
        path: &str,
        request: &serde_json::Value,
        mut take: impl FnMut(&Part, u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut helper = self.helper(path)?;
        let sent = writeln!(helper.input, "{request}").and_then(|()| helper.input.flush());
        if sent.is_err() {
            // It says why.
            return helper.failed(path);
        }
        loop {
            let Some(line) = helper.line(path)? else { return helper.failed(path) };
            if line.is_empty() {
                break;
            }
            let part: Part = serde_json::from_slice(&line)
                .map_err(|error| broken(path, &format!("{PROGRAM}: {error}")))?;
            let mut came = 0;
            // An object without bytes has a part without bytes.
            if part.length == 0 {
                take(&part, 0, &[])?;
            }
            while came < part.length {
                if helper.rest().is_empty() && !helper.fill(path)? {
                    return helper.failed(path);
                }
                let rest = helper.rest();
                let count =
                    rest.len().min(usize::try_from(part.length - came).unwrap_or(usize::MAX));
                take(&part, came, &rest[..count])?;
                helper.taken += count;
                came += count as u64;
            }
        }
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push((helper, Instant::now()));
        }
        Ok(())
    }

    fn helper(&self, path: &str) -> Result<Helper> {
        let (mut found, mut gone) = (None, Vec::new());
        {
            let mut idle = self.idle.lock();
            while let Some((mut helper, since)) = idle.pop() {
                let is_there = since.elapsed() < IDLE
                    && helper.running.process == std::process::id()
                    && matches!(helper.running.child.try_wait(), Ok(None));
                if is_there {
                    found = Some(helper);
                    break;
                }
                gone.push(helper);
            }
        }
        // Others need not wait until these have ended.
        drop(gone);
        found.map_or_else(|| Helper::start(path), Ok)
    }
}

impl Helper {
    fn start(path: &str) -> Result<Self> {
        let mut running = Running::start_with(&["serve"], path, Stdio::piped())?;
        let input = running.child.stdin.take();
        let input = input.ok_or_else(|| broken(path, "a pipe is missing"))?;
        Ok(Self { running, input, block: Vec::new(), taken: 0 })
    }

    fn rest(&self) -> &[u8] {
        &self.block[self.taken..]
    }

    /// Reads more; whether there was any.
    fn fill(&mut self, path: &str) -> Result<bool> {
        self.block.drain(..self.taken);
        self.taken = 0;
        let before = self.block.len();
        self.block.resize(before + BLOCK_BYTES, 0);
        let count = self.running.read(&mut self.block[before..], path)?;
        self.block.truncate(before + count);
        Ok(count > 0)
    }

    /// The next line; `None`: the program has ended.
    fn line(&mut self, path: &str) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', self.rest()) {
                let line = self.rest()[..end].to_vec();
                self.taken += end + 1;
                return Ok(Some(line));
            }
            if self.rest().len() > MAX_LINE {
                return Err(broken(path, &format!("{PROGRAM} writes something else")));
            }
            if !self.fill(path)? {
                return Ok(None);
            }
        }
    }

    /// Why the program has ended before its answer.
    fn failed(self, path: &str) -> Result<()> {
        drop(self.input);
        self.running.end(path)?;
        Err(broken(path, &format!("{PROGRAM} has ended before its answer did")))
    }
}
