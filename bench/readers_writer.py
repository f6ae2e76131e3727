"""Readers while one process keeps writing: SwingDB, DuckDB's file, LMDB, SQLite in WAL mode.

One process changes 100 rows a transaction, as fast as it can, and notes in the same transaction how
often and when. Others read all rows every 100 ms (`paced`), or read without a pause and move to the
newest state every 100 ms (`busy`). Each read must show a whole number of transactions: the sum of
all rows is 100 times their number. All files lie in memory. Told are

* what the writer does alone and beside the readers, in turns, and how long a transaction takes;
* what the readers do, how long a read takes, and how old the state is that a reader has: when it
  has it, and when it leaves it for a newer one;
* memory: the proportional set sizes (PSS) of all processes together, and the files.

SwingDB's writer shares every 50 ms. A DuckDB file that a writer has open cannot be opened by
others: once the writer keeps it open, and the refusals are counted; once it closes the file for a
moment every 50 ms.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import multiprocessing
import os
import random
import sqlite3
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import common
import numpy as np
from readers import pss_bytes
from systems import installed

#: Rows that a transaction changes.
CHANGED = 100
#: How long DuckDB's file stays closed for readers, and how long they wait between two tries.
CLOSED_S, RETRY_S = 0.004, 0.001
#: A process that has got no answer after this time gives up.
PATIENCE_S = 30.0
CHANGE = "UPDATE t SET value = value + 1 WHERE id BETWEEN ? AND ?"
NOTE = "UPDATE state SET transactions = ?, stamp = ?"
READ = "SELECT (SELECT sum(value) FROM t), transactions, stamp FROM state"
MAKE = (
    "CREATE TABLE t (id BIGINT PRIMARY KEY, value BIGINT NOT NULL)",
    "CREATE TABLE state (transactions BIGINT, stamp BIGINT)",
    "INSERT INTO state VALUES (0, 0)",
)
#: What a reader has: the sum of all rows, transactions, and when the last of them was.
State = tuple[int, int, int]


class Refused(Exception):
    """The writer has the file."""


class Store:
    """Makes the data, and opens it for the writer and for readers, each in its own process."""

    name = ""
    missing: str | None = None

    def __init__(self, home: Path, rows: int, share_s: float) -> None:
        self.home, self.rows, self.share_s = home, rows, share_s

    def make(self) -> None:
        """The rows, all 0."""

    def write(self) -> Iterator[None]:
        """Gets what to write (first row, transactions, time), and does it."""
        raise NotImplementedError

    def read(self) -> Iterator[State]:
        """The newest state, again and again; `False` sent in asks for the same state again."""
        raise NotImplementedError


class Swing(Store):
    """The writer shares every `share_s`; a reader moves its snapshot."""

    name = "SwingDB"

    def make(self) -> None:
        import swingdb

        with swingdb.connect("written") as con:
            for sql in MAKE:
                con.execute(sql)
            con.append("t", {"id": np.arange(self.rows), "value": np.zeros(self.rows, np.int64)})
            con.share()

    def write(self) -> Iterator[None]:
        import swingdb

        con, shared = swingdb.connect("written"), 0.0
        while True:
            first, transactions, stamp = yield
            with con.transaction():
                con.execute(CHANGE, [first, first + CHANGED - 1])
                con.execute(NOTE, [transactions, stamp])
            if time.monotonic() - shared >= self.share_s:
                con.share()
                shared = time.monotonic()

    def read(self) -> Iterator[State]:
        import swingdb

        snapshot, move = swingdb.snapshot("written"), True
        while True:
            if move is not False:
                snapshot.refresh()
            move = yield snapshot.execute(READ).fetchone()


class DuckDB(Store):
    """The writer keeps the file open."""

    name = "DuckDB file, kept open"

    def make(self) -> None:
        import duckdb

        with duckdb.connect(str(self.home / "duck")) as con:
            for sql in MAKE:
                con.execute(sql)
            con.execute("INSERT INTO t SELECT range, 0 FROM range(?)", [self.rows])

    def open(self, read_only: bool, until: float = 0.0) -> Any:
        """Opens the file; tries again until then."""
        import duckdb

        while True:
            try:
                return duckdb.connect(str(self.home / "duck"), read_only=read_only)
            except duckdb.IOException as error:
                if time.monotonic() >= until:
                    raise Refused(str(error)) from error
                time.sleep(RETRY_S)

    @staticmethod
    def change(con: Any, first: int, transactions: int, stamp: int) -> None:
        """One transaction."""
        con.execute("BEGIN")
        con.execute(CHANGE, [first, first + CHANGED - 1])
        con.execute(NOTE, [transactions, stamp])
        con.execute("COMMIT")

    def write(self) -> Iterator[None]:
        con = self.open(False)
        while True:
            what = yield
            self.change(con, *what)

    def read(self) -> Iterator[State]:
        while True:
            yield self.read_once()

    def read_once(self, until: float = 0.0) -> State:
        """What a reader that opens the file finds."""
        import duckdb

        with self.open(True, until) as con:
            try:
                return con.execute(READ).fetchone()
            except duckdb.IOException as error:
                # The writer has opened it meanwhile, and writes where this reader reads.
                raise Refused(str(error)) from error


class DuckDBReopened(DuckDB):
    """The writer closes the file for a moment every `share_s`; readers try until they get it."""

    name = "DuckDB file, reopened"

    def write(self) -> Iterator[None]:
        con, since = self.open(False, time.monotonic() + PATIENCE_S), time.monotonic()
        while True:
            what = yield
            self.change(con, *what)
            if time.monotonic() - since >= self.share_s:
                con.close()
                time.sleep(CLOSED_S)
                con = self.open(False, time.monotonic() + PATIENCE_S)
                since = time.monotonic()

    def read(self) -> Iterator[State]:
        while True:
            yield self.read_once(time.monotonic() + PATIENCE_S)


class Sqlite(Store):
    """One connection each; readers see the newest commit."""

    name = "SQLite, WAL"

    def open(self) -> sqlite3.Connection:
        """A connection without transactions of its own."""
        path = self.home / "sqlite"
        con = sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)
        con.execute("PRAGMA journal_mode=WAL")
        con.execute("PRAGMA synchronous=NORMAL")
        return con

    def make(self) -> None:
        con = self.open()
        con.execute("BEGIN")
        for sql in MAKE:
            con.execute(sql)
        con.executemany("INSERT INTO t VALUES (?, 0)", ((row,) for row in range(self.rows)))
        con.execute("COMMIT")
        con.close()

    def write(self) -> Iterator[None]:
        con = self.open()
        while True:
            what = yield
            DuckDB.change(con, *what)

    def read(self) -> Iterator[State]:
        con = self.open()
        while True:
            yield con.execute(READ).fetchone()


class Lmdb(Store):
    """Keys and values of 8 bytes; readers see the newest commit."""

    name = "LMDB"
    missing = None if installed("lmdb") else "the package lmdb is not installed"
    KEY, STATE = struct.Struct(">q"), b"state of all"
    PAIR = struct.Struct("<qq")

    def open(self, **how: bool) -> Any:
        """The environment."""
        import lmdb

        size = 64 * common.MB + 64 * self.rows * 8
        return lmdb.open(str(self.home / "lmdb"), map_size=size, max_dbs=2, **how)

    def make(self) -> None:
        with self.open() as env:
            rows, state = env.open_db(b"rows"), env.open_db(b"state")
            with env.begin(write=True) as txn:
                for row in range(self.rows):
                    txn.put(self.KEY.pack(row), bytes(8), append=True, db=rows)
                txn.put(self.STATE, self.PAIR.pack(0, 0), db=state)

    def write(self) -> Iterator[None]:
        env = self.open()
        rows, state = env.open_db(b"rows"), env.open_db(b"state")
        while True:
            first, transactions, stamp = yield
            with env.begin(write=True, db=rows) as txn:
                for row in range(first, first + CHANGED):
                    key = self.KEY.pack(row)
                    txn.put(key, self.KEY.pack(self.KEY.unpack(txn.get(key))[0] + 1))
                txn.put(self.STATE, self.PAIR.pack(transactions, stamp), db=state)

    def read(self) -> Iterator[State]:
        env = self.open(readonly=True)
        rows, state = (env.open_db(name, create=False) for name in (b"rows", b"state"))
        while True:
            with env.begin(db=rows) as txn:
                values = b"".join(txn.cursor().iternext(keys=False, values=True))
                pair = self.PAIR.unpack(txn.get(self.STATE, db=state))
            yield (int(np.frombuffer(values, ">i8").sum()), *pair)


STORES: dict[str, type[Store]] = {
    store.name: store for store in (Swing, DuckDB, DuckDBReopened, Lmdb, Sqlite)
}


def milliseconds(values: list[float]) -> dict:
    """Percentiles."""
    if not values:
        return {}
    ordered = sorted(values)
    at = {"p50": 0.5, "p99": 0.99, "most": 1.0}
    return {name: ordered[min(int(part * len(ordered)), len(ordered) - 1)]
            for name, part in at.items()}


def write_on(store: Store, connection: Connection) -> None:
    """The writer's process: for each number of seconds that it is told, what it did."""
    chance, writer, transactions = random.Random(7), store.write(), 0
    next(writer)
    connection.send("ready")
    while (seconds := connection.recv()) is not None:
        took, end = [], time.monotonic() + seconds
        before, begun = transactions, time.monotonic()
        while (now := time.monotonic()) < end:
            transactions += 1
            first = chance.randrange(store.rows - CHANGED + 1)
            writer.send((first, transactions, time.monotonic_ns()))
            took.append((time.monotonic() - now) * 1e3)
        done = transactions - before
        connection.send({
            "per_second": done / (time.monotonic() - begun), "transaction_ms": milliseconds(took),
        })


