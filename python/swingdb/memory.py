"""Memory that processes share as copy-on-write snapshots.

An :class:`Area` is memory that one process stores into, by NumPy or any buffer, without calls
around it. Another process hooks it, and gets an area of its own with the same contents, in constant
time, whatever its size. What either stores from then on only it sees; memory is copied only where
somebody stores. Where workers need a consistent view that they may modify, this takes the place of
``multiprocessing.shared_memory``; nothing is left behind when a process is killed.

>>> from swingdb import memory
>>> area = memory.create(1 << 20)
>>> numbers = area.array((4,), "int64")
>>> numbers[:] = [1, 2, 3, 4]
>>> area.publish()
>>> theirs = memory.hook(area.token)          # usually in another process
>>> numbers[0] = 100
>>> view = theirs.array((4,), "int64")
>>> view[3] = 0
>>> view.tolist(), numbers.tolist()
([1, 2, 3, 0], [100, 2, 3, 4])

An area is found by its token, a number, or by a name. Pickling an area passes these, not its
contents; what arrives in a worker is a hook of the state published last. When the area is gone by
then, using what arrived is a :class:`MemoryError`; it is never another area with the same token.

>>> prices = memory.create(4096, name="prices")
>>> prices.buffer[0] = 7
>>> prices.publish()
>>> memory.hook("prices").buffer[0]
7
>>> trial = prices.copy()                     # in the same process, published or not
>>> trial.buffer[0] = 8
>>> prices.buffer[0]
7

NumPy is needed for :meth:`Area.array` only. This module stands on the C interface (see
``docs/c.md``), which the package's extension module contains.

A *system call* that stores into an area (``file.readinto``, ``socket.recv_into``) fails with
``EFAULT`` where a plain store would have copied: give it ``memory.writable(array)``.
"""

from __future__ import annotations

import ctypes
import math
import operator
import os
import secrets
import weakref
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from swingdb import _internal
from swingdb.errors import BusyError as _BusyError
from swingdb.errors import OperationalError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

__all__ = [
    "Area",
    "BusyError",
    "MemoryError",
    "Stats",
    "collect",
    "create",
    "from_dlpack",
    "hook",
    "pinned",
    "writable",
]

Buffer = TypeVar("Buffer")
_AT_ORIGIN, _PUBLISHED, _STALE = 1, 2, 4
_NOT_FOUND, _REFUSED, _BUSY = -2, -3, -11
_MAX_TOKEN = 4095
_MAX_NAME = 255
_MAX_LENGTH = 1 << 44
_LEAST_EXTENT, _MOST_EXTENT = 64 << 10, 32 << 20
_HOME_VARIABLE = "SWINGDB_HOME"
#: The namespace of this process, once it is settled; None is the default one.
_home: list[str | None] = []


class MemoryError(OperationalError):  # noqa: A001 (within this module's name it is the right one)
    """A call failed; ``code`` tells how."""

    #: The number that ``swing.h`` names.
    code: int | None = None


class BusyError(MemoryError, _BusyError):
    """The owner refuses hooks at the moment, or something is pinned: try again later."""


class Stats(NamedTuple):
    """Memory of an area, in bytes."""

    #: That there is memory for.
    mapped: int
    #: Of these: in memory of the area's own.
    own: int
    #: Of these: shared with its origin.
    foreign: int
    #: Old versions kept for those who hooked.
    retired: int
    #: Copied so far.
    copied: int


class _Stats(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in Stats._fields]


class _Area(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("token", ctypes.c_int),
        ("at_origin", ctypes.c_int),
        ("published_ns", ctypes.c_uint64),
    ]


