"""Ctrl-C and interrupt(): a running query ends at once, and the connection goes on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

import swingdb

#: Takes minutes if nobody ends it.
ENDLESS = (
    "SELECT count(*) FROM generate_series(1, 20) AS a(x), generate_series(1, 100000000000) AS b(y) "
    "WHERE a.x * b.y % 7 = 3"
)
#: Computes for minutes without a pause at which it could be ended.
PAUSELESS = (
    "SELECT count(*) FROM generate_series(1, 3000000) AS a(x), generate_series(1, 3000000) AS b(y) "
    "WHERE a.x * b.y % 7 = 8"
)
SORTED = "SELECT x FROM generate_series(1, 200000000) AS a(x) ORDER BY x % 1000003, x"


@pytest.fixture(autouse=True)
def ctrl_c_raises() -> Iterator[None]:
    """As in a terminal: a process started in the background inherits that Ctrl-C is ignored."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


def press_ctrl_c_after(seconds: float) -> threading.Thread:
    def press():
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    return thread


@pytest.mark.parametrize("sql", [ENDLESS, SORTED, PAUSELESS], ids=["join", "sort", "pauseless"])
def test_ctrl_c_ends_a_query(con, sql):
    thread = press_ctrl_c_after(0.5)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        con.sql(sql).fetchall()
    assert time.monotonic() - started < 60
    thread.join()
    assert con.sql("SELECT 1").fetchone() == (1,)
    assert time.monotonic() - started < 60


def test_ctrl_c_ends_a_statement_and_nothing_of_it_stays(con):
    con.execute("CREATE TABLE t (a BIGINT)")
    thread = press_ctrl_c_after(0.5)
    with pytest.raises(KeyboardInterrupt):
        con.execute(f"INSERT INTO t {ENDLESS}")
    thread.join()
    assert con.sql("SELECT count(*) FROM t").fetchone() == (0,)
    con.execute("INSERT INTO t VALUES (1)")
    assert con.sql("SELECT count(*) FROM t").fetchone() == (1,)


def test_ctrl_c_ends_waiting():
    with swingdb.connect("taxi") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
        con.share()
        snap = swingdb.snapshot("taxi")
        thread = press_ctrl_c_after(0.3)
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            snap.wait_newer()
        assert time.monotonic() - started < 60
        thread.join()


def test_a_handler_that_does_not_raise_does_not_end_the_query(con):
    heard = []
    previous = signal.signal(signal.SIGUSR1, lambda *_: heard.append(time.monotonic()))
    try:
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        sql = "SELECT count(*) FROM generate_series(1, 30000000) AS a(x) WHERE x % 7 = 3"
        assert con.sql(sql).fetchone() == (4285714,)
        timer.join()
        assert len(heard) == 1
    finally:
        signal.signal(signal.SIGUSR1, previous)


def test_interrupt_from_another_thread(con, interrupting):
    started = time.monotonic()
    with interrupting(con.interrupt), pytest.raises(swingdb.QueryInterruptedError):
        con.sql(ENDLESS).fetchall()
    assert time.monotonic() - started < 60
    assert con.sql("SELECT 1").fetchone() == (1,)


def test_interrupt_of_a_query_in_another_thread(con):
    caught = []

    def work():
        try:
            con.sql(ENDLESS).fetchall()
        except swingdb.Error as error:
            caught.append(type(error))

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(100):
        # The first time may be before the query has begun.
        thread.join(0.4)
        con.interrupt()
        if not thread.is_alive():
            break
    thread.join()
    assert caught == [swingdb.QueryInterruptedError]


#: More rows than a result computes ahead.
MANY = "SELECT range FROM range(300000)"


def in_thread(work) -> tuple[threading.Thread, list]:
    """Runs something that fails in a thread; what it raised."""
    raised: list = []

    def run():
        try:
            work()
        except swingdb.Error as error:
            raised.append(type(error))

    thread = threading.Thread(target=run)
    thread.start()
    return thread, raised


