"""A rank that raises before its operation has begun tells the others, which would wait for it until their deadline.

    @refusing("all_reduce")
    def allreduce(self, tensors, opts): ...

The refusal takes the operation's place in the group's order (weft_group_refuse), so a program that catches what all its ranks raise goes on.

Thread-safety: any thread.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from weft.core import interrupt
from weft.core.communicator import Communicator
from weft.core.errors import Error, Result

_Any = TypeVar("_Any", bound=Callable[..., Any])
# Of these nothing has reached the group.
_REFUSED = (Result.INVALID_ARGUMENT, Result.INVALID_USAGE, Result.UNSUPPORTED)
_TOLD = "_weft_is_told"


def refusing(operation: str) -> Callable[[_Any], _Any]:
    """Of a method of a group or backend that is the collective `operation`, by weft's name."""

    def decorate(method: _Any) -> _Any:
        @functools.wraps(method)
        def call(self: Any, *given: Any, **named: Any) -> Any:
            try:
                return method(self, *given, **named)
            except Exception as error:
                tell(self._comm, operation, error)
                raise

        return call  # type: ignore[return-value]

    return decorate


def tell(comm: Communicator, operation: str | None, error: Exception) -> None:
    """Tells the other ranks once that this one has raised `error` instead of calling `operation`, if that has not begun."""
    if hasattr(error, _TOLD) or (isinstance(error, Error) and error.code not in _REFUSED) or interrupt.inside():
        return
    begun(error)
    try:
        comm.refuse(f"{type(error).__name__}: {error}", operation)
    except Error:  # the group takes no calls any more, which its ranks know
        pass


def begun(error: Exception) -> Exception:
    """Of an operation that has begun: the others do not wait for it in vain."""
    setattr(error, _TOLD, True)
    return error
