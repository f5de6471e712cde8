"""Numbers of the shard managers by name. Where one is an argument, its name in lower case does as well: "full_shard"."""
from __future__ import annotations

import ctypes
import enum
from typing import TypeVar, Union

from weft import _capi
from weft._library import library
from weft.shard.handles import call

E = TypeVar("E", bound=enum.IntEnum)


class Preset(enum.IntEnum):
    """What is sharded; docs/sharding.md compares them."""

    NO_SHARD = _capi.WEFT_SHARD_NO_SHARD
    ZERO1 = _capi.WEFT_SHARD_ZERO1
    ZERO2 = _capi.WEFT_SHARD_ZERO2
    GRAD_OP = _capi.WEFT_SHARD_GRAD_OP
    FULL_SHARD = _capi.WEFT_SHARD_FULL_SHARD
    HYBRID_SHARD = _capi.WEFT_SHARD_HYBRID_SHARD
    HPZ = _capi.WEFT_SHARD_HPZ
    FRACTION = _capi.WEFT_SHARD_FRACTION

    @property
    def word(self) -> str:
        """Its name on command lines: "ddp", "full-shard"."""
        return library.weft_shard_preset_name(self).decode()


class Cut(enum.IntEnum):
    """Where a unit may be split."""

    FLAT = _capi.WEFT_SHARD_CUT_FLAT
    BLOCK = _capi.WEFT_SHARD_CUT_BLOCK
    TENSOR = _capi.WEFT_SHARD_CUT_TENSOR


class Wire(enum.IntEnum):
    """The type in which float32 gradients are reduced."""

    GRADIENTS = _capi.WEFT_SHARD_WIRE_GRADIENTS
    BFLOAT16 = _capi.WEFT_SHARD_WIRE_BFLOAT16
    FLOAT16 = _capi.WEFT_SHARD_WIRE_FLOAT16


class Place(enum.IntEnum):
    """Where params, gradients or optimizer state are."""

    BY_PRESET = _capi.WEFT_SHARD_PLACE_BY_PRESET
    WHOLE = _capi.WEFT_SHARD_PLACE_WHOLE
    SHARDED = _capi.WEFT_SHARD_PLACE_SHARDED
    SHARDED_INNER = _capi.WEFT_SHARD_PLACE_SHARDED_INNER


class Accumulation(enum.IntEnum):
    """When gradients of several micro-batches are reduced."""

    LOCAL_THEN_REDUCE = _capi.WEFT_SHARD_LOCAL_THEN_REDUCE
    REDUCE_EVERY = _capi.WEFT_SHARD_REDUCE_EVERY
    INNER_EVERY_OUTER_LAST = _capi.WEFT_SHARD_INNER_EVERY_OUTER_LAST


class Views(enum.IntEnum):
    """Whether sharded params are at the same address whenever they are unsharded."""

    MOVE = _capi.WEFT_SHARD_VIEWS_MOVE
    STABLE = _capi.WEFT_SHARD_VIEWS_STABLE
    APART = _capi.WEFT_SHARD_VIEWS_APART


class Mode(enum.IntEnum):
    """What a step is for."""

    TRAIN = _capi.WEFT_SHARD_TRAIN
    EVAL = _capi.WEFT_SHARD_EVAL


class OptimizerKind(enum.IntEnum):
    """Formulas of updates; docs/sharding.md has them. OWN leaves the update to the program."""

    ADAMW = _capi.WEFT_OPTIMIZER_ADAMW
    SGD = _capi.WEFT_OPTIMIZER_SGD
    LION = _capi.WEFT_OPTIMIZER_LION
    LAMB = _capi.WEFT_OPTIMIZER_LAMB
    LARS = _capi.WEFT_OPTIMIZER_LARS
    OWN = _capi.WEFT_OPTIMIZER_OWN
    MUON = _capi.WEFT_OPTIMIZER_MUON


class Nonfinite(enum.IntEnum):
    """What an update does if gradients are infinite or NaN."""

    WARN = _capi.WEFT_NONFINITE_WARN
    SKIP = _capi.WEFT_NONFINITE_SKIP
    FAIL = _capi.WEFT_NONFINITE_FAIL


class StateKind(enum.IntEnum):
    """What is kept of a param."""

    VALUE = _capi.WEFT_SHARD_STATE_VALUE
    MAIN = _capi.WEFT_SHARD_STATE_MAIN
    MOMENT1 = _capi.WEFT_SHARD_STATE_MOMENT1
    MOMENT2 = _capi.WEFT_SHARD_STATE_MOMENT2


class States(enum.IntFlag):
    """Several kinds of state."""

    VALUES = _capi.WEFT_SHARD_STATE_VALUES
    MAINS = _capi.WEFT_SHARD_STATE_MAINS
    MOMENTS = _capi.WEFT_SHARD_STATE_MOMENTS
    ALL = _capi.WEFT_SHARD_STATE_ALL


class Tier(enum.IntEnum):
    """What a context uses memory for."""

    PARAMS = _capi.WEFT_SHARD_TIER_PARAMS
    GRADIENTS = _capi.WEFT_SHARD_TIER_GRADIENTS
    OPTIMIZER = _capi.WEFT_SHARD_TIER_OPTIMIZER
    POOL = _capi.WEFT_SHARD_TIER_POOL


AnyPreset = Union[Preset, str]
AnyCut = Union[Cut, str]
AnyWire = Union[Wire, str]
AnyPlace = Union[Place, str]
AnyAccumulation = Union[Accumulation, str]
AnyViews = Union[Views, str]
AnyMode = Union[Mode, str]
AnyOptimizer = Union[OptimizerKind, str]
AnyNonfinite = Union[Nonfinite, str]
AnyState = Union[StateKind, str]


def member(kind: type[E], given: E | str, name: str) -> E:
    """Of an argument with this name."""
    if isinstance(given, str):
        found = kind.__members__.get(given.upper())
        if found is not None:
            return found
    else:
        try:
            return kind(given)
        except ValueError:
            pass
    raise ValueError(f"{name} is {given!r}; there are {', '.join(known.lower() for known in kind.__members__)}")


def preset_of(given: AnyPreset) -> Preset:
    """By Preset.FULL_SHARD, "full_shard", or the word of command lines, "full-shard" or "zero3"."""
    if isinstance(given, str) and given.upper() not in Preset.__members__:
        found = ctypes.c_int()
        call(library.weft_shard_preset_by_name, given.encode(), ctypes.byref(found))
        return Preset(found.value)
    return member(Preset, given, "preset")