class _Options(ctypes.Structure):
    _fields_ = [("extent", ctypes.c_size_t), ("address", ctypes.c_void_p)]


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(_internal.__file__)
    library.swing_create_with.argtypes = [
        ctypes.c_size_t,
        ctypes.POINTER(_Options),
        ctypes.POINTER(_Area),
    ]
    library.swing_hook.argtypes = [ctypes.c_int, ctypes.c_uint, ctypes.POINTER(_Area)]
    for of_range in (library.swing_writable, library.swing_pin, library.swing_unpin):
        of_range.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.swing_set_threshold.argtypes = [ctypes.c_int, ctypes.c_size_t]
    library.swing_copy_ahead.argtypes = [ctypes.c_int, ctypes.c_int]
    library.swing_copy.argtypes = [ctypes.c_int, ctypes.POINTER(_Area)]
    library.swing_get_stats.argtypes = [ctypes.c_int, ctypes.POINTER(_Stats)]
    library.swing_set_name.argtypes = [ctypes.c_int, ctypes.c_char_p]
    library.swing_hook_named.argtypes = [ctypes.c_char_p, ctypes.c_uint, ctypes.POINTER(_Area)]
    library.swing_last_error.restype = ctypes.c_char_p
    return library


def _check(status: int) -> int:
    if status < 0:
        kind = BusyError if status in (_REFUSED, _BUSY) else MemoryError
        raise kind(_library().swing_last_error().decode(errors="replace"), code=status)
    return status


def _whole(value: Any, what: str, least: int, most: int) -> int:
    """A number of things, whatever kind of integer it comes as."""
    if isinstance(value, bool):
        raise TypeError(f"{what} must be an integer, not {value!r}")
    number = operator.index(value)
    if not least <= number <= most:
        raise ValueError(f"{what} must be from {least} to {most}, not {number}")
    return number


def _yes_or_no(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{what} must be True or False, not {value!r}")
    return value


def _name_bytes(name: str) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"a name must be a string, not {name!r}")
    encoded = os.fsencode(name)
    if not 0 < len(encoded) <= _MAX_NAME or b"\0" in encoded:
        raise ValueError(f"a name has 1 to {_MAX_NAME} bytes, none of them zero: {name!r}")
    return encoded


def _release(token: int, process: int) -> None:
    # In a forked child, where the handle is a copy, the token may be another area's.
    if os.getpid() == process:
        _library().swing_release(token)


class _Mapping:
    """An area of this process; released with the last buffer of it."""

    def __init__(self, area: _Area) -> None:
        self.area = area
        self.process = os.getpid()
        last = weakref.finalize(self, _release, area.token, self.process)
        # At the end of the process arrays may still be used; the library sees to its end itself.
        last.atexit = False


