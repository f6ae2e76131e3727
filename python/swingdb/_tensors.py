"""Columns and areas as tensors: DLPack, PyTorch, and memory that a GPU can copy from by itself.

A tensor shows the memory of the column or area and keeps it, and with it the lease on the state.
Columns are read-only: who wants to change a tensor of one clones it.
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import TYPE_CHECKING, Any

from . import _cuda, _internal
from ._convert import import_optional
from .errors import DataError, ProgrammingError
from .types import SqlType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy

#: DLPack's number of the device whose memory this is.
_CPU = (1, 0)
#: Bytes that are registered together: enough for the cost of each registration to vanish.
_GROUP = 256 << 20


class Column:
    """One column of a relation's rows, as an array or tensor; what :meth:`Relation.column` gives.

    >>> import numpy as np, swingdb
    >>> con = swingdb.connect()
    >>> _ = con.execute("CREATE TABLE t AS SELECT range / 2.0::DOUBLE AS km FROM range(4)")
    >>> np.from_dlpack(con.table("t").column("km"))
    array([0. , 0.5, 1. , 1.5])
    """

    __slots__ = ("_batches", "_index", "name", "type")

    def __init__(self, batches: _internal.Batches, index: int) -> None:
        # Not called by users.
        name, kind, family = batches.columns[index][:3]
        self._batches = batches
        self._index = index
        #: The name of the column.
        self.name: str = name
        #: Its SQL type.
        self.type = SqlType(kind, family)

    def numpy(self) -> numpy.ndarray[Any, Any]:
        """The values as an array; numbers in one piece are not copied."""
        return numbers(self._batches, self._index)

    def torch(self, *, pin: bool = False) -> Any:
        """The values as a tensor of PyTorch; see :meth:`Relation.torch`."""
        return to_torch({self.name: self.numpy()}, pin=pin)[self.name]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.numpy()
        return array.astype(dtype or array.dtype, copy=bool(copy))

    def __dlpack__(self, **wanted: Any) -> Any:
        """The values by DLPack: read-only memory, which takes a consumer of DLPack 1.0."""
        return self.numpy().__dlpack__(**wanted)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU

    def __len__(self) -> int:
        return self._batches.num_rows

    def __repr__(self) -> str:
        return f"<swingdb.Column {self.name!r}, {self.type}, {len(self)} rows>"


def find(names: Sequence[str], name: str) -> int:
    """The place of a column."""
    exact = [index for index, each in enumerate(names) if each == name]
    found = exact or [i for i, each in enumerate(names) if each.lower() == name.lower()]
    if len(found) != 1:
        which = "no column" if not found else "more than one column"
        raise ProgrammingError(f"{which} {name!r}; there are {', '.join(map(repr, names))}")
    return found[0]


def numbers(batches: _internal.Batches, index: int) -> numpy.ndarray[Any, Any]:
    """A column as an array of numbers, which a tensor can be made of."""
    library = import_optional("numpy", "a tensor")
    name, kind = batches.columns[index][:2]
    values, mask = batches.numpy(index)
    if isinstance(values, list):
        raise DataError(
            f"column {name!r} is {kind}, which a tensor does not hold: leave it out, or compute "
            f"numbers of it in the query, such as {name}::DOUBLE"
        )
    if mask is not None:
        raise DataError(
            f"column {name!r} has NULLs, and a tensor has none: use coalesce({name}, ...), or "
            f"WHERE {name} IS NOT NULL"
        )
    array: numpy.ndarray[Any, Any] = _without_times(name, kind, library.asarray(values))
    return array


def _without_times(name: str, kind: object, array: Any) -> Any:
    if array.dtype.kind in "mM":
        raise DataError(
            f"column {name!r} is {kind}, and a tensor holds numbers: use epoch_us({name})"
        )
    return array


def pieces(source: Any) -> Iterator[dict[str, numpy.ndarray[Any, Any]]]:
    """The arrays of each piece of memory that the rows lie in."""
    pyarrow = import_optional("pyarrow", ".pieces()")
    for batch in pyarrow.RecordBatchReader.from_stream(source):
        yield {
            name: _piece(name, column)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }


def _piece(name: str, column: Any, *, booleans: bool = False) -> Any:
    """The array of a column of a piece. With `booleans` those, which are bits, are copied."""
    if column.null_count:
        raise DataError(f"column {name!r} has NULLs, and an array of numbers has none")
    is_bits = booleans and str(column.type) == "bool"
    try:
        return column.to_numpy(zero_copy_only=not is_bits)
    except ValueError as error:
        raise DataError(
            f"column {name!r} is {column.type}, which NumPy has no such layout for: leave it out, "
            "or cast it in the query"
        ) from error


def to_torch(arrays: dict[Any, Any], *, pin: bool = False) -> dict[Any, Any]:
    """Tensors over the memory of arrays, which they keep."""
    torch = import_optional("torch", ".torch()")
    if pin:
        arrays = pinned(arrays)
    with warnings.catch_warnings():
        # That the memory is read-only is said in the documentation.
        warnings.filterwarnings("ignore", message=".*not writable", category=UserWarning)
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


def to_device(
    batches: _internal.Batches,
    names: Sequence[str],
    device: Any,
    *,
    pin: bool = False,
    kept: list[Any] | None = None,
) -> dict[str, Any]:
    """Tensors of a device, each piece of memory copied there from where it lies.

    Copies and registrations go side by side: the GPU fetches one group of pieces while the next one
    is registered. With ``pin`` the tensors over the registered memory are left in ``kept``, and
    found there the next time: then there is nothing to register.
    """
    torch = import_optional("torch", ".torch()")
    device = torch.device(device)
    if pin and device.type != "cuda":
        raise ProgrammingError(f"pin=True is for a device of CUDA, and this is {str(device)!r}")
    target: list[Any] = []
    used, at = [], 0
    for group in kept[0] if kept else _tensors_of(batches, names, pin=pin):
        used.append(group)
        for piece in group:
            if not target:
                empty = functools.partial(torch.empty, batches.num_rows, device=device)
                target = [empty(dtype=tensor.dtype) for tensor in piece]
            rows = len(piece[0])
            for column, tensor in zip(target, piece, strict=True):
                column[at : at + rows].copy_(tensor, non_blocking=pin)
            at += rows
    if pin and used:
        # Until here the GPU may read the memory.
        torch.cuda.synchronize(device)
        if kept is not None:
            kept[:] = [used]
    if not target:
        none = {name: numbers(batches, index) for index, name in enumerate(names)}
        target = [tensor.to(device) for tensor in to_torch(none).values()]
    return dict(zip(names, target, strict=True))


def _tensors_of(
    batches: _internal.Batches, names: Sequence[str], *, pin: bool
) -> Iterator[list[list[Any]]]:
    """Pieces, each with the tensors of its columns, in groups that are registered at once."""
    for group in _groups(batches, names):
        flat = {(i, k): array for i, piece in enumerate(group) for k, array in enumerate(piece)}
        tensors = to_torch(flat, pin=pin)
        yield [[tensors[i, k] for k in range(len(names))] for i in range(len(group))]


def _groups(batches: _internal.Batches, names: Sequence[str]) -> Iterator[list[list[Any]]]:
    """Pieces, each with the arrays of its columns, in groups of some size."""
    pyarrow = import_optional("pyarrow", ".torch(device=...)")
    group: list[list[Any]] = []
    size = 0
    for batch in pyarrow.RecordBatchReader.from_stream(batches):
        piece = [
            _without_times(name, column.type, _piece(name, column, booleans=True))
            for name, column in zip(names, batch.columns, strict=True)
        ]
        group.append(piece)
        size += sum(array.nbytes for array in piece)
        if size >= _GROUP:
            yield group
            group, size = [], 0
    if group:
        yield group


def pinned(arrays: dict[Any, Any]) -> dict[Any, Any]:
    """The same arrays, over memory that is registered with CUDA as long as they are used."""
    numpy = import_optional("numpy", "pin=True")
    spans = [(array.ctypes.data, array.nbytes) for array in arrays.values()]
    registered = _cuda.register(spans, list(arrays.values()))
    return {
        name: numpy.asarray(_Pinned(array, registered)) if array.nbytes else array
        for name, array in arrays.items()
    }


class _Pinned:
    """The memory of an array together with its registration: NumPy keeps both as the base."""

    __slots__ = ("__array_interface__", "_kept")

    def __init__(self, array: Any, registered: object) -> None:
        self._kept = (array, registered)
        self.__array_interface__ = dict(array.__array_interface__)


def from_dlpack(data: Any) -> Any:
    """An array over the memory of a tensor on the CPU."""
    numpy = sys.modules.get("numpy") or import_optional("numpy", "a tensor")
    if tuple(data.__dlpack_device__()) != _CPU:
        raise DataError("the tensor is in the memory of another device: move it to the CPU first")
    return numpy.from_dlpack(data)
