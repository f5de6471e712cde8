"""When a model's forward and backward are which calls of a shard context.

A forward of the whole model begins a step, of training if gradients are on, else of evaluation, which ends with it. A backward ends a micro-batch, the
step's last one but inside no_sync(); after that gradients are reduced, and an update ends the step, or discard() does. Units are gathered and given back by
hooks: before and after their module's forward, when the first gradient of what it returned is there, and when the gradients of what it was given are.

What a module was given may have no gradients, or lie where hooks do not see it. Such a use ends when the backward of an earlier forward begins, at the latest:
of the operations that it can run the engine runs the one that was recorded last, so when it comes to one of that forward, all that were recorded after the
end of that forward have run.

Thread-safety: one thread at a time, as the context. autograd runs hooks of the CPU on the thread that called backward.
"""
from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from weft.core.errors import Error, Result
from weft.shard import Context, UpdateResult
from weft.torch.sharding.params import ManagedParam

if TYPE_CHECKING:
    from weft.torch.sharding.units import ManagedUnit, Use


class Phase(enum.Enum):
    IDLE = "between steps"
    ACCUMULATING = "between two micro-batches"
    OPEN = "in a micro-batch"
    REDUCED = "after the backward of the last micro-batch"
    EVALUATING = "in a forward without gradients"