class Area:
    """Memory of this process that others may hook. Made by :func:`create` and :func:`hook`."""

    def __init__(self, area: _Area | None, length: int, name: str | None = None) -> None:
        self._mapping = None if area is None else _Mapping(area)
        self._length = length
        self._name = name
        #: A name that only pickles know, of an area that has no other; what makes it unlike others.
        self._pickled: str | None = None
        self._secret = secrets.token_hex(8)
        #: Why a pickled area could not be hooked.
        self._missing: MemoryError | None = None

    def _live(self) -> _Area:
        if self._missing is not None:
            raise MemoryError(str(self._missing), code=self._missing.code)
        if self._mapping is None:
            raise ValueError("the area has been released")
        return self._mapping.area

    @property
    def token(self) -> int:
        """The number by which other processes hook the area."""
        return int(self._live().token)

    @property
    def name(self) -> str | None:
        """The name it was created with."""
        return self._name

    @property
    def published_ns(self) -> int | None:
        """When the state that was hooked was published, as of the owner's ``time.time_ns()``.

        None if the area was not hooked. Clocks may be set: :attr:`is_fresh` does not depend on one.
        """
        return int(self._live().published_ns) or None

    @property
    def is_fresh(self) -> bool:
        """Whether the owner published the state after the live hook that gave it was called.

        False where nobody asked the owner, or it did not answer (``stale=True``).
        """
        return _check(_library().swing_is_fresh(self.token)) == 1

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        if self._mapping is None:
            state = "released" if self._missing is None else "gone"
            return f"<swingdb.memory.Area, {state}>"
        name = "" if self._name is None else f" {self._name!r}"
        return f"<swingdb.memory.Area {self.token}{name}, {len(self)} bytes>"

    @property
    def buffer(self) -> memoryview:
        """All of the area as writable bytes. It keeps the memory, also after :meth:`release`."""
        area = self._live()
        kind: Any = type("_Bytes", (ctypes.c_ubyte * self._length,), {})
        whole = kind.from_address(area.address)
        whole.mapping = self._mapping
        return memoryview(whole).cast("B")

    def array(
        self,
        shape: Any,
        dtype: Any = "float64",
        offset: int = 0,
        order: Literal["C", "F"] = "C",
    ) -> np.ndarray:
        """A writable array over the memory at ``offset``; it keeps the memory alive.

        ``order`` is that of NumPy: ``"C"``, rows lie together, or ``"F"``, columns do.
        """
        import numpy as np

        kind = np.dtype(dtype)
        if kind.hasobject:
            raise TypeError(f"{kind} has pointers to objects, which mean nothing to others")
        lengths = shape if isinstance(shape, (tuple, list)) else (shape,)
        most = max(self._length, 1)
        lengths = tuple(_whole(length, "a length of the shape", 0, most) for length in lengths)
        offset = _whole(offset, "the offset", 0, self._length)
        needed = offset + math.prod(lengths) * kind.itemsize
        if needed > self._length:
            raise ValueError(f"the array ends at byte {needed}, the area has {self._length}")
        return np.ndarray(lengths, kind, self.buffer, offset, order=order)

    def torch(
        self,
        shape: Any,
        dtype: Any = "float64",
        offset: int = 0,
        *,
        pin: bool = False,
    ) -> Any:
        """The same as a writable tensor of PyTorch; ``dtype`` is NumPy's name.

        With ``pin`` the memory is registered with CUDA, for as long as the tensor is used, and the
        tensor is read-only. That is for areas that were hooked: where somebody stores to an area
        its pages move, and a GPU would go on reading the old ones.
        """
        from ._tensors import to_torch

        array = self.array(shape, dtype, offset)
        if pin:
            if self.published_ns is None:
                raise ValueError("pin=True is for an area that was hooked: hook this one first")
            array.flags.writeable = False
        return to_torch({"area": array}, pin=pin)["area"]

    def __dlpack__(self, **wanted: Any) -> Any:
        """All of the area by DLPack, as writable bytes."""
        return self.array(self._length, "uint8").__dlpack__(**wanted)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def copy(self) -> Area:
        """A new area of this process with the present contents, in constant time.

        Memory is copied where either is stored to. Nobody else sees it before it is published.
        """
        area = _Area()
        _check(_library().swing_copy(self.token, ctypes.byref(area)))
        return Area(area, self._length)

    def publish(self) -> None:
        """Makes the present state the one that hooks give."""
        _check(_library().swing_publish(self.token))

    def allow_live_hooks(self, allow: bool = True) -> None:
        """Whether others may hook the state of any moment; ``False`` refuses hooks of any kind."""
        allow = _yes_or_no(allow, "what is allowed")
        _check(_library().swing_allow_hooks(self.token, int(allow)))

    def copy_ahead(self, yes: bool = True) -> None:
        """Whether a thread copies what is stored to again and again, after each live hook.

        Then stores wait less for copies, most of all where they go through all of the area in
        order: as long as they do, the area keeps up to twice its size. It takes time of another
        processor.
        """
        yes = _yes_or_no(yes, "what is wanted")
        _check(_library().swing_copy_ahead(self.token, int(yes)))

    def limit(self, retired: int | None) -> None:
        """Hooks are refused while more than ``retired`` bytes are kept for those who hooked."""
        most = _MAX_LENGTH if retired is None else _whole(retired, "the limit", 1, _MAX_LENGTH)
        _check(_library().swing_set_threshold(self.token, 0 if retired is None else most))

    def stats(self) -> Stats:
        """What memory the area takes."""
        stats = _Stats()
        _check(_library().swing_get_stats(self.token, ctypes.byref(stats)))
        return Stats(*(getattr(stats, name) for name in Stats._fields))

    def release(self) -> None:
        """Gives the area up; its memory goes with the last array or buffer over it."""
        if self._mapping is not None:
            # A forked child gives up its copy of the handle, not what its parent shares.
            if self._mapping.process == os.getpid():
                if self._name is not None or self._pickled is not None:
                    _library().swing_set_name(self.token, b"")
                _library().swing_allow_hooks(self.token, 0)
            self._mapping = None

    def __enter__(self) -> Area:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __reduce__(self) -> tuple[Any, ...]:
        self._live()
        which = self._name or self._pickled or self._name_for_pickle()
        return _hook_from_pickle, (which, self._length, _home[0])

    def _name_for_pickle(self) -> int | str:
        """What leads to this area and, once it is released, to no other, as a token would."""
        # Two threads may come here at once: both give the same name.
        name = f".pickled-{os.getpid()}-{self._secret}"
        if _library().swing_set_name(self.token, name.encode()) < 0:
            # In a forked child, which cannot name what is its parent's.
            return self.token
        self._pickled = name
        return name


