"""Contexts: a model that is sharded over the ranks of a mesh."""
from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, cast

from weft import _capi
from weft._library import library
from weft.core import completions, interrupt
from weft.core.buffers import readable
from weft.core.calls import nanoseconds
from weft.core.communicator import Communicator
from weft.core.errors import Error, Result, fail
from weft.core.types import ITEM_BYTES, AnyDType
from weft.shard import callbacks
from weft.shard.allocator import Allocate, Allocator
from weft.shard.arrays import Lent
from weft.shard.enums import Accumulation, AnyAccumulation, AnyMode, AnyNonfinite, AnyOptimizer, AnyViews, Mode, States, Views, member
from weft.shard.handles import NOTHING_FREED, Borrowed, ContextHandle, any_thread, call, in_turn
from weft.shard.mesh import Mesh
from weft.shard.optimizer import Norm, ParamGroup, Product, group_struct, optimizer_struct
from weft.shard.param import Param
from weft.shard.policy import AnyPolicy, Offload, offload_struct, policy_struct
from weft.shard.records import Plan, RankReport, Report, StateScalars, StepResult, UpdateResult, record
from weft.shard.step import Microbatch, Step
from weft.shard.structs import filled, int32, of_type, sized, utf8
from weft.shard.unit import Unit, param_struct, shape_and_type


class ParamSpec(NamedTuple):
    """One param of Context.add_units."""

    name: str
    shape: Sequence[int] | None = None
    dtype: AnyDType | None = None
    value: Any = None
    frozen: bool = False
    decay: bool = True
    writes_grad: bool = False
    counted: bool = True


