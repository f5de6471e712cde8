"""Reads what a DLPack capsule describes, and makes capsules of what C describes. Source: the DLPack specification, version 1 (https://dmlc.github.io/dlpack/latest/)."""
from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple, cast

from weft.core.types import DType

CPU = 1
CUDA = 2
CUDA_HOST = 3
_READ_ONLY = 1
_MAX_VERSION = (1, 1)
# By code and bits.
_DTYPES = {
    (0, 8): DType.INT8, (0, 32): DType.INT32, (0, 64): DType.INT64, (1, 8): DType.UINT8, (1, 32): DType.UINT32, (1, 64): DType.UINT64,
    (2, 16): DType.FLOAT16, (2, 32): DType.FLOAT32, (2, 64): DType.FLOAT64, (4, 16): DType.BFLOAT16, (6, 8): DType.BOOL,
    (10, 8): DType.FLOAT8_E4M3, (12, 8): DType.FLOAT8_E5M2,
}


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


_UNUSED = b"dltensor_versioned"  # who takes a capsule's memory renames it
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_int
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.argtypes, _get_pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
_new = ctypes.pythonapi.PyCapsule_New
_new.argtypes, _new.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object


class Described(NamedTuple):
    address: int
    dtype: DType
    elements: int
    read_only: bool
    contiguous: bool
    capsule: object  # its destructor gives the memory back


def describe(producer: Any) -> Described:
    """Of an object with __dlpack__. Raises TypeError with a sentence for memory or types that weft cannot use."""
    name = type(producer).__name__
    device = producer.__dlpack_device__()[0] if hasattr(producer, "__dlpack_device__") else CPU
    if device not in (CPU, CUDA_HOST):
        raise TypeError(f"{name} is not in host memory (DLPack device {int(device)}); weft's groups work on host memory")
    negative = getattr(producer, "is_neg", None)  # torch exports such a view as what lies there
    if callable(negative) and negative():
        raise TypeError(f"{name} is a view with the other sign than its memory; pass its resolve_neg()")
    try:
        capsule = producer.__dlpack__(max_version=_MAX_VERSION)
    except TypeError:  # a producer from before version 1
        capsule = producer.__dlpack__()
    if _is_valid(capsule, _UNUSED):
        versioned = _Versioned.from_address(_get_pointer(capsule, _UNUSED))
        if versioned.major != _MAX_VERSION[0]:
            raise TypeError(f"{name} speaks DLPack {versioned.major}, weft {_MAX_VERSION[0]}")
        tensor, read_only = versioned.tensor, bool(versioned.flags & _READ_ONLY)
    else:
        tensor, read_only = _Tensor.from_address(_get_pointer(capsule, b"dltensor")), False
    dtype = _DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise TypeError(f"{name} has elements of DLPack type {tensor.code} with {tensor.bits} bits, which weft has not")
    count, contiguous = 1, True
    for i in reversed(range(tensor.ndim)):
        if tensor.strides and tensor.shape[i] != 1 and tensor.strides[i] != count:
            contiguous = False
        count *= tensor.shape[i]
    return Described((tensor.data or 0) + tensor.byte_offset, dtype, count, read_only, contiguous or count == 0, capsule)


def retyped(capsule: Any, dtype: DType, device: tuple[int, int]) -> Any:
    """A capsule of the older version that nobody has taken yet, with elements of another type of as many bits, and where they are."""
    tensor = _Tensor.from_address(_get_pointer(capsule, b"dltensor"))
    tensor.code, tensor.bits = next(key for key, known in _DTYPES.items() if known == dtype)
    tensor.device_type, tensor.device_id = device
    return capsule


# Capsules that may not have been taken. Nothing of Python's can be a capsule's destructor: it may run with an exception set.
_made: list[Any] = []


def capsule_of(managed: ctypes.c_void_p, device: tuple[int, int]) -> Any:
    """A capsule of a DLManagedTensorVersioned, which belongs to whoever takes it, or is deleted by a later call if nobody has."""
    _delete_abandoned()
    tensor = _Versioned.from_address(cast(int, managed.value)).tensor
    tensor.device_type, tensor.device_id = device
    capsule = _new(managed, _UNUSED, None)
    _made.append(capsule)
    return capsule


def _delete_abandoned() -> None:
    for capsule in _made[:]:
        taken = not _is_valid(capsule, _UNUSED)
        if taken or sys.getrefcount(capsule) <= _ONLY_HERE:
            try:
                _made.remove(capsule)
            except ValueError:  # another thread did it
                continue
            if not taken:
                managed = _get_pointer(capsule, _UNUSED)
                ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_Versioned.from_address(managed).deleter)(managed)


def _references() -> int:
    """To what nobody has but _delete_abandoned: the list, its copy and the loop, and, up to Python 3.13, the argument of getrefcount."""
    made = [object()]
    for one in made[:]:
        return sys.getrefcount(one)
    raise AssertionError


_ONLY_HERE = _references()
