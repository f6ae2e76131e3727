"""Millions of small objects, more than fit in memory.

An :class:`ObjectHeap` holds objects of 1 byte to 64 KiB. Those in use lie in memory, within a
budget that counts everything; the others lie in blocks on a disk. The heap moves single objects, so
that a cold one takes no memory because it has a hot neighbour. Objects are known by handles, which
are numbers:

>>> import swingdb, tempfile
>>> folder = tempfile.mkdtemp(dir="/var/tmp")
>>> heap = swingdb.ObjectHeap(folder, budget=16 << 20)
>>> handle = heap.alloc(b"some bytes")
>>> heap.write(handle, b"more", offset=0)
>>> heap.read(handle)
b'more bytes'
>>> with heap.pin(handle) as view:              # in place, without a copy
...     view[0] = ord("M")
>>> heap.read(handle, size=4)
b'More'
>>> heap.free(handle)

or by keys, in a mapping from bytes to bytes whose keys lie in the heap, too:

>>> heap.map[b"user 7"] = b"session"
>>> heap.map.get(b"user 8"), len(heap.map)
(None, 1)
>>> heap.close()

Other processes read what a heap with a name has shared, all objects of one moment, those on the
disk too, while the heap goes on:

>>> heap = swingdb.ObjectHeap(folder, budget=16 << 20, name="doctest-heap")
>>> heap.map[b"user 7"] = b"session"
>>> epoch = heap.share()
>>> snapshot = swingdb.HeapSnapshot("doctest-heap")
>>> heap.map[b"user 7"] = b"has gone"
>>> snapshot.map[b"user 7"]
b'session'
>>> snapshot.close(); heap.close()

A *persistent* heap (``persistent=True``) keeps its objects in the directory: what a :meth:`flush`
made durable is there when the next process opens it, also after a crash. This module stands on the
C interface (``fgmm.h``, see ``docs/heap.md``); calls let other threads of Python run.
"""

from __future__ import annotations

import ctypes
import numbers
import operator
import os
import threading
import weakref
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from swingdb import _internal
from swingdb._local import Local
from swingdb.errors import OperationalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from ._heap_map import HeapMap, HeapMapView

__all__ = ["MAX_OBJECT_BYTES", "HeapError", "HeapSnapshot", "HeapStats", "ObjectHeap"]

#: The longest object.
MAX_OBJECT_BYTES = 65536
_PIN = 2
_PERSISTENT = 2
_POLICIES = {"fifo": 4, "s3fifo": 1}
_PROBLEMS = {
    -1: "argument", -2: "not found", -3: "not shared", -4: "no memory", -5: "no addresses",
    -8: "forked", -9: "io", -10: "damaged", -11: "in use", -13: "name taken", -15: "no object",
    -16: "disk full",
}
#: Handles that a snapshot is asked for in one call.
_HANDLES = 4096
#: Objects that are brought into memory together before they are copied.
_TOGETHER = 32


class HeapError(OperationalError):
    """A call of an object heap failed; other objects are as they were.

    ``problem`` is one of "no object" (freed, or never a handle of this heap), "in use" (others have
    the object, or the directory), "no memory" (all that the budget has room for is pinned), "disk
    full", "damaged", "io", "forked", "argument" and "closed". Of heaps with names and their
    snapshots also "name taken", "not found" (no such heap, or its process has ended), "not shared"
    (nothing yet) and "no addresses".
    """

    #: What kind of failure it is.
    problem: str = "io"


