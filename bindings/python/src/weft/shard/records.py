"""What C tells in structs, as named tuples with the same fields. The headers say what each means: docs/api."""
from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from weft.core.types import DType
from weft.shard.enums import Cut, OptimizerKind, Place, Preset, Wire

R = TypeVar("R", bound=tuple[Any, ...])


class Plan(NamedTuple):
    """What a context keeps, needs at its peak and sends; bytes are per rank."""

    unit_count: int
    param_count: int
    bucket_count: int
    element_count: int
    param_bytes: int
    grad_bytes: int
    padding_bytes: int
    traffic_bytes: int
    optimizer_bytes: int
    pool_bytes: int
    gather_bytes: int
    largest_unit_bytes: int
    prefetch: int
    resting_bytes: int
    peak_bytes: int
    sent_bytes: int
    sent_inner_bytes: int
    moving_pool_bytes: int
    checkpoint_bytes: int
    offload_bytes: int
    offload_read_bytes: int
    offload_written_bytes: int
    checkpoint_value_bytes: int


class StepResult(NamedTuple):
    """Figures of a step."""

    comm_ns: int
    comm_exposed_ns: int
    reduced_bytes: int
    order_changed: bool
    replayed: bool
    gather_exposed_ns: int
    gathered_bytes: int
    pool_bytes: int
    active_ranks: int


class UpdateResult(NamedTuple):
    """Figures of an update."""

    grad_norm: float
    loss_scale: float
    nonfinite: int
    update_count: int
    skipped: bool
    requests: int


class RankReport(NamedTuple):
    """What one rank keeps, and its steps: times per training step since the last report."""

    element_count: int
    param_bytes: int
    grad_bytes: int
    optimizer_bytes: int
    pool_bytes: int
    step_count: int
    busy_ns: int
    gather_waited_ns: int
    reduce_waited_ns: int


class Report(NamedTuple):
    """A summary of all ranks' reports, and these by rank."""

    rank_count: int
    largest_rank: int
    smallest_rank: int
    slowest_rank: int
    largest_element_count: int
    smallest_element_count: int
    slowest_busy_ns: int
    median_busy_ns: int
    ranks: tuple[RankReport, ...]


class ParamInfo(NamedTuple):
    """One param, as it was declared."""

    name: str
    unit_name: str
    tied_to: str | None  # the param that it is, if it is tied
    count: int  # type: ignore[assignment]
    shape: tuple[int, ...]
    dtype: DType
    frozen: bool
    decay: bool
    writes_grad: bool
    counted: bool
    index: int  # type: ignore[assignment]
    group: int


class UnitInfo(NamedTuple):
    """One unit: its policy as it is carried out."""

    name: str
    index: int  # type: ignore[assignment]
    param_count: int
    preset: Preset
    params: Place
    between: Place
    gradients: Place
    optimizer: Place
    cut: Cut
    cut_rows: int
    float32_gradients: bool
    wire: Wire
    sealed: bool
    unsharded: bool
    unsharded_bytes: int


class GroupNumbers(NamedTuple):
    """How the params of a group are updated; what its kind does not use is 0."""

    kind: OptimizerKind
    learning_rate_factor: float
    weight_decay_factor: float
    beta1: float
    beta2: float
    epsilon: float
    momentum: float
    trust: float
    nesterov: bool


class StateScalars(NamedTuple):
    """The numbers of a context that belong to no param."""

    steps_begun: int
    train_steps_begun: int
    update_count: int
    loss_scale: float
    loss_scale_good_steps: int
    loss_scale_overflows_left: int
    nonfinite_steps: int


_CONVERTED: dict[str, Callable[[Any], Any]] = {
    "int": int, "float": float, "bool": bool, "str": lambda text: (text or b"").decode("utf-8", "replace"), "DType": DType, "Preset": Preset,
    "Place": Place, "Cut": Cut, "Wire": Wire, "OptimizerKind": OptimizerKind,
}


def record(kind: type[R], struct: ctypes.Structure, **others: object) -> R:
    """The named tuple of a struct; `others` are the fields that the struct has not, or in another form."""
    values: list[Any] = [others[name] if name in others else convert(getattr(struct, name)) for name, convert in _conversions(kind)]
    return kind(*values)


_known: dict[type[Any], list[tuple[str, Callable[[Any], Any]]]] = {}


def _conversions(kind: type[Any]) -> list[tuple[str, Callable[[Any], Any]]]:
    """By field. Of types that no conversion is known of, `others` has the value."""
    known = _known.get(kind)
    if known is None:
        # NamedTuple makes a ForwardRef of each annotation.
        types: dict[str, Any] = {name: getattr(given, "__forward_arg__", given) for name, given in kind.__annotations__.items()}
        known = _known[kind] = [(name, _CONVERTED.get(type_of, int)) for name, type_of in types.items()]
    return known
