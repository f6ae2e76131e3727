"""What stays in its process: :class:`Local`."""

from __future__ import annotations

from typing import ClassVar, NoReturn, SupportsIndex


class Local:
    """An object that no other process, and no copy, can have; an error says what they can."""

    __slots__ = ()

    #: What to do instead of sending it.
    _instead: ClassVar[str] = (
        "let the other process open a database by its name (swingdb.snapshot(name)), or send rows"
        " (.arrow(), .df(), .fetchall())"
    )

    def __reduce_ex__(self, _protocol: SupportsIndex) -> NoReturn:
        """Refuses to be pickled or copied."""
        message = f"a {type(self).__name__} belongs to its process and cannot be pickled or copied"
        raise TypeError(f"{message}; {self._instead}")
