"""Data of other libraries to something Arrow can stream, and results to the forms of other
libraries.

Nothing here is imported before it is needed: pandas, Polars, PyArrow and NumPy are all optional,
and are recognised by the module their classes come from, so that recognising one never imports it.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from . import _internal
from .errors import DataError, InterfaceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy
    import pandas  # type: ignore[import-untyped,unused-ignore]
    import polars
    import pyarrow  # type: ignore[import-untyped,unused-ignore]


#: What PyArrow and pandas raise at values that they have no place for.
UNFIT = (ArithmeticError, NotImplementedError, TypeError, ValueError)


def import_optional(module: str, purpose: str) -> Any:
    """Imports ``module``, or says what it is needed for and how to get it."""
    try:
        return __import__(module, fromlist=["_"])
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"{purpose} needs the package {package}: pip install {package}"
        ) from error


def is_streamable(data: object) -> bool:
    """Whether `to_stream` can make a table of it: says nothing about its contents, and consumes
    nothing.
    """
    library, kind = _origin(data)
    if library == "pyarrow":
        tables = ("Table", "RecordBatch", "RecordBatchReader", "Scanner")
        return kind in tables or hasattr(data, "scanner")
    if library == "pandas":
        return kind in ("DataFrame", "Series")
    if library == "polars":
        return kind in ("LazyFrame", "DataFrame", "Series")
    if library == "numpy":
        return kind == "ndarray"
    # A result of a statement without rows, such as CREATE TABLE, is no table.
    ours = type(data).__module__.partition(".")[0] == "swingdb"
    if ours and not getattr(data, "description", True):
        return False
    if isinstance(data, dict) or hasattr(data, "__arrow_c_stream__"):
        return True
    if hasattr(data, "__arrow_c_array__"):
        return True
    return isinstance(data, list) and bool(data) and isinstance(data[0], dict)


def to_stream(data: Any) -> Any:
    """An object with ``__arrow_c_stream__`` or ``__arrow_c_array__`` that holds the same table as
    ``data``.

    Takes Arrow tables, batches, readers and data sets, pandas and Polars frames and series, dicts
    of columns, lists of dicts, NumPy arrays, and whatever exports the Arrow PyCapsule interface.
    Layouts Arrow shares are not copied.
    """
    library, kind = _origin(data)
    if library == "pandas":
        return _from_pandas(data, kind)
    if library == "polars":
        return _from_polars(data, kind)
    if library == "pyarrow" and hasattr(data, "scanner"):
        return data.scanner().to_reader()
    if library == "pyarrow" and kind == "Scanner":
        return data.to_reader()
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return data
    if library == "numpy" and kind == "ndarray":
        return _from_columns(_numpy_fields(data))
    if hasattr(data, "__dlpack__") and hasattr(data, "__dlpack_device__"):
        return _from_columns(_numpy_fields(_tensor(data)))
    if isinstance(data, dict):
        return _from_columns(data)
    if isinstance(data, list) and data and isinstance(data[0], dict):
        return _from_records(data)
    raise InterfaceError(
        f"cannot make a table of a {type(data).__module__}.{type(data).__qualname__}: "
        "expected Arrow, pandas or Polars data, a dict of columns, a list of dicts, "
        "or an object with __arrow_c_stream__"
    )


def to_arrow(batches: _internal.Batches, *, views: bool) -> pyarrow.Table:
    """A ``pyarrow.Table`` over the same buffers, but for text, unless ``views`` is true."""
    library = import_optional("pyarrow", ".arrow()")
    table: pyarrow.Table = library.table(batches if views else batches.without_views())
    return table


def to_polars(source: Any) -> polars.DataFrame:
    """A ``polars.DataFrame``, sharing the buffers whose layout Polars shares with Arrow."""
    library = import_optional("polars", ".pl()")
    try:
        frame: polars.DataFrame = library.DataFrame(source)
    except BaseException as error:
        # Polars panics at a type that it does not have, such as INTERVAL. Its class for that is no
        # Exception, so that nobody would catch it.
        if type(error).__name__ != "PanicException":
            raise
        raise DataError(f"Polars cannot hold this result: {error}; ask for .arrow()") from error
    return frame


def to_pandas(batches: _internal.Batches) -> pandas.DataFrame:
    """A ``pandas.DataFrame``, through PyArrow if there is one, else through NumPy.

    Whole numbers stay whole beside NULL: a column of them is of a nullable type then, for a float
    has no more than 53 bits.
    """
    library = import_optional("pandas", ".df()")
    frame: pandas.DataFrame
    try:
        table = to_arrow(batches, views=False)
    except ImportError:
        frame = library.DataFrame(to_numpy(batches))
        return frame
    try:
        frame = frame_of(table)
    except UNFIT as error:
        # Years beyond 9999, for one.
        raise DataError(
            f"pandas cannot hold this result: {_reason(error)}; ask for .arrow()"
        ) from error
    return frame


def frame_of(table: pyarrow.Table) -> pandas.DataFrame:
    """The frame of a table. Whole numbers with NULLs among them get a nullable type; in lists and
    structs they become objects.
    """
    library = import_optional("pandas", ".df()")
    types = import_optional("pyarrow", ".df()").types
    table = _with_fitting_notes(table)
    for index, column in enumerate(table.columns):
        if types.is_dictionary(column.type):
            table = table.set_column(index, table.field(index).name, _categories(column))
    whole = {
        index: column
        for index, column in enumerate(table.columns)
        if types.is_integer(column.type) and column.null_count
    }
    for index, column in whole.items():
        # They get their numbers below.
        table = table.set_column(index, table.field(index), column.fill_null(0))
    frame: pandas.DataFrame = table.to_pandas(integer_object_nulls=True)
    for index, column in whole.items():
        signed = types.is_signed_integer(column.type)
        name = f"{'Int' if signed else 'UInt'}{column.type.bit_width}Dtype"
        frame.isetitem(index, getattr(library, name)().__from_arrow__(column))
    return frame


def _with_fitting_notes(table: pyarrow.Table) -> pyarrow.Table:
    """The table with pandas' notes about the columns whose types still are those noted.

    A frame notes the types of its columns, and a query hands the notes on with the names:
    in ``SELECT a::VARCHAR AS a`` the note about ``a`` is none about the result.
    """
    notes = table.schema.pandas_metadata
    if not notes:
        return table
    place = {name: index for index, name in enumerate(table.column_names)}
    fitting = [
        note
        for note in notes["columns"]
        if note["field_name"] in place
        and _is_noted(note["numpy_type"], table.field(place[note["field_name"]]).type)
    ]
    if len(fitting) == len(notes["columns"]):
        return table
    notes = json.dumps({**notes, "columns": fitting}).encode()
    return table.replace_schema_metadata({**table.schema.metadata, b"pandas": notes})


def _is_noted(dtype: str, arrow: pyarrow.DataType) -> bool:
    """Whether pandas makes Arrow's type ``arrow`` of what it calls ``dtype``."""
    library = import_optional("pandas", ".df()")
    pyarrow = import_optional("pyarrow", ".df()")
    try:
        noted = library.api.types.pandas_dtype(dtype)
        if not hasattr(noted, "__from_arrow__"):
            return True
        made = pyarrow.array(library.array([], dtype=noted)).type
    except UNFIT:
        return False
    is_text = pyarrow.types.is_string, pyarrow.types.is_large_string
    both_text = all(any(is_kind(of) for is_kind in is_text) for of in (made, arrow))
    return both_text or made.equals(arrow)


