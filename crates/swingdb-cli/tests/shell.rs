//! The interactive shell on a pseudo-terminal (`script` of util-linux), as a person uses it.

mod common;

use common::World;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A shell that somebody types into.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Arc<Mutex<String>>,
    /// What was on the screen when it was last looked for something.
    seen: usize,
}

impl Terminal {
    fn open(world: &World, args: &str) -> Self {
        Self::open_with(world, args, &[])
    }

    fn open_with(world: &World, args: &str, variables: &[(&str, &str)]) -> Self {
        // Without `exec` some shells stay between, and Ctrl-C is meant for them as well.
        let program = format!("exec {} {args}", env!("CARGO_BIN_EXE_swingdb"));
        let mut command = Command::new("script");
        command.args(["-q", "-e", "-c", &program, "/dev/null"]);
        command.env("SWINGDB_HOME", world.home()).env("SWINGDB_HISTORY", world.history());
        command
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .env("SWINGDB_PAGER", "")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (keys, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let screen = Arc::new(Mutex::new(String::new()));
        let shown = screen.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
        });
        Terminal { child, keys, screen, seen: 0 }
    }

    fn keys(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits until something new on the screen contains `text`; answers everything up to it.
    fn expect(&mut self, text: &str) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen.lock().unwrap();
            let new = &screen[self.seen..];
            if let Some(at) = new.find(text) {
                let shown = new[..at + text.len()].to_string();
                self.seen += at + text.len();
                return shown;
            }
            let waited = start.elapsed();
            assert!(waited < Duration::from_secs(60), "{text:?} does not come: {new:?}");
            drop(screen);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether something new on the screen contains `text` within half a second.
    fn shows(&self, text: &str) -> bool {
        let shown = || self.screen.lock().unwrap()[self.seen..].contains(text);
        (0..50).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            shown()
        })
    }

    fn leave(mut self) {
        self.keys(".quit\r");
        self.ended();
    }

    fn ended(&mut self) {
        let status = self.child.wait().unwrap();
        let screen = self.screen.lock().unwrap();
        assert!(status.success(), "{status}: {:?}", &screen[self.seen..]);
    }
}

#[test]
fn statements_may_take_several_lines_and_errors_do_not_end_the_shell() {
    let world = World::new();
    let mut shell = Terminal::open(&world, "");
    shell.expect("private database");
    shell.expect("swingdb> ");
    shell.keys("SELECT 40 +\r");
    shell.expect("    ...> ");
    shell.keys("2 AS answer;\r");
    shell.expect("answer");
    shell.expect("42");
    shell.expect("1 row");
    shell.expect("swingdb> ");
    shell.keys("SELECT 1 FRM\r");
    shell.expect("    ...> ");
    shell.keys("t t;\r");
    shell.expect("error: line 2, column 1: ");
    shell.expect("  t t;\r\n  ^\r\n");
    shell.expect("swingdb> ");
    shell.keys("SELECT (\r");
    shell.expect("    ...> ");
    shell.keys("1 + \u{3}");
    shell.expect("swingdb> ");
    shell.keys("CREATE TABLE t (x BIGINT);\r");
    shell.expect("CREATE TABLE");
    shell.keys("INSERT INTO t VALUES (1), (2);\r");
    shell.expect("INSERT: 2 rows");
    shell.keys(".tables\r");
    shell.expect("│ t ");
    shell.leave();
    let history = std::fs::read_to_string(world.history()).unwrap();
    assert!(history.contains("answer") && history.contains(".tables"), "{history}");
}

#[test]
fn ctrl_c_ends_the_query_and_not_the_shell() {
    let world = World::new();
    let mut shell = Terminal::open(&world, "");
    shell.expect("swingdb> ");
    let numbers = "(SELECT unnest(range(0, 200000)) AS i)";
    shell.keys(&format!("SELECT sum(a.i % 7 * b.i) AS s FROM {numbers} a, {numbers} b;\r"));
    // Again and again: the first may be read as a key, before the query has begun.
    let start = Instant::now();
    while !shell.shows("interrupted") {
        assert!(start.elapsed() < Duration::from_secs(60), "the query goes on");
        std::thread::sleep(Duration::from_millis(1500));
        shell.keys("\u{3}");
    }
    shell.expect("interrupted");
    shell.expect("swingdb> ");
    // At the prompt it throws away what was typed.
    shell.keys("SELECT nonsense\u{3}");
    shell.expect("swingdb> ");
    shell.keys("SELECT 6 * 7 AS product;\r");
    shell.expect("42");
    shell.leave();
}

