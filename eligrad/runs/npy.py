"""Arrays in NumPy's own format, out of files that may come from anyone.

Nothing in them is executed, and none can claim more memory than it has bytes.
"""

from __future__ import annotations

import math
import re
import struct

import numpy as np

_MAGIC = b"\x93NUMPY\x01\x00"
_LENGTH = struct.Struct("<H")
# As NumPy writes it for arrays of numbers. NumPy itself would evaluate it as Python.
_HEADER = re.compile(
    rb"\{'descr': '([<>|][?a-zA-Z]\d*)', 'fortran_order': (False|True), "
    rb"'shape': \(((?:\d+, ?)*\d*)\), \} *\n"
)


def read_array(raw: bytes) -> np.ndarray:
    """The array that `numpy.lib.format.write_array` made these bytes of; ValueError for others."""
    begin = len(_MAGIC) + _LENGTH.size
    if len(raw) < begin or not raw.startswith(_MAGIC):
        raise ValueError("it does not begin like an array of NumPy's format 1.0")
    end = begin + _LENGTH.unpack_from(raw, len(_MAGIC))[0]
    header = _HEADER.fullmatch(raw[begin:end])
    if header is None:
        raise ValueError(f"it is no array of numbers: {raw[begin:end]!r:.200}")
    dtype = np.dtype(header[1].decode())
    if dtype.hasobject:
        raise ValueError("it holds Python objects, and is not unpickled: that could run anything")
    shape = tuple(int(size) for size in re.findall(rb"\d+", header[3]))
    if math.prod(shape) * dtype.itemsize != len(raw) - end:
        raise ValueError(f"{len(raw) - end} bytes for an array of shape {shape} and dtype {dtype}")
    order = "F" if header[2] == b"True" else "C"
    return np.ndarray(shape, dtype, buffer=raw, offset=end, order=order).copy(order)
