//! The child of the tests across processes: does one of a few jobs until it is killed or told to
//! end.
//!
//! `swingdb-victim JOB DATABASE [ARGUMENT...]`, in the namespace `$SWINGDB_HOME`. It talks to the
//! test in lines on its standard output, and ends when its input closes.

#![forbid(unsafe_code)]

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use swingdb::Database;
use swingdb::arrow::array::{Int64Array, RecordBatch};
use swingdb::arrow::datatypes::{DataType, Field, Schema};
use swingdb_processes::journal::{Journal, Mark};
use swingdb_processes::{apply, model};

use swingdb_processes::apply::Outcome;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |i: usize| arguments.get(i).map(String::as_str).ok_or("an argument is missing");
    let name = argument(1)?;
    match argument(0)? {
        "change" => {
            let (seed, from) = (argument(2)?.parse()?, argument(3)?.parse()?);
            let share_every = argument(5)?.parse()?;
            change(name, seed, from, Path::new(argument(4)?), share_every)
        }
        "transfer" => transfer(name, argument(2)?.parse()?),
        "audit" => audit(name),
        "own" => own(name),
        "hold" => hold(name),
        "derive" => derive(name, argument(2)?),
        "fill" => fill(name),
        other => Err(format!("no job {other:?}").into()),
    }
}

/// Says a line to the test.
fn say(line: &str) {
    // A test that is gone hears nothing; the closed input ends this process.
    let _ = writeln!(std::io::stdout(), "{line}").and_then(|()| std::io::stdout().flush());
}

/// Applies the model's changes from step `from` on, with the journal kept, sharing every so often.
fn change(name: &str, seed: u64, from: i64, journal: &Path, share_every: i64) -> Outcome {
    let database = Database::open(name)?;
    let con = database.connect();
    con.query(apply::CREATE)?;
    let directory = journal.parent().ok_or("the journal lies in a directory")?;
    let csv = directory.join(format!("import-{}.csv", std::process::id()));
    let mut journal = Journal::open(journal)?;
    say("ready");
    for step in from.. {
        let change = model::change(seed, step);
        apply::prepare(&change, &csv)?;
        journal.note(Mark::Begin, step)?;
        apply::apply(&con, &change, &csv)
            .map_err(|error| format!("step {step}: {change:?}: {error}"))?;
        journal.note(Mark::Done, step)?;
        if step % share_every == 0 {
            journal.note(Mark::Share, step)?;
            database.share()?;
            journal.note(Mark::Shared, step)?;
        }
    }
    Ok(())
}

/// Moves amounts between accounts for ever, sharing after each: their sum is always 0.
fn transfer(name: &str, accounts: i64) -> Outcome {
    let database = Database::open(name)?;
    let con = database.connect();
    con.query("CREATE TABLE IF NOT EXISTS account (id BIGINT, v BIGINT, generation BIGINT)")?;
    if con.query("SELECT * FROM account LIMIT 1")?.collect()?.iter().all(|b| b.num_rows() == 0) {
        let ids = Int64Array::from_iter_values(0..accounts);
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
        con.register(
            "ids",
            schema.clone(),
            vec![RecordBatch::try_new(schema, vec![Arc::new(ids)])?],
        )?;
        con.query("INSERT INTO account SELECT id, 0, 0 FROM ids")?;
    }
    database.share()?;
    say("ready");
    let mut random = fastrand::Rng::new();
    loop {
        let (amount, modulus) = (random.i64(1..1000), 2 * random.i64(1..20));
        con.query(&format!(
            "UPDATE account SET generation = generation + 1,
                v = v + CASE WHEN id % {modulus} = 0 THEN {amount}
                             WHEN id % {modulus} = 1 THEN -{amount} ELSE 0 END"
        ))?;
        database.share()?;
    }
}

/// Takes snapshots for ever and checks that each is a state in which nothing is half done.
fn audit(name: &str) -> Outcome {
    say("ready");
    loop {
        let snapshot = Database::snapshot(name)?;
        let con = snapshot.connect();
        let look = "SELECT sum(v), count(*), min(generation) = max(generation), sum(v * id)
                    FROM account";
        let first = con.query(look)?.collect()?;
        let second = con.query(look)?.collect()?;
        let text = swingdb::arrow::util::pretty::pretty_format_batches(&first)?.to_string();
        if first != second {
            return Err(format!("a snapshot changed while it was held:\n{text}").into());
        }
        let row: Vec<&str> = text.lines().nth(3).unwrap_or_default().split('|').collect();
        let cells: Vec<&str> = row.iter().map(|cell| cell.trim()).collect();
        if cells.get(1) != Some(&"0") || cells.get(3) != Some(&"true") {
            return Err(format!("a snapshot shows half a change:\n{text}").into());
        }
    }
}

/// Tries to become the writer; says whether it is or who is, and waits.
fn own(name: &str) -> Outcome {
    match Database::open(name) {
        Ok(database) => {
            say(&format!("own {}", std::process::id()));
            wait_for_end();
            database.close()?;
        }
        Err(swingdb::Error::Busy { pid, .. }) => say(&format!("busy {pid:?}")),
        Err(other) => return Err(other.into()),
    }
    Ok(())
}

/// Holds a snapshot and says the sum of its table each time a line arrives.
fn hold(name: &str) -> Outcome {
    let snapshot = Database::snapshot(name)?;
    say("ready");
    for line in std::io::stdin().lock().lines() {
        line?;
        let batches = snapshot.connect().query("SELECT sum(v), count(*) FROM t")?.collect()?;
        let text = swingdb::arrow::util::pretty::pretty_format_batches(&batches)?.to_string();
        say(text.lines().nth(3).unwrap_or("nothing"));
    }
    Ok(())
}

/// Takes a named snapshot, changes it, shares it, and waits.
fn derive(name: &str, target: &str) -> Outcome {
    let mine = Database::get_snapshot(name, target)?;
    mine.connect().query("UPDATE t SET v = v + 1 WHERE id % 2 = 0")?;
    mine.share()?;
    say("shared");
    wait_for_end();
    Ok(())
}

/// Appends until the memory is used up; says which error it was and that the rest still works.
fn fill(name: &str) -> Outcome {
    let database = Database::open(name)?;
    let con = database.connect();
    con.query("CREATE TABLE IF NOT EXISTS t (id BIGINT, v BIGINT, s VARCHAR)")?;
    let mut appended = 0;
    let error = loop {
        match apply::append(&con, appended, 20_000) {
            Ok(()) => appended += 20_000,
            Err(error) => break error,
        }
    };
    let kind = match error.downcast_ref::<swingdb::Error>() {
        Some(swingdb::Error::OutOfMemory { .. }) => "OutOfMemory",
        _ => "another error",
    };
    say(&format!("{kind}: {error}"));
    let batches = con.query("SELECT count(*) FROM t")?.collect()?;
    let text = swingdb::arrow::util::pretty::pretty_format_batches(&batches)?.to_string();
    let counted = text.lines().nth(3).unwrap_or_default().replace(['|', ' '], "");
    say(&format!("{appended} {counted}"));
    con.query("DROP TABLE t")?;
    con.query("CREATE TABLE t (id BIGINT, v BIGINT, s VARCHAR)")?;
    apply::append(&con, 0, 20_000)?;
    std::thread::sleep(Duration::from_millis(1));
    say("goes on");
    Ok(())
}

fn wait_for_end() {
    // Any end of the input, also a broken one, is the end.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}
