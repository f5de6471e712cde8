"""Which optimizers of torch's have their turn in a step: one, or several that have some of the model's params each."""
from __future__ import annotations

import weakref
from collections.abc import Callable, Container
from typing import Any

from weft.torch.sharding.params import ManagedParam


class Turns:
    """The optimizers of a model. The first one's step() begins the update, and the step ends when all params that live ones have were updated or given up.

    Thread-safety: as the context. All ranks have the same optimizers, and step them in one order."""

    def __init__(self, begin: Callable[[], Container[ManagedParam]], end: Callable[[], None], backwards: Callable[[], int]) -> None:
        """begin() returns the params that have no gradients; it and end() are collective. backwards(): how many there were in this step."""
        self._begin, self._end, self._backwards = begin, end, backwards
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._updated: set[Any] = set()  # Parameters of those that had their turn in this step, or gave it up
        self._given_up_after = 0  # how many backwards; another one makes gradients again
        self._without: Container[ManagedParam] | None = None  # of the update that has begun

    @property
    def begun(self) -> bool:
        """Some optimizer has had its turn in this step, and another has not."""
        return self._without is not None

    def owed(self) -> int:
        """How many step()s the update that has begun still needs."""
        return self._missing() if self.begun else 0

    def add(self, optimizer: Any) -> None:
        self._optimizers.add(optimizer)

    def begin(self, optimizer: Any) -> Container[ManagedParam]:
        """Its step() begins. Returns the params that have no gradients. Raises RuntimeError if it has had its turn."""
        self._forget_what_was_given_up_before()
        if self._had(optimizer):
            raise RuntimeError(f"the optimizer has had its step() or zero_grad(), and {self._missing()} of the model's optimizers have not; call theirs, which "
                               "ends the step")
        if self._without is None:
            self._without = self._begin()
        return self._without

    def end(self, optimizer: Any) -> None:
        """Its step() is over."""
        self._updated.update(params_of(optimizer))
        if not self._missing():
            self.end_all()

    def give_up(self, optimizer: Any) -> bool:
        """Its params are not updated in this step. Returns whether no other optimizer is to have its turn."""
        self._forget_what_was_given_up_before()
        self._updated.update(params_of(optimizer))
        return not self._missing()

    def end_all(self) -> None:
        """Those that have not had their turn do without. Ends the update, if one has begun."""
        begun, self._without = self.begun, None
        self._updated.clear()
        if begun:
            self._end()

    def _forget_what_was_given_up_before(self) -> None:
        if not self.begun and self._given_up_after != self._backwards():
            self._updated.clear()
        self._given_up_after = self._backwards()

    def _missing(self) -> int:
        return sum(not self._had(optimizer) for optimizer in self._optimizers)

    def _had(self, optimizer: Any) -> bool:
        return self._updated.issuperset(params_of(optimizer))


def params_of(optimizer: Any) -> list[Any]:
    return [tensor for group in optimizer.param_groups for tensor in group["params"]]
