"""Tensors in memory of weft's, which ranks of a node reach directly. A block is used again when the last tensor on it has gone.

Thread-safety: any thread.
"""
from __future__ import annotations

import ctypes
import math
import os
import threading
import weakref
from collections.abc import Sequence

import torch
from torch import Tensor

from weft._library import library
from weft.core import arrays
from weft.core.errors import check

PAGE_BYTES = 4096
# A block serves tensors that leave at most this part of it unused.
_UNUSED_MAX = 0.2


def pages(count_bytes: int) -> int:
    return max(PAGE_BYTES, -(-count_bytes // PAGE_BYTES) * PAGE_BYTES)


class _Lease:
    """Of a tensor on a block: lives as long as torch's storage does."""

    __slots__ = ("__weakref__", "_block")

    def __init__(self, block: Block) -> None:
        self._block = block


class Block:
    """Memory for one tensor at a time."""

    def __init__(self, address: int, count_bytes: int) -> None:
        self.address, self.bytes = address, count_bytes
        self._lease: weakref.ref[_Lease] | None = None

    @property
    def idle(self) -> bool:
        """Whether no tensor, and no view of one, is left."""
        return self._lease is None or self._lease() is None

    def tensor(self, size: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Uninitialized."""
        count = math.prod(size)
        if not count:
            return torch.empty(*size, dtype=dtype)
        buffer = (ctypes.c_char * (count * dtype.itemsize)).from_address(self.address)
        lease = _Lease(self)
        buffer.lease = lease  # torch's storage keeps the buffer
        self._lease = weakref.ref(lease)
        return torch.frombuffer(buffer, dtype=dtype, count=count).view(*size)


class SymmetricBlock(Block):
    """Of weft's heap; given back with the last reference to it, which the last tensor may have."""

    def __init__(self, count_bytes: int) -> None:
        self._memory = arrays.Block()
        check(library.weft_mem_alloc(count_bytes, 0, ctypes.byref(self._memory)))
        super().__init__(self._memory.value or 0, count_bytes)


class SymmetricPool:
    """Tensors in this rank's part of weft's heap, which need no other rank's consent. Fresh memory costs milliseconds per MiB, so the pool keeps
    blocks: at most as many idle bytes as tensors have had at once. They go with the pool and the tensors."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._blocks: list[SymmetricBlock] = []  # the least recently used first
        self._used_bytes_max = 0

    def tensor(self, size: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Uninitialized. Raises weft.Error: OUT_OF_MEMORY, SYSTEM_ERROR, FORKED."""
        needed = pages(math.prod(size) * dtype.itemsize)
        with self._lock:
            if os.getpid() != self._process:
                self._blocks = []  # which a forked child has not
            fitting = [block for block in self._blocks if needed <= block.bytes and block.bytes * (1 - _UNUSED_MAX) <= needed and block.idle]
            if fitting:
                block = min(fitting, key=lambda one: one.bytes)
                self._blocks.remove(block)
            else:
                self._trim(needed)
                block = SymmetricBlock(needed)
            self._blocks.append(block)
            return block.tensor(size, dtype)

    def _trim(self, needed: int) -> None:
        idle = [block for block in self._blocks if block.idle]
        idle_bytes = sum(block.bytes for block in idle)
        self._used_bytes_max = max(self._used_bytes_max, sum(block.bytes for block in self._blocks) - idle_bytes + needed)
        for block in idle:
            if idle_bytes <= self._used_bytes_max:
                break
            self._blocks.remove(block)
            idle_bytes -= block.bytes