def read_on(store: Store, connection: Connection, every_s: float) -> None:
    """A reader's process: for each order (mode, seconds), what it saw."""
    reader, connected = None, False
    connection.send("ready")
    while (order := connection.recv()) is not None:
        mode, seconds = order
        found: dict[str, Any] = {"took": [], "age": [], "oldest": [], "refused": 0}
        end, held, due = time.monotonic() + seconds, None, time.monotonic()
        while (now := time.monotonic()) < end:
            moves = now >= due
            if not moves and mode == "paced":
                time.sleep(min(due, end) - now)
                continue
            if moves:
                due = max(due + every_s, now)
            if moves and held:
                found["oldest"].append((time.monotonic_ns() - held[2]) / 1e6)
            begun = time.monotonic()
            try:
                if not connected:
                    reader, connected = store.read(), True
                    held = next(reader)
                else:
                    held = reader.send(moves)
            except Refused as refused:
                connected = False
                found["refused"] += 1
                found["refusal"] = str(refused).splitlines()[0]
                continue
            if held[0] != CHANGED * held[1]:
                connection.send({"error": f"{held[0]} after {held[1]} transactions"})
                return
            found["took"].append((time.monotonic() - begun) * 1e3)
            if moves and held[2]:
                found["age"].append((time.monotonic_ns() - held[2]) / 1e6)
        connection.send(found)


