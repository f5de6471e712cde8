"""Memory of weft's that peers of the node reach directly, as arrays without numpy.

    a = weft.zeros((4, 3), "float32")     # numpy.asarray(a), torch.from_dlpack(a): views of the same memory
    comm.all_reduce(a)

An array's memory lives as long as the array or any view of it.

Thread-safety: as memory has it.
"""
from __future__ import annotations

import ctypes
import importlib
import math
import weakref
from collections.abc import Sequence
from operator import index
from typing import Any, cast

from weft import _capi
from weft._library import library
from weft.core import dlpack, interrupt
from weft.core.errors import check, refuse_inside_check
from weft.core.types import ITEM_BYTES, AnyDType, DType, dtype_number

# Types to which a memoryview can be cast.
_CODES = {DType.INT8: "b", DType.UINT8: "B", DType.INT32: "i", DType.UINT32: "I", DType.INT64: "q", DType.UINT64: "Q", DType.FLOAT32: "f",
          DType.FLOAT64: "d", DType.BOOL: "?"}
_HOST, _PINNED = (dlpack.CPU, 0), (dlpack.CUDA_HOST, 0)
_TYPES = {DType.BFLOAT16: "bfloat16", DType.FLOAT8_E4M3: "float8_e4m3fn", DType.FLOAT8_E5M2: "float8_e5m2"}  # of ml_dtypes


class Block(ctypes.c_void_p):
    """A block of weft_mem_alloc, freed with the last reference to it."""

    def __del__(self) -> None:
        if self.value:
            interrupt.later(_Free(self.value))


class _Free:
    def __init__(self, address: int) -> None:
        self._address = address

    def __call__(self) -> None:
        library.weft_mem_free(self._address)


class View:
    """What numpy and memoryviews hold of an array, and with it its block."""

    def __init__(self, block: object, address: int, shape: tuple[int, ...], typestr: str) -> None:
        self._held = block
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": typestr, "data": (address, False)}


class Shaped:
    """How many elements of which type an array has, wherever they are."""

    _shape: tuple[int, ...]
    _dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self._shape)

    @property
    def nbytes(self) -> int:
        return self.size * ITEM_BYTES[self._dtype]


class Array(Shaped):
    """Elements in rows without gaps, to be passed as a buffer, or viewed: `numpy.asarray`, `torch.from_dlpack`, `jax.numpy.from_dlpack`, `memory`."""

    def __init__(self, block: ctypes.c_void_p | None, shape: tuple[int, ...], dtype: DType, device: tuple[int, int] = _HOST) -> None:
        """Of the package's own use."""
        self._block, self._shape, self._dtype, self._device = block, shape, dtype, device
        self._views: weakref.WeakSet[View] = weakref.WeakSet()

    @property
    def address(self) -> int:
        """0 of no elements."""
        if self._block is None:
            if self.size:
                raise ValueError(f"{self!r} was given back")
            return 0
        return self._block.value or 0

    def view(self) -> tuple[int, int, int, object]:
        """Address, number of the dtype, elements, and what keeps the memory: for buffers.py."""
        return self.address, int(self._dtype), self.size, self._block

    @property
    def memory(self) -> memoryview:
        """The elements as a memoryview of that shape; of float16, bfloat16 and float8 their bytes."""
        if self.size == 0:
            return memoryview(bytearray(0))
        whole: Any = (ctypes.c_char * self.nbytes).from_address(self.address)
        whole.held = self._viewed()
        view: Any = memoryview(whole).cast("B")
        code = _CODES.get(self._dtype)
        view = view if code is None else view.cast(code, self._shape)
        return cast(memoryview, view)

    def __repr__(self) -> str:
        return f"<weft.{type(self).__name__} of {self._dtype.name.lower()}, shape {self._shape}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        numpy: Any = importlib.import_module("numpy")
        array = numpy.asarray(self._viewed()) if self.size else numpy.empty(self._shape, self._typestr())
        if self._dtype in _TYPES:
            array = array.view(getattr(importlib.import_module("ml_dtypes"), _TYPES[self._dtype]))
        if copy or (dtype is not None and dtype != array.dtype):
            if copy is False:
                raise ValueError(f"an array of {array.dtype} cannot be one of {dtype} without a copy")
            return array.astype(array.dtype if dtype is None else dtype)
        return array

    def __dlpack_device__(self) -> tuple[int, int]:
        return _HOST  # pinned memory too: frameworks refuse CUDA_HOST unless they ask for it

    def __dlpack__(self, *, stream: object = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None,
                   copy: bool | None = None) -> Any:
        device = _HOST if dl_device is None else dl_device
        if stream is not None or device not in (_HOST, self._device) or copy:
            raise BufferError("weft's memory is the host's, without streams, and is not copied")
        if self._block is None or max_version is None or max_version[0] < 1 or not self._owned_by_c():
            return self._dlpack_of_numpy(device)
        return tensor_of(self.address, self._shape, self._dtype, device)

    def _dlpack_of_numpy(self, device: tuple[int, int]) -> Any:
        if self._dtype not in _TYPES and device == _HOST:
            return self.__array__().__dlpack__()
        numpy: Any = importlib.import_module("numpy")
        return older_tensor_of(self._viewed() if self.size else numpy.empty(self._shape, self._typestr()), self._dtype, device)

    def _viewed(self) -> View:
        view = View(self._block, self.address, self._shape, self._typestr())
        self._views.add(view)
        return view

    def _owned_by_c(self) -> bool:
        """Whether the library itself can count a view's reference to the block."""
        return True

    def _typestr(self) -> str:
        return typestr(self._dtype)