class Context:
    """All units of a model on a mesh. Owns params and gradients.

        context = Context(world)
        context.set_optimizer("adamw")
        with context.add_unit("block0", "full_shard") as block:
            weight = block.add_param("weight", (768, 768))
        context.finalize()

    docs/sharding.md explains a step call by call. It keeps its mesh and communicator. destroy(), the end of a `with`, or dropping it with all its units
    and params gives everything back; in the middle of a step that aborts the step.

    Thread-safety: abort_step from any thread; the rest from one thread at a time, and a second one is refused.
    """

    def __init__(self, ranks: Mesh | Communicator, *, bucket_bytes: int = 0, first_bucket_bytes: int = 0, accumulation: AnyAccumulation = "local_then_reduce",
                 overlap: bool = True, average: bool = True, timeout: float | None = None, prefetch: int | None = None, microbatches: int = 0,
                 memory_budget_bytes: int = 0, uneven: bool = False, allocator: Allocate | None = None, poison: bool = False, verify_steps: int = 0,
                 stable_views: AnyViews = "move", offload: Offload | str | os.PathLike[str] | None = None) -> None:
        """Options as in weft_shard_config_t; 0 and None are its defaults. timeout: seconds, of each collective. Not collective on a mesh of one axis."""
        interrupt.do_postponed()
        mesh = ranks if isinstance(ranks, Mesh) else Mesh(of_type(ranks, Communicator, "ranks"))
        self._lent = Lent()
        given = None if allocator is None else Allocator(allocator, self._lent)
        offloaded = None if offload is None else offload_struct(offload)
        config = filled(_capi.weft_shard_config_t, bucket_bytes=bucket_bytes, first_bucket_bytes=first_bucket_bytes,
                        accumulation=member(Accumulation, accumulation, "accumulation"), no_overlap=not overlap, no_average=not average,
                        timeout_ns=nanoseconds(timeout), prefetch=prefetch or 0, microbatches=microbatches, memory_budget_bytes=memory_budget_bytes,
                        uneven=bool(uneven), allocator=None if given is None else ctypes.addressof(given.struct), poison=bool(poison),
                        verify_steps=verify_steps, fields=0 if prefetch is None else _capi.WEFT_SHARD_PREFETCH,
                        stable_views=member(Views, stable_views, "stable_views"), offload=None if offloaded is None else ctypes.addressof(offloaded))
        self._kept: list[object] = [mesh._handle, given, self._lent]
        owner = ContextHandle(None, self._kept)
        call(library.weft_shard_context_create, mesh._handle, ctypes.byref(config), ctypes.byref(owner))
        self._handle = Borrowed(owner.value, owner)
        self._mesh: Mesh | None = mesh
        self._units: dict[int, Unit] = {}  # by handle, in the order of declaration
        self._groups: weakref.WeakSet[ParamGroup] = weakref.WeakSet()
        self._values: list[tuple[Param, Any]] = []  # that finalize loads
        self._pool_bytes = 0
        self._step_open = False
        completions.live.add(self)

    # ---- life ----

    @property
    def mesh(self) -> Mesh:
        """Of its ranks, until it is destroyed."""
        if self._mesh is None:
            self._handle.live()
        return cast(Mesh, self._mesh)

    def destroy(self) -> None:
        """Frees everything; may be called again. In the middle of a step it aborts the step. A save in the background that still reads its state is
        waited for. Calls of other threads that are inside go on, and it goes after them. Not collective."""
        callbacks.refuse()
        owner = self._handle.owner
        completions.live.discard(self)
        if owner is None:
            return
        outcome = owner.outcome = []
        self._hold(None)
        del owner  # the last reference, but for calls of other threads
        if outcome and outcome[0] in NOTHING_FREED:
            self._hold(ContextHandle(self._handle.value, self._kept))
            completions.live.add(self)
            fail(outcome[0])
        self._mesh, self._kept = None, []

    def __enter__(self) -> Context:
        return self

    def __exit__(self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None) -> None:
        self.destroy()

    def __repr__(self) -> str:
        return f"<weft.shard.Context of {len(self._units)} units{'' if self._handle.owner is not None else ', destroyed'}>"

    def _hold(self, owner: ContextHandle | None) -> None:
        """What was made of it keeps it, or from now on does not."""
        self._handle = Borrowed(self._handle.value, owner)
        for unit in self._units.values():
            unit._handle = Borrowed(unit._handle.value, owner)
            for param in unit._params:
                param._handle = Borrowed(param._handle.value, owner)
                param._forget_addresses()
        for group in list(self._groups):
            group._handle = Borrowed(group._handle.value, owner)

    # ---- declaring, the same on every rank ----

    def set_optimizer(self, kind: AnyOptimizer = "adamw", *, beta1: float | None = None, beta2: float | None = None, epsilon: float | None = None,
                      weight_decay: float = 0, momentum: float | None = None, trust: float | None = None, nesterov: bool = False,
                      loss_scale: float | None = None, dynamic_loss_scale: bool = False, loss_scale_growth_steps: int | None = None,
                      loss_scale_hysteresis: int | None = None, threads: int = 1, nonfinite: AnyNonfinite = "warn", nonfinite_steps: int = 0,
                      product: Product | None = None) -> None:
        """Options as in weft_optimizer_config_t; None is the default there, 0 is 0. `product(a, b, c)` multiplies matrices for MUON: numpy's matmul, say;
        what it raises is raised by optimizer_step, and the params are of no use then. kind "own": you update the parts."""
        struct, thunk = optimizer_struct(kind, {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "momentum": momentum, "trust": trust},
                                         weight_decay=weight_decay, nesterov=nesterov, loss_scale=loss_scale, dynamic_loss_scale=dynamic_loss_scale,
                                         loss_scale_growth_steps=loss_scale_growth_steps, loss_scale_hysteresis=loss_scale_hysteresis, threads=threads,
                                         nonfinite=nonfinite, nonfinite_steps=nonfinite_steps, product=product, lent=self._lent)
        self._kept.append(thunk)
        in_turn(self._handle, library.weft_shard_context_optimizer, ctypes.byref(struct))

    def add_param_group(self, *, kind: AnyOptimizer | None = None, learning_rate_factor: float | None = None, weight_decay_factor: float | None = None,
                        beta1: float | None = None, beta2: float | None = None, epsilon: float | None = None, momentum: float | None = None,
                        trust: float | None = None, nesterov: bool | None = None) -> ParamGroup:
        """Params with other numbers, or another formula; None: as the optimizer. After set_optimizer, before finalize."""
        struct = group_struct(kind, {"learning_rate_factor": learning_rate_factor, "weight_decay_factor": weight_decay_factor, "beta1": beta1,
                                     "beta2": beta2, "epsilon": epsilon, "momentum": momentum, "trust": trust, "nesterov": nesterov})
        index = ctypes.c_int()
        in_turn(self._handle, library.weft_shard_param_group_add, ctypes.byref(struct), ctypes.byref(index))
        return self.param_group(index.value)

    def param_group(self, index: int) -> ParamGroup:
        """The group with this number; 0 is that of all params that are in no other."""
        group = ParamGroup(self._handle, int32(index, "index"))
        self._groups.add(group)
        return group

    def add_unit(self, name: str, policy: AnyPolicy = "no_shard", within: Unit | None = None) -> Unit:
        """Opens a unit, in the order in which forward uses them; add its params and seal it, or use it in a `with`. `within`: the earlier unit whose forward
        it is used in, as modules call others; the plan then keeps that one meanwhile."""
        handle, struct = Borrowed(None, self._handle.owner), policy_struct(policy)
        outer = None if within is None else of_type(within, Unit, "within")._handle
        if outer is not None:
            outer.live()
        in_turn(self._handle, library.weft_shard_unit_begin, utf8(name, "name"), ctypes.byref(struct), ctypes.byref(handle))
        unit = self._added(handle, name)
        if outer is not None:
            in_turn(handle, library.weft_shard_unit_within, outer)
        return unit

    def add_units(self, params: Iterable[ParamSpec], *, by_prefix: str | None = None, min_bytes: int = 0, policy: AnyPolicy = "no_shard") -> list[Unit]:
        """Units made from a list of params: by_prefix="blocks.*" puts "blocks.0.attn.weight" into unit "blocks.0"; min_bytes merges neighbours until a
        unit is that large. Returns them sealed; their params are in order."""
        specs, structs, kept = list(params), [], []
        for spec in specs:
            of_type(spec, ParamSpec, "a param")
            struct, dims = param_struct(spec.name, *shape_and_type(spec.shape, spec.dtype, spec.value), spec.frozen, spec.decay,
                                        spec.writes_grad, spec.counted)
            structs.append(struct)
            kept.append(dims)
        n = len(specs)
        array, handles = (_capi.weft_shard_param_config_t * max(n, 1))(*structs), (ctypes.c_void_p * max(n, 1))()
        units, count = (ctypes.c_void_p * max(n, 1))(), ctypes.c_size_t(n)
        grouping = filled(_capi.weft_shard_grouping_t, by_prefix=None if by_prefix is None else utf8(by_prefix, "by_prefix"), min_bytes=min_bytes)
        in_turn(self._handle, library.weft_shard_add_units, array, n, ctypes.byref(grouping), ctypes.byref(policy_struct(policy)), handles, units,
                ctypes.byref(count))
        made, owner, values = [], self._handle.owner, iter(specs)
        for i in range(count.value):
            handle = Borrowed(units[i], owner)
            info: _capi.weft_shard_unit_info_t = sized(_capi.weft_shard_unit_info_t)
            any_thread(handle, library.weft_shard_unit_info, ctypes.byref(info))
            unit = self._added(handle, info.name.decode())
            for place in range(info.param_count):
                named = Borrowed(None, owner)
                any_thread(handle, library.weft_shard_unit_param_at, place, ctypes.byref(named))
                param, value = unit._added(named), next(values).value
                if value is not None:
                    self._values.append((param, value))
            made.append(unit)
        return made

    def hint_order(self, units: Iterable[Unit]) -> None:
        """The order in which forward uses units, if it is not that of declaration; one may appear several times. Before finalize."""
        given = list(units)
        for unit in given:
            of_type(unit, Unit, "a unit")._handle.live()
        handles = [unit._handle.value for unit in given]
        in_turn(self._handle, library.weft_shard_hint_order, (ctypes.c_void_p * max(len(handles), 1))(*handles), len(handles))

    def hint_runs(self, runs: Iterable[tuple[str, Unit]]) -> None:
        """The passes of a training step's micro-batch, ("forward", unit) and ("backward", unit), where hint_order cannot say it, as for stages of
        pipelines. Before finalize."""
        given = []
        for kind, unit in runs:
            if kind not in ("forward", "backward"):
                raise ValueError(f"a run is {kind!r}; it is \"forward\" or \"backward\"")
            of_type(unit, Unit, "a unit")._handle.live()
            given.append(_capi.weft_shard_run_t(unit._handle.value, kind == "backward"))
        in_turn(self._handle, library.weft_shard_hint_runs, (_capi.weft_shard_run_t * max(len(given), 1))(*given), len(given))

    def plan(self) -> Plan:
        """What finalize will do, or has done. Not collective; also on a dry mesh."""
        struct: _capi.weft_shard_plan_t = sized(_capi.weft_shard_plan_t)
        in_turn(self._handle, library.weft_shard_context_plan, ctypes.byref(struct))
        return record(Plan, struct)

    def finalize(self, root: int = 0) -> Plan:
        """Ends the declaring: compares it between ranks and makes the memory, zeroed; then loads the values that params were given, those of mesh rank
        `root` or of every rank. Collective."""
        struct: _capi.weft_shard_plan_t = sized(_capi.weft_shard_plan_t)
        in_turn(self._handle, library.weft_shard_context_finalize, ctypes.byref(struct))
        values, self._values[:] = list(self._values), []
        for param, value in values:
            param.load(value, root)
        self._pool_bytes = struct.pool_bytes
        return record(Plan, struct)

    # ---- what was declared ----

    @property
    def units(self) -> tuple[Unit, ...]:
        """In the order of declaration."""
        count = ctypes.c_size_t()
        any_thread(self._handle, library.weft_shard_context_unit_count, ctypes.byref(count))
        return tuple(self._unit(library.weft_shard_context_unit_at, i) for i in range(count.value))

    @property
    def params(self) -> tuple[Param, ...]:
        """Of all units, in the order of declaration, tied ones included."""
        return tuple(param for unit in self.units for param in unit._params)

    def unit(self, name: str) -> Unit:
        """The unit with this name."""
        return self._unit(library.weft_shard_context_unit_by_name, utf8(name, "name"))

    def param(self, name: str) -> Param:
        """The param with this name, of any unit; a tied one has a name of its own."""
        handle = ctypes.c_void_p()
        any_thread(self._handle, library.weft_shard_context_param_by_name, utf8(name, "name"), ctypes.byref(handle))
        return next(param for unit in self._units.values() for param in unit._params if param._handle.value == handle.value)

    # ---- between steps ----

    def set(self, *, prefetch: int | None = None, verify_steps: int | None = None) -> None:
        """Changes settings; None: as it is. Collective."""
        fields = (0 if prefetch is None else _capi.WEFT_SHARD_PREFETCH) | (0 if verify_steps is None else _capi.WEFT_SHARD_VERIFY_STEPS)
        settings = filled(_capi.weft_shard_settings_t, prefetch=prefetch or 0, verify_steps=verify_steps or 0, fields=fields)
        in_turn(self._handle, library.weft_shard_context_set, ctypes.byref(settings))

    def broadcast(self, root: int = 0) -> None:
        """Copies params that are not sharded, and replicas' shards, from mesh rank `root` to all. Collective."""
        in_turn(self._handle, library.weft_shard_context_broadcast, int32(root, "root"))

    def verify(self) -> None:
        """Compares everything that exists more than once; MISMATCH names the param and the rank. Collective."""
        in_turn(self._handle, library.weft_shard_context_verify)

    def check_samples(self, samples: Any) -> None:
        """MISMATCH if another rank has the same samples. A buffer, or None of a rank without. Before a micro-batch uses its first unit. Collective."""
        address, dtype, count, _ = (0, 1, 0, None) if samples is None else readable(samples, "samples")
        in_turn(self._handle, library.weft_shard_check_samples, address, count * ITEM_BYTES[dtype])

    def report(self) -> Report:
        """What each rank keeps and how long its steps took, between steps or after finish. Collective."""
        report: _capi.weft_shard_report_t = sized(_capi.weft_shard_report_t)
        count = 1
        for size in self.mesh._axes.values():
            count *= size
        ranks = (_capi.weft_shard_rank_report_t * count)()
        ranks[0].struct_size = ctypes.sizeof(_capi.weft_shard_rank_report_t)
        in_turn(self._handle, library.weft_shard_context_report, ctypes.byref(report), ranks, count)
        return record(Report, report, ranks=tuple(record(RankReport, rank) for rank in ranks))

    # ---- a step ----

    def step(self, mode: AnyMode = "train", tag: int = 0) -> Step:
        """with context.step(): ...   calls step_begin, and step_end at the end; if an exception leaves it, the step is aborted on all ranks, but for that of
        a wrong call, which leaves the step as it is: see Step."""
        return Step(self, mode, tag)

    def microbatch(self, index: int = 0, last: bool = True) -> Microbatch:
        """with context.microbatch(i, last=i == n - 1): ...   calls microbatch_begin, and microbatch_end at the end. Of several all but the last have
        last=False."""
        return Microbatch(self, index, last)

    def step_begin(self, mode: AnyMode = "train", tag: int = 0) -> None:
        """Begins a step; of training, with zeroed gradients. Give kinds of step whose calls differ a tag of their own."""
        step = filled(_capi.weft_shard_step_t, mode=member(Mode, mode, "mode"), tag=tag)
        in_turn(self._handle, library.weft_shard_step_begin, ctypes.byref(step))
        self._step_open = True

    def microbatch_begin(self, index: int = 0, last: bool = True) -> None:
        """Begins a micro-batch, counted from 0; gradients are reduced in the last one, as `accumulation` says."""
        microbatch = filled(_capi.weft_shard_microbatch_t, index=index, last=bool(last))
        in_turn(self._handle, library.weft_shard_microbatch_begin, ctypes.byref(microbatch))

    def microbatch_end(self) -> None:
        in_turn(self._handle, library.weft_shard_microbatch_end, None)

    def join(self) -> int:
        """In place of the micro-batches for which this rank has no data, with uneven=True. Returns how many ranks have some; with 0 the step has ended.
        Collective."""
        active = ctypes.c_int()
        in_turn(self._handle, library.weft_shard_join, None, ctypes.byref(active))
        if not active.value:
            self._step_open = False
        return active.value

    def finish(self) -> StepResult:
        """Waits for all reductions: gradients, or this rank's parts of them, are the average over all ranks from here. Collective."""
        result: _capi.weft_shard_step_result_t = sized(_capi.weft_shard_step_result_t)
        in_turn(self._handle, library.weft_shard_finish, None, ctypes.byref(result))
        if result.pool_bytes != self._pool_bytes:
            self._pool_bytes = result.pool_bytes
            for unit in self._units.values():
                for param in unit._params:
                    param._forget_addresses()
        return record(StepResult, result)

    @property
    def loss_scale(self) -> float:
        """What to multiply the loss of the next step by."""
        scale = ctypes.c_double()
        in_turn(self._handle, library.weft_shard_loss_scale, ctypes.byref(scale))
        return scale.value

    def gradient_norm(self) -> Norm:
        """The global norm between finish and optimizer_step, or step_end, with or without an optimizer. Changes nothing. Collective."""
        norm: _capi.weft_shard_norm_t = sized(_capi.weft_shard_norm_t)
        in_turn(self._handle, library.weft_shard_gradient_norm, None, ctypes.byref(norm))
        return Norm(norm)

    def optimizer_step(self, learning_rate: float, *, norm_max: float = 0, norm: Norm | None = None, gradient_factor: float = 1, requests: int = 0
                       ) -> UpdateResult:
        """Updates the params, between finish and step_end. Gradients are multiplied by gradient_factor and clipped to the global norm norm_max (0: not);
        norm: of gradient_norm, or a sum; requests: bits that all ranks get those of all ranks of. Collective. With an optimizer of whatever kind a step
        of training ends after this, or after drop_gradients."""
        if not gradient_factor > 0:
            raise ValueError(f"gradient_factor is {gradient_factor}; it must be above 0")
        update = filled(_capi.weft_shard_update_t, learning_rate=learning_rate, norm_max=norm_max, gradient_factor=gradient_factor,
                        norm=None if norm is None else of_type(norm, Norm, "norm")._address(), requests=requests)
        result: _capi.weft_shard_update_result_t = sized(_capi.weft_shard_update_result_t)
        in_turn(self._handle, library.weft_shard_optimizer_step, ctypes.byref(update), ctypes.byref(result))
        return record(UpdateResult, result)

    def drop_gradients(self) -> None:
        """In place of optimizer_step: gives this step's gradients up, and nothing is updated, on any rank. Collective."""
        in_turn(self._handle, library.weft_shard_drop_gradients, None)

    def params_updated(self) -> None:
        """You have written your parts of the params; those that are not sharded are gathered. Collective."""
        in_turn(self._handle, library.weft_shard_params_updated, None)

    def step_end(self) -> None:
        """Ends the step; every verify_steps training steps it compares as verify does, and is collective."""
        try:
            in_turn(self._handle, library.weft_shard_step_end)
        except Error as error:
            self._step_open = error.code == Result.BAD_STATE
            raise
        self._step_open = False

    def abort_step(self, reason: str) -> None:
        """This rank cannot finish the step: the others' waits raise ABORTED with it and the reason. The communicator is of no more use. Any thread."""
        self._step_open = False
        any_thread(self._handle, library.weft_shard_abort_step, utf8(reason, "reason"))

    # ---- state, for checkpoints of your own ----

    def state_scalars(self) -> StateScalars:
        """The numbers that belong to no param, between steps or after finish."""
        scalars: _capi.weft_shard_state_scalars_t = sized(_capi.weft_shard_state_scalars_t)
        in_turn(self._handle, library.weft_shard_state_scalars_get, ctypes.byref(scalars))
        return record(StateScalars, scalars)

    def set_state_scalars(self, scalars: StateScalars) -> None:
        """Goes on from these; the same on all ranks, but for steps_begun."""
        struct = filled(_capi.weft_shard_state_scalars_t, **of_type(scalars, StateScalars, "scalars")._asdict())
        in_turn(self._handle, library.weft_shard_state_scalars_set, ctypes.byref(struct))

    def state_written(self, kinds: States = States.ALL) -> None:
        """You have written these states of your parts of all params. Collective."""
        in_turn(self._handle, library.weft_shard_state_written, States(kinds), None)

    # ---- inside ----

    def _added(self, handle: Borrowed, name: str) -> Unit:
        unit = Unit(handle, name, self._lent, self._values)
        self._units[handle.value or 0] = unit
        return unit

    def _unit(self, function: Any, asked: int | bytes) -> Unit:
        handle = ctypes.c_void_p()
        any_thread(self._handle, function, asked, ctypes.byref(handle))
        return self._units[handle.value or 0]