def files_bytes(home: Path) -> int:
    """The memory that the files take."""
    total = 0
    for path in home.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.lstat().st_blocks * 512
    return total


class Turns:
    """A writer and readers of one store, in processes that live through all turns."""

    def __init__(self, store: Store, readers: int, every_s: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.home, self.processes, self.ends = store.home, [], []
        tasks: list[tuple[Callable, tuple]] = [(write_on, ())]
        tasks += [(read_on, (every_s,))] * readers
        for work, more in tasks:
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(store, theirs, *more), daemon=True)
            process.start()
            theirs.close()
            self.processes.append(process)
            self.ends.append(ours)
        for end in self.ends:
            end.recv()

    def turn(self, seconds: float, mode: str | None) -> dict:
        """The writer, beside readers if there is a mode."""
        busy = self.ends if mode else self.ends[:1]
        for end in busy[1:]:
            end.send((mode, seconds))
        busy[0].send(seconds)
        pss, files, until = 0, 0, time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
            pss = max(pss, sum(pss_bytes(process.pid) for process in self.processes))
            files = max(files, files_bytes(self.home))
        said = [end.recv() for end in busy]
        errors = [one["error"] for one in said if "error" in one]
        if errors:
            raise SystemExit(f"a reader saw half a transaction: {errors[0]}")
        result = {"writer": said[0], "pss_bytes": pss, "files_bytes": files}
        if mode:
            seen = said[1:]
            took, age, oldest = (
                [value for one in seen for value in one[key]] for key in ("took", "age", "oldest")
            )
            result |= {
                "reads_per_second": len(took) / seconds, "read_ms": milliseconds(took),
                "age_ms": milliseconds(age), "oldest_ms": milliseconds(oldest),
                "refused": sum(one["refused"] for one in seen),
                "refusal": next((one["refusal"] for one in seen if "refusal" in one), None),
            }
        return result

    def close(self) -> None:
        """Ends all processes."""
        for end in self.ends:
            end.send(None)
        for process in self.processes:
            process.join(PATIENCE_S)
            if process.is_alive():
                process.kill()


