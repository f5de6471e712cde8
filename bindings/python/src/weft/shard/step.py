"""Steps and micro-batches as blocks that cannot be left open."""
from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from weft.core.errors import Error, Result

if TYPE_CHECKING:
    from weft.shard.context import Context
    from weft.shard.enums import AnyMode

# Refused before anything was done or sent.
_WRONG_CALLS = (Result.BAD_STATE, Result.INVALID_ARGUMENT, Result.INVALID_USAGE, Result.UNSUPPORTED)
# All ranks have found it, and nobody has updated anything.
_OF_ALL_RANKS = (Result.MISMATCH, Result.CORRUPT)


class Step:
    """A step, for `with`. If an exception leaves it, the step is aborted, so that the other ranks do not wait; the communicator is of no more use then.

    A wrong call harms nobody: its exception (BAD_STATE, INVALID_ARGUMENT, INVALID_USAGE or UNSUPPORTED, or a TypeError or ValueError of this package)
    leaves the step open, or ends it if nothing but step_end was left to call. Make the call as it should be, and those that follow, or give the step up on
    all ranks: microbatch_end, finish, drop_gradients, step_end. Nor does an update that ranks do not agree on, or that fails for its gradients: it ends
    the step.
    """

    __slots__ = ("_context", "_mode", "_tag")

    def __init__(self, context: Context, mode: AnyMode, tag: int) -> None:
        """Of the package's own use."""
        self._context, self._mode, self._tag = context, mode, tag

    def __enter__(self) -> Context:
        self._context.step_begin(self._mode, self._tag)
        return self._context

    def __exit__(self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None) -> None:
        if not self._context._step_open:  # join or step_end has ended it
            return
        if kind is None:
            self._context.step_end()
            return
        wrong_call = _is_wrong_call(exception, traceback)
        try:
            if wrong_call or _is_of_all_ranks(exception):
                self._context.step_end()
                return
        except Error:
            if wrong_call:
                return
        try:
            self._context.abort_step(f"{kind.__name__}: {exception}")
        except Error:  # what was raised first says more
            pass


class Microbatch:
    """A micro-batch, for `with`."""

    __slots__ = ("_context", "_index", "_last")

    def __init__(self, context: Context, index: int, last: bool) -> None:
        """Of the package's own use."""
        self._context, self._index, self._last = context, index, last

    def __enter__(self) -> None:
        self._context.microbatch_begin(self._index, self._last)

    def __exit__(self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None:
            self._context.microbatch_end()


def _is_wrong_call(exception: BaseException | None, traceback: TracebackType | None) -> bool:
    if isinstance(exception, Error):
        return exception.code in _WRONG_CALLS
    if not isinstance(exception, (TypeError, ValueError)) or traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    raised_by: str = traceback.tb_frame.f_globals.get("__name__", "")
    return raised_by.partition(".")[0] == __name__.partition(".")[0]


def _is_of_all_ranks(exception: BaseException | None) -> bool:
    return isinstance(exception, Error) and exception.code in _OF_ALL_RANKS
