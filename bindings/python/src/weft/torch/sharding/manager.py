"""fully_shard: weft's shard managers under an nn.Module."""
from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist

from weft.core.communicator import Communicator
from weft.shard import Context, Mesh, Norm, Plan, Policy, Unit
from weft.shard.policy import AnyPolicy
from weft.torch import groups
from weft.torch.sharding.copies import NotCopied
from weft.torch.sharding.optimizers import WeftOptimizer, optimizer_of_torch, refuse_others
from weft.torch.sharding.params import ManagedParam, dtype_of, refuse_sparse
from weft.torch.sharding.states import ModelState, Rows, whole
from weft.torch.sharding.steps import Phase, Steps
from weft.torch.sharding.turns import Turns
from weft.torch.sharding.units import ManagedUnit
from weft.torch.sharding.wrapping import ROOT, Wrap, Wrapped, units_of
from weft.torch.tensors import of

# What a rank tells the others with an update.
_HAS_UNUSED = 1


class FullyShard(NotCopied):
    """A model whose params, gradients and optimizer state are weft's; made by fully_shard(). The model is called as before.

        sharded = weft.torch.fully_shard(model, "full_shard", wrap=Block)
        optimizer = sharded.optimizer(torch.optim.AdamW, lr=3e-4)
        loss = model(x).mean()
        loss.backward()                   # gradients are reduced when it returns
        sharded.clip_grad_norm_(1.0)
        optimizer.step()

    Thread-safety: one thread at a time.
    """

    def __init__(self, model: Any, preset: AnyPolicy, wrap: Wrap, mesh: Any, optimizer: str | Mapping[str, Any] | None, options: dict[str, Any]) -> None:
        """Of fully_shard()."""
        refuse_sparse(model)
        wrapped = units_of(model, wrap)
        _check_devices(model)
        self.module = model
        self.communicator = _communicator_of(mesh)
        self.context = Context(_mesh_of(mesh, self.communicator), **{"stable_views": "stable", "average": True, **options})
        self._own, settings = optimizer is None, _optimizer_settings(optimizer)
        self._weight_decay, self._dynamic_loss_scale = float(settings.get("weight_decay", 0)), bool(settings.get("dynamic_loss_scale"))
        self.context.set_optimizer(**settings)
        self._steps = Steps(self.context)
        self._turns = Turns(self._begin_update, self._end_update, self._steps.backwards)
        self._steps.owed = self._turns.owed
        self._skipped = False  # the update that has begun
        self._clip: tuple[float, Norm] | None = None
        self._params: list[ManagedParam] = []
        policy = preset if isinstance(preset, Policy) else Policy(preset)
        declared = self._declare(wrapped, policy)
        self.plan: Plan = self.context.finalize()
        for param in self._params:
            values = param.tensor.detach().contiguous()
            if values.numel():
                param.param.load(of(values) if self.communicator.rank == 0 else None, 0)
        self._share_buffers()
        self._units = [ManagedUnit(self._steps, one.module, unit, params, one.name, one.name == ROOT) for one, (unit, params) in zip(wrapped, declared)]
        self._trained = self._steps.trained = [param for param in self._params if param.tensor.requires_grad]
        self._steps.frozen = [param for param in self._params if not param.tensor.requires_grad]
        self._steps.on_discard = self._forget_step
        self._rows = Rows(self.communicator, mesh)
        self._state = ModelState(model, self._params, self.context, self._rows)
        refuse_others()

    # ---- training ----

    def optimizer(self, kind: Callable[..., Any] | None = None, params: Iterable[Any] | None = None, **settings: Any) -> Any:
        """A torch optimizer, whose step() ends the step, and whose state_dict() is of DTensors, as the model's.

        Of a model without an optimizer of weft's: kind(params, **settings). It has the model's Parameters, which are this rank's parts of them while it is
        made and in its step(): of one dimension, but under a Policy with cut="tensor" in their own shape, without rows where another rank keeps them. params: some of the model's, or param groups as torch has them; None: all that are trained. There may
        be several optimizers for different params: the step ends when all that are alive have had their step(). Of a model with one: that, with the
        learning rate `lr`, and neither kind nor params."""
        trained = {param.tensor: param for param in self._trained}
        order = [tensor for tensor in self.module.parameters() if tensor in trained]
        if not self._own:
            rate = settings.pop("lr", None)
            if kind is not None or params is not None or settings or rate is None:
                raise RuntimeError("the model has an optimizer of weft's; call optimizer(lr=...) or step(learning_rate), or fully_shard(..., optimizer=None)")
            return WeftOptimizer(self.context, [trained[tensor] for tensor in order], self._rows, self.step, self._zeroed, rate,
                                 self._weight_decay, self._dynamic_loss_scale)
        if kind is None:
            raise RuntimeError("the model has no optimizer of weft's; give one of torch's, or fully_shard(..., optimizer=\"adamw\")")
        return optimizer_of_torch(kind, order if params is None else params, settings, [trained[tensor] for tensor in order], self._rows,
                                  self._turns, self._zeroed)

    def step(self, learning_rate: float, *, norm_max: float = 0.0) -> Any:
        """Updates the params by weft's optimizer, with gradients clipped to a global norm if norm_max or clip_grad_norm_() says so, and ends the step.
        Returns weft.shard.UpdateResult. Collective."""
        if self._own:
            raise RuntimeError("the model has no optimizer of weft's; use optimizer(), or fully_shard(..., optimizer=\"adamw\")")
        self._steps.need_gradients("step()")
        clip = self._clip
        result = self._steps.update(learning_rate, norm_max=clip[0] if clip else norm_max, norm=clip[1] if clip else None)
        self._clip = None
        self._steps.end_step()
        return result

    def clip_grad_norm_(self, max_norm: float) -> Any:
        """Has the next update clip gradients to this global norm. Returns the norm before, the same bits on every rank and under every preset. Collective.
        math.inf: it finds the norm, and clips nothing. Not torch.nn.utils.clip_grad_norm_: gradients at the Parameters raise, since they are in
        parts."""
        if not max_norm > 0:
            raise ValueError(f"max_norm is {max_norm}; it must be above 0, or math.inf for no clipping")
        self._steps.need_gradients("clip_grad_norm_()")
        if self._turns.begun:
            raise RuntimeError("clip_grad_norm_() after the step() of an optimizer; clip before the first one's, for all params of the model")
        norm = self.context.gradient_norm()
        self._clip = (0.0 if max_norm == math.inf else max_norm, norm)
        return torch.tensor(norm.norm, dtype=torch.float64)

    def discard(self) -> None:
        """Ends the step without an update, wherever it is, and drops its gradients; nothing between steps. Collective."""
        if self._turns.begun:  # some optimizers have updated theirs, the others do without
            self._turns.end_all()
        else:
            self._steps.discard()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backwards whose forward begins inside add up their gradients on this rank; the first one outside reduces the sum."""
        before, self._steps.synchronizing = self._steps.synchronizing, False
        try:
            yield
        finally:
            self._steps.synchronizing = before

    @contextlib.contextmanager
    def join(self, update: Callable[[], object]) -> Iterator[None]:
        """For ranks whose data ends at different times, with fully_shard(..., uneven=True): at the end of the `with` this rank takes part in the steps of
        those that still have data, with zero gradients. `update()` is the update as it is called inside, `optimizer.step` say."""
        yield
        while True:
            self.context.step_begin("train")
            if not self.context.join():
                return
            self._steps.result = self.context.finish()
            self._steps.phase = Phase.REDUCED
            update()

    # ---- state ----

    def full_state_dict(self) -> dict[str, Any]:
        """The model's state_dict() with whole tensors, of the params' own types, on every rank. Between steps. Collective."""
        return self._state.whole_state_dict()

    def destroy(self, *, keep_params: bool = True) -> None:
        """The model is an ordinary one again, with whole params if keep_params. Collective then."""
        self._state.remove()
        for unit in self._units:
            unit.remove()
        for param in self._params:
            param.let_go(whole(param) if keep_params else torch.empty(param.shape, dtype=param.tensor.dtype))
        self.context.destroy()

    # ---- inside ----

    def _declare(self, wrapped: list[Wrapped], policy: Policy) -> list[tuple[Any, list[ManagedParam]]]:
        """(unit, its params) of each, or (None, []) of a module without params."""
        units: dict[str, Unit] = {}
        made: list[tuple[Any, list[ManagedParam]]] = []
        for one in wrapped:
            if not one.params:
                made.append((None, []))
                continue
            outer = next((units[name] for name in one.outer if name in units), None)
            unit, declared = self.context.add_unit(one.name, policy, outer), []
            for names, tensor in one.params:
                param = unit.add_param(names[0], tuple(tensor.shape), dtype_of(tensor), frozen=not tensor.requires_grad, writes_grad=True)
                declared.append(ManagedParam(names, tensor, param))
            unit.seal()
            units[one.name] = unit
            self._params += declared
            made.append((unit, declared))
        return made

    def _share_buffers(self) -> None:
        for buffer in self.module.buffers():
            whole = buffer.detach().contiguous()
            self.communicator.broadcast(of(whole))
            buffer.copy_(whole)

    def _begin_update(self) -> set[ManagedParam]:
        """Returns the params whose gradients optimizers are not to have: those that no rank has used in this step, of which they are zeros, and all of them
        if a gradient is not finite, as weft's own optimizer then updates nothing."""
        self._steps.need_gradients("the optimizer's step()")
        clip, self._clip = self._clip, None
        requests = 0 if all(param.used for param in self._trained) else _HAS_UNUSED
        result = self._steps.update(0.0, norm_max=clip[0] if clip else 0.0, norm=clip[1] if clip else None, requests=requests)
        self._skipped = bool(result.skipped)
        if self._skipped:
            return set(self._trained)
        if not result.requests & _HAS_UNUSED:
            return set()
        used = torch.tensor([param.used for param in self._trained], dtype=torch.uint8)
        self.communicator.all_reduce(of(used), op="max")
        return {param for param, by_any in zip(self._trained, used.tolist()) if not by_any}

    def _forget_step(self) -> None:
        """Its gradients are dropped."""
        self._clip = None
        self._turns.end_all()

    def _zeroed(self, optimizer: Any) -> None:
        """zero_grad() of an optimizer. The context has the gradients, and drops those of all params together, when no other optimizer is to update its own."""
        if not self._steps.has_gradients():
            return
        self._steps.need_no_forward("zero_grad()")
        if self._turns.give_up(optimizer):
            self.discard()

    def _end_update(self) -> None:
        if not self._skipped:
            self.context.params_updated()
        self._steps.end_step()