def summed(store: str, mode: str, readers: int, runs: list[dict]) -> dict:
    """The medians of a store and a mode, and the writer's loss turn by turn."""
    alone = [run["alone"]["writer"]["per_second"] for run in runs]
    beside = [run["beside"]["writer"]["per_second"] for run in runs]
    lost = statistics.median(1 - b / a for a, b in zip(alone, beside, strict=True))
    oldest = [run["beside"]["oldest_ms"].get("most") for run in runs]
    reads = statistics.median(run["beside"]["reads_per_second"] for run in runs)
    known = [value for value in oldest if value is not None]
    return {
        "store": store, "mode": mode, "readers": readers, "lost": lost,
        "alone_per_second": statistics.median(alone),
        "beside_per_second": statistics.median(beside),
        "reads_per_second": reads, "oldest_ms": max(known) if known else None, "runs": runs,
    }


def measure(store: type[Store], arguments: argparse.Namespace) -> list[dict]:
    """One store: each mode, the writer alone and beside the readers in turns."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="swingdb-bench-", dir="/dev/shm") as made:
        os.environ["SWINGDB_HOME"] = str(Path(made) / "swingdb")
        held = store(Path(made), arguments.rows, arguments.share_ms / 1e3)
        held.make()
        turns = Turns(held, arguments.readers, arguments.every_ms / 1e3)
        turns.turn(min(arguments.seconds, 1.0), "paced")
        for mode in arguments.modes.split(","):
            runs = [
                {"alone": turns.turn(arguments.seconds, None),
                 "beside": turns.turn(arguments.seconds, mode)}
                for _ in range(arguments.rounds)
            ]
            row = summed(store.name, mode, arguments.readers, runs)
            rows.append(row)
            last = runs[-1]["beside"]
            print(
                f"{store.name}, {mode}: writer {row['alone_per_second']:.0f}/s alone, "
                f"{row['beside_per_second']:.0f}/s beside ({-row['lost']:+.1%}); "
                f"{row['reads_per_second']:.1f} reads/s, refused {last['refused']}, states at most "
                f"{row['oldest_ms'] or 0:.0f} ms old; PSS {last['pss_bytes'] / 1e6:.0f} MB, files "
                f"{last['files_bytes'] / 1e6:.0f} MB", flush=True,
            )
        turns.close()
    return rows


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=5.0, help="of a turn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--every-ms", type=float, default=100, help="readers move to a newer state")
    parser.add_argument("--share-ms", type=float, default=50, help="SwingDB shares, DuckDB closes")
    parser.add_argument("--modes", default="paced,busy")
    parser.add_argument("--stores", default=None, help="parts of their names, with commas")
    return parser.parse_args()


def main() -> None:
    """Measures and writes."""
    arguments, rows, left_out = parse(), [], {}
    for name, store in STORES.items():
        words = arguments.stores.lower().split(",") if arguments.stores else [""]
        if not any(word in name.lower() for word in words):
            continue
        if store.missing:
            left_out[name] = store.missing
            print(f"{name}: left out, {store.missing}", flush=True)
            continue
        rows += measure(store, arguments)
    versions = {"duckdb": importlib.metadata.version("duckdb"), "sqlite": sqlite3.sqlite_version}
    if Lmdb.missing is None:
        versions["lmdb"] = importlib.metadata.version("lmdb")
    facts = {key: getattr(arguments, key)
             for key in ("rows", "readers", "seconds", "rounds", "every_ms", "share_ms")}
    common.write("readers-writer", {**facts, "changed": CHANGED, "table_rows": arguments.rows,
                                    "rows": rows, "left_out": left_out, "versions": versions})


if __name__ == "__main__":
    main()
