"""What a program wants to be called when a group has failed, to keep what explains it: torch's register_abort_hook.

A call of an operation that fails calls the hooks before it raises; where no call does, a thread does, which is there while there are hooks. They are called once
for each failure; other threads that find the same failure wait until they have returned, so a hook must not wait for such a thread.

Thread-safety: any thread.
"""
from __future__ import annotations

import threading
import traceback
import weakref
from collections.abc import Callable
from typing import Any

from weft.core.errors import Error

_LOOK_S = 0.02
_of: weakref.WeakKeyDictionary[Any, weakref.ref[AbortHooks]] = weakref.WeakKeyDictionary()  # by communicator


def look(comm: Any) -> None:
    """After a call on `comm` that has failed: calls the group's hooks if that has ended it."""
    hooks = _of.get(comm)
    found = hooks() if hooks is not None else None
    if found is not None:
        found.look()


class AbortHooks:
    """Of one group."""

    def __init__(self, comm: Any) -> None:
        self._hooks: dict[int, Callable[[], object]] = {}
        self._running = threading.RLock()
        self._told = False  # of the present communicator's end
        self._stop: threading.Event | None = None
        self.follow(comm)

    def follow(self, comm: Any) -> None:
        """The group's communicator is this one from now on."""
        with self._running:
            self._comm, self._told = comm, False
            _of[comm] = weakref.ref(self)

    def register(self, number: int, hook: Callable[[], object]) -> None:
        self._hooks[number] = hook
        if self._stop is None:
            self._stop = threading.Event()
            threading.Thread(target=_watch, args=(weakref.ref(self), self._stop), name="weft-abort-hooks", daemon=True).start()

    def unregister(self, number: int) -> None:
        self._hooks.pop(number, None)
        if not self._hooks:
            self.stop()

    def stop(self) -> None:
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def look(self) -> None:
        """Calls them if the group has ended."""
        if not self._hooks:
            return
        with self._running:  # else what was seen may be the failure before follow()
            try:
                ended = self._comm._group is not None and self._comm.failure() is not None
            except Error:  # it was destroyed at this moment
                return
            if ended:
                self.run()

    def run(self) -> None:
        with self._running:
            if self._told:
                return
            self._told = True
            for hook in list(self._hooks.values()):
                try:
                    hook()
                except Exception:  # the group's own failure is what is to be raised
                    traceback.print_exc()


def _watch(hooks: weakref.ref[AbortHooks], stop: threading.Event) -> None:
    while not stop.wait(_LOOK_S):
        found = hooks()
        if found is None:
            return
        found.look()
        del found
