"""A mutable mapping from bytes to bytes in an object heap: linear hashing (Litwin, 1980).

Each entry is an object: the key's length, the key, the value. A bucket is an object with 16 bytes
an entry: the key's hash and the entry's handle. Only the buckets' handles are in Python, 8 bytes
for some 16 entries; in a persistent heap they lie in objects that the root leads to. One bucket at
a time is split as entries come, so no operation takes long.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from array import array
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from .heap import HeapError

if TYPE_CHECKING:
    from .heap import HeapSnapshot, ObjectHeap

_MAGIC = b"SwHpMap1"
#: Magic, entries, buckets.
_ROOT = struct.Struct("<8sQQ")
_PAIR = struct.Struct("<QQ")
_KEY = struct.Struct("<I")
#: Entries a bucket has on average before one is split.
_LOAD = 16
#: Bytes of a bucket at least.
_BUCKET = 512
#: Buckets of a new mapping.
_FIRST = 4
#: Handles of buckets in one object.
_PART = 4096


def _hash(key: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")


class HeapMapView(Mapping[bytes, bytes]):
    """See :attr:`swingdb.HeapSnapshot.map`: a mapping that this process only reads."""

    def __init__(self, heap: ObjectHeap | HeapSnapshot) -> None:
        self._objects = heap
        self._lock = threading.RLock()
        self._len = 0
        self._buckets = array("Q")
        #: Objects that hold the handles of the buckets.
        self._parts: list[int] = []
        root = heap.root
        if root is None:
            self._buckets.extend(0 for _ in range(_FIRST))
        else:
            self._load(heap.read(root))

    def _load(self, root: bytes) -> None:
        if len(root) < _ROOT.size or not root.startswith(_MAGIC):
            message = "the heap's root is an object of another kind than a mapping"
            raise ValueError(message)
        _, self._len, count = _ROOT.unpack_from(root)
        self._parts = list(array("Q", root[_ROOT.size:]))
        for part in self._objects.get_many(self._parts):
            self._buckets.frombytes(part)
        if len(self._buckets) != count:
            raise ValueError("the heap's mapping is not whole")

    # ---- finding -------------------------------------------------------------------------------

    def _place(self, hashed: int) -> int:
        """The bucket of a hash."""
        level = 1 << (len(self._buckets).bit_length() - 1)
        place = hashed & (2 * level - 1)
        return place if place < len(self._buckets) else hashed & (level - 1)

    def _entries(self, place: int) -> list[tuple[int, int]]:
        """Hashes and handles of a bucket."""
        bucket = self._buckets[place]
        pairs = _PAIR.iter_unpack(self._objects.read(bucket)) if bucket else ()
        # Behind the last one are zeros. A split that failed half way leaves entries that belong to
        # the later bucket.
        return [pair for pair in pairs if pair[1] and self._place(pair[0]) == place]

    def _find(self, key: bytes, hashed: int) -> tuple[int, list[tuple[int, int]], int]:
        """Its bucket, the bucket's entries, and its position there; -1: none."""
        place = self._place(hashed)
        entries = self._entries(place)
        begin = _KEY.pack(len(key)) + key
        for at, (other, handle) in enumerate(entries):
            if (other == hashed and self._objects.size(handle) >= len(begin)
                    and self._objects.read(handle, size=len(begin)) == begin):
                return place, entries, at
        return place, entries, -1

    def __getitem__(self, key: bytes) -> bytes:
        checked = _checked(key)
        with self._lock:
            _, entries, at = self._find(checked, _hash(checked))
            if at < 0:
                raise KeyError(key)
            return self._objects.read(entries[at][1], offset=_KEY.size + len(checked))

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, (bytes, bytearray, memoryview)):
            return False
        checked = _checked(key)
        with self._lock:
            return self._find(checked, _hash(checked))[2] >= 0

    def __len__(self) -> int:
        return self._len

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._len} entries in {self._objects!r}>"

    def __iter__(self) -> Iterator[bytes]:
        count = len(self._buckets)
        level = 1 << (count.bit_length() - 1)
        for place in range(count):
            # Buckets that were split off from this one since: every `step`-th behind it.
            step = 2 * level if place < count - level or place >= level else level
            with self._lock:
                split_off = range(place, len(self._buckets), step)
                keys = [self._key(handle) for at in split_off for _, handle in self._entries(at)]
            yield from keys

    def _key(self, handle: int) -> bytes:
        (length,) = _KEY.unpack(self._objects.read(handle, size=_KEY.size))
        return self._objects.read(handle, offset=_KEY.size, size=length)


