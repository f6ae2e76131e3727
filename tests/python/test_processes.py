"""Pipelines of real processes: writers that keep writing, readers, and both killed."""

from __future__ import annotations

import os
import random
import time

import pytest

import swingdb

#: How often processes are killed; more by SWINGDB_KILLS.
KILLS = max(20, int(os.environ.get("SWINGDB_KILLS", "0")))

#: Keeps the sum of all balances at zero in every committed state, and says what it has shared.
WRITER = """
import random, sys, swingdb
con = swingdb.connect("bank")
con.execute("CREATE TABLE IF NOT EXISTS account (id INT, balance BIGINT)")
con.execute("CREATE TABLE IF NOT EXISTS step (n BIGINT)")
if con.sql("SELECT count(*) FROM account").fetchone() == (0,):
    con.execute("INSERT INTO account SELECT a, 0 FROM generate_series(1, 50000) g(a)")
    con.execute("INSERT INTO step VALUES (0)")
    con.share()
rng = random.Random(int(sys.argv[1]))
print("ready")
while True:
    with con.transaction():
        a, b, amount = rng.randint(1, 50000), rng.randint(1, 50000), rng.randint(1, 100)
        con.execute("UPDATE account SET balance = balance - ? WHERE id = ?", [amount, a])
        con.execute("UPDATE account SET balance = balance + ? WHERE id = ?", [amount, b])
        con.execute("UPDATE step SET n = n + 1")
    con.share()
    print(con.sql("SELECT n FROM step").fetchone()[0])
"""

READER = """
import sys, swingdb
print("ready")
while True:
    with swingdb.snapshot("bank") as snap:
        total, rows = snap.sql("SELECT sum(balance), count(*) FROM account").fetchone()
        assert (total, rows) == (0, 50000), (total, rows)
        before = snap.sql("SELECT n FROM step").fetchone()[0]
        snap.execute("UPDATE account SET balance = balance + 1")
        assert snap.sql("SELECT sum(balance) FROM account").fetchone() == (50000,)
        assert snap.sql("SELECT n FROM step").fetchone()[0] == before
        print(before)
"""


def check_bank() -> int:
    with swingdb.snapshot("bank") as snap:
        assert snap.sql("SELECT sum(balance), count(*) FROM account").fetchone() == (0, 50_000)
        return snap.sql("SELECT n FROM step").fetchone()[0]


def test_readers_see_consistent_states_while_a_writer_writes(run):
    writer = run(WRITER, 1)
    assert writer.line() == "ready"
    readers = [run(READER) for _ in range(2)]
    for reader in readers:
        assert reader.line() == "ready"
    seen: list[list[int]] = [[], []]
    begun = time.monotonic()
    # On a busy machine a reader may be at the same state for a while.
    while time.monotonic() < begun + 4 or any(len(set(steps)) < 2 for steps in seen):
        assert time.monotonic() < begun + 120
        writer.line()
        for reader, steps in zip(readers, seen, strict=True):
            if len(steps) < 5 or len(set(steps)) < 2:
                steps.append(int(reader.line()))
    for steps in seen:
        assert steps == sorted(steps)
    assert check_bank() > 0
    for program in (writer, *readers):
        assert program.process.poll() is None


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_it_shared(run, rng: random.Random):
    shared = 0
    for kill in range(KILLS):
        writer = run(WRITER, rng.randint(0, 10**9))
        assert writer.line() == "ready"
        end = time.monotonic() + rng.random() * 0.15
        while time.monotonic() < end:
            shared = int(writer.line())
        for line in writer.kill():
            shared = int(line)
        found = check_bank()
        # One more transaction may have been shared than the writer could tell of.
        assert shared <= found <= shared + 1, f"kill {kill}"
        shared = found
    with swingdb.connect("bank") as con:
        assert con.sql("SELECT sum(balance) FROM account").fetchone() == (0,)
        con.execute("UPDATE step SET n = -1")
        con.share()
    assert check_bank() == -1


