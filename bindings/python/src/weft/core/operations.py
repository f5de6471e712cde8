"""What all operations of a communicator share: their results by kind, and their way to C.

The classes of collectives, vectors and messages say what is checked and called; who mixes them in says what is done with it: a communicator does it
(group.py), `comm.bind` keeps it (bound.py).
"""
from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any, Generic, TypeVar

from weft import _capi
from weft.core.calls import CallOptions, MessageOptions

ANY_SOURCE: int = _capi.WEFT_ANY_SOURCE
Buffer = Any  # buffers.py says which
Root = int

Now = TypeVar("Now")  # of a call that returns when this rank's part is done
Later = TypeVar("Later")  # of one with async_op=True
Received = TypeVar("Received")  # of a receive that returns when it has its message


def rank_number(rank: int, name: str) -> int:
    """For C's int, which would cut a larger one; whether there is such a rank C says."""
    number = index(rank)
    if not -1 << 31 <= number < 1 << 31:
        raise ValueError(f"{name} is {number}; it must be a number of 32 bits")
    return number


class Operations(Generic[Now, Later, Received]):
    """Base of the classes of operations."""

    _rank: int
    _size: int

    def _quickly(self, kind: int, in_: Buffer, out: Buffer, op: int = 0, root: Root = 0) -> bool:
        """Calls without keywords, by quick.py. False: not done, to be issued."""
        return False

    def _issue(self, function: Callable[..., int], arguments: tuple[Any, ...], kept: object, async_op: bool,
               call: CallOptions | MessageOptions) -> Now | Later:
        """Calls a function of C with these arguments and the tail that all of them have: group, call, work. `kept` is what it needs until it has
        ended."""
        raise NotImplementedError

    def _receive(self, function: Callable[..., int], arguments: tuple[Any, ...], kept: object, async_op: bool,
                 call: CallOptions | MessageOptions) -> Received | Later:
        """As _issue, of a function that tells the sender: with one argument more, before the tail."""
        raise NotImplementedError
