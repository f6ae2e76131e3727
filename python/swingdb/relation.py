"""A query's result as a table that can be asked for in any form, any number of times, and that
other queries can be composed of.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _composed, _convert, _display, _text
from ._local import Local
from ._query import Query
from .errors import ClosedError, InterfaceError, ProgrammingError
from .types import SqlType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy
    import pandas  # type: ignore[import-untyped,unused-ignore]
    import polars
    import pyarrow  # type: ignore[import-untyped,unused-ignore]

    from . import _internal
    from ._tensors import Column
    from ._text import Parameters
    from .connection import Connection

__all__ = ["Relation"]

#: Rows that ``repr`` and ``show`` print unless told otherwise.
SHOWN_ROWS = 20


class Relation(Local):
    """The rows of a query or a table, and the query itself.

    What :meth:`Connection.sql` or :meth:`Connection.table` gave shows the state of that moment: the
    query has started, and stops when nobody asks for more. What the methods make of it
    (:meth:`filter`, :meth:`join` ...) is planned at once and runs, as one query, when its rows are
    first asked for, over the state of that moment. The first call that needs all rows keeps them,
    so that every form shows the same rows; they stay valid whatever happens to the database, the
    snapshot or the connection afterwards.

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

    __slots__ = (
        "_alias",
        "_batches",
        "_connection",
        "_is_given",
        "_made_of",
        "_position",
        "_registered",
        "_query",
        "_result",
    )

    def __init__(
        self,
        result: _internal.Rows | None = None,
        batches: _internal.Batches | None = None,
        *,
        connection: Connection | None = None,
        query: Query | None = None,
        made_of: Callable[[], Query | None] | None = None,
        alias: str | None = None,
    ) -> None:
        # Not called by users: connections and relations make relations.
        self._result = result
        self._batches = batches
        self._position = 0
        #: Tensors over memory registered with CUDA, once it has been.
        self._registered: list[Any] = []
        self._connection = connection
        self._query = query
        #: Makes the query of rows that are there already, if it is ever needed.
        self._made_of = made_of
        self._alias = alias
        self._is_given = False

    # Shape ----------------------------------------------------------------------------------------

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

    # Forms ----------------------------------------------------------------------------------------

    def arrow(self, *, views: bool = False) -> pyarrow.Table:
        """A ``pyarrow.Table`` over the same memory.

        Text is copied into PyArrow's usual string layout, because PyArrow can do little with the
        database's own, string views; with ``views=True`` it is not.
        """
        return _convert.to_arrow(self._collected(), views=views)

    @overload
    def pl(self, *, lazy: Literal[False] = False) -> polars.DataFrame: ...
    @overload
    def pl(self, *, lazy: Literal[True]) -> polars.LazyFrame: ...
    def pl(self, *, lazy: bool = False) -> polars.DataFrame | polars.LazyFrame:
        """A ``polars.DataFrame``; columns whose layout Polars shares with Arrow are not copied.
        With ``lazy`` a ``polars.LazyFrame`` over it.
        """
        frame = _convert.to_polars(self._collected())
        return frame.lazy() if lazy else frame

    def df(self) -> pandas.DataFrame:
        """A ``pandas.DataFrame``."""
        return _convert.to_pandas(self._collected())

    #: What DuckDB calls these, too.
    dtypes = types
    fetchdf = df
    to_df = df
    to_arrow_table = arrow
    fetch_arrow_table = arrow

    def fetchnumpy(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """A dict of NumPy arrays, masked ones for columns with NULLs; numbers in one piece are not
        copied.
        """
        return _convert.to_numpy(self._collected())

    def column(self, name: str) -> Column:
        """One column, which NumPy, PyTorch and whoever knows DLPack can make an array of."""
        from ._tensors import Column, find

        return Column(self._collected(), find(self.columns, name))

    def torch(self, *, pin: bool = False, device: Any = None) -> dict[str, Any]:
        """A dict of PyTorch's tensors: numbers without NULLs; those in one piece are not copied.

        The tensors are read-only: clone one to change it. With ``pin`` the memory is registered
        with CUDA for as long as the tensors are used, so that ``.to("cuda", non_blocking=True)``
        copies at full speed. With ``device`` the tensors are of that device, and every piece of
        memory is copied there from where it lies; with ``pin`` too, by the GPU itself. Then the
        memory stays registered as long as this relation is used, so that feeding it again takes
        no longer than the copy.
        """
        from ._tensors import numbers, to_device, to_torch

        names = _text.unique(self.columns)
        batches = self._collected()
        if device is not None:
            return to_device(batches, names, device, pin=pin, kept=self._registered)
        arrays = {name: numbers(batches, index) for index, name in enumerate(names)}
        return to_torch(arrays, pin=pin)

    def pieces(self) -> Iterator[dict[str, numpy.ndarray[Any, Any]]]:
        """Dicts of NumPy arrays, one for each piece of memory that the rows lie in: numbers without
        NULLs, and nothing is copied. For a table, a piece is up to 131 072 rows.

        >>> import swingdb
        >>> con = swingdb.connect()
        >>> _ = con.execute("CREATE TABLE t AS SELECT range AS a FROM range(300000)")
        >>> sum(len(piece["a"]) for piece in con.table("t").pieces())
        300000
        """
        from ._tensors import pieces

        return pieces(self._collected())

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
        source = self._batches or self._started()
        if source is None:
            raise ValueError("the rows were given to a reader")
        return source.__arrow_c_schema__()

    def reader(self) -> _internal.Rows:
        """A one-time Arrow stream that never holds all rows at once: for results larger than
        memory.

        Only before any other form was asked for. Pass it to a consumer of Arrow streams, e.g.
        ``pyarrow.RecordBatchReader.from_stream(rel.reader())``.
        """
        result = None if self._batches is not None else self._started()
        self._result, self._is_given = None, True
        if result is None:
            raise ValueError("the rows were collected already, or given to another reader")
        return result

    def fetch_record_batch(self) -> pyarrow.RecordBatchReader:
        """PyArrow's reader of the rows; where they are not there yet, it never holds all of them at
        once, and they are given away, as by :meth:`reader`.
        """
        import pyarrow

        source = self.reader() if self._batches is None else self
        return pyarrow.RecordBatchReader.from_stream(source)

    def execute(self) -> Relation:
        """The same relation, with all of its rows computed."""
        self._collected()
        return self

    def kept(self) -> Relation:
        """A relation of the rows as they are now, which are not computed again when other queries
        are composed of it.
        """
        batches = self._collected()
        if self._connection is None:
            raise InterfaceError("the relation has no connection to run another query on")
        query = Query.of_rows(self._connection, batches)
        return Relation(batches=batches, connection=self._connection, query=query)

    # Composing ------------------------------------------------------------------------------------

    def filter(self, condition: str, params: Parameters = None) -> Relation:
        """The rows that a condition is true of.

        >>> import swingdb
        >>> numbers = swingdb.connect().sql("SELECT range AS a FROM range(10)")
        >>> numbers.filter("a % 2 = 0").filter("a > ?", [5]).fetchall()
        [(6,), (8,)]
        """
        query = self._asked()
        return self._next(_composed.filtered(query, self.alias, condition, params))

    #: What SQL calls it.
    where = filter

    def select(self, *columns: str, params: Parameters = None) -> Relation:
        """Columns, or what is computed of them: ``rel.select("a", "b + 1 AS c")``."""
        text = ", ".join(_text.piece(column, "a column") for column in columns)
        return self._next(_composed.selected(self._asked(), self.alias, text, params))

    project = select

    def aggregate(self, values: str, groups: str = "", *, params: Parameters = None) -> Relation:
        """Aggregates, one row for each of ``groups``; without these, for each combination of the
        columns in ``values`` that are no aggregates.

        >>> import swingdb
        >>> numbers = swingdb.connect().sql("SELECT range AS a FROM range(10)")
        >>> numbers.aggregate("a % 2 AS odd, sum(a) AS total").order("odd").fetchall()
        [(0, 20), (1, 25)]
        """
        query = self._asked()
        return self._next(_composed.aggregated(query, self.alias, values, groups, params))

    def count(
        self, expression: str = "*", groups: str = "", *, projected_columns: str = ""
    ) -> Relation:
        """The number of values that are not NULL; of ``*``, of rows."""
        return self._value("count", expression, groups, projected_columns)

    def value_counts(self, column: str) -> Relation:
        """How often each value of a column is there, the most frequent first.

        >>> import swingdb
        >>> numbers = swingdb.connect().sql("SELECT range AS a FROM range(10)")
        >>> numbers.value_counts("a % 4 > 0").fetchall()
        [(True, 7), (False, 3)]
        """
        return self.aggregate(f"{_text.piece(column, 'the column')}, count(*) AS count").order(
            "count DESC, 1"
        )

    def sum(
        self, expression: str, groups: str = "", *, projected_columns: str = ""
    ) -> Relation:
        """The sum of the values."""
        return self._value("sum", expression, groups, projected_columns)

    def min(
        self, expression: str, groups: str = "", *, projected_columns: str = ""
    ) -> Relation:
        """The least value."""
        return self._value("min", expression, groups, projected_columns)

    def max(
        self, expression: str, groups: str = "", *, projected_columns: str = ""
    ) -> Relation:
        """The greatest value."""
        return self._value("max", expression, groups, projected_columns)

    def avg(
        self, expression: str, groups: str = "", *, projected_columns: str = ""
    ) -> Relation:
        """The mean of the values."""
        return self._value("avg", expression, groups, projected_columns)

    def median(
        self, expression: str, groups: str = "", *, projected_columns: str = ""
    ) -> Relation:
        """The middle value."""
        return self._value("median", expression, groups, projected_columns)

    mean = avg

    def join(
        self, other: Relation, condition: str | Sequence[str], how: str = "inner"
    ) -> Relation:
        """Rows of two relations side by side.

        ``condition`` is SQL over the aliases of both (:meth:`set_alias`; a table's is its name), or
        the names of columns that both have. ``how`` is ``inner``, ``left``, ``right``, ``outer``,
        ``semi``, ``anti`` or ``asof``.

        >>> import swingdb
        >>> con = swingdb.connect()
        >>> a = con.sql("SELECT 1 AS id, 'Ada' AS name").set_alias("a")
        >>> b = con.sql("SELECT 1 AS id, 36 AS age").set_alias("b")
        >>> a.join(b, "a.id = b.id").select("a.name, b.age").fetchall()
        [('Ada', 36)]
        >>> a.join(b, "id").columns
        ['id', 'name', 'age']
        """
        right, aliases = self._beside(other)
        return self._next(
            _composed.joined(self._asked(), right, aliases, condition, how), alias=None
        )

    def cross(self, other: Relation) -> Relation:
        """Every row of this relation with every row of another."""
        right, aliases = self._beside(other)
        return self._next(_composed.crossed(self._asked(), right, aliases), alias=None)

    def order(self, keys: str) -> Relation:
        """The rows in an order: ``rel.order("a DESC, b")``."""
        return self._next(_composed.ordered(self._asked(), self.alias, keys))

    def sort(self, *keys: str) -> Relation:
        """The rows in an order: ``rel.sort("a DESC", "b")``."""
        return self.order(", ".join(_text.piece(key, "a key") for key in keys))

    def limit(self, count: int, offset: int = 0) -> Relation:
        """``count`` rows, behind the first ``offset``."""
        return self._next(_composed.limited(self._asked(), self.alias, count, offset))

    def distinct(self) -> Relation:
        """The rows, each once."""
        return self._next(_composed.distinct(self._asked(), self.alias))

    def unique(self, columns: str) -> Relation:
        """The values of columns, each once."""
        return self._next(_composed.distinct(self._asked(), self.alias, columns))

    def union(self, other: Relation) -> Relation:
        """The rows of both, also those that both have (UNION ALL); columns go by position."""
        return self._combine(other, "UNION")

    def except_(self, other: Relation) -> Relation:
        """The rows without those of another: of equal rows, as many as it has (EXCEPT ALL)."""
        return self._combine(other, "EXCEPT")

    def intersect(self, other: Relation) -> Relation:
        """The rows that both have: of equal rows, as many as both have (INTERSECT ALL)."""
        return self._combine(other, "INTERSECT")

    def describe(self) -> Relation:
        """Number, mean, deviation, least, greatest and middle value of each column."""
        return self._next(_composed.described(self._asked()), alias=None)

    def set_alias(self, alias: str) -> Relation:
        """The same rows under a name that conditions and columns can use: ``alias.column``."""
        query = self._asked()
        return self._next(Query(query.connection, query.sql, [query]).known(query), alias=alias)

    @property
    def alias(self) -> str:
        """The name of the relation in conditions: a table's is its own."""
        if self._alias is None:
            self._alias = self._asked().alias or _text.fresh("relation")
        return self._alias

    def query(self, name: str, sql: str, params: Parameters = None) -> Relation:
        """A query in which the rows are known by a name.

        >>> import swingdb
        >>> numbers = swingdb.connect().sql("SELECT range AS a FROM range(10)")
        >>> numbers.query("n", "SELECT max(a) - min(a) FROM n").fetchone()
        (9,)
        """
        return self._next(_composed.around(self._asked(), name, sql, params), alias=None)

    def sql_query(self) -> str:
        """The SQL that the relation stands for."""
        return self._asked().sql

    def explain(self, analyze: bool = False) -> str:
        """The plan, as text; with ``analyze`` the query is run, and the plan has times and rows."""
        query = self._asked()
        words = "EXPLAIN ANALYZE" if analyze else "EXPLAIN"
        rows = query.run(f"{words} {query.sql}").collect().rows(0, None)
        return "\n".join(str(row[-1]).rstrip() for row in rows)

    # Keeping --------------------------------------------------------------------------------------

    def create(self, table: str) -> None:
        """Makes a table of the rows."""
        self._change(f"CREATE TABLE {_text.table_name(table)[0]} AS ")

    to_table = create

    def create_view(self, name: str, replace: bool = True) -> Relation:
        """Makes a view of the query, and returns a relation over it.

        A query with parameters or with variables of the program cannot be a view, since it would
        outlive them.
        """
        query = self._asked()
        if query.params or query.given:
            what = "parameters" if query.params else "rows of the program"
            raise ProgrammingError(
                f"a view cannot hold {what}: write values into the text, or make a table "
                "(.create(name))"
            )
        quoted = _text.table_name(name)[0]
        word = "CREATE OR REPLACE VIEW" if replace else "CREATE VIEW"
        query.run(f"{word} {quoted} AS SELECT * FROM {query.derived(self.alias)}").close()
        view = Query.of_table(query.connection, name)
        return Relation(connection=query.connection, query=view)

    to_view = create_view

    def insert_into(self, table: str) -> None:
        """Appends the rows to a table, by position."""
        self._change(f"INSERT INTO {_text.table_name(table)[0]} ")

    def to_parquet(
        self,
        path: str | os.PathLike[str],
        *,
        compression: str | None = None,
        row_group_size: int | None = None,
    ) -> None:
        """Writes the rows to a Parquet file."""
        options = {"compression": compression, "row_group_size": row_group_size}
        self._copy(path, "parquet", options)

    write_parquet = to_parquet

    def to_csv(
        self,
        path: str | os.PathLike[str],
        *,
        sep: str | None = None,
        na_rep: str | None = None,
        header: bool | None = None,
        quotechar: str | None = None,
        compression: str | None = None,
    ) -> None:
        """Writes the rows to a CSV file."""
        options = {
            "delimiter": sep,
            "null": na_rep,
            "header": header,
            "quote": quotechar,
            "compression": compression,
        }
        self._copy(path, "csv", options)

    write_csv = to_csv

    # Showing --------------------------------------------------------------------------------------

    def show(self, limit: int = SHOWN_ROWS) -> None:
        """Prints the first ``limit`` rows."""
        print(self._text(limit))

    def __repr__(self) -> str:
        return self._text(SHOWN_ROWS)

    def _repr_html_(self) -> str:
        rows, footer = self._head(SHOWN_ROWS)
        if self.columns == _display.PLAN_COLUMNS:
            return _display.html_plan(rows)
        return _display.html_table(list(zip(self.columns, self.types, strict=True)), rows, footer)

    def _text(self, limit: int) -> str:
        rows, footer = self._head(limit)
        if self.columns == _display.PLAN_COLUMNS:
            return _display.text_plan(rows)
        return _display.text_table(list(zip(self.columns, self.types, strict=True)), rows, footer)

    def _head(self, limit: int) -> tuple[list[tuple[Any, ...]], str]:
        """The first rows and a line that says how many there are; a long query is not run to its
        end for that.
        """
        batches, complete = self._batches, True
        if batches is None:
            result = self._started()
            if result is None:
                return [], "rows given to a reader"
            batches, complete = result.head(limit + 1)
        rows, total = batches.rows(0, limit), batches.num_rows
        if not self._columns():
            changed = self.rows_changed
            return rows, "done" if changed is None else f"{changed} {_plural(changed)} changed"
        if not complete:
            return rows, f"more than {len(rows)} {_plural(len(rows))} (first {len(rows)} shown)"
        return rows, f"{total} {_plural(total)}" + (
            f" (first {len(rows)} shown)" if total > len(rows) else ""
        )

    # Inside ---------------------------------------------------------------------------------------

    def _columns(self) -> list[tuple[Any, ...]]:
        source = self._batches if self._batches is not None else self._result
        if source is not None:
            return source.columns
        return [] if self._query is None or self._is_given else self._query.columns()

    def _started(self) -> _internal.Rows | None:
        """The running query; None where there is none any more."""
        if self._result is None and self._query is not None and not self._is_given:
            if self._batches is None:
                self._result = self._query.run()
        return self._result

    def _collected(self) -> _internal.Batches:
        if self._batches is None:
            result = self._started()
            if result is None:
                raise ValueError("the rows were given to a reader")
            self._batches = result.collect()
        return self._batches

    def _asked(self) -> Query:
        """The query that others are composed of."""
        if self._connection is None:
            raise InterfaceError("the relation has no connection to run another query on")
        if self._connection.closed:
            raise ClosedError("the connection of the relation is closed")
        if self._query is None:
            made = None if self._made_of is None else self._made_of()
            # What is no query that can run again goes on with the rows that it returned.
            made = made or Query.of_rows(self._connection, self._collected())
            self._query, self._made_of = made, None
        return self._query

    def _next(self, query: Query, alias: str | None = "") -> Relation:
        """A relation of the query; ``alias`` is its own, or that of this relation."""
        name = self.alias if alias == "" else alias
        return Relation(connection=query.connection, query=query, alias=name)

    def _other(self, other: Relation) -> Query:
        """The query of another relation; of another connection, its rows."""
        if not isinstance(other, Relation):
            raise ProgrammingError(f"expected a relation, not {type(other).__name__}")
        if self._connection is None or other._connection is self._connection:
            return other._asked()
        return Query.of_rows(self._connection, other._collected())

    def _value(self, function: str, expression: str, groups: str, projected: str) -> Relation:
        """One aggregate, one row for each of ``groups``; ``projected`` columns stand before it."""
        value = f"{function}({_text.piece(expression, 'the expression')}\n)"
        if projected:
            value = f"{_text.piece(projected, 'the columns')},\n{value}"
        return self.aggregate(value, groups)

    def _beside(self, other: Relation) -> tuple[Query, tuple[str, str]]:
        query = self._other(other)
        return query, (self.alias, other.alias)

    def _combine(self, other: Relation, operation: str) -> Relation:
        query = _composed.combined(self._asked(), self._other(other), operation)
        return self._next(query, alias=None)

    def _change(self, statement: str) -> None:
        query = self._asked()
        query.run(f"{statement}SELECT * FROM {query.derived(self.alias)}").close()

    def _copy(self, path: str | os.PathLike[str], kind: str, options: dict[str, Any]) -> None:
        given = {"format": kind} | {k: v for k, v in options.items() if v is not None}
        text = ", ".join(f"{name} {_text.literal(value)}" for name, value in given.items())
        query = self._asked()
        target = _text.literal(os.fspath(path))
        source = f"SELECT * FROM {query.derived(self.alias)}"
        query.run(f"COPY ({source}) TO {target} ({text})").close()


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