def _categories(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """A dictionary column as pandas takes it, which wants each category once, and no NULL among
    them. Functions keep the dictionary of what they are called with: ``lower(c)`` may have a
    value twice, and a number that is computed is no category.
    """
    if all(_is_of_categories(chunk.dictionary) for chunk in column.chunks):
        return column
    pyarrow = import_optional("pyarrow", ".df()")
    values = column.cast(column.type.value_type)
    is_text = pyarrow.types.is_string(values.type) or pyarrow.types.is_large_string(values.type)
    return values.dictionary_encode() if is_text else values


def _is_of_categories(dictionary: pyarrow.Array) -> bool:
    try:
        return not dictionary.null_count and len(dictionary.unique()) == len(dictionary)
    except NotImplementedError:
        # Of lists, for one.
        return False


def to_numpy(batches: _internal.Batches) -> dict[str, numpy.ndarray[Any, Any]]:
    """A dict from column name to NumPy array; columns with NULLs become masked arrays.

    Numbers without NULLs that lie in one piece are views of the result's memory (read-only), not
    copies.
    """
    library = import_optional("numpy", ".fetchnumpy()")
    arrays: dict[str, numpy.ndarray[Any, Any]] = {}
    for index, column in enumerate(batches.columns):
        values, mask = batches.numpy(index)
        if isinstance(values, list):
            array = library.empty(len(values), dtype=object)
            array[:] = values
        else:
            array = library.asarray(values)
        if mask is not None:
            array = library.ma.masked_array(array, mask=library.asarray(mask))
        arrays[_free_name(column[0], arrays)] = array
    return arrays


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    """``name``, or ``name_1`` and so on when a result has several columns of that name."""
    candidate, number = name, 0
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def _origin(data: object) -> tuple[str, str]:
    """The top-level module and the name of the class among ``type(data)``'s bases that a known
    library defines.
    """
    for cls in type(data).__mro__:
        library = cls.__module__.partition(".")[0]
        if library in ("pandas", "polars", "pyarrow", "numpy"):
            return library, cls.__name__
    return "", type(data).__name__


def _from_polars(data: Any, kind: str) -> Any:
    """A frame of Polars, or a table of its columns where Polars exports what Arrow does not have:
    a buffer of a column of nothing but NULL. Of Python's objects it exports addresses.
    """
    if kind == "LazyFrame":
        data = data.collect()
    if kind == "Series":
        data = data.to_frame()
    for name, dtype in zip(data.columns, data.dtypes, strict=True):
        if _has_objects(dtype):
            raise InterfaceError(f"column {name!r} holds objects of Python, which have no SQL type")
    has_nothing = any("Null" in str(dtype) for dtype in data.dtypes)
    return data.to_arrow() if has_nothing else data


def _has_objects(dtype: Any) -> bool:
    """Whether values of a type of Polars hold Python's objects."""
    inner = [getattr(dtype, "inner", None), *(f.dtype for f in getattr(dtype, "fields", ()))]
    return str(dtype) == "Object" or any(_has_objects(of) for of in inner if of is not None)


def _from_pandas(data: Any, kind: str) -> Any:
    """The columns of a pandas object; its index is dropped unless it has a name."""
    frame = (
        data.to_frame(name=data.name if data.name is not None else "0")
        if kind == "Series"
        else data
    )
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    if not all(isinstance(name, str) for name in frame.columns):
        frame = frame.rename(columns=str)
    try:
        pyarrow = import_optional("pyarrow", "a pandas frame")
    except ImportError:
        return _from_columns(
            {name: frame[name].to_numpy() for name in frame.columns}, nan_is_null=True
        )
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        # Arrow has numbers for them, which say nothing without their frequency.
        if str(dtype).startswith("period["):
            raise DataError(f"column {name!r} holds periods; convert it with .dt.to_timestamp()")
    try:
        return _with_own_columns(frame, pyarrow)
    except UNFIT as error:
        # Complex numbers, for one.
        raise DataError(f"cannot make a table of this pandas frame: {_reason(error)}") from error


def _with_own_columns(frame: Any, pyarrow: Any) -> pyarrow.Table:
    """The table of a frame. PyArrow takes the type of the first object for that of a column: a
    datetime among dates would lose its time, an instant among naive ones its zone. So columns
    of such objects, and those that it cannot convert, go through `_internal`.
    """
    own = {}
    if frame.columns.is_unique:
        for name in frame.columns[frame.dtypes == object]:
            try:
                if not _depends_on_first(pyarrow.array(frame[name], from_pandas=True).type):
                    continue
            except UNFIT:
                pass
            own[name] = frame[name]
    if not own:
        return pyarrow.Table.from_pandas(frame, preserve_index=False)
    made = {}
    for name, values in own.items():
        try:
            batches = _from_columns({name: values}).without_views()
        except (DataError, InterfaceError) as error:
            message = f"cannot make a table of this pandas frame: {_reason(error)} ({name})"
            raise DataError(message) from error
        made[name] = pyarrow.table(batches).column(0)
    rest = frame.assign(**dict.fromkeys(made, 0))
    table = pyarrow.Table.from_pandas(rest, preserve_index=False)
    for place, name in enumerate(frame.columns):
        if name in made:
            table = table.set_column(place, name, made[name])
    return table


def _depends_on_first(of: pyarrow.DataType) -> bool:
    """Whether PyArrow makes values of other classes those of the first, for columns of this type
    or with such inside.
    """
    types = import_optional("pyarrow", "a pandas frame").types
    if types.is_nested(of):
        return any(_depends_on_first(of.field(index).type) for index in range(of.num_fields))
    return bool(types.is_temporal(of) or types.is_binary(of))


def _reason(error: Exception) -> str:
    """What an exception says, in one line."""
    return "; ".join(map(str, error.args)) or type(error).__name__


def _numpy_fields(array: Any) -> dict[str, Any]:
    """A structured array's fields, a matrix's columns, or the one column of a vector."""
    if array.dtype.names:
        return {name: array[name] for name in array.dtype.names}
    if array.ndim == 1:
        return {"column0": array}
    if array.ndim == 2:
        return {f"column{index}": array[:, index] for index in range(array.shape[1])}
    raise InterfaceError(f"cannot make a table of an array of {array.ndim} dimensions")


def _from_records(records: Sequence[dict[str, Any]]) -> _internal.Batches:
    """Columns of dicts of values; a key that is missing in a record is NULL there."""
    names = dict.fromkeys(name for record in records for name in record)
    return _from_columns({str(name): [record.get(name) for record in records] for name in names})


def columns_of_rows(
    rows: Sequence[Any], width: int, doubles: Sequence[bool]
) -> _internal.Batches | None:
    """Rows of ``width`` values as columns ``c0``, ``c1`` ...; None if they cannot be stored at once
    as they would be one by one. ``doubles``: which columns are stored as DOUBLE.
    """
    if not all(isinstance(row, (list, tuple)) and len(row) == width for row in rows):
        return None
    columns = [(f"c{index}", [row[index] for row in rows]) for index in range(width)]
    try:
        return _internal.batches_of_alike(columns, doubles)
    except (DataError, InterfaceError):
        # Row by row, the statement itself says what fits.
        return None


def _from_columns(columns: Mapping[Any, Any], *, nan_is_null: bool = False) -> _internal.Batches:
    """Columns of Python sequences, NumPy arrays and Arrow arrays."""
    prepared: list[tuple[str, Any, str | None, Any]] = []
    for name, values in columns.items():
        library = _origin(values)[0]
        if library == "pandas":
            # A series; its own exporter would need PyArrow.
            prepared.append((str(name), *_numpy_column(values.to_numpy(), nan_is_null=True)))
        elif hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
            prepared.append((str(name), values, None, None))
        elif library == "numpy" and hasattr(values, "dtype"):
            prepared.append((str(name), *_numpy_column(values, nan_is_null=nan_is_null)))
        elif hasattr(values, "__dlpack__") and hasattr(values, "__dlpack_device__"):
            prepared.append((str(name), *_numpy_column(_tensor(values), nan_is_null=False)))
        elif isinstance(values, (list, tuple)):
            prepared.append((str(name), values, None, None))
        elif isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
            # The characters of a text would be rows.
            kind = type(values).__name__
            raise InterfaceError(
                f"column {name!r} is a {kind}: expected its values, such as a list (one row: "
                "a list of one value)"
            )
        else:
            prepared.append((str(name), list(values), None, None))
    return _internal.batches_from_columns(prepared)


def _tensor(data: Any) -> Any:
    from ._tensors import from_dlpack

    return from_dlpack(data)


def _numpy_column(array: Any, *, nan_is_null: bool) -> tuple[Any, str | None, Any]:
    """(values, kind, mask): values with the buffer protocol and NumPy's name for their type, or a
    list; the mask is 1 where a value is NULL.
    """
    numpy = sys.modules["numpy"]
    mask = None
    if array.ndim != 1:
        return _rows_of_array(array), None, None
    if isinstance(array, numpy.ma.MaskedArray):
        mask = numpy.require(numpy.ma.getmaskarray(array), requirements="CA").view(numpy.uint8)
        array = array.data
    kind, width = array.dtype.kind, array.dtype.itemsize
    if kind in "Mm":
        unit = numpy.datetime_data(array.dtype)[0]
        if kind == "m" and unit in ("Y", "M"):
            raise InterfaceError("a timedelta64 of months or years has no length; use INTERVAL")
        if unit in ("ps", "fs", "as"):
            unit = "ns"
        elif unit not in ("s", "ms", "us", "ns"):
            unit = "s"
        array = numpy.require(array, f"{kind}8[{unit}]", "CA")
        return array.view(numpy.int64), f"{kind}8[{unit}]", mask
    if kind == "b":
        return numpy.require(array, requirements="CA").view(numpy.uint8), "bool", mask
    if kind in "iuf" and width <= 8:
        # The buffer protocol has no name for half floats that all readers know.
        wanted = "f4" if (kind, width) == ("f", 2) else f"{kind}{width}"
        array = numpy.require(array, wanted, "CA")
        if kind == "f" and nan_is_null and mask is None:
            mask = numpy.isnan(array).view(numpy.uint8)
        return array, wanted, mask
    values = array.tolist()
    if mask is not None:
        pairs = zip(values, mask.tolist(), strict=True)
        values = [None if hidden else value for value, hidden in pairs]
    if nan_is_null:
        values = [None if _is_nan(value) else value for value in values]
    return values, None, None


def _rows_of_array(array: Any) -> list[Any]:
    """What an array of several dimensions has for each row: a list, of lists if need be."""
    if array.ndim == 0:
        raise InterfaceError(
            "a column is an array without dimensions: expected its values (one row: an array of "
            "one value)"
        )
    if array.dtype.kind not in "Mm":
        rows: list[Any] = array.tolist()
        return rows
    # NumPy hands out numbers for what is finer than microseconds; each row by itself keeps it.
    if hasattr(array, "mask"):
        masked: list[Any] = array.astype(f"{array.dtype.kind}8[us]").tolist()
        return masked
    return list(array)


def _is_nan(value: Any) -> bool:
    # The only value of Python that differs from itself.
    return isinstance(value, float) and value != value  # noqa: PLR0124
