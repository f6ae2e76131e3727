"""fork, spawn and forkserver: children use databases of their own, and never harm the parent's."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable

import pytest

import swingdb


def in_child(work: Callable[[], None]) -> None:
    """Runs `work` in a forked child; fails if it does, or hangs."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            # As multiprocessing does: no clean-up of what is the parent's.
            os._exit(status)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert status == 0, f"the child failed with {status}"
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    pytest.fail("the child hangs")


@pytest.fixture
def taxi():
    con = swingdb.connect("taxi")
    con.execute("CREATE TABLE trips AS SELECT a FROM generate_series(1, 200000) g(a)")
    con.share()
    # The engine's threads exist before the fork, so that the child must not count on them.
    assert con.sql("SELECT sum(a) FROM trips").fetchone() == (20_000_100_000,)
    yield con
    con.close()


def test_inherited_connections_are_refused(taxi):
    snap = swingdb.snapshot("taxi")
    cursor = snap.execute("SELECT a FROM trips")
    relation = snap.sql("SELECT a FROM trips")
    cursor.fetchone()

    def work():
        calls = [
            lambda: taxi.execute("SELECT 1"),
            lambda: taxi.execute("INSERT INTO trips VALUES (1)"),
            lambda: taxi.append("trips", {"a": [1]}),
            lambda: taxi.share(),
            lambda: taxi.table("trips"),
            lambda: snap.sql("SELECT 1"),
            lambda: snap.refresh(),
            cursor.fetchone,
            relation.fetchall,
        ]
        for call in calls:
            with pytest.raises(swingdb.ForkedError):
                call()

    in_child(work)
    assert cursor.fetchone() is not None
    taxi.execute("INSERT INTO trips VALUES (0)")
    assert snap.sql("SELECT count(*) FROM trips").fetchone() == (200_000,)


def test_a_child_takes_snapshots_and_opens_databases(taxi):
    def work():
        snap = swingdb.snapshot("taxi")
        assert snap.sql("SELECT sum(a) FROM trips").fetchone() == (20_000_100_000,)
        snap.execute("DELETE FROM trips WHERE a > 10")
        assert snap.sql("SELECT count(*) FROM trips").fetchone() == (10,)
        with swingdb.connect("child") as own:
            own.execute("CREATE TABLE t AS SELECT 1 AS a")
            own.share()
        with pytest.raises(swingdb.BusyError):
            swingdb.connect("taxi")

    in_child(work)
    assert swingdb.snapshot("child").sql("SELECT a FROM t").fetchone() == (1,)
    assert taxi.sql("SELECT count(*) FROM trips").fetchone() == (200_000,)


def test_closing_in_the_child_does_nothing_to_the_parent(taxi):
    snap = swingdb.snapshot("taxi")

    def work():
        taxi.close()
        snap.close()

    in_child(work)
    taxi.execute("INSERT INTO trips VALUES (0)")
    taxi.share()
    assert snap.sql("SELECT count(*) FROM trips").fetchone() == (200_000,)
    assert swingdb.snapshot("taxi").sql("SELECT count(*) FROM trips").fetchone() == (200_001,)


def test_arrays_can_be_read_in_the_child(taxi):
    snap = swingdb.snapshot("taxi")
    arrow, array = snap.table("trips").arrow(), snap.table("trips").fetchnumpy()["a"]
    private = taxi.table("trips").arrow()
    unread = taxi.table("trips")

    def work():
        with pytest.raises(swingdb.ForkedError):
            unread.fetchone()
        assert array.sum() == 20_000_100_000
        assert arrow["a"][199_999].as_py() == 200_000
        assert private["a"][0].as_py() == 1

    in_child(work)
    assert unread.fetchone() == (1,)