class HeapMap(HeapMapView, MutableMapping[bytes, bytes]):
    """See :attr:`swingdb.ObjectHeap.map`. A key and its value have at most 65 532 bytes together.

    Any thread may use it; operations exclude each other. Iterating while others change it gives
    each key that was there all the time, once.
    """

    def __init__(self, heap: ObjectHeap) -> None:
        super().__init__(heap)
        self._heap = heap
        #: Those of the parts that are out of date.
        self._stale: set[int] = set()
        self._changed = False
        #: Objects that could not be freed yet.
        self._garbage: list[int] = []

    # ---- changing ------------------------------------------------------------------------------

    def _set(self, place: int, entries: list[tuple[int, int]]) -> None:
        """Replaces a bucket: wholly, or an error and not at all."""
        old = self._buckets[place]
        # Few lengths: the heap has memory of its own for each.
        size = _BUCKET
        while size < _PAIR.size * len(entries):
            size *= 2
        contents = b"".join(_PAIR.pack(*entry) for entry in entries).ljust(size, b"\0")
        self._changed = True
        if entries and old and self._heap.size(old) == size:
            self._heap.write(old, contents)
            return
        self._buckets[place] = self._heap.alloc(contents) if entries else 0
        self._stale.add(place // _PART)
        if old:
            self._drop(old)

    def _drop(self, handle: int) -> None:
        """Frees what nothing leads to any more; if somebody uses it, with a later change."""
        self._garbage.append(handle)
        while self._garbage:
            try:
                self._heap.free(self._garbage[-1])
            except HeapError:
                break
            self._garbage.pop()

    def __setitem__(self, key: bytes, value: bytes) -> None:
        checked = _checked(key)
        data = _KEY.pack(len(checked)) + checked + bytes(memoryview(value).cast("B"))
        hashed = _hash(checked)
        with self._lock:
            place, entries, at = self._find(checked, hashed)
            new = self._heap.alloc(data)
            old = None
            if at < 0:
                entries.append((hashed, new))
            else:
                old = entries[at][1]
                entries[at] = (hashed, new)
            try:
                self._set(place, entries)
            except BaseException:
                self._drop(new)
                raise
            if old is not None:
                self._drop(old)
                return
            self._len += 1
            if self._len > _LOAD * len(self._buckets):
                self._split()

    def __delitem__(self, key: bytes) -> None:
        checked = _checked(key)
        with self._lock:
            place, entries, at = self._find(checked, _hash(checked))
            if at < 0:
                raise KeyError(key)
            _, handle = entries.pop(at)
            self._set(place, entries)
            self._drop(handle)
            self._len -= 1

    def clear(self) -> None:
        """Removes everything."""
        with self._lock:
            for place in range(len(self._buckets)):
                entries = self._entries(place)
                self._set(place, [])
                for _, handle in entries:
                    self._drop(handle)
                self._len -= len(entries)

    def _split(self) -> None:
        """Adds a bucket, and moves to it what belongs there."""
        new = len(self._buckets)
        old = new - (1 << (new.bit_length() - 1))
        entries = self._entries(old)
        self._buckets.append(0)
        self._stale.add(new // _PART)
        moved = [entry for entry in entries if self._place(entry[0]) == new]
        try:
            self._set(new, moved)
        except HeapError:
            # Without room it is tried again with the next entry.
            self._buckets.pop()
            return
        self._set(old, [entry for entry in entries if self._place(entry[0]) == old])

    # ---- saving --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Makes mapping and heap durable, both of one moment."""
        with self._lock:
            self._save()
            self._heap._flush()

    def share(self) -> int:
        """Shares mapping and heap, both of one moment."""
        with self._lock:
            self._save()
            return self._heap._share()

    def _save(self) -> None:
        """Puts into objects what a later process needs."""
        with self._lock:
            if not self._changed and self._heap.root is not None:
                return
            for part in sorted(self._stale | set(range(len(self._parts),
                                                       -(-len(self._buckets) // _PART)))):
                contents = self._buckets[part * _PART : (part + 1) * _PART].tobytes()
                if part < len(self._parts):
                    self._heap.resize(self._parts[part], len(contents))
                    self._heap.write(self._parts[part], contents)
                else:
                    self._parts.append(self._heap.alloc(contents))
            self._stale.clear()
            record = _ROOT.pack(_MAGIC, self._len, len(self._buckets))
            record += array("Q", self._parts).tobytes()
            root = self._heap.root
            if root is None:
                self._heap.root = self._heap.alloc(record)
            else:
                self._heap.resize(root, len(record))
                self._heap.write(root, record)
            self._changed = False


def _checked(key: Any) -> bytes:
    if isinstance(key, bytes):
        return key
    if isinstance(key, (bytearray, memoryview)):
        return bytes(key)
    raise TypeError(f"a key is of bytes, not {type(key).__name__}")
