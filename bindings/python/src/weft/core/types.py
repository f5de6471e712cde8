"""Element types and reductions by their numbers, and what programs may write for the former."""
from __future__ import annotations

import enum
from typing import Union

from weft import _capi


class DType(enum.IntEnum):
    """Element types."""

    INT8 = _capi.WEFT_INT8
    UINT8 = _capi.WEFT_UINT8
    INT32 = _capi.WEFT_INT32
    UINT32 = _capi.WEFT_UINT32
    INT64 = _capi.WEFT_INT64
    UINT64 = _capi.WEFT_UINT64
    FLOAT16 = _capi.WEFT_FLOAT16
    FLOAT32 = _capi.WEFT_FLOAT32
    FLOAT64 = _capi.WEFT_FLOAT64
    BFLOAT16 = _capi.WEFT_BFLOAT16
    FLOAT8_E4M3 = _capi.WEFT_FLOAT8_E4M3
    FLOAT8_E5M2 = _capi.WEFT_FLOAT8_E5M2
    BOOL = _capi.WEFT_BOOL


class Op(enum.IntEnum):
    """Reductions; docs/api/types.md has what each does with each type."""

    SUM = _capi.WEFT_SUM
    PROD = _capi.WEFT_PROD
    MAX = _capi.WEFT_MAX
    MIN = _capi.WEFT_MIN
    AVG = _capi.WEFT_AVG
    BIT_AND = _capi.WEFT_BIT_AND
    BIT_OR = _capi.WEFT_BIT_OR
    BIT_XOR = _capi.WEFT_BIT_XOR
    MIN_LOC = _capi.WEFT_MIN_LOC  # of pairs: pairs.py
    MAX_LOC = _capi.WEFT_MAX_LOC


AnyDType = Union[DType, str]

ITEM_BYTES: dict[int, int] = {
    DType.INT8: 1, DType.UINT8: 1, DType.INT32: 4, DType.UINT32: 4, DType.INT64: 8, DType.UINT64: 8, DType.FLOAT16: 2, DType.FLOAT32: 4,
    DType.FLOAT64: 8, DType.BFLOAT16: 2, DType.FLOAT8_E4M3: 1, DType.FLOAT8_E5M2: 1, DType.BOOL: 1,
}

# By "float32", by DType.FLOAT32, and by the names that ml_dtypes has.
DTYPES: dict[str | int, int] = {**{dtype.name.lower(): int(dtype) for dtype in DType}, **{dtype: int(dtype) for dtype in DType},
                                "float8_e4m3fn": int(DType.FLOAT8_E4M3)}


def dtype_number(dtype: AnyDType) -> int:
    try:
        return DTYPES[dtype]
    except (KeyError, TypeError):
        raise ValueError(f"{dtype!r} is no element type; there are {', '.join(dtype.name.lower() for dtype in DType)}") from None


def dtype_name(number: int) -> str:
    return DType(number).name.lower()