class Steps:
    """The state of the step, for all units of a model."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.phase = Phase.IDLE
        self.synchronizing = True  # False inside no_sync()
        self.frozen: list[ManagedParam] = []  # when fully_shard() was called
        self.trained: list[ManagedParam] = []  # the others
        self.on_discard: Callable[[], None] = _nothing
        self.owed: Callable[[], int] = int  # how many optimizers have not stepped, while another one has
        self._microbatch = 0
        self._last = True
        self._clock = 0  # counts beginnings and ends of forwards
        self._backwards = 0  # that have begun
        self._backward_begun = False
        self._open_backwards: list[Use] = []
        self._resting: list[ManagedUnit] = []  # in no use, and still there
        self._at_end: list[Callable[[], None]] = []  # of the micro-batch
        self.result: Any = None  # of the last finish

    # ---- the whole model ----

    def begin_forward(self) -> None:
        if self._backward_begun:  # and an exception has ended it, as no backward is under way
            self.discard()
        for param in self.frozen:
            if param.tensor.requires_grad:
                raise RuntimeError(f"{param.name} requires a gradient and was frozen when fully_shard() was called, so nobody would reduce it; destroy() this "
                                   "and call fully_shard() again")
        gradients = torch.is_grad_enabled()
        if self.phase is Phase.REDUCED and self.owed():
            raise RuntimeError(f"{self.owed()} of the model's optimizers have not had their step() in an update that has begun; call it, or their zero_grad(), "
                               "which leaves their params as they are")
        if self.phase is Phase.REDUCED:
            raise RuntimeError("the backward of this step's last micro-batch has run; update the params first, or drop its gradients by the optimizer's "
                               "zero_grad() or by discard(). Backwards that are to add up run inside no_sync(), all but the last one")
        if not gradients and self.phase is Phase.ACCUMULATING:
            raise RuntimeError("a forward without gradients between two micro-batches of a step; run it before the first or after the update")
        if self.phase is Phase.IDLE:
            self._context.step_begin("train" if gradients else "eval")
            self._microbatch = 0
        if self.phase in (Phase.IDLE, Phase.ACCUMULATING):
            self._last = self.synchronizing or not gradients
            self._context.microbatch_begin(self._microbatch, self._last)
            self.phase = Phase.OPEN if gradients else Phase.EVALUATING

    def end_forward(self) -> None:
        if self.phase is Phase.EVALUATING:
            self._context.microbatch_end()
            self.end_step()

    def end_step(self) -> None:
        self._context.step_end()
        self.phase = Phase.IDLE
        self._settle()
        for param in self.trained:
            param.forget_gradient()

    def need_gradients(self, what: str) -> None:
        if self._backward_begun and not in_backward():
            raise RuntimeError(f"{what} needs reduced gradients, but an exception has ended the backward; drop what it has left by the optimizer's zero_grad() "
                               "or by discard(), on every rank")
        if self.phase is not Phase.REDUCED:
            raise RuntimeError(f"{what} needs reduced gradients, but this is {self.phase.value}; run a backward outside of no_sync() first")

    # ---- without an update ----

    def has_gradients(self) -> bool:
        """Of a backward in this step, which may have ended by an exception. A forward alone has none."""
        return self._backward_begun or self.phase in (Phase.ACCUMULATING, Phase.REDUCED) or (self.phase is Phase.OPEN and self._microbatch > 0)

    def need_no_forward(self, what: str) -> None:
        if self.phase is Phase.OPEN and not self._backward_begun:
            raise RuntimeError(f"{what} after the forward of a later micro-batch, which would be lost, too; call it before that forward, or discard()")

    def discard(self) -> None:
        """Ends the step, wherever it is, without an update. Collective, unless this is between steps."""
        if in_backward():
            raise RuntimeError("the gradients of a backward cannot be dropped inside of it; let it end, or raise an exception, and drop them then")
        if self._backward_begun:
            self._backward_begun = False
            self._end_uses()
        if self.phase is Phase.OPEN:
            self._end_microbatch()
        if self.phase is Phase.ACCUMULATING:  # a step ends after its last one
            self._context.microbatch_begin(self._microbatch, True)
            self._last = True
            self._end_microbatch()
        if self.phase is not Phase.REDUCED:
            return
        with self._ended_by_failure():
            self._context.drop_gradients()
        self.on_discard()
        self.end_step()

    def update(self, learning_rate: float, **settings: Any) -> UpdateResult:
        """optimizer_step of the context."""
        with self._ended_by_failure():
            return self._context.optimizer_step(learning_rate, **settings)

    @contextlib.contextmanager
    def _ended_by_failure(self) -> Iterator[None]:
        """If ranks differ in what they do with the gradients, nobody has updated anything, and the step ends."""
        try:
            yield
        except Error as error:
            if error.code in (Result.MISMATCH, Result.CORRUPT):
                self.on_discard()
                with contextlib.suppress(Error):  # what came first says more
                    self.end_step()
            raise

    # ---- forward of a unit ----

    def tick(self) -> int:
        """A later moment than all before."""
        self._clock += 1
        return self._clock

    # ---- units that are in no use ----

    def rest(self, unit: ManagedUnit) -> None:
        """It is still there after a use, until another needs its place or the micro-batch ends."""
        if unit not in self._resting:
            self._resting.append(unit)

    def brought(self, unit: ManagedUnit) -> None:
        """It is in use. Others may have made room for it."""
        self._resting = [one for one in self._resting if one is not unit and (one.stays or one.settle())]

    def _settle(self) -> None:
        self._resting = [one for one in self._resting if one.settle()]

    # ---- backward ----

    def watch_backward(self, _: object = None) -> None:
        """A backward through this model is under way."""
        if self._backward_begun:
            return
        if self.phase is not Phase.OPEN:
            raise RuntimeError(f"a backward of a forward whose step or micro-batch has ended; this is {self.phase.value}. {ONE_BACKWARD}")
        self._backward_begun = True
        self._backwards += 1
        torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)

    def backwards(self) -> int:
        """How many have begun so far."""
        return self._backwards

    def begin_backward(self, use: Use) -> int:
        """Returns which backward this is."""
        self.watch_backward()
        for later in [one for one in self._open_backwards if one.began > use.ended]:
            later.end_backward()
        return self._backwards

    def begin_use(self, use: Use) -> None:
        self._open_backwards.append(use)

    def same_backward(self, number: int) -> bool:
        return self._backward_begun and number == self._backwards

    def end_use(self, use: Use) -> None:
        self._open_backwards.remove(use)

    def _end_backward(self) -> None:
        """When the engine has nothing more to do."""
        self._backward_begun = False
        self._end_uses()
        self._end_microbatch()

    def _end_uses(self) -> None:
        for use in list(self._open_backwards):
            use.end_backward()

    def at_end_of_microbatch(self, call: Callable[[], None]) -> None:
        self._at_end.append(call)

    def _end_microbatch(self) -> None:
        while self._at_end:
            self._at_end.pop()()
        self._context.microbatch_end()
        self._microbatch += 1
        self.phase = Phase.ACCUMULATING
        if self._last:
            self.result = self._context.finish()
            self.phase = Phase.REDUCED
            for param in self.trained:
                param.forbid_gradient()
        self._settle()


ONE_BACKWARD = ("A forward has one backward: add up losses that share a forward, put no_sync() around the forward of each backward of a step but the last, "
                 "and create no graph of gradients (create_graph)")


def _nothing() -> None:
    pass


def in_backward() -> bool:
    return bool(torch._C._current_graph_task_id() != -1)
