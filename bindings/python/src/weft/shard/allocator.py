"""A context's memory from the program: from a caching allocator, an arena, an allocator of a framework's.

    Context(world, allocator=lambda size, alignment, tier: torch.empty(size, dtype=torch.uint8))

The function returns something writable of at least `size` bytes, at a multiple of `alignment`, or None if there is no memory. It is kept while the
context, or an array of it, uses it. It is called on the thread that is in a call of the context, and must not call weft.
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from weft import _capi
from weft.core.buffers import writable
from weft.core.types import ITEM_BYTES
from weft.shard import callbacks
from weft.shard.arrays import Lent
from weft.shard.enums import Tier

Allocate = Callable[[int, int, Tier], Any]


class Allocator:
    """The struct of C for a function of the program's, which notes in `lent` what it has given."""

    def __init__(self, allocate: Allocate, lent: Lent) -> None:
        def give(size: int, alignment: int, tier: int, _: int | None) -> int:
            memory = allocate(size, alignment, Tier(tier))
            if memory is None:
                return 0
            address, dtype, count, kept = writable(memory, "what the allocator returned")
            if count * ITEM_BYTES[dtype] < size:
                raise ValueError(f"the allocator returned {count * ITEM_BYTES[dtype]} bytes and was asked for {size}")
            lent.add(address, size, (memory, kept))
            return address

        def take(memory: int, size: int, tier: int, _: int | None) -> None:
            lent.remove(memory)

        types: dict[str, Any] = dict(_capi.weft_shard_allocator_t._fields_)  # type: ignore[arg-type]
        self._thunks = types["allocate"](callbacks.guarded(give, 0)), types["release"](callbacks.guarded(take, None))
        self.struct = _capi.weft_shard_allocator_t(ctypes.sizeof(_capi.weft_shard_allocator_t), *self._thunks)
