"""Types: the type objects and constructors of PEP 249, and the Python form of intervals.

>>> import swingdb
>>> cur = swingdb.connect().execute("SELECT 1 AS n, 'x' AS s")
>>> [(name, str(type_code)) for name, type_code, *_ in cur.description]
[('n', 'BIGINT'), ('s', 'VARCHAR')]
>>> cur.description[0][1] == swingdb.NUMBER
True
"""

from __future__ import annotations

import datetime as _datetime
import time as _time
from typing import NamedTuple

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Date",
    "DateFromTicks",
    "Interval",
    "SqlType",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
]


class SqlType(str):
    """The type of a result column, as in ``cursor.description``: a string such as ``"DECIMAL(10,
    2)"``.

    It equals the type object of PEP 249 it belongs to (``STRING``, ``BINARY``, ``NUMBER``,
    ``DATETIME``).
    """

    __slots__ = ("family",)
    family: str

    def __new__(cls, name: str, family: str) -> SqlType:
        self = super().__new__(cls, name)
        self.family = family
        return self

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self.family == other.name
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __reduce__(self) -> tuple[object, ...]:
        return SqlType, (str(self), self.family)


class TypeObject:
    """One of PEP 249's type objects; equal to every :class:`SqlType` of its family."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SqlType):
            return other.family == self.name
        return self is other

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"swingdb.{self.name}"

    def __reduce__(self) -> str:
        return self.name


STRING = TypeObject("STRING")
BINARY = TypeObject("BINARY")
NUMBER = TypeObject("NUMBER")
DATETIME = TypeObject("DATETIME")
ROWID = TypeObject("ROWID")


class Interval(NamedTuple):
    """A value of SQL type INTERVAL: its three parts do not convert into each other (a month has no
    fixed length).
    """

    months: int
    days: int
    nanoseconds: int

    def timedelta(self) -> _datetime.timedelta:
        """The same as a ``timedelta``; ValueError if there are months in it.

        >>> Interval(0, 1, 1_500_000_000).timedelta()
        datetime.timedelta(days=1, seconds=1, microseconds=500000)
        """
        if self.months:
            raise ValueError("an interval with months has no fixed length")
        return _datetime.timedelta(days=self.days, microseconds=self.nanoseconds // 1000)


Date = _datetime.date
Time = _datetime.time
Timestamp = _datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> _datetime.date:  # noqa: N802 - the name is PEP 249's
    """A date from seconds since the epoch, in local time (PEP 249)."""
    return _datetime.date(*_time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> _datetime.time:  # noqa: N802 - the name is PEP 249's
    """A time of day from seconds since the epoch, in local time (PEP 249)."""
    return _datetime.time(*_time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> _datetime.datetime:  # noqa: N802 - the name is PEP 249's
    """A timestamp from seconds since the epoch, in local time (PEP 249)."""
    return _datetime.datetime(*_time.localtime(ticks)[:6])