def test_a_child_that_lives_on_does_not_hold_the_parents_lock(taxi):
    ready, release = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(ready[1], b"x")
        os.read(release[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    taxi.close()
    try:
        with swingdb.connect("taxi") as again:
            again.execute("INSERT INTO trips VALUES (0)")
            again.share()
        swingdb.drop("taxi")
    finally:
        os.write(release[1], b"x")
        os.waitpid(pid, 0)
        for end in (*ready, *release):
            os.close(end)


def test_the_parent_writes_while_children_come_and_go(taxi):
    for step in range(10):
        taxi.execute("INSERT INTO trips VALUES (?)", [step])
        in_child(lambda: swingdb.snapshot("taxi").sql("SELECT count(*) FROM trips").fetchall())
    taxi.share()
    assert swingdb.snapshot("taxi").sql("SELECT count(*) FROM trips").fetchone() == (200_010,)


def test_fork_while_threads_run_queries(taxi):
    stop = threading.Event()
    failures = []

    def work():
        while not stop.is_set():
            try:
                taxi.duplicate().sql("SELECT sum(a) FROM trips").fetchall()
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            in_child(lambda: swingdb.snapshot("taxi").sql("SELECT sum(a) FROM trips").fetchall())
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []


def test_fork_while_threads_begin_and_end(taxi):
    # In a process of its own: the calls keep to the namespace of the first one.
    source = """
import ctypes, os, signal, swingdb, threading

def work():
    # Threads that never hold the interpreter's lock, and begin and end with the allocator.
    refuse, process = ctypes.CDLL(swingdb._internal.__file__).swing_free, ctypes.CDLL(None)
    thread = ctypes.c_ulong()
    while True:
        process.pthread_create(ctypes.byref(thread), None, refuse, b"no block")
        process.pthread_join(thread, None)

# More to copy at a fork, during which threads wait wherever they are.
ballast = bytearray(300 << 20)
for _ in range(8):
    threading.Thread(target=work, daemon=True).start()
for _ in range(150):
    if os.fork() == 0:
        signal.alarm(20)
        snap = swingdb.snapshot("taxi")
        os._exit(snap.sql("SELECT count(*) FROM trips").fetchone() != (200_000,))
    assert os.wait()[1] == 0
os._exit(0)
"""
    # Without stacks that the C library keeps for later threads: where it clears one of these while
    # another thread forks, it frees a thread's variables in the child a second time.
    tunables = {"GLIBC_TUNABLES": "glibc.pthread.stack_cache_size=0"}
    command = [sys.executable, "-c", source]
    subprocess.run(command, check=True, timeout=120, env=os.environ | tunables)


def total(job: tuple[str, int, int]) -> int:
    """A worker's job: takes a snapshot and sums a part of it."""
    home, *bounds = job
    # The server that forks workers may have started in another test, with another environment.
    with swingdb.snapshot("taxi", home=home) as snap:
        sql = "SELECT coalesce(sum(a), 0) FROM trips WHERE a > ? AND a <= ?"
        return snap.execute(sql, bounds).fetchone()[0]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools_of_workers(taxi, home, method):
    context = multiprocessing.get_context(method)
    parts = [(str(home), i * 20_000, (i + 1) * 20_000) for i in range(10)]
    with context.Pool(2) as pool:
        assert sum(pool.map(total, parts)) == 20_000_100_000


def write_and_share(job: tuple[str, str]) -> int:
    """A worker's job: makes a database and shares it."""
    home, name = job
    with swingdb.connect(name, home=home) as con:
        con.execute("CREATE TABLE t AS SELECT a FROM generate_series(1, 1000) g(a)")
        return con.share().epoch


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_results_of_workers_are_taken_as_snapshots(taxi, home, method):
    context = multiprocessing.get_context(method)
    names = [f"{method}-{number}" for number in range(4)]
    with context.Pool(2) as pool:
        pool.map(write_and_share, [(str(home), name) for name in names])
    taxi.begin()
    for name in names:
        taxi.attach(name)
    taxi.rollback()
    union = " UNION ALL ".join(f'SELECT a FROM "{name}".t' for name in names)
    assert taxi.sql(f"SELECT count(*) FROM ({union})").fetchone() == (4000,)


def fails(_: int) -> None:
    """A worker's job that raises."""
    swingdb.snapshot("taxi").sql("SELECT * FROM nowhere")


def test_errors_of_workers_arrive(taxi):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        with pytest.raises(swingdb.NotFoundError) as caught:
            pool.map(fails, [1])
        assert caught.value.name == "nowhere"
