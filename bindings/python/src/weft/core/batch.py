"""Several operations started together, on this thread and of any communicators.

    with weft.batch():
        comm.send(x, right)
        comm.recv(y, left)

Inside, blocking calls are noted and return at once; the end of the `with` starts all and waits for those that were not `async_op`. An exception
inside gives the batch up: nothing is started, and the communicators that have operations in it are aborted.

Thread-safety: a batch belongs to the thread that began it.
"""
from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Protocol

from weft._library import library
from weft.core.errors import check, refuse_inside_check


class Settled(Protocol):
    """What learns that its batch has ended."""

    def _batch_ended(self) -> None: ...


class _Thread(threading.local):
    def __init__(self) -> None:
        self.batches: list[Batch] = []


_thread = _Thread()
_lock = threading.Lock()
# How many batches all threads have begun and not ended: while there are none, calls need not ask.
open_count = 0


class Batch:
    """The batch of a `with weft.batch():`. Batches nest; the outermost one's end starts everything."""

    def __init__(self) -> None:
        self._kept: list[Any] = []
        self._works: list[Settled] = []

    def __enter__(self) -> Batch:
        global open_count
        refuse_inside_check()
        check(library.weft_batch_begin())
        _thread.batches.append(self)
        with _lock:
            open_count += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None) -> None:
        global open_count
        _thread.batches.pop()
        with _lock:
            open_count -= 1
        result = library.weft_batch_end() if kind is None else library.weft_batch_cancel()
        if not _thread.batches:
            works, self._works = self._works, []
            for work in works:
                work._batch_ended()
            self._kept.clear()
        if kind is None:
            check(result)

    def add(self, work: Settled) -> None:
        self._works.append(work)


def current() -> Batch | None:
    """This thread's outermost batch."""
    return _thread.batches[0] if open_count and _thread.batches else None


def keep(held: object) -> None:
    """Keeps it until this thread's batch, if there is one, has been started and waited for."""
    batch = current()
    if batch is not None:
        batch._kept.append(held)


def batch() -> Batch:
    """Begins a batch when entered by `with`."""
    return Batch()
