"""The database from asyncio: statements run in threads, and cancelling one interrupts it.

A connection here is a session with a thread of its own, so its statements run one after the other
while the event loop goes on. :meth:`Connection.duplicate` gives a second session, whose statements
run beside those of the first.

>>> import asyncio
>>> from swingdb import aio
>>> async def main():
...     async with await aio.connect() as con:
...         await con.execute("CREATE TABLE t AS SELECT range AS a FROM range(5)")
...         rows = await con.fetchall("SELECT a FROM t WHERE a > ?", [2])
...         async with con.transaction():
...             await con.execute("DELETE FROM t")
...         return rows, await con.fetchone("SELECT count(*) FROM t")
>>> asyncio.run(main())
([(3,), (4,)], (0,))
"""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self, TypeVar

from . import _databases, _internal, _variables
from ._local import Local
from .cursor import Cursor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from types import FrameType, TracebackType

    import pandas  # type: ignore[import-untyped,unused-ignore]
    import polars
    import pyarrow  # type: ignore[import-untyped,unused-ignore]

    from . import connection as _connection
    from ._text import Parameters

__all__ = ["Connection", "connect", "snapshot"]

Result = TypeVar("Result")

#: Rows that are fetched at a time where a result is iterated over.
_AHEAD = 1024


async def connect(name: str | None = None, **options: Any) -> Connection:
    """Opens a database for writing; see :func:`swingdb.connect`."""
    return Connection(await asyncio.to_thread(_databases.connect, name, **options))


async def snapshot(name: str, **options: Any) -> Connection:
    """Takes a snapshot; see :func:`swingdb.snapshot`."""
    return Connection(await asyncio.to_thread(_databases.snapshot, name, **options))


