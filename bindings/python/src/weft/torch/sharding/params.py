"""A torch Parameter whose memory is a shard context's: whole while its unit is in use; otherwise a placeholder that nobody can read."""
from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from weft.core.types import DType
from weft.shard import Param, Part
from weft.torch.sharding import guards
from weft.torch.sharding.guards import Guard
from weft.torch.tensors import DTYPES, ELEMENT_TYPES

# By the number of the Parameter, which lives as long.
_managed: weakref.WeakValueDictionary[int, ManagedParam] = weakref.WeakValueDictionary()


class ManagedParam:
    """Of one Parameter of the model, under one or, if it is tied, several names."""

    __slots__ = ("__weakref__", "names", "tensor", "param", "shape", "used", "shown", "_whole", "_guard", "_placeholder", "_guard_of_placeholder", "_gradient",
                 "_grad_dtype", "_need_backward", "_handle")

    def __init__(self, names: list[str], tensor: Any, param: Param) -> None:
        self.names, self.tensor, self.param, self.shape = names, tensor, param, tensor.shape
        self.used = False  # it was given a gradient in this step
        self.shown = False  # as this rank's part
        self._whole: Any = None
        self._guard: Guard | None = None  # of that one
        self._gradient: Any = None
        self._grad_dtype: Any = None  # known from the first gradient
        self._need_backward: Callable[[ManagedParam], None] | None = None
        self._placeholder = guards.without_memory(tensor.shape, tensor.dtype)
        self._guard_of_placeholder = Guard(self._placeholder)
        self._handle: Any = None
        _managed[id(tensor)] = self

    @property
    def name(self) -> str:
        return self.names[0]

    def locate(self) -> None:
        """Its unit is unsharded, and may be elsewhere than before."""
        if self._guard is not None:
            self._guard.forbid(f"{self.name} lies elsewhere than in forward; fully_shard(..., stable_views=\"stable\") keeps it in its place")
        with torch.inference_mode(False):  # autograd saves it in later steps
            self._whole = as_tensor(self.param.data, self.tensor)
        self._guard = Guard(self._whole)

    def bring(self) -> None:
        """The Parameter is the whole tensor from here."""
        assert self._guard is not None
        self._guard.allow()
        self.tensor.data = self._whole

    def take_away(self, sentence: str) -> None:
        """From here whoever reads the Parameter, or a view of it that was made meanwhile, gets a RuntimeError that says this."""
        if self._guard is not None:
            self._guard.forbid(sentence)
        self._guard_of_placeholder.forbid(sentence)
        self.tensor.data = self._placeholder

    # ---- its gradient ----

    def watch(self, need_backward: Callable[[ManagedParam], None]) -> None:
        """need_backward() raises if the unit's backward is not under way."""
        self._need_backward = need_backward
        if self.tensor.requires_grad:
            self._handle = self.tensor.register_post_accumulate_grad_hook(self._give_gradient)

    def _give_gradient(self, tensor: Any) -> None:
        """autograd has added up the gradient of this backward."""
        gradient, tensor.grad, self.used = tensor.grad, None, True
        assert self._need_backward is not None
        self._need_backward(self)
        if gradient.layout is not torch.strided:
            raise RuntimeError(f"the gradient of {self.name} is sparse ({gradient.layout}), and weft reduces dense ones; make it dense, with sparse=False of "
                               "nn.Embedding say")
        if self._grad_dtype is None:
            self._grad_dtype = ELEMENT_TYPES[self.param.view().grad_dtype]
        gradient = gradient.to(self._grad_dtype).contiguous()
        self.param.grad_ready(gradient.data_ptr() or None)

    def forbid_gradient(self) -> None:
        """It is reduced, and in parts: whoever reads `.grad`, as torch's clip_grad_norm_ does, gets a RuntimeError. Without one in this step there is none."""
        if not self.used or not guards.AVAILABLE:
            return
        if self._gradient is None:
            self._gradient = guards.without_memory(self.shape, self.tensor.dtype)
            Guard(self._gradient).forbid(
                f"the gradient of {self.name} is in parts, which optimizers of sharded.optimizer() alone see. Call sharded.clip_grad_norm_() in place of "
                "torch.nn.utils.clip_grad_norm_(), and sharded.optimizer(torch.optim.AdamW, ...) in place of torch.optim.AdamW(model.parameters(), ...), where "
                "sharded is what fully_shard() returned; in place of a GradScaler give weft's optimizer dynamic_loss_scale")
        self.tensor.grad = self._gradient

    def forget_gradient(self) -> None:
        """The step is over."""
        self.used = False
        self.hide_gradient()

    def hide_gradient(self) -> None:
        if self._gradient is not None and self.tensor.grad is self._gradient:
            self.tensor.grad = None

    def let_go(self, values: Any) -> None:
        """The Parameter has memory of its own again."""
        if self._handle is not None:
            self._handle.remove()
        if self._guard is not None:  # of what an old forward has kept
            self._guard.forbid(f"{self.name} is not managed by fully_shard() any more, since destroy(); run the model's forward again")
        self.forget_gradient()
        _managed.pop(id(self.tensor), None)
        self.tensor.data = values


