"""Collectives with a count for each rank.

Counts and displacements are one whole number per rank, in elements: a list, a tuple, an array of integers. They are read during the call. A
displacement says where a rank's block begins; without displacements blocks lie packed, one behind the other.
"""
from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterable
from operator import index
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from weft._library import operation
from weft.core.buffers import View, part, readable, same_type, writable
from weft.core.calls import CallOptions
from weft.core.operations import Buffer, Later, Now, Operations, Received, Root, rank_number
from weft.core.reductions import KINDS, AnyOp, kind_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

Counts = Iterable[Any]  # of whatever is a whole number

# With as many typed arguments as callers can give wrong values for.
_all_gather_v = operation("weft_all_gather_v", 4)
_reduce_scatter_v = operation("weft_reduce_scatter_v", 4)
_gather_v = operation("weft_gather_v", 7)
_scatter_v = operation("weft_scatter_v", 7)
_all_to_all_v = operation("weft_all_to_all_v", 6)


class _Blocks(NamedTuple):
    """Where the blocks of all ranks lie in a buffer."""

    counts: list[int]
    firsts: list[int]
    c_counts: Any
    c_firsts: Any  # None: packed

    def of(self, rank: int, view: View) -> View:
        return part(view, self.firsts[rank], self.counts[rank])


def _numbers(values: Counts, size: int, name: str) -> list[int]:
    numbers = [index(value) for value in values]
    if len(numbers) != size:
        raise ValueError(f"{name} has {len(numbers)} numbers; it must have one for each of {size} ranks")
    if min(numbers) < 0:
        raise ValueError(f"{name} has {min(numbers)}; its numbers must be 0 or more")
    return numbers


def _blocks(view: View, name: str, counts: Counts, displacements: Counts | None, size: int, prefix: str = "") -> _Blocks:
    """Refuses blocks that the buffer `name` does not have; packed ones fill it."""
    numbers, whole = _numbers(counts, size, f"{prefix}counts"), ctypes.c_size_t * size
    if displacements is not None:
        firsts = _numbers(displacements, size, f"{prefix}displacements")
        for rank, (first, count) in enumerate(zip(firsts, numbers)):
            if count and first + count > view[2]:
                raise ValueError(f"the block of rank {rank} is elements {first} to {first + count} of {name}, which has {view[2]}")
        firsts = [first if count else 0 for first, count in zip(firsts, numbers)]
        return _Blocks(numbers, firsts, whole(*numbers), whole(*firsts))
    firsts = [0, *itertools.accumulate(numbers)]
    if firsts[-1] != view[2]:
        raise ValueError(f"{prefix}counts are {firsts[-1]} elements together, and {name} has {view[2]}")
    return _Blocks(numbers, firsts, whole(*numbers), None)


def _block_fits(view: View, name: str, blocks: _Blocks, rank: int) -> None:
    if view[2] != blocks.counts[rank]:
        raise ValueError(f"{name} has {view[2]} elements, and counts say {blocks.counts[rank]} of rank {rank}")


