"""Databases with a store on a disk: what is there after memory is lost, and after a kill."""

from __future__ import annotations

import fcntl
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import Program

import swingdb


def rows(name: str, store: object, sql: str = "SELECT * FROM t ORDER BY 1") -> list:
    with swingdb.connect(name, store=store) as con:
        return con.sql(sql).fetchall()


def test_a_committed_database_outlives_its_memory(tmp_path: Path, reboot) -> None:
    store = tmp_path / "taxi"
    with swingdb.connect("taxi", store=store) as con:
        con.execute("CREATE SCHEMA s; CREATE SEQUENCE numbers START 5")
        con.execute("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR DEFAULT 'x', CHECK (a > 0))")
        con.execute("INSERT INTO t VALUES (1, 'one'), (2, NULL), (3, 'three')")
        con.execute("DELETE FROM t WHERE a = 2; UPDATE t SET b = 'drei' WHERE a = 3")
        con.execute("CREATE VIEW v AS SELECT count(*) AS n FROM t")
        con.execute("CREATE MACRO twice(x) AS 2 * x")
        con.execute("CREATE TABLE s.big AS SELECT i, 'text number ' || i AS text, [i, i + 1] AS l "
                    "FROM range(300000) r(i)")
        assert con.sql("SELECT nextval('numbers')").fetchone() == (5,)
        con.execute("CREATE TABLE u AS SELECT nextval('numbers') AS n")
        big = con.sql("SELECT sum(i), min(text), max(text), sum(l[2]) FROM s.big").fetchall()
        assert con.store.stored_version == con.store.memory_version
    reboot()
    with swingdb.connect("taxi", store=store) as con:
        assert con.sql("SELECT * FROM t ORDER BY a").fetchall() == [(1, "one"), (3, "drei")]
        assert con.sql("SELECT n FROM v").fetchone() == (2,)
        assert con.sql("SELECT twice(21)").fetchone() == (42,)
        found = con.sql("SELECT sum(i), min(text), max(text), sum(l[2]) FROM s.big").fetchall()
        assert found == big
        assert con.sql("SELECT n FROM u").fetchone() == (6,)
        assert con.sql("SELECT nextval('numbers')").fetchone() == (7,)
        with pytest.raises(swingdb.ConstraintError):
            con.execute("INSERT INTO t VALUES (1, 'again')")
        with pytest.raises(swingdb.ConstraintError):
            con.execute("INSERT INTO t VALUES (-1, 'negative')")
        con.execute("INSERT INTO t (a) VALUES (9)")
    reboot()
    assert rows("taxi", store) == [(1, "one"), (3, "drei"), (9, "x")]


def test_the_store_is_opened_again_without_being_named(tmp_path: Path, reboot) -> None:
    store = tmp_path / "taxi"
    with swingdb.connect("taxi", store=store) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
    with swingdb.connect("taxi") as con:
        assert con.store.path == os.path.realpath(store)
        con.execute("INSERT INTO t VALUES (2)")
    reboot()
    assert rows("taxi", store) == [(1,), (2,)]


def test_a_database_can_be_detached(tmp_path: Path, reboot) -> None:
    store = tmp_path / "taxi"
    with swingdb.connect("taxi", store=store) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
    with swingdb.connect("taxi", store="") as con:
        assert con.store is None
        con.execute("INSERT INTO t VALUES (2)")
        with pytest.raises(swingdb.NotSupportedError, match="no store"):
            con.execute("CHECKPOINT")
    with swingdb.connect("taxi") as con:
        assert con.store is None
        assert con.sql("SELECT count(*) FROM t").fetchone() == (2,)
    with pytest.raises(swingdb.StoreError, match="does not come from this store") as caught:
        swingdb.connect("taxi", store=store)
    assert caught.value.problem == "mismatch"
    swingdb.drop("taxi")
    assert rows("taxi", store) == [(1,)]


def test_a_database_that_is_in_memory_already_gets_a_store(tmp_path: Path, reboot) -> None:
    with swingdb.connect("taxi") as con:
        con.execute("CREATE TABLE t AS SELECT * FROM range(5) r(a)")
    assert len(rows("taxi", tmp_path / "taxi")) == 5
    reboot()
    assert len(rows("taxi", tmp_path / "taxi")) == 5


def test_manual_writes_when_told_and_memory_is_the_newer_state(tmp_path: Path, reboot) -> None:
    store = tmp_path / "taxi"
    with swingdb.connect("taxi", store=store, durability="manual") as con:
        con.execute("CREATE TABLE t AS SELECT * FROM range(200000) r(a)")
        con.execute("CHECKPOINT")
        con.execute("INSERT INTO t VALUES (-1)")
        behind = con.store
        assert behind.stored_version < behind.memory_version
    with swingdb.connect("taxi", store=store) as con:
        assert con.sql("SELECT count(*) FROM t").fetchone() == (200001,)
        assert con.store.durability == "manual"
        done = con.checkpoint()
        assert done.written_bytes < 100_000, "only what has changed"
        assert con.checkpoint().written_bytes == 0
        con.execute("DELETE FROM t WHERE a < 100")
    reboot()
    assert rows("taxi", store, "SELECT count(*), min(a) FROM t") == [(200001, -1)]


def test_an_interval_writes_in_the_background(tmp_path: Path, reboot) -> None:
    store = tmp_path / "taxi"
    con = swingdb.connect("taxi", store=store, durability=0.05)
    con.execute("CREATE TABLE t AS SELECT 1 AS a")
    deadline = time.monotonic() + 30
    while con.store.stored_version != con.store.memory_version:
        assert time.monotonic() < deadline, con.store
        time.sleep(0.01)
    con.execute("INSERT INTO t VALUES (2)")
    con.close()
    reboot()
    assert rows("taxi", store) == [(1,), (2,)]


def test_states_that_diverged_are_refused(tmp_path: Path, reboot) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with swingdb.connect("taxi", store=one) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
    shutil.copytree(one, two)
    reboot()
    with swingdb.connect("taxi", store=two) as con:
        con.execute("INSERT INTO t VALUES (2)")
    reboot()
    with swingdb.connect("taxi", store=one) as con:
        con.execute("INSERT INTO t VALUES (3)")
        con.share()  # from here on it is in memory, too
    with pytest.raises(swingdb.StoreError, match="each has changes") as caught:
        swingdb.connect("taxi", store=two)
    assert caught.value.problem == "mismatch"
    assert "swingdb drop taxi" in str(caught.value)
    # Refusing changed neither.
    assert rows("taxi", one) == [(1,), (3,)]
    swingdb.drop("taxi")
    assert rows("taxi", two) == [(1,), (2,)]