def test_a_cursors_interrupt_reaches_its_own_statement_alone(con, interrupting):
    read, running, waiting = con.cursor(), con.cursor(), con.cursor()
    read.execute(MANY)
    assert read.fetchone() == (0,)
    computing, computed = in_thread(lambda: running.execute(ENDLESS).fetchall())
    time.sleep(0.3)
    # Others may read what has begun, while another thread's statement is computed.
    with interrupting(waiting.interrupt), pytest.raises(swingdb.QueryInterruptedError):
        waiting.execute(ENDLESS).fetchall()
    assert computing.is_alive() and not computed
    while computing.is_alive():
        running.interrupt()
        computing.join(0.1)
    assert computed == [swingdb.QueryInterruptedError]
    assert sum(1 for _ in read) == 299999
    # What is left of a result is its cursor's, too; the next statement is another one.
    read.execute(MANY)
    read.interrupt()
    with pytest.raises(swingdb.QueryInterruptedError):
        read.fetchall()
    assert read.execute("SELECT 1").fetchall() == [(1,)]


def test_an_interrupt_ends_the_waiting_for_another_statement(con, interrupting):
    con.execute("CREATE TABLE t (a BIGINT)")
    running, waiting = con.cursor(), con.cursor()
    changing, changed = in_thread(lambda: running.execute(f"INSERT INTO t {ENDLESS}"))
    time.sleep(0.3)
    with interrupting(waiting.interrupt), pytest.raises(swingdb.QueryInterruptedError):
        waiting.executemany("INSERT INTO t VALUES (?)", [(1,), (2,)])
    assert changing.is_alive() and not changed
    while changing.is_alive():
        running.interrupt()
        changing.join(0.1)
    assert changed == [swingdb.QueryInterruptedError]
    assert con.sql("SELECT count(*) FROM t").fetchone() == (0,) and not con.in_transaction


def test_ctrl_c_ends_the_waiting_of_a_query_that_comes_again(con):
    con.execute("CREATE TABLE t AS SELECT range AS a FROM range(10)")
    by_key = "SELECT a FROM t WHERE a = ?"
    for value in range(4):
        assert con.execute(by_key, [value]).fetchall() == [(value,)]
    running = con.cursor()
    changing, changed = in_thread(lambda: running.execute(f"INSERT INTO t {ENDLESS}"))
    time.sleep(0.3)
    thread = press_ctrl_c_after(0.3)
    with pytest.raises(KeyboardInterrupt):
        con.execute(by_key, [4])
    thread.join()
    assert changing.is_alive() and not changed
    while changing.is_alive():
        running.interrupt()
        changing.join(0.1)
    assert changed == [swingdb.QueryInterruptedError]
    assert con.execute(by_key, [5]).fetchall() == [(5,)]


def test_ctrl_c_ends_a_long_query_that_comes_again(con):
    con.execute("CREATE TABLE t AS SELECT range AS a, range % 3 AS b FROM range(3000000)")
    long = "SELECT a FROM t WHERE b <> ? ORDER BY repeat(a::VARCHAR, 20)"
    first = con.execute(long, [3])
    assert first.fetchone() == (0,)
    con.execute(long, [4]).close()
    thread = press_ctrl_c_after(0.1)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        for value in range(5, 1000):
            con.execute(long, [value]).fetchall()
    thread.join()
    assert time.monotonic() - started < 60


def test_ctrl_c_leaves_other_results_alone(con):
    read = con.cursor().execute(MANY)
    assert read.fetchone() == (0,)
    thread = press_ctrl_c_after(0.5)
    with pytest.raises(KeyboardInterrupt):
        con.sql(ENDLESS).fetchall()
    thread.join()
    assert sum(1 for _ in read) == 299999


def test_interrupt_with_nothing_running(con):
    con.interrupt()
    assert con.sql("SELECT 1").fetchone() == (1,)


