"""Threads of one process on a database at random: on connections of their own, and on a shared one.

``ledger`` holds pairs of amounts whose sum is 0 in each state, and ``log`` a row for each committed
change, so that a torn state, a lost change and one too many all show.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

import swingdb

#: How long the threads work, in seconds, and the most they may take to end.
SECONDS, PATIENCE = 4.0, 60.0
#: What a thread may meet because of the others.
EXPECTED = (swingdb.BusyError, swingdb.TransactionError, swingdb.QueryInterruptedError)


class Work:
    """What the threads do, and what they found wrong."""

    def __init__(self, con: swingdb.Connection, seed: int) -> None:
        self.con, self.seed = con, seed
        self.ends = time.monotonic() + SECONDS
        self.wrong: list[str] = []
        self.met: Counter[str] = Counter()
        self.committed = 0
        self.lock = threading.Lock()

    def check(self, con: swingdb.Connection) -> None:
        """Looks at one state, in one statement."""
        sql = """SELECT (SELECT count(*) FROM ledger),
                        (SELECT coalesce(sum(amount), 0) FROM ledger),
                        (SELECT count(*) FROM log), (SELECT count(DISTINCT n) FROM log)"""
        rows, total, logged, different = con.cursor().execute(sql).fetchone()
        if rows % 2 or total or logged != different:
            raise AssertionError(f"a torn state: {(rows, total, logged, different)}")

    def change(self, con: swingdb.Connection, rng: random.Random) -> None:
        """A transaction that keeps the sum, and is rolled back sometimes."""
        amount, kind = rng.randrange(1, 1000), rng.randrange(4)
        with self.lock:
            self.committed += 1
            number = self.committed
        try:
            with con.transaction():
                if kind == 0:
                    rows = {"pair": [number] * 2, "amount": [amount, -amount]}
                    con.append("ledger", pa.table(rows))
                elif kind == 1:
                    con.execute("INSERT INTO ledger VALUES (?, ?), (?, ?)",
                                [number, amount, number, -amount])
                elif kind == 2:
                    sql = "UPDATE ledger SET amount = -amount WHERE pair % 7 = ?"
                    con.execute(sql, [amount % 7])
                else:
                    con.execute("DELETE FROM ledger WHERE pair % 11 = ?", [amount % 11])
                con.execute("INSERT INTO log VALUES (?)", [number])
                if rng.random() < 0.2:
                    raise Undone
        except BaseException:
            with self.lock:
                self.met["undone"] += 1
            raise

    def thread(self, number: int, steps: list[Callable[[random.Random], None]]) -> None:
        """Takes steps at random until time is up."""
        rng = random.Random(f"{self.seed}:{number}")
        while time.monotonic() < self.ends and not self.wrong:
            try:
                rng.choice(steps)(rng)
            except Undone:
                pass
            except EXPECTED as error:
                with self.lock:
                    self.met[f"{type(error).__name__}: {error}"] += 1
            except BaseException as error:  # noqa: BLE001
                self.wrong.append(f"{type(error).__name__}: {error}")

    def run(self, threads: list[list[Callable[[random.Random], None]]]) -> None:
        """Runs the threads; all must end, and none may have found anything."""
        all_of = [
            threading.Thread(target=self.thread, args=(number, steps), daemon=True)
            for number, steps in enumerate(threads)
        ]
        for each in all_of:
            each.start()
        for each in all_of:
            each.join(PATIENCE)
        assert not any(each.is_alive() for each in all_of), "a thread hangs"
        assert not self.wrong, self.wrong[:3]
        self.check(self.con)
        (logged,) = self.con.execute("SELECT count(*) FROM log").fetchone()
        assert logged == self.committed - self.met["undone"]
        print(dict(self.met), logged)


class Undone(Exception):
    """Rolls a transaction back."""


def made(con: swingdb.Connection) -> swingdb.Connection:
    """The connection, with the tables."""
    con.execute("CREATE TABLE ledger (pair BIGINT, amount BIGINT)")
    con.execute("CREATE TABLE log (n BIGINT)")
    return con


def test_connections_of_their_own(rng: random.Random) -> None:
    """Writers, readers, readers of snapshots, and one that interrupts everybody."""
    name = f"threads_{rng.randrange(2**32)}"
    with made(swingdb.connect(name)) as con:
        con.share()
        work = Work(con, rng.randrange(2**32))
        sessions = [con.duplicate() for _ in range(6)]

        def snapshot(_rng: random.Random) -> None:
            with swingdb.snapshot(name) as seen:
                work.check(seen)
                before = seen.execute("SELECT count(*) FROM log").fetchone()
                time.sleep(0.01)
                assert seen.execute("SELECT count(*) FROM log").fetchone() == before
                seen.refresh()
                work.check(seen)

        def interrupt(rng: random.Random) -> None:
            time.sleep(rng.random() / 5)
            rng.choice(sessions[1:]).interrupt()

        def share(_rng: random.Random) -> None:
            con.share()
            time.sleep(0.005)

        def clone(rng: random.Random) -> None:
            own = f"copy_{threading.get_ident()}"
            sessions[5].execute(f"CREATE OR REPLACE TABLE {own} AS SELECT * FROM ledger")
            (total,) = sessions[5].execute(f"SELECT coalesce(sum(amount), 0) FROM {own}").fetchone()
            assert total == 0

        writers = [[lambda r, c=c: work.change(c, r)] for c in sessions[:2]]
        readers = [[lambda r, c=c: work.check(c)] for c in sessions[2:5]]
        work.run([*writers, *readers, [clone], [snapshot], [interrupt], [share, snapshot]])
        for session in sessions:
            session.close()
    swingdb.drop(name)


def test_one_connection_of_all(rng: random.Random) -> None:
    """Cursors of one connection in several threads, whose results are read bit by bit."""
    with made(swingdb.connect()) as con:
        work = Work(con, rng.randrange(2**32))
        con.execute("INSERT INTO ledger SELECT i // 2, CASE WHEN i % 2 = 0 THEN 1 ELSE -1 END "
                    "FROM range(20000) t(i)")

        def change(rng: random.Random) -> None:
            with work.lock:
                work.committed += 1
                number = work.committed
            amount = rng.randrange(1, 1000)
            con.cursor().execute(
                "INSERT INTO ledger VALUES (?, ?), (?, ?)", [number, amount, number, -amount])
            con.cursor().execute("INSERT INTO log VALUES (?)", [number])

        def read(rng: random.Random) -> None:
            cursor = con.cursor().execute("SELECT pair, amount FROM ledger")
            total = count = 0
            while rows := cursor.fetchmany(rng.choice([1, 100, 5000])):
                total += sum(amount for _, amount in rows)
                count += len(rows)
                if count > 30_000 and rng.random() < 0.5:
                    return
            assert total == 0 and count % 2 == 0, (total, count)

        def error(_rng: random.Random) -> None:
            with pytest.raises(swingdb.ConversionError):
                con.cursor().execute("SELECT 'x'::INT FROM ledger").fetchall()

        def prepared(rng: random.Random) -> None:
            value = rng.choice([1, 1.5, "a", None, b"x", True])
            found = con.cursor().execute("SELECT ?", [value]).fetchone()
            assert found == (value,), (found, value)

        steps = [change, read, error, prepared, lambda _: work.check(con)]
        work.run([steps] * 6)


def test_closing_under_the_others(rng: random.Random) -> None:
    """Whoever closes a connection that others use gets no answer of it wrong, and nobody hangs."""
    for _ in range(20):
        con = made(swingdb.connect())
        con.execute("INSERT INTO ledger SELECT i, 0 FROM range(100000) t(i)")
        wrong: list[BaseException] = []

        def read(con: swingdb.Connection = con, wrong: list[BaseException] = wrong) -> None:
            try:
                while True:
                    found = con.cursor().execute("SELECT count(*), sum(amount) FROM ledger")
                    assert found.fetchall() == [(100_000, 0)]
            except swingdb.Error:
                pass
            except BaseException as error:  # noqa: BLE001
                wrong.append(error)

        threads = [threading.Thread(target=read, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(rng.random() / 20)
        con.close()
        for thread in threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in threads), "a thread hangs"
        assert not wrong, wrong
