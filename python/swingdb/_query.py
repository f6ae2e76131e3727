"""What a relation asks for, as SQL that others can be composed of.

A query is the text of a statement, the values of its parameters and the data that its names stand
for. Composing never looks at rows: it puts the text of one query into that of the next, in
parentheses and under column names of its own, and has the result planned, so that mistakes are
found where they are made. Nothing is captured by accident:

* parameters get names that no other text has;
* data is registered under names that nothing else has, for the time of a statement, and the name by
  which the text knows it is bound around that text alone (``WITH name AS (...)``);
* a table or column of any name is quoted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from . import _text, _variables
from .errors import ProgrammingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from . import _internal
    from ._text import Parameters
    from .connection import Connection


class Data(NamedTuple):
    """Rows that a query reads, and none of them, which is enough to plan it."""

    rows: _internal.Batches
    none: _internal.Batches


class Query:
    """One statement that can be run any number of times, and be part of others."""

    __slots__ = (
        "_columns",
        "_from",
        "alias",
        "aliases",
        "connection",
        "given",
        "order",
        "params",
        "sql",
        "where",
    )

    def __init__(
        self,
        connection: Connection,
        sql: str,
        parts: Iterable[Query] = (),
        params: Mapping[str, Any] | None = None,
        given: Mapping[str, Data] | None = None,
    ) -> None:
        self.connection = connection
        self.sql = sql
        self.params: dict[str, Any] = dict(params or {})
        self.given: dict[str, Data] = dict(given or {})
        for part in parts:
            self.params |= part.params
            self.given |= part.given
        #: The name that a table has for itself.
        self.alias: str | None = None
        #: What to read from instead of the whole query, its conditions and its order.
        self._from: str | None = None
        self.aliases: frozenset[str] = frozenset()
        self.where: tuple[str, ...] = ()
        self.order: str | None = None
        self._columns: list[tuple[Any, ...]] | None = None

    # Making -------------------------------------------------------------------------------------

    @classmethod
    def of_text(
        cls,
        connection: Connection,
        sql: str,
        params: Parameters,
        variables: Mapping[str, Any] | None = None,
    ) -> Query | None:
        """A statement that a caller wrote; None if it is no query that others can read from."""
        if not _text.is_query(sql):
            return None
        renamed = _text.with_parameters(_text.without_end(sql), params)
        if renamed is None:
            return None
        text, values = renamed
        given: dict[str, Data] = {}
        if variables:
            text, given = _bound(connection, text, variables)
        return cls(connection, text, params=values, given=given)

    @classmethod
    def of_rows(cls, connection: Connection, rows: _internal.Batches) -> Query:
        """Rows that are there."""
        if not rows.columns:
            raise ProgrammingError("the statement returned no rows to go on with")
        name = _text.fresh("rows")
        none = _collect(connection, rows, "LIMIT 0")
        return cls(connection, f"SELECT * FROM {name}", given={name: Data(rows, none)})

    @classmethod
    def of_table(cls, connection: Connection, name: str) -> Query:
        """A table or view."""
        quoted, last = _text.table_name(name)
        query = cls(connection, f"SELECT * FROM {quoted}")
        query.alias = last
        return query

    def known(self, other: Query | list[tuple[Any, ...]]) -> Query:
        """Takes the columns over from where they are known."""
        self._columns = other.columns() if isinstance(other, Query) else other
        return self

    # Reading from it ----------------------------------------------------------------------------

    def source(self, alias: str) -> str:
        """The query as it stands after FROM; its columns have the names that it shows them by."""
        if self._from is not None:
            return self._from
        return self.derived(alias)

    def derived(self, alias: str) -> str:
        """The query in parentheses, under an alias."""
        names = ", ".join(map(_text.identifier, self.names()))
        return f"({self.sql}\n) AS {_text.identifier(alias)}({names})"

    def open(self, source: str, aliases: frozenset[str]) -> Query:
        """What later conditions and selections see: the columns of ``source``."""
        self._from, self.aliases = source, aliases
        return self

    @property
    def is_open(self) -> bool:
        """Whether something is read from several relations, whose aliases can still be used."""
        return self._from is not None

    def names(self) -> list[str]:
        """The columns' names, each once."""
        return _text.unique(column[0] for column in self.columns())

    # Running ------------------------------------------------------------------------------------

    def columns(self) -> list[tuple[Any, ...]]:
        """What the columns are; found out by planning."""
        if self._columns is None:
            self.plan(f"SELECT * FROM ({self.sql}\n) LIMIT 0")
        assert self._columns is not None
        return self._columns

    def plan(self, sql: str) -> Query:
        """Finds mistakes, and the columns, by a statement that has them and no rows; names that are
        no table are looked up among the caller's variables.
        """
        names = self.connection._session().unresolved_tables(sql)
        names = [name for name in names if name not in self.given]
        variables = _variables.find(names, _variables.caller()) if names else None
        if variables:
            self.sql, given = _bound(self.connection, self.sql, variables)
            self.given |= given
            # What follows reads from the whole, so that it does not see these names.
            self._from, self.where, self.order = None, (), None
            sql = f"SELECT * FROM ({self.sql}\n) LIMIT 0"
        none = {name: data.none for name, data in self.given.items()}
        rows = self.connection._run_given(sql, self.params, none)
        self._columns = rows.columns
        rows.close()
        return self

    def run(self, sql: str | None = None) -> _internal.Rows:
        """Starts it, or a statement around it."""
        rows = {name: data.rows for name, data in self.given.items()}
        return self.connection._run_given(sql or self.sql, self.params, rows)


def _bound(
    connection: Connection, sql: str, variables: Mapping[str, Any]
) -> tuple[str, dict[str, Data]]:
    """A text with names that stand for data, in it and nowhere else."""
    given, parts = {}, []
    for name, value in variables.items():
        unique = _text.fresh("rows")
        rows = connection._rows_of(name, value)
        given[unique] = Data(rows, _collect(connection, rows, "LIMIT 0"))
        parts.append(f"{_text.identifier(name)} AS (SELECT * FROM {unique})")
    return f"WITH {', '.join(parts)}\nSELECT * FROM (\n{sql}\n)", given


def _collect(connection: Connection, data: Any, tail: str) -> _internal.Batches:
    name = _text.fresh("rows")
    return connection._run_given(f"SELECT * FROM {name} {tail}", None, {name: data}).collect()
