"""A unit of a sharded model: the module whose hooks gather its params, show them to torch, and give them back.

A param of the unit is the whole tensor from the beginning of a forward or backward to its end. Otherwise nobody can read it, nor the views of it that autograd
keeps: a backward that comes to the unit's operations another way than by the gradients of what its module returned gets an error, whatever it would compute.

Thread-safety: one thread at a time, as the context. autograd runs hooks of the CPU on the thread that called backward.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from weft.shard import Unit
from weft.shard.enums import Place
from weft.torch.sharding import passing
from weft.torch.sharding.copies import NotCopied
from weft.torch.sharding.params import ManagedParam
from weft.torch.sharding.steps import ONE_BACKWARD, Phase, Steps, in_backward

_RETURN = "return tensors as they are, or in mappings, sequences, dataclasses or attributes of objects"


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
            raise RuntimeError(f"a second backward of one forward. {ONE_BACKWARD}")

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

    def __init__(self, steps: Steps, module: Any, unit: Unit | None, params: list[ManagedParam], name: str, root: bool) -> None:
        self.unit, self.params = unit, params
        self._steps, self._root = steps, root
        self._module = f"{name} ({type(getattr(module, '_orig_mod', module)).__name__})"
        about = None if unit is None else unit.info()
        self._sharded = about is not None and about.params != Place.WHOLE
        self.stays = about is not None and about.between == Place.WHOLE  # from a forward to its backward
        self._uses: list[Use] = []  # of forwards that have begun and not ended
        self._backwards = 0  # that have begun and not ended; several of a module that calls itself
        self._first = next((param for param in params if param.tensor.numel()), params[0] if params else None)
        self._address = -1  # of that one, when it was there last
        self._returned: tuple[type, bool] | None = None  # of the last forward: what, and whether there is a tensor with gradients in it
        self._sentences: dict[Any, list[str]] = {}  # by what was returned
        for param in params:
            if self._sharded:
                param.take_away(self._sentence(param))
            else:
                param.locate()
                param.bring()
            param.watch(self._need_backward)
        self._handles = [module.register_forward_pre_hook(self._before_forward, with_kwargs=True, prepend=True),
                         module.register_forward_hook(self._after_forward, always_call=True)]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    # ---- forward ----

    def _before_forward(self, _: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        # In a backward and between steps: the whole model is recomputed by a checkpoint that has run it without gradients.
        if self._root and not self._uses and (not in_backward() or self._steps.phase is Phase.IDLE):
            self._steps.begin_forward()
        if self.unit is not None:
            self.unit.pre_forward()
            self._bring()
        use = Use(self, self._steps)
        self._uses.append(use)
        if not torch.is_grad_enabled() or self.unit is None:
            return None
        everything = (given, tuple(named.values()))
        tensors = {id(tensor): tensor for tensor in passing.arguments(everything)}
        if not tensors:
            return None
        marked = dict(zip(tensors, _EndBackward.apply(use.end_backward, *tensors.values())))
        given, values = passing.with_arguments(everything, marked)
        return given, dict(zip(named, values))

    def _after_forward(self, _: Any, given: Any, returned: Any) -> Any:
        """Also when forward has raised, with None in place of what it returns."""
        if not self._uses:  # the forward was refused before it began
            return
        use = self._uses.pop()
        use.end_forward()
        if torch.is_grad_enabled() and (self.unit is not None or self._root):
            tensors = passing.results(returned)
            self._returned = type(returned), bool(tensors)
            if tensors:
                begin = self._steps.watch_backward if self.unit is None else use.begin_backward
                handle = torch.autograd.graph.register_multi_grad_hook(list(passing.with_bases(tensors)), begin, mode="any")
                if any(tensor.is_leaf for tensor in tensors):  # such as a Parameter, which outlives this step
                    self._steps.at_end_of_microbatch(handle.remove)
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

    def _need_backward(self, param: ManagedParam) -> None:
        """Raises RuntimeError for a gradient of a param when no backward of the unit is under way."""
        if not self._backwards:
            raise RuntimeError(f"a gradient of {param.name} came, and none for what {self._module} returned: {self._what_was_returned()}. The gradients of "
                               f"its params are reduced in its backward, which begins with one of these; {_RETURN}")

    # ---- params ----

    def settle(self) -> bool:
        """Shows what is left of the unit's params, which are in no use. Returns whether they are there, which they may be until another unit needs the place,
        or the micro-batch ends."""
        assert self.unit is not None
        there = self.unit.unsharded
        if not there:
            for param, sentence in zip(self.params, self._sentences_of()):
                param.take_away(sentence)
        return there

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
        self._steps.brought(self)

    def _settle(self) -> None:
        if self._sharded and self.settle() and not self._uses and not self._backwards:
            self._steps.rest(self)

    def _sentences_of(self) -> list[str]:
        """For each param, as long as nobody may read it."""
        known = self._sentences.get(self._returned)
        if known is None:
            known = self._sentences[self._returned] = [self._sentence(param) for param in self.params]
        return known

    def _sentence(self, param: ManagedParam) -> str:
        return (f"{param.name} is not here. It is sharded, and is there in the forward and the backward of {self._module} alone; elsewhere ask state_dict(), or "
                f"full_state_dict() of what fully_shard() returned. In a backward: no gradient has come for what {self._module} returned, so its own has not "
                f"begun, or it is over: {self._what_was_returned()}; {_RETURN}")

    def _what_was_returned(self) -> str:
        if self._returned is None:
            return "nothing under grad yet"
        kind, found = self._returned
        return f"a {kind.__name__}, whose tensors have none yet" if found else f"a {kind.__name__}, in which there is no tensor with a gradient"
