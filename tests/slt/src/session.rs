//! The process that holds the database of one file: statements in, answers out, one JSON object a
//! line. A process that dies or does not answer in time is told apart from a statement that fails.

use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Bytes of the process's standard error that are shown when it dies.
const SHOWN_STDERR_BYTES: u64 = 2000;

/// The answer to a statement.
pub enum Answer {
    /// A result: a type letter for each column, and the rows; NULL is `None`.
    Rows { types: String, rows: Vec<Vec<Option<String>>> },
    /// How many rows a statement without a result changed.
    Count(u64),
}

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SessionError {
    /// The statement failed: class and message of the exception.
    #[error("{0}")]
    Statement(String),
    /// The process is gone; nothing more can be asked.
    #[error("the database's process is gone: {0}")]
    Gone(String),
}

/// A running process. It is killed when this goes away.
pub struct Session {
    child: Child,
    stdin: ChildStdin,
    answers: Receiver<String>,
    stderr: File,
    timeout: Duration,
    gone: Option<String>,
}

impl Session {
    /// Starts the process in the folder that names of files in statements are relative to.
    pub fn start(command: &[String], folder: &Path, timeout: Duration) -> io::Result<Session> {
        let stderr = tempfile::tempfile()?;
        let (program, arguments) = command
            .split_first()
            .ok_or_else(|| io::Error::other("no command for the session was given"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr.try_clone()?)
            .spawn()
            .map_err(|error| io::Error::other(format!("{program}: {error}")))?;
        let missing = || io::Error::other("a pipe is missing");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Session { child, stdin, answers, stderr, timeout, gone: None })
    }

    /// Runs a statement in the session with this number.
    pub fn run(&mut self, connection: usize, sql: &str) -> Result<Answer, SessionError> {
        self.ask(&json!({ "connection": connection, "sql": sql }))
    }

    /// Ends the session with this number and starts it anew.
    pub fn reconnect(&mut self, connection: usize) -> Result<(), SessionError> {
        self.ask(&json!({ "reconnect": connection })).map(drop)
    }

    /// Why nothing can be asked any more.
    pub fn gone(&self) -> Option<&str> {
        self.gone.as_deref()
    }

    fn ask(&mut self, request: &Value) -> Result<Answer, SessionError> {
        if let Some(why) = &self.gone {
            return Err(SessionError::Gone(why.clone()));
        }
        let sent = writeln!(self.stdin, "{request}").and_then(|()| self.stdin.flush());
        let answer = match sent {
            Ok(()) => self.answers.recv_timeout(self.timeout),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        match answer {
            Ok(line) => understand(&line),
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                Err(self.lost(format!("no answer in {} s", self.timeout.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait();
                let why = self.death(status);
                Err(self.lost(why))
            }
        }
    }

    fn lost(&mut self, why: String) -> SessionError {
        self.gone = Some(why.clone());
        SessionError::Gone(why)
    }

    /// How the process ended, and the end of what it wrote to its standard error.
    fn death(&mut self, status: io::Result<ExitStatus>) -> String {
        let status = match status {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let mut bytes = Vec::new();
        let length = self.stderr.metadata().map_or(0, |data| data.len());
        let start = SeekFrom::Start(length.saturating_sub(SHOWN_STDERR_BYTES));
        if self.stderr.seek(start).is_ok() {
            // What cannot be read is left out: the status is the news.
            let _ = self.stderr.read_to_end(&mut bytes);
        }
        format!("{status} {}", String::from_utf8_lossy(&bytes).trim())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads one answer; one that makes no sense means that the process is not the right one.
fn understand(line: &str) -> Result<Answer, SessionError> {
    let nonsense = |_| SessionError::Gone(format!("it answered {line:?}"));
    let value: Value = serde_json::from_str(line).map_err(nonsense)?;
    if let Some(message) = value["error"].as_str() {
        let class = value["class"].as_str().unwrap_or_default();
        return Err(SessionError::Statement(format!("{class}: {message}")));
    }
    if let Some(count) = value["count"].as_u64() {
        return Ok(Answer::Count(count));
    }
    let types = value["types"].as_str().unwrap_or_default().to_string();
    let rows: Vec<Vec<Option<String>>> =
        serde_json::from_value(value["rows"].clone()).map_err(nonsense)?;
    Ok(Answer::Rows { types, rows })
}