class HeapStats(NamedTuple):
    """Counters of an :class:`ObjectHeap`."""

    #: Objects that exist.
    objects: int
    #: Their lengths together.
    object_bytes: int
    #: Objects in memory.
    resident_objects: int
    #: Their lengths together.
    resident_bytes: int
    #: The budget.
    budget_bytes: int
    #: What the heap takes of it.
    used_bytes: int
    #: The part of that which is not for objects.
    metadata_bytes: int
    #: Accesses that found the object in memory.
    hits: int
    #: Accesses that did not.
    misses: int
    #: What half of the misses took at most, in nanoseconds.
    miss_p50_ns: int
    #: What 99 % of the misses took at most.
    miss_p99_ns: int
    #: What 99.9 % of the misses took at most.
    miss_p999_ns: int
    #: Bytes of objects that left memory with a write.
    evicted_bytes: int
    #: Bytes written to the disk.
    written_bytes: int
    #: Bytes read from the disk.
    read_bytes: int
    #: Bytes of the heap's file.
    file_bytes: int
    #: Bytes of the file that objects need.
    live_bytes: int
    #: Bytes of the file that only snapshots need.
    kept_bytes: int
    #: Objects that left memory.
    evicted_objects: int
    #: Those of them that left without a write, because the disk had the same bytes.
    dropped_objects: int
    #: Bytes of objects that flushes wrote.
    flushed_bytes: int
    #: Bytes of objects that garbage collection wrote again.
    moved_bytes: int
    #: Reads that found damaged bytes.
    damaged: int

    @property
    def hit_rate(self) -> float:
        """Share of the accesses that found the object in memory; 1 before the first access."""
        return _ratio(self.hits, self.hits + self.misses)

    @property
    def write_amplification(self) -> float:
        """Bytes written to the disk for each byte that left memory with a write or that a flush
        wrote; 1 before the first such byte."""
        return _ratio(self.written_bytes, self.evicted_bytes + self.flushed_bytes)

    @property
    def fragmentation(self) -> float:
        """The part of the memory for objects that holds no object's bytes."""
        return 1.0 - _ratio(self.resident_bytes, self.used_bytes - self.metadata_bytes)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


class _Counters(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in HeapStats._fields]


class _Config(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64) for name in ("budget", "disk_limit", "max_wait_ms", "flags")
    ]


class _Block(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("size", ctypes.c_size_t)]


_Progress = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p)


def _with_numbers(function: Callable[..., int], places: list[int]) -> Callable[..., int]:
    """The function, which refuses numbers of more than 64 bits: ``ctypes`` takes a part of them,
    which may be another object's handle."""

    def call(*arguments: Any) -> int:
        for place in places:
            if not 0 <= operator.index(arguments[place]) < 1 << 64:
                raise ValueError(f"{arguments[place]} is negative, or longer than 64 bits")
        return function(*arguments)

    return call if places else function


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(_internal.__file__)
    heap, number, size = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t
    signatures: dict[str, list[Any]] = {
        "open_with": [ctypes.c_char_p, ctypes.POINTER(_Config), _Progress, heap,
                      ctypes.POINTER(heap)],
        "open_in": [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(_Config),
                    ctypes.POINTER(heap)],
        "share": [heap, ctypes.POINTER(number)],
        "snapshot_open": [ctypes.c_char_p, ctypes.POINTER(heap)],
        "snapshot_close": [heap],
        "snapshot_epoch": [heap, ctypes.POINTER(number)],
        "snapshot_root": [heap, ctypes.POINTER(number)],
        "snapshot_objects": [heap, number, ctypes.POINTER(number), size, ctypes.POINTER(size)],
        "snapshot_size": [heap, number, ctypes.POINTER(size)],
        "snapshot_read": [heap, number, size, ctypes.c_void_p, size],
        "snapshot_in_place": [heap, number, ctypes.POINTER(_Block)],
        "close": [heap],
        "flush": [heap],
        "set_root": [heap, number],
        "root": [heap, ctypes.POINTER(number)],
        "alloc": [heap, ctypes.c_void_p, size, ctypes.POINTER(number)],
        "realloc": [heap, number, size],
        "free": [heap, number],
        "size": [heap, number, ctypes.POINTER(size)],
        "read": [heap, number, size, ctypes.c_void_p, size],
        "write": [heap, number, size, ctypes.c_void_p, size],
        "replace": [heap, number, ctypes.c_void_p, size],
        "begin": [heap, number, ctypes.c_uint, ctypes.POINTER(_Block)],
        "end": [heap, number, ctypes.c_uint],
        "prefetch": [heap, ctypes.POINTER(number), size],
        "pointer": [heap, number, ctypes.POINTER(heap)],
        "pin": [heap, ctypes.c_void_p],
        "unpin": [heap, ctypes.c_void_p],
        "enable_pointers": [heap, number],
        "set_budget": [heap, number],
        "get_counters": [heap, ctypes.POINTER(_Counters)],
    }
    for name, arguments in signatures.items():
        function = getattr(library, f"swing_heap_{name}")
        function.argtypes = arguments
        places = [place for place, kind in enumerate(arguments) if kind in (number, size)]
        setattr(library, function.__name__, _with_numbers(function, places))
    library.swing_last_error.restype = ctypes.c_char_p
    return library


