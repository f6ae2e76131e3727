"""A table as an Arrow stream through a pipe: exports of SwingDB against Arrow's own writer.

    python bench/export.py [--mb 512] [--rounds 7] [--dry]

One process has the table, in a snapshot, and writes all of it to its standard output in one of
three ways; this process reads the pipe into one buffer, again and again. Arrow's writer gets the
same memory: batches of the snapshot, without a copy. Time counts from the first byte that the
reader gets to the end of the stream; the writer says what processor time its call took. Before that
the streams are read as tables and compared. Writes bench/results/export.json.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import resource
import subprocess
import sys
import time

import common
import pyarrow as pa

import swingdb

BUFFER_BYTES = 1 << 20
# Bytes of a row of each table in the stream.
TABLES = {
    "numbers": ("i AS id, i * 0.5::DOUBLE AS x, i * 0.25::DOUBLE AS y, i % 1000 AS k", 32),
    "numbers and texts": (
        "i AS id, i * 0.5::DOUBLE AS x, 'a text of some length ' || i AS words", 62
    ),
}
WAYS = {
    "Arrow's writer": None,
    "export": "COPY t TO '/dev/stdout' (FORMAT arrow)",
    "export, zero copy": "COPY t TO '/dev/stdout' (FORMAT arrow, ZERO_COPY)",
}
WRITER = """
import json, resource, sys
import pyarrow as pa
import swingdb
name, statement = sys.argv[1], sys.argv[2]
def used():
    of = resource.getrusage(resource.RUSAGE_SELF)
    return of.ru_utime + of.ru_stime
with swingdb.snapshot(name) as con:
    before = used()
    if statement:
        con.execute(statement)
    else:
        reader = pa.RecordBatchReader.from_stream(con.table("t"))
        with open(1, "wb", buffering=0, closefd=False) as out:
            with pa.ipc.new_stream(out, reader.schema) as stream:
                for batch in reader:
                    stream.write_batch(batch)
    json.dump(used() - before, sys.stderr)
"""


def start(name: str, way: str) -> subprocess.Popen:
    """The writer's process; its pipe is as wide as an export makes it."""
    command = [sys.executable, "-c", WRITER, name, WAYS[way] or ""]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, BUFFER_BYTES)
    return process


def ended(process: subprocess.Popen) -> float:
    """Processor seconds of the writer's call."""
    text = process.stderr.read()
    if process.wait():
        raise SystemExit(text.decode())
    return json.loads(text)


def run(name: str, way: str, buffer: bytearray) -> dict:
    """One stream, read and thrown away."""
    process = start(name, way)
    number, bytes_read = process.stdout.fileno(), os.readv(process.stdout.fileno(), [buffer])
    before = resource.getrusage(resource.RUSAGE_SELF)
    begin = time.perf_counter()
    while read := os.readv(number, [buffer]):
        bytes_read += read
    taken = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_SELF)
    reader = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"way": way, "bytes": bytes_read, "seconds": taken, "writer_s": ended(process),
            "reader_s": reader}


def compare(name: str) -> None:
    """All ways have to give the same rows."""
    tables = []
    for way in WAYS:
        process = start(name, way)
        tables.append(pa.ipc.open_stream(process.stdout).read_all())
        ended(process)
        if not tables[-1].equals(tables[0]):
            raise SystemExit(f"{way}: other rows than Arrow's writer gives")


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=512, help="size of a table")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dry", action="store_true", help="write no results")
    arguments = parser.parse_args()
    buffer, points = bytearray(BUFFER_BYTES), []
    with common.namespace():
        for table, (columns, row_bytes) in TABLES.items():
            rows = arguments.mb * 1_000_000 // row_bytes
            with swingdb.connect("export") as con:
                con.execute(
                    f"CREATE TABLE t AS SELECT {columns} FROM generate_series(1, {rows}) AS s(i)"
                )
                con.share()
            compare("export")
            found = {way: [] for way in WAYS}
            for _ in range(arguments.rounds):
                for way, runs in found.items():
                    runs.append(run("export", way, buffer))
            swingdb.drop("export")
            for way, runs in found.items():
                points.append({"table": table, "rows": rows, "way": way, "runs": runs})
                middle = common.summary([one["seconds"] for one in runs])["median"]
                used = common.summary([one["writer_s"] for one in runs])["median"]
                print(f"{table}, {way}: {middle:.3f} s, writer {used:.3f} s", flush=True)
    if not arguments.dry:
        common.write("export", {"versions": {"pyarrow": pa.__version__}, "points": points})


if __name__ == "__main__":
    main()
