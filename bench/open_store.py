"""From nothing in memory to the first answer of a database on a disk, by its size.

A store of numbers and texts is made once. For each question a fresh process opens it, whose time
goes from the call that opens to the answer. Nothing of the database is in memory before, and the
store is read with direct I/O. The questions: a count with bounds, which the catalog knows; a row by
its key; an aggregate of one column; the first durable INSERT, which does not wait for the rest; and
`share()`, which waits until everything is in memory.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
from pathlib import Path

import common

import swingdb

RUNS = 3
GB = 10**9
#: Bytes of a row in memory.
ROW_BYTES = 8 + 8 + 8 + 16 + 16
QUESTIONS = {
    "count and bounds": "SELECT count(*), min(id), max(id) FROM t",
    "a row by its key": "SELECT * FROM t WHERE id = 12345",
    "an aggregate of a column": "SELECT sum(number % 1000) FROM t",
    "the first INSERT": "INSERT INTO t SELECT -1, 2, 3, 'four', 'five'",
    "share": None,
}
FRESH = """
import json, os, sys, time
import swingdb
place, sql = sys.argv[1:]
begun = time.perf_counter()
con = swingdb.connect("opened", store=place)
opened = time.perf_counter()
if sql == "share":
    con.share()
elif sql.startswith("INSERT"):
    con.execute(sql)
else:
    con.sql(sql).fetchall()
answered = time.perf_counter()
loading = con.store.loading
print(json.dumps({"open_s": opened - begun, "answer_s": answered - begun,
                  "in_memory": loading is None or loading[0] / loading[1]}), flush=True)
os._exit(0)  # without the time that closing takes
"""


def fill(store: Path, size: int) -> dict:
    """A database of so many bytes in memory, in a store."""
    rows, step = size // ROW_BYTES, 10_000_000
    with swingdb.connect("opened", store=store, durability="manual") as con:
        con.execute("CREATE TABLE t (id BIGINT, number BIGINT, other BIGINT, word VARCHAR, "
                    "long VARCHAR)")
        for first in range(0, rows, step):
            con.execute(
                "INSERT INTO t SELECT i, hash(i) % 1000000007, hash(i + 7) % 65536, "
                "'word ' || (i % 5000), 'number ' || (hash(i) % 1000) FROM range(?, ?) r(i)",
                [first, min(first + step, rows)],
            )
            con.checkpoint()
        used = con.store.live_bytes
    memory = next(found.own_bytes for found in swingdb.list() if found.name == "opened")
    swingdb.drop("opened")
    return {"rows": rows, "memory_bytes": memory, "store_bytes": used}


def ask(store: Path, sql: str) -> dict:
    """One fresh process."""
    found = common.python_job(FRESH, str(store), sql)
    with contextlib.suppress(swingdb.NotFoundError):
        swingdb.drop("opened")
    return found


def main() -> None:
    """Measures and writes."""
    arguments: argparse.Namespace = common.parse(__doc__, lambda parser: parser.add_argument(
        "--gb", type=float, default=2.0, help="size of the database in memory, in 10^9 bytes"))
    folder = Path(os.environ.get("BENCH_DIR", Path.cwd()))
    rows = []
    with common.namespace(), tempfile.TemporaryDirectory(dir=folder, prefix="open-") as made:
        store = Path(made) / "store"
        sizes = fill(store, int(arguments.gb * GB))
        print(f"{sizes['memory_bytes'] / GB:.1f} GB in memory, {sizes['store_bytes'] / GB:.1f} GB "
              "on the disk", flush=True)
        for question, sql in QUESTIONS.items():
            runs = [ask(store, sql or "share") for _ in range(RUNS)]
            middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            print(f"{question:26} opened after {middle['open_s'] * 1e3:6.0f} ms, answered after "
                  f"{middle['answer_s'] * 1e3:7.0f} ms, {middle['in_memory']:4.0%} in memory then",
                  flush=True)
            rows.append({"question": question, "runs": runs} | middle)
        disk = common.disk(Path(made))
    common.write("open-store", {"rows": rows, "disk": disk} | sizes)


if __name__ == "__main__":
    main()