def test_an_older_memory_gives_way_to_the_store(tmp_path: Path, home: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    other = home.with_name(home.name + "-other")
    other.mkdir(mode=0o700)
    with swingdb.connect("taxi", store=one) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
        con.execute("CREATE TABLE gone AS SELECT 1 AS a")
    shutil.copytree(one, two)
    # Another machine goes on from a copy.
    with swingdb.connect("taxi", store=two, home=other) as con:
        con.execute("INSERT INTO t VALUES (2)")
        con.execute("DROP TABLE gone")
    shutil.rmtree(other)
    with swingdb.connect("taxi", store=two) as con:
        assert con.sql("SELECT * FROM t ORDER BY 1").fetchall() == [(1,), (2,)]
        con.execute("INSERT INTO t VALUES (3)")
        with pytest.raises(swingdb.NotFoundError):
            con.execute("SELECT * FROM gone")
    assert rows("taxi", two) == [(1,), (2,), (3,)]


def test_a_store_has_one_writer(tmp_path: Path) -> None:
    store = tmp_path / "taxi"
    with swingdb.connect("taxi", store=store) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
        with pytest.raises(swingdb.StoreError, match="in use") as caught:
            swingdb.connect("other", store=store)
        assert caught.value.problem == "in use"
    with pytest.raises(swingdb.StoreError, match="database \"taxi\", not \"other\"") as caught:
        swingdb.connect("other", store=store)
    assert caught.value.problem == "mismatch"


def test_a_forked_child_does_not_hold_the_store(tmp_path: Path) -> None:
    con = swingdb.connect("taxi", store=tmp_path / "taxi")
    con.execute("CREATE TABLE t AS SELECT 1 AS a")
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    try:
        con.close()
        assert rows("taxi", tmp_path / "taxi") == [(1,)]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_directory_of_other_files_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(swingdb.StoreError, match=r"letters.txt") as caught:
        swingdb.connect("taxi", store=tmp_path)
    assert caught.value.problem == "not a store"
    assert [p.name for p in tmp_path.iterdir() if p.name != "lock"] == ["letters.txt"]


def test_other_things_than_stores_are_told_apart_from_damage(tmp_path: Path) -> None:
    with swingdb.ObjectHeap(tmp_path / "heap", budget=8 << 20, persistent=True) as heap:
        heap.root = heap.alloc(b"an object")
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    with pytest.raises(swingdb.StoreError, match="something else") as heap_error:
        swingdb.connect("taxi", store=tmp_path / "heap")
    with pytest.raises(swingdb.StoreError, match="Not a directory") as file_error:
        swingdb.connect("taxi", store=tmp_path / "file")
    with pytest.raises(swingdb.StoreError, match="holds no store") as empty_error:
        swingdb.restore(tmp_path / "empty", "taxi")
    errors = [heap_error, file_error, empty_error]
    assert {error.value.problem for error in errors} == {"not a store"}
    swingdb.connect("taxi", store=tmp_path / "store").close()
    with pytest.raises(swingdb.HeapError, match="Not a directory"):
        swingdb.ObjectHeap(tmp_path / "file")
    with swingdb.connect("taxi", store=tmp_path / "store") as con:
        con.execute("CREATE TABLE t (a INT)")
    with pytest.raises(swingdb.HeapError, match="something else, such as a database"):
        swingdb.ObjectHeap(tmp_path / "store", persistent=True)
    with swingdb.ObjectHeap(tmp_path / "heap", budget=8 << 20, persistent=True) as heap:
        assert heap.read(heap.root) == b"an object"


def test_a_copy_of_any_state_can_be_restored(tmp_path: Path, reboot) -> None:
    with swingdb.connect("taxi") as con:
        con.execute("CREATE TABLE t AS SELECT * FROM range(200000) r(a)")
        con.execute("CREATE TABLE twin CLONE t")
        con.execute("DELETE FROM t WHERE a % 2 = 0")
        con.share()
        snap = swingdb.snapshot("taxi")
        con.execute("DROP TABLE t")
        snap.execute("UPDATE t SET a = -1 WHERE a = 1")
        assert snap.checkpoint(tmp_path / "copy").written_bytes > 0
        with pytest.raises(swingdb.StoreError, match="already"):
            snap.checkpoint(tmp_path / "copy")
        snap.execute(f"CHECKPOINT TO '{tmp_path / 'second'}'")
        snap.close()
    reboot()
    for directory in ["copy", "second"]:
        with swingdb.restore(tmp_path / directory, f"as_{directory}") as con:
            counted = con.sql("SELECT count(*), min(a) FROM t").fetchone()
            assert counted == (100000, -1)
            assert con.sql("SELECT count(*) FROM twin").fetchone() == (200000,)
            assert con.store is None
            con.execute("DELETE FROM twin WHERE a < 5")
            assert con.sql("SELECT count(*), min(a) FROM t").fetchone() == (100000, -1)
        with pytest.raises(swingdb.AlreadyExistsError):
            swingdb.restore(tmp_path / directory, f"as_{directory}")


def test_room_of_what_was_dropped_comes_back(tmp_path: Path) -> None:
    with swingdb.connect("taxi", store=tmp_path / "taxi") as con:
        for _ in range(3):
            con.execute("CREATE OR REPLACE TABLE t AS SELECT random() AS a FROM range(500000)")
        con.execute("DROP TABLE t")
        con.checkpoint()
        con.checkpoint()
        assert con.store.live_bytes < 1_000_000, con.store


FIXTURES = Path(__file__).parent / "fixtures"
FORMATS = (1, 2, 3)


def fixture(version: int) -> Path:
    return FIXTURES / f"store-version-{version}.tar.xz"


def make_fixture() -> None:
    """Makes the newest fixture. None is made again: stores of old versions open."""
    with tempfile.TemporaryDirectory() as place:
        store = Path(place) / "store"
        with swingdb.connect("old", store=store) as con:
            con.execute("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR DEFAULT 'x', CHECK (a >= 0))")
            con.execute("INSERT INTO t SELECT i, 'text ' || i FROM range(5000) r(i)")
            con.execute("DELETE FROM t WHERE a % 5 = 0")
            con.execute("UPDATE t SET b = NULL WHERE a = 7")
            con.execute("CREATE TABLE nested AS SELECT [1, 2] AS l, "
                        "{'x': 1.5, 'y': DATE '2026-11-27'} AS s")
            # From version 2 on: one column for each way to encode a block.
            con.execute("CREATE TABLE wide AS SELECT i, i * 3 + 7 AS steps, i % 3 AS few, "
                        "(i * 7919 % 10007 - 5000)::DECIMAL(15, 2) AS money, i % 7 > 2 AS bit, "
                        "'word ' || (i % 4) AS short, 'a longer text of number ' || i AS long "
                        "FROM range(20000) r(i)")
            con.execute("CREATE VIEW v AS SELECT count(*) AS n FROM t")
            con.execute("CREATE SEQUENCE numbers START 7")
            con.execute("CREATE MACRO twice(x) AS 2 * x")
            # From version 3 on: more tables than one list has.
            con.execute("CREATE SCHEMA many; BEGIN")
            for number in range(150):
                con.execute(f"CREATE TABLE many.t{number:03} AS SELECT {number} AS x")
            con.execute("COMMIT; DROP TABLE many.t077; INSERT INTO many.t100 VALUES (7)")
        with tarfile.open(fixture(FORMATS[-1]), "w:xz") as archive:
            archive.add(store, "store", filter=lambda e: None if e.name.endswith("lock") else e)


@pytest.mark.parametrize("version", FORMATS)
def test_a_store_of_each_version_opens(tmp_path: Path, version: int, reboot) -> None:
    with tarfile.open(fixture(version)) as archive:
        archive.extractall(tmp_path, filter="data")
    with swingdb.connect("old", store=tmp_path / "store") as con:
        assert con.sql("SELECT n FROM v").fetchone() == (4000,)
        assert con.sql("SELECT sum(a), count(b), max(b) FROM t").fetchone() == (
            10000000, 3999, "text 999")
        assert con.sql("SELECT l[2], s['x'], CAST(s['y'] AS VARCHAR) FROM nested").fetchone() == (
            2, 1.5, "2026-11-27")
        assert con.sql("SELECT nextval('numbers'), twice(4)").fetchone() == (7, 8)
        with pytest.raises(swingdb.ConstraintError):
            con.execute("INSERT INTO t VALUES (1, 'there')")
        if version > 1:
            found = con.sql("SELECT sum(i), sum(steps), sum(few), sum(money)::DOUBLE, "
                            "sum(bit::INT), max(short), min(long), sum(length(long)) FROM wide"
                            ).fetchone()
            assert found == (199990000, 600110000, 19999, float(MONEY), BITS, "word 3",
                             "a longer text of number 0", LENGTH)
        if version > 2:
            found = con.sql("SELECT count(*) FROM duckdb_tables() WHERE schema_name = 'many'")
            assert found.fetchone() == (149,)
            assert con.sql("SELECT sum(x) FROM many.t100").fetchone() == (107,)
            con.execute("DROP TABLE many.t003; INSERT INTO many.t149 VALUES (1)")
            con.execute("CREATE TABLE many.t1000 AS SELECT 5 AS x")
        # What is written now lies beside what was there.
        con.execute("INSERT INTO t SELECT i, 'more ' || i FROM range(10000, 90000) r(i)")
    reboot()
    with swingdb.connect("old", store=tmp_path / "store") as con:
        assert con.sql("SELECT count(*), sum(a), max(b) FROM t").fetchone() == (
            84000, 10000000 + sum(range(10000, 90000)), "text 999")
        if version > 2:
            found = con.sql("SELECT count(*) FROM duckdb_tables() WHERE schema_name = 'many'")
            assert found.fetchone() == (149,)
            assert con.sql("SELECT sum(x) FROM many.t149").fetchone() == (150,)
            assert con.sql("SELECT x FROM many.t1000").fetchone() == (5,)


#: What the columns of the table `wide` add up to.
MONEY = sum(i * 7919 % 10007 - 5000 for i in range(20000))
BITS = sum(i % 7 > 2 for i in range(20000))
LENGTH = sum(len(f"a longer text of number {i}") for i in range(20000))


def test_many_tables_against_a_model(tmp_path: Path, reboot) -> None:
    """Lists of tables in the store, through changes, reboots, and opening it anew from memory."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    store = tmp_path / "taxi"
    model: dict[str, int] = {}
    for round in range(6):
        durability = rng.choice(["commit", "manual"])
        with swingdb.connect("taxi", store=store, durability=durability) as con:
            for _ in range(rng.randrange(1, 6)):
                con.execute("BEGIN")
                before = dict(model)
                for _ in range(rng.choice([1, 3, 60])):
                    name, value = f"t{rng.randrange(300)}", rng.randrange(1000)
                    kind = rng.choice("ccdir")
                    if kind == "c" and name not in model:
                        con.execute(f"CREATE TABLE {name} AS SELECT {value} AS x")
                        model[name] = value
                    elif kind == "d" and name in model:
                        con.execute(f"DROP TABLE {name}")
                        del model[name]
                    elif kind == "i" and name in model:
                        con.execute(f"INSERT INTO {name} VALUES ({value})")
                        model[name] += value
                    elif kind == "r" and name in model and name + "new" not in model:
                        con.execute(f"ALTER TABLE {name} RENAME TO {name}new")
                        model[name + "new"] = model.pop(name)
                if rng.random() < 0.2:
                    con.execute("ROLLBACK")
                    model = before
                else:
                    con.execute("COMMIT")
            if round == 4:
                # Few are left: they come into the root.
                for name in sorted(model)[5:]:
                    con.execute(f"DROP TABLE {name}")
                    del model[name]
            con.checkpoint()
        if rng.random() < 0.7:
            reboot()
        with swingdb.connect("taxi", store=store) as con:
            names = [row[0] for row in con.sql("SHOW TABLES").fetchall()]
            assert sorted(names) == sorted(model)
            for name, value in model.items():
                assert con.sql(f"SELECT sum(x) FROM {name}").fetchone() == (value,), name
    copy = tmp_path / "copy"
    with swingdb.connect("taxi", store=store) as con:
        con.checkpoint(copy)
    swingdb.restore(copy, "back").close()
    with swingdb.connect("back") as con:
        assert len(con.sql("SHOW TABLES").fetchall()) == len(model)


def test_a_commit_writes_as_much_for_many_tables_as_for_one(tmp_path: Path) -> None:
    written = {}
    for tables in (1, 2000):
        with swingdb.connect(f"many{tables}", store=tmp_path / str(tables)) as con:
            con.execute("BEGIN")
            for number in range(tables):
                con.execute(f"CREATE TABLE t{number:04} (a INT)")
            con.execute("COMMIT; INSERT INTO t0000 VALUES (1)")
            con.checkpoint()
            before = con.store
            for number in range(100):
                con.execute(f"INSERT INTO t0000 VALUES ({number})")
            assert con.store.syncs - before.syncs <= 102
            written[tables] = con.store.used_bytes - before.used_bytes
    assert written[2000] < 3 * written[1], written


def test_blocks_on_the_disk_take_fewer_bytes(tmp_path: Path, reboot) -> None:
    rows = 300_000
    with swingdb.connect("taxi", store=tmp_path / "taxi") as con:
        con.execute(f"CREATE TABLE t AS SELECT i AS a, i % 1000 AS b, 'word ' || (i % 9) AS c, "
                    f"(i % 5003)::DECIMAL(15, 2) AS d, DATE '2026-01-01' + (i % 700)::INT AS e, "
                    f"CASE WHEN i % 3 > 0 THEN i END AS f FROM range({rows}) r(i)")
        # 8, 8, 16, 16, 4 and 8 bytes a row in memory.
        assert con.store.live_bytes < rows * 60 * 0.3, con.store
        whole = con.sql("SELECT sum(a), sum(b), max(c), sum(d), max(e), sum(f), count(f) FROM t")
        whole = whole.fetchall()
    reboot()
    with swingdb.connect("taxi", store=tmp_path / "taxi") as con:
        assert con.sql("SELECT sum(a), sum(b), max(c), sum(d), max(e), sum(f), count(f) FROM t"
                       ).fetchall() == whole
        # Opened anew, blocks are found by what they hold in memory.
        con.execute("INSERT INTO t SELECT * FROM t LIMIT 5")
        written = con.checkpoint().written_bytes
        assert written < 100_000


def damaged(store: Path, rng: random.Random) -> str:
    """Breaks one file; says how."""
    files = [p for p in store.iterdir() if p.name != "lock" and p.stat().st_size > 0]
    victim = rng.choice(sorted(files))
    how = rng.choice(["remove", "truncate", "flip", "flip", "zero"])
    size = victim.stat().st_size
    if how == "remove":
        victim.unlink()
    elif how == "truncate":
        os.truncate(victim, rng.randrange(size) // 4096 * 4096)
    else:
        with victim.open("r+b") as file:
            at = rng.randrange(size)
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1 << rng.randrange(8) if how == "flip" else 0]))
    return f"{how} {victim.name}"


def cold(con: swingdb.Connection) -> int:
    """Bytes that are still in the store alone."""
    loading = con.store.loading
    return 0 if loading is None else loading[1] - loading[0]


def large(store: Path, rows: int = 1_000_000) -> list:
    """A database of several segments, with deleted and changed rows, and what is true of it."""
    with swingdb.connect("taxi", store=store) as con:
        con.execute(f"CREATE TABLE t AS SELECT i AS a, i % 1000 AS b, hash(i) AS c, "
                    f"'text number ' || (i % 5000) AS s, [i, i + 1] AS l FROM range({rows}) r(i)")
        con.execute("DELETE FROM t WHERE a % 1003 = 7; UPDATE t SET b = -1 WHERE a < 9")
        return con.sql(WHOLE).fetchall()


WHOLE = """SELECT count(*), sum(a), sum(b), sum(c::HUGEINT), count(DISTINCT s), min(s), max(s),
           sum(l[2]) FROM t"""


def test_what_a_query_needs_is_read_first(tmp_path: Path, reboot) -> None:
    whole = large(tmp_path / "taxi")
    # A machine that stands still for half a second lets the background be first.
    for _ in range(10):
        reboot()
        with swingdb.connect("taxi", store=tmp_path / "taxi") as con:
            plan = str(con.sql("EXPLAIN ANALYZE SELECT sum(b) FROM t WHERE a < 100000").fetchall())
            assert con.sql(WHOLE).fetchall() == whole
            again = str(con.sql("EXPLAIN ANALYZE SELECT sum(b) FROM t").fetchall())
            assert "disk_bytes" not in again, "it is in memory now"
        if "disk_bytes=" in plan:
            break
    for metric in ("disk_bytes=", "disk_requests=", "disk_depth=", "disk_domains=",
                   "disk_buffer_bytes=", "disk_mb_per_s="):
        assert metric in plan, plan


AGGREGATES = """
    SELECT sum(a) FROM t;
    SELECT min(a), max(b), count(s), avg(c), count(*) FROM t;
    SELECT b, sum(a), min(s), avg(a), count(*) FROM t WHERE a % 3 = 0 GROUP BY b;
    SELECT stddev(a), var_pop(b), bool_and(a >= 0), bit_xor(a), approx_count_distinct(s) FROM t;
    SELECT count(DISTINCT s), sum(a + 1) FILTER (b > 5), list_sum(list(b)) FROM t;
    SELECT s, count(*) FROM t GROUP BY ALL HAVING count(*) > 1
""".split(";")


@pytest.mark.parametrize("threads", [1, 4])
def test_aggregates_are_computed_beside_the_scan(tmp_path: Path, reboot, threads: int) -> None:
    import duckdb

    large(tmp_path / "taxi")
    with swingdb.connect("taxi") as con:
        warm = [sorted(con.sql(query).fetchall(), key=str) for query in AGGREGATES]
        duck = duckdb.connect()
        t = con.sql("SELECT * FROM t").arrow()
        duck.register("t", t)
    for query, expected in zip(AGGREGATES, warm):
        if "approx" not in query:
            found = sorted(duck.sql(query).fetchall(), key=str)
            assert [[pytest.approx(x) if isinstance(x, float) else x for x in row]
                    for row in found] == [list(row) for row in expected]
    for query, expected in zip(AGGREGATES, warm):
        reboot()
        with slowly_opened(tmp_path / "taxi") as con:
            con.execute(f"SET threads = {threads}")
            plan = str(con.sql(f"EXPLAIN {query}").fetchall())
            assert re.search(r"on_disk=\d+ segments of \d+ bytes, aggregates_beside=", plan), plan
            assert ("final=push_up" in plan) == (threads > 1 and "mode=Partial" in plan), plan
            assert "DataSourceExec" in plan and "HashJoin" not in plan
            found = sorted(con.sql(query).fetchall(), key=str)
            assert [[pytest.approx(x) if isinstance(x, float) else x for x in row]
                    for row in found] == [list(row) for row in expected]


def test_rows_are_aggregated_while_the_disk_is_read(tmp_path: Path, reboot) -> None:
    large(tmp_path / "taxi")
    for _ in range(20):
        reboot()
        with slowly_opened(tmp_path / "taxi") as con:
            query = "EXPLAIN ANALYZE SELECT sum(a), sum(c::HUGEINT), max(s) FROM t"
            plan, again = (str(con.sql(query).fetchall()) for _ in range(2))
        assert "on_disk" not in again and "disk_rows_beside" not in again, "it is in memory now"
        found = re.search(r"disk_rows_beside=(\S+)", plan)
        if found and found[1] != "0":
            break
    else:
        raise AssertionError(plan)


def test_what_is_in_memory_says_nothing_of_disks(tmp_path: Path) -> None:
    large(tmp_path / "taxi")
    with swingdb.connect("taxi") as con:
        plan = str(con.sql("EXPLAIN SELECT sum(a) FROM t").fetchall())
        assert "on_disk" not in plan and "aggregates_beside" not in plan


def give_domains(directory: Path) -> None:
    """A profile as a probe saves it, of a device with ten domains of 64 KiB."""
    facts = subprocess.run(["stat", "-f", "-c", "%t %i", directory], capture_output=True,
                           text=True, check=True).stdout.split()
    kind, identifier = (int(fact, 16) for fact in facts)
    # The two halves of the identifier come in the other order.
    identifier = (identifier >> 32) | (identifier & 0xFFFFFFFF) << 32
    values = {
        "device": directory.stat().st_dev, "file-system": kind, "file-system-id": identifier,
        "chunk-bytes": 65536, "domains": 10, "domain-unit-bytes": 65536, "domains-inner": "none",
        "request-bytes": 65536, "depth": 8, "random-depth": 8, "request-ns": 15000, "kib-ns": 500,
        "alone-request-ns": 70000, "alone-kib-ns": 900, "bytes-per-second": 1 << 30,
        "reads-per-second": 50000,
    }
    lines = ["swing device profile 1", *(f"{name} {value}" for name, value in values.items())]
    (directory / "device-profile").write_text("\n".join(lines) + "\n")


def domains_of(store: Path, whole: list, reboot) -> int:
    """What EXPLAIN ANALYZE says of the domains that a scan of a cold table reads."""
    for _ in range(10):
        reboot()
        with swingdb.connect("taxi", store=store) as con:
            plan = str(con.sql("EXPLAIN ANALYZE SELECT sum(a), sum(c::HUGEINT) FROM t").fetchall())
            assert con.sql(WHOLE).fetchall() == whole
        found = re.search(r"disk_domains=(\d+)", plan)
        if found:
            return int(found[1])
    raise AssertionError(plan)


def test_a_probed_disk_has_striped_stores(tmp_path: Path, reboot) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    whole = large(before)
    reboot()
    give_domains(tmp_path)
    assert large(after) == whole
    assert domains_of(after, whole, reboot) == 10
    # A store that was there stays where it lies, and opens.
    assert domains_of(before, whole, reboot) == 0
    reboot()
    with swingdb.connect("taxi", store=before) as con:
        con.execute("INSERT INTO t SELECT i, 1, 2, 'new', [i] FROM range(200000) r(i)")
        grown = con.sql(WHOLE).fetchall()
    domains_of(before, grown, reboot)


def test_a_directory_that_was_probed_can_be_a_store(tmp_path: Path, reboot) -> None:
    store = tmp_path / "taxi"
    store.mkdir()
    give_domains(store)
    whole = large(store)
    assert domains_of(store, whole, reboot) == 10


def test_a_limit_reads_little(tmp_path: Path, reboot) -> None:
    large(tmp_path / "taxi")
    reboot()
    with swingdb.connect("taxi", store=tmp_path / "taxi") as con:
        start = time.monotonic()
        before = cold(con)
        assert con.sql("SELECT a, b FROM t LIMIT 1").fetchall() == [(0, -1)]
        if time.monotonic() - start < 0.4:
            # Before the background begins.
            assert before - cold(con) < before / 8


def test_the_background_reads_everything(tmp_path: Path, reboot) -> None:
    whole = large(tmp_path / "taxi")
    reboot()
    with swingdb.connect("taxi", store=tmp_path / "taxi") as con:
        deadline = time.monotonic() + 60
        while con.store.loading is not None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        # Others can have it now, and nothing is needed from the store any more.
        con.share()
        shutil.rmtree(tmp_path / "taxi")
        assert con.sql(WHOLE).fetchall() == whole
        with swingdb.snapshot("taxi") as snapshot:
            assert snapshot.sql(WHOLE).fetchall() == whole


CHANGES = """
    INSERT INTO t (a) VALUES (-1);
    UPDATE t SET b = 5 WHERE a = 77;
    DELETE FROM t WHERE a BETWEEN 200000 AND 299999;
    CREATE TABLE u AS SELECT a, b FROM t WHERE a < 10;
    ALTER TABLE t ADD COLUMN d INT DEFAULT 4;
    BEGIN; DROP TABLE u; INSERT INTO t (a) VALUES (-2); ROLLBACK;
    BEGIN; INSERT INTO u VALUES (-3, 4); COMMIT
"""
CHANGED = f"SELECT * FROM ({WHOLE}), (SELECT sum(d) AS d FROM t), (SELECT sum(a) AS u FROM u)"


def changed(directory: Path, reboot, changes: str = CHANGES) -> list:
    """What is true of a database that was in memory whole when it was changed."""
    large(directory)
    with swingdb.connect("taxi") as con:
        con.execute(changes)
        found = con.sql(CHANGED).fetchall()
    reboot()
    return found


def slowly_opened(store: Path, durability: str | float = "commit") -> swingdb.Connection:
    """A database of which nothing has been read yet."""
    for _ in range(20):
        con = swingdb.connect("taxi", store=store, durability=durability)
        if cold(con):
            return con
        con.close()
    raise AssertionError("everything is in memory")


@pytest.mark.parametrize("durability", ["commit", 60.0])
def test_changes_do_not_wait_for_everything(tmp_path: Path, reboot, durability) -> None:
    expected = changed(tmp_path / "other", reboot)
    large(tmp_path / "taxi")
    reboot()
    with slowly_opened(tmp_path / "taxi", durability) as con:
        before = cold(con)
        con.execute("INSERT INTO t (a) VALUES (-1)")
        con.execute("CREATE TABLE v AS SELECT 1 AS x; DROP TABLE v")
        if before == cold(con):
            # The background has not begun: so nothing but the changes was written.
            assert con.store.stored_version == con.store.memory_version
        con.execute("DELETE FROM t WHERE a = -1")
        con.execute(CHANGES)
        assert con.sql(CHANGED).fetchall() == expected
        con.share()
        assert con.store.loading is None
        with swingdb.snapshot("taxi") as snapshot:
            assert snapshot.sql(CHANGED).fetchall() == expected
        con.execute("INSERT INTO u VALUES (-4, 4); DELETE FROM u WHERE a = -4")
    assert rows("taxi", tmp_path / "taxi", CHANGED) == expected
    reboot()
    assert rows("taxi", tmp_path / "taxi", CHANGED) == expected


@pytest.mark.parametrize("durability", ["commit", 60.0])
def test_changes_of_a_half_read_database_outlive_a_kill(tmp_path, reboot, durability) -> None:
    expected = changed(tmp_path / "other", reboot)
    large(tmp_path / "taxi")
    for wait in (0, 0.55):
        copy = tmp_path / f"copy{wait}"
        shutil.copytree(tmp_path / "taxi", copy)
        reboot()
        program = (
            "import os, signal, sys, time, swingdb\n"
            "store, durability, wait, changes = sys.argv[1:]\n"
            "durability = durability if durability == 'commit' else float(durability)\n"
            "con = swingdb.connect('taxi', store=store, durability=durability)\n"
            "time.sleep(float(wait))\n"
            "con.execute(changes)\n"
            "print(con.store.loading is not None, flush=True)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        arguments = [sys.executable, "-c", program, copy, str(durability), str(wait), CHANGES]
        died = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
        assert died.returncode == -signal.SIGKILL, died.stderr
        assert rows("taxi", copy, CHANGED) == expected
        reboot()
        assert rows("taxi", copy, CHANGED) == expected


def test_what_a_half_read_database_cannot_write_is_rolled_back(tmp_path: Path, reboot) -> None:
    whole = large(tmp_path / "taxi")
    reboot()
    with slowly_opened(tmp_path / "taxi") as con:
        con.execute("BEGIN; DELETE FROM t; ROLLBACK")
        con.execute("BEGIN; UPDATE t SET b = 1")
        with pytest.raises(swingdb.Error):
            con.execute("INSERT INTO nowhere VALUES (1)")
        con.execute("ROLLBACK")
        assert con.sql(WHOLE).fetchall() == whole
    reboot()
    assert rows("taxi", tmp_path / "taxi", WHOLE) == whole


def test_the_background_waits_for_a_long_transaction(tmp_path: Path, reboot) -> None:
    large(tmp_path / "taxi")
    reboot()
    with slowly_opened(tmp_path / "taxi") as con:
        con.execute("BEGIN; INSERT INTO t (a) VALUES (-1)")
        deadline = time.monotonic() + 60
        while cold(con):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.3)
        assert con.store.loading is not None, "the transaction is under way"
        con.execute("COMMIT")
        while con.store.loading is not None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert con.sql("SELECT count(*) FROM t WHERE a = -1").fetchone() == (1,)


def test_a_share_waits_for_everything(tmp_path: Path, reboot) -> None:
    whole = large(tmp_path / "taxi")
    reboot()
    with swingdb.connect("taxi", store=tmp_path / "taxi") as con:
        con.share()
        assert con.store.loading is None
        with swingdb.snapshot("taxi") as snapshot:
            assert snapshot.sql(WHOLE).fetchall() == whole


def unlimited(con: swingdb.Connection) -> None:
    """Takes the limit of time away, under the limit."""
    while True:
        try:
            con.execute("SET statement_timeout = 0")
            return
        except swingdb.StatementTimeoutError:
            pass


@pytest.mark.parametrize("share", [lambda con: con.share(), lambda con: con.execute("SHARE")])
def test_a_share_that_waits_can_be_ended(tmp_path: Path, reboot, share) -> None:
    whole = large(tmp_path / "taxi")
    reboot()
    with slowly_opened(tmp_path / "taxi") as con:
        con.execute("SET statement_timeout = 1")
        with pytest.raises(swingdb.StatementTimeoutError):
            share(con)
        with pytest.raises((swingdb.NotFoundError, swingdb.NotSharedError)):
            swingdb.snapshot("taxi")
        unlimited(con)
        share(con)
        assert con.store.loading is None
        with swingdb.snapshot("taxi") as snapshot:
            assert snapshot.sql(WHOLE).fetchall() == whole


def test_a_share_is_interrupted_while_it_waits(tmp_path: Path, reboot) -> None:
    whole = large(tmp_path / "taxi")
    reboot()
    with slowly_opened(tmp_path / "taxi") as con, con.duplicate() as other:
        # Keeps the state from being published.
        other.execute("BEGIN; INSERT INTO t (a) VALUES (-1)")
        ended: list[BaseException] = []

        def share() -> None:
            try:
                con.share()
            except swingdb.Error as error:
                ended.append(error)

        thread = threading.Thread(target=share)
        thread.start()
        while thread.is_alive():
            con.interrupt()
            thread.join(0.05)
        assert [type(error) for error in ended] == [swingdb.QueryInterruptedError]
        other.execute("ROLLBACK")
        con.share()
        with swingdb.snapshot("taxi") as snapshot:
            assert snapshot.sql(WHOLE).fetchall() == whole


def test_a_manual_store_gets_no_change_before_a_checkpoint(tmp_path: Path, reboot) -> None:
    whole = large(tmp_path / "taxi")
    reboot()
    with slowly_opened(tmp_path / "taxi", "manual") as con:
        con.execute("DELETE FROM t")
        assert con.store.loading is None, "the change has waited"
    reboot()
    assert rows("taxi", tmp_path / "taxi", WHOLE) == whole


def test_many_threads_read_while_it_is_opened(tmp_path: Path, reboot) -> None:
    whole = large(tmp_path / "taxi")
    column = {"a": whole[0][1], "b": whole[0][2], "c": whole[0][3], "l[2]": whole[0][7]}
    for _ in range(3):
        reboot()
        with swingdb.connect("taxi", store=tmp_path / "taxi") as con:
            with ThreadPoolExecutor(8) as pool:
                names = list(column) * 6
                sums = pool.map(
                    lambda name: con.cursor().execute(
                        f"SELECT sum(x.{name}::HUGEINT) FROM t x JOIN t y USING (a)"
                    ).fetchone()[0],
                    names,
                )
                assert list(sums) == [column[name] for name in names]


def test_a_database_can_be_closed_while_it_is_opened(tmp_path: Path, reboot) -> None:
    whole = large(tmp_path / "taxi")
    for wait in (0, 0, 0.01, 0.5, 0.52, 0.6):
        reboot()
        con = swingdb.connect("taxi", store=tmp_path / "taxi")
        time.sleep(wait)
        if wait:
            assert con.sql("SELECT sum(a) FROM t").fetchone() == (whole[0][1],)
        con.close()
    assert rows("taxi", tmp_path / "taxi", WHOLE) == whole


def test_a_forked_child_is_told_what_is_not_in_memory(tmp_path: Path, reboot) -> None:
    whole = large(tmp_path / "taxi")
    reboot()
    with swingdb.connect("taxi", store=tmp_path / "taxi") as con:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if con.sql(WHOLE).fetchall() == whole else 2
            except swingdb.Error as error:
                code = 0 if "fork" in str(error) else 3
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert con.sql(WHOLE).fetchall() == whole


def test_damage_is_told_by_the_query_that_needs_the_block(tmp_path: Path, reboot) -> None:
    store = tmp_path / "taxi"
    whole = large(store)
    reboot()
    with swingdb.connect("taxi", store=store) as con:
        # Opened, and then the bytes of every data file go.
        for file in store.glob("*"):
            if file.stat().st_size > 1_000_000:
                with open(file, "r+b") as out:
                    for at in range(1 << 20, file.stat().st_size - 4096, 1 << 19):
                        out.seek(at)
                        out.write(os.urandom(512))
        for _ in range(2):
            try:
                assert con.sql(WHOLE).fetchall() == whole, "it had been read before"
            except swingdb.StoreError as error:
                assert error.problem == "damaged"
        con.execute("CREATE TABLE other AS SELECT 1 AS x; DROP TABLE other")
        try:
            con.share()
        except swingdb.StoreError as error:
            assert error.problem == "damaged"


def test_a_damaged_store_is_an_error_or_right(tmp_path: Path, rng: random.Random, reboot) -> None:
    whole = tmp_path / "whole"
    query = "SELECT count(*), sum(a), min(b), max(b), sum(length(b)) FROM t"
    with swingdb.connect("taxi", store=whole) as con:
        con.execute("CREATE TABLE t AS SELECT a, 'row ' || a AS b FROM range(150000) r(a)")
        con.execute("DELETE FROM t WHERE a % 7 = 0")
        con.execute("UPDATE t SET b = 'changed' WHERE a = 5")
        expected = con.sql(query).fetchall()
    refused = 0
    for _ in range(25):
        reboot()
        store = tmp_path / "broken"
        shutil.copytree(whole, store)
        how = damaged(store, rng)
        try:
            found = rows("taxi", store, query)
        except swingdb.StoreError as error:
            assert error.problem in {"damaged", "missing", "not a store", "version", "io"}, how
            refused += 1
        else:
            # A flip may lie in bytes that nobody needs.
            assert found == expected, how
        shutil.rmtree(store)
    assert refused > 0


WRITER = """
import sys, swingdb
con = swingdb.connect("taxi", store=sys.argv[1], durability=eval(sys.argv[2]))
con.execute("CREATE TABLE IF NOT EXISTS t (a BIGINT, b VARCHAR)")
(last,) = con.sql("SELECT coalesce(max(a), 0) FROM t").fetchone()
(count, total) = con.sql("SELECT count(*), coalesce(sum(a), 0) FROM t").fetchone()
assert count == last and total == last * (last + 1) // 2, (count, last, total)
print(last)
while True:
    last += 1
    con.execute("INSERT INTO t VALUES (?, ?)", (last, "x" * (last % 50)))
    if last % 10 == 0:
        con.execute("UPDATE t SET b = 'y' WHERE a = ?", (last - 5,))
    print(last)
"""


@pytest.mark.parametrize("durability", ["'commit'", "0.02"])
def test_kills_lose_nothing_that_was_promised(
    tmp_path: Path, rng: random.Random, reboot, durability: str
) -> None:
    store, acknowledged = tmp_path / "taxi", 0
    for number in range(8):
        program = Program(WRITER, store, durability)
        first = int(program.line())
        if durability == "'commit'":
            assert first >= acknowledged, "an acknowledged commit is lost"
            assert first <= acknowledged + 1, "a commit that nobody made"
        acknowledged = first
        until = time.monotonic() + rng.uniform(0.01, 0.5)
        while time.monotonic() < until:
            acknowledged = int(program.line())
        for line in program.kill():
            acknowledged = int(line)
        # Now memory survives the kill, now it is lost as well.
        if number % 2 == 0:
            reboot()
            if durability != "'commit'":
                acknowledged = 0


CHECKPOINTER = """
import sys, threading, time, swingdb
con = swingdb.connect("taxi", store=sys.argv[1], durability=0.02)
con.execute("CREATE TABLE IF NOT EXISTS debit (step BIGINT, amount BIGINT)")
con.execute("CREATE TABLE IF NOT EXISTS credit (step BIGINT, amount BIGINT)")
def checkpoints():
    other = swingdb.connect("taxi")
    while True:
        other.execute("CHECKPOINT")
        time.sleep(0.01)
threading.Thread(target=checkpoints, daemon=True).start()
(step,) = con.sql("SELECT coalesce(max(step), 0) FROM debit").fetchone()
longest = 0
while True:
    step += 1
    start = time.monotonic()
    with con.transaction():
        rows = f"SELECT {step}, {step} + i % 7 FROM range(500) r(i)"
        con.execute(f"INSERT INTO debit {rows}")
        con.execute(f"INSERT INTO credit {rows}")
        if step % 20 == 0:
            con.execute("DELETE FROM debit WHERE step % 3 = 0")
            con.execute("DELETE FROM credit WHERE step % 3 = 0")
    longest = max(longest, time.monotonic() - start)
    con.share()
    print(step, longest, con.store.stored_version or 0)
"""

BESIDE = """
import sys, time, swingdb
role, name = sys.argv[1], sys.argv[2]
SUMS = "SELECT count(*), coalesce(sum(amount), 0), coalesce(max(step), 0) FROM "
EXPECTED = (swingdb.NotFoundError, swingdb.NotSharedError, swingdb.BusyError,
            swingdb.AlreadyExistsError, swingdb.TransactionError, swingdb.MemoryGoneError)
def whole(con):
    debit, credit = (con.sql(SUMS + table).fetchone() for table in ("debit", "credit"))
    assert debit == credit, (role, debit, credit)
    return debit
while True:
    try:
        with swingdb.snapshot("taxi") as snap:
            before = whole(snap)
            if role == "derive":
                snap.execute("CREATE TABLE mine CLONE debit; DELETE FROM mine WHERE step % 2 = 0")
                snap.execute("DELETE FROM debit; DELETE FROM credit")
                assert whole(snap)[0] == 0
            else:
                time.sleep(0.03)
                assert whole(snap) == before, (role, before)
        if role == "name":
            with swingdb.get_snapshot("taxi", name) as derived:
                before = whole(derived)
                derived.execute("INSERT INTO debit VALUES (-1, 1); "
                                "INSERT INTO credit VALUES (-1, 1)")
                derived.share()
                assert whole(derived)[0] == before[0] + 1
            swingdb.drop(name)
        print(before[0])
    except EXPECTED:
        time.sleep(0.01)
"""


def test_checkpoints_beside_snapshots_and_derived_databases_that_are_killed(
    tmp_path: Path, rng: random.Random, reboot
) -> None:
    store = tmp_path / "taxi"
    equal = """SELECT (SELECT count(*) FROM debit), (SELECT count(*) FROM credit),
               (SELECT coalesce(sum(amount), 0) FROM debit),
               (SELECT coalesce(sum(amount), 0) FROM credit)"""
    longest, stored, looks = 0.0, 0, 0
    for _ in range(3):
        writer = Program(CHECKPOINTER, store)
        writer.line()
        roles = ["read", "derive", "name"]
        beside = [Program(BESIDE, role, f"{role}-{place}") for place, role in enumerate(roles)]
        until, number = time.monotonic() + 3, 0
        while time.monotonic() < until:
            _, stall, version = writer.line().split()
            longest, stored = max(longest, float(stall)), max(stored, int(version))
            number += 1
            if rng.random() < 0.05:
                place = rng.randrange(len(roles))
                assert beside[place].process.poll() is None, f"{roles[place]} found a torn state"
                looks += len(beside[place].kill())
                beside[place] = Program(BESIDE, roles[place], f"{roles[place]}-{number}-{place}")
        for role, program in zip(roles, beside, strict=True):
            assert program.process.poll() is None, f"{role} found a torn state"
            looks += len(program.kill())
        writer.kill()
        reboot()
        debits, credits, debit, credit = rows("taxi", store, equal)[0]
        assert (debits, debit) == (credits, credit), "the store has a torn state"
        assert debits > 0
        reboot()
    print(f"longest commit beside checkpoints: {longest * 1000:.1f} ms, {looks} looks")
    assert stored > 0, "no checkpoint came to its end"
    assert looks > 0, "nobody looked"


def test_random_statements_against_a_list(tmp_path: Path, rng: random.Random, reboot) -> None:
    store = tmp_path / "taxi"
    tables: dict[str, dict[int, str]] = {}
    con = swingdb.connect("taxi", store=store)
    for _ in range(150):
        name = f"t{rng.randrange(4)}"
        action = rng.choice(["make", "insert", "insert", "update", "delete", "clone", "reopen",
                             "lose", "abort"])
        if action == "make":
            con.execute(f"CREATE OR REPLACE TABLE {name} (a INT, b VARCHAR)")
            tables[name] = {}
        elif action == "reopen":
            con.close()
            con = swingdb.connect("taxi", store=store)
        elif action == "lose":
            con.close()
            reboot()
            con = swingdb.connect("taxi", store=store)
        elif name in tables:
            table = tables[name]
            if action == "insert":
                start = max(table, default=0) + 1
                count, tag = rng.choice([1, 3, 2000]), rng.randrange(1000)
                con.execute(f"INSERT INTO {name} SELECT {start} + i, '{tag} ' || i "
                            f"FROM range({count}) r(i)")
                table.update({start + i: f"{tag} {i}" for i in range(count)})
            elif action == "update" and table:
                key = rng.choice(sorted(table))
                con.execute(f"UPDATE {name} SET b = 'new' WHERE a = {key}")
                table[key] = "new"
            elif action == "delete":
                con.execute(f"DELETE FROM {name} WHERE a % 3 = 0")
                tables[name] = {a: b for a, b in table.items() if a % 3}
            elif action == "clone":
                other = f"t{rng.randrange(4)}"
                if other != name:
                    con.execute(f"DROP TABLE IF EXISTS {other}")
                    con.execute(f"CREATE TABLE {other} CLONE {name}")
                    tables[other] = dict(table)
            elif action == "abort":
                con.execute("BEGIN")
                con.execute(f"DELETE FROM {name}")
                con.execute("ROLLBACK")
        for name, table in tables.items():
            found = dict(con.sql(f"SELECT a, b FROM {name}").fetchall())
            assert found == table, (action, name)
    con.close()


def test_a_publish_that_fails_is_taken_back_on_the_disk(tmp_path: Path, reboot) -> None:
    store = tmp_path / "taxi"
    with swingdb.connect("taxi", store=store) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
        con.execute("INSERT INTO t VALUES (2)")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # A commit in memory makes a file, one in the store does not. No number is free below this.
        first_free = os.dup(0)
        os.close(first_free)
        failed = None
        resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, hard))
        try:
            con.execute("INSERT INTO t VALUES (3)")
        except swingdb.Error as error:
            failed = error
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if failed is None:
            pytest.skip("the publish needed no descriptor")
        count = con.sql("SELECT count(*) FROM t").fetchone()[0]
        assert con.store.stored_version == con.store.memory_version
        con.execute("INSERT INTO t VALUES (4)")
    reboot()
    assert rows("taxi", store, "SELECT count(*), max(a) FROM t") == [(count + 1, 4)]


def mounted(directory: Path, megabytes: int = 24) -> Iterator[Path]:
    """A small file system; the test is skipped where none can be mounted."""
    image, place = directory / "image", directory / "disk"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    made = subprocess.run(["mkfs.ext4", "-q", "-F", image], check=False, capture_output=True)
    if os.geteuid() != 0 or made.returncode != 0:
        pytest.skip("a small file system takes root and mkfs.ext4")
    done = subprocess.run(["mount", "-o", "loop", image, place], check=False, capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"no loop file system here: {done.stderr.decode()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system."""
    yield from mounted(tmp_path)


def in_threads(con: swingdb.Connection, threads: int, work) -> list:
    """Calls `work` with a session and a number in each thread; what it returned."""
    def one(number: int) -> object:
        with con.duplicate() as own:
            return work(own, number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, range(threads)))


