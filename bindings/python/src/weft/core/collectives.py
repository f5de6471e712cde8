"""Collectives that have one count for all ranks.

All have the same shape: `in_` is what this rank gives, `out` what it gets, `out=None` means in place where that is possible. A call returns when this
rank's part is done; with `async_op=True` it returns a Work at once. calls.py has the other options of the tail.
Element type and count are the buffers' (buffers.py); all that is wrong with them is said before anything is started.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from weft._library import operation
from weft.core import quick
from weft.core.buffers import NOTHING, View, part, readable, same, share, writable
from weft.core.calls import CallOptions
from weft.core.operations import Buffer, Later, Now, Operations, Received, Root, rank_number
from weft.core.reductions import KINDS, AnyOp, kind_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

# With as many typed arguments as callers can give wrong values for.
_all_reduce = operation("weft_all_reduce", 3)
_reduce = operation("weft_reduce", 6)
_broadcast = operation("weft_broadcast", 5)
_all_gather = operation("weft_all_gather", 3)
_reduce_scatter = operation("weft_reduce_scatter", 3)
_scan = operation("weft_scan", 3)
_exscan = operation("weft_exscan", 3)
_gather = operation("weft_gather", 5)
_scatter = operation("weft_scatter", 5)
_all_to_all = operation("weft_all_to_all", 3)
_barrier = operation("weft_barrier", 0)


def alike(read: Callable[[Any, str], View], write: Callable[[Any, str], View], in_: Buffer, out: Buffer) -> tuple[View, View]:
    """Input and result of one size; the same one without `out`, in place."""
    if out is None:
        given = write(in_, "in_")
        return given, given
    given, taken = read(in_, "in_"), write(out, "out")
    same(given, "in_", taken, "out")
    return given, taken


class Collectives(Operations[Now, Later, Received]):
    """In docstrings: in_ and out in elements, n = size."""

    @overload
    def all_reduce(self, in_: Buffer, out: Buffer = None, op: AnyOp = "sum", *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def all_reduce(self, in_: Buffer, out: Buffer = None, op: AnyOp = "sum", *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def all_reduce(self, in_: Buffer, out: Buffer = None, op: AnyOp = "sum", *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """out[i] = op over all ranks of in_[i], on every rank. in_, out: [count]. out None: in place."""
        if not (async_op or call) and self._quickly(quick.ALL_REDUCE, in_, out, quick.OPS.get(op, -1)):
            return cast("Now", None)
        number, read, write, _ = KINDS.get(op) or kind_of(op)
        if out is None:
            address, dtype, count, kept = write(in_, "in_")
            return self._issue(_all_reduce, (address, address, count, dtype, number), kept, async_op, call)
        given, taken = read(in_, "in_"), write(out, "out")
        same(given, "in_", taken, "out")
        return self._issue(_all_reduce, (given[0], taken[0], given[2], given[1], number), (given, taken), async_op, call)

    @overload
    def reduce(self, in_: Buffer, out: Buffer = None, op: AnyOp = "sum", root: Root = 0, *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def reduce(self, in_: Buffer, out: Buffer = None, op: AnyOp = "sum", root: Root = 0, *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def reduce(self, in_: Buffer, out: Buffer = None, op: AnyOp = "sum", root: Root = 0, *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """out[i] = op over all ranks of in_[i], on rank `root` alone. in_, out: [count]. Elsewhere `out` is not looked at. On root, out None: in place."""
        if not (async_op or call) and self._quickly(quick.REDUCE, in_, out, quick.OPS.get(op, -1), root):
            return cast("Now", None)
        root = rank_number(root, "root")
        number, read, write, _ = KINDS.get(op) or kind_of(op)
        if self._rank != root:
            given, taken = read(in_, "in_"), NOTHING
        else:
            given, taken = alike(read, write, in_, out)
        return self._issue(_reduce, (given[0], taken[0], given[2], given[1], number, root), (given, taken), async_op, call)

    @overload
    def broadcast(self, in_: Buffer, out: Buffer = None, root: Root = 0, *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def broadcast(self, in_: Buffer, out: Buffer = None, root: Root = 0, *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def broadcast(self, in_: Buffer, out: Buffer = None, root: Root = 0, *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """out[i] = in_[i] of rank `root`, on every rank. in_, out: [count]. out None: in place, in `in_` on every rank. With an `out`, in_ is read on root
        only and may be None elsewhere."""
        if not (async_op or call) and self._quickly(quick.BROADCAST, in_, out, 0, root):
            return cast("Now", None)
        root = rank_number(root, "root")
        if out is None:
            given = taken = writable(in_, "in_")
        else:
            taken = writable(out, "out")
            given = NOTHING
            if self._rank == root:
                given = readable(in_, "in_")
                same(given, "in_", taken, "out")
        return self._issue(_broadcast, (given[0], taken[0], taken[2], taken[1], root), (given, taken), async_op, call)

    @overload
    def all_gather(self, in_: Buffer, out: Buffer, *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def all_gather(self, in_: Buffer, out: Buffer, *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def all_gather(self, in_: Buffer, out: Buffer, *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """out[r * count + i] = in_[i] of rank r, on every rank. in_: [count], out: [n * count]. in_ None: this rank's part stands in `out` already."""
        if not (async_op or call) and self._quickly(quick.ALL_GATHER, in_, out):
            return cast("Now", None)
        taken = writable(out, "out")
        if in_ is None:
            count = share(taken, self._size, "out")
            given: View = part(taken, self._rank * count, count)
        else:
            given = readable(in_, "in_")
            same(given, "in_", taken, "out", 1, self._size)
        return self._issue(_all_gather, (given[0], taken[0], given[2], given[1]), (given, taken), async_op, call)

    @overload
    def reduce_scatter(self, in_: Buffer, out: Buffer = None, op: AnyOp = "sum", *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def reduce_scatter(self, in_: Buffer, out: Buffer = None, op: AnyOp = "sum", *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def reduce_scatter(self, in_: Buffer, out: Buffer = None, op: AnyOp = "sum", *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """out[i] = op over all ranks of in_[rank * count + i]. in_: [n * count], out: [count]. out None: into this rank's part of in_, the rest of which is
        not changed."""
        if not (async_op or call) and self._quickly(quick.REDUCE_SCATTER, in_, out, quick.OPS.get(op, -1)):
            return cast("Now", None)
        number, read, write, part_of = KINDS.get(op) or kind_of(op)
        if out is None:
            given = write(in_, "in_")
            count = share(given, self._size, "in_")
            taken: View = part_of(given, self._rank * count, count)
        else:
            given, taken = read(in_, "in_"), write(out, "out")
            same(taken, "out", given, "in_", 1, self._size)
        return self._issue(_reduce_scatter, (given[0], taken[0], taken[2], taken[1], number), (given, taken), async_op, call)

    @overload
    def scan(self, in_: Buffer, out: Buffer = None, op: AnyOp = "sum", *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def scan(self, in_: Buffer, out: Buffer = None, op: AnyOp = "sum", *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def scan(self, in_: Buffer, out: Buffer = None, op: AnyOp = "sum", *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """out[i] = op over ranks 0 to this one of in_[i]: what an all_reduce of these ranks alone gives. in_, out: [count]. out None: in place."""
        number, read, write, _ = KINDS.get(op) or kind_of(op)
        given, taken = alike(read, write, in_, out)
        return self._issue(_scan, (given[0], taken[0], given[2], given[1], number), (given, taken), async_op, call)

    @overload
    def exscan(self, in_: Buffer, out: Buffer = None, op: AnyOp = "sum", *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def exscan(self, in_: Buffer, out: Buffer = None, op: AnyOp = "sum", *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def exscan(self, in_: Buffer, out: Buffer = None, op: AnyOp = "sum", *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """As scan, over the ranks before this one. On rank 0, which has none, `out` is not looked at, and in place nothing changes."""
        number, read, write, _ = KINDS.get(op) or kind_of(op)
        if self._rank == 0:
            given, taken = read(in_, "in_"), NOTHING
        else:
            given, taken = alike(read, write, in_, out)
        return self._issue(_exscan, (given[0], taken[0], given[2], given[1], number), (given, taken), async_op, call)

    @overload
    def gather(self, in_: Buffer, out: Buffer = None, root: Root = 0, *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def gather(self, in_: Buffer, out: Buffer = None, root: Root = 0, *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def gather(self, in_: Buffer, out: Buffer = None, root: Root = 0, *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """out[r * count + i] = in_[i] of rank r, on rank `root`. in_: [count], out: [n * count], which is not looked at elsewhere. On root, in_ None: its
        part stands in `out` already."""
        root = rank_number(root, "root")
        if self._rank != root:
            given, taken = readable(in_, "in_"), NOTHING
        else:
            taken = writable(out, "out")
            if in_ is None:
                count = share(taken, self._size, "out")
                given = part(taken, root * count, count)
            else:
                given = readable(in_, "in_")
                same(given, "in_", taken, "out", 1, self._size)
        return self._issue(_gather, (given[0], taken[0], given[2], given[1], root), (given, taken), async_op, call)

    @overload
    def scatter(self, in_: Buffer, out: Buffer = None, root: Root = 0, *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def scatter(self, in_: Buffer, out: Buffer = None, root: Root = 0, *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def scatter(self, in_: Buffer, out: Buffer = None, root: Root = 0, *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """out[i] = in_[rank * count + i] of rank `root`, on every rank. in_: [n * count], not looked at but on root; out: [count]. On root, out None: its
        part stays where it is."""
        root = rank_number(root, "root")
        if self._rank != root:
            given, taken = NOTHING, writable(out, "out")
        elif out is None:
            given = writable(in_, "in_")
            count = share(given, self._size, "in_")
            taken = part(given, root * count, count)
        else:
            given, taken = readable(in_, "in_"), writable(out, "out")
            same(taken, "out", given, "in_", 1, self._size)
        return self._issue(_scatter, (given[0], taken[0], taken[2], taken[1], root), (given, taken), async_op, call)

    @overload
    def all_to_all(self, in_: Buffer, out: Buffer = None, *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def all_to_all(self, in_: Buffer, out: Buffer = None, *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def all_to_all(self, in_: Buffer, out: Buffer = None, *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """out[r * count + i] = in_[rank * count + i] of rank r, on every rank. in_, out: [n * count]. out None: in place."""
        if not (async_op or call) and self._quickly(quick.ALL_TO_ALL, in_, out):
            return cast("Now", None)
        if out is None:
            given = taken = writable(in_, "in_")
        else:
            given, taken = readable(in_, "in_"), writable(out, "out")
            same(given, "in_", taken, "out")
        count = share(given, self._size, "in_")
        return self._issue(_all_to_all, (given[0], taken[0], count, given[1]), (given, taken), async_op, call)

    @overload
    def barrier(self, *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def barrier(self, *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def barrier(self, *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """Ends on no rank before every rank has called it."""
        return self._issue(_barrier, (), None, async_op, call)
