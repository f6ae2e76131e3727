"""A small file system where databases lie, as containers have: what moves to a memfd says so."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

MOUNT = 'mount -t tmpfs -o size=40m,mode=700 none "$1" && exec "$2" -W always -c "$3" "$1"'


def run_on_small(directory: Path, source: str, **variables: str) -> list[str]:
    """Runs a program whose first argument is a tmpfs of 40 MB that only it sees; its output."""
    probe = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", str(directory)]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("no mounts in namespaces here")
    command = ["unshare", "-rm", "sh", "-c", MOUNT, "sh", str(directory), sys.executable, source]
    environment = {**os.environ, **variables}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


PROGRAM = """
import sys, warnings, swingdb

def told(caught):
    return [str(w.message) for w in caught if "ends with the last process" in str(w.message)]

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    con = swingdb.connect("trips", home=sys.argv[1])
    con.execute("CREATE TABLE t AS SELECT 1 AS a")
    con.share()
    print(len(told(caught)))
    con.execute("CREATE TABLE u AS SELECT range AS a, random() AS b FROM range(4000000)")
    con.share()
    con.share()
    print(len(told(caught)))
    print(all("'trips'" in text for text in told(caught)), {w.filename for w in caught})
print(con.sql("SELECT count(*) FROM u").fetchall())
"""


def test_a_database_that_outgrew_its_tmpfs_is_told_of_once(tmp_path: Path) -> None:
    output = run_on_small(tmp_path, PROGRAM)
    assert output == ["0", "1", "True {'<string>'}", "[(4000000,)]"]


def test_a_wish_is_not_warned_of(tmp_path: Path) -> None:
    output = run_on_small(tmp_path, PROGRAM, SWINGDB_BACKING="memfd")
    assert output[:2] == ["0", "0"]


def test_a_database_that_begins_without_room_is_told_of_at_once(tmp_path: Path) -> None:
    program = """
import sys, warnings, swingdb
with open(sys.argv[1] + "/filler", "wb") as filler:
    filler.write(b"x" * (37 << 20))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    con = swingdb.connect("trips", home=sys.argv[1])
    con.duplicate()
    print([w.category.__name__ for w in caught])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    swingdb.connect()
    print(len(caught))
"""
    assert run_on_small(tmp_path, program) == ["['RuntimeWarning']", "0"]


def test_a_commit_without_memory_for_temporary_tables_changes_nothing(tmp_path: Path) -> None:
    program = """
import os, sys, swingdb

home, commits = sys.argv[1], {}
for left in [0, 32, 128, 512, 1024, 2048, 8192]:
    con = swingdb.connect("trips", home=home)
    con.execute("CREATE TABLE main.t AS SELECT 0 AS a")
    con.execute("CREATE TEMP TABLE x AS SELECT random() AS b FROM range(1000000)")
    con.begin()
    con.execute("INSERT INTO main.t VALUES (1)")
    # COMMIT writes the few rows that are left into new segments.
    con.execute("DELETE FROM x WHERE b < 0.8")
    with open(home + "/filler", "wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            filler.truncate(max(0, filler.tell() - left * 1024))
    try:
        con.commit()
        committed = True
    except swingdb.OutOfMemoryError:
        committed = False
    os.unlink(home + "/filler")
    changed = con.sql(
        "SELECT (SELECT count(*) = 2 FROM main.t), (SELECT count(*) < 500000 FROM x)"
    ).fetchone()
    assert changed == (committed, committed), (left, committed, changed)
    commits[left] = committed
    con.close()
    swingdb.drop("trips", home=home)
print(commits[0], commits[8192])
"""
    output = run_on_small(tmp_path, program, SWINGDB_BACKING="file")
    assert output == ["False True"]
