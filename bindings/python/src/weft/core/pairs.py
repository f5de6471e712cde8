"""Buffers of pairs (value, index), which MIN_LOC and MAX_LOC take.

An element has 16 bytes: the value at 0, an int64 at 8, as in numpy.dtype([("value", "f4"), ("index", "i8")], align=True) or a ctypes.Structure
of the two. Or a tuple (address, dtype of the value, count of pairs).
"""
from __future__ import annotations

import re
import sys
from typing import Any

from weft.core import buffers
from weft.core.buffers import View

_PAIR_BYTES = 16
# The value and its padding, as "xxxx", as "4x", or not mentioned (by ctypes of some Pythons), then the index; names stand between colons, and each may
# have a sign for this machine's byte order.
_ORDER = "[@=^<]?" if sys.byteorder == "little" else "[@=^>]?"
_PAIR = re.compile(rf"T\{{{_ORDER}([bBiIlLqQefd]):[^:]*:(x*|\dx){_ORDER}[lq]:[^:]*:\}}")


def writable(buffer: Any, name: str) -> View:
    return _pairs(buffer, name, write=True)


def readable(buffer: Any, name: str) -> View:
    return _pairs(buffer, name, write=False)


def part(view: View, first: int, count: int) -> View:
    """`count` pairs from pair `first` on."""
    return view[0] + first * _PAIR_BYTES if view[0] else 0, view[1], count, view[3]


def _pairs(buffer: Any, name: str, write: bool) -> View:
    if isinstance(buffer, tuple):
        return buffers.readable(buffer, name)
    try:
        view = memoryview(buffer)
    except (TypeError, ValueError, BufferError):
        raise TypeError(f"{name} is a {type(buffer).__name__} without the buffer protocol; {_WANTED}") from None
    found = _PAIR.fullmatch(view.format)
    dtype, shift = buffers.FORMATS[found[1]] if found else (0, 0)
    padding = found[2] if found else ""
    if found is None or int(padding[0] if padding[:1].isdigit() else len(padding)) not in (0, 8 - (1 << shift)) or (view.nbytes and view.itemsize != _PAIR_BYTES):
        raise TypeError(f"{name} has elements of format {view.format!r} with {view.itemsize} bytes; {_WANTED}")
    if not view.c_contiguous:
        raise ValueError(f"{name} has gaps or another order than rows, which weft does not copy together; pass a contiguous array")
    if write and view.readonly:
        raise ValueError(f"{name} is read-only, and weft would write to it")
    address, _, count_bytes, kept = buffers.readable(view.cast("B") if view.nbytes else b"", name)
    return address, dtype, count_bytes // _PAIR_BYTES, kept


_WANTED = ("min_loc and max_loc take pairs of 16 bytes, a value at 0 and an int64 at 8, such as numpy.dtype([('value', 'f4'), ('index', 'i8')], align=True)")
