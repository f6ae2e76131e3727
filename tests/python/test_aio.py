"""The asyncio front: results, cancellation that interrupts, sessions beside each other."""

from __future__ import annotations

import asyncio
import time

import pytest

import swingdb
from swingdb import aio

ENDLESS = (
    "SELECT count(*) FROM range(100000000000) a(x) JOIN range(100000000) b(y) ON x % 7 = y % 5"
)


def test_statements_and_forms():
    async def main():
        people = {"name": ["Ada", "Bo"], "age": [36, 41]}
        async with await aio.connect() as con:
            assert await con.execute("CREATE TABLE t AS SELECT * FROM people") in (2, -1)
            assert await con.execute("INSERT INTO t VALUES ('Cy', $age)", {"age": 5}) == 1
            assert await con.executemany("INSERT INTO t VALUES (?, ?)", [("Di", 7), ("Ed", 8)]) == 2
            assert await con.fetchone("SELECT count(*) FROM t") == (5,)
            assert await con.fetchall("SELECT name FROM people WHERE age > ?", [40]) == [("Bo",)]
            frame = await con.df("SELECT age FROM t ORDER BY age")
            assert frame["age"].tolist() == [5, 7, 8, 36, 41]
            assert (await con.pl("SELECT 1 AS a"))["a"].to_list() == [1]
            assert (await con.arrow("SELECT 1 AS a"))["a"].to_pylist() == [1]
            rows = [row async for row in con.rows("SELECT range FROM range(5000)")]
            assert rows == [(number,) for number in range(5000)]
            with pytest.raises(swingdb.NotFoundError):
                await con.execute("SELECT * FROM nowhere")
            assert len(people) == 2
        with pytest.raises(RuntimeError):
            await con.fetchone("SELECT 1")

    asyncio.run(main())


def test_transactions_and_snapshots():
    async def main():
        async with await aio.connect("shop") as con:
            await con.execute("CREATE TABLE t (a INT)")
            await con.share()
            with pytest.raises(ZeroDivisionError):
                async with con.transaction():
                    await con.execute("INSERT INTO t VALUES (1)")
                    raise ZeroDivisionError
            async with con.transaction():
                await con.execute("INSERT INTO t VALUES (2)")
            async with await aio.snapshot("shop") as snap:
                assert await snap.fetchall("SELECT a FROM t") == []
                assert not await snap.wait_newer(0.05)
                waiting = asyncio.create_task(snap.wait_newer(30))
                await con.share()
                assert await waiting
                assert await snap.refresh()
                assert await snap.fetchall("SELECT a FROM t") == [(2,)]
                waiting = asyncio.create_task(snap.wait_newer())
                await asyncio.sleep(0.1)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            assert await con.run(lambda: con.sync.append("t", {"a": [3]})) == 1

    asyncio.run(main())


def test_cancelling_interrupts_the_statement():
    async def main():
        async with await aio.connect() as con:
            await con.execute("CREATE TABLE t (a BIGINT)")
            for sql in (ENDLESS, f"INSERT INTO t {ENDLESS}"):
                running = asyncio.create_task(con.execute(sql))
                await asyncio.sleep(0.3)
                started = time.monotonic()
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running
                assert time.monotonic() - started < 20
                # The session goes on, and nothing of the statement is there.
                assert await con.fetchone("SELECT count(*) FROM t") == (0,)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(con.fetchall(ENDLESS), 0.2)
            # One that waits for its turn is not run at all.
            running = asyncio.create_task(con.execute(ENDLESS))
            waiting = asyncio.create_task(con.execute("INSERT INTO t VALUES (1)"))
            await asyncio.sleep(0.2)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert not running.done(), "cancelling one task does not end another's statement"
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert await con.fetchone("SELECT count(*) FROM t") == (0,)

    asyncio.run(main())


def test_cancelling_leaves_other_tasks_results_alone():
    async def main():
        async with await aio.connect() as con:
            rows = con.rows("SELECT range FROM range(300000)")
            assert await anext(rows) == (0,)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(con.fetchall(ENDLESS), 0.3)
            assert len([row async for row in rows]) == 299999
            # One whose rows are waited for ends with its task.
            rows = con.rows(f"SELECT * FROM ({ENDLESS})")
            started = time.monotonic()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(rows), 0.3)
            assert time.monotonic() - started < 20
            assert await con.fetchone("SELECT 1") == (1,)

    asyncio.run(main())


def test_the_loop_goes_on_and_sessions_run_beside_each_other():
    async def main():
        async with await aio.connect() as con:
            await con.execute("CREATE TABLE t AS SELECT 1 AS a")
            running = asyncio.create_task(con.execute(ENDLESS))
            await asyncio.sleep(0.1)
            async with con.duplicate() as second:
                for _ in range(10):
                    assert await second.fetchone("SELECT a FROM t") == (1,)
            assert not running.done()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            found = await asyncio.gather(*(con.fetchone("SELECT ?", [n]) for n in range(50)))
            assert found == [(n,) for n in range(50)]

    asyncio.run(main())
