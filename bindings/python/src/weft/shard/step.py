"""Steps and micro-batches as blocks that cannot be left open."""
from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from weft.core.errors import Error

if TYPE_CHECKING:
    from weft.shard.context import Context
    from weft.shard.enums import AnyMode


class Step:
    """A step, for `with`. If an exception leaves it, the step is aborted, so that the other ranks do not wait; the communicator is of no more use then."""

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
