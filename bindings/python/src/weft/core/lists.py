"""Collectives over lists of buffers, each as one operation.

    comm.all_reduce_iov([weight_gradient, bias_gradient], op="avg")

The result is that of one call for each part, but ranks meet once. All parts have one type; their number and counts are the same on all ranks.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from weft import _capi
from weft._library import operation
from weft.core.buffers import NOTHING, View, part, readable, same, same_type, share, writable
from weft.core.calls import CallOptions
from weft.core.operations import Later, Now, Operations, Received
from weft.core.reductions import KINDS, AnyOp, kind_of
from weft.core.types import DType

if TYPE_CHECKING:
    from typing_extensions import Unpack

Parts = Sequence[Any]  # buffers, or tuples (in_, out)

# With as many typed arguments as callers can give wrong values for.
_all_reduce_iov = operation("weft_all_reduce_iov", 2)
_all_gather_iov = operation("weft_all_gather_iov", 2)
_reduce_scatter_iov = operation("weft_reduce_scatter_iov", 2)


def _pair(given: Any) -> tuple[Any, Any]:
    return given if isinstance(given, tuple) and len(given) == 2 else (given, None)


def _list(parts: Parts, viewed: Callable[[Any, Any, str], tuple[View, View, int]]) -> tuple[Any, int, int, object]:
    """The parts as C takes them: the list, how many, their dtype, and what keeps them."""
    given, kept, first = (_capi.weft_iov_t * max(len(parts), 1))(), [], NOTHING
    for i, one in enumerate(parts):
        in_, out, count = viewed(*_pair(one), f"of part {i}")
        if i == 0:
            first = in_
        same_type(first, "part 0", in_, f"part {i}")
        given[i] = _capi.weft_iov_t(in_[0], out[0], count)
        kept.append((in_[3], out[3]))
    return given, len(parts), first[1] if parts else DType.UINT8, kept


class Lists(Operations[Now, Later, Received]):
    """A part is a buffer, in place, or a tuple (in_, out)."""

    @overload
    def all_reduce_iov(self, parts: Parts, op: AnyOp = "sum", *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def all_reduce_iov(self, parts: Parts, op: AnyOp = "sum", *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def all_reduce_iov(self, parts: Parts, op: AnyOp = "sum", *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """all_reduce of every part, as one operation. A part is a buffer, in place, or a tuple (in_, out)."""
        number, read, write, _ = KINDS.get(op) or kind_of(op)

        def viewed(in_: Any, out: Any, which: str) -> tuple[View, View, int]:
            if out is None:
                both = write(in_, f"in_ {which}")
                return both, both, both[2]
            given, taken = read(in_, f"in_ {which}"), write(out, f"out {which}")
            same(given, f"in_ {which}", taken, f"out {which}")
            return given, taken, given[2]

        listed, count, dtype, kept = _list(parts, viewed)
        return self._issue(_all_reduce_iov, (listed, count, dtype, number), kept, async_op, call)

    @overload
    def all_gather_iov(self, parts: Parts, *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def all_gather_iov(self, parts: Parts, *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def all_gather_iov(self, parts: Parts, *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """all_gather of every part, as one operation. A part is a tuple (in_, out), with in_ None in place."""
        def viewed(in_: Any, out: Any, which: str) -> tuple[View, View, int]:
            taken = writable(out, f"out {which}")
            if in_ is None:
                count = share(taken, self._size, f"out {which}")
                return part(taken, self._rank * count, count), taken, count
            given = readable(in_, f"in_ {which}")
            same(given, f"in_ {which}", taken, f"out {which}", 1, self._size)
            return given, taken, given[2]

        listed, count, dtype, kept = _list(parts, viewed)
        return self._issue(_all_gather_iov, (listed, count, dtype), kept, async_op, call)

    @overload
    def reduce_scatter_iov(self, parts: Parts, op: AnyOp = "sum", *, async_op: Literal[False] = False, **call: Unpack[CallOptions]) -> Now: ...
    @overload
    def reduce_scatter_iov(self, parts: Parts, op: AnyOp = "sum", *, async_op: Literal[True], **call: Unpack[CallOptions]) -> Later: ...
    def reduce_scatter_iov(self, parts: Parts, op: AnyOp = "sum", *, async_op: bool = False, **call: Unpack[CallOptions]) -> Now | Later:
        """reduce_scatter of every part, as one operation. A part is a buffer, into its own part of which the result goes, or a tuple (in_, out)."""
        number, read, write, part_of = KINDS.get(op) or kind_of(op)

        def viewed(in_: Any, out: Any, which: str) -> tuple[View, View, int]:
            if out is None:
                given = write(in_, f"in_ {which}")
                count = share(given, self._size, f"in_ {which}")
                return given, part_of(given, self._rank * count, count), count
            given, taken = read(in_, f"in_ {which}"), write(out, f"out {which}")
            same(taken, f"out {which}", given, f"in_ {which}", 1, self._size)
            return given, taken, taken[2]

        listed, count, dtype, kept = _list(parts, viewed)
        return self._issue(_reduce_scatter_iov, (listed, count, dtype, number), kept, async_op, call)
