"""SIGKILL at any instant of statements that write files, stores and tables.

A program runs one kind of work again and again until it is killed. Then nothing is half there: a
file or folder is a whole one, of this time or of the time before, the database has a state that was
committed, and after the next work and :func:`swingdb.gc` nothing is left over.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import swingdb

#: Rows of the table, kills of each kind of work.
ROWS, KILLS = 60_000, 6
#: What each state of the table must be: numbers from 0 on, in groups of one length.
WHOLE = f"count(*) % {ROWS} = 0 AND count(*) > 0 AND count(DISTINCT g * 1000000 + i) = count(*)"

BEGIN = """
import os, sys, swingdb
folder, name, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
con = swingdb.connect(name, store=folder + "/store")
con.execute("CREATE TABLE IF NOT EXISTS t (g BIGINT, i BIGINT, s VARCHAR)")
if not con.execute("SELECT count(*) FROM t").fetchone()[0]:
    con.execute(f"INSERT INTO t SELECT 0, i, 'text ' || i FROM range({rows}) r(i)")
con.share()
print("ready", flush=True)
n = 0
while True:
    n += 1
"""

#: What is done, as lines of the loop.
WORK = {
    "export": """
    target = f"{folder}/out/{os.getpid()}_{n}"
    con.execute(f"EXPORT DATABASE '{target}' (FORMAT " + ("csv" if n % 2 else "parquet") + ")")
""",
    "copy": """
    for ending in ("csv", "parquet", "json", "csv.gz", "arrow"):
        con.execute(f"COPY t TO '{folder}/out/file.{ending}'")
""",
    "partitions": """
    con.execute(f"COPY (SELECT *, i % 3 AS p FROM t) TO '{folder}/out/parts' "
                "(FORMAT parquet, PARTITION_BY (p), OVERWRITE)")
""",
    "import": """
    if n == 1 and not os.path.exists(folder + "/source.csv"):
        con.execute(f"COPY (SELECT i, s FROM t WHERE g = 0) TO '{folder}/source.csv' (HEADER)")
    con.execute("BEGIN")
    con.execute(f"CREATE OR REPLACE TABLE fresh AS SELECT * FROM '{folder}/source.csv'")
    (g,) = con.execute("SELECT max(g) + 1 FROM t").fetchone()
    con.execute("INSERT INTO t SELECT ?, i, s FROM fresh", [g])
    con.execute("DELETE FROM t WHERE g > 0 AND g < ?", [g])
    con.execute("COMMIT")
""",
    "checkpoint": """
    con.execute("UPDATE t SET s = s || '.' WHERE i % 7 = 0")
    con.checkpoint()
    con.checkpoint(f"{folder}/out/{os.getpid()}_{n}")
""",
    "clone": """
    con.execute("CREATE OR REPLACE TABLE c CLONE t")
    con.execute("ALTER TABLE c ADD COLUMN n INTEGER DEFAULT 1")
    con.execute("UPDATE c SET s = 'changed' WHERE i % 2 = 0")
    con.share()
""",
    "restore": """
    other = swingdb.restore(folder + "/kept", name + "_restored")
    other.share()
    other.execute("INSERT INTO t SELECT 1, i, s FROM t")
    other.share()
    other.close()
    swingdb.drop(name + "_restored")
""",
}


def killed(kind: str, folder: Path, name: str, after_s: float) -> None:
    """Runs a program of work, and kills it so long after it began."""
    command = [sys.executable, "-c", BEGIN + WORK[kind], str(folder), name, str(ROWS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        time.sleep(after_s)
        status = program.poll()
        program.send_signal(signal.SIGKILL)
    assert status is None, f"the program ended with {status}"


def check_table(con: swingdb.Connection, table: str) -> None:
    """The table has whole groups of rows."""
    assert con.execute(f"SELECT {WHOLE} FROM {table}").fetchone() == (True,), table


def check_outputs(folder: Path) -> None:
    """What has its name is whole."""
    with swingdb.connect() as con:
        for path in sorted((folder / "out").iterdir()):
            name = path.name
            if name.startswith("."):
                continue
            if (path / "schema.sql").exists():
                with swingdb.connect() as other:
                    other.execute(f"IMPORT DATABASE '{path}'")
                    check_table(other, "t")
            elif name == "parts":
                check_table(con, f"'{path}/*/*.parquet'")
            elif path.is_dir():
                try:
                    with swingdb.restore(path, "of_checkpoint") as other:
                        check_table(other, "t")
                    swingdb.drop("of_checkpoint")
                except swingdb.StoreError as error:
                    # A copy that did not come to its end says so.
                    words = ("holds no store", "no state of a database was stored in it yet")
                    assert any(word in str(error) for word in words)  # noqa: PT017
            else:
                check_table(con, f"'{path}'")


@pytest.mark.parametrize("kind", list(WORK))
def test_kills(kind: str, rng: random.Random, home: Path, tmp_path: Path) -> None:
    """Kills, looks, and goes on with what is there."""
    name = f"kills_{kind}"
    (tmp_path / "out").mkdir()
    if kind == "restore":
        with swingdb.connect("kept") as con:
            con.execute(f"CREATE TABLE t AS SELECT 0 AS g, i, 'x' AS s FROM range({ROWS}) r(i)")
            con.checkpoint(tmp_path / "kept")
        swingdb.drop("kept")
    for _ in range(KILLS):
        killed(kind, tmp_path, name, rng.random() * rng.choice([0.05, 0.3, 1.0]))
        check_outputs(tmp_path)
        with swingdb.connect(name, store=tmp_path / "store") as con:
            check_table(con, "t")
            assert con.execute("SELECT count(*) FROM t").fetchone()[0] <= 2 * ROWS
        if kind == "restore" and any(each.name == f"{name}_restored" for each in swingdb.list()):
            try:
                with swingdb.snapshot(f"{name}_restored") as seen:
                    check_table(seen, "t")
            except swingdb.NotSharedError:
                pass
            swingdb.drop(f"{name}_restored")
        if rng.random() < 0.3:
            for each in (tmp_path / "out").iterdir():
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        if rng.random() < 0.5:
            # The machine starts again: the memory is gone, the store is there.
            swingdb.gc()
            swingdb.drop(name)
    swingdb.gc()
    if any(each.name == name for each in swingdb.list()):
        swingdb.drop(name)
    assert not swingdb.list()
    left = [path for path in home.rglob("*") if path.is_file() and path.stat().st_size > 4096]
    assert not left, left
    clear(tmp_path / "out")


def clear(folder: Path) -> None:
    """What dead processes left beside a target goes with the next work on that target."""
    with swingdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS p, 2 AS x")
        for entry in [entry for entry in os.listdir(folder) if entry.startswith(".")]:
            name = entry[1:].rsplit(".", 2)[0]
            if "." in name:
                con.execute(f"COPY t TO '{folder}/{name}'")
            elif name == "parts":
                options = "FORMAT parquet, PARTITION_BY (p), OVERWRITE"
                con.execute(f"COPY t TO '{folder}/{name}' ({options})")
            elif not (folder / name).exists():
                con.execute(f"EXPORT DATABASE '{folder}/{name}'")
    hidden = [entry for entry in os.listdir(folder) if entry.startswith(".")]
    assert not hidden, hidden
