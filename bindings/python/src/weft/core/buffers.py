"""Where the memory behind an argument lies, its element type and count. Nothing is copied.

A buffer is what has the buffer protocol (numpy, array, bytearray, memoryview, ctypes), a producer of DLPack (torch, JAX on the CPU), an array
of ml_dtypes, a weft.Array, or a tuple (address, dtype, count). Rows without gaps, the last dimension fastest; others are refused, and so is an output that
is read-only.
"""
from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

from weft.core import dlpack
from weft.core.arrays import Array
from weft.core.types import ITEM_BYTES, DType, dtype_name, dtype_number

# (address, number of the dtype, count, what keeps the memory)
View = tuple[int, int, int, object]
NOTHING: View = (0, 0, 0, None)

_NATIVE = {"b": DType.INT8, "B": DType.UINT8, "i": DType.INT32, "I": DType.UINT32, "l": DType.INT64, "L": DType.UINT64, "q": DType.INT64,
           "Q": DType.UINT64, "n": DType.INT64, "N": DType.UINT64, "e": DType.FLOAT16, "f": DType.FLOAT32, "d": DType.FLOAT64, "?": DType.BOOL}
# With a sign for the byte order: standard sizes. ctypes writes `<l` for its c_long, which has 8 bytes, others for one of 4: _of_protocol looks.
_STANDARD = {code: dtype for code, dtype in _NATIVE.items() if code not in "lLnN"}
_ORDER = "<" if sys.byteorder == "little" else ">"
# Number of the dtype and shift to its bytes by the format of struct. `@` and none: as the compiler has it; `=`, and `<` on little-endian
# machines: this byte order.
FORMATS: dict[str, tuple[int, int]] = {
    order + code: (int(dtype), ITEM_BYTES[dtype].bit_length() - 1)
    for orders, codes in ((("", "@"), _NATIVE), (("=", _ORDER), _STANDARD)) for order in orders for code, dtype in codes.items()
}
_LONGS = {("l", 8): int(DType.INT64), ("L", 8): int(DType.UINT64), ("l", 4): int(DType.INT32), ("L", 4): int(DType.UINT32)}
# numpy's name of a type of ml_dtypes. Its float8_e4m3 has infinities, weft's, which is ml_dtypes' ..fn, has not.
_EXTENSIONS = {"bfloat16": int(DType.BFLOAT16), "float8_e4m3fn": int(DType.FLOAT8_E4M3), "float8_e5m2": int(DType.FLOAT8_E5M2)}


class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_void_p), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes, _get_buffer.restype = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int], ctypes.c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes, _release_buffer.restype = [ctypes.c_void_p], None

_exported = ctypes.c_char.from_buffer
_address_of = ctypes.addressof


def writable(buffer: Any, name: str) -> View:
    """Of an output, or of what is changed in place. `name` is the argument's, for messages."""
    try:
        view = memoryview(buffer)
        exported = _exported(view)  # refuses what is read-only, has gaps or is empty
        dtype, shift = FORMATS[view.format]
        return _address_of(exported), dtype, view.nbytes >> shift, exported
    except (TypeError, ValueError, KeyError, BufferError):
        pass
    return _unusual(buffer, name, write=True)


def readable(buffer: Any, name: str) -> View:
    """Of an input, which may be read-only."""
    try:
        view = memoryview(buffer)
        exported = _exported(view)
        dtype, shift = FORMATS[view.format]
        return _address_of(exported), dtype, view.nbytes >> shift, exported
    except (TypeError, ValueError, KeyError, BufferError):
        pass
    return _unusual(buffer, name, write=False)


class _Found(NamedTuple):
    address: int
    dtype: int
    elements: int
    read_only: bool
    contiguous: bool
    kept: object


def _unusual(buffer: Any, name: str, write: bool) -> View:
    if isinstance(buffer, tuple):
        return _of_tuple(buffer, name)
    if isinstance(buffer, Array):
        return buffer.view()
    found = _of_protocol(buffer, name) or _of_extension_type(buffer) or _of_dlpack(buffer, name)
    if found is None:
        raise TypeError(f"{name} is a {type(buffer).__name__}; it must have the buffer protocol or DLPack, or be (address, dtype, count)")
    if not found.contiguous:
        raise ValueError(f"{name} has gaps or another order than rows, which weft does not copy together; pass a contiguous array")
    if write and (found.read_only or _is_immutable(buffer)):
        raise ValueError(f"{name} is read-only, and weft would write to it")
    return found.address if found.elements else 0, found.dtype, found.elements, found.kept