@pytest.mark.slow
def test_killed_readers_leave_nothing(run, rng: random.Random, home, used, eventually):
    con = swingdb.connect("bank")
    con.execute(
        "CREATE TABLE account AS SELECT a AS id, 0 AS balance FROM generate_series(1, 50000) g(a)"
    )
    con.execute("CREATE TABLE step AS SELECT 0 AS n")
    con.share()
    sizes = []
    for kill in range(KILLS):
        reader = run(READER)
        assert reader.line() == "ready"
        time.sleep(rng.random() * 0.2)
        reader.kill()
        con.execute("UPDATE step SET n = n + 1")
        con.execute("UPDATE account SET balance = 0 WHERE id = ?", [kill])
        con.share()
        swingdb.gc()
        sizes.append(used(home))
    assert con.sql("SELECT n FROM step").fetchone() == (KILLS,)
    assert max(sizes[-5:]) <= max(sizes[:5]) + (8 << 20)
    assert swingdb.list()[0].readers == ()
    con.close()
    swingdb.drop("bank")

    def is_empty():
        swingdb.gc()
        return used(home) < 1 << 20

    assert eventually(is_empty), used(home)


STAGE = """
import sys, swingdb
source, target = sys.argv[1:3]
source_db = swingdb.snapshot(source)
mine = swingdb.get_snapshot(source, target)
mine.execute("UPDATE t SET a = a + 1")
mine.execute(f"CREATE TABLE from_{target} AS SELECT count(*) AS n FROM t")
mine.share()
print("shared")
sys.stdin.readline()
"""


def test_a_chain_of_stages_that_end_one_after_the_other(run):
    with swingdb.connect("stage0") as con:
        con.execute("CREATE TABLE t AS SELECT a FROM generate_series(1, 300000) g(a)")
        con.share()
    for stage in range(1, 5):
        program = run(STAGE, f"stage{stage - 1}", f"stage{stage}")
        assert program.line() == "shared"
        program.kill() if stage % 2 else program.tell("end")
        program.process.wait(300)
        swingdb.gc()
    base = 300_000 * 300_001 // 2
    for stage in range(5):
        snap = swingdb.snapshot(f"stage{stage}")
        assert snap.sql("SELECT sum(a) FROM t").fetchone() == (base + stage * 300_000,)
        assert len(snap.tables()) == 1 + stage
    for stage in (2, 0, 1, 3):
        swingdb.drop(f"stage{stage}")
    assert swingdb.snapshot("stage4").sql("SELECT sum(a) FROM t").fetchone() == (base + 1_200_000,)


FOLLOWER = """
import swingdb
snap = swingdb.snapshot("feed")
print(snap.sql("SELECT count(*) FROM t").fetchone()[0])
for _ in range(10):
    assert snap.wait_newer(600)
    assert snap.refresh()
    print(snap.sql("SELECT count(*) FROM t").fetchone()[0])
"""


def test_followers_hear_of_newer_states(run):
    con = swingdb.connect("feed")
    con.execute("CREATE TABLE t (a INT)")
    con.share()
    followers = [run(FOLLOWER) for _ in range(2)]
    for follower in followers:
        assert follower.line() == "0"
    for step in range(1, 11):
        con.execute("INSERT INTO t VALUES (?)", [step])
        con.share()
        for follower in followers:
            assert follower.line() == str(step)
    for follower in followers:
        follower.finish()
    con.close()


def test_two_processes_race_to_be_the_writer(run):
    source = """
import swingdb
try:
    con = swingdb.connect("race")
    print("won")
except swingdb.BusyError:
    print("lost")
input()
"""
    for _ in range(3):
        programs = [run(source) for _ in range(3)]
        assert sorted(program.line() for program in programs) == ["lost", "lost", "won"]
        for program in programs:
            program.kill()
