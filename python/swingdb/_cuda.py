"""Memory that a GPU copies from by itself: registered with CUDA, whose library is found when it is
first asked for.

Memory is registered by whole pages, and a page cannot be registered twice. So what is registered is
kept in a list; what several arrays have in common is registered once, and unregistered when the
last of them is gone. A forked child has the arrays, but not the registrations, and ends none.
"""

from __future__ import annotations

import bisect
import ctypes
import glob
import mmap
import os
import sys
import threading
import weakref
from typing import Any

from .errors import OperationalError

#: The library's file: its plain name, then by version, newest first.
_NAMES = ("libcudart.so", *(f"libcudart.so.{version}" for version in (14, 13, 12, "11.0")))
#: For all contexts of the process; and only read, which memory of snapshots has to be.
_PORTABLE, _READ_ONLY = 0x01, 0x08

_lock = threading.RLock()
#: What is registered, by its first address, with what tells one registration from a later one.
_active: dict[int, tuple[weakref.ref[_Registration], object]] = {}
#: Its keys in order: a table has thousands of pieces.
_starts: list[int] = []
_library_found: list[Any] = []


class _Registration:
    """Pages that are registered; unregistered when nobody uses them any more."""

    __slots__ = ("__weakref__", "end", "start")

    def __init__(self, library: Any, start: int, end: int, kept: object) -> None:
        flags = _PORTABLE | _READ_ONLY
        error = library.cudaHostRegister(ctypes.c_void_p(start), end - start, flags)
        if error:
            text = library.cudaGetErrorString(error)
            # A later call of the program must not find the error of this one.
            library.cudaGetLastError()
            raise OperationalError(
                f"CUDA did not register {end - start} bytes of memory: "
                f"{text.decode(errors='replace')} (error {error})"
            )
        self.start, self.end = start, end
        token = object()
        _active[start] = weakref.ref(self), token
        bisect.insort(_starts, start)
        # The memory is an argument, so that it does not go before the registration.
        last = weakref.finalize(self, _unregister, library, start, token, os.getpid(), kept)
        # At the end of the process CUDA may have ended before.
        last.atexit = False


def register(spans: list[tuple[int, int]], kept: object) -> list[object]:
    """Registers the pages of (address, bytes) spans; what it returns keeps them, and ``kept``."""
    library = _library()
    with _lock:
        holding: list[object] = []
        for start, end in _pages(spans):
            holding += _cover(library, start, end, kept)
        return holding


def _pages(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pages of spans, in order, as ranges that do not touch each other."""
    size = mmap.PAGESIZE
    ranges = sorted(
        (start // size * size, -(-(start + length) // size) * size)
        for start, length in spans
        if length
    )
    merged: list[tuple[int, int]] = []
    for start, end in ranges:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _cover(library: Any, start: int, end: int, kept: object) -> list[object]:
    """Registrations that together hold a range: those that are there, and new ones between."""
    present: list[_Registration] = []
    # They do not overlap: the one that begins last before the range may reach into it.
    before = max(bisect.bisect_right(_starts, start) - 1, 0)
    for first in _starts[before : bisect.bisect_left(_starts, end)]:
        ref, token = _active[first]
        found = ref()
        if found is None:
            # Another thread has let go of it, and waits to say so.
            _unregister(library, first, token, os.getpid(), None)
        elif start < found.end:
            present.append(found)
    covering: list[object] = list(present)
    at = start
    for found in present:
        if at < found.start:
            covering.append(_Registration(library, at, found.start, kept))
        at = max(at, found.end)
    if at < end:
        covering.append(_Registration(library, at, end, kept))
    return covering


def _unregister(library: Any, start: int, token: object, process: int, kept: object) -> None:
    # `kept` is an argument so that the memory is still there.
    del kept
    if os.getpid() != process:
        return
    with _lock:
        known = _active.get(start)
        if known is not None and known[1] is token:
            del _active[start]
            del _starts[bisect.bisect_left(_starts, start)]
            library.cudaHostUnregister(ctypes.c_void_p(start))


def _library() -> Any:
    """CUDA's runtime: the one that the process has loaded, else one that the system finds."""
    with _lock:
        if not _library_found:
            _library_found.append(_prepared(_load()))
        return _library_found[0]


def _load() -> Any:
    names = [*_loaded(), *_NAMES, *_packaged()]
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OperationalError(
        "pin=True needs CUDA's runtime library, libcudart.so, and it was not found: install CUDA "
        "or PyTorch with CUDA, or leave pin out"
    )


def _loaded() -> list[str]:
    """The runtime that something else has loaded: a process should have one."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "libcudart" in line}
    except OSError:
        return []
    return sorted(path for path in paths if os.path.basename(path).startswith("libcudart"))


def _packaged() -> list[str]:
    """The runtime as NVIDIA's packages for Python bring it."""
    patterns = (f"{folder}/nvidia/*/lib/libcudart.so*" for folder in sys.path if folder)
    return sorted((path for pattern in patterns for path in glob.glob(pattern)), reverse=True)


def _prepared(library: Any) -> Any:
    library.cudaHostRegister.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]
    library.cudaHostUnregister.argtypes = [ctypes.c_void_p]
    library.cudaGetErrorString.restype = ctypes.c_char_p
    return library


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()
    _active.clear()
    _starts.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
