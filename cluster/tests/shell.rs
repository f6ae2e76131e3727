//! The shell: statements from the command line, a script, and typed; its file of nodes.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{Node, nodes, with_room};

struct Fixture {
    nodes: Vec<Node>,
    folder: tempfile::TempDir,
    file: PathBuf,
}

/// Two nodes that want a token, and a file that says where it is.
fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), "0123456789abcdef\n").unwrap();
    let token = folder.path().join("token").to_str().unwrap().to_string();
    let nodes: Vec<Node> = (0..2).map(|_| Node::start(&["--token-file", &token])).collect();
    let file = folder.path().join("nodes");
    let places = nodes.iter().map(Node::place).collect::<Vec<_>>().join("\n");
    std::fs::write(&file, format!("# A cluster.\ntoken_file = token\n\n{places}\n")).unwrap();
    Fixture { nodes, folder, file }
}

fn program(file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_swingdb-cluster"));
    command.arg(file).env_remove("SWINGDB_CLUSTER_TOKEN").env("SWINGDB_HISTORY", "");
    command
}

fn run(file: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = program(file);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn failed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn statements_come_from_the_command_line_and_from_scripts() {
    with_room(|| {
        let f = fixture();
        let rows = "SELECT i AS id, 'row ' || i AS s FROM generate_series(1, 100) AS g(i)";
        let create = format!("CREATE TABLE t AS {rows}");
        let made = run(&f.file, &["-c", ".cut hash:ID", "-c", &create, "-c", ".tables"], "");
        assert_eq!(said(&made), "100 rows\nt  hash:id\n");
        let epochs = said(&run(&f.file, &["-c", ".epochs"], ""));
        assert!(epochs.split_whitespace().all(|one| one.parse::<u64>().is_ok()), "{epochs}");
        let count = run(&f.file, &["--mode", "csv", "SELECT count(*) AS n FROM t"], "");
        assert_eq!(said(&count), "n\n100\n");
        let script = "-- A comment; with a sign\nSELECT 'a;\n  b' AS x;\n.mode jsonl\n\
                      SELECT max(id) AS m\nFROM t; SELECT 1 AS one;\n.refresh\n\
                      SELECT s FROM t WHERE id = 7";
        let answer = run(&f.file, &["-m", "tsv"], script);
        assert_eq!(said(&answer), "x\n\"a;\n  b\"\n{\"m\":100}\n{\"one\":1}\n{\"s\":\"row 7\"}\n");
        let table = said(&run(&f.file, &["--max-rows", "3"], "SELECT id, NULL AS z FROM t"));
        assert!(table.contains("| NULL |") && table.contains("3 of 100 rows"), "{table}");
        let empty = run(&f.file, &["-m", "csv"], "SELECT id FROM t WHERE id < 0");
        assert_eq!(said(&empty), "id\n");
        // Members that are NULL are there, in all objects.
        let nulls = "SELECT 1 AS a, NULL AS b, {'c': NULL::INTEGER} AS d";
        let object = r#"{"a":1,"b":null,"d":{"c":null}}"#;
        assert_eq!(said(&run(&f.file, &["-m", "jsonl", nulls], "")), format!("{object}\n"));
        assert_eq!(said(&run(&f.file, &["-m", "json", nulls], "")), format!("[{object}]\n"));
        let file = f.folder.path().join("more.sql");
        std::fs::write(&file, "SELECT 2 AS two;\n.mode json\n").unwrap();
        let script = format!(".read {}\nSELECT 3 AS three;\n.quit\nnonsense", file.display());
        assert_eq!(said(&run(&f.file, &["-m", "csv"], &script)), "two\n2\n[{\"three\":3}]\n");
    });
}

#[test]
fn errors_name_their_line_and_end_a_script() {
    with_room(|| {
        let f = fixture();
        let wrong =
            run(&f.file, &["-m", "csv"], "SELECT 1 AS a;\n\n SELECT *\nFROM nosuch; SELECT 2;");
        assert_eq!(String::from_utf8_lossy(&wrong.stdout), "a\n1\n");
        let error = failed(&wrong);
        assert!(error.contains("line 3: ") && error.contains("nosuch"), "{error}");
        let error = failed(&run(&f.file, &["SELECT * FROM nosuch"], ""));
        assert!(error.contains("nosuch") && !error.contains("line"), "{error}");
        let error = failed(&run(&f.file, &[], "SELECT 'abc"));
        assert!(error.contains("does not end"), "{error}");
        for (wrong, expected) in [(".nonsense", ".help"), (".cut modulo:a", "hash:COLUMN")] {
            let error = failed(&run(&f.file, &["-c", wrong], ""));
            assert!(error.contains(expected), "{error}");
        }
        // The file: settings, and who is not let in.
        let other = f.folder.path().join("other");
        std::fs::write(&other, "tokenfile = x\n").unwrap();
        let error = failed(&run(&other, &["SELECT 1"], ""));
        assert!(error.contains("line 1") && error.contains("token_file"), "{error}");
        std::fs::write(&other, f.nodes[0].place()).unwrap();
        let error = failed(&run(&other, &["SELECT 1"], ""));
        assert!(error.contains(&f.nodes[0].address), "{error}");
    });
}

#[test]
fn whoever_writes_into_a_pipe_gets_each_answer() {
    with_room(|| {
        let f = fixture();
        let mut command = program(&f.file);
        command.args(["-m", "csv"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut into = child.stdin.take().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
        for n in 0..3 {
            writeln!(into, "SELECT {n} AS a;").unwrap();
            assert_eq!(out.next().unwrap().unwrap(), "a");
            assert_eq!(out.next().unwrap().unwrap(), n.to_string());
        }
        drop(into);
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn a_person_types_statements() {
    with_room(|| {
        let nodes = nodes(1);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("nodes");
        std::fs::write(&file, nodes[0].place()).unwrap();
        // `script` gives the program a terminal.
        let shell = format!("{} {}", env!("CARGO_BIN_EXE_swingdb-cluster"), file.display());
        let mut command = Command::new("script");
        // A history that `swingdb` has written.
        let history = folder.path().join("history");
        let before = (0..300).map(|n| format!("SELECT {n};\n")).collect::<String>();
        std::fs::write(&history, format!("#V2\n{before}")).unwrap();
        command.args(["-qec", &shell, "/dev/null"]);
        command.env("SWINGDB_HISTORY", &history).env("TERM", "dumb");
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = child else { return };
        let mut into = child.stdin.take().unwrap();
        for line in [
            "SELECT 40",
            "+ 2 AS answer;",
            "SELECT nosuch;",
            "SELECT 7 AS seven;",
            " SELECT 'secret';",
            ".quit",
        ] {
            writeln!(into, "{line}").unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        for part in ["a cluster of 1 nodes", "| 42     |", "error: ", "| seven |"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(output.status.success(), "{text}");
        let kept = std::fs::read_to_string(&history).unwrap();
        assert!(kept.contains(&before) && kept.ends_with("SELECT 7 AS seven;\n.quit\n"), "{kept}");
    });
}
