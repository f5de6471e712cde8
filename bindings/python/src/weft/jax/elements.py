"""Which arrays operations take, said before anything is compiled."""
from __future__ import annotations

import operator
from typing import Any, Union

from weft.core.reductions import KINDS, kind_of
from weft.core.types import Op
from weft.jax.versions import jax, jnp

AnyOp = Union[Op, str]

_BITS = (Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR)
_COMBINING = {int(op): op for op in Op if op not in (Op.MIN_LOC, Op.MAX_LOC)}
# By the names of numpy and ml_dtypes.
_WHOLE_NUMBERS = {"int8", "uint8", "int32", "uint32", "int64", "uint64"}
_FLOATS = {"float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"}
_COMPLEX = {"complex64", "complex128"}
_MOVED_ONLY = {"int16", "uint16", "float8_e4m3", "float8_e3m4", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz"}
_MOVED = _WHOLE_NUMBERS | _FLOATS | _COMPLEX | _MOVED_ONLY | {"bool"}


def moved(x: Any, name: str = "x") -> Any:
    """x as an array whose elements can be moved."""
    array = jnp.asarray(x)
    check_moved(array.dtype, name)
    return array


def check_moved(dtype: Any, name: str) -> None:
    if str(dtype) not in _MOVED:
        hint = "; pass jax.random.key_data of keys" if jax.dtypes.issubdtype(dtype, jax.dtypes.extended) else ""
        raise TypeError(f"{name} has elements of {dtype}, which weft cannot move{hint}")


def described(like: Any) -> dict[str, Any]:
    """The shape and type of the array that `like` stands for, as JAX has it: without jax_enable_x64 of 32 bits at most, whatever numpy's has."""
    if not hasattr(like, "shape") or not hasattr(like, "dtype"):
        raise TypeError(f"like is a {type(like).__name__}; it must be an array or a jax.ShapeDtypeStruct")
    check_moved(like.dtype, "like")
    return {"shape": tuple(like.shape), "dtype": jax.dtypes.canonicalize_dtype(like.dtype)}


def whole(number: Any, name: str) -> int:
    """For what a program is compiled for: a rank, a tag."""
    try:
        return operator.index(number)
    except TypeError as error:
        raise TypeError(f"{name} is {number}; it must be a whole number of Python: {error}") from error


def combined(x: Any, op: AnyOp) -> tuple[Any, int]:
    """x as an array whose elements `op` can combine, and its number."""
    number = (KINDS.get(op) or kind_of(op)).number
    if number not in _COMBINING:
        raise ValueError(f"{op!r} cannot be used inside programs of JAX; there are {', '.join(one.name.lower() for one in _COMBINING.values())}")
    array = jnp.asarray(x)
    dtype = str(array.dtype)
    fits = _WHOLE_NUMBERS | {"bool"} if number in _BITS else _WHOLE_NUMBERS | _FLOATS
    if number in (Op.SUM, Op.AVG):
        fits = fits | _COMPLEX
    if number not in (Op.AVG, *_BITS):
        fits = fits | {"bool"}
    if dtype not in fits:
        raise TypeError(f"x has elements of {dtype}, which {op!s} does not combine")
    return array, number