def test_threads_that_commit_share_the_way_to_the_disk(tmp_path: Path, reboot) -> None:
    threads, each = 8, 25
    with swingdb.connect("taxi", store=tmp_path / "taxi") as con:
        con.execute("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR)")
        before = con.store.syncs

        def work(own: swingdb.Connection, number: int) -> int:
            for row in range(number * each, (number + 1) * each):
                own.execute("INSERT INTO t VALUES (?, 'a text')", [row])
                assert own.sql("SELECT count(*) FROM t WHERE a = ?", [row]).fetchone() == (1,)
                if row % 10 == 0:
                    with pytest.raises(swingdb.ConstraintError):
                        own.execute("INSERT INTO t VALUES (?, 'again')", [row])
            return each

        assert sum(in_threads(con, threads, work)) == threads * each
        assert con.store.syncs - before < threads * each, "some were shared"
        assert con.store.stored_version == con.store.memory_version
    reboot()
    assert rows("taxi", tmp_path / "taxi", "SELECT count(*), sum(a) FROM t") == [
        (threads * each, sum(range(threads * each)))]


def test_changes_of_all_kinds_share_the_way_to_the_disk(tmp_path: Path, reboot) -> None:
    threads, each = 8, 20
    statements = {
        "update": "UPDATE t SET b = b + 1 WHERE a = ?",
        "delete": "DELETE FROM t WHERE a = ? RETURNING a",
        "merge": "MERGE INTO t USING (SELECT ? AS a) s ON t.a = s.a "
                 "WHEN MATCHED THEN UPDATE SET b = b + 100 "
                 "WHEN NOT MATCHED THEN INSERT VALUES (s.a, 7)",
        "insert": "INSERT INTO log SELECT a, b FROM t WHERE a = ?",
    }
    with swingdb.connect("taxi", store=tmp_path / "taxi") as con:
        con.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
        con.execute("CREATE TABLE log (a INT, b INT)")
        rows_of_t = threads * each
        con.execute(f"INSERT INTO t SELECT i, 0 FROM range({rows_of_t}) r(i)")
        con.execute("CREATE TABLE counter AS SELECT 0 AS n")
        shared = {}
        for name in ("update", "merge", "insert", "delete"):
            before = con.store.syncs

            def work(own: swingdb.Connection, number: int, name: str = name) -> int:
                for row in range(number * each, (number + 1) * each):
                    own.execute(statements[name], [row])
                return each

            assert sum(in_threads(con, threads, work)) == rows_of_t
            shared[name] = con.store.syncs - before
            assert con.store.stored_version == con.store.memory_version

        # Each reads what those before it wrote, also those of its group.
        def count(own: swingdb.Connection, number: int) -> None:
            for _ in range(each):
                own.execute("UPDATE counter SET n = n + 1 WHERE n >= 0")

        before = con.store.syncs
        in_threads(con, threads, count)
        shared["counter"] = con.store.syncs - before
        for name, syncs in shared.items():
            assert syncs < rows_of_t, f"{name}: some were shared"
        assert con.sql("SELECT n FROM counter").fetchone() == (rows_of_t,)
    reboot()
    store = tmp_path / "taxi"
    assert rows("taxi", store, "SELECT n FROM counter") == [(rows_of_t,)]
    assert rows("taxi", store, "SELECT count(*) FROM t") == [(0,)]
    assert rows("taxi", store, "SELECT count(*), count(DISTINCT a), min(b), max(b) FROM log") == [
        (rows_of_t, rows_of_t, 101, 101)]


