"""The one Python thread that learns of ended works: it sleeps in a completion queue, so no Python runs on weft's threads.

It starts with the first work that needs it and ends when the interpreter exits. Then all communicators are destroyed, which ends what is
under way, before the memory of its buffers goes.

Thread-safety: any thread.
"""
from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Protocol

from weft import _capi
from weft._library import library
from weft.core.errors import fail

_BATCH = 64
_EXIT_S = 2.0
Ended = Callable[[int], None]  # given the result


class Closable(Protocol):
    def destroy(self) -> None: ...


# What has to be destroyed before the interpreter ends.
live: weakref.WeakSet[Closable] = weakref.WeakSet()
# Called before a communicator is destroyed, by those who have operations under way that nobody else here knows of.
before_destroy: list[Callable[[], None]] = []


def report(function: Callable[[], object], kind: type[BaseException] = BaseException) -> None:
    """Calls it; what it raises of that kind goes to sys.unraisablehook."""
    # Only C can make the argument of the default hook; ctypes makes it for what a callback raises.
    try:
        function()
    except kind as exception:
        caught = exception

        def callback_of_a_work() -> None:
            raise caught

        ctypes.PYFUNCTYPE(None)(callback_of_a_work)()


class _Service:
    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._starting = False  # by whoever has the lock: a collection of garbage in there may tell of more works
        self._early: list[tuple[ctypes.c_void_p, int]] = []
        self._tokens = itertools.count(1)
        self._waiting: dict[int, Ended] = {}
        self._queue = ctypes.c_void_p()
        self._thread: threading.Thread | None = None
        self._closed = False

    def tell(self, work: ctypes.c_void_p, ended: Ended) -> None:
        """Calls `ended` on the thread here once the work has ended; keeps it until then."""
        token = next(self._tokens)
        self._waiting[token] = ended
        if self._closed:  # the interpreter ends: kept, never told
            return
        if self._thread is None and not self._start():
            self._early.append((work, token))
            return
        self._add(work, token)

    def _add(self, work: ctypes.c_void_p, token: int) -> None:
        result = library.weft_completion_queue_add(self._queue, work, token)
        if result:
            del self._waiting[token]
            fail(result)

    def _start(self) -> bool:
        """False if this thread is at it already."""
        with self._lock:
            if self._starting:
                return False
            if self._thread is not None or self._closed:
                return True
            self._starting = True
            try:
                result = library.weft_completion_queue_create(None, ctypes.byref(self._queue))
                if result:
                    fail(result)
                thread = threading.Thread(target=self._serve, name="weft-completions", daemon=True)
                thread.start()
                self._thread = thread
            finally:
                self._starting = False
        while self._early:
            self._add(*self._early.pop())
        return True

    def _serve(self) -> None:
        ended = (_capi.weft_completion_t * _BATCH)()
        count = ctypes.c_size_t()
        wait = library.weft_completion_queue_wait
        while True:
            result = wait(self._queue, 0, ended, _BATCH, ctypes.byref(count))
            if self._closed or result == _capi.WEFT_BAD_STATE:
                return
            for i in range(count.value):
                told = self._waiting.pop(ended[i].token, None)
                if told is not None:
                    report(lambda told=told, code=ended[i].result: told(code))  # type: ignore[misc]
                told = None

    def close(self) -> None:
        self._closed = True
        if self._thread is not None:
            library.weft_completion_queue_wake(self._queue)
            self._thread.join(_EXIT_S)


_service = _Service()


def tell(work: ctypes.c_void_p, ended: Ended) -> None:
    _service.tell(work, ended)


def _at_exit() -> None:
    _service.close()
    for communicator in list(live):
        report(communicator.destroy)


def _in_child() -> None:
    """The thread and the queue are the parent's; the child keeps what they kept, since the parent's operations use it."""
    global _service
    _forked.append(_service)
    _service = _Service()
    live.clear()


_forked: list[_Service] = []
atexit.register(_at_exit)
os.register_at_fork(after_in_child=_in_child)
