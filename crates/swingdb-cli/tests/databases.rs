//! Commands about databases as a whole, and what two processes see of each other.

mod common;

use common::World;
use std::io::{BufRead, BufReader, Write};
use std::process::Output;
use std::time::{Duration, Instant};

const COUNT: &str = "SELECT count(*) AS n, sum(x) AS s FROM t";

#[test]
fn listing_tree_and_dropping() {
    let world = World::new();
    assert_eq!(world.ok(&["ls"]), "no databases\n");
    assert_eq!(world.ok(&["tree"]), "");
    world.cities();
    let text = world.ok(&["ls"]);
    assert!(text.contains("cities") && text.contains("readers"), "{text}");
    let list: serde_json::Value = serde_json::from_str(&world.ok(&["ls", "--json"])).unwrap();
    assert_eq!(list[0]["name"], "cities");
    assert!(list[0]["own_bytes"].as_u64().unwrap() > 0 && list[0]["writer"].is_null());
    assert!(list[0]["shared_epoch"].as_u64().is_some());
    assert!(world.ok(&["tree"]).starts_with("cities ("));
    assert!(world.ok(&["drop", "cities"]).starts_with("cities dropped: "));
    assert_eq!(world.ok(&["ls"]), "no databases\n");
    world.fails(1, &["drop", "cities"]);
    assert_eq!(world.ok(&["drop", "cities", "--if-exists"]), "");
    assert!(world.ok(&["gc"]).contains("freed"));
}

#[test]
fn a_database_that_was_never_shared_can_be_copied() {
    let world = World::new();
    let disk = tempfile::tempdir().unwrap();
    let copy = |name: &str| disk.path().join(name).to_str().unwrap().to_owned();
    world.ok(&["taxi", "-c", "CREATE TABLE t AS SELECT 7 AS x"]);
    assert!(world.ok(&["checkpoint", "taxi", &copy("one")]).contains("written in"));
    world.ok(&["restore", &copy("one"), "--as", "back"]);
    assert_eq!(world.ok(&["sql", "back", "SELECT x FROM t", "-m", "csv"]), "x\n7\n");
    let error = world.fails(1, &["checkpoint", "taxl", &copy("two")]);
    assert!(error.contains("does not exist"), "{error}");
}

#[test]
fn a_store_is_for_the_database_that_is_written_and_an_empty_text_detaches_it() {
    let world = World::new();
    let disk = tempfile::tempdir().unwrap();
    let store = disk.path().join("store").to_str().unwrap().to_owned();
    let of = |name: &str| -> serde_json::Value {
        let list: Vec<serde_json::Value> =
            serde_json::from_str(&world.ok(&["ls", "--json"])).unwrap();
        list.into_iter().find(|entry| entry["name"] == name).unwrap()["store"].clone()
    };
    world.ok(&["--store", &store, "taxi", "-c", "CREATE TABLE t AS SELECT 7 AS x; SHARE"]);
    assert_eq!(of("taxi"), store);
    // Another database that the same shell opens has no part in it.
    world.ok(&["--store", &store, "taxi", "-c", ".open other", "-c", "SHARE"]);
    assert_eq!(of("taxi"), store);
    assert!(of("other").is_null());
    for detach in [&["--store", "", "taxi"][..], &["--store=", "taxi"]] {
        world.ok(&[detach, &["-c", "SHARE"]].concat());
        assert!(of("taxi").is_null());
    }
    for wrong in [
        &["sql", "taxi", "SELECT 1"][..],
        &["--snapshot", "taxi", "-c", "SELECT 1"],
        &["-c", "SELECT 1"],
        &["shell", "--snapshot", "taxi"],
        &["export", "taxi.t", "t.csv"],
        &["restore", &store, "--as", "back"],
        &["probe", &store],
        &["ls"],
        &["tree"],
        &["drop", "taxi"],
        &["gc"],
        &["doctor"],
        &["ui"],
        &["serve", "taxi"],
        &["node", "--write", "taxi"],
    ] {
        let error = world.fails(2, &[&["--store", &store][..], wrong].concat());
        assert!(error.contains("--store: "), "{wrong:?}: {error}");
    }
    assert_eq!(world.ok(&["sql", "taxi", "SELECT x FROM t", "-m", "csv"]), "x\n7\n");
}

