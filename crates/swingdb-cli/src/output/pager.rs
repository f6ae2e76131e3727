//! Text that does not fit on the terminal goes through a pager: `$SWINGDB_PAGER`, else `$PAGER`,
//! else `less`. Where there is none it is printed as it is.

use crate::failure::Outcome;
use crate::progress;
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

/// The default program.
const LESS: &str = "less";
/// Ends by itself where all fits, shows colours, cuts long lines, leaves the text on the screen.
const LESS_OPTIONS: &str = "FRSX";

/// Holds text back until it is known whether it fits.
pub struct Paged<'a> {
    sink: &'a mut Box<dyn Write + Send>,
    /// Lines of the terminal.
    height: usize,
    lines: usize,
    held: Vec<u8>,
    pager: Option<Child>,
    /// There is no pager.
    direct: bool,
}

impl<'a> Paged<'a> {
    pub fn new(sink: &'a mut Box<dyn Write + Send>, height: usize) -> Self {
        Paged { sink, height, lines: 0, held: Vec::new(), pager: None, direct: false }
    }

    /// The end of the text: waits until the pager was left.
    pub fn finish(mut self) -> Outcome {
        match self.pager.take() {
            Some(mut pager) => {
                drop(pager.stdin.take());
                pager.wait()?;
            }
            None => self.sink.write_all(&self.held)?,
        }
        Ok(())
    }

    /// It does not fit: to the pager with it, or to the screen.
    fn begin(&mut self) -> io::Result<()> {
        self.sink.flush()?;
        progress::stop();
        self.pager = start();
        self.direct = self.pager.is_none();
        let held = std::mem::take(&mut self.held);
        self.pass(&held)
    }

    fn pass(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.pager.as_mut().and_then(|pager| pager.stdin.as_mut()) {
            Some(input) => input.write_all(bytes),
            None => self.sink.write_all(bytes),
        }
    }
}

impl Write for Paged<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.direct || self.pager.is_some() {
            self.pass(bytes)?;
            return Ok(bytes.len());
        }
        self.lines += bytes.iter().filter(|byte| **byte == b'\n').count();
        self.held.extend_from_slice(bytes);
        // One line is the next prompt's.
        if self.lines >= self.height {
            self.begin()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn start() -> Option<Child> {
    let named = ["SWINGDB_PAGER", "PAGER"].iter().find_map(std::env::var_os);
    let mut command = match named {
        Some(text) if text.is_empty() => return None,
        Some(text) => {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(text);
            shell
        }
        None => Command::new(LESS),
    };
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", LESS_OPTIONS);
    }
    command.stdin(Stdio::piped()).spawn().ok()
}
