//! What the tests of programs share.
#![allow(dead_code, reason = "each test uses its part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use swing::{AreaName, Namespace, Snapshot};

/// The library, built beside the tests.
pub fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let program = std::env::current_exe().unwrap();
        let folder = program.parent().unwrap().parent().unwrap();
        let built = Command::new(env!("CARGO"))
            .args(["build", "--release", "--locked", "-p", "swing-preload", "--lib"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(built.unwrap().success());
        folder.join("libswingmalloc_preload.so")
    })
}

/// Whether a program is there; says so if not.
pub fn installed(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        // Shown also where a test succeeds, unlike what `println` prints.
        let _ = writeln!(std::io::stderr(), "{program} is not installed: not tested");
    }
    found
}

/// Builds a program in C of this folder; `None`, and says so, without a compiler.
pub fn built(source: &str, folder: &Path) -> Option<PathBuf> {
    if !installed("gcc") {
        return None;
    }
    let program = folder.join(Path::new(source).file_stem().unwrap());
    compile(source, &program, &[]);
    Some(program)
}

/// A program of this folder that is linked with a library of its own, of the same source.
pub fn built_with_library(source: &str, folder: &Path) -> Option<PathBuf> {
    if !installed("gcc") {
        return None;
    }
    let (library, program) = (folder.join("library.so"), folder.join("program"));
    compile(source, &library, &["-DLIBRARY", "-shared", "-fPIC"]);
    compile(source, &program, &[library.to_str().unwrap()]);
    Some(program)
}

fn compile(source: &str, made: &Path, more: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
    let options = ["-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"];
    let done = Command::new("gcc").args(options).arg(made).arg(source).args(more).status();
    assert!(done.unwrap().success(), "gcc");
}

/// The program with its heap in an area `program` of the namespace.
pub fn start(home: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library()).env("SWINGDB_HOME", home);
    command.env("SWING_PRELOAD_NAME", "program").env("SWING_PRELOAD_GIB", "8");
    command
}

/// A live hook, of a program that may get no processor for long.
pub fn hook_now(namespace: &Namespace, name: &AreaName) -> Snapshot {
    let patience = std::time::Duration::from_secs(60);
    let options = swing::HookOptions { patience, ..Default::default() };
    namespace.hook_live_with(name, options).unwrap()
}

/// Killed at the latest when it is dropped.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Stops a thread of a test, also when it fails.
pub struct AtTheEnd<'a>(pub &'a AtomicBool);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Hooks the heap all the time while the program is at work; what it says at the end.
pub fn hooked_all_the_time(mut command: Command, namespace: &Namespace) -> String {
    let name = AreaName::new("program").unwrap();
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Ended(command.spawn().unwrap());
    let input = child.0.stdin.take().unwrap();
    let mut out = BufReader::new(child.0.stdout.take().unwrap());
    let mut said = String::new();
    out.read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n");
    let begun = Instant::now();
    for hooks in 0.. {
        let snapshot = hook_now(namespace, &name);
        drop(snapshot);
        if hooks >= 50 && begun.elapsed() > Duration::from_millis(500) {
            break;
        }
    }
    drop(input);
    out.read_to_string(&mut said).unwrap();
    assert!(child.0.wait().unwrap().success(), "{said}");
    said
}
