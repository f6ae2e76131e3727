"""Streams that can be read once: a second reading is an error, instead of no rows.

Nothing tells an Arrow stream that has come to its end from a table without rows. So what gave rows
is remembered, as long as it lives; what then gives none has been read before.
"""

from __future__ import annotations

import weakref
from typing import Any

from .errors import InterfaceError

#: What has given rows, by its identity: tables of most libraries have no hash.
_read: dict[int, weakref.ref[Any]] = {}


def check_read(name: str, data: object, rows: int) -> None:
    """Notes that ``data`` gave ``rows`` rows; an error if it is a stream that had ended before."""
    key = id(data)
    if rows > 0:
        try:
            _read[key] = weakref.ref(data, lambda _: _read.pop(key, None))
        except TypeError:
            # Lists and dicts cannot be remembered, and are no streams.
            return
    elif key in _read:
        raise InterfaceError(
            f"{name} is a stream that was read to its end before: read it into a table first "
            "(.read_all() of a PyArrow reader), or make a table of it in the database"
        )
