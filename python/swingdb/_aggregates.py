"""Aggregates of SQL that are written in Python: what the engine calls.

The engine works on a group by an object with the methods of :class:`Work`. It starts a group, adds
rows in columns, and finishes; threads that have parts of a group exchange what `dump` gives.
"""

from __future__ import annotations

import inspect
import io
import pickle
from itertools import chain
from typing import TYPE_CHECKING, Any

from . import _functions
from .errors import ProgrammingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: What stands for the class of an aggregate in a pickled state: it need not be importable.
_CLASS = "class"


class Work:
    """An aggregate as the engine calls it; the states of groups are lists of columns."""

    #: Whether threads may have parts of a group.
    merges = False

    def __init__(self, function: Callable[..., Any], *, arrow: bool, skips_nulls: bool) -> None:
        self._function = function
        self._arrow = arrow
        self._is_null_of_nothing = skips_nulls

    def start(self) -> Any:
        """A group without rows."""
        return []

    def update(self, state: Any, columns: list[Any], count: int) -> None:
        """Adds rows, as lists of values or Arrow arrays; none to a group that stays empty."""
        if count or not self._is_null_of_nothing:
            state.append(_functions.arrays(columns) if self._arrow else columns)

    def finish(self, state: Any) -> Any:
        """The value of the rows so far."""
        if not state:
            return None
        if not self._arrow:
            columns = (chain.from_iterable(parts) for parts in zip(*state, strict=True))
            return self._function(*map(list, columns))
        import pyarrow  # type: ignore[import-untyped,unused-ignore]

        state[:] = [[pyarrow.concat_arrays(parts) for parts in zip(*state, strict=True)]]
        return _one(self._function(*state[0]))

    def dump(self, state: Any) -> bytes:
        """What another thread merges."""
        raise NotImplementedError

    def merge(self, state: Any, other: bytes) -> None:
        """Adds the rows of another thread."""
        raise NotImplementedError


class Steps(Work):
    """An aggregate that is a class; the states of groups are its objects."""

    def __init__(self, made: type, *, arrow: bool) -> None:
        self._class = made
        self._arrow = arrow
        self.merges = hasattr(made, "merge")

    def start(self) -> Any:
        return self._class()

    def update(self, state: Any, columns: list[Any], count: int) -> None:
        del count
        if self._arrow:
            state.step(*_functions.arrays(columns))
            return
        step = state.step
        for row in zip(*columns, strict=True):
            step(*row)

    def finish(self, state: Any) -> Any:
        return _one(state.finish())

    def dump(self, state: Any) -> bytes:
        buffer = io.BytesIO()
        try:
            _Pickler(buffer, self._class).dump(state)
        except Exception as error:
            error.add_note(
                f"threads exchange objects of {self._class.__qualname__} by pickle; without a "
                "merge() one object gets all rows of a group, and none is exchanged"
            )
            raise
        return buffer.getvalue()

    def merge(self, state: Any, other: bytes) -> None:
        state.merge(_Unpickler(io.BytesIO(other), self._class).load())


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, made: type) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._class = made

    def persistent_id(self, obj: Any) -> str | None:
        return _CLASS if obj is self._class else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, made: type) -> None:
        super().__init__(file)
        self._class = made

    def persistent_load(self, pid: Any) -> Any:
        assert pid == _CLASS
        return self._class


def work(aggregate: Any, *, arrow: bool, skips_nulls: bool) -> Work:
    """What the engine calls for a class, or for a function of a group's values."""
    if is_class(aggregate):
        missing = [name for name in ("step", "finish") if not hasattr(aggregate, name)]
        if missing:
            raise ProgrammingError(
                f"the class {aggregate.__qualname__} has no {missing[0]}(): an aggregate adds a "
                "row by step(*arguments) and gives its value by finish()"
            )
        return Steps(aggregate, arrow=arrow)
    if not callable(aggregate):
        raise ProgrammingError("an aggregate is a class with step() and finish(), or a function")
    return Work(aggregate, arrow=arrow, skips_nulls=skips_nulls)


def is_class(aggregate: Any) -> bool:
    """Whether an aggregate adds rows to objects; other classes, such as `list`, are functions."""
    return isinstance(aggregate, type) and (
        hasattr(aggregate, "step") or hasattr(aggregate, "finish")
    )


def types(
    aggregate: Any, parameters: Sequence[Any] | None, returns: Any
) -> tuple[list[str], str]:
    """The SQL types of the arguments and of the result: as given, else as annotated."""
    if not is_class(aggregate):
        return _functions.types(aggregate, parameters, returns, of_lists=True)
    if parameters is None:
        # As of a bound method, without `self`.
        signature = inspect.signature(aggregate.step)
        names = list(signature.parameters)[1:]
        hints = _functions.hints(aggregate.step)
        parameters = _functions.annotated(names, hints)
    if returns is None:
        returns = _functions.hints(aggregate.finish).get("return")
    return _functions.types(aggregate, parameters, returns)


def _one(value: Any) -> Any:
    """A value, or an Arrow scalar as an array of one: it may hold more than Python's value does."""
    if type(value).__module__.partition(".")[0] != "pyarrow" or not hasattr(value, "as_py"):
        return value
    import pyarrow

    return pyarrow.repeat(value, 1)