def test_the_interpreters_lock_is_released(con):
    con.execute("CREATE TABLE t AS SELECT x FROM generate_series(1, 5000000) AS g(x)")
    ticks = []
    done = threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.002)

    thread = threading.Thread(target=tick)
    thread.start()
    for _ in range(3):
        con.sql("SELECT x % 1000 AS k, count(*), sum(x) FROM t GROUP BY k ORDER BY k").fetchall()
        con.append("t", {"x": list(range(10))})
        con.execute("CREATE OR REPLACE TABLE u AS SELECT x, x * 2 AS y FROM t")
    done.set()
    thread.join()
    # Held by whatever runs long, it would come free between the nine calls only.
    assert len(ticks) > 50


def pressed(con, sql):
    """Seconds from Ctrl-C to its exception."""
    thread = press_ctrl_c_after(0.3)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        con.execute(sql).fetchall()
    thread.join()
    return time.monotonic() - started - 0.3


@pytest.mark.parametrize("what", ["pivot", "joins", "unions"])
def test_ctrl_c_ends_planning(con, what):
    con.execute("CREATE TABLE t AS SELECT range AS i, range % 9000 AS k FROM range(9000)")
    joins = "".join(f" JOIN t t{n} ON t{n - 1}.i = t{n}.i" for n in range(1, 1000))
    unions = " UNION ALL ".join(f"SELECT i + {n} AS i FROM t" for n in range(5_000))
    sql = {
        "pivot": "PIVOT t ON k USING sum(i)",
        "joins": "SELECT count(*) FROM t t0" + joins,
        "unions": f"SELECT count(*) FROM ({unions})",
    }
    # Ctrl-C is heard at once; the bound is for busy machines.
    assert pressed(con, sql[what]) < 5
    assert con.sql("SELECT count(*) FROM t").fetchone() == (9000,)


def test_ctrl_c_ends_a_query_that_waits_for_the_writer_of_a_pipe(con, tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    assert pressed(con, f"SELECT * FROM '{tmp_path / 'pipe.csv'}'") < 5


def test_a_query_reads_a_pipe_once_however_often_it_names_it(con, tmp_path):
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    for number in (1, 2):
        thread = threading.Thread(target=path.write_text, args=(f"a,b\n{number},x\n7,y\n",))
        thread.start()
        sql = f"SELECT t.a, u.b FROM '{path}' t JOIN read_csv('{path}') u USING (a) ORDER BY a"
        assert con.execute(sql).fetchall() == [(number, "x"), (7, "y")]
        thread.join()


def test_ctrl_c_ends_waiting_for_the_reader_of_a_pipe(con, tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    assert pressed(con, f"COPY (SELECT 1 AS a) TO '{tmp_path / 'pipe.csv'}'") < 5
    read = []
    thread = threading.Thread(target=lambda: read.append((tmp_path / "pipe.csv").read_text()))
    thread.start()
    con.execute(f"COPY (SELECT 1 AS a) TO '{tmp_path / 'pipe.csv'}'")
    thread.join()
    assert read == ["a\n1\n"]


def test_ctrl_c_ends_waiting_for_the_writer_of_a_pipe(con, tmp_path):
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    con.execute("CREATE TABLE t (a INTEGER)")
    assert pressed(con, f"COPY t FROM '{path}'") < 5

    # A writer that begins, and then stops for long.
    go_on = threading.Event()

    def write():
        with path.open("w") as pipe:
            pipe.write("a\n1\n")
            pipe.flush()
            go_on.wait(20)

    thread = threading.Thread(target=write)
    thread.start()
    assert pressed(con, f"COPY t FROM '{path}'") < 5
    go_on.set()
    thread.join()
    assert con.sql("SELECT count(*) FROM t").fetchone() == (0,)
    thread = threading.Thread(target=lambda: path.write_text("a\n7\n8\n"))
    thread.start()
    con.execute(f"COPY t FROM '{path}'")
    thread.join()
    assert con.sql("FROM t").fetchall() == [(7,), (8,)]
