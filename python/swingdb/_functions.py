"""Functions of SQL that are written in Python: their types, and what the engine calls."""

from __future__ import annotations

import datetime
import inspect
import typing
from typing import TYPE_CHECKING, Any

from . import _convert, _text
from .errors import ProgrammingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
    function: Callable[..., Any],
    parameters: Sequence[Any] | None,
    returns: Any,
    *,
    of_lists: bool = False,
) -> tuple[list[str], str]:
    """The SQL types of the arguments and of the result: as given, else as annotated.

    The arguments of a function ``of_lists`` are annotated as lists of what SQL calls it with.
    """
    known = hints(function) if parameters is None or returns is None else {}
    if parameters is None:
        parameters = annotated(list(inspect.signature(function).parameters), known)
        if of_lists:
            parameters = [_element(each) for each in parameters]
    if returns is None:
        returns = known.get("return")
        if returns is None:
            raise ProgrammingError(
                "the type of the result is not known: annotate it, or give it, such as "
                "return_type='DOUBLE'"
            )
    return [sql_type(each) for each in parameters], sql_type(returns)


def hints(function: Callable[..., Any]) -> dict[str, Any]:
    """What the arguments and the result of a function are annotated as."""
    try:
        return typing.get_type_hints(function)
    except (TypeError, NameError):
        # Of a callable without annotations, or with ones that mean nothing here.
        return {}


def annotated(names: Sequence[str], known: dict[str, Any]) -> list[Any]:
    """The annotations of these arguments."""
    missing = [name for name in names if name not in known]
    if missing:
        raise ProgrammingError(
            f"the type of {missing[0]!r} is not known: annotate it, or give the types, such as "
            "parameters=['BIGINT']"
        )
    return [known[name] for name in names]


def _element(kind: Any) -> Any:
    """The element of a list, such as ``float`` for ``Sequence[float]``."""
    inner = typing.get_args(kind)
    if isinstance(kind, str) or len(inner) != 1:
        raise ProgrammingError(
            f"an aggregate's function is called with lists of values: annotate list[...], not "
            f"{kind!r}, or give the types, such as parameters=['BIGINT']"
        )
    return inner[0]


def sql_type(kind: Any) -> str:
    """A type as SQL writes it: of its text, or of Python's type."""
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


def arrays(columns: Sequence[Any]) -> list[Any]:
    """PyArrow's arrays of the engine's."""
    pyarrow = _convert.import_optional("pyarrow", "a function of Arrow arrays")
    # PyArrow can do little with the database's own text.
    views = {pyarrow.string_view(): pyarrow.string(), pyarrow.binary_view(): pyarrow.binary()}
    made = map(pyarrow.array, columns)
    return [each.cast(views[each.type]) if each.type in views else each for each in made]


def vectorised(function: Callable[..., Any]) -> Callable[[list[Any], int], Any]:
    """What is called with an Arrow array for each argument: it calls the function once."""
    pyarrow = _convert.import_optional("pyarrow", "a function of Arrow arrays")

    def call(columns: list[Any], count: int) -> Any:
        result = function(*arrays(columns))
        if isinstance(result, pyarrow.Scalar):
            return pyarrow.array([result.as_py()] * count, result.type)
        if not hasattr(result, "__arrow_c_array__") and not hasattr(result, "__arrow_c_stream__"):
            return pyarrow.array(result)
        return result

    return call


def pieces(function: Callable[..., Any]) -> Callable[[list[Any]], Iterator[Any]]:
    """What is called with the values of a table function's arguments: an iterator of tables."""

    def call(arguments: list[Any]) -> Iterator[Any]:
        result = function(*arguments)
        if _convert.is_streamable(result):
            result = [result]
        return _streams(iter(result))

    return call


def _streams(given: Iterator[Any]) -> Iterator[Any]:
    try:
        for piece in given:
            yield _convert.to_stream(piece)
    finally:
        # A generator that is not read to its end.
        if hasattr(given, "close"):
            given.close()
