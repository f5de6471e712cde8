"""Ctrl-C while C waits: weft asks, on the main thread and about every 50 ms, whether a signal handler has raised.

The handler runs then and there, inside a call of weft and with locks of weft's held. Nothing on that thread may call weft
meanwhile: `inside()` tells, and what must be freed is put off (`later`).
"""
from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any, cast

from weft import _capi
from weft._library import library

_EVERY_NS = 50_000_000

# What a handler has raised and no call has raised again yet: at most one.
raised: list[BaseException] = []
# Calls that were put off.
_postponed: list[Callable[[], None]] = []


def _checks() -> Generator[int, Any, None]:
    """Each step says whether the wait shall end. A generator, because its resumption is a point at which Python runs handlers, and that one
    lies in the `try`; a function's first such point lies before any `try` in it, where the exception would be lost."""
    try:
        while True:
            yield 0
    except GeneratorExit:  # nobody will ask again
        return
    except BaseException as exception:  # whatever the handler raises, KeyboardInterrupt first of all
        raised.append(exception)
    while True:
        try:
            while True:
                yield 1
        except GeneratorExit:
            return
        except BaseException:  # one more Ctrl-C, while the first is on its way
            pass


class Watch:
    """The check of one thread, until a handler has raised."""

    def __init__(self) -> None:
        self.checks = cast("GeneratorType[int, Any, None]", _checks())
        next(self.checks)
        self._thunk = _capi.weft_interrupt_check_t(self.checks.send)

    def set(self) -> None:
        library.weft_set_interrupt(self._thunk, None, _EVERY_NS)


# Of the main thread, the only one on which Python runs signal handlers. Replaced ones are kept: C may still be about to return from one.
_watches = [Watch()]
running = _watches[0].checks


def watch_main_thread() -> None:
    """Has the main thread's waits ask. From another thread: before the main one runs Python again."""
    if threading.current_thread() is threading.main_thread():
        _watches[-1].set()
    else:
        _call_on_main_thread(_set_pending, None)


_Pending = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_call_on_main_thread = ctypes.pythonapi.Py_AddPendingCall
_call_on_main_thread.argtypes, _call_on_main_thread.restype = [_Pending, ctypes.c_void_p], ctypes.c_int


def _watch(_: int | None) -> int:
    watch_main_thread()
    return 0


_set_pending = _Pending(_watch)


def raise_pending() -> None:
    """Raises what a handler has raised during a call, if one has."""
    global running
    if raised and threading.current_thread() is threading.main_thread():
        _watches[:] = [_watches[-1], Watch()]
        running = _watches[-1].checks
        _watches[-1].set()
        raise raised.pop()


def note(exception: BaseException) -> None:
    """A handler has raised in code of Python's that C has called: C's waits end, as if it had raised in a check."""
    running.throw(exception)


def inside() -> bool:
    """Whether this thread is in a check, and so must not call weft."""
    return running.gi_running and threading.current_thread() is threading.main_thread()


def later(call: Callable[[], None]) -> None:
    """Calls now, or if that may not be, from a later call of weft."""
    if running.gi_running:
        postpone(call)
    else:
        call()


def postpone(call: Callable[[], None]) -> None:
    """Calls from a later call of weft."""
    _postponed.append(call)


def do_postponed() -> None:
    while _postponed:
        try:
            call = _postponed.pop()
        except IndexError:  # another thread took it
            return
        call()


os.register_at_fork(after_in_child=_postponed.clear)
watch_main_thread()