def managed(tensor: Any) -> ManagedParam | None:
    """Of a Parameter of a model under fully_shard."""
    return _managed.get(id(tensor))


def refuse_sparse(model: Any) -> None:
    """Raises ValueError if a module of the model will have sparse gradients."""
    for name, module in model.named_modules():
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.sparse and module.weight.requires_grad:
            raise ValueError(f"{name or 'the model'} is a {type(module).__name__} with sparse=True, and weft reduces dense gradients; make it with "
                             "sparse=False")


class RankPart:
    """What this rank keeps of a param, shown to an optimizer of torch's as the Parameter itself: of the shape that a Layout gives it, maybe of no elements."""

    __slots__ = ("param", "tensor", "_param", "_shape", "_resting", "_data", "_shown", "_grad", "_reduced")

    def __init__(self, param: ManagedParam, shape: tuple[int, ...]) -> None:
        self.param, self.tensor, self._param, self._shape = param, param.tensor, param.param, shape
        self._resting: Any = None  # what the Parameter shows otherwise
        self._data, self._grad = -1, -1
        self._shown: Any = None
        self._reduced: Any = None

    def show(self) -> None:
        self.tensor.grad = None
        self._show(self._param.part())

    def show_gradient(self) -> None:
        """After finish: with its reduced gradient, and it may be written until params_updated."""
        kept = self._param.part()
        self._show(kept)
        assert kept.grad is not None
        if kept.grad.address != self._grad:
            self._grad, self._reduced = kept.grad.address, as_tensor(kept.grad).view(self._shape)
        self.tensor.grad = self._reduced if self._reduced.dtype is self.tensor.dtype else self._reduced.to(self.tensor.dtype)

    def show_zeros(self) -> None:
        """In place of either."""
        self._put(torch.zeros(self._shape, dtype=self.tensor.dtype))
        self.tensor.grad = torch.zeros(self._shape, dtype=self.tensor.dtype)

    def hide(self) -> None:
        self.tensor.grad = None
        if self._resting is not None:
            self.tensor.data, self._resting, self.param.shown = self._resting, None, False

    def _show(self, kept: Part) -> None:
        assert kept.data is not None
        if kept.data.address != self._data:
            self._data, self._shown = kept.data.address, as_tensor(kept.data).view(self._shape)
        self._put(self._shown)

    def _put(self, values: Any) -> None:
        if self._resting is None:
            self._resting, self.param.shown = self.tensor.data, True
        self.tensor.data = values


def dtype_of(tensor: Any) -> DType:
    """weft's element type. Raises TypeError for one that weft cannot keep."""
    known = DTYPES.get(tensor.dtype)
    if known is None or known[1] != 1:
        raise TypeError(f"weft keeps no params of {tensor.dtype}; it has {', '.join(str(kind) for kind in ELEMENT_TYPES.values())}")
    return DType(known[0])


def as_tensor(array: Any, like: Any = None) -> Any:
    """A weft.shard.Array as a tensor, without a copy, of `like`'s shape and strides."""
    if not array.count:
        return torch.empty(array.shape, dtype=ELEMENT_TYPES[array.dtype]) if like is None else torch.empty_like(like)
    return torch.from_dlpack(array)
