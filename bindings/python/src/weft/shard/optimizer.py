"""Optimizers of contexts, param groups, norms."""
from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from weft import _capi
from weft._library import library
from weft.core.communicator import Communicator
from weft.core.types import DType
from weft.shard import callbacks
from weft.shard.arrays import Array, Lent
from weft.shard.enums import AnyNonfinite, AnyOptimizer, Nonfinite, OptimizerKind, member
from weft.shard.handles import Borrowed, call, in_turn
from weft.shard.records import GroupNumbers, record
from weft.shard.structs import fill, of_type, sized

# c = a b, by rows; c is to be written. Arrays of float32.
Product = Callable[[Array, Array, Array], object]

_FIELDS = {
    "beta1": _capi.WEFT_OPTIMIZER_BETA1, "beta2": _capi.WEFT_OPTIMIZER_BETA2, "epsilon": _capi.WEFT_OPTIMIZER_EPSILON,
    "momentum": _capi.WEFT_OPTIMIZER_MOMENTUM, "trust": _capi.WEFT_OPTIMIZER_TRUST, "kind": _capi.WEFT_OPTIMIZER_KIND,
    "learning_rate_factor": _capi.WEFT_OPTIMIZER_LEARNING_RATE_FACTOR, "weight_decay_factor": _capi.WEFT_OPTIMIZER_WEIGHT_DECAY_FACTOR,
    "nesterov": _capi.WEFT_OPTIMIZER_NESTEROV,
}


def _set_given(struct: Any, numbers: dict[str, Any]) -> None:
    """Those that are not None, meant as they are, also if they are 0."""
    for name, value in numbers.items():
        if value is not None:
            fill(struct, **{name: value})
            struct.fields |= _FIELDS[name]


def optimizer_struct(kind: AnyOptimizer, numbers: dict[str, float | None], *, weight_decay: float, nesterov: bool, loss_scale: float | None,
                     dynamic_loss_scale: bool, loss_scale_growth_steps: int | None, loss_scale_hysteresis: int | None, threads: int,
                     nonfinite: AnyNonfinite, nonfinite_steps: int, product: Product | None, lent: Lent
                     ) -> tuple[_capi.weft_optimizer_config_t, object]:
    """The struct, and what C uses of it until the context's end."""
    struct: _capi.weft_optimizer_config_t = sized(_capi.weft_optimizer_config_t)
    struct.kind = member(OptimizerKind, kind, "kind")
    _set_given(struct, numbers)
    fill(struct, weight_decay=weight_decay, nesterov=bool(nesterov), dynamic_loss_scale=bool(dynamic_loss_scale), threads=threads,
         nonfinite=member(Nonfinite, nonfinite, "nonfinite"), nonfinite_steps=nonfinite_steps)
    for name, number in {"loss_scale": loss_scale, "loss_scale_growth_steps": loss_scale_growth_steps, "loss_scale_hysteresis": loss_scale_hysteresis}.items():
        if number is not None:
            if not number > 0:  # 0 would be the default
                raise ValueError(f"{name} is {number}; it must be above 0")
            fill(struct, **{name: number})
    thunk = None
    if product is not None:
        thunk = struct.product = _capi.weft_matmul_t(callbacks.guarded(_of_addresses(product, lent), None))
    return struct, thunk


def _of_addresses(product: Product, lent: Lent) -> Callable[..., None]:
    def multiply(a: int, b: int, c: int, m: int, n: int, k: int, _: int | None) -> None:
        product(*(Array(address, DType.FLOAT32, shape, lent) for address, shape in ((a, (m, k)), (b, (k, n)), (c, (m, n)))))

    return multiply


class ParamGroup:
    """Params that are updated with other numbers, or by another formula. Made by Context.add_param_group; Context.param_group(0) is that of all
    others.

    Thread-safety: as the calls of its context.
    """

    def __init__(self, context: Borrowed, index: int) -> None:
        """Of the package's own use."""
        self._handle, self._index = context, index

    @property
    def index(self) -> int:
        return self._index

    def numbers(self) -> GroupNumbers:
        """What it has."""
        struct: _capi.weft_shard_param_group_t = sized(_capi.weft_shard_param_group_t)
        in_turn(self._handle, library.weft_shard_param_group_get, self._index, ctypes.byref(struct))
        return record(GroupNumbers, struct)

    def set(self, *, kind: AnyOptimizer | None = None, learning_rate_factor: float | None = None, weight_decay_factor: float | None = None,
            beta1: float | None = None, beta2: float | None = None, epsilon: float | None = None, momentum: float | None = None,
            trust: float | None = None, nesterov: bool | None = None) -> None:
        """Changes numbers from the next update on, between steps or after finish; the same on all ranks. None: as it is. Not collective."""
        struct = group_struct(kind, {"learning_rate_factor": learning_rate_factor, "weight_decay_factor": weight_decay_factor, "beta1": beta1,
                                     "beta2": beta2, "epsilon": epsilon, "momentum": momentum, "trust": trust, "nesterov": nesterov})
        in_turn(self._handle, library.weft_shard_param_group_set, self._index, ctypes.byref(struct))


def group_struct(kind: AnyOptimizer | None, numbers: dict[str, Any]) -> _capi.weft_shard_param_group_t:
    struct: _capi.weft_shard_param_group_t = sized(_capi.weft_shard_param_group_t)
    _set_given(struct, {"kind": None if kind is None else member(OptimizerKind, kind, "kind"), **numbers})
    return struct


class Norm:
    """The global norm of a step's gradients. `a + b` is that of both contexts, and `a.sum(communicator)` that of all ranks' parts of a model, as if all
    params were in one context, to the bit."""

    __slots__ = ("_struct",)

    def __init__(self, struct: _capi.weft_shard_norm_t) -> None:
        """Of the package's own use."""
        self._struct = struct

    @property
    def norm(self) -> float:
        """Without loss scale, before clipping."""
        return float(self._struct.norm)

    @property
    def nonfinite(self) -> int:
        """Gradient elements that are infinite or NaN, on all ranks."""
        return int(self._struct.nonfinite)

    @property
    def loss_scale(self) -> float:
        """That the gradients have."""
        return float(self._struct.loss_scale)

    def __add__(self, other: Norm) -> Norm:
        if not isinstance(other, Norm):
            return NotImplemented
        total = _capi.weft_shard_norm_t.from_buffer_copy(self._struct)
        call(library.weft_shard_norm_add, ctypes.byref(total), ctypes.byref(other._struct))
        return Norm(total)

    def sum(self, communicator: Communicator) -> Norm:
        """That of all ranks of `communicator`, each of which has another part of the model: the same on all of them. Collective."""
        group = of_type(communicator, Communicator, "communicator")._live_group()
        total = _capi.weft_shard_norm_t.from_buffer_copy(self._struct)
        call(library.weft_shard_norm_sum, ctypes.byref(total), group, None)
        return Norm(total)

    def __repr__(self) -> str:
        return f"<weft.shard.Norm {self.norm}>"

    def _address(self) -> int:
        return ctypes.addressof(self._struct)
