"""The steps from one query to the next: what the methods of a relation do.

Each takes a query and gives one whose text holds it. See :mod:`swingdb._query` for how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _text
from ._query import Query
from .errors import ProgrammingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._text import Parameters

#: How two relations are joined, by the names users know.
JOINS = {
    "inner": "INNER JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "outer": "FULL JOIN",
    "full": "FULL JOIN",
    "semi": "SEMI JOIN",
    "anti": "ANTI JOIN",
    "asof": "ASOF JOIN",
}

#: What :func:`described` computes of each column, and whether it is for numbers alone.
_MEASURES = (
    ("count", "count({})", False),
    ("mean", "avg({})", True),
    ("stddev", "stddev({})", True),
    ("min", "min({})", False),
    ("max", "max({})", False),
    ("median", "median({})", True),
)


def given_piece(
    text: str, what: str, params: Parameters = None, *, clauses: bool = False
) -> tuple[str, dict[str, Any]]:
    """A piece of SQL and its parameters under names that no other has."""
    renamed = _text.with_parameters(_text.piece(text, what, clauses=clauses), params)
    if renamed is None:
        raise ProgrammingError(
            f"{what}: the parameters are not those of the text: ? or $1 for each value of a "
            "sequence, $name for each of a dict"
        )
    return renamed


def filtered(query: Query, alias: str, condition: str, params: Parameters) -> Query:
    """Rows that a condition is true of."""
    text, values = given_piece(condition, "the condition", params)
    source = query.source(alias)
    where = (*query.where, f"({text}\n)")
    made = Query(query.connection, _select("*", source, where, query.order), [query], values)
    made.open(source, query.aliases)
    made.where, made.order = where, query.order
    return made.plan(_select("*", source, where) + "\nLIMIT 0")


def ordered(query: Query, alias: str, keys: str) -> Query:
    """Rows in an order; one from before gives way."""
    order = _text.piece(keys, "the order")
    source = query.source(alias)
    made = Query(query.connection, _select("*", source, query.where, order), [query])
    made.open(source, query.aliases)
    made.where, made.order = query.where, order
    return made.plan(made.sql + "\nLIMIT 0")


def selected(query: Query, alias: str, columns: str, params: Parameters) -> Query:
    """Columns, or what is computed of them."""
    text, values = given_piece(columns, "the columns", params)
    source, where = _read(query, alias)
    return _planned(query, _select(text, source, where), values)


def aggregated(query: Query, alias: str, values: str, groups: str, params: Parameters) -> Query:
    """Aggregates, one row for each group."""
    text, given = given_piece(values, "the aggregates", params)
    by = _text.piece(groups, "the groups") if groups else "ALL"
    sql = _select(text, *_read(query, alias)) + f"\nGROUP BY {by}\n"
    return _planned(query, sql, given)


def limited(query: Query, alias: str, count: int, offset: int) -> Query:
    """Some of the rows."""
    for number, what in ((count, "limit"), (offset, "offset")):
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise ProgrammingError(f"{what} must be a number of rows, not {number!r}")
    sql = _select("*", query.source(alias), query.where, query.order)
    made = Query(query.connection, f"{sql}\nLIMIT {count} OFFSET {offset}", [query])
    return made.plan(f"{sql}\nLIMIT 0")


def distinct(query: Query, alias: str, columns: str = "*") -> Query:
    """Rows, each once."""
    text = _text.piece(columns, "the columns")
    return _planned(query, _select(f"DISTINCT {text}", *_read(query, alias)))


def combined(left: Query, right: Query, operation: str) -> Query:
    """Rows of two queries: UNION, EXCEPT or INTERSECT."""
    widths = len(left.columns()), len(right.columns())
    if widths[0] != widths[1]:
        raise ProgrammingError(
            f"{operation} takes relations with as many columns, not {widths[0]} and {widths[1]}"
        )
    sides = (f"(SELECT * FROM {side.derived(_text.fresh('side'))})" for side in (left, right))
    made = Query(left.connection, f" {operation} ALL\n".join(sides), [left, right])
    return made.plan(made.sql + "\nLIMIT 0")


def joined(
    left: Query, right: Query, aliases: tuple[str, str], condition: str | Sequence[str], how: str
) -> Query:
    """Rows of two queries side by side."""
    kind = JOINS.get(how.lower() if isinstance(how, str) else "")
    if kind is None:
        raise ProgrammingError(f"no join {how!r}; there are {', '.join(JOINS)}")
    on = _join_condition(condition, set(left.names()) & set(right.names()))
    return _side_by_side(left, right, aliases, kind, on)


def crossed(left: Query, right: Query, aliases: tuple[str, str]) -> Query:
    """Every row of one with every row of another."""
    return _side_by_side(left, right, aliases, "CROSS JOIN", "")


def _side_by_side(
    left: Query, right: Query, aliases: tuple[str, str], kind: str, on: str
) -> Query:
    # Conditions that come before the join stay before it.
    is_open = left.is_open and not left.where and left.order is None
    known = left.aliases if is_open and left.aliases else frozenset({aliases[0].lower()})
    if aliases[1].lower() in known:
        raise ProgrammingError(
            f"both sides of the join are called {aliases[1]!r}: name one of them by "
            ".set_alias('other')"
        )
    before = left.source(aliases[0]) if is_open else left.derived(aliases[0])
    source = f"{before}\n{kind} {right.derived(aliases[1])}{on}"
    made = Query(left.connection, f"SELECT * FROM {source}", [left, right])
    made.open(source, known | {aliases[1].lower()})
    return made.plan(made.sql + "\nLIMIT 0")


def _join_condition(condition: str | Sequence[str], common: set[str]) -> str:
    """ON or USING; a text that is the name of a column on both sides means that column."""
    if isinstance(condition, str):
        names = [_text.unquoted(part.strip()) for part in condition.split(",")]
        if not set(names) <= common:
            return f" ON ({_text.piece(condition, 'the condition')}\n)"
    else:
        names = list(condition)
        missing = [name for name in names if name not in common]
        if missing or not names:
            what = f"no column {missing[0]!r} in both" if missing else "no columns to join"
            raise ProgrammingError(f"{what}; common columns are {', '.join(sorted(common))}")
    return f" USING ({', '.join(map(_text.identifier, names))})"


def described(query: Query) -> Query:
    """Count, mean, deviation, least, greatest and middle value of each column."""
    lists, shown = [], []
    for number, column in enumerate(query.columns()):
        cell = f"c{number}"
        is_number = column[2] == "NUMBER" and column[1] != "BOOLEAN"
        kind = "DOUBLE" if is_number else "VARCHAR"
        values = [
            f"CAST({measure.format(cell)} AS {kind})" if is_number or not numbers else "NULL"
            for _, measure, numbers in _MEASURES
        ]
        lists.append(f"[{', '.join(values)}]::{kind}[] AS {cell}")
        name = _text.identifier(query.names()[number])
        shown.append(f"unnest({cell}) AS {name}")
    cells = ", ".join(f"c{number}" for number in range(len(lists)))
    measures = _text.literal([name for name, _, _ in _MEASURES])
    sql = (
        f"SELECT unnest({measures}) AS aggr, {', '.join(shown)} FROM (\n"
        f"SELECT {', '.join(lists)} FROM ({query.sql}\n) AS d({cells}))"
    )
    return _planned(query, sql)


def around(query: Query, name: str, sql: str, params: Parameters) -> Query:
    """A query that knows this one by a name."""
    text = _text.without_end(sql) if _text.is_query(sql) else ""
    if not text:
        raise ProgrammingError("query() takes one SELECT; others go to con.sql()")
    text, values = given_piece(text, "the query", params, clauses=True)
    whole = f"SELECT * FROM {query.derived(_text.fresh('relation'))}"
    bound = f"WITH {_text.identifier(name)} AS ({whole})\nSELECT * FROM (\n{text}\n)"
    return Query(query.connection, bound, [query], values)


def _planned(query: Query, sql: str, params: dict[str, Any] | None = None) -> Query:
    return Query(query.connection, sql, [query], params).plan(sql + "\nLIMIT 0")


def _read(query: Query, alias: str) -> tuple[str, tuple[str, ...]]:
    """What a new selection reads from, and under which conditions. An order stays inside: a name of
    the selection must not become a key of it.
    """
    if query.order is not None:
        return query.derived(alias), ()
    return query.source(alias), query.where


def _select(
    columns: str, source: str, where: tuple[str, ...] = (), order: str | None = None
) -> str:
    sql = f"SELECT {columns}\nFROM {source}"
    if where:
        sql += "\nWHERE " + " AND ".join(where)
    return sql if order is None else f"{sql}\nORDER BY {order}\n"