class Connection(Local):
    """A session whose statements are awaited; what :func:`connect` and :func:`snapshot` return.

    A task that is cancelled while it waits interrupts its statement, of which nothing stays, and
    ends when the statement has. A statement that has not begun yet is not run. Other tasks'
    statements go on.
    """

    def __init__(self, connection: _connection.Connection) -> None:
        self._connection = connection
        # One thread: statements of one session run one after the other anyway.
        self._threads = ThreadPoolExecutor(1, "swingdb-aio")

    # Running ------------------------------------------------------------------------------------

    async def execute(self, sql: str, params: Parameters = None) -> int:
        """Runs one or several statements to the end; how many rows the last one changed, or -1."""
        return await self._statement(sql, params, _variables.caller(), _ended)

    async def executemany(
        self, sql: str, seq_of_params: Iterable[Sequence[Any] | Mapping[str, Any]]
    ) -> int:
        """Runs a statement for each set of parameters, all or none; how many rows changed."""
        frame = _variables.caller()
        cursor = Cursor(self._connection)
        run = cursor._execute_many
        return await self.run(lambda: run(sql, seq_of_params, frame).rowcount)

    async def fetchall(self, sql: str, params: Parameters = None) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return await self._statement(sql, params, _variables.caller(), Cursor.fetchall)

    async def fetchone(self, sql: str, params: Parameters = None) -> tuple[Any, ...] | None:
        """The first row of a query, or None."""
        return await self._statement(sql, params, _variables.caller(), Cursor.fetchone)

    async def df(self, sql: str, params: Parameters = None) -> pandas.DataFrame:
        """A query's rows as a ``pandas.DataFrame``."""
        return await self._statement(sql, params, _variables.caller(), Cursor.df)

    async def pl(self, sql: str, params: Parameters = None) -> polars.DataFrame:
        """A query's rows as a ``polars.DataFrame``."""
        return await self._statement(sql, params, _variables.caller(), Cursor.pl)

    async def arrow(self, sql: str, params: Parameters = None) -> pyarrow.Table:
        """A query's rows as a ``pyarrow.Table``."""
        return await self._statement(sql, params, _variables.caller(), Cursor.arrow)

    async def rows(self, sql: str, params: Parameters = None) -> AsyncIterator[tuple[Any, ...]]:
        """A query's rows one by one, never all at once: ``async for row in con.rows(sql)``."""
        frame = _variables.caller()
        cursor = Cursor(self._connection)
        await self.run(lambda: cursor._execute(sql, params, frame))
        try:
            while rows := await self.run(lambda: cursor.fetchmany(_AHEAD)):
                for row in rows:
                    yield row
        finally:
            cursor.close()

    async def run(self, work: Callable[[], Result]) -> Result:
        """Calls ``work`` in the thread of the session, for what has no method here.

        >>> import asyncio
        >>> from swingdb import aio
        >>> async def main():
        ...     async with await aio.connect() as con:
        ...         await con.execute("CREATE TABLE t (a INT)")
        ...         return await con.run(lambda: con.sync.append("t", {"a": [1, 2]}))
        >>> asyncio.run(main())
        2
        """
        part = _internal.Work()
        running = self._threads.submit(part.run, work)
        future = asyncio.wrap_future(running)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if not running.cancel():
                await _interrupted(part, future)
            raise

    @property
    def sync(self) -> _connection.Connection:
        """The connection itself; in :meth:`run`, nothing else uses it meanwhile."""
        return self._connection

    # Transactions and sharing -------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """An ``async with`` block that is one transaction: undone by an exception."""
        await self.run(self._connection.begin)
        try:
            yield self
        except BaseException:
            await self.run(self._connection.rollback)
            raise
        await self.run(self._connection.commit)

    async def share(self) -> _connection.ShareInfo:
        """Makes the last committed state the one that new snapshots see."""
        return await self.run(self._connection.share)

    async def refresh(self) -> bool:
        """Moves a snapshot to the newest shared state; False if there is none newer."""
        return await self.run(self._connection.refresh)

    async def wait_newer(self, timeout_s: float | None = None) -> bool:
        """Waits until there is a state to move to; False if there was none in time."""
        # In short steps: a wait cannot be interrupted, and a task may be cancelled.
        loop = asyncio.get_running_loop()
        end = None if timeout_s is None else loop.time() + timeout_s
        while True:
            left = 0.25 if end is None else min(0.25, max(0.0, end - loop.time()))
            if await asyncio.to_thread(self._connection.wait_newer, left):
                return True
            if end is not None and loop.time() >= end:
                return False

    def duplicate(self) -> Connection:
        """A second session on the same database, whose statements run beside this one's."""
        return Connection(self._connection.duplicate())

    # Closing ------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Ends the session, after the statements that wait; may be called twice."""
        if not self._connection.closed:
            await self.run(self._connection.close)
        self._threads.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._connection.closed:
            await self.run(lambda: self._connection.__exit__(kind, value, trace))
        self._threads.shutdown(wait=False)

    def __repr__(self) -> str:
        return f"<swingdb.aio.Connection on {self._connection!r}>"

    # Inside -------------------------------------------------------------------------------------

    async def _statement(
        self,
        sql: str,
        params: Parameters,
        frame: FrameType | None,
        then: Callable[[Cursor], Result],
    ) -> Result:
        cursor = Cursor(self._connection)
        return await self.run(lambda: then(cursor._execute(sql, params, frame)))


async def _interrupted(part: _internal.Work, future: asyncio.Future[Any]) -> None:
    """Interrupts what the thread does for one task, and nothing else, and waits for its end:
    whoever goes on after that finds the session free.
    """
    while not future.done():
        # Work that is about to begin does not hear the first one.
        part.interrupt()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([future], timeout=0.01)
    if not future.cancelled():
        # What it says is the interruption; read, so that nobody warns of it.
        future.exception()


def _ended(cursor: Cursor) -> int:
    """Runs a statement to its end: a query's rows are computed as they are asked for."""
    if cursor.description is not None:
        while cursor.fetchmany(_AHEAD):
            pass
    return cursor.rowcount
