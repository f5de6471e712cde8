"""What a thread has called on a group between start_coalescing() and end_coalescing(): nothing of it has started yet.

Where an exception ends torch's _coalescing_manager (and with it batch_isend_irecv), torch does not call end_coalescing(), and goes on to take operations for
parts of it. So the manager is guarded: what was called in it is given up then, never to be started, and the group goes on.

Thread-safety: each thread has its own.
"""
from __future__ import annotations

import sys
import threading
from typing import Any

from torch.distributed import distributed_c10d

_manager = getattr(getattr(distributed_c10d._coalescing_manager, "__wrapped__", None), "__code__", None)
# Frames between start_coalescing() and torch's.
_DEPTH_MAX = 8


class Coalescing:
    """One that a thread has begun."""

    def __init__(self) -> None:
        self.works: list[Any] = []  # Started, in the order of the calls
        self.is_open = True


class OfThread(threading.local):
    """The one that the thread which asks has open, on one group."""

    coalescing: Coalescing | None = None

    def begin(self) -> None:
        if self.coalescing is not None:  # torch has no nested ones
            self.coalescing.is_open = False
        self.coalescing = Coalescing()
        _guard(self.coalescing)

    def current(self) -> Coalescing | None:
        """None also instead of one that was given up."""
        if self.coalescing is not None and not self.coalescing.is_open:
            self.coalescing = None
        return self.coalescing

    def end(self) -> list[Any]:
        """The works that are to be started."""
        ended, self.coalescing = self.current(), None
        if ended is None:
            return []
        ended.is_open = False
        return ended.works


def _guard(coalescing: Coalescing) -> None:
    """Puts a guard around the generator that is torch's manager, if that is what calls. contextlib's object, whose __enter__ has called it, keeps it for its
    __exit__."""
    frame: Any = sys._getframe()
    for _ in range(_DEPTH_MAX):
        frame = frame.f_back
        if frame is None or frame.f_back is None:
            return
        if frame.f_code is _manager:
            context = frame.f_back.f_locals.get("self")
            generator = getattr(context, "gen", None)
            if getattr(generator, "gi_frame", None) is frame:
                context.gen = _Guarded(generator, frame.f_locals.get("group"), coalescing)
            return


class _Guarded:
    """What contextlib calls of a generator."""

    def __init__(self, generator: Any, group: Any, coalescing: Coalescing) -> None:
        self._generator, self._group, self._coalescing = generator, group, coalescing

    def __next__(self) -> Any:
        return next(self._generator)

    def throw(self, *exception: Any) -> Any:
        self._coalescing.is_open = False
        getattr(distributed_c10d._world, "pg_coalesce_state", {}).pop(self._group, None)
        return self._generator.throw(*exception)

    def close(self) -> None:
        self._generator.close()
