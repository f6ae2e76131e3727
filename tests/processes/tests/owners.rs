//! One writer a database: races for it, its death, its memory when others still use it.

use std::time::Duration;

use swingdb::{Database, Error};
use swingdb_processes::child::Victim;
use swingdb_processes::home::Home;

const VICTIM: &str = env!("CARGO_BIN_EXE_swingdb-victim");
const RACERS: usize = 6;
const RACES: usize = 10;

/// A database `db` with a table `t` of `rows` rows, shared.
fn make(home: &Home, rows: i64) -> Database {
    let database = Database::open_in(home.path(), "db").unwrap();
    let con = database.connect();
    con.query(&format!(
        "CREATE TABLE t AS SELECT i AS id, i * 2 AS v FROM generate_series(1, {rows}) AS i"
    ))
    .unwrap();
    database.share().unwrap();
    database
}

#[test]
fn of_many_writers_one_wins_and_the_others_learn_who() {
    let home = Home::new();
    for race in 0..RACES {
        let mut racers: Vec<Victim> =
            (0..RACERS).map(|_| Victim::start(VICTIM, home.path(), &["own", "db"])).collect();
        let lines: Vec<String> = racers.iter_mut().map(Victim::line).collect();
        let winners: Vec<&String> = lines.iter().filter(|line| line.starts_with("own")).collect();
        assert_eq!(winners.len(), 1, "race {race}: {lines:?}");
        let winner = lines.iter().position(|line| line.starts_with("own")).unwrap();
        let pid = racers[winner].pid().to_string();
        for line in lines.iter().filter(|line| line.starts_with("busy")) {
            assert!(line.contains(&pid), "race {race}: {line:?} does not name {pid}");
        }
        // Half of the winners die, half end well: the next race finds the database free either way.
        let winner = racers.swap_remove(winner);
        match race % 2 {
            0 => winner.kill_after(Duration::ZERO).assert_killed_or_well("the winner"),
            _ => winner.finish().assert_well("the winner"),
        }
    }
}

#[test]
fn a_second_writer_is_told_to_take_a_snapshot() {
    let home = Home::new();
    let mut owner = Victim::start(VICTIM, home.path(), &["own", "db"]);
    let pid = owner.pid();
    assert_eq!(owner.line(), format!("own {pid}"));
    let error = Database::open_in(home.path(), "db").unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&pid.to_string()) && text.contains("snapshot"), "{text}");
    owner.finish().assert_well("the owner");
    Database::open_in(home.path(), "db").unwrap();
}

#[test]
fn what_an_owner_left_that_never_published_is_not_listed() {
    let home = Home::new();
    let names = || {
        let all = swingdb::list_in(home.path()).unwrap();
        all.iter().filter_map(|info| info.name.clone()).map(|n| n.to_string()).collect::<Vec<_>>()
    };
    let mut owner = Victim::start(VICTIM, home.path(), &["own", "db"]);
    assert_eq!(owner.line(), format!("own {}", owner.pid()));
    assert_eq!(names(), ["db"], "a database that is being made is there");
    owner.kill_after(Duration::ZERO).assert_killed_or_well("the owner");
    assert!(names().is_empty());
    assert!(swingdb::lineage_in(home.path()).unwrap().is_empty());
    assert!(home.path().join("db").exists(), "its folder is there until somebody tidies up");
    swingdb::gc_in(home.path()).unwrap();
    assert!(!home.path().join("db").exists());
    // What was published is listed, whether its owner lives or not.
    let mut owner = Victim::start(VICTIM, home.path(), &["transfer", "db", "10"]);
    assert_eq!(owner.line(), "ready");
    assert_eq!(names(), ["db"]);
    owner.kill_after(Duration::ZERO).assert_killed_or_well("the owner");
    assert_eq!(names(), ["db"]);
}

#[test]
fn a_snapshot_is_read_on_after_its_database_is_dropped() {
    let home = Home::new();
    let database = make(&home, 500_000);
    let mut reader = Victim::start(VICTIM, home.path(), &["hold", "db"]);
    assert_eq!(reader.line(), "ready");
    let before = reader.ask("sum");
    database.connect().query("UPDATE t SET v = 0").unwrap();
    database.share().unwrap();
    assert_eq!(reader.ask("sum"), before);
    database.close().unwrap();
    swingdb::drop_in(home.path(), "db").unwrap();
    swingdb::gc_in(home.path()).unwrap();
    assert_eq!(reader.ask("sum"), before);
    reader.finish().assert_well("the reader");
    home.assert_is_emptied(1 << 20);
}

#[test]
fn a_chain_outlives_its_beginning() {
    let home = Home::new();
    make(&home, 100_000).close().unwrap();
    let mut middle = Victim::start(VICTIM, home.path(), &["derive", "db", "middle"]);
    assert_eq!(middle.line(), "shared");
    let mut last = Victim::start(VICTIM, home.path(), &["derive", "middle", "last"]);
    assert_eq!(last.line(), "shared");
    middle.kill_after(Duration::ZERO).assert_killed_or_well("the middle");
    last.finish().assert_well("the last");
    swingdb::drop_in(home.path(), "db").unwrap();
    swingdb::drop_in(home.path(), "middle").unwrap();
    swingdb::gc_in(home.path()).unwrap();
    // Two of the chain added 1 to each even row.
    let snapshot = Database::snapshot_in(home.path(), "last").unwrap();
    let wrong = "SELECT * FROM t WHERE v <> id * 2 + CASE WHEN id % 2 = 0 THEN 2 ELSE 0 END";
    let rows: usize =
        snapshot.connect().query(wrong).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rows, 0);
    let all = snapshot.connect().query("SELECT * FROM t").unwrap();
    assert_eq!(all.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 100_000);
    drop(snapshot);
    swingdb::drop_in(home.path(), "last").unwrap();
    swingdb::gc_in(home.path()).unwrap();
    home.assert_is_emptied(1 << 20);
}