def test_who_joins_a_group_does_not_wait_for_a_long_statement(tmp_path: Path) -> None:
    """A statement that asks the program for its rows goes last: the program may wait for others."""
    pa = pytest.importorskip("pyarrow")
    with swingdb.connect("taxi", store=tmp_path / "taxi") as con:
        con.execute("CREATE TABLE t (a BIGINT)")
        first = threading.Event()

        def batches():
            assert first.wait(20), "the commit before it did not return"
            yield pa.record_batch({"a": pa.array([2], pa.int64())})

        def stream(own: swingdb.Connection) -> None:
            reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches())
            own.execute("INSERT INTO t SELECT * FROM reader")

        def short(own: swingdb.Connection) -> None:
            own.execute("INSERT INTO t VALUES (1)")
            first.set()

        for _ in range(10):
            first.clear()
            with ThreadPoolExecutor(2) as pool, con.duplicate() as one, con.duplicate() as two:
                con.execute("BEGIN IMMEDIATE")
                con.execute("INSERT INTO t VALUES (0)")
                work = [pool.submit(short, one), pool.submit(stream, two)]
                time.sleep(0.05)
                con.execute("COMMIT")
                for one_of_both in work:
                    one_of_both.result(timeout=30)
        assert con.sql("SELECT count(*) FROM t").fetchone() == (30,)


