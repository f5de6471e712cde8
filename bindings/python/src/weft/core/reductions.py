"""What an `op` argument may be: a name, an Op, or a Reduction made here.

    half = weft.Reduction.premul_sum(0.5, "float32")
    comm.all_reduce(x, op=half)

Thread-safety: any thread.
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple, Union

from weft import _capi
from weft._library import library
from weft.core import buffers, interrupt, pairs
from weft.core.buffers import View
from weft.core.errors import check, refuse_inside_check
from weft.core.types import AnyDType, DType, Op, dtype_number

_FACTORS: dict[int, Any] = {
    DType.INT8: ctypes.c_int8, DType.UINT8: ctypes.c_uint8, DType.INT32: ctypes.c_int32, DType.UINT32: ctypes.c_uint32, DType.INT64: ctypes.c_int64,
    DType.UINT64: ctypes.c_uint64, DType.FLOAT32: ctypes.c_float, DType.FLOAT64: ctypes.c_double}

_WHOLE = (DType.INT8, DType.UINT8, DType.INT32, DType.UINT32, DType.INT64, DType.UINT64)

# Groups may use a function after its Reduction is gone, and the code of compiled ones (numba) goes with their object.
_functions: list[object] = []
ViewOf = Callable[[Any, str], View]
PartOf = Callable[[View, int, int], View]


class Kind(NamedTuple):
    """An op's number, and how its buffers are read."""

    number: int
    readable: ViewOf
    writable: ViewOf
    part: PartOf


# By "sum" and by Op.SUM.
KINDS: dict[object, Kind] = {
    key: Kind(int(op), *((pairs.readable, pairs.writable, pairs.part) if op in (Op.MIN_LOC, Op.MAX_LOC) else (buffers.readable, buffers.writable, buffers.part)))
    for op in Op for key in (op.name.lower(), op)}


class Reduction(int):
    """A reduction made at run time, to be passed as `op`. It belongs to the process, and every rank makes its own. Given back with its last reference;
    operations under way keep what they need of it. Its value is C's number of it."""

    _text: str | None = None

    @classmethod
    def premul_sum(cls, factor: Any, dtype: AnyDType | None = None) -> Reduction:
        """Sum of factor x input, for buffers of `dtype` alone; ranks may have different factors. `factor` is a number; of a 16-bit or 8-bit floating type it
        is a buffer of one element, whose type it is, and `dtype` is left out."""
        refuse_inside_check()
        if dtype is None:
            address, number, count, _ = buffers.readable(factor, "factor")
            if count != 1:
                raise ValueError(f"factor has {count} elements; it must be one, or a number with its dtype")
        else:
            number = dtype_number(dtype)
            kind = _FACTORS.get(number)
            if kind is None:
                raise ValueError(f"factor is a number, which cannot be made a {DType(number).name.lower()} here; pass a buffer of one element, without dtype")
            one = kind(factor)
            if number in _WHOLE and one.value != factor:  # ctypes cuts
                raise ValueError(f"factor is {factor}, which is no {DType(number).name.lower()}")
            address = ctypes.addressof(one)
        op = ctypes.c_int()
        check(library.weft_op_create_premul_sum(address, number, ctypes.byref(op)))
        return cls._named(op.value, f"premul_sum of {DType(number).name.lower()}")

    @classmethod
    def user(cls, function: Any, *, name: str, user: int = 0, element_count: int = 1) -> Reduction:
        """A reduction by a function of C: `void f(const void* left, const void* right, void* out, size_t count, int dtype, void* user)`, out[i] = left[i] op
        right[i], associative, for any part of a buffer. `element_count` numbers of it that follow each other are one element, and are not taken apart: 2 of complex
        numbers. `function` is its address: a number, an object with `address` (numba.cfunc), or one of ctypes that lies in a library.
        Ranks are compared by `name`, of at most 63 bytes. It runs on threads of weft's, so it must not be Python: what is made of a Python function by
        ctypes is refused."""
        refuse_inside_check()
        address = _address_of(function)
        if element_count < 1:
            raise ValueError(f"element_count is {element_count}; an element has at least one number")
        config = _capi.weft_user_op_config_t(struct_size=ctypes.sizeof(_capi.weft_user_op_config_t), function=_capi.weft_user_op_t(address), user=user,
                                             name=name.encode(), element_count=element_count)
        op = ctypes.c_int()
        check(library.weft_op_create_user(ctypes.byref(config), ctypes.byref(op)))
        if not isinstance(function, int):
            _functions.append(function)
        return cls._named(op.value, name)

    @classmethod
    def _named(cls, number: int, text: str) -> Reduction:
        made = cls(number)
        made._text = text
        return made

    def __repr__(self) -> str:
        return f"<weft.Reduction {self._text}>"

    def __del__(self) -> None:
        if self._text is not None:
            interrupt.later(_Destroy(int(self)))


class _Destroy:
    def __init__(self, number: int) -> None:
        self._number = number

    def __call__(self) -> None:
        library.weft_op_destroy(self._number)


def _address_of(function: Any) -> int:
    if isinstance(function, int):
        return function
    address = getattr(function, "address", None)
    if isinstance(address, int):
        return address
    if isinstance(function, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        if any(type(held).__name__ == "CThunkObject" for held in (function._objects or {}).values()):
            raise TypeError("function runs Python, which must not run on weft's threads; compile it (numba.cfunc, C) and pass its address")
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    raise TypeError(f"function is a {type(function).__name__}; it must be the address of a function of C, or have it")


AnyOp = Union[Op, str, Reduction]


def kind_of(op: AnyOp) -> Kind:
    """Of an op that is not in KINDS as it is."""
    if isinstance(op, Reduction):
        return Kind(op, buffers.readable, buffers.writable, buffers.part)
    raise ValueError(f"{op!r} is no reduction; there are {', '.join(known.name.lower() for known in Op)}")