#[test]
fn tab_completes_keywords_tables_columns_and_commands() {
    let world = World::new();
    world.ok(&["db", "-c", "CREATE TABLE measurements (temperature DOUBLE)", "-c", "SHARE"]);
    let mut shell = Terminal::open(&world, "--snapshot db");
    shell.expect("a snapshot of epoch");
    shell.expect("> ");
    shell.keys("SELECT count(temper\t) AS n FROM measu\t;\r");
    shell.expect("temperature");
    shell.expect("measurements");
    shell.expect("│      0 │");
    shell.keys("sel\t 5 AS five;\r");
    shell.expect("select");
    shell.expect("│      5 │");
    shell.keys(".tab\t\r");
    shell.expect("measurements");
    shell.leave();
}

#[test]
fn a_snapshot_shell_moves_to_the_newest_state() {
    let world = World::new();
    world.ok(&["db", "-c", "CREATE TABLE t AS SELECT 1 AS x", "-c", "SHARE"]);
    let mut shell = Terminal::open(&world, "--snapshot db");
    shell.expect("> ");
    shell.keys(".refresh\r");
    shell.expect("no newer state");
    world.ok(&["sql", "db", "INSERT INTO t VALUES (41)", "--write", "--share"]);
    shell.keys("SELECT sum(x) AS s FROM t;\r");
    shell.expect("│      1 │");
    shell.keys(".refresh\r");
    shell.expect("moved to the newest state");
    shell.keys("SELECT sum(x) AS s FROM t;\r");
    shell.expect("│     42 │");
    shell.leave();
}

#[test]
fn ctrl_d_leaves() {
    let world = World::new();
    let mut shell = Terminal::open(&world, "db");
    shell.expect("open for writing");
    shell.expect("db> ");
    shell.keys("\u{4}");
    shell.ended();
}

#[test]
fn a_shell_on_a_name_that_is_new_says_so() {
    let world = World::new();
    world.ok(&["measures", "-c", "CREATE TABLE t (x BIGINT)"]);
    let mut shell = Terminal::open(&world, "measure");
    shell.expect("new database \"measure\", open for writing; did you mean \"measures\"?");
    shell.expect("> ");
    shell.keys("SELECT 6 * 7 AS product;\r");
    shell.expect("42");
    shell.keys(".quit\r");
    shell.expect("note: database \"measure\" does not exist, and nothing was created in it");
    shell.ended();
    let names = world.ok(&["ls"]);
    assert_eq!(names.matches("measure").count(), 1, "{names}");
}

#[test]
fn words_of_other_shells_are_understood() {
    let world = World::new();
    for leave in ["exit", "quit;", "\\q"] {
        let mut shell = Terminal::open(&world, "");
        shell.expect("> ");
        shell.keys("help\r");
        shell.expect(".attach NAME");
        shell.expect("> ");
        shell.keys(&format!("{leave}\r"));
        shell.ended();
    }
}

#[test]
fn another_database_is_opened() {
    let world = World::new();
    world.ok(&["two", "-c", "CREATE TABLE second AS SELECT 2 AS x"]);
    let mut shell = Terminal::open(&world, "one");
    shell.expect("one> ");
    shell.keys("CREATE TABLE first AS SELECT 1 AS x;\r");
    shell.expect("one> ");
    shell.keys("BEGIN;\r");
    shell.expect("one> ");
    shell.keys(".open two\r");
    shell.expect("a transaction is open");
    shell.expect("one> ");
    shell.keys("ROLLBACK;\r");
    shell.expect("one> ");
    shell.keys(".open two\r");
    shell.expect("database \"two\", open for writing");
    shell.expect("two> ");
    // Completion knows the other one's names, and this process has let go of the first.
    shell.keys("SELECT x + 40 AS y FROM seco\t;\r");
    shell.expect("42");
    world.ok(&["sql", "one", "INSERT INTO first VALUES (2)", "--write"]);
    shell.keys(".open\r");
    shell.expect("private database");
    shell.leave();
}

#[test]
fn a_terminal_is_shown_types_and_long_results_through_a_pager() {
    let world = World::new();
    let pager = [("SWINGDB_PAGER", "sed s/^/PAGED:/"), ("NO_COLOR", "1")];
    let mut shell = Terminal::open_with(&world, "", &pager);
    shell.expect("> ");
    shell.keys("SELECT 1::BIGINT AS n, 'a' AS \"two\r");
    shell.expect("...> ");
    shell.keys("words\";\r");
    shell.expect("│ n      │ two\\nwords │");
    shell.expect("│ BIGINT │ VARCHAR    │");
    shell.expect("1 row");
    shell.expect("> ");
    shell.keys("SELECT range AS n FROM range(1000);\r");
    shell.expect("PAGED:│      0 │");
    shell.expect("PAGED:1 000 rows (40 shown)");
    shell.expect("> ");
    shell.keys(".pager off\r");
    shell.expect("> ");
    shell.keys("SELECT range AS n FROM range(1000);\r");
    assert!(!shell.expect("1 000 rows (40 shown)").contains("PAGED"));
    shell.leave();
}
