"""A query's result as a table that can be asked for in any form, any number of times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _convert, _display
from .errors import ProgrammingError
from .types import SqlType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from . import _internal

__all__ = ["Relation"]

#: Rows that ``repr`` and ``show`` print unless told otherwise.
SHOWN_ROWS = 20


class Relation:
    """The rows of a query or a table.

    The query has started, and stops when nobody asks for more; the first call that needs all rows
    keeps them, so that every form shows the same rows. The rows stay valid whatever happens to the
    database, the snapshot or the connection afterwards.

    >>> import swingdb
    >>> rel = swingdb.connect().sql("SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, NULL ORDER BY a")
    >>> rel.fetchall()
    [(1, 'x'), (2, None)]
    >>> rel.columns, rel.shape
    (['a', 'b'], (2, 2))
    >>> rel.show()
    ┌────────┬─────────┐
    │   a    │    b    │
    │ bigint │ varchar │
    ├────────┼─────────┤
    │      1 │ x       │
    │      2 │ NULL    │
    └────────┴─────────┘
    2 rows
    """

    __slots__ = ("_batches", "_position", "_result")

    def __init__(
        self, result: _internal.Rows | None = None, batches: _internal.Batches | None = None
    ) -> None:
        self._result = result
        self._batches = batches
        self._position = 0

    # Shape ----------------------------------------------------------------------------------
    # --------------------------

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [column[0] for column in self._columns()]

    @property
    def types(self) -> list[SqlType]:
        """The SQL types of the columns."""
        return [SqlType(column[1], column[2]) for column in self._columns()]

    @property
    def description(self) -> list[tuple[Any, ...]]:
        """The columns as in PEP 249's ``cursor.description``."""
        return describe(self._columns())

    @property
    def rows_changed(self) -> int | None:
        """How many rows a statement inserted, updated or deleted; None for a query."""
        return self._result.rows_changed if self._result is not None else None

    @property
    def shape(self) -> tuple[int, int]:
        """(number of rows, number of columns)."""
        return len(self), len(self._columns())

    def __len__(self) -> int:
        return self._collected().num_rows

    def __bool__(self) -> bool:
        return True

    # Forms ----------------------------------------------------------------------------------
    # --------------------------

    def arrow(self, *, views: bool = False) -> Any:
        """A ``pyarrow.Table`` over the same memory.

        Text is copied into PyArrow's usual string layout, because PyArrow can do little with the
        database's own, string views; with ``views=True`` it is not.
        """
        return _convert.to_arrow(self._collected(), views=views)

    def pl(self) -> Any:
        """A ``polars.DataFrame``; columns whose layout Polars shares with Arrow are not copied."""
        return _convert.to_polars(self._collected())

    def df(self) -> Any:
        """A ``pandas.DataFrame``."""
        return _convert.to_pandas(self._collected())

    #: What DuckDB calls it, too.
    fetchdf = df

    def fetchnumpy(self) -> dict[str, Any]:
        """A dict of NumPy arrays, masked ones for columns with NULLs; numbers in one piece are not
        copied.
        """
        return _convert.to_numpy(self._collected())

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples of Python values; every call returns all of them."""
        return self._collected().rows(0, None)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None after the last."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next ``size`` rows, fewer at the end."""
        rows = self._collected().rows(self._position, row_count(size))
        self._position += len(rows)
        return rows

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        batches, position = self._collected(), 0
        while rows := batches.rows(position, 8192):
            position += len(rows)
            yield from rows

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows by the Arrow PyCapsule interface, without copying; may be called any number of
        times.
        """
        return self._collected().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The Arrow schema by the Arrow PyCapsule interface."""
        source = self._batches or self._result
        if source is None:
            raise ValueError("the rows were given to a reader")
        return source.__arrow_c_schema__()

    def reader(self) -> _internal.Rows:
        """A one-time Arrow stream that never holds all rows at once: for results larger than
        memory.

        Only before any other form was asked for. Pass it to a consumer of Arrow streams, e.g.
        ``pyarrow.RecordBatchReader.from_stream(rel.reader())``.
        """
        result, self._result = self._result, None
        if result is None:
            raise ValueError("the rows were collected already, or given to another reader")
        return result

    # Showing --------------------------------------------------------------------------------
    # --------------------------

    def show(self, limit: int = SHOWN_ROWS) -> None:
        """Prints the first ``limit`` rows."""
        print(self._text(limit))

    def __repr__(self) -> str:
        return self._text(SHOWN_ROWS)

    def _repr_html_(self) -> str:
        rows, footer = self._head(SHOWN_ROWS)
        return _display.html_table(list(zip(self.columns, self.types, strict=True)), rows, footer)

    def _text(self, limit: int) -> str:
        rows, footer = self._head(limit)
        return _display.text_table(list(zip(self.columns, self.types, strict=True)), rows, footer)

    def _head(self, limit: int) -> tuple[list[tuple[Any, ...]], str]:
        """The first rows and a line that says how many there are; a long query is not run to its
        end for that.
        """
        batches, complete = self._batches, True
        if batches is None:
            if self._result is None:
                return [], "rows given to a reader"
            batches, complete = self._result.head(limit + 1)
        rows, total = batches.rows(0, limit), batches.num_rows
        if not self._columns():
            changed = self.rows_changed
            return rows, "done" if changed is None else f"{changed} {_plural(changed)} changed"
        if not complete:
            return rows, f"more than {len(rows)} {_plural(len(rows))} (first {len(rows)} shown)"
        return rows, f"{total} {_plural(total)}" + (
            f" (first {len(rows)} shown)" if total > len(rows) else ""
        )

    # Inside ---------------------------------------------------------------------------------
    # --------------------------

    def _columns(self) -> list[tuple[Any, ...]]:
        source = self._batches if self._batches is not None else self._result
        return [] if source is None else source.columns

    def _collected(self) -> _internal.Batches:
        if self._batches is None:
            if self._result is None:
                raise ValueError("the rows were given to a reader")
            self._batches = self._result.collect()
        return self._batches


def row_count(size: int) -> int:
    """A number of rows to fetch, if it is one."""
    if size < 0:
        raise ProgrammingError(f"cannot fetch {size} rows")
    return size


def describe(columns: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """PEP 249's seven items for each column: name, type, (unused) sizes, precision, scale, whether
    NULLs may occur.
    """
    return [
        (name, SqlType(kind, family), None, None, precision, scale, nullable)
        for name, kind, family, precision, scale, nullable in columns
    ]


def _plural(count: int) -> str:
    return "row" if count == 1 else "rows"
