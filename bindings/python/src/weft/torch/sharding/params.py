"""A torch Parameter whose memory is a shard context's: whole while its unit is in use, and a placeholder of NaN otherwise."""
from __future__ import annotations

from typing import Any

import torch
from torch import nn

from weft.core.types import DType
from weft.shard import Param, Part
from weft.torch.tensors import DTYPES, ELEMENT_TYPES


class ManagedParam:
    """Of one Parameter of the model, under one or, if it is tied, several names."""

    __slots__ = ("names", "tensor", "param", "shape", "used", "_whole", "_placeholder", "_grad_dtype", "_handle")

    def __init__(self, names: list[str], tensor: Any, param: Param) -> None:
        self.names, self.tensor, self.param, self.shape = names, tensor, param, tensor.shape
        self.used = False  # it was given a gradient in this step
        self._whole: Any = None
        self._grad_dtype: Any = None  # known from the first gradient
        kind = torch.nan if tensor.dtype.is_floating_point or tensor.dtype.is_complex else 0
        # Of the same shape, of one element; so who reads a param that is not there sees NaN, not a neighbour's numbers.
        self._placeholder = torch.full((), kind, dtype=tensor.dtype).expand(tensor.shape)
        self._handle: Any = None

    @property
    def name(self) -> str:
        return self.names[0]

    def locate(self) -> None:
        """Its unit is unsharded, and may be elsewhere than before."""
        with torch.inference_mode(False):  # autograd saves it in later steps
            self._whole = as_tensor(self.param.data, self.tensor)

    def bring(self) -> None:
        """The Parameter is the whole tensor from here."""
        self.tensor.data = self._whole

    def take_away(self) -> None:
        self.tensor.data = self._placeholder

    def watch(self) -> None:
        if self.tensor.requires_grad:
            self._handle = self.tensor.register_post_accumulate_grad_hook(self._give_gradient)

    def _give_gradient(self, tensor: Any) -> None:
        """autograd has added up the gradient of this backward."""
        gradient, tensor.grad, self.used = tensor.grad, None, True
        if gradient.layout is not torch.strided:
            raise RuntimeError(f"the gradient of {self.name} is sparse ({gradient.layout}), and weft reduces dense ones; make it dense, with sparse=False of "
                               "nn.Embedding say")
        if self._grad_dtype is None:
            self._grad_dtype = ELEMENT_TYPES[self.param.view().grad_dtype]
        gradient = gradient.to(self._grad_dtype).contiguous()
        self.param.grad_ready(gradient.data_ptr() or None)

    def let_go(self, values: Any) -> None:
        """The Parameter has memory of its own again."""
        if self._handle is not None:
            self._handle.remove()
        self.tensor.data = values


def refuse_sparse(model: Any) -> None:
    """Raises ValueError if a module of the model will have sparse gradients."""
    for name, module in model.named_modules():
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.sparse and module.weight.requires_grad:
            raise ValueError(f"{name or 'the model'} is a {type(module).__name__} with sparse=True, and weft reduces dense gradients; make it with "
                             "sparse=False")


class RankPart:
    """What this rank keeps of a param, shown to an optimizer of torch's as the Parameter itself: of one dimension, maybe of no elements."""

    __slots__ = ("param", "tensor", "_param", "_resting", "_data", "_shown", "_grad", "_reduced")

    def __init__(self, param: ManagedParam) -> None:
        self.param, self.tensor, self._param = param, param.tensor, param.param
        self._resting: Any = None  # what the Parameter shows otherwise
        self._data, self._grad = -1, -1
        self._shown: Any = None
        self._reduced: Any = None

    def show(self) -> None:
        self._show(self._param.part())

    def show_gradient(self) -> None:
        """After finish: with its reduced gradient, and it may be written until params_updated."""
        kept = self._param.part()
        self._show(kept)
        assert kept.grad is not None
        if kept.grad.address != self._grad:
            self._grad, self._reduced = kept.grad.address, as_tensor(kept.grad)
        self.tensor.grad = self._reduced if self._reduced.dtype is self.tensor.dtype else self._reduced.to(self.tensor.dtype)

    def show_zeros(self) -> None:
        """In place of either."""
        count = self._param.part().count
        self._put(torch.zeros(count, dtype=self.tensor.dtype))
        self.tensor.grad = torch.zeros(count, dtype=self.tensor.dtype)

    def hide(self) -> None:
        self.tensor.grad = None
        if self._resting is not None:
            self.tensor.data, self._resting = self._resting, None

    def _show(self, kept: Part) -> None:
        assert kept.data is not None
        if kept.data.address != self._data:
            self._data, self._shown = kept.data.address, as_tensor(kept.data)
        self._put(self._shown)

    def _put(self, values: Any) -> None:
        if self._resting is None:
            self._resting = self.tensor.data
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
