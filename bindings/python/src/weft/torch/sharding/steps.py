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
import dataclasses
import enum
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from weft.core.errors import Error, Result
from weft.shard import Context, Unit, UpdateResult
from weft.torch.sharding.copies import NotCopied
from weft.torch.sharding.params import ManagedParam


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
        self.on_discard: Callable[[], None] = _nothing
        self.owed: Callable[[], int] = int  # how many optimizers have not stepped, while another one has
        self._microbatch = 0
        self._last = True
        self._clock = 0  # counts beginnings and ends of forwards
        self._backwards = 0  # that have begun
        self._backward_begun = False
        self._open_backwards: list[Use] = []
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
            self._context.step_end()
            self.phase = Phase.IDLE

    def end_step(self) -> None:
        self._context.step_end()
        self.phase = Phase.IDLE

    def need_gradients(self, what: str) -> None:
        if self._backward_begun and not _in_backward():
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
        if _in_backward():
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

    # ---- backward ----

    def watch_backward(self, _: object = None) -> None:
        """A backward through this model is under way."""
        if self._backward_begun:
            return
        if self.phase is not Phase.OPEN:
            raise RuntimeError(f"a backward of a forward whose step or micro-batch has ended; this is {self.phase.value}. {_ONE_BACKWARD}")
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

    def _end_microbatch(self) -> None:
        self._context.microbatch_end()
        self._microbatch += 1
        self.phase = Phase.ACCUMULATING
        if self._last:
            self.result = self._context.finish()
            self.phase = Phase.REDUCED


_ONE_BACKWARD = ("A forward has one backward: add up losses that share a forward, put no_sync() around the forward of each backward of a step but the last, "
                 "and create no graph of gradients (create_graph)")


def _nothing() -> None:
    pass


class Use:
    """One forward of a unit and the backward that belongs to it."""

    __slots__ = ("began", "ended", "_unit", "_steps", "_backward", "_over")

    def __init__(self, unit: ManagedUnit, steps: Steps) -> None:
        self.began = self.ended = steps.tick()  # its forward
        self._unit, self._steps = unit, steps
        self._backward = 0  # which one; 0: it has not begun
        self._over = False

    def end_forward(self) -> None:
        self.ended = self._steps.tick()

    def begin_backward(self, _: object = None) -> None:
        if not self._backward:
            backward = self._steps.begin_backward(self)
            self._unit.begin_backward()
            self._backward = backward
            self._steps.begin_use(self)
        elif not self._steps.same_backward(self._backward):
            raise RuntimeError(f"a second backward of one forward. {_ONE_BACKWARD}")

    def end_backward(self) -> None:
        if self._backward and not self._over:
            self._over = True
            self._steps.end_use(self)
            self._unit.end_backward()


class _EndBackward(torch.autograd.Function):
    """The identity; its backward tells that the gradients of a unit's inputs are there."""

    @staticmethod
    def forward(ctx: Any, ended: Callable[[], None], *tensors: Any) -> Any:
        ctx.ended = ended
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.ended()
        return (None, *gradients)


