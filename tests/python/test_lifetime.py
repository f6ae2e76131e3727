"""How long memory lives: as long as something shows it, and not longer."""

from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import swingdb

ROWS = 500_000


def fill(con: swingdb.Connection) -> None:
    con.execute("CREATE TABLE t (a BIGINT, s VARCHAR)")
    con.append("t", {"a": np.arange(ROWS), "s": [f"text number {i}" for i in range(ROWS)]})


def is_intact(table: pa.Table) -> bool:
    values = table["a"].to_numpy()
    return bool((values == np.arange(ROWS)).all()) and table["s"][ROWS - 1].as_py() == (
        f"text number {ROWS - 1}"
    )


def overwrite(con: swingdb.Connection) -> None:
    """Reuses whatever memory is free."""
    con.execute("CREATE OR REPLACE TABLE other AS SELECT -1 AS a FROM generate_series(1, 1000000)")
    con.execute("DROP TABLE other")


def test_arrays_outlive_statements_connection_and_database():
    con = swingdb.connect("big")
    fill(con)
    arrow, frame, arrays = con.table("t").arrow(), con.table("t").pl(), con.table("t").fetchnumpy()
    relation = con.table("t")
    con.execute("DELETE FROM t")
    con.execute("DROP TABLE t")
    overwrite(con)
    con.close()
    swingdb.drop("big")
    swingdb.gc()
    with swingdb.connect("big") as new:
        overwrite(new)
    gc.collect()
    assert is_intact(arrow)
    assert frame["a"].sum() == ROWS * (ROWS - 1) // 2
    assert arrays["a"][-1] == ROWS - 1
    assert relation.fetchmany(2) == [(0, "text number 0"), (1, "text number 1")]


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_table_may_be_read_first_when_everything_is_closed(snapshot):
    with swingdb.connect("big") as con:
        for _ in range(3):
            if con.sql("SHOW TABLES").fetchall():
                con.append("t", {"a": np.arange(ROWS), "s": ["x" * 20] * ROWS})
            else:
                fill(con)
        con.share()
    # Nothing of the table has been read in this handle.
    con = swingdb.snapshot("big") if snapshot else swingdb.connect("big")
    relation, again = con.table("t"), con.table("t")
    assert relation.shape == (3 * ROWS, 2)
    if not snapshot:
        con.execute("DELETE FROM t WHERE a % 2 = 0")
        con.execute("DROP TABLE t")
        overwrite(con)
    con.close()
    swingdb.drop("big")
    swingdb.gc()
    with swingdb.connect("big") as new:
        overwrite(new)
    arrow = relation.arrow()
    assert is_intact(arrow.slice(0, ROWS))
    assert arrow["s"].slice(ROWS).unique().to_pylist() == ["x" * 20]
    assert again.pl()["a"].sum() == 3 * (ROWS * (ROWS - 1) // 2)


def test_arrays_outlive_their_snapshot():
    con = swingdb.connect("big")
    fill(con)
    con.share()
    snap = swingdb.get_snapshot("big", "mine")
    snap.share()
    arrow = snap.table("t").arrow()
    result = snap.sql("SELECT a, s FROM t ORDER BY a").arrow()
    streaming = snap.execute("SELECT a FROM t")
    assert len(streaming.fetchmany(5)) == 5
    reader = pa.RecordBatchReader.from_stream(snap.sql("SELECT a FROM t").reader())
    snap.close()
    swingdb.discard_snapshot("mine")
    con.execute("DELETE FROM t")
    con.share()
    for _ in range(3):
        overwrite(con)
        con.share()
    con.close()
    swingdb.drop("big")
    swingdb.gc()
    gc.collect()
    assert is_intact(arrow)
    assert is_intact(result)
    assert sum(batch.num_rows for batch in reader) == ROWS


def test_a_slice_keeps_the_memory_of_its_array():
    con = swingdb.connect("big")
    fill(con)
    view = con.table("t").arrow()["a"].chunk(0).to_numpy()[10:20]
    con.execute("DROP TABLE t")
    overwrite(con)
    con.close()
    swingdb.drop("big")
    gc.collect()
    assert view.tolist() == list(range(10, 20))


def test_memory_comes_back(home, used, eventually):
    def work():
        with swingdb.connect("leak") as con:
            con.execute(
                "CREATE OR REPLACE TABLE t AS SELECT a FROM generate_series(1, 1000000) g(a)"
            )
            con.share()
            snap = swingdb.get_snapshot("leak", "copy")
            snap.execute("UPDATE t SET a = a + 1 WHERE a < 1000")
            snap.share()
            assert snap.table("t").arrow().num_rows == 1_000_000
            private = swingdb.connect()
            private.execute("CREATE TABLE p AS SELECT a FROM generate_series(1, 300000) g(a)")
            del private
            snap.close()
        swingdb.discard_snapshot("copy")
        swingdb.drop("leak")
        gc.collect()

    def is_left(most):
        swingdb.gc()
        return used(home) <= most

    work()
    assert eventually(lambda: is_left(4 << 20))
    before = used(home)
    for _ in range(5):
        work()
    assert eventually(lambda: is_left(before + (1 << 20)))


def test_mappings_and_descriptors_come_back(eventually):
    def state() -> tuple[int, int]:
        import os

        with open("/proc/self/maps") as maps:
            mappings = sum("swingdb-test" in line for line in maps)
        return mappings, len(os.listdir("/proc/self/fd"))

    con = swingdb.connect("many")
    con.execute("CREATE TABLE t AS SELECT a FROM generate_series(1, 1000) g(a)")
    con.share()
    for _ in range(3):
        swingdb.snapshot("many").sql("SELECT sum(a) FROM t").fetchall()
    gc.collect()
    before = state()
    for _ in range(200):
        snap = swingdb.snapshot("many")
        snap.sql("SELECT sum(a) FROM t").fetchall()
        snap.table("t").arrow()
    del snap
    gc.collect()

    def is_back():
        after = state()
        return after[0] <= before[0] + 2 and after[1] <= before[1] + 2

    assert eventually(is_back), (before, state())
    con.close()


def test_python_objects_are_not_leaked(con):
    con.execute("CREATE TABLE t (a INT, s VARCHAR)")

    def work():
        con.executemany("INSERT INTO t VALUES (?, ?)", [(i, f"s{i}") for i in range(1000)])
        con.sql("SELECT * FROM t").fetchall()
        con.sql("SELECT * FROM t").fetchnumpy()
        con.execute("SELECT ?, ?", [{"a": [1, "x".upper() and 2]}, b"x"]).fetchall()
        for sql in ("SELECT * FROM nowhere", "SELECT 1 / 0", "nonsense"):
            with pytest.raises(swingdb.Error):
                con.execute(sql).fetchall()
        con.execute("DELETE FROM t")

    for _ in range(3):
        work()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(30):
        work()
    gc.collect()
    assert len(gc.get_objects()) - before < 500


def test_resident_memory_does_not_grow(run):
    program = run(
        """
import swingdb, resource, gc, os
def rss():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096
con = swingdb.connect()
con.execute("CREATE TABLE t AS SELECT a, a || 's' AS s FROM generate_series(1, 20000) g(a)")
def work():
    con.sql("SELECT * FROM t").fetchall()
    con.sql("SELECT * FROM t").arrow()
    con.execute("SELECT a, count(*) FROM t GROUP BY a").fetchmany(10)
for _ in range(10):
    work()
gc.collect()
before = rss()
for _ in range(100):
    work()
gc.collect()
print((rss() - before) >> 20)
"""
    )
    assert int(program.line()) < 60
    program.finish()


@pytest.mark.parametrize("how", ["open", "closed", "streaming", "transaction"])
def test_the_interpreter_ends_cleanly(how):
    source = f"""
import swingdb
con = swingdb.connect("ending")
con.execute("CREATE OR REPLACE TABLE t AS SELECT a FROM generate_series(1, 1000000) g(a)")
con.share()
snap = swingdb.snapshot("ending")
how = {how!r}
if how == "closed":
    con.close(); snap.close()
elif how == "streaming":
    cur = snap.execute("SELECT a FROM t ORDER BY a DESC"); cur.fetchone()
    arrow = snap.table("t").arrow()
elif how == "transaction":
    con.begin(); con.execute("DELETE FROM t")
"""
    done = subprocess.run(
        [sys.executable, "-c", source], timeout=300, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert swingdb.snapshot("ending").sql("SELECT count(*) FROM t").fetchone() == (1_000_000,)
