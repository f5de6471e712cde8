"""Tensors that may not be read now: whoever does gets a RuntimeError with a sentence, in place of what lies there.

torch asks a storage for its address before it computes with a tensor or with a view of one, one that autograd keeps included. A storage with a sentence raises
it then. An older torch, without that, reads what lies there.

Thread-safety: as the tensors.
"""
from __future__ import annotations

import functools
import math
import mmap
from typing import Any

import torch

_forbid = getattr(torch._C, "_set_storage_data_ptr_access_error_msg", None)
_allow = getattr(torch._C, "_clear_storage_data_ptr_access_error_msg", None)
AVAILABLE = _forbid is not None and _allow is not None


class Guard:
    """Of the storage of one tensor, which it keeps."""

    __slots__ = ("_storage", "_address", "_sentence")

    def __init__(self, tensor: Any) -> None:
        self._storage = tensor.untyped_storage()
        self._address: int = self._storage._cdata
        self._sentence: str | None = None

    def forbid(self, sentence: str) -> None:
        """Reading it raises this from here."""
        if sentence is not self._sentence and _forbid is not None:
            _forbid(self._address, sentence)
            self._sentence = sentence

    def allow(self) -> None:
        if self._sentence is not None and _allow is not None:
            _allow(self._address)
            self._sentence = None


def without_memory(shape: Any, dtype: Any) -> Any:
    """A tensor that is to be forbidden: addresses alone. Of a torch that cannot forbid it: NaN, of one element."""
    count = math.prod(shape)
    if not AVAILABLE:
        number = torch.nan if dtype.is_floating_point or dtype.is_complex else 0
        return torch.full((), number, dtype=dtype).expand(shape)
    if not count:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(_addresses((count * dtype.itemsize - 1).bit_length()), dtype=dtype, count=count).view(shape)


@functools.lru_cache(maxsize=None)
def _addresses(bits: int) -> mmap.mmap:
    """2**bits bytes, the same each time, which nobody touches: the kernel gives no memory for them."""
    return mmap.mmap(-1, 1 << bits, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0))
