"""An operation under way.

Thread-safety: any thread, several at once. Callbacks run on one thread of the package's; none runs on weft's.
"""
from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Generator
from typing import Any

from weft import _capi
from weft._library import library
from weft.core import batch, completions, interrupt
from weft.core.calls import nanoseconds
from weft.core.errors import Error, empty_info, error_of, fail, refuse_inside_check

Callback = Callable[["Work"], object]

# Of the states of all works. A collection of garbage may come while it is held, and finalizers may ask for works.
_lock = threading.RLock()
_OF_NO_OPERATION = (_capi.WEFT_IN_PROGRESS, _capi.WEFT_BAD_STATE, _capi.WEFT_FORKED)
_wait = library.weft_work_wait
_test = library.weft_work_test
_free = library.weft_work_free


class Handle(ctypes.c_void_p):
    """A weft_work_t, freed with the last reference to it."""

    def __del__(self) -> None:
        if self.value:
            interrupt.later(_Free(self.value))


class _Free:
    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __call__(self) -> None:
        _free(self._handle)


# What operations need until they have ended, and their handles, by these. Not in the works: a work that is garbage in a cycle loses what it has in any order.
_under_way: dict[int | None, object] = {}
# Of the parent of this process, whose operations use it.
_inherited: list[object] = []


def _in_child() -> None:
    _inherited.append(dict(_under_way))
    _under_way.clear()


os.register_at_fork(after_in_child=_in_child)


def _let_go(number: int | None) -> None:
    _under_way.pop(number, None)


class Work:
    """What a call with `async_op=True` returns. Its buffers are kept until it has ended, even if the work is dropped."""

    __slots__ = ("_handle", "_ended", "_exception", "_callbacks", "_told", "_in_batch", "_sender", "__weakref__")

    def __init__(self, handle: Handle, kept: object, in_batch: bool, sender: ctypes.c_int | None) -> None:
        """Of the package's own use. `kept` is what the operation needs."""
        self._handle, self._in_batch, self._sender = handle, in_batch, sender
        self._ended = self._told = False
        _under_way[handle.value] = (handle, kept)
        self._exception: Error | None = None
        self._callbacks: list[Callback] = []
        if in_batch:
            batch.add(self)

    def wait(self, timeout: float | None = None) -> None:
        """Waits until the operation has ended; raises its weft.Error if it failed. After `timeout` seconds: TimeoutError, and the operation goes on.
        KeyboardInterrupt ends the wait, too, and not the operation. May be called any number of times."""
        if not self._ended:
            self._wait(timeout)
        if self._exception is not None:
            raise self._exception

    def done(self) -> bool:
        """Whether the operation has ended, well or not. Never waits."""
        if not self._ended:
            refuse_inside_check()
            done = ctypes.c_int(0)
            result = _test(self._handle, ctypes.byref(done))
            if done.value:
                self._finish(result)
            elif result:
                fail(result)
        return self._ended

    def exception(self, timeout: float | None = None) -> Error | None:
        """Waits as wait() does; returns what it would raise of the operation, None if that ended well."""
        if not self._ended:
            self._wait(timeout)
        return self._exception

    def add_done_callback(self, callback: Callback) -> None:
        """Calls `callback(work)` once the operation has ended: on the package's thread, or now and here if it has ended. What it raises goes to
        sys.unraisablehook, unless it is here and no Exception, as KeyboardInterrupt. Callbacks of a work run in the order in which they were added; a slow one delays those of all works."""
        refuse_inside_check()
        with _lock:
            now = self._ended
            if not now:
                self._callbacks.append(callback)
        if now:
            completions.report(lambda: callback(self), Exception)
        else:
            self._have_told()

    @property
    def source(self) -> int | None:
        """Of a receive that has ended: the rank that the message came from. None before, and of other operations."""
        return self._sender.value if self._sender is not None and self._ended and self._exception is None else None

    def __await__(self) -> Generator[Any, None, None]:
        """`await work` in asyncio: as wait(), while other tasks run."""
        if not self.done():
            import asyncio  # noqa: PLC0415  (nobody else shall pay for it)

            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()

            def set_result() -> None:
                if not future.done():
                    future.set_result(None)

            def tell_loop(_: Work) -> None:
                try:
                    loop.call_soon_threadsafe(set_result)
                except RuntimeError:  # the loop was closed meanwhile
                    pass

            self.add_done_callback(tell_loop)
            yield from future.__await__()
        if self._exception is not None:
            raise self._exception

    def __del__(self) -> None:
        if getattr(self, "_ended", True) or self._told or self._in_batch or self._handle.value not in _under_way:
            return
        handle, number = self._handle, self._handle.value
        interrupt.later(lambda: completions.tell(handle, lambda _: _let_go(number)))

    def __repr__(self) -> str:
        state = "under way" if not self._ended else "done" if self._exception is None else f"failed: {self._exception}"
        return f"<weft.Work {state}>"

    def _wait(self, timeout: float | None) -> None:
        refuse_inside_check()
        if timeout is not None and timeout <= 0:
            if not self.done():
                raise TimeoutError("the operation has not ended; it goes on")
            return
        result = _wait(self._handle, nanoseconds(timeout))
        if result == _capi.WEFT_IN_PROGRESS:
            interrupt.raise_pending()
            raise TimeoutError(f"the operation has not ended after {timeout} s; it goes on")
        if result and library.weft_work_error(self._handle) in _OF_NO_OPERATION:
            fail(result)  # of the wait
        self._finish(result)
        interrupt.raise_pending()

    def _finish(self, result: int) -> None:
        exception = None
        if result and not self._ended:
            info, sentence = empty_info(), ctypes.c_char_p()
            library.weft_work_error_info(self._handle, ctypes.byref(info))
            library.weft_work_error_message(self._handle, ctypes.byref(sentence))
            exception = error_of(result, sentence.value or b"", info)
        with _lock:
            first = not self._ended
            if first:
                self._exception, self._ended = exception, True
        if first:
            _let_go(self._handle.value)

    def _have_told(self) -> None:
        """Once: has the queue tell the end. Of a work in a batch that is asked for when the batch has ended."""
        with _lock:
            if self._told or self._in_batch:
                return
            self._told = True
        completions.tell(self._handle, self._on_ended)

    def _on_ended(self, result: int) -> None:
        self._finish(result)
        while True:
            with _lock:
                callbacks, self._callbacks = self._callbacks, []
            if not callbacks:
                return
            for callback in callbacks:
                completions.report(lambda callback=callback: callback(self))  # type: ignore[misc]

    def _batch_ended(self) -> None:
        self._in_batch = False
        if self._callbacks:
            self._have_told()

