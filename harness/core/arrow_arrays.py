"""Arrow arrays out of Python's lists and NumPy's arrays, and back, without pandas.

Guarantees: the same arrays as pyarrow's own conversions make, which all import pandas where it is installed; that takes
longer than to judge a short run. Out of scope: types other than those of a history's columns. pyarrow is
imported on use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dethrone.harness.core.columns import Bools, Ints

if TYPE_CHECKING:
    import pyarrow as pa


def array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of ``int64``, ``string`` or ``bool``; None is null. OverflowError: a number or all text is too large."""
    import pyarrow as pa

    there = np.fromiter((value is not None for value in values), np.bool_, len(values))
    valid = None if there.all() else _bits(there)
    if pa.types.is_string(kind):
        texts = [b"" if value is None else value.encode() for value in values]
        ends = np.cumsum([0, *map(len, texts)])
        if ends[-1] > np.iinfo(np.int32).max:
            raise OverflowError("the texts of a column are too long")
        buffers = [pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(texts))]
    elif pa.types.is_boolean(kind):
        buffers = [_bits(np.fromiter(map(bool, values), np.bool_, len(values)))]
    else:
        buffers = [pa.py_buffer(np.fromiter((value or 0 for value in values), np.int64, len(values)))]
    return pa.Array.from_buffers(kind, len(values), [valid, *buffers])


def mask(chosen: Bools) -> pa.Array:
    """What a batch is filtered by."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.bool_(), len(chosen), [None, _bits(chosen)])


def indices(places: Ints) -> pa.Array:
    """What rows are taken by."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(np.ascontiguousarray(places, np.int64))])


def numbers(column: pa.Array) -> Any:
    """The values of whole numbers, in NumPy's type of them; -1 where there is none."""
    if not len(column):
        return np.empty(0, np.int64)
    kind = np.dtype(str(column.type))
    values = np.frombuffer(column.buffers()[1], kind, len(column), column.offset * kind.itemsize)
    return np.where(known(column), values, kind.type(-1)) if column.null_count else values


def flags(column: pa.Array) -> Bools:
    """The values of ``bool``; False where there is none."""
    if not len(column):
        return np.empty(0, np.bool_)
    return _of_bits(column.buffers()[1], column) & known(column)


def known(column: pa.Array) -> Bools:
    """Where there is a value."""
    return _of_bits(column.buffers()[0], column) if column.null_count else np.ones(len(column), np.bool_)


def _bits(values: Bools) -> pa.Buffer:
    import pyarrow as pa

    return pa.py_buffer(np.packbits(values, bitorder="little"))


def _of_bits(buffer: pa.Buffer, column: pa.Array) -> Bools:
    end = column.offset + len(column)
    return np.unpackbits(np.frombuffer(buffer, np.uint8), count=end, bitorder="little")[column.offset :].view(np.bool_)