def create(length: int, *, name: str | None = None, extent: int | None = None) -> Area:
    """A new area of ``length`` zeros. Memory is taken where something is stored.

    A ``name`` must be one that no living area has; it is free again with the area. ``extent`` is
    how many bytes a store copies, a power of two from 64 KiB to 32 MiB; by default 64 KiB in areas
    of up to 64 MiB, and 2 MiB in longer ones.
    """
    area = _Area()
    length = _whole(length, "the length", 1, _MAX_LENGTH)
    if extent is not None:
        extent = _whole(extent, "an extent", _LEAST_EXTENT, _MOST_EXTENT)
        if extent & (extent - 1):
            raise ValueError(f"an extent must be a power of two, not {extent}")
    encoded = None if name is None else _name_bytes(name)
    _settle()
    options = _Options(extent or 0, None)
    _check(_library().swing_create_with(length, ctypes.byref(options), ctypes.byref(area)))
    created = Area(area, length, name)
    if encoded is not None:
        _check(_library().swing_set_name(area.token, encoded))
    return created


def from_dlpack(data: Any, *, name: str | None = None) -> Area:
    """A new area with a copy of a tensor on the CPU: of PyTorch, NumPy or another library.

    >>> import numpy as np
    >>> from swingdb import memory
    >>> area = memory.from_dlpack(np.arange(6).reshape(2, 3))
    >>> area.array((2, 3), "int64")[1]
    array([3, 4, 5])
    """
    from ._tensors import from_dlpack as shown

    array = shown(data)
    area = create(max(array.nbytes, 1), name=name)
    area.array(array.shape, array.dtype)[...] = array
    return area


def hook(
    which: int | str, *, live: bool = False, at_origin: bool = False, stale: bool = False
) -> Area:
    """An area of this process with the contents of the one that has this token or name.

    A name is one from :func:`create`, or that of a program's heap (``docs/preload.md``).

    The state that its owner published last or, when ``live``, the state of this moment, which the
    owner must have allowed. An owner that is stopped, or busy for five seconds, is an error of code
    -14; with ``stale`` its last published state is hooked then, and :attr:`Area.is_fresh` is False.
    ``at_origin``: at the owner's addresses, or fail. Its length is that of the origin rounded up.
    """
    live, at_origin = _yes_or_no(live, "live"), _yes_or_no(at_origin, "at_origin")
    stale = _yes_or_no(stale, "stale")
    if stale and not live:
        raise ValueError("stale=True is for live hooks: others give the state published last")
    flags = (0 if live else _PUBLISHED) | (_AT_ORIGIN if at_origin else 0)
    flags |= _STALE if stale else 0
    if not isinstance(which, str):
        token = _whole(which, "a token", 1, _MAX_TOKEN)
        _settle()
        return _hook(token, flags)
    name = _name_bytes(which)
    _settle()
    area = _Area()
    _check(_library().swing_hook_named(name, flags, ctypes.byref(area)))
    return Area(area, area.length)


