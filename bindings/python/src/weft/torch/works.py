"""torch.distributed's Work over weft's.

Thread-safety: any thread. Futures are completed on the package's completion thread, or by whoever waits for the work first.
"""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from weft.core.errors import Error, Result
from weft.core.work import Work
from weft.torch.coalescing import Coalescing
from weft.torch.events import profiler, wait_event

_Base: Any = dist._Work if hasattr(dist, "_Work") else dist.Work
_ADVICE = "; the timeout of operations is that of init_process_group, new_group or the call"


def explained(error: BaseException) -> BaseException:
    """With what a user of torch can do about it."""
    if isinstance(error, Error) and error.code is Result.TIMEOUT and _ADVICE not in error.args[0]:
        error.args = (error.args[0] + _ADVICE,)
    return error


class _Future(torch.futures.Future):
    """Of works of weft's. A wait for it is one for them: it moves the operations itself, and Ctrl-C ends it. Callers in C++ sleep until it is completed."""

    def __init__(self, works: Sequence[Any]) -> None:
        super().__init__()
        self._works = works

    def wait(self) -> Any:
        if not self.done():
            for work in self._works:
                try:
                    work.wait()
                except Error as error:
                    if work.exception() is not error:  # it is of the wait
                        raise
        return super().wait()

    def complete(self, failure: BaseException | None, outputs: Any) -> None:
        self._works = ()  # which hold this
        if failure is not None:
            self._set_unwrap_func(_Failed.reveal)
            self.set_result(_Failed(explained(failure)))
        else:
            self.set_result(outputs)


class _Failed:
    """What a future has in place of its tensors. torch's own set_exception has the exception itself there, which callers in C++, DDP's backward for one, take
    for tensors, and crash. They look for them by pickling: that raises."""

    def __init__(self, failure: BaseException) -> None:
        self._failure = failure

    def reveal(self) -> NoReturn:
        raise self._failure

    def __reduce__(self) -> NoReturn:
        raise self._failure


class _Common(_Base):
    """What callers in Python may ask of any work. Callers in C++ ask for wait and get_future alone."""

    def result(self) -> list[torch.Tensor]:
        self.wait()
        return list(self._outputs)

    def synchronize(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        return int(self._source_rank())

    def is_success(self) -> bool:
        return bool(self.is_completed()) and self.exception() is None


class Done(_Common):
    """Of an operation that ended in the call."""

    def __init__(self, outputs: Any) -> None:
        super().__init__()
        self._outputs = outputs

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def exception(self) -> None:
        return None

    def _source_rank(self) -> int:
        return -1

    def get_future(self) -> Any:
        future: Any = torch.futures.Future()
        future.set_result(self._outputs)
        return future


class Waiting:
    """In the place of a weft.Work until end_coalescing() starts the operation."""

    source = None

    def __init__(self, start: Callable[[], Work], together: Coalescing) -> None:
        self._start, self._together = start, together
        self._started: Work | None = None
        self._callbacks: list[Callable[[Any], object]] = []

    def start(self) -> Work:
        work = self._started = self._start()
        self._hand_over()
        return work

    def wait(self, timeout: float | None = None) -> None:
        """Ends at once: calls that block do so when all has been started."""
        if not self._together.is_open:
            raise Error("the operation was not started, because an exception ended the coalescing in which it was called", Result.ABORTED)

    def done(self) -> bool:
        return False

    def exception(self) -> None:
        return None

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        self._callbacks.append(callback)
        self._hand_over()  # another thread may have started it meanwhile

    def _hand_over(self) -> None:
        while self._started is not None and self._callbacks:
            with contextlib.suppress(IndexError):
                self._started.add_done_callback(self._callbacks.pop(0))


class Started(_Common):
    """Of one operation under way, which goes on with its tensors if nobody holds the work."""

    def __init__(self, work: Work | Waiting, outputs: Any, function: Callable[..., int], finish: Callable[[], None] | None = None,
                 explain: Callable[[BaseException], BaseException] = explained) -> None:
        """`function`: of C, that started it. `finish` is called once, when the operation has ended well: copies that are left to do. `explain`: from its failure
        to what wait() raises."""
        super().__init__()
        self._explain = explain
        self._work, self._outputs, self._function, self._finish = work, outputs, function, finish
        self._lock = threading.Lock()
        self._future: Any = None
        self._told = False
        if finish is not None:
            work.add_done_callback(self._settle)

    def begin(self) -> None:
        """At end_coalescing(), of one that was called while it was open."""
        if isinstance(self._work, Waiting):
            self._work = self._work.start()

    def wait(self, timeout: Any = None) -> bool:
        """Until the operation has ended; raises its weft.Error. After `timeout`, a RuntimeError, and it goes on."""
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else 0.0
        limit = seconds if seconds > 0 else None
        try:
            if profiler._is_profiler_enabled and isinstance(self._work, Work):
                with wait_event(self._function):
                    self._work.wait(limit)
            else:
                self._work.wait(limit)
        except TimeoutError:
            raise RuntimeError(f"the operation has not ended after the timeout of {seconds} s; it goes on") from None
        except Error as error:
            raise self._explain(error) from None
        finally:
            if self._finish is not None or self._future is not None:
                self._settle()
        return True

    def is_completed(self) -> bool:
        done = self._work.done()
        if done and self._finish is not None:
            self._settle()
        return done

    def exception(self) -> BaseException | None:
        return self._work.exception() if self.is_completed() else None

    def get_future(self) -> Any:
        """Completed without anybody waiting for the work."""
        with self._lock:
            made = self._future is None
            if made:
                self._future = _Future([self])
        if made:
            self._work.add_done_callback(self._settle)
        return self._future

    def _source_rank(self) -> int:
        source = self._work.source
        return -1 if source is None else source

    def _settle(self, _: object = None) -> None:
        """What is left to do once the operation has ended, by whoever learns of that first; others wait for it."""
        with self._lock:
            if not self._work.done():
                return
            failure, finish = self._work.exception(), self._finish
            if finish is not None and failure is None:
                finish()
            self._finish = None
            tell = self._future is not None and not self._told
            self._told = self._told or tell
        if tell:
            self._future.complete(failure, self._outputs)


class Together(_Common):
    """Several works as one. `outputs`: those of all, if they are not the parts' one after the other."""

    def __init__(self, works: list[Any], outputs: list[torch.Tensor] | None = None) -> None:
        super().__init__()
        self._works = works
        self._outputs = outputs if outputs is not None else [output for work in works for output in work._outputs]

    def wait(self, timeout: Any = None) -> bool:
        for work in self._works:
            work.wait(timeout)
        return True

    def is_completed(self) -> bool:
        return all([work.is_completed() for work in self._works])

    def exception(self) -> BaseException | None:
        return next((failure for failure in (work.exception() for work in self._works) if failure is not None), None)

    def _source_rank(self) -> int:
        return -1

    def get_future(self) -> Any:
        future = _Future(self._works)
        torch.futures.collect_all([work.get_future() for work in self._works]).add_done_callback(
            lambda _: future.complete(self.exception(), self._outputs))
        return future
