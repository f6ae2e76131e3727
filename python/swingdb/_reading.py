"""What :meth:`Connection.read_csv` and its like read: files by their names, and file objects."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from . import _text
from .errors import ProgrammingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    #: A file's name, or an object with its contents.
    Source = str | os.PathLike[str] | Any

#: Options of SQL under the names that pandas, and DuckDB's package, have for them.
_OTHER_NAMES = {
    "decimal": "decimal_separator",
    "dtype": "types",
    "escapechar": "escape",
    "lineterminator": "new_line",
    "na_values": "null",
    "quotechar": "quote",
    "skiprows": "skip",
}
_OPTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_PIECE_BYTES = 1 << 20


def call(function: str, paths: Sequence[str], options: Mapping[str, Any]) -> str:
    """The call of a table function, as SQL."""
    given = [_text.literal(list(paths))]
    for name, value in options.items():
        if _OPTION.fullmatch(name) is None:
            raise ProgrammingError(f"{name!r} is not the name of an option")
        given.append(f"{_OTHER_NAMES.get(name, name)} = {_text.literal(value)}")
    return f"{function}({', '.join(given)})"


def is_open(source: Source | Sequence[Source]) -> bool:
    """Whether there is a file object among the sources."""
    return any(_has_contents(each) for each in _each(source))


@contextmanager
def named(source: Source | Sequence[Source]) -> Iterator[list[str]]:
    """The names of the files; what file objects have is in temporary ones, for this time."""
    with ExitStack() as files:
        names = []
        for each in _each(source):
            if isinstance(each, (str, os.PathLike)) or not hasattr(each, "read"):
                names.append(os.fspath(each))
                continue
            file = files.enter_context(tempfile.NamedTemporaryFile(prefix="swingdb-"))
            while piece := each.read(_PIECE_BYTES):
                file.write(piece.encode() if isinstance(piece, str) else piece)
            file.flush()
            names.append(file.name)
        yield names


def _each(source: Source | Sequence[Source]) -> Sequence[Source]:
    if isinstance(source, (str, os.PathLike)) or hasattr(source, "read"):
        return [source]
    return source


def _has_contents(source: Source) -> bool:
    return hasattr(source, "read") and not isinstance(source, os.PathLike)