@pytest.fixture
def larger_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that does not get full here."""
    yield from mounted(tmp_path, 80)


def test_a_full_disk_rolls_all_commits_of_a_group_back(small_disk: Path, reboot) -> None:
    store = small_disk / "taxi"
    with swingdb.connect("taxi", store=store) as con:
        con.execute("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR)")

        def work(own: swingdb.Connection, number: int) -> list[int]:
            kept = []
            for turn in range(200):
                row = turn * 10 + number
                text = random.Random(row).randbytes(60_000).hex()
                try:
                    own.execute("INSERT INTO t VALUES (?, ?)", [row, text])
                    kept.append(row)
                except swingdb.StoreError as error:
                    assert error.problem == "full"
                    if len(kept) < turn - 10:
                        return kept
            pytest.fail("24 MiB were never full")

        kept = sorted(sum(in_threads(con, 6, work), []))
        assert [row for (row,) in con.sql("SELECT a FROM t ORDER BY a").fetchall()] == kept
        assert con.store.stored_version == con.store.memory_version
    reboot()
    assert [row for (row,) in rows("taxi", store, "SELECT a FROM t ORDER BY a")] == kept


def test_a_full_disk_rolls_changes_of_a_half_read_database_back(small_disk: Path, reboot) -> None:
    store = small_disk / "taxi"
    with swingdb.connect("taxi", store=store) as con:
        con.execute("CREATE TABLE t AS SELECT i AS a, hash(i) AS b FROM range(800000) r(i)")
        con.execute("CREATE TABLE filled (a INT, b VARCHAR)")
        whole = con.sql("SELECT count(*), sum(a), max(b) FROM t").fetchall()
    reboot()
    with slowly_opened(store) as con:
        kept, failed = [], 0
        for row in range(400):
            text = random.Random(row).randbytes(60_000).hex()
            try:
                con.execute("INSERT INTO filled VALUES (?, ?)", [row, text])
                kept.append(row)
            except swingdb.StoreError as error:
                assert error.problem == "full"
                failed += 1
                assert con.sql("SELECT count(*) FROM filled").fetchone() == (len(kept),)
                if failed > 3:
                    break
        assert failed > 3, "24 MiB were never full"
        assert con.sql("SELECT count(*), sum(a), max(b) FROM t").fetchall() == whole
        assert con.store.stored_version == con.store.memory_version
        con.share()
        with swingdb.snapshot("taxi") as snapshot:
            found = snapshot.sql("SELECT a FROM filled ORDER BY a").fetchall()
        assert [row for (row,) in found] == kept
    reboot()
    assert [row for (row,) in rows("taxi", store, "SELECT a FROM filled ORDER BY a")] == kept
    assert rows("taxi", store, "SELECT count(*), sum(a), max(b) FROM t") == whole


def test_a_full_disk_rolls_updates_and_deletes_of_a_group_back(small_disk: Path, reboot) -> None:
    store = small_disk / "taxi"
    threads, each = 6, 5
    with swingdb.connect("taxi", store=store) as con:
        con.execute("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR)")
        con.execute(f"INSERT INTO t SELECT i, 'first' FROM range({threads * each}) r(i)")

        full = []

        def work(own: swingdb.Connection, number: int) -> dict[int, str]:
            mine = {row: "first" for row in range(number * each, (number + 1) * each)}
            for turn in range(60):
                row = number * each + turn % each
                text = random.Random(turn * 10 + number).randbytes(300_000).hex()
                try:
                    if row not in mine:
                        own.execute("INSERT INTO t VALUES (?, ?)", [row, text])
                        mine[row] = text
                    elif turn % 11 == 10:
                        own.execute("DELETE FROM t WHERE a = ?", [row])
                        del mine[row]
                    else:
                        own.execute("UPDATE t SET b = ? WHERE a = ?", [text, row])
                        mine[row] = text
                except swingdb.StoreError as error:
                    assert error.problem == "full"
                    full.append(row)
            return mine

        expected = {}
        for mine in in_threads(con, threads, work):
            expected.update(mine)
        assert full, "there was room for all"
        assert dict(con.sql("SELECT a, b FROM t").fetchall()) == expected
        assert con.store.stored_version == con.store.memory_version
    reboot()
    assert dict(rows("taxi", store, "SELECT a, b FROM t")) == expected


def test_a_full_disk_rolls_the_commit_back(small_disk: Path, reboot) -> None:
    store = small_disk / "taxi"
    with swingdb.connect("taxi", store=store) as con:
        con.execute("CREATE TABLE t AS SELECT 0 AS a")
        good = 1
        for number in range(1, 100):
            try:
                con.execute(f"INSERT INTO t SELECT {number} FROM range(200000)")
                con.execute(f"CREATE TABLE r{number} AS SELECT random() AS x FROM range(150000)")
                good += 200000
            except swingdb.StoreError as error:
                assert error.problem == "full"
                break
        else:
            pytest.fail("24 MiB were never full")
        (count,) = con.sql("SELECT count(*) FROM t").fetchone()
        assert count in {good, good + 200000}
        assert con.store.stored_version == con.store.memory_version
        # Room comes back with what is dropped.
        for table in con.sql("SELECT table_name FROM information_schema.tables "
                             "WHERE table_schema = 'main' AND table_name LIKE 'r%'").fetchall():
            con.execute(f"DROP TABLE {table[0]}")
        con.checkpoint()
        con.execute("INSERT INTO t VALUES (-1)")
    reboot()
    assert rows("taxi", store, "SELECT count(*), min(a) FROM t") == [(count + 1, -1)]


def test_tables_are_dropped_on_a_full_disk_from_a_store_that_was_just_opened(
    small_disk: Path, reboot
) -> None:
    store = small_disk / "taxi"
    with swingdb.connect("taxi", store=store) as con:
        con.execute("CREATE TABLE kept AS SELECT range AS a FROM range(1000)")
        made = 0
        with pytest.raises(swingdb.StoreError) as failed:
            for made in range(100):
                con.execute(f"CREATE TABLE r{made} AS SELECT random() AS x FROM range(100000)")
        assert failed.value.problem == "full"
    reboot()
    with swingdb.connect("taxi", store=store) as con:
        with pytest.raises(swingdb.StoreError) as failed:
            con.execute("CREATE TABLE more AS SELECT random() AS x FROM range(1000000)")
        assert failed.value.problem == "full"
        con.execute("DROP TABLE r0")
        con.execute("DELETE FROM r1")
        for table in range(2, made):
            con.execute(f"DROP TABLE r{table}")
        con.execute("CREATE TABLE more AS SELECT random() AS x FROM range(100000)")
    reboot()
    expected = [("kept", 1000), ("more", 100000), ("r1", 0)]
    counts = "SELECT table_name, estimated_size FROM duckdb_tables() ORDER BY table_name"
    assert rows("taxi", store, counts) == expected
    assert rows("taxi", store, "SELECT sum(a) FROM kept") == [(499500,)]


def test_a_read_only_file_system_is_told_and_can_be_restored_from(small_disk: Path, reboot) -> None:
    store = small_disk / "taxi"
    with swingdb.connect("taxi", store=store) as con:
        con.execute("CREATE TABLE t AS SELECT range AS a FROM range(1000)")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(swingdb.StoreError) as told:
        swingdb.connect("taxi", store=store)
    assert told.value.problem == "read-only"
    assert rows_in_memory() == 1000, "the one in memory is as it was"
    reboot()
    with pytest.raises(swingdb.StoreError) as told:
        swingdb.connect("taxi", store=store)
    assert told.value.problem == "read-only"
    with swingdb.restore(store, "copy") as con:
        assert con.sql("SELECT count(*), sum(a) FROM t").fetchone() == (1000, 499500)


def rows_in_memory() -> int:
    """Rows of the table of the database `taxi`, without its store."""
    with swingdb.connect("taxi", store="") as con:
        return con.sql("SELECT count(*) FROM t").fetchone()[0]


#: _IOR('X', 125, __u32): the file system fails all that is asked of it from now on.
EXT4_IOC_SHUTDOWN = 0x8004587D
WITHOUT_ITS_JOURNAL = 2


def test_a_disk_that_fails_leaves_the_last_commit(larger_disk: Path, reboot) -> None:
    store = larger_disk / "taxi"
    con = swingdb.connect("taxi", store=store)
    con.execute("CREATE TABLE t AS SELECT range AS a FROM range(1000)")
    con.execute("INSERT INTO t VALUES (-1)")
    descriptor = os.open(larger_disk, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_ITS_JOURNAL))
    finally:
        os.close(descriptor)
    for problems in ({"io", "unknown"}, {"unknown", "io"}):
        with pytest.raises(swingdb.StoreError) as told:
            con.execute("INSERT INTO t VALUES (-2)")
        assert told.value.problem in problems
        assert con.sql("SELECT count(*), min(a) FROM t").fetchone() == (1001, -1)

    def work(own: swingdb.Connection, number: int) -> None:
        with pytest.raises(swingdb.StoreError):
            own.execute("INSERT INTO t VALUES (?)", [-10 - number])

    in_threads(con, 4, work)
    assert con.sql("SELECT count(*), min(a) FROM t").fetchone() == (1001, -1)
    con.close()
    # The machine restarts, and the file system is mended as it is mounted.
    image = larger_disk.parent / "image"
    subprocess.run(["umount", larger_disk], check=True)
    subprocess.run(["mount", "-o", "loop", image, larger_disk], check=True)
    reboot()
    assert rows("taxi", store, "SELECT count(*), min(a) FROM t") == [(1001, -1)]
