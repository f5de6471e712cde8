"""Handles of C that give themselves back, and calls with them.

Whoever makes a call holds the handle meanwhile, so that none is gone under a call on another thread.

Thread-safety: `any_thread` is for what any thread may do; `in_turn` refuses a thread while another one is in a call of the same owner.
"""
from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any, ClassVar

from weft import _capi
from weft._library import library
from weft.core import interrupt
from weft.core.errors import Error, Result
from weft.shard import callbacks


# A checkpoint that is being saved still reads it.
NOTHING_FREED = (_capi.WEFT_TIMEOUT, _capi.WEFT_INTERRUPTED)


class Owned(ctypes.c_void_p):
    """A handle of C, given back with the last reference to it."""

    give_back: ClassVar[Any]  # the function of C
    kind: ClassVar[str]

    def __init__(self, value: int | None = None, kept: object = None) -> None:
        """`kept` is what C uses until the handle has been given back."""
        super().__init__(value)
        self.kept = kept
        self.holder: dict[int, int] = {}  # by 0: the thread that is in a call
        self.outcome: list[int] | None = None  # of giving back, for who wants to know

    def __del__(self) -> None:
        if self.value:
            callbacks.later(_GiveBack(self.value, type(self).give_back, self.kept, self.outcome))


class _GiveBack:
    def __init__(self, value: int, function: Callable[[int], int], kept: object, outcome: list[int] | None) -> None:
        self._value, self._function, self._kept, self._outcome = value, function, kept, outcome

    def __call__(self) -> None:
        result = self._function(self._value)
        if self._outcome is not None:
            self._outcome.append(result)
        elif result in NOTHING_FREED:
            interrupt.postpone(self)


class MeshHandle(Owned):
    give_back = library.weft_mesh_destroy
    kind = "mesh"


class ContextHandle(Owned):
    give_back = library.weft_shard_context_destroy
    kind = "context"


class CheckpointHandle(Owned):
    give_back = library.weft_checkpoint_destroy
    kind = "checkpoint"


class Borrowed(ctypes.c_void_p):
    """A handle of an owner, or of what it has. `owner` keeps that; None once it was destroyed."""

    def __init__(self, value: int | None, owner: Owned | None, kind: str = "context") -> None:
        super().__init__(value)
        self.owner, self._kind = owner, kind

    def live(self) -> Owned:
        if self.owner is None:
            raise Error(f"the {self._kind} was destroyed; make another one", Result.BAD_STATE)
        return self.owner

    def destroyed(self) -> Borrowed:
        """What takes its place."""
        return Borrowed(self.value, None, self._kind)


def call(function: Callable[..., int], *arguments: Any) -> None:
    """Of no owner's, or one that is being made."""
    if interrupt.running.gi_running or callbacks.inside:
        callbacks.refuse()
    try:
        result = function(*arguments)
    except ctypes.ArgumentError as error:
        raise _wrong_type(function, error) from None
    if result or interrupt.raised or callbacks.raised:
        callbacks.settle(result)


def any_thread(handle: Borrowed, function: Callable[..., int], *arguments: Any) -> None:
    """function(handle, *arguments)."""
    if handle.owner is None:
        handle.live()
    call(function, handle, *arguments)


def in_turn(handle: Borrowed, function: Callable[..., int], *arguments: Any) -> None:
    """function(handle, *arguments), on one thread at a time."""
    if interrupt.running.gi_running or callbacks.inside:
        callbacks.refuse()
    owner = handle.owner or handle.live()
    thread, holder = threading.get_ident(), owner.holder
    if holder.setdefault(0, thread) != thread:
        raise Error(f"another thread is in a call of the same {owner.kind}; make its calls from one thread at a time", Result.BAD_STATE)
    try:
        result = function(handle, *arguments)
    except ctypes.ArgumentError as error:
        raise _wrong_type(function, error) from None
    finally:
        holder.clear()
    if result or interrupt.raised or callbacks.raised:
        callbacks.settle(result)


def _wrong_type(function: Callable[..., int], error: ctypes.ArgumentError) -> TypeError:
    return TypeError(f"{function.__name__}: {error}")