def typestr(dtype: DType) -> str:
    """As numpy's array interface has it."""
    bytes_ = ITEM_BYTES[dtype]
    kind = "b" if dtype == DType.BOOL else "V" if dtype in _TYPES else dtype.name[0].lower()
    return f"{'|' if bytes_ == 1 or kind == 'V' else '<'}{kind}{bytes_}"


def older_tensor_of(view: object, dtype: DType, device: tuple[int, int]) -> Any:
    """A capsule of DLPack before version 1 that keeps a view. It is numpy's: numpy reads nothing of what it passes on, which may be a device's."""
    numpy: Any = importlib.import_module("numpy")
    raw = numpy.asarray(view).view(f"u{ITEM_BYTES[dtype]}")
    return dlpack.retyped(raw.__dlpack__(), dtype, device)


def tensor_of(address: int, shape: tuple[int, ...], dtype: DType, device: tuple[int, int]) -> Any:
    """A capsule of DLPack that keeps the block of weft's at the address."""
    refuse_inside_check()
    tensor = _capi.weft_tensor_t(struct_size=ctypes.sizeof(_capi.weft_tensor_t), data=address, ndim=len(shape), dtype=dtype,
                                 shape=ctypes.cast((ctypes.c_int64 * max(len(shape), 1))(*shape), ctypes.c_void_p))
    managed = ctypes.c_void_p()
    check(library.weft_mem_dlpack(ctypes.byref(tensor), ctypes.byref(managed)))
    return dlpack.capsule_of(managed, device)


def shape_of(shape: int | Sequence[int]) -> tuple[int, ...]:
    lengths = tuple(index(length) for length in shape) if isinstance(shape, Sequence) else (index(shape),)
    if any(length < 0 for length in lengths):
        raise ValueError(f"shape is {lengths}; lengths must be 0 or more")
    return lengths


def zeros(shape: int | Sequence[int], dtype: AnyDType = "float32", *, pinned: bool = False) -> Array:
    """A new array in memory that all ranks of this node can reach directly, in which collectives need no copies. Local: ranks may allocate what they like.
    `pinned`: devices reach it too."""
    lengths, number = shape_of(shape), DType(dtype_number(dtype))
    refuse_inside_check()
    interrupt.do_postponed()
    block, bytes_ = Block(), math.prod(lengths) * ITEM_BYTES[number]
    if bytes_ == 0:
        return Array(None, lengths, number)
    if bytes_ >= 1 << 63:
        raise ValueError(f"an array of {lengths} {number.name.lower()} has {bytes_} bytes, more than there are addresses")
    config = _capi.weft_mem_config_t(struct_size=ctypes.sizeof(_capi.weft_mem_config_t), bytes=bytes_, flags=_capi.WEFT_MEM_PINNED if pinned else 0)
    check(library.weft_mem_alloc_on(ctypes.byref(config), ctypes.byref(block)))
    return Array(block, lengths, number, _PINNED if pinned else _HOST)
