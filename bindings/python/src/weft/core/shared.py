"""Arrays that all ranks of a communicator share: one block of memory, of which each rank has an address.

    whole = comm.shared((1024, 1024), "float32")
    comm.all_gather(None, whole)      # each rank has written its part: nothing moves

The block ends with the group, so that an array, and any view of it, keeps the group's handle.

Thread-safety: as a communicator's operations.
"""
from __future__ import annotations

import ctypes
from collections.abc import Sequence

from weft._library import library
from weft.core.arrays import Array, shape_of
from weft.core.errors import check, refuse_inside_check
from weft.core.group import Group
from weft.core.types import AnyDType, DType, dtype_number


class _Block(ctypes.c_void_p):
    """An address in a block of weft_mem_alloc_shared, and the group with which it ends."""

    group: ctypes.c_void_p


class SharedArray(Array):
    """An array of comm.shared(). Any rank may read and write all of it: agree on who changes which part, and when."""

    def free(self) -> None:
        """Gives the memory back. Collective; no rank may have a view of it, or an operation under way that uses it. Without this it ends with the
        communicator."""
        if self._views:
            raise BufferError(f"{self!r} has {len(self._views)} views, whose memory would be gone")
        block = self._block
        if not isinstance(block, _Block):
            raise ValueError(f"{self!r} was given back")
        refuse_inside_check()
        check(library.weft_mem_free_shared(block.group, block))
        self._block = None

    def _owned_by_c(self) -> bool:
        return False


def make(group: Group, shape: int | Sequence[int], dtype: AnyDType) -> SharedArray:
    lengths, number = shape_of(shape), DType(dtype_number(dtype))
    made = SharedArray(None, lengths, number)
    if not 0 < made.nbytes < 1 << 63:
        raise ValueError(f"an array of {lengths} {number.name.lower()} has {made.nbytes} bytes; a shared one has some, and fewer than there are addresses")
    refuse_inside_check()
    block, handle = _Block(), group._live_group()
    check(library.weft_mem_alloc_shared(handle, made.nbytes, ctypes.byref(block)))
    block.group, made._block = handle, block
    group._shared[made.address] = block
    return made
