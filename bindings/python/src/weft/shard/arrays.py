"""Memory of a context as an array of numpy, torch or JAX, without a copy.

    numpy.asarray(param.data)
    torch.from_dlpack(param.data)

What is made of it keeps the memory: it can be read after the param has moved or its context is gone, and has then whatever lies there. Making it
is refused when the param is not there any more.
"""
from __future__ import annotations

import bisect
import ctypes
import math
import weakref
from collections.abc import Callable
from typing import Any

from weft._library import library
from weft.core import arrays
from weft.core.arrays import Block
from weft.core.errors import Error, Result, check, refuse_inside_check
from weft.core.types import DType
from weft.shard.handles import Borrowed


class Lent:
    """Memory of the program's that a context uses, by its addresses."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._blocks: list[tuple[int, object]] = []  # where each ends, and what keeps it

    def add(self, begin: int, size: int, kept: object) -> None:
        place = bisect.bisect_left(self._begins, begin)
        self._begins.insert(place, begin)
        self._blocks.insert(place, (begin + size, kept))

    def remove(self, begin: int) -> None:
        place = bisect.bisect_left(self._begins, begin)
        del self._begins[place], self._blocks[place]

    def keeper(self, address: int) -> object:
        place = bisect.bisect_right(self._begins, address) - 1
        if place >= 0 and address < self._blocks[place][0]:
            return self._blocks[place][1]
        return None


class _LentBlock(ctypes.c_void_p):
    """Memory that the program keeps, and `kept` in it."""

    kept: object = None


def _block_of(address: int, lent: Lent) -> ctypes.c_void_p:
    """What keeps the memory at the address."""
    kept = lent.keeper(address)
    if kept is not None:
        whole = _LentBlock(address)
        whole.kept = kept
        return whole
    block = Block()
    refuse_inside_check()
    check(library.weft_mem_retain(address, ctypes.byref(block)))  # which functions that C calls back may call, too
    return block


class Array(arrays.Array):
    """Elements in memory of a context: a weft.Array that says so when what it is of is no longer there.

    Thread-safety: any thread.
    """

    def __init__(self, address: int, dtype: int, shape: tuple[int, ...], lent: Lent, where: Callable[[], int] | None = None) -> None:
        """Of the package's own use. `where` says where it is now, if it moves."""
        super().__init__(_block_of(address, lent) if math.prod(shape) else None, shape, DType(dtype))
        self._address, self._where = address, where
        self._numpy: Any = None

    @property
    def address(self) -> int:
        return self._address

    @property
    def count(self) -> int:
        """Elements."""
        return self.size

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array of no dimensions has no length")
        return self.shape[0]

    def view(self) -> tuple[int, int, int, object]:
        self._check()
        return super().view()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if dtype is not None or copy:
            return super().__array__(dtype, copy)
        self._check()
        if self._numpy is None:
            self._numpy = super().__array__()
        return self._numpy

    def __dlpack__(self, *, stream: object = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None,
                   copy: bool | None = None) -> Any:
        self._check()
        return super().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    # ---- inside ----

    def _viewed(self) -> arrays.View:
        self._check()
        return super()._viewed()

    def _owned_by_c(self) -> bool:
        return isinstance(self._block, Block)

    def _check(self) -> None:
        """Raises if what it is of is no longer here."""
        if self._where is not None and self._where() != self._address:
            raise Error(f"{self!r} is not where its param is now; ask the param again", Result.BAD_STATE)


def place_of(handle: Borrowed, function: Callable[[Borrowed], int]) -> Callable[[], int]:
    """Says where a param is now: keeps neither it nor its context."""
    reference = weakref.ref(handle)

    def where() -> int:
        held = reference()
        if held is None:
            raise Error("the context of the array was destroyed; what was made of it before keeps its memory", Result.BAD_STATE)
        return function(held)

    return where
