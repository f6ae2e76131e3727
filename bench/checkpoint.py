"""Checkpoints of a database to a disk, against what the disk can write; and small ones of changes.

A table of numbers that cannot be written in fewer bytes is written to a new store by one CHECKPOINT
(durability `manual`). The yardstick writes as many bytes to a preallocated file of the same folder
with O_DIRECT, 1 MiB a request, by one thread and by four, and syncs; the faster of the two counts.
Both take turns. The tables of TPC-H follow: their blocks are encoded in fewer bytes on the way.

Then some of the table's rows change, neighbours, and each time a checkpoint follows: what it writes
and how long it takes has to be a matter of the rows changed, not of the table.
"""

from __future__ import annotations

import argparse
import mmap
import os
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import common

import swingdb

RUNS = 3
REQUEST = 1 << 20
COLUMNS = 4
#: Shares of the rows that change before a checkpoint.
SHARES = (0.0001, 0.001, 0.01, 0.1)


def direct(folder: Path, size: int, threads: int) -> float:
    """Bytes a second of sequential direct writes, by so many threads."""
    buffer = mmap.mmap(-1, REQUEST)
    buffer.write(os.urandom(REQUEST))
    requests = max(size // REQUEST, threads)
    with tempfile.NamedTemporaryFile(dir=folder, prefix="yardstick-") as made:
        os.posix_fallocate(made.fileno(), 0, requests * REQUEST)
        os.fsync(made.fileno())
        file = os.open(made.name, os.O_WRONLY | os.O_DIRECT)
        try:

            def write(thread: int) -> None:
                for number in range(thread, requests, threads):
                    done = os.pwrite(file, buffer, number * REQUEST)
                    if done != REQUEST:
                        raise OSError(f"only {done} bytes were written")

            begun = time.perf_counter()
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(write, range(threads)))
            os.fdatasync(file)
            return requests * REQUEST / (time.perf_counter() - begun)
        finally:
            os.close(file)


def yardstick(folder: Path, size: int) -> float:
    """The device's sequential write, bytes a second."""
    return max(direct(folder, size, threads) for threads in (1, 4))


def checkpoint(con: swingdb.Connection) -> dict:
    """One checkpoint."""
    begun = time.perf_counter()
    done = con.checkpoint()
    return {"seconds": time.perf_counter() - begun, "bytes": done.written_bytes}


def numbers(con: swingdb.Connection, size: int) -> int:
    """A table of about so many bytes; its rows."""
    rows = max(size // (8 * COLUMNS), 1000)
    columns = ", ".join(f"hash(i * {COLUMNS} + {number}) AS c{number}" for number in range(COLUMNS))
    con.execute(f"CREATE TABLE t AS SELECT i AS id, {columns} FROM range({rows}) r(i)")
    return rows


def whole(folder: Path, size: int) -> dict:
    """The first checkpoint of a database."""
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="checkpoint-") as made,
        swingdb.connect("numbers", store=Path(made) / "store", durability="manual") as con,
    ):
        numbers(con, size)
        found = checkpoint(con)
    swingdb.drop("numbers")
    return found


def encoded(arguments: argparse.Namespace, folder: Path) -> dict:
    """The first checkpoint of the tables of TPC-H."""
    common.generate_tpch(arguments, "tables")
    memory = next(found.own_bytes for found in swingdb.list() if found.name == "tables")
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="checkpoint-") as made,
        swingdb.connect("tables", store=Path(made) / "store", durability="manual") as con,
    ):
        found = checkpoint(con)
    swingdb.drop("tables")
    return found | {"memory_bytes": memory}


def changes(folder: Path, size: int) -> list[dict]:
    """Checkpoints of changes, each of a share of the rows."""
    rows = []
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="checkpoint-") as made,
        swingdb.connect("numbers", store=Path(made) / "store", durability="manual") as con,
    ):
        count = numbers(con, size)
        con.checkpoint()
        for share in SHARES:
            changed = max(int(count * share), 1)
            runs = []
            for turn in range(RUNS):
                first = (turn * count // RUNS) + 1
                con.execute(
                    "UPDATE t SET c0 = hash(c0) WHERE id >= ? AND id < ?", [first, first + changed]
                )
                runs.append(checkpoint(con))
            middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            print(f"{share:7.2%} of {count} rows changed: {middle['bytes'] / 1e6:8.2f} MB in "
                  f"{middle['seconds'] * 1e3:7.1f} ms", flush=True)
            rows.append({"share": share, "rows": changed, "runs": runs} | middle)
    swingdb.drop("numbers")
    return rows


def main() -> None:
    """Measures and writes."""
    arguments = common.parse(__doc__, lambda parser: parser.add_argument(
        "--mb", type=int, default=1000, help="size of the table of numbers, in 10^6 bytes"))
    size = arguments.mb * 10**6
    folder = Path(os.environ.get("BENCH_DIR", Path.cwd()))
    with common.namespace():
        runs = []
        for _ in range(RUNS):
            run = whole(folder, size) | {"device_per_second": yardstick(folder, size)}
            rate = run["bytes"] / run["seconds"]
            runs.append(run | {"per_second": rate, "ratio": rate / run["device_per_second"]})
            device = run["device_per_second"] / 1e6
            print(f"checkpoint of {run['bytes'] / 1e6:.0f} MB: {rate / 1e6:6.0f} MB/s; the device "
                  f"{device:6.0f} MB/s; {runs[-1]['ratio']:.2f}", flush=True)
        tables = encoded(arguments, folder)
        print(f"TPC-H, {tables['memory_bytes'] / 1e6:.0f} MB in memory, "
              f"{tables['bytes'] / 1e6:.0f} MB on the disk, in {tables['seconds']:.2f} s",
              flush=True)
        found = changes(folder, size)
    common.write("checkpoint", {"bytes": size, "scale": arguments.scale, "runs": runs,
                                "tpch": tables, "changes": found, "disk": common.disk(folder)})


if __name__ == "__main__":
    main()