def _hook(token: int, flags: int) -> Area:
    area = _Area()
    _check(_library().swing_hook(token, flags, ctypes.byref(area)))
    return Area(area, area.length)


def collect() -> int:
    """Takes away at once what killed processes left, and tells how many areas that were."""
    _settle()
    return _check(_library().swing_collect())


def _hook_from_pickle(which: int | str, length: int, home: str | None) -> Area:
    """What arrived; an exception here would end a worker, or stop its pool, without a word."""
    try:
        hooked = _hook_elsewhere(which, home)
        if len(hooked) < length:
            hooked.release()
            raise MemoryError(f"{which!r} is a shorter area now", code=_NOT_FOUND)
    except MemoryError as error:
        text = f"the area that was pickled could not be hooked when it arrived: {error}"
        if error.code == _NOT_FOUND:
            text += "; its owner must keep it until then"
        hooked = Area(None, length)
        hooked._missing = MemoryError(text, code=error.code)
    hooked._length = length
    return hooked


def _hook_elsewhere(which: int | str, home: str | None) -> Area:
    if _home and _home[0] != home:
        raise MemoryError(f"the area lies in {home!r}, and this process works in {_home[0]!r}")
    own = os.environ.get(_HOME_VARIABLE)
    # A worker may have been started with another environment than the sender's.
    _set_variable(home)
    try:
        return hook(which)
    finally:
        _set_variable(own)


def _set_variable(home: str | None) -> None:
    if home is None:
        os.environ.pop(_HOME_VARIABLE, None)
    else:
        os.environ[_HOME_VARIABLE] = home


def _settle() -> None:
    """Notes the namespace of this process: the library keeps to that of its first call."""
    if not _home:
        _home.append(os.environ.get(_HOME_VARIABLE))


def writable(buffer: Buffer) -> Buffer:
    """Readies a buffer for a system call that stores into it; gives the same buffer.

    Nobody may hook or publish between this and the system call.

    >>> from swingdb import memory
    >>> area = memory.create(4096)
    >>> area.publish()
    >>> with open("/dev/zero", "rb", buffering=0) as file:
    ...     file.readinto(memory.writable(area.buffer))
    4096
    """
    view = memoryview(buffer)  # type: ignore[arg-type]
    if view.nbytes:
        start = ctypes.addressof(ctypes.c_ubyte.from_buffer(view))
        _check(_library().swing_writable(start, view.nbytes))
    return buffer


@contextmanager
def pinned(buffer: Buffer) -> Iterator[Buffer]:
    """Keeps a buffer in an area in its place while direct or asynchronous I/O stores into it.

    Such I/O goes past page protection, so nobody may hook or publish before it is complete: hooks
    and :meth:`Area.publish` wait, and fail after two seconds.

    >>> from swingdb import memory
    >>> area = memory.create(4096)
    >>> with open("/dev/zero", "rb", buffering=0) as file, memory.pinned(area.buffer) as buffer:
    ...     file.readinto(buffer)
    4096
    """
    view = memoryview(buffer)  # type: ignore[arg-type]
    if not view.nbytes:
        yield buffer
        return
    start = ctypes.addressof(ctypes.c_ubyte.from_buffer(view))
    _check(_library().swing_pin(start, view.nbytes))
    try:
        yield buffer
    finally:
        _check(_library().swing_unpin(start, view.nbytes))
