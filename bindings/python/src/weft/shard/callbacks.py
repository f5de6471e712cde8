"""Functions of the program that C calls back: on the thread that is in a call of weft, and with locks of weft's held.

Python never runs on weft's threads, and does not here: it is the program's own thread. What a function raises, the call of weft that runs it
raises, after C has ended as it does when the function fails. Meanwhile that thread must not call weft; what must be freed is put off.
"""
from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from weft._library import library
from weft.core import interrupt
from weft.core.errors import Error, Result, check, refuse_inside_check

T = TypeVar("T")

# Threads that are in such a function, and what a function has raised on them.
inside: set[int] = set()
raised: dict[int, BaseException] = {}


def guarded(function: Callable[..., T], failed: T) -> Callable[..., T]:
    """What C may call: `failed` is its answer if the function raises."""

    def call(*arguments: Any) -> T:
        thread = threading.get_ident()
        inside.add(thread)
        try:
            return function(*arguments)
        except BaseException as exception:  # KeyboardInterrupt, too
            raised.setdefault(thread, exception)
            # For the other ranks: here the exception itself is raised.
            library.weft_callback_failed(0, f"{type(exception).__name__}: {exception}".encode(errors="replace"))
            return failed
        finally:
            inside.discard(thread)

    return call


def refuse() -> None:
    """Raises if this thread is in such a function, or in a signal handler that has interrupted a call."""
    refuse_inside_check()
    if threading.get_ident() in inside:
        raise Error("weft cannot be called from a function that weft calls on this thread; return from it first", Result.INVALID_USAGE)


def settle(result: int) -> None:
    """Raises what a function of the program's has raised during the call, else its failure."""
    exception = raised.pop(threading.get_ident(), None)
    if exception is not None:
        raise exception
    check(result)


def later(call: Callable[[], None]) -> None:
    """Calls now, or if this thread may not call weft, from a later call of it."""
    if threading.get_ident() in inside:
        interrupt.postpone(call)
    else:
        interrupt.later(call)


def _in_child() -> None:
    inside.clear()
    raised.clear()


os.register_at_fork(after_in_child=_in_child)
