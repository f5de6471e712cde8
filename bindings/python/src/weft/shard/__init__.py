"""Shard managers: DDP, ZeRO and FSDP for numpy, or any autograd.

    context = weft.shard.Context(world)
    context.set_optimizer("adamw")
    with context.add_unit("block0", "full_shard") as block:
        weight = block.add_param("weight", value=initial)
    context.finalize()
    with context.step():
        with context.microbatch():
            with block.forward():  ... numpy.asarray(weight.data)
            with block.backward(): ... numpy.asarray(weight.grad)[:] = ...; weight.grad_ready()
        context.finish()
        context.optimizer_step(3e-4)

docs/python.md has a program, docs/sharding.md what each call does. Order of the modules, each of which imports earlier ones only: callbacks, handles,
structs, enums, records, arrays, mesh, policy, allocator, optimizer, param, unit, step, context.
"""
from __future__ import annotations

from weft.shard.arrays import Array
from weft.shard.context import Context, ParamSpec
from weft.shard.enums import (Accumulation, Cut, Mode, Nonfinite, OptimizerKind, Place, Preset, States, StateKind, Tier, Views, Wire)
from weft.shard.mesh import Mesh
from weft.shard.optimizer import Norm, ParamGroup
from weft.shard.param import EVERY_RANK, Param, Part, StatePart, View
from weft.shard.policy import Offload, Policy
from weft.shard.records import GroupNumbers, ParamInfo, Plan, RankReport, Report, StateScalars, StepResult, UnitInfo, UpdateResult
from weft.shard.unit import Unit

__all__ = [
    "EVERY_RANK", "Accumulation", "Array", "Context", "Cut", "GroupNumbers", "Mesh", "Mode", "Nonfinite", "Norm", "Offload", "OptimizerKind", "Param",
    "ParamGroup", "ParamInfo", "ParamSpec", "Part", "Place", "Plan", "Policy", "Preset", "RankReport", "Report", "StateKind", "StatePart",
    "StateScalars", "States", "StepResult", "Tier", "Unit", "UnitInfo", "UpdateResult", "View", "Views", "Wire",
]
