"""Wide rows in little memory: batches of few rows, whatever puts the wide values into them."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import swingdb

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) >> 10

con = swingdb.connect()
con.execute("SET threads = 2")
con.execute("SET memory_limit = '300MB'")
con.execute(
    "CREATE TABLE docs AS SELECT i, repeat(chr((97 + i % 26)::INT), 2000000) AS d"
    " FROM range(150) r(i)"
)
con.execute("SELECT count(*) FROM docs").fetchall()
before = peak()
for query in sys.argv[1:]:
    try:
        answer = con.execute(query).fetchall()
    except swingdb.OutOfMemoryError as error:
        answer = "out of memory"
    print(answer)
print(peak() - before)
"""
#: Queries, and their answers: each would take gigabytes in batches of 8192 rows.
QUERIES = {
    "SELECT max(x) < 'y' FROM (SELECT repeat('x', 16000000) AS x FROM range(300))": "[(True,)]",
    "SELECT length(max(repeat('x', 16000000))) FROM range(300)": "[(16000000,)]",
    "SELECT count(DISTINCT l[1]) FROM (SELECT range(2000000) AS l FROM range(300))": "[(1,)]",
    "SELECT max(length(CASE WHEN i > 4 THEN repeat('x', 16000000) END)) FROM docs": "[(16000000,)]",
    "SELECT count(*), max(length(d || 'x')) FROM docs WHERE i % 3 <> 1": "[(100, 2000001)]",
    "SELECT sum(length(upper(d))) FROM docs": "[(300000000,)]",
    "SELECT length(string_agg(repeat('x', 8000000), '')) FROM range(100)": "out of memory",
}


@pytest.mark.parametrize("query", QUERIES)
def test_wide_rows_stay_within_the_limit(query: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, query],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    answer, grown = done.stdout.splitlines()
    assert answer == QUERIES[query]
    # What is stored is no memory of the query, but the process has it mapped: 300 MB.
    assert int(grown) < 1000, f"{grown} MiB"
