"""Functions of SQL that are written in Python: their types, and what the engine calls."""

from __future__ import annotations

import datetime
import inspect
import typing
from typing import TYPE_CHECKING, Any

from . import _convert, _text
from .errors import ProgrammingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The types of SQL that annotations stand for.
_TYPES: dict[Any, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "VARCHAR",
    bytes: "BLOB",
    datetime.date: "DATE",
    datetime.datetime: "TIMESTAMP",
    datetime.time: "TIME",
}


def types(
    function: Callable[..., Any], parameters: Sequence[Any] | None, returns: Any
) -> tuple[list[str], str]:
    """The SQL types of the arguments and of the result: as given, else as annotated."""
    hints: dict[str, Any] = {}
    if parameters is None or returns is None:
        try:
            hints = typing.get_type_hints(function)
        except (TypeError, NameError):
            # Of a callable without annotations, or with ones that mean nothing here.
            hints = {}
    if parameters is None:
        names = list(inspect.signature(function).parameters)
        missing = [name for name in names if name not in hints]
        if missing:
            raise ProgrammingError(
                f"the type of {missing[0]!r} is not known: annotate it, or give the types, such as "
                "parameters=['BIGINT']"
            )
        parameters = [hints[name] for name in names]
    if returns is None:
        returns = hints.get("return")
        if returns is None:
            raise ProgrammingError(
                "the type of the result is not known: annotate it, or give it, such as "
                "return_type='DOUBLE'"
            )
    return [_sql(each) for each in parameters], _sql(returns)


def _sql(kind: Any) -> str:
    if isinstance(kind, str):
        return _text.piece(kind, "a type")
    # `int | None` is a number: every type of SQL has NULL.
    inner = [each for each in typing.get_args(kind) if each is not type(None)]
    plain = inner[0] if len(inner) == 1 and type(None) in typing.get_args(kind) else kind
    if plain not in _TYPES:
        raise ProgrammingError(
            f"{kind!r} stands for no type of SQL; write it as text, such as 'DECIMAL(10, 2)'"
        )
    return _TYPES[plain]


def native(
    function: Callable[..., Any], *, calls_for_null: bool, null_for_error: bool
) -> Callable[[list[Any], int], list[Any]]:
    """What is called with a list for each argument: it calls the function for each row."""

    def one(row: tuple[Any, ...]) -> Any:
        if not calls_for_null and any(value is None for value in row):
            return None
        try:
            return function(*row)
        except Exception:
            if null_for_error:
                return None
            raise

    def call(columns: list[Any], count: int) -> list[Any]:
        rows = zip(*columns, strict=True) if columns else iter([()] * count)
        return [one(row) for row in rows]

    return call


def vectorised(function: Callable[..., Any]) -> Callable[[list[Any], int], Any]:
    """What is called with an Arrow array for each argument: it calls the function once."""
    pyarrow = _convert.import_optional("pyarrow", "a function of Arrow arrays")

    def array(column: Any) -> Any:
        made = pyarrow.array(column)
        # PyArrow can do little with the database's own text.
        views = {pyarrow.string_view(): pyarrow.string(), pyarrow.binary_view(): pyarrow.binary()}
        return made.cast(views[made.type]) if made.type in views else made

    def call(columns: list[Any], count: int) -> Any:
        result = function(*map(array, columns))
        if isinstance(result, pyarrow.Scalar):
            return pyarrow.array([result.as_py()] * count, result.type)
        if not hasattr(result, "__arrow_c_array__") and not hasattr(result, "__arrow_c_stream__"):
            return pyarrow.array(result)
        return result

    return call
