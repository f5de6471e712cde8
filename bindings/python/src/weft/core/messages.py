"""Messages between two ranks."""
from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from weft._library import operation
from weft.core.buffers import readable, same_type, writable
from weft.core.calls import MessageOptions, tag_number
from weft.core.operations import ANY_SOURCE, Buffer, Later, Now, Operations, Received, rank_number

if TYPE_CHECKING:
    from typing_extensions import Unpack

_send = operation("weft_send", 5)
_recv = operation("weft_recv", 5)
_sendrecv = operation("weft_sendrecv", 9)


class Messages(Operations[Now, Later, Received]):
    """Messages and collectives of a communicator do not order each other."""

    @overload
    def send(self, in_: Buffer, destination: int, tag: int = 0, *, async_op: Literal[False] = False, **call: Unpack[MessageOptions]) -> Now: ...
    @overload
    def send(self, in_: Buffer, destination: int, tag: int = 0, *, async_op: Literal[True], **call: Unpack[MessageOptions]) -> Later: ...
    def send(self, in_: Buffer, destination: int, tag: int = 0, *, async_op: bool = False, **call: Unpack[MessageOptions]) -> Now | Later:
        """Sends all of in_ to rank `destination`. Small messages may return before anybody receives; programs must not rely on it, a batch exchanges."""
        given = readable(in_, "in_")
        return self._issue(_send, (given[0], given[2], given[1], rank_number(destination, "destination"), tag_number(tag)), given, async_op, call)

    @overload
    def recv(self, out: Buffer, source: int = ANY_SOURCE, tag: int = 0, *, async_op: Literal[False] = False, **call: Unpack[MessageOptions]) -> Received: ...
    @overload
    def recv(self, out: Buffer, source: int = ANY_SOURCE, tag: int = 0, *, async_op: Literal[True], **call: Unpack[MessageOptions]) -> Later: ...
    def recv(self, out: Buffer, source: int = ANY_SOURCE, tag: int = 0, *, async_op: bool = False, **call: Unpack[MessageOptions]) -> Received | Later:
        """Fills `out` with a message of the same type and count from rank `source`, or from whichever sends first. Returns the rank that it came from;
        with async_op the work's `source` is it, and in a batch a blocking receive returns -1."""
        taken = writable(out, "out")
        return self._receive(_recv, (taken[0], taken[2], taken[1], rank_number(source, "source"), tag_number(tag)), taken, async_op, call)

    @overload
    def sendrecv(self, in_: Buffer, destination: int, out: Buffer, source: int = ANY_SOURCE, tag: int = 0, recv_tag: int | None = None, *,
                 async_op: Literal[False] = False, **call: Unpack[MessageOptions]) -> Received: ...
    @overload
    def sendrecv(self, in_: Buffer, destination: int, out: Buffer, source: int = ANY_SOURCE, tag: int = 0, recv_tag: int | None = None, *,
                 async_op: Literal[True], **call: Unpack[MessageOptions]) -> Later: ...
    def sendrecv(self, in_: Buffer, destination: int, out: Buffer, source: int = ANY_SOURCE, tag: int = 0, recv_tag: int | None = None, *,
                 async_op: bool = False, **call: Unpack[MessageOptions]) -> Received | Later:
        """send(in_, destination, tag) and recv(out, source, recv_tag) at once, which cannot wait in a circle. in_ and out have one type, and counts of
        their own; recv_tag None: as tag. Returns what recv does."""
        given, taken = readable(in_, "in_"), writable(out, "out")
        same_type(given, "in_", taken, "out")
        return self._receive(_sendrecv, (given[0], given[2], rank_number(destination, "destination"), tag_number(tag), taken[0], taken[2],
                                         rank_number(source, "source"), tag_number(tag if recv_tag is None else recv_tag), given[1]), (given, taken), async_op, call)