def _failure(message: str, problem: str) -> HeapError:
    error = HeapError(message)
    error.problem = problem
    return error


def _check(status: int) -> None:
    if status < 0:
        message = _library().swing_last_error().decode(errors="replace")
        raise _failure(message, _PROBLEMS.get(status, "io"))


def _end(heap: ctypes.c_void_p, handle: int, process: int) -> None:
    # In a forked child the access is the parent's.
    if os.getpid() == process:
        _library().swing_heap_end(heap, handle, _PIN)


def _unpin(heap: ctypes.c_void_p, address: ctypes.c_void_p, process: int) -> None:
    if os.getpid() == process:
        _library().swing_heap_unpin(heap, address)


def _close(heap: ctypes.c_void_p, process: int) -> None:
    if os.getpid() == process:
        _library().swing_heap_close(heap)


class ObjectHeap(Local):
    """Objects in a directory on a disk, of which at most ``budget`` bytes are in memory.

    ``path`` is made when it is missing, and should be on a disk: what lies in a file system in
    memory, as ``/tmp`` may be, takes memory beside the budget. Without ``persistent`` nothing stays
    there after the process. ``policy`` chooses which objects leave memory: "s3fifo" by S3-FIFO,
    which has more hits on most traces, "fifo" by the two lists of FG_MM's paper. ``disk_limit`` is
    the most the file may take, in bytes; a call waits for an object in use for at most ``max_wait``
    seconds. ``progress`` is called with two numbers, read and all, while a persistent heap is
    opened.

    With a ``name`` the objects in memory lie in an area of that name (``$SWINGDB_HOME``): what
    :meth:`share` shares is there for every process of the same user, see :class:`HeapSnapshot`.
    Such a heap is not persistent.

    Any thread may call anything. A forked child has no use of its parent's heap: calls are errors.
    """

    _instead = "share() it under a name, which a HeapSnapshot in the other process opens"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        budget: int = 64 << 20,
        persistent: bool = False,
        policy: Literal["fifo", "s3fifo"] = "s3fifo",
        disk_limit: int | None = None,
        max_wait: float = 10.0,
        progress: Callable[[int, int], object] | None = None,
        name: str | None = None,
    ) -> None:
        if policy not in _POLICIES:
            raise ValueError(f'policy must be "fifo" or "s3fifo", not {policy!r}')
        if not 0.001 <= max_wait <= 1e9:
            raise ValueError(f"max_wait must be from 0.001 to 1e9 seconds, not {max_wait!r}")
        if budget <= 0 or (disk_limit is not None and disk_limit <= 0):
            raise ValueError("budget and disk_limit must be positive numbers of bytes")
        if name is not None and persistent:
            raise ValueError("a heap with a name, which others can read, is not persistent")
        flags = _POLICIES[policy] | (_PERSISTENT if persistent else 0)
        config = _Config(budget, disk_limit or 0, round(max_wait * 1000), flags)
        raised: list[BaseException] = []

        def tell(done: int, everything: int, _: object) -> None:
            try:
                if progress is not None and not raised:
                    progress(done, everything)
            except BaseException as error:  # noqa: BLE001 (raised below, behind the C frames)
                raised.append(error)

        out = ctypes.c_void_p()
        directory = _c_string(os.fsencode(path), "a path")
        if name is None:
            _check(_library().swing_heap_open_with(
                directory, ctypes.byref(config), _Progress(tell), None, ctypes.byref(out)
            ))
        else:
            _check(_library().swing_heap_open_in(
                _c_string(name.encode(), "a name"), directory, ctypes.byref(config),
                ctypes.byref(out)
            ))
        self._heap: ctypes.c_void_p | None = out
        self._path = os.fspath(path)
        self._persistent = persistent
        self._process = os.getpid()
        self._map: HeapMap | None = None
        #: Views at plain addresses of each object, and the objects of those that have gone.
        self._pointed: dict[int, int] = {}
        self._unpointed: deque[int] = deque()
        self._pointing = threading.Lock()
        self._closing = weakref.finalize(self, _close, out, self._process)
        if raised:
            self.close()
            raise raised[0]

    def _live(self) -> ctypes.c_void_p:
        if self._heap is None:
            raise _failure("the heap is closed", "closed")
        if self._process != os.getpid():
            raise _failure("the heap belongs to the parent process", "forked")
        return self._heap

    # ---- objects -------------------------------------------------------------------------------

    def alloc(self, contents: Any) -> int:
        """A new object: of these bytes (any buffer), or of so many zeros. Returns its handle."""
        out = ctypes.c_uint64()
        # NumPy's integers are such as well, and have bytes of their own.
        if isinstance(contents, numbers.Integral):
            size = operator.index(contents)
            _check(_library().swing_heap_alloc(self._live(), None, size, ctypes.byref(out)))
            return out.value
        data = _bytes(contents)
        _check(_library().swing_heap_alloc(self._live(), data, len(data), ctypes.byref(out)))
        return out.value

    def free(self, handle: int) -> None:
        """Ends an object. Its handle is an error from then on."""
        self._check_pointed(handle)
        _check(_library().swing_heap_free(self._live(), handle))

    def resize(self, handle: int, size: int) -> None:
        """Gives an object another length. The handle stays; new bytes are zero."""
        self._check_pointed(handle)
        _check(_library().swing_heap_realloc(self._live(), handle, size))

    def size(self, handle: int) -> int:
        """The length of an object, in bytes. Does not bring it into memory."""
        out = ctypes.c_size_t()
        _check(_library().swing_heap_size(self._live(), handle, ctypes.byref(out)))
        return out.value

    def read(self, handle: int, offset: int = 0, size: int | None = None) -> bytes:
        """A copy of ``size`` bytes from ``offset`` on; without ``size`` of all that follow."""
        if size is None:
            size = self.size(handle) - offset
            if size == 0:
                return b""
        if size < 0 or offset < 0:
            raise ValueError(f"no bytes from {offset} on of an object of {self.size(handle)}")
        buffer = ctypes.create_string_buffer(max(size, 1))
        _check(_library().swing_heap_read(self._live(), handle, offset, buffer, size))
        return buffer.raw[:size]

    def write(self, handle: int, contents: Any, offset: int = 0) -> None:
        """Stores bytes into an object, which must have room for them. All bytes of an object are
        stored without reading what it was."""
        data = _bytes(contents)
        _check(_library().swing_heap_write(self._live(), handle, offset, data, len(data)))

    def replace(self, handle: int, contents: Any) -> None:
        """Gives an object these bytes and their length, without reading what it was. The handle
        stays."""
        self._check_pointed(handle)
        data = _bytes(contents)
        _check(_library().swing_heap_replace(self._live(), handle, data, len(data)))

    def pin(self, handle: int) -> memoryview:
        """The object's own bytes, to read and write without a copy.

        It stays in memory, at this address, until the view is released (``with``, or
        ``view.release()``) and nothing else uses its memory, such as an array of
        ``numpy.frombuffer``. Whoever stores there sees to it that nobody else does meanwhile.
        """
        heap, out = self._live(), _Block()
        _check(_library().swing_heap_begin(heap, handle, _PIN, ctypes.byref(out)))
        block = (ctypes.c_ubyte * out.size).from_address(out.address)
        # The heap cannot close before: views do not outlive it.
        weakref.finalize(block, _end, heap, handle, self._process).atexit = False
        return memoryview(block).cast("B")

    def enable_pointers(self, window: int = 0) -> None:
        """Chooses how many bytes of pages :meth:`pointer` has filled at a time, within the budget;
        0: an eighth of the budget, which the first call of :meth:`pointer` does by itself."""
        _check(_library().swing_heap_enable_pointers(self._live(), window))

    def pointer(self, handle: int, *, pinned: bool = False) -> memoryview:
        """The bytes of an object of at most 4096 bytes at their plain address.

        Nothing stays in memory for it: a load or store through the view, or through an array of
        ``numpy.frombuffer``, brings the object in, by any thread. While the view's memory is used
        the object cannot be freed or resized, nor the heap be closed ("in use"). An object that
        cannot be read ends the process.

        The kernel does not bring objects in: a system call with such a buffer, such as
        ``file.readinto``, fails with ``EFAULT``. With ``pinned`` the object stays in memory at the
        address while the view's memory is used, so system calls may use it. Then :meth:`read`,
        :meth:`write` and the like wait for the end of the view, at most ``max_wait``.
        """
        out = ctypes.c_void_p()
        with self._pointing:
            size = self.size(handle)
            heap = self._live()
            _check(_library().swing_heap_pointer(heap, handle, ctypes.byref(out)))
            assert out.value is not None
            if pinned:
                _check(_library().swing_heap_pin(heap, out))
            block = (ctypes.c_ubyte * size).from_address(out.value)
            if pinned:
                weakref.finalize(block, _unpin, heap, out, self._process).atexit = False
            # Keeps the heap alive, too.
            weakref.finalize(block, self._unpointed.append, handle).atexit = False
            weakref.finalize(block, _nothing, self).atexit = False
            self._pointed[handle] = self._pointed.get(handle, 0) + 1
            return memoryview(block).cast("B")

    def _check_pointed(self, handle: int | None) -> None:
        """An error if views at the address of an object, or of any, are used."""
        if not self._pointed:
            return
        with self._pointing:
            while self._unpointed:
                gone = self._unpointed.popleft()
                self._pointed[gone] -= 1
                if not self._pointed[gone]:
                    del self._pointed[gone]
            if self._pointed if handle is None else handle in self._pointed:
                raise _failure("views at the plain address of an object are in use", "in use")

    def prefetch(self, handles: Iterable[int]) -> None:
        """Brings objects into memory, several reads at a time. Nothing keeps them there."""
        wanted = list(handles)
        array = (ctypes.c_uint64 * max(len(wanted), 1))(*wanted)
        _check(_library().swing_heap_prefetch(self._live(), array, len(wanted)))

    def get_many(self, handles: Iterable[int]) -> list[bytes]:
        """Copies of objects, read several at a time."""
        wanted = list(handles)
        found: list[bytes] = []
        # Memory may not have room for all of them.
        for start in range(0, len(wanted), _TOGETHER):
            these = wanted[start : start + _TOGETHER]
            self.prefetch(these)
            found += map(self.read, these)
        return found

    # ---- the heap ------------------------------------------------------------------------------

    @property
    def map(self) -> HeapMap:
        """A mutable mapping from bytes to bytes, of which keys and values are objects. In a
        persistent heap it is what :attr:`root` leads to, and is there again after opening."""
        if self._map is None:
            from ._heap_map import HeapMap

            self._map = HeapMap(self)
        return self._map

    @property
    def root(self) -> int | None:
        """The object by which a program finds the others after opening; durable with the next
        :meth:`flush`."""
        out = ctypes.c_uint64()
        _check(_library().swing_heap_root(self._live(), ctypes.byref(out)))
        return out.value or None

    @root.setter
    def root(self, handle: int | None) -> None:
        _check(_library().swing_heap_set_root(self._live(), handle or 0))

    def flush(self) -> None:
        """Makes all changes so far durable, in a persistent heap. A failed flush leaves the state
        of the one before."""
        if self._map is not None and self._persistent:
            self._map.flush()
        else:
            self._flush()

    def _flush(self) -> None:
        _check(_library().swing_heap_flush(self._live()))

    def share(self) -> int:
        """Shares the present state of all objects and of :attr:`map`, of a heap with a name:
        snapshots that are opened from now on show it. Copies nothing, and waits for accesses that
        write. Returns the number of the state, which grows."""
        return self._share() if self._map is None else self._map.share()

    def _share(self) -> int:
        out = ctypes.c_uint64()
        _check(_library().swing_heap_share(self._live(), ctypes.byref(out)))
        return out.value

    def set_budget(self, budget: int) -> None:
        """Another budget, at once."""
        _check(_library().swing_heap_set_budget(self._live(), budget))

    def stats(self) -> HeapStats:
        """Counters since the heap was opened."""
        out = _Counters()
        _check(_library().swing_heap_get_counters(self._live(), ctypes.byref(out)))
        return HeapStats(*(getattr(out, name) for name in HeapStats._fields))

    def close(self) -> None:
        """Flushes a persistent heap, and ends the heap. An error ("in use") while views of
        :meth:`pin` or :meth:`pointer` are alive."""
        if self._heap is None:
            return
        self._check_pointed(None)
        if self._map is not None and self._persistent:
            self._map.flush()
        try:
            _check(_library().swing_heap_close(self._live()))
        except HeapError as error:
            if error.problem == "in use":
                raise
            self._ended()
            raise
        self._ended()

    def _ended(self) -> None:
        self._closing.detach()
        self._heap = None

    def __enter__(self) -> ObjectHeap:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._heap is None:
            return f"<ObjectHeap {self._path!r}, closed>"
        stats = self.stats()
        return (f"<ObjectHeap {self._path!r}: {stats.objects} objects of {stats.object_bytes} "
                f"bytes, {stats.resident_bytes} bytes of them in memory>")