def fully_shard(model: Any, preset: AnyPolicy = "full_shard", *, wrap: Wrap = None, mesh: Any = None, optimizer: str | Mapping[str, Any] | None = None,
                **options: Any) -> FullyShard:
    """Puts a model under weft's shard managers, in place. Rank 0's params and buffers are everybody's. Collective.

    preset: "no_shard" (DDP), "zero1", "zero2", "grad_op", "full_shard", "hybrid_shard", "hpz", "fraction", or a weft.shard.Policy. wrap: which modules
    are units, gathered and reduced together: classes, names with wildcards, a predicate of (name, module), or the bytes from which on a module is one;
    what is in none is in a unit of the model itself. mesh: a ProcessGroup or DeviceMesh of weft's, the default group's if None; of two dimensions for
    hybrids. optimizer: None, for optimizer(torch.optim...), or weft's: "adamw", or the arguments of weft.shard.Context.set_optimizer. options: those of
    weft.shard.Context.
    """
    return FullyShard(model, preset, wrap, mesh, optimizer, options)


def _check_devices(model: Any) -> None:
    """Raises ValueError for params and buffers that are not in the CPU's memory; on each rank by itself, before anything is collective."""
    for kind, named in (("param", model.named_parameters()), ("buffer", model.named_buffers())):
        for name, tensor in named:
            if tensor.device.type != "cpu":
                what = "call to_empty(device=\"cpu\") on all ranks first, and give them values on rank 0, whose values count" if tensor.is_meta else \
                    "call to(\"cpu\") first"
                raise ValueError(f"the model's {kind} {name} is on the device {tensor.device}, and fully_shard keeps models in the CPU's memory; {what}")