/// Runs statements in a shell, and leaves it open until it is dropped.
struct Writer(std::process::Child);

impl Writer {
    fn run(world: &World, arguments: &[&str], statements: &str) -> Self {
        let mut command = world.command(arguments);
        let piped = std::process::Stdio::piped;
        let mut child = command.stdin(piped()).stdout(piped()).spawn().unwrap();
        let input = child.stdin.as_mut().unwrap();
        writeln!(input, "{statements} SELECT 'done' AS ready;").unwrap();
        let output = BufReader::new(child.stdout.as_mut().unwrap());
        assert!(output.lines().any(|line| line.unwrap().contains("done")));
        Self(child)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[test]
fn a_checkpoint_of_a_database_that_another_process_writes_says_how_its_store_stands() {
    let world = World::new();
    let disk = tempfile::tempdir().unwrap();
    let path = |name: &str| disk.path().join(name).to_str().unwrap().to_owned();
    let create = "CREATE TABLE t AS SELECT 7 AS x; SHARE;";
    for (durability, says) in [
        ("commit", "writes each commit there"),
        ("60", "every 1 min"),
        ("manual", "CHECKPOINT alone"),
    ] {
        let store = path(durability);
        let arguments = ["--store", &store, "--durability", durability, durability];
        let writer = Writer::run(&world, &arguments, create);
        let text = match durability {
            "commit" => world.ok(&["checkpoint", durability]),
            _ => world.fails(1, &["checkpoint", durability]),
        };
        let process = format!("process {}", writer.0.id());
        assert!(text.contains(says) && text.contains(&process), "{text}");
        assert!(text.contains(&store), "{text}");
        // What it has shared can be copied meanwhile.
        assert!(world.ok(&["checkpoint", durability, &path("copy")]).contains("written in"));
        std::fs::remove_dir_all(path("copy")).unwrap();
    }
    let _writer = Writer::run(&world, &["alone"], "CREATE TABLE t AS SELECT 7 AS x;");
    let text = world.fails(1, &["checkpoint", "alone"]);
    assert!(text.contains("Run CHECKPOINT there"), "{text}");
}

/// Runs a copy of the program that lies alone, or beside `other`, which prints its arguments.
fn beside(other: Option<&str>, arguments: &[&str]) -> std::process::Output {
    let (world, alone) = (World::new(), tempfile::tempdir().unwrap());
    let program = alone.path().join("swingdb");
    std::fs::copy(env!("CARGO_BIN_EXE_swingdb"), &program).unwrap();
    if let Some(other) = other {
        let path = alone.path().join(other);
        std::fs::write(&path, "#!/bin/sh\necho \"$@\"\n").unwrap();
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, all).unwrap();
    }
    let mut command = std::process::Command::new(&program);
    command.args(arguments).env("PATH", alone.path().join("none"));
    command.env("SWINGDB_HOME", world.home()).output().unwrap()
}

#[test]
fn programs_of_their_own_get_the_arguments_or_it_is_said_how_to_build_them() {
    for (program, install, arguments, passed) in [
        (
            "swingdb-server",
            "cargo build --release -p swingdb-server",
            &["serve", "taxi", "--port", "0"][..],
            "taxi --port 0\n",
        ),
        (
            "swingdb-node",
            "make cluster",
            &["--home", "/x", "node", "--listen", "127.0.0.1:0", "--write", "taxi"],
            "--home /x --listen 127.0.0.1:0 --write taxi\n",
        ),
        ("swingdb-node", "make cluster", &["node", "--home", "/x"], "--home /x\n"),
        ("swingdb-node", "make cluster", &["node"], "\n"),
        (
            "swingdb-cluster",
            "make cluster",
            &["--cluster", "nodes", "-c", "SELECT 1", "-m", "csv"],
            "--mode csv --max-rows 40 --command=SELECT 1 -- nodes\n",
        ),
    ] {
        let missing = beside(None, arguments);
        assert_eq!(missing.status.code(), Some(1));
        let error = String::from_utf8(missing.stderr).unwrap();
        assert!(error.contains(program) && error.contains(install), "{error}");
        let found = beside(Some(program), arguments);
        assert_eq!(String::from_utf8(found.stdout).unwrap(), passed);
    }
}

#[test]
fn names_with_odd_characters() {
    let world = World::new();
    for name in ["with space", "ünïcode", "a/b", "..", "100%"] {
        world.ok(&[name, "-c", "CREATE TABLE t (x BIGINT)", "-c", "SHARE"]);
        assert_eq!(world.ok(&["sql", name, COUNT, "-m", "csv"]), "n,s\n0,\n");
        assert!(world.ok(&["ls"]).contains(name));
        world.ok(&["drop", name]);
    }
    world.fails(1, &["", "-c", "SELECT 1"]);
}

#[test]
fn a_mistyped_name_leaves_nothing_and_is_told() {
    let world = World::new();
    world.ok(&["taxi", "-c", "CREATE TABLE t AS SELECT 1 AS x", "-c", "SHARE"]);
    let error = world.fails(1, &["sql", "taxl", COUNT]);
    assert!(error.contains("\"taxl\" does not exist; did you mean \"taxi\"?"), "{error}");
    let error = world.fails(1, &["share", "taxl"]);
    assert!(error.contains("did you mean \"taxi\"?"), "{error}");
    let tries: [&[&str]; 4] = [
        &["taxl", "-c", "SELECT 1"],
        &["taxl", "-c", "BEGIN", "-c", "CREATE TABLE t (x INT)", "-c", "ROLLBACK"],
        &["taxl"],
        &["sql", "taxl", "--write", "SELECT 1"],
    ];
    for args in tries {
        let output = world.run(args);
        let note = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{args:?}: {note}");
        assert!(note.starts_with("note: database \"taxl\" does not exist"), "{args:?}: {note}");
        assert!(note.contains("did you mean \"taxi\"?"), "{args:?}: {note}");
        assert!(!world.ok(&["ls"]).contains("taxl"), "{args:?}");
    }
    let output = world.run(&["taxl", "-c", "SELECT * FROM t"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("note: database \"taxl\""));
    let wrong = world.write("wrong.csv", "a,b\n1,2\n3\n");
    world.fails(1, &["import", &wrong, "--into", "new.t"]);
    assert!(!world.ok(&["ls"]).contains("new"));
    // With its first table it is there, and stays.
    world.ok(&["taxl", "-c", "CREATE TABLE t AS SELECT 2 AS x"]);
    assert_eq!(world.ok(&["taxl", "-c", COUNT, "-m", "csv"]), "n,s\n1,2\n");
}

#[test]
fn the_home_can_be_chosen() {
    let world = World::new();
    let other = tempfile::tempdir_in("/dev/shm").unwrap();
    let home = other.path().to_str().unwrap();
    world.ok(&["--home", home, "db", "-c", "CREATE TABLE t (x BIGINT)", "-c", "SHARE"]);
    assert_eq!(world.ok(&["ls"]), "no databases\n");
    assert!(world.ok(&["ls", "--home", home]).contains("db"));
    assert_eq!(world.ok(&["sql", "db", COUNT, "-m", "csv", "--home", home]), "n,s\n0,\n");
}

#[test]
fn a_second_writer_is_told_who_writes_and_snapshots_go_on() {
    let world = World::new();
    world.ok(&["db", "-c", "CREATE TABLE t AS SELECT 1 AS x", "-c", "SHARE"]);
    // It opens the database before it reads what to do.
    let mut writer = world.start(&["db"]);
    let owned = || world.ok(&["ls", "--json"]).contains(&format!("\"pid\": {}", writer.id()));
    let start = Instant::now();
    while !owned() {
        assert!(start.elapsed() < Duration::from_secs(60), "the writer does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    let error = world.fails(1, &["sql", "db", "SELECT 1", "--write"]);
    assert!(error.contains(&writer.id().to_string()) && error.contains("snapshot"), "{error}");
    world.fails(1, &["drop", "db"]);
    assert_eq!(world.ok(&["sql", "db", COUNT, "-m", "csv"]), "n,s\n1,1\n");
    writer.stdin.take().unwrap().write_all(b"INSERT INTO t VALUES (2); SHARE;").unwrap();
    assert!(writer.wait().unwrap().success());
    assert_eq!(world.ok(&["sql", "db", COUNT, "-m", "csv"]), "n,s\n2,3\n");
}

#[test]
fn readers_see_whole_shares_while_somebody_writes() {
    let world = World::new();
    world.ok(&["db", "-c", "CREATE TABLE t (x BIGINT)", "-c", "SHARE"]);
    let mut script = String::new();
    for round in 0..40 {
        // Two statements a share: a reader that sees one of them only has seen a torn state.
        script.push_str(&format!("INSERT INTO t VALUES ({round}); "));
        script.push_str(&format!("INSERT INTO t SELECT -x FROM t WHERE x = {round} AND x > 0; "));
        script.push_str("SHARE;\n");
    }
    let mut writer = world.start(&["db"]);
    writer.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let mut before = 0;
    loop {
        let done = writer.try_wait().unwrap();
        let text = world.ok(&["sql", "db", COUNT, "-m", "csv"]);
        let line = text.lines().nth(1).unwrap();
        let (count, sum) = line.split_once(',').unwrap();
        let count: u64 = count.parse().unwrap();
        assert!(count >= before, "went back from {before} to {count}");
        assert!(count == 0 || (sum == "0" && count % 2 == 1), "torn: {line}");
        before = count;
        if let Some(status) = done {
            assert!(status.success());
            break;
        }
    }
    assert_eq!(before, 1 + 39 * 2);
}

#[test]
fn a_killed_writer_leaves_what_it_committed() {
    let world = World::new();
    world.ok(&["db", "-c", "CREATE TABLE t AS SELECT 1 AS x", "-c", "SHARE"]);
    for round in 0..5 {
        let mut writer = world.start(&["db"]);
        let mut input = writer.stdin.take().unwrap();
        let script = format!("INSERT INTO t VALUES ({round});\n.mode csv\nSELECT 'done' AS d;\n");
        input.write_all(script.as_bytes()).unwrap();
        let mut answers = BufReader::new(writer.stdout.take().unwrap()).lines();
        assert!(answers.any(|line| line.unwrap() == "done"));
        // The insert is committed, not shared. The input is still open: it waits for more.
        writer.kill().unwrap();
        writer.wait().unwrap();
        drop(input);
        assert_eq!(world.ok(&["sql", "db", COUNT, "-m", "csv"]), "n,s\n1,1\n");
    }
    world.ok(&["sql", "db", "INSERT INTO t VALUES (5)", "--write", "--share"]);
    assert_eq!(world.ok(&["sql", "db", COUNT, "-m", "csv"]), "n,s\n7,16\n");
    world.ok(&["gc"]);
    world.ok(&["drop", "db"]);
}

#[test]
fn doctor_gives_commands() {
    let world = World::new();
    let text = world.ok(&["doctor"]);
    assert!(text.contains("nothing to mend") || text.contains("  $ "), "{text}");
    let list: serde_json::Value = serde_json::from_str(&world.ok(&["doctor", "--json"])).unwrap();
    assert!(list.as_array().unwrap().iter().all(|finding| finding["what"].is_string()));
}

#[test]
fn generated_data_is_the_same_for_the_same_seed() {
    let world = World::new();
    for name in ["a", "b"] {
        world.ok(&["generate", "taxi", name, "--rows", "20000", "--seed", "7"]);
    }
    world.ok(&["generate", "taxi", "c", "--rows", "20000", "--seed", "8"]);
    let sum = "SELECT count(*) AS n, sum(longitude) AS s FROM trips";
    let sums = ["a", "b", "c"].map(|name| world.ok(&["sql", name, sum, "-m", "csv"]));
    assert!(sums[0].contains("20000,") && sums[0] == sums[1] && sums[0] != sums[2], "{sums:?}");
    world.ok(&["generate", "tpch", "tpch", "--scale", "0.001"]);
    let lines = world.ok(&["sql", "tpch", "SELECT count(*) AS n FROM region", "-m", "csv"]);
    assert_eq!(lines, "n\n5\n");
}

#[test]
fn a_command_leaves_no_database_that_ends_with_it() {
    let world = World::new();
    let file = world.write("t.csv", "x\n1\n");
    for args in [
        &["import", &file, "--into", "db.t", "--share"][..],
        &["db", "-c", "CREATE TABLE t AS SELECT 1 AS x", "-c", "SHARE"],
    ] {
        let output = world.command(args).env("SWINGDB_BACKING", "memfd").output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("SWINGDB_BACKING") && error.contains("end with this"), "{error}");
        assert!(output.stdout.is_empty());
    }
    assert_eq!(world.ok(&["ls"]), "no databases\n");
}

/// Runs shell commands with the databases in a tmpfs of 64 MB, as many containers have it; `None`
/// where this machine lets nobody mount one.
fn in_a_small_tmpfs(world: &World, commands: &str) -> Option<Output> {
    let script = format!(
        "mount -t tmpfs -o size=64m,mode=700 tmpfs \"$SWINGDB_HOME\" || exit 99\n\
         swingdb() {{ {:?} \"$@\"; }}\n{commands}",
        env!("CARGO_BIN_EXE_swingdb")
    );
    let run = |own: &[&str]| {
        let mut command = std::process::Command::new("unshare");
        command.args(own).args(["sh", "-c", &script]).env("SWINGDB_HOME", world.home());
        command.current_dir(world.file("")).output().ok()
    };
    let outputs = [run(&["-m"]), run(&["-U", "-r", "-m"])];
    outputs.into_iter().flatten().find(|output| matches!(output.status.code(), Some(0 | 1)))
}

#[test]
fn what_does_not_fit_is_refused_and_not_lost() {
    let world = World::new();
    let row = |i: u64| format!("{},{}\n", i * 0x9e37_79b9, i * 0x85eb_ca6b);
    let rows: String = (0..5_000_000).map(row).collect();
    world.write("big.csv", &format!("x,y\n{rows}"));
    let fits = "swingdb d -c 'CREATE TABLE t AS SELECT 7 AS x' -c SHARE -m csv && \
                swingdb sql d 'SELECT x FROM t' -m csv";
    let Some(output) = in_a_small_tmpfs(&world, fits) else {
        eprintln!("skipped: no tmpfs can be mounted here");
        return;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("x\n7\n"), "{error}");

    let too_large = "swingdb import big.csv --into d.trips --share && exit 1; swingdb ls";
    let output = in_a_small_tmpfs(&world, too_large).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(error.contains("out of memory") && error.contains("--shm-size"), "{printed} {error}");
    assert_eq!(printed, "no databases\n");
}

#[test]
fn a_dropped_table_makes_room_for_the_next_one() {
    let world = World::new();
    // Each takes more than half of the tmpfs.
    let table = "CREATE TABLE t AS SELECT range AS a, random() AS b FROM range(2500000)";
    let round = format!("-c '{table}' -c 'SELECT count(*) FROM t' -c 'DROP TABLE t' ");
    let commands = format!("swingdb d -m csv {}", round.repeat(4));
    let Some(output) = in_a_small_tmpfs(&world, &commands) else {
        eprintln!("skipped: no tmpfs can be mounted here");
        return;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed.matches("2500000").count(), 4, "{printed}");
}