class Vectors(Operations[Now, Later, Received]):
    """In docstrings: block r of a buffer is counts[r] elements from displacements[r] on."""

    @overload
    def all_gather_v(self, in_: Buffer, out: Buffer, counts: Counts, displacements: Counts | None = None, *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def all_gather_v(self, in_: Buffer, out: Buffer, counts: Counts, displacements: Counts | None = None, *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def all_gather_v(self, in_: Buffer, out: Buffer, counts: Counts, displacements: Counts | None = None, *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """Block r of out = in_ of rank r, on every rank. in_: [counts[rank]]; None: it stands in its block of `out` already. Counts are the same on all
        ranks, displacements need not be."""
        taken = writable(out, "out")
        blocks = _blocks(taken, "out", counts, displacements, self._size)
        if in_ is None:
            given = blocks.of(self._rank, taken)
        else:
            given = readable(in_, "in_")
            same_type(given, "in_", taken, "out")
            _block_fits(given, "in_", blocks, self._rank)
        return self._issue(_all_gather_v, (given[0], taken[0], blocks.c_counts, blocks.c_firsts, taken[1]), (given, taken), async_op, call)

    @overload
    def reduce_scatter_v(self, in_: Buffer, out: Buffer, counts: Counts, displacements: Counts | None = None, op: AnyOp = "sum", *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def reduce_scatter_v(self, in_: Buffer, out: Buffer, counts: Counts, displacements: Counts | None = None, op: AnyOp = "sum", *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def reduce_scatter_v(self, in_: Buffer, out: Buffer, counts: Counts, displacements: Counts | None = None, op: AnyOp = "sum", *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """out = op over all ranks of block `rank` of in_. out: [counts[rank]]; None: into that block of in_, the rest of which is not changed. Counts and
        displacements are the same on all ranks."""
        number, read, write, part_of = KINDS.get(op) or kind_of(op)
        given = write(in_, "in_") if out is None else read(in_, "in_")
        blocks = _blocks(given, "in_", counts, displacements, self._size)
        if out is None:
            taken = part_of(given, blocks.firsts[self._rank], blocks.counts[self._rank])
        else:
            taken = write(out, "out")
            same_type(given, "in_", taken, "out")
            _block_fits(taken, "out", blocks, self._rank)
        return self._issue(_reduce_scatter_v, (given[0], taken[0], blocks.c_counts, blocks.c_firsts, given[1], number), (given, taken), async_op, call)

    @overload
    def gather_v(self, in_: Buffer, out: Buffer = None, counts: Counts | None = None, displacements: Counts | None = None, root: Root = 0, *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def gather_v(self, in_: Buffer, out: Buffer = None, counts: Counts | None = None, displacements: Counts | None = None, root: Root = 0, *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def gather_v(self, in_: Buffer, out: Buffer = None, counts: Counts | None = None, displacements: Counts | None = None, root: Root = 0, *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """Block r of out = in_ of rank r, on rank `root`, which alone looks at out, counts and displacements. On root, in_ None: its part stands in `out`
        already."""
        root = rank_number(root, "root")
        if self._rank != root:
            given = readable(in_, "in_")
            return self._issue(_gather_v, (given[0], given[2], None, None, None, given[1], root), given, async_op, call)
        taken = writable(out, "out")
        blocks = _blocks(taken, "out", _needed(counts), displacements, self._size)
        if in_ is None:
            given = blocks.of(root, taken)
        else:
            given = readable(in_, "in_")
            same_type(given, "in_", taken, "out")
            _block_fits(given, "in_", blocks, root)
        return self._issue(_gather_v, (given[0], given[2], taken[0], blocks.c_counts, blocks.c_firsts, taken[1], root), (given, taken), async_op, call)

    @overload
    def scatter_v(self, in_: Buffer, out: Buffer = None, counts: Counts | None = None, displacements: Counts | None = None, root: Root = 0, *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def scatter_v(self, in_: Buffer, out: Buffer = None, counts: Counts | None = None, displacements: Counts | None = None, root: Root = 0, *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def scatter_v(self, in_: Buffer, out: Buffer = None, counts: Counts | None = None, displacements: Counts | None = None, root: Root = 0, *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """out = block `rank` of in_ of rank `root`, which alone looks at in_, counts and displacements. On root, out None: its part stays where it is."""
        root = rank_number(root, "root")
        if self._rank != root:
            taken = writable(out, "out")
            return self._issue(_scatter_v, (None, None, None, taken[0], taken[2], taken[1], root), taken, async_op, call)
        given = writable(in_, "in_") if out is None else readable(in_, "in_")
        blocks = _blocks(given, "in_", _needed(counts), displacements, self._size)
        if out is None:
            taken = blocks.of(root, given)
        else:
            taken = writable(out, "out")
            same_type(given, "in_", taken, "out")
            _block_fits(taken, "out", blocks, root)
        return self._issue(_scatter_v, (given[0], blocks.c_counts, blocks.c_firsts, taken[0], taken[2], given[1], root), (given, taken), async_op, call)

    @overload
    def all_to_all_v(self, in_: Buffer, out: Buffer, in_counts: Counts, out_counts: Counts | None = None, in_displacements: Counts | None = None, out_displacements: Counts | None = None, *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def all_to_all_v(self, in_: Buffer, out: Buffer, in_counts: Counts, out_counts: Counts | None = None, in_displacements: Counts | None = None, out_displacements: Counts | None = None, *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def all_to_all_v(self, in_: Buffer, out: Buffer, in_counts: Counts, out_counts: Counts | None = None, in_displacements: Counts | None = None, out_displacements: Counts | None = None, *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """Block r of out = block `rank` of in_ of rank r, on every rank. What r sends to this rank must be as long as this rank's out_counts[r]. out None:
        in place, with counts and displacements of in_ for both; out_counts None: as in_counts."""
        if out is None:
            given = taken = writable(in_, "in_")
            if out_counts is not None or out_displacements is not None:
                raise ValueError("out_counts and out_displacements are given without out; in place they are those of in_")
        else:
            given, taken = readable(in_, "in_"), writable(out, "out")
            same_type(given, "in_", taken, "out")
        sent = _blocks(given, "in_", in_counts, in_displacements, self._size, "in_")
        got = sent if out is None else _blocks(taken, "out", sent.counts if out_counts is None else out_counts, out_displacements, self._size, "out_")
        return self._issue(_all_to_all_v, (given[0], sent.c_counts, sent.c_firsts, taken[0], got.c_counts, got.c_firsts, given[1]), (given, taken), async_op, call)


def _needed(counts: Counts | None) -> Counts:
    if counts is None:
        raise ValueError("counts is None; root needs the count of each rank")
    return counts