def _close_snapshot(snapshot: ctypes.c_void_p) -> None:
    _library().swing_heap_snapshot_close(snapshot)


class HeapSnapshot(Local):
    """All objects of one moment: the newest state that an :class:`ObjectHeap` of a name has shared.

    Any process of the same user may open it, while the heap's process runs. It stays as it is
    until it is closed, whether the heap goes on, is closed, or its process is killed. Handles are
    those of the heap. Any thread may read, and so may forked children.
    """

    _instead = "open one of the same name in the other process"

    def __init__(self, name: str) -> None:
        out = ctypes.c_void_p()
        c_name = _c_string(name.encode(), "a name")
        _check(_library().swing_heap_snapshot_open(c_name, ctypes.byref(out)))
        self._snapshot: ctypes.c_void_p | None = out
        self._name = name
        #: Views that were made, and one entry for each of them that has gone.
        self._views = 0
        self._released: deque[None] = deque()
        self._lock = threading.Lock()
        self._map: HeapMapView | None = None
        self._closing = weakref.finalize(self, _close_snapshot, out)

    def _live(self) -> ctypes.c_void_p:
        if self._snapshot is None:
            raise _failure("the snapshot is closed", "closed")
        return self._snapshot

    @property
    def epoch(self) -> int:
        """The number of the state; that of a later one is larger."""
        out = ctypes.c_uint64()
        _check(_library().swing_heap_snapshot_epoch(self._live(), ctypes.byref(out)))
        return out.value

    @property
    def root(self) -> int | None:
        """The object by which a program finds the others."""
        out = ctypes.c_uint64()
        _check(_library().swing_heap_snapshot_root(self._live(), ctypes.byref(out)))
        return out.value or None

    @property
    def map(self) -> HeapMapView:
        """The heap's mapping of that moment, from bytes to bytes."""
        if self._map is None:
            from ._heap_map import HeapMapView

            self._map = HeapMapView(self)
        return self._map

    def __iter__(self) -> Iterator[int]:
        """The handles of all objects, in no useful order."""
        handles, count = (ctypes.c_uint64 * _HANDLES)(), ctypes.c_size_t()
        last = 0
        while True:
            _check(_library().swing_heap_snapshot_objects(
                self._live(), last, handles, _HANDLES, ctypes.byref(count)
            ))
            if count.value == 0:
                return
            found = handles[: count.value]
            yield from found
            last = found[-1]

    def size(self, handle: int) -> int:
        """The length of an object, in bytes."""
        out = ctypes.c_size_t()
        _check(_library().swing_heap_snapshot_size(self._live(), handle, ctypes.byref(out)))
        return out.value

    def read(self, handle: int, offset: int = 0, size: int | None = None) -> bytes:
        """A copy of ``size`` bytes from ``offset`` on; without ``size`` of all that follow."""
        if size is None:
            size = self.size(handle) - offset
        if size < 0 or offset < 0:
            raise ValueError(f"no bytes from {offset} on of an object of {self.size(handle)}")
        buffer = ctypes.create_string_buffer(max(size, 1))
        _check(_library().swing_heap_snapshot_read(self._live(), handle, offset, buffer, size))
        return buffer.raw[:size]

    def get_many(self, handles: Iterable[int]) -> list[bytes]:
        """Copies of objects."""
        return [self.read(handle) for handle in handles]

    def view(self, handle: int) -> memoryview:
        """An object's bytes, read-only: in place, without a copy, if the object was in memory, else
        a copy from the disk. The snapshot cannot be closed before the view's memory is unused."""
        out = _Block()
        with self._lock:
            _check(_library().swing_heap_snapshot_in_place(
                self._live(), handle, ctypes.byref(out)
            ))
            if out.address:
                block = (ctypes.c_ubyte * out.size).from_address(out.address)
                # Keeps the snapshot alive, too.
                weakref.finalize(block, self._release).atexit = False
                self._views += 1
                return memoryview(block).cast("B").toreadonly()
        return memoryview(self.read(handle))

    def _release(self) -> None:
        # Without the lock: the collector may run this while the thread holds it.
        self._released.append(None)

    def close(self) -> None:
        """Ends the snapshot: what only it shows can be used again. An error ("in use") while views
        are alive."""
        with self._lock:
            if self._snapshot is None:
                return
            alive = self._views - len(self._released)
            if alive:
                raise _failure(f"{alive} views of the snapshot are alive", "in use")
            _check(_library().swing_heap_snapshot_close(self._snapshot))
            self._closing.detach()
            self._snapshot = None

    def __enter__(self) -> HeapSnapshot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._snapshot is None:
            return f"<HeapSnapshot of {self._name!r}, closed>"
        return f"<HeapSnapshot of {self._name!r}: state {self.epoch}>"


def _nothing(_: object) -> None:
    pass


def _c_string(text: bytes, what: str) -> bytes:
    # C would end it at the zero.
    if b"\0" in text:
        raise ValueError(f"{what} has no zero byte in it: {text!r}")
    return text


def _bytes(contents: Any) -> bytes:
    if isinstance(contents, bytes):
        return contents
    if isinstance(contents, str):
        raise TypeError("an object is of bytes, not of text: encode it")
    return bytes(memoryview(contents).cast("B"))
