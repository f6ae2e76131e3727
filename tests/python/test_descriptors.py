"""Programs that close all descriptors, also those they did not open, and open files of their own:
no snapshot changes, nobody else becomes the writer, and no file of the program is touched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import swingdb

ROWS = 400_000

#: Closes all there is, and gets the numbers for files; `check()` counts those that have changed.
FILES = """
import os, sys, swingdb
def close_all(folder, count=30):
    global files
    os.closerange(3, 1024)
    files = [open(f"{folder}/own-{i}", "w+b") for i in range(count)]
    for file in files:
        file.write(b"v" * 1000); file.flush(); file.seek(7)
def check():
    def same(f):
        return f.tell() == 7 and os.pread(f.fileno(), 2000, 0) == b"v" * 1000
    return sum(not same(f) for f in files)
def wait():
    print("ready", flush=True); sys.stdin.readline()
"""

READER = FILES + """
snap = swingdb.snapshot("shop")
close_all(sys.argv[1]); wait()
print(snap.sql("SELECT min(x), max(x), count(*) FROM t").fetchone())
snap.execute("CREATE TABLE mine AS SELECT x + 1 AS x FROM t")
print(snap.sql("SELECT min(x) FROM mine").fetchone(), check())
"""

OWNER = FILES + """
con = swingdb.connect("till")
con.execute("CREATE TABLE t AS SELECT 1 AS who"); con.share()
close_all(sys.argv[1]); wait()
con.execute("CREATE TABLE u AS SELECT i::BIGINT AS i FROM range(400000) r(i)"); con.share()
con.execute("UPDATE u SET i = i + 1"); con.execute("DELETE FROM u WHERE i % 2 = 0"); con.share()
con.execute(f"COPY u TO '{sys.argv[1]}/u.parquet'")
print(con.sql("SELECT count(*), max(i) FROM u").fetchone(), check())
con.close()
print(check())
"""

PRIVATE = FILES + """
con = swingdb.connect()
con.execute("CREATE TABLE t AS SELECT i::BIGINT AS i FROM range(400000) r(i)")
close_all(sys.argv[1]); wait()
print(con.sql("SELECT count(*), max(i) FROM t").fetchone())
try:
    for k in range(20):
        con.execute(f"CREATE TABLE u{k} AS SELECT i + 1 AS i FROM t")
    print("written")
except swingdb.Error as error:
    print("closed" in str(error))
print(check())
"""


def start(code: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, str(folder)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def rest(process: subprocess.Popen[str]) -> list[str]:
    text = process.communicate("\n")[0]
    assert process.returncode == 0
    return text.split("\n")[:-1]


def test_a_reader_that_closes_everything_keeps_its_snapshot(tmp_path: Path) -> None:
    with swingdb.connect("shop") as con:
        rows = f"AS x FROM range({ROWS}) r(i)"
        con.execute(f"CREATE TABLE t AS SELECT i::BIGINT {rows}")
        con.share()
        reader = start(READER, tmp_path)
        for k in range(1, 7):
            con.execute(f"CREATE OR REPLACE TABLE t AS SELECT (i + {k}000000)::BIGINT {rows}")
            con.share()
        swingdb.gc()
        assert rest(reader) == [f"(0, {ROWS - 1}, {ROWS})", "(1,) 0"]


def test_an_owner_that_closes_everything_stays_the_only_one(tmp_path: Path) -> None:
    owner = start(OWNER, tmp_path)
    with pytest.raises(swingdb.BusyError):
        swingdb.connect("till")
    assert rest(owner) == ["(200000, 399999) 0", "0"]
    with swingdb.connect("till") as con:
        assert con.sql("SELECT count(*) FROM u").fetchone() == (200_000,)
        found = con.sql(f"SELECT count(*) FROM '{tmp_path}/u.parquet'").fetchone()
        assert found == (200_000,)


def test_a_private_database_is_read_on_and_touches_no_file(tmp_path: Path) -> None:
    lines = rest(start(PRIVATE, tmp_path))
    assert lines[0] == "(400000, 399999)"
    assert lines[1] in ("True", "written")
    assert lines[2] == "0"