def _is_immutable(buffer: Any) -> bool:
    """JAX says so of no array whose type the buffer protocol lacks."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(buffer, jax.Array)


def _of_tuple(buffer: tuple[Any, ...], name: str) -> View:
    if len(buffer) != 3:
        raise ValueError(f"{name} is a tuple of {len(buffer)}; a tuple is (address, dtype, count)")
    address, dtype, count = buffer
    if not isinstance(address, int) or not isinstance(count, int) or not 0 <= address < 1 << 64 or not 0 <= count < 1 << 64:
        raise ValueError(f"{name} is ({address!r}, {dtype!r}, {count!r}); address and count must be whole numbers from 0, of at most 64 bits")
    return address, dtype_number(dtype), count, None


def _of_protocol(buffer: Any, name: str) -> _Found | None:
    try:
        view = memoryview(buffer)
    except (TypeError, ValueError, BufferError):  # numpy refuses a view of types that it does not have itself
        return None
    dtype = _LONGS.get((view.format.lstrip("@=" + _ORDER), view.itemsize), FORMATS.get(view.format, (None,))[0])
    if dtype is None or ITEM_BYTES[dtype] != view.itemsize:
        raise TypeError(f"{name} has elements of format {view.format!r} with {view.itemsize} bytes; weft has "
                        f"{', '.join(known.name.lower() for known in DType)}, in this machine's byte order")
    contiguous, address = view.c_contiguous, 0
    if contiguous:
        described = _PyBuffer()
        _get_buffer(view, ctypes.byref(described), 0)
        address = described.buf or 0
        _release_buffer(ctypes.byref(described))  # `view` goes on holding the memory
    return _Found(address, dtype, view.nbytes // view.itemsize, view.readonly, contiguous, view)


def _of_extension_type(array: Any) -> _Found | None:
    """Of numpy's arrays with a type of ml_dtypes, known by its name."""
    interface = getattr(array, "__array_interface__", None)
    dtype = _EXTENSIONS.get(str(getattr(array, "dtype", "")))
    if not isinstance(interface, dict) or dtype is None:
        return None
    count = 1
    for length in interface["shape"]:
        count *= length
    address, read_only = interface["data"]
    return _Found(address, dtype, count, read_only, interface.get("strides") is None, array)


def _of_dlpack(producer: Any, name: str) -> _Found | None:
    if not hasattr(producer, "__dlpack__"):
        return None
    try:
        found = dlpack.describe(producer)
    except (TypeError, BufferError, RuntimeError) as refused:  # the producer may have a reason of its own, too
        raise TypeError(f"{name}: {refused}") from None
    return _Found(found.address, int(found.dtype), found.elements, found.read_only, found.contiguous, found.capsule)


def same_type(first: View, first_name: str, second: View, second_name: str) -> None:
    if first[1] != second[1]:
        raise ValueError(f"{first_name} has elements of {dtype_name(first[1])}, {second_name} of {dtype_name(second[1])}")


def same(first: View, first_name: str, second: View, second_name: str, first_share: int = 1, second_share: int = 1) -> None:
    """Refuses two buffers of different types, or whose counts do not stand to each other as the shares do."""
    if first[1] != second[1]:
        same_type(first, first_name, second, second_name)
    if first[2] * second_share != second[2] * first_share:
        raise ValueError(f"{first_name} has {first[2]} elements and {second_name} has {second[2]}; "
                         + (f"{second_name} must have {first[2] * second_share}" if first_share == 1 else f"{first_name} must have {second[2] * first_share}"))


def share(view: View, size: int, name: str) -> int:
    """The count of one rank's part."""
    count, rest = divmod(view[2], size)
    if rest:
        raise ValueError(f"{name} has {view[2]} elements, which {size} ranks cannot share equally")
    return count


def part(view: View, first: int, count: int) -> View:
    """`count` elements from element `first` on."""
    return view[0] + first * ITEM_BYTES[view[1]] if view[0] else 0, view[1], count, view[3]