class ManagedUnit(NotCopied):
    """One unit and its module. `unit` is None of a model whose params are all in other units; it still begins and ends forwards if it is the root."""

    def __init__(self, steps: Steps, module: Any, unit: Unit | None, params: list[ManagedParam], sharded: bool, root: bool) -> None:
        self.unit, self.params = unit, params
        self._steps, self._sharded, self._root = steps, sharded, root
        self._uses: list[Use] = []  # of forwards that have begun and not ended
        self._backwards = 0  # that have begun and not ended; several of a module that calls itself
        self._first = next((param for param in params if param.tensor.numel()), params[0] if params else None)
        self._address = -1  # of that one, when it was there last
        self._handles = [module.register_forward_pre_hook(self._before_forward, with_kwargs=True, prepend=True),
                         module.register_forward_hook(self._after_forward, always_call=True)]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    # ---- forward ----

    def _before_forward(self, _: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        in_backward = _in_backward()
        # In a backward and between steps: the whole model is recomputed by a checkpoint that has run it without gradients.
        if self._root and not self._uses and (not in_backward or self._steps.phase is Phase.IDLE):
            self._steps.begin_forward()
        if self.unit is not None:
            self.unit.pre_forward()
            self._bring()
        use = Use(self, self._steps)
        self._uses.append(use)
        if not torch.is_grad_enabled() or self.unit is None:
            return None
        everything = (given, tuple(named.values()))
        tensors = {id(tensor): tensor for tensor in _arguments(everything)}
        if not tensors:
            return None
        marked = dict(zip(tensors, _EndBackward.apply(use.end_backward, *tensors.values())))
        given, values = _with_arguments(everything, marked)
        return given, dict(zip(named, values))

    def _after_forward(self, _: Any, given: Any, returned: Any) -> Any:
        """Also when forward has raised, with None in place of what it returns."""
        if not self._uses:  # the forward was refused before it began
            return
        use = self._uses.pop()
        use.end_forward()
        if torch.is_grad_enabled() and (self.unit is not None or self._root):
            tensors = list(_with_bases(one for one in _leaves(returned) if isinstance(one, torch.Tensor) and one.requires_grad))
            if tensors:
                begin = self._steps.watch_backward if self.unit is None else use.begin_backward
                torch.autograd.graph.register_multi_grad_hook(tensors, begin, mode="any")
        if self.unit is not None:
            self.unit.post_forward()
            self._settle()
        if self._root and not self._uses:
            self._steps.end_forward()

    # ---- backward ----

    def begin_backward(self) -> None:
        assert self.unit is not None
        if not self._backwards:
            self.unit.pre_backward()
            self._bring()
        self._backwards += 1

    def end_backward(self) -> None:
        assert self.unit is not None
        self._backwards -= 1
        if not self._backwards:
            self.unit.post_backward()
            self._settle()

    # ---- params ----

    def _bring(self) -> None:
        if not self._sharded or self._first is None:
            return
        address = self._first.param.view().data  # the others lie where they lie from it
        if address != self._address:
            self._address = address
            for param in self.params:
                param.locate()
        for param in self.params:
            param.bring()

    def _settle(self) -> None:
        """Shows what is left of the unit's params."""
        if self._sharded and self.unit is not None and not self.unit.unsharded:
            for param in self.params:
                param.take_away()


def _arguments(given: Any) -> Iterator[Any]:
    """Tensors with gradients that are arguments themselves, or in tuples of them. What callers may change, lists say, is theirs: it is not copied, so what is
    in it stays as it is."""
    for one in given:
        if isinstance(one, torch.Tensor):
            if one.requires_grad:
                yield one
        elif _is_tuple(one):
            yield from _arguments(one)


def _with_arguments(given: Any, tensors: dict[int, Any]) -> Any:
    """The tuple with other tensors in place of these, by id."""
    parts = [tensors.get(id(one), one) if isinstance(one, torch.Tensor) else _with_arguments(one, tensors) if _is_tuple(one) else one for one in given]
    return type(given)(*parts) if hasattr(given, "_fields") else tuple(parts)


def _is_tuple(one: Any) -> bool:
    return type(one) is tuple or (isinstance(one, tuple) and hasattr(one, "_fields"))


def _leaves(returned: Any) -> Iterator[Any]:
    for one in pytree.tree_leaves(returned):
        if dataclasses.is_dataclass(one) and not isinstance(one, type):
            for field in dataclasses.fields(one):
                yield from _leaves(getattr(one, field.name, None))
        else:
            yield one


def _with_bases(tensors: Iterator[Any]) -> Iterator[Any]:
    """A view whose caller changes it in place has its gradient by the tensor that it is of."""
    for tensor in tensors:
        yield tensor
        if tensor._is_view() and tensor._base.grad_fn is not None:
            yield tensor._base


def _in_backward() -> bool:
    return bool(torch._C._current_graph_task_id() != -1)
