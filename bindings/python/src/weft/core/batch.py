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
from weft.core.errors import Error, Result, check, refuse_inside_check


class Settled(Protocol):
    """What learns that its batch has ended."""

    def _batch_ended(self) -> None: ...


class _Thread(threading.local):
    """The batches that a thread has begun and not ended, and what waits for the end of the last one."""

    def __init__(self) -> None:
        self.open: list[Batch] = []
        self.kept: list[Any] = []
        self.works: list[Settled] = []


_thread = _Thread()
_lock = threading.Lock()
# How many batches all threads have begun and not ended: while there are none, calls need not ask.
open_count = 0


class Batch:
    """The batch of a `with weft.batch():`. Batches nest, or overlap as those of tasks of asyncio do; the end of the last one starts everything."""

    def __enter__(self) -> Batch:
        global open_count
        refuse_inside_check()
        check(library.weft_batch_begin())
        _thread.open.append(self)
        with _lock:
            open_count += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None) -> None:
        global open_count
        if self not in _thread.open:
            raise Error("a batch is ended by the thread that began it, and once", Result.INVALID_USAGE)
        _thread.open.remove(self)
        with _lock:
            open_count -= 1
        result = library.weft_batch_end() if kind is None else library.weft_batch_cancel()
        if not _thread.open:
            works, kept = _thread.works, _thread.kept
            _thread.works, _thread.kept = [], []
            for work in works:
                work._batch_ended()
            del kept
        if kind is None:
            check(result)


def is_open() -> bool:
    """Whether this thread is in a batch."""
    return bool(open_count and _thread.open)


def add(work: Settled) -> None:
    """A work of this thread's batch."""
    _thread.works.append(work)


def keep(held: object) -> None:
    """Keeps it until this thread's batch, if there is one, has been started and waited for."""
    if is_open():
        _thread.kept.append(held)


def batch() -> Batch:
    """Begins a batch when entered by `with`."""
    return Batch()
