"""When a model's forward and backward are which calls of a shard context.

A forward of the whole model begins a step, of training if gradients are on, else of evaluation, which ends with it. A backward ends a micro-batch, the
step's last one but inside no_sync(); after that gradients are reduced, and an update ends the step. Units are gathered and given back by hooks: before
and after their module's forward, when the first gradient of what it returned is there, and when the gradients of what it was given are.

Thread-safety: one thread at a time, as the context. autograd runs hooks of the CPU on the thread that called backward.
"""
from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from weft.shard import Context, Unit
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
        self._microbatch = 0
        self._last = True
        self._backward_begun = False
        self._open_backwards: list[Use] = []
        self.result: Any = None  # of the last finish

    # ---- the whole model ----

    def begin_forward(self) -> None:
        gradients = torch.is_grad_enabled()
        if self.phase is Phase.REDUCED:
            raise RuntimeError("the backward of this step's last micro-batch has run; update the params first, or run all backwards but the last one inside "
                               "no_sync()")
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
        if self.phase is not Phase.REDUCED:
            raise RuntimeError(f"{what} needs reduced gradients, but this is {self.phase.value}; run a backward outside of no_sync() first")

    # ---- backward ----

    def begin_backward(self, use: Use) -> None:
        if not self._backward_begun:
            self._backward_begun = True
            torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)
        self._open_backwards.append(use)

    def end_use(self, use: Use) -> None:
        self._open_backwards.remove(use)

    def _end_backward(self) -> None:
        """When the engine has nothing more to do."""
        self._backward_begun = False
        for use in list(self._open_backwards):
            use.end_backward()
        self._context.microbatch_end()
        self._microbatch += 1
        self.phase = Phase.ACCUMULATING
        if self._last:
            self.result = self._context.finish()
            self.phase = Phase.REDUCED


class Use:
    """One forward of a unit and the backward that belongs to it."""

    __slots__ = ("_unit", "_begun", "_ended")

    def __init__(self, unit: ManagedUnit) -> None:
        self._unit, self._begun, self._ended = unit, False, False

    def begin_backward(self, _: object = None) -> None:
        if not self._begun:
            self._begun = True
            self._unit.begin_backward(self)

    def end_backward(self) -> None:
        if self._begun and not self._ended:
            self._ended = True
            self._unit.end_backward(self)


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


class ManagedUnit:
    """One unit and its module. `unit` is None of a model whose params are all in other units; it still begins and ends forwards if it is the root."""

    def __init__(self, steps: Steps, module: Any, unit: Unit | None, params: list[ManagedParam], sharded: bool, root: bool) -> None:
        self.unit, self.params = unit, params
        self._steps, self._sharded, self._root = steps, sharded, root
        self._uses: list[Use] = []  # of forwards that have begun and not ended
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
        if self._root and not in_backward and not self._uses:
            self._steps.begin_forward()
        if self.unit is not None:
            self.unit.pre_forward()
            self._bring()
        use = Use(self)
        self._uses.append(use)
        if not torch.is_grad_enabled() or self.unit is None:
            return None
        flat, shape = pytree.tree_flatten((given, named))
        places = [place for place, one in enumerate(flat) if isinstance(one, torch.Tensor) and one.requires_grad]
        if not places:
            return None
        for place, tensor in zip(places, _EndBackward.apply(use.end_backward, *[flat[place] for place in places])):
            flat[place] = tensor
        return pytree.tree_unflatten(flat, shape)

    def _after_forward(self, _: Any, given: Any, returned: Any) -> Any:
        """Also when forward has raised, with None in place of what it returns."""
        if not self._uses:  # the forward was refused before it began
            return
        use = self._uses.pop()
        if torch.is_grad_enabled() and self.unit is not None:
            tensors = [one for one in pytree.tree_leaves(returned) if isinstance(one, torch.Tensor) and one.requires_grad]
            if tensors:
                torch.autograd.graph.register_multi_grad_hook(tensors, use.begin_backward, mode="any")
        if self.unit is not None:
            self.unit.post_forward()
            self._settle()
        if self._root and not _in_backward() and not self._uses:
            self._steps.end_forward()

    # ---- backward ----

    def begin_backward(self, use: Use) -> None:
        self._steps.begin_backward(use)
        assert self.unit is not None
        self.unit.pre_backward()
        self._bring()

    def end_backward(self, use: Use) -> None:
        self._steps.end_use(use)
        assert self.unit is not None
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


def _in_backward() -> bool:
    return bool(torch._C._current_graph_task_id() != -1)
