//! Import and export: every format there and back, and files that are not what they should be.

mod common;

use common::World;

const ALL: &str = "SELECT * FROM city ORDER BY id";

#[test]
fn every_format_survives_export_and_import() {
    let world = World::new();
    world.cities();
    let before = world.ok(&["sql", "cities", ALL, "-m", "csv"]);
    for format in ["parquet", "csv", "json", "arrow"] {
        let file = format!("city.{format}");
        let text = world.ok(&["export", "cities.city", &file]);
        assert!(text.starts_with("3 rows ("), "{text}");
        let target = format!("copy_{format}.city");
        let text = world.ok(&["import", &file, "--into", &target, "--share"]);
        assert!(text.starts_with("3 rows (") && text.contains(&target), "{text}");
        let name = format!("copy_{format}");
        assert_eq!(world.ok(&["sql", &name, ALL, "-m", "csv"]), before, "{format}");
    }
}

#[test]
fn queries_are_exported_with_options() {
    let world = World::new();
    world.cities();
    let query = "SELECT id, name FROM city WHERE people IS NOT NULL ORDER BY id";
    let mut args = vec!["export", "cities", "out.txt", "--query", query];
    args.extend(["--format", "csv", "--delimiter", ";", "--header", "no"]);
    world.ok(&args);
    let text = std::fs::read_to_string(world.file("out.txt")).unwrap();
    assert!(text.starts_with("1;Oslo\n3;"), "{text}");
}

#[test]
fn several_files_go_into_one_table() {
    let world = World::new();
    world.write("1.csv", "a,b\n1,x\n");
    world.write("2.csv", "a,b\n2,y\n3,z\n");
    let text = world.ok(&["import", "1.csv", "2.csv", "--into", "db.t", "--share"]);
    assert!(text.starts_with("3 rows"), "{text}");
    let sum = "SELECT sum(a) AS s, max(b) AS m FROM t";
    assert_eq!(world.ok(&["sql", "db", sum, "-m", "csv"]), "s,m\n6,z\n");
}

#[test]
fn a_file_that_fails_leaves_the_table_as_it_was() {
    let world = World::new();
    world.write("good.csv", "a\n1\n2\n");
    let mut bad = "a\n".to_string();
    (0..5000).for_each(|i| bad.push_str(&format!("{i}\n")));
    bad.push_str("no number\n5\n");
    world.write("bad.csv", &bad);
    world.ok(&["import", "good.csv", "--into", "db.t", "--share"]);
    let error = world.fails(1, &["import", "bad.csv", "--into", "db.t", "--share"]);
    assert!(error.contains("bad.csv") && error.contains("5002"), "{error}");
    let text = world.ok(&["sql", "db", "SELECT count(*) AS n FROM t", "--write", "-m", "csv"]);
    assert_eq!(text, "n\n2\n");

    world.ok(&["export", "db.t", "whole.parquet"]);
    let bytes = std::fs::read(world.file("whole.parquet")).unwrap();
    std::fs::write(world.file("cut.parquet"), &bytes[..bytes.len() / 2]).unwrap();
    let error = world.fails(1, &["import", "cut.parquet", "--into", "db.t"]);
    assert!(error.contains("cut.parquet"), "{error}");
}

#[test]
fn a_missing_file_creates_nothing() {
    let world = World::new();
    let error = world.fails(1, &["import", "missing.csv", "--into", "db.t"]);
    assert!(error.contains("missing.csv"), "{error}");
    assert_eq!(world.ok(&["ls"]), "no databases\n");
}

#[test]
fn the_shell_imports_too() {
    let world = World::new();
    world.write("a.csv", "a\n1\n2\n");
    let text = world.fed_ok(&[], ".import a.csv t\n.mode csv\nSELECT sum(a) AS s FROM t;");
    assert!(text.starts_with("2 rows imported in ") && text.ends_with("s\n3\n"), "{text}");
}

#[test]
fn ctrl_c_leaves_no_unfinished_file() {
    let world = World::new();
    world.cities();
    let rows = "SELECT range AS i, repeat('x', 100) AS s FROM range(100000000)";
    let copy = format!("COPY ({rows}) TO 'out.csv'");
    for args in [
        vec!["export", "cities", "out.csv", "--query", rows],
        vec!["sql", "cities", &copy],
        vec!["shell", "-c", &copy],
    ] {
        let child = world.start(&args);
        let folder = world.file("out.csv").parent().unwrap().to_path_buf();
        let files = || std::fs::read_dir(&folder).unwrap().count();
        let begun = std::time::Instant::now();
        while files() == 0 {
            assert!(begun.elapsed().as_secs() < 60, "{args:?}: nothing is written");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let pid = child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(sent.success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{args:?}: {output:?}");
        assert_eq!(files(), 0, "{args:?}");
    }
}
