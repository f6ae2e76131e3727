//! Files of object stores and of the web: [`find`].
//!
//! They are fetched whole by `swingdb-remote`, a program of its own, into files without a name, and
//! read as other files are. What that program wrote counts only when it has ended well. So a
//! connection that breaks off never looks like the end of a file.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::runtime::{cancel, pipes};

use crate::input::stream::{PIPE_BYTES, nameless_file};

/// The program that fetches.
const PROGRAM: &str = "swingdb-remote";
/// Names it, where it is neither beside this program nor in `$PATH`.
const VARIABLE: &str = "SWINGDB_REMOTE";
/// The most objects that a pattern may name: each is an open file.
const MAX_OBJECTS: usize = 500;
const BLOCK_BYTES: usize = 1 << 20;
/// Between two looks at whether the statement is interrupted.
const LOOK_MS: i32 = 100;
/// How that program says that there is no such object.
const NOT_FOUND: i32 = 3;
/// The most bytes of a message that are shown.
const MAX_MESSAGE: u64 = 4 << 10;

/// What was fetched.
pub(crate) struct Object {
    pub(crate) address: String,
    pub(crate) file: File,
    pub(crate) bytes: u64,
}

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

/// Whether a name is an address that can be fetched.
pub(crate) fn is_remote(path: &str) -> bool {
    let schemes = ["s3", "s3a", "gs", "gcs", "https", "http"];
    address(path).is_some_and(|(scheme, _)| schemes.contains(&scheme))
}

/// The objects at an address, or at those that its pattern matches, in order of their names.
pub(crate) fn find(path: &str) -> Result<Vec<Object>> {
    let is_web = path.starts_with("http");
    if is_web || !path.contains(['*', '?', '[']) {
        return Ok(vec![fetch(path.to_string())?]);
    }
    let mut listed = Vec::new();
    run("list", path, |bytes| {
        listed.extend_from_slice(bytes);
        Ok(())
    })?;
    let wrong = |error: serde_json::Error| broken(path, &format!("{PROGRAM}: {error}"));
    let lines = serde_json::Deserializer::from_slice(&listed).into_iter::<String>();
    let found = lines.collect::<std::result::Result<Vec<_>, _>>().map_err(wrong)?;
    if found.is_empty() {
        return Err(no_such_object(path));
    }
    if found.len() > MAX_OBJECTS {
        return Err(Error::plan(format!("{path:?} matches more than {MAX_OBJECTS} objects")));
    }
    found.into_iter().map(fetch).collect()
}

/// Fetches one object.
fn fetch(address: String) -> Result<Object> {
    let (mut file, folder) = nameless_file()?;
    let mut bytes = 0;
    run("get", &address, |block| {
        bytes += block.len() as u64;
        file.write_all(block).map_err(|error| Error::io(&folder, error))
    })?;
    Ok(Object { address, file, bytes })
}

/// Runs the program up to its end, and hands on what it writes.
fn run(task: &str, path: &str, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut running = start(task, path)?;
    if let Some(output) = running.0.stdout.take() {
        pipes::widen(output.as_fd(), PIPE_BYTES);
        let mut output = File::from(std::os::fd::OwnedFd::from(output));
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            cancel::go_on()?;
            let ready = pipes::wait_readable(output.as_fd(), LOOK_MS);
            if !ready.map_err(|error| Error::io(path, error))? {
                continue;
            }
            match output.read(&mut block) {
                Ok(0) => break,
                Ok(count) => take(&block[..count])?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(path, error)),
            }
        }
    }
    let mut message = Vec::new();
    if let Some(errors) = running.0.stderr.take() {
        // A message that cannot be read is none.
        let _ = errors.take(MAX_MESSAGE).read_to_end(&mut message);
    }
    let status = running.0.wait().map_err(|error| Error::io(path, error))?;
    // Ctrl-C reaches that program, too.
    cancel::go_on()?;
    match status.code() {
        Some(0) => Ok(()),
        Some(NOT_FOUND) => Err(no_such_object(path)),
        Some(_) => Err(broken(path, String::from_utf8_lossy(&message).trim())),
        None => Err(broken(path, &format!("{PROGRAM}: {status}"))),
    }
}

fn start(task: &str, path: &str) -> Result<Running> {
    let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
    // Installed together, both lie in one directory.
    let beside = || std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    let program = named.or_else(|| beside().filter(|path| path.exists()));
    let mut command = Command::new(program.unwrap_or_else(|| PathBuf::from(PROGRAM)));
    command.arg(task).arg(path);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map(Running).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let (scheme, rest) = address(path).unwrap_or_default();
            let why = format!(
                " needs the program {PROGRAM}, which is neither beside this program, nor in $PATH, \
                 nor what ${VARIABLE} names; `make remote` builds it"
            );
            not_fetched(scheme, rest, &why)
        }
        _ => broken(path, &format!("{PROGRAM} cannot be started: {error}")),
    })
}

/// The program that fetches. It does not outlive a statement that is interrupted.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended, and was waited for, is not there any more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn broken(path: &str, message: &str) -> Error {
    Error::Import { path: PathBuf::from(path), line: None, message: message.to_string() }
}

fn no_such_object(path: &str) -> Error {
    Error::NotFound { kind: ObjectKind::File, name: path.to_string(), suggestion: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_told_apart() {
        for path in ["s3://b/a.csv", "gs://b/*.csv", "https://h/a.csv?x=1"] {
            assert!(is_remote(path), "{path}");
        }
        for path in ["a.csv", "/s3/a.csv", "s3:/b/a", "file:///a.csv", "ftp://h/a", "odd*://h/a"] {
            assert!(!is_remote(path), "{path}");
        }
    }
}
