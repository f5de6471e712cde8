"""A process group as a handle: its life, its errors, and how its operations reach C.

Thread-safety: any thread.
"""
from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from weft import _capi
from weft._library import library
from weft.core import batch as batches
from weft.core import calls, completions, interrupt, quick
from weft.core.calls import CallOptions, MessageOptions, nanoseconds
from weft.core.errors import Error, Result, check, fail, refuse_inside_check
from weft.core.operations import Operations
from weft.core.work import Handle, Work

_destroy = library.weft_group_destroy


class GroupHandle(ctypes.c_void_p):
    """A weft_group_t, destroyed with the last reference to it: calls under way on other threads have one."""

    def __del__(self) -> None:
        if self.value:
            interrupt.later(_Destroy(self.value))


class _Destroy:
    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __call__(self) -> None:
        _destroy(self._handle)


def config(name: str | None, timeout: float | None, init_timeout: float | None) -> _capi.weft_group_config_t:
    """How a group is made; times in seconds."""
    return _capi.weft_group_config_t(struct_size=ctypes.sizeof(_capi.weft_group_config_t), name=None if name is None else name.encode(),
                                     timeout_ns=nanoseconds(timeout), init_timeout_ns=nanoseconds(init_timeout))


class Endable(Protocol):
    def end(self) -> None: ...


class Group(Operations[None, Work, int]):
    """A group whose operations are done when they are called."""

    def __init__(self, group: ctypes.c_void_p) -> None:
        """Of the package's own use."""
        self._group: ctypes.c_void_p | None = group
        self._bound: weakref.WeakSet[Endable] = weakref.WeakSet()  # calls that have the handle, too
        self._shared: weakref.WeakValueDictionary[int, ctypes.c_void_p] = weakref.WeakValueDictionary()  # memory that ends with the group
        self._run: quick.Run = quick.never
        self._generation = 0  # counts what makes bound calls wrong
        interrupt.do_postponed()
        interrupt.watch_main_thread()
        self._learn()
        completions.live.add(self)

    @property
    def rank(self) -> int:
        """This process's place, 0 to size - 1."""
        return self._rank

    @property
    def size(self) -> int:
        return self._size

    @property
    def name(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<weft.Communicator {self._name}: rank {self._rank} of {self._size}{'' if self._group is not None else ', destroyed'}>"

    def destroy(self) -> None:
        """Gives this rank's part back; may be called again. Operations under way are aborted: works say so. Calls of other threads that are inside
        go on, and the group is destroyed after them. Not collective."""
        try:
            for call in completions.before_destroy if self._group is not None else ():
                call()
        finally:
            self._group, self._run = None, quick.never
            self._end_bound()
            completions.live.discard(self)
            interrupt.do_postponed()

    def abort(self, reason: str | None = None) -> None:
        """Ends all operations of the group, on all its ranks, those under way and later ones: they raise weft.Error with ABORTED and the reason."""
        refuse_inside_check()
        check(library.weft_group_abort(self._live_group(), None if reason is None else reason.encode()))

    def refuse(self, reason: str, operation: str | None = None) -> None:
        """Tells the other ranks that this one does not make its next collective, `operation`: there they raise weft.Error with MISMATCH, this rank and the
        reason, and the communicator has ended. The refusal takes the call's place, so if all ranks refuse, it goes on. Never waits. What the methods here
        refuse themselves takes no place: correct the call and make it."""
        refuse_inside_check()
        check(library.weft_group_refuse(self._live_group(), None if operation is None else operation.encode(), reason.encode()))

    def _learn(self) -> None:
        """Asks who this is."""
        rank, size, name = ctypes.c_int(), ctypes.c_int(), ctypes.c_char_p()
        check(library.weft_group_rank(self._group, ctypes.byref(rank)))
        check(library.weft_group_size(self._group, ctypes.byref(size)))
        check(library.weft_group_name(self._group, ctypes.byref(name)))
        self._rank, self._size, self._name = rank.value, size.value, (name.value or b"").decode("utf-8", "replace")
        self._run = quick.run_of(self._group, self._rank, self._size)

    def _end_bound(self) -> None:
        for bound in list(self._bound):
            bound.end()

    def _live_group(self) -> ctypes.c_void_p:
        if self._group is None:
            raise self._destroyed()
        return self._group

    def _destroyed(self) -> Error:
        return Error(f"communicator {self._name} is destroyed; make another one", Result.BAD_STATE, group=self._name)

    def _quickly(self, kind: int, in_: Any, out: Any, op: int = 0, root: int = 0) -> bool:
        if batches.open_count or interrupt.running.gi_running:
            return False
        result = self._run(kind, in_, out, op, root)
        if result is None:
            return False
        if result is not True or interrupt.raised:
            self._failed(0 if result is True else result)
        return True

    def _issue(self, function: Callable[..., int], arguments: tuple[Any, ...], kept: object, async_op: bool,
               call: CallOptions | MessageOptions) -> Work | None:
        if interrupt.running.gi_running:
            refuse_inside_check()
        if async_op:
            return self._start(function, arguments, kept, call, None)
        options = calls.reference(call) if call else None
        if batches.open_count:
            batches.keep((kept, options, self))
        result = function(*(arguments + (self._group, options, None)))
        if result or interrupt.raised:
            self._failed(result)
        return None

    def _receive(self, function: Callable[..., int], arguments: tuple[Any, ...], kept: object, async_op: bool,
                 call: CallOptions | MessageOptions) -> Work | int:
        sender = ctypes.c_int(-1)
        told = (*arguments, ctypes.byref(sender))
        if async_op:
            refuse_inside_check()
            return self._start(function, told, kept, call, sender)
        self._issue(function, told, (kept, sender), False, call)
        return sender.value

    def _start(self, function: Callable[..., int], arguments: tuple[Any, ...], kept: object, call: CallOptions | MessageOptions,
               sender: ctypes.c_int | None) -> Work:
        interrupt.do_postponed()
        handle, in_batch, options = Handle(), batches.is_open(), calls.reference(call) if call else None
        if in_batch:
            batches.keep(options)
        result = function(*arguments, self._group, options, ctypes.byref(handle))
        if result:
            self._failed(result)
        work = Work(handle, (kept, self, sender), in_batch, sender)
        if interrupt.raised:
            interrupt.raise_pending()
        return work

    def _failed(self, result: int) -> None:
        if not result:
            interrupt.raise_pending()
        elif self._group is None and result == _capi.WEFT_INVALID_ARGUMENT:
            raise self._destroyed()
        else:
            fail(result)