def _optimizer_settings(optimizer: str | Mapping[str, Any] | None) -> dict[str, Any]:
    if optimizer is None:
        return {"kind": "own"}
    return {"kind": optimizer} if isinstance(optimizer, str) else dict(optimizer)


def _communicator_of(mesh: Any) -> Communicator:
    """Of a group of torch's that is weft's. Raises ValueError for another backend."""
    group = dist.group.WORLD if mesh is None or (hasattr(mesh, "ndim") and mesh.ndim > 1) else mesh.get_group() if hasattr(mesh, "get_group") else mesh
    found = group if isinstance(group, Communicator) else groups.communicator_of(group)
    if found is None:
        raise ValueError(f"the process group has the backend {dist.get_backend(group)}; init_process_group(\"weft\") or (\"cpu:weft,...\")")
    return found


def _mesh_of(mesh: Any, communicator: Communicator) -> Mesh:
    if mesh is None or getattr(mesh, "ndim", 1) == 1:
        return Mesh(communicator)
    if mesh.mesh.flatten().tolist() != list(range(communicator.size)):
        raise ValueError(f"the mesh has the ranks {mesh.mesh.tolist()}; one of several dimensions must have all ranks in their order")
    names = mesh.mesh_dim_names or [f"dim{place}" for place in range(mesh.ndim)]
    return Mesh(communicator, dict(zip(names, mesh.mesh.shape)))
