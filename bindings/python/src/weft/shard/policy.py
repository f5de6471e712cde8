"""How units are sharded, and where a context keeps what does not fit in memory."""
from __future__ import annotations

import os
from typing import NamedTuple, Union

from weft import _capi
from weft.shard.enums import AnyCut, AnyPlace, AnyPreset, AnyWire, Cut, Place, Wire, member, preset_of
from weft.shard.structs import filled


class Policy(NamedTuple):
    """How one unit is sharded: a preset, and what is to be otherwise."""

    preset: AnyPreset = "no_shard"
    cut: AnyCut = "flat"
    cut_rows: int = 0  # of cut="block": rows that stay together
    float32_gradients: bool = False  # of params of 16 bits
    wire: AnyWire = "gradients"
    params: AnyPlace = "by_preset"  # these four in place of what the preset says
    between: AnyPlace = "by_preset"
    gradients: AnyPlace = "by_preset"
    optimizer: AnyPlace = "by_preset"


AnyPolicy = Union[Policy, AnyPreset]


class Offload(NamedTuple):
    """Optimizer state, and params if wanted, in a file of each rank; docs/offload.md."""

    directory: str | os.PathLike[str]
    buffer_bytes: int = 0  # 0: 64 MiB
    params: bool = False


def policy_struct(given: AnyPolicy) -> _capi.weft_shard_policy_t:
    policy = given if isinstance(given, Policy) else Policy(given)
    places = {name: member(Place, getattr(policy, name), name) for name in ("params", "between", "gradients", "optimizer")}
    struct: _capi.weft_shard_policy_t = filled(
        _capi.weft_shard_policy_t, preset=preset_of(policy.preset), cut=member(Cut, policy.cut, "cut"), cut_rows=policy.cut_rows,
        float32_gradients=bool(policy.float32_gradients), wire=member(Wire, policy.wire, "wire"), **places)
    return struct


def offload_struct(given: Offload | str | os.PathLike[str]) -> _capi.weft_shard_offload_t:
    offload = given if isinstance(given, Offload) else Offload(given)
    struct: _capi.weft_shard_offload_t = filled(_capi.weft_shard_offload_t, directory=os.fsencode(offload.directory), buffer_bytes=offload.buffer_bytes,
                                                params=bool(offload.params))
    return struct
