//! `swingdb ui`: a web page about the databases of this machine, for the browsers of this machine.

use crate::args::UiArgs;
use crate::failure::{Failure, INTERRUPTED, Outcome};
use crate::home::Home;
use crate::ui::{Limits, Server, State, Token};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// How long running cells have to end.
const PATIENCE: Duration = Duration::from_secs(5);

pub fn run(home: &Home, args: &UiArgs) -> Outcome {
    if !args.listen.ip().is_loopback() {
        return Err(Failure::usage(format!(
            "--listen {}: the page is for browsers of this machine only. From another one, use a \
             tunnel: ssh -L {port}:127.0.0.1:{port} HOST",
            args.listen,
            port = args.listen.port(),
        )));
    }
    if let Some(name) = &args.name {
        // Says at once what the page would be told: no such database, nothing shared.
        drop(home.snapshot(name)?);
    }
    let limits = Limits { rows: args.max_rows };
    let state = State::new(home.clone(), args.name.clone(), limits);
    let token = Token::random()?;
    let secret = token.text().to_string();
    let server = Server::bind(args.listen, Arc::clone(&state), token).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                "; another `swingdb ui`? --listen 127.0.0.1:0 takes \
                                              a port that is free"
            }
            _ => "",
        };
        Failure::message(format!("cannot listen on {}: {error}{hint}", args.listen))
    })?;
    end_at_signals(&server)?;
    let sweeper = Arc::clone(&state);
    std::thread::Builder::new().name("sweep".to_string()).spawn(move || sweeper.sweep())?;
    let page = format!("http://{}/#token={secret}", server.address()?);
    println!("{page}");
    println!("Open this address in a browser of this machine. Ctrl-C ends the page.");
    std::io::stdout().flush()?;
    let opened = if args.open { Opened::new(&page) } else { None };
    server.run();
    drop(opened);
    if !state.end(PATIENCE) {
        eprintln!("swingdb ui: not all cells have ended in time");
    }
    Ok(())
}

/// The first signal ends the server, the second one the program.
fn end_at_signals(server: &Server) -> Outcome {
    let stop = server.stopper()?;
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let wait = move || {
        let mut arriving = signals.forever();
        if arriving.next().is_some() {
            stop.stop();
        }
        if arriving.next().is_some() {
            swingdb::exit_now(INTERRUPTED);
        }
    };
    std::thread::Builder::new().name("signals".to_string()).spawn(wait)?;
    Ok(())
}

/// A file that leads a browser to the page. Its name is what the system shows in lists of
/// processes, not the secret in it.
struct Opened(PathBuf);

impl Opened {
    /// Opens the page; says so where that fails, since the address is printed all the same.
    fn new(page: &str) -> Option<Self> {
        let name = format!("swingdb-ui-{}.html", std::process::id());
        let directory = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let path = directory.unwrap_or_else(std::env::temp_dir).join(name);
        let text = format!("<!doctype html><meta http-equiv=refresh content='0;url={page}'>\n");
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        if let Err(error) = written {
            eprintln!("swingdb ui: --open: {}: {error}", path.display());
            return None;
        }
        let opened = Opened(path);
        opened.show();
        Some(opened)
    }

    fn show(&self) {
        let browser = std::env::var_os("BROWSER").filter(|name| !name.is_empty());
        let browser = browser.unwrap_or_else(|| OsString::from("xdg-open"));
        let mut command = Command::new(Path::new(&browser));
        command.arg(&self.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            // Some browsers run as long as their window is open.
            Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
            Err(error) => eprintln!("swingdb ui: --open: {}: {error}", browser.display()),
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // A file that is gone already needs no removing.
        let _ = std::fs::remove_file(&self.0);
    }
}
