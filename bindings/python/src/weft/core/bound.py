"""Calls whose arguments were checked once: what `comm.bind` makes.

    step = comm.bind.all_reduce(x, op="avg")
    step()                                       # as comm.all_reduce(x, op="avg"), in one call of C

`comm.bind` has the methods of operations that its communicator has, with the same arguments; each returns a Bound.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from weft import _capi
from weft._library import operation
from weft.core import batch as batches
from weft.core import calls, interrupt
from weft.core.calls import CallOptions, MessageOptions
from weft.core.collectives import Collectives
from weft.core.errors import Error, Result
from weft.core.group import Group
from weft.core.lists import Lists
from weft.core.messages import Messages
from weft.core.vectors import Vectors
from weft.core.work import Work

Returned = TypeVar("Returned")


class Bound(Generic[Returned]):
    """An operation with its arguments, to be called without any, any number of times. It keeps its buffers, which must not move meanwhile; what stands in
    them at a call counts. It ends with its communicator.

    Thread-safety: as the communicator's operations."""

    __slots__ = ("_name", "_again", "__weakref__")

    def __init__(self, name: str, again: Callable[[], Returned]) -> None:
        """Of the package's own use."""
        self._name, self._again = name, again

    def __call__(self) -> Returned:
        return self._again()

    def __repr__(self) -> str:
        return f"<weft.Bound {self._name}>"


class _Blocking(Bound[None]):
    """Of a call that returns nothing: one call of C, whose arguments are made already."""

    __slots__ = ("_call", "_kept", "_group")

    def __init__(self, name: str, again: Callable[[], Any], call: Callable[[], int], kept: object, group: Group) -> None:
        super().__init__(name, again)
        self._call, self._kept, self._group = call, kept, group
        group._bound.add(self)

    def __call__(self) -> None:
        if batches.open_count or interrupt.running.gi_running:
            self._again()
            return
        result = self._call()
        if result or interrupt.raised:
            self._group._failed(result)

    def end(self) -> None:
        """Lets go of the group's handle: calls go the other way, on which they are refused."""
        self._call = self._refused

    def _refused(self) -> int:
        self._again()
        return 0


class Binder(Collectives[Bound[None], Bound[Work], Bound[int]], Vectors[Bound[None], Bound[Work], Bound[int]], Lists[Bound[None], Bound[Work], Bound[int]],
             Messages[Bound[None], Bound[Work], Bound[int]]):
    """The operations of a communicator, each of which checks and keeps its arguments and returns the Bound that calls it."""

    def __init__(self, group: Group) -> None:
        """Of the package's own use."""
        self._group, self._rank, self._size, self._generation = group, group.rank, group.size, group._generation

    def _issue(self, function: Callable[..., int], arguments: tuple[Any, ...], kept: object, async_op: bool,
               call: CallOptions | MessageOptions) -> Any:
        group = self._group
        again = functools.partial(self._again, group._issue, function, arguments, kept, async_op, call)
        name = f"{function.__name__[len('weft_'):]} on {group.name}"
        if async_op:
            return Bound(name, again)
        # Converted once: what from_param() makes is passed as it is, objects of ctypes would be converted in each call, which takes half as long again.
        types, handle = _capi.FUNCTIONS[function.__name__][1], group._live_group()
        made = [kind.from_param(value) for kind, value in zip(types, (*arguments, handle.value))]
        quick = functools.partial(operation(function.__name__, 0), *made, calls.reference(call) if call else None, None)
        quick.handle = handle  # type: ignore[attr-defined]  # as long as a thread is inside the call
        return _Blocking(name, again, quick, kept, group)

    def _receive(self, function: Callable[..., int], arguments: tuple[Any, ...], kept: object, async_op: bool,
                 call: CallOptions | MessageOptions) -> Any:
        group = self._group
        group._live_group()
        return Bound(f"{function.__name__[len('weft_'):]} on {group.name}", functools.partial(self._again, group._receive, function, arguments, kept, async_op, call))

    def _again(self, issue: Callable[..., Any], *arguments: Any) -> Any:
        if self._group._generation != self._generation:
            raise Error(f"communicator {self._group.name} has been made anew since this call was bound; bind it again", Result.BAD_STATE,
                        group=self._group.name)
        return issue(*arguments)
