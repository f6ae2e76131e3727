"""Cursors: PEP 249, and the same results in the forms of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from . import _convert, _internal, _variables
from ._local import Local
from .errors import ClosedError, ProgrammingError
from .relation import describe, row_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import FrameType, TracebackType

    import numpy
    import pandas  # type: ignore[import-untyped,unused-ignore]
    import polars
    import pyarrow  # type: ignore[import-untyped,unused-ignore]

    from .connection import Connection

    Parameters = Sequence[Any] | Mapping[str, Any] | None

__all__ = ["Cursor"]


class Current:
    """The last result of a cursor: what is left of its rows."""

    __slots__ = ("columns", "result", "rowcount", "rownumber")

    def __init__(self, result: _internal.Rows | None = None) -> None:
        changed = None if result is None else result.rows_changed
        self.result = result
        self.columns: list[tuple[Any, ...]] = [] if result is None else result.columns
        self.rowcount = -1 if changed is None else changed
        self.rownumber = 0


class Cursor(Local):
    """Runs statements on its connection's session and hands out their rows (PEP 249).

    >>> import swingdb
    >>> cur = swingdb.connect().cursor()
    >>> cur.execute("CREATE TABLE t (id INT, name VARCHAR)")  # doctest: +ELLIPSIS
    <swingdb.Cursor ...>
    >>> cur.executemany("INSERT INTO t VALUES (?, ?)", [(1, "a"), (2, "b")]).rowcount
    2
    >>> cur.execute("SELECT name FROM t WHERE id = $id", {"id": 2}).fetchone()
    ('b',)
    """

    def __init__(self, connection: Connection, current: Current | None = None) -> None:
        self._connection: Connection | None = connection
        self._current = current or Current()
        self._work = _internal.Work()
        #: How many rows ``fetchmany`` returns unless told otherwise (PEP 249).
        self.arraysize = 1

    # Running --------------------------------------------------------------------------------------

    def execute(self, sql: str, params: Parameters = None) -> Cursor:
        """Runs one or several statements; the last one's rows can be fetched. Returns the cursor
        itself.

        ``params`` fill ``?`` or ``$1`` from a sequence, ``$name`` from a dict. Names in the SQL
        that are no table are looked up among the caller's variables.
        """
        return self._execute(sql, params, _variables.caller())

    def executemany(
        self, sql: str, seq_of_params: Iterable[Sequence[Any] | Mapping[str, Any]]
    ) -> Cursor:
        """Runs the statement once for each set of parameters, all of them or (on an error) none.

        An ``INSERT ... VALUES (?, ...)`` of plain parameters is done as one insert of all rows.
        """
        return self._execute_many(sql, seq_of_params, _variables.caller())

    def interrupt(self) -> None:
        """Ends this cursor's statement, which raises QueryInterruptedError, or the reading of its
        rows. Others of the connection go on, which :meth:`Connection.interrupt` would end.

        For other threads; with nothing running it does nothing.
        """
        self._work.interrupt()

    # Fetching -------------------------------------------------------------------------------------

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None after the last (PEP 249)."""
        row = self._selected().next_row()
        if row is not None:
            self._current.rownumber += 1
        return row

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next ``size`` (else ``arraysize``) rows, fewer at the end (PEP 249)."""
        return self._rows(row_count(self.arraysize if size is None else size))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All remaining rows (PEP 249)."""
        return self._rows(None)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def arrow(self, *, views: bool = False) -> pyarrow.Table:
        """The remaining rows as a ``pyarrow.Table``; see :meth:`Relation.arrow`."""
        return _convert.to_arrow(self._remaining(), views=views)

    def df(self) -> pandas.DataFrame:
        """The remaining rows as a ``pandas.DataFrame``."""
        return _convert.to_pandas(self._remaining())

    #: What DuckDB calls it, too.
    fetchdf = df

    def pl(self) -> polars.DataFrame:
        """The remaining rows as a ``polars.DataFrame``."""
        return _convert.to_polars(self._remaining())

    def fetchnumpy(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """The remaining rows as a dict of NumPy arrays."""
        return _convert.to_numpy(self._remaining())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The remaining rows as an Arrow stream; they can be read once."""
        return self._selected().__arrow_c_stream__(requested_schema)

    # About the result -----------------------------------------------------------------------------

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """Name, type and five more items of each column; None if the last statement returned no
        rows (PEP 249).
        """
        return describe(self._current.columns) if self._current.columns else None

    @property
    def rowcount(self) -> int:
        """How many rows the last statement changed; -1 for queries, whose rows are not counted in
        advance (PEP 249).
        """
        return self._current.rowcount

    @property
    def rownumber(self) -> int | None:
        """The index of the next row, from 0; None without a result (PEP 249, optional)."""
        return None if self._current.result is None else self._current.rownumber

    @property
    def lastrowid(self) -> None:
        """Always None: rows have no lasting number (PEP 249, optional)."""
        return None

    @property
    def connection(self) -> Connection:
        """The connection the cursor belongs to (PEP 249, optional)."""
        return self._open()

    # Closing --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Frees the result; the cursor cannot be used any more (PEP 249). May be called twice."""
        changed = self.rowcount
        self._forget()
        # What was done stays to be asked, as with other databases' cursors.
        self._current.rowcount = changed
        self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Does nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing, as PEP 249 allows."""

    def nextset(self) -> None:
        """Always None: only the last statement's rows are kept (PEP 249, optional)."""
        self._open()

    def __repr__(self) -> str:
        if self._connection is None:
            return "<swingdb.Cursor closed>"
        columns = [column[0] for column in self._current.columns]
        return f"<swingdb.Cursor of {self._connection!r}" + (
            f", columns {columns}>" if columns else ">"
        )

    # Inside ---------------------------------------------------------------------------------------

    def _open(self) -> Connection:
        if self._connection is None:
            raise ClosedError("the cursor is closed")
        self._connection._check()
        return self._connection

    def _execute(self, sql: str, params: Parameters, frame: FrameType | None) -> Cursor:
        """Runs statements that see the variables of a frame; of none, tables alone."""
        connection = self._open()
        self._forget()
        self._current = Current(self._work.run(lambda: connection._run(sql, params, frame)))
        return self

    def _execute_many(
        self,
        sql: str,
        seq_of_params: Iterable[Sequence[Any] | Mapping[str, Any]],
        frame: FrameType | None,
    ) -> Cursor:
        connection = self._open()
        self._forget()
        run = connection._run_many
        self._current.rowcount = self._work.run(lambda: run(sql, seq_of_params, frame))
        return self

    def _forget(self) -> None:
        current, self._current = self._current, Current()
        if current.result is not None:
            current.result.close()

    def _selected(self) -> _internal.Rows:
        self._open()
        current = self._current
        if current.result is None or not current.columns:
            raise ProgrammingError("there are no rows to fetch: the last statement was not a query")
        return current.result

    def _rows(self, count: int | None) -> list[tuple[Any, ...]]:
        rows = self._selected().next_rows(count)
        self._current.rownumber += len(rows)
        return rows

    def _remaining(self) -> _internal.Batches:
        return self._selected().collect()
