"""Memory of queries: kept for the next one, given back soon after the last, also by children."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, sys, time
import swingdb

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20

def check():
    con = swingdb.connect()
    con.execute("CREATE TABLE t AS SELECT (random() * 1e12)::BIGINT a FROM range(3000000)")
    con.execute("SELECT count(*) FROM t").fetchall()
    before = resident()
    con.execute("SELECT a, count(*) n, sum(a) FROM t GROUP BY a ORDER BY n LIMIT 1").fetchall()
    grown, end = resident() - before, time.monotonic() + 20
    # Nothing runs meanwhile.
    while resident() - before > max(grown // 4, 16) and time.monotonic() < end:
        time.sleep(0.05)
    print(grown, resident() - before, flush=True)

print(len(os.listdir("/proc/self/task")), flush=True)
if os.fork() == 0:
    check()
    os._exit(0)
os.wait()
check()
if os.fork() == 0:
    check()
    os._exit(0)
os.wait()
"""


def test_memory_of_a_query_goes_back_while_nothing_runs() -> None:
    """In a program, in a child forked before its first query, and in one forked behind it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    threads, *rows = done.stdout.splitlines()
    assert threads == "1", "importing starts no thread"
    assert len(rows) == 3, done.stdout
    for row in rows:
        grown, left = map(int, row.split())
        # What was not taken, as where huge pages are scarce, cannot be given back.
        assert left <= max(grown // 4, 16), f"{left} of {grown} MiB are still resident"
