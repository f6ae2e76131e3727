"""Names in a query that are no table: looked up among the caller's variables.

The caller is the first frame outside this package. Its local variables come before its globals, as
in Python itself; tables and views of the database come before both. A name is taken as written,
else without regard to case. A comprehension also sees the variables of the function it is in,
although it may run in a frame of its own.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from ._convert import is_streamable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import FrameType

#: The frames that Python makes for an expression inside of a function.
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")

_DIRECTORY = os.path.dirname(__file__) + os.sep


def caller() -> FrameType | None:
    """The innermost frame that is not this package's own code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_DIRECTORY):
        frame = frame.f_back
    return frame


def find(names: Iterable[str], frame: FrameType | None) -> dict[str, Any]:
    """Those of ``names`` that are variables a table can be made of."""
    if frame is None:
        return {}
    found: dict[str, Any] = {}
    scopes = (*_local_scopes(frame), frame.f_globals)
    for name in names:
        for scope in scopes:
            value = _lookup(name, scope)
            if value is not None:
                found[name] = value
                break
    return found


def _local_scopes(frame: FrameType) -> Iterator[Mapping[str, Any]]:
    """The local variables of a frame; of a comprehension, then those of what it stands in."""
    yield frame.f_locals
    while frame.f_code.co_name in _COMPREHENSIONS:
        around = frame.f_back
        # A generator may be asked for its next item by somebody else than who made it.
        while around is not None and frame.f_code not in around.f_code.co_consts:
            around = around.f_back
        if around is None:
            return
        frame = around
        yield frame.f_locals


def _lookup(name: str, scope: Mapping[str, Any]) -> Any:
    value = scope.get(name)
    if value is not None and is_streamable(value):
        return value
    folded = name.lower()
    for key in list(scope):
        if key.lower() == folded and scope[key] is not None and is_streamable(scope[key]):
            return scope[key]
    return None
