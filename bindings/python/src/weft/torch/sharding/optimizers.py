"""Optimizers of a sharded model, as torch.optim has them: those of torch on this rank's parts, and weft's own.

Of both, `state_dict()` has DTensors by rows, which torch.distributed.checkpoint saves, and loads with another number of ranks, under another preset, into the
other kind of optimizer, and into FSDP2.
"""
from __future__ import annotations

import contextlib
import functools
import math
import weakref
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from weft.shard import Context, OptimizerKind, StateKind, States
from weft.torch.sharding.params import ManagedParam, RankPart, managed
from weft.torch.sharding.states import Rows
from weft.torch.sharding.turns import Turns, params_of
from weft.torch.tensors import of

_MOMENTS = {
    OptimizerKind.ADAMW: ("exp_avg", "exp_avg_sq"), OptimizerKind.LAMB: ("exp_avg", "exp_avg_sq"), OptimizerKind.LION: ("exp_avg",),
    OptimizerKind.SGD: ("momentum_buffer",), OptimizerKind.LARS: ("momentum_buffer",), OptimizerKind.MUON: ("momentum_buffer",),
}
# Of a dynamic loss scale, in the param group.
_OF_LOSS_SCALE = ("loss_scale", "loss_scale_good_steps", "loss_scale_overflows_left")
# Whose formulas have the count of updates.
_COUNTED = (OptimizerKind.ADAMW, OptimizerKind.LAMB)
_FLAGS_OF_TORCH = ("amsgrad", "maximize", "dampening")
# Of torch's, whose update of an element needs the whole tensor: the first on the rank that keeps it, the second, which divides by the number of elements,
# on every rank.
_OF_MATRICES, _OF_TENSORS_EVERYWHERE = getattr(torch.optim, "Muon", ()), getattr(torch.optim, "Adafactor", ())


def optimizer_of_torch(kind: Callable[..., Any], given: Any, settings: dict[str, Any], params: Sequence[ManagedParam], rows: Rows, turns: Turns,
                       zeroed: Callable[[Any], None]) -> Any:
    """kind(given, **settings), which sees this rank's parts while it is made, and in its step(), which is its turn. zeroed(optimizer) is called by its
    zero_grad()."""
    given = _listed(given)
    parts = {param.tensor: RankPart(param, rows.layout(param).part_shape) for param in params}
    making = [False]  # of state, by a step that changes nothing

    def before(optimizer: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if making[0]:
            return None
        changed = _after_closure(given, named)
        without = turns.begin(optimizer)
        for tensor in params_of(optimizer):
            part = parts[tensor]
            if part.param in without:
                part.show()
            else:
                part.show_gradient()
        return changed

    def after(optimizer: Any, *_: Any) -> None:
        if not making[0]:
            for tensor in params_of(optimizer):
                parts[tensor].hide()
            turns.end(optimizer)

    @contextlib.contextmanager
    def hidden_afterwards() -> Iterator[None]:
        try:
            yield
        finally:
            for part in parts.values():
                part.hide()

    @contextlib.contextmanager
    def shown() -> Iterator[None]:
        with hidden_afterwards():
            for part in parts.values():
                part.show()
            yield

    by_tensor = {param.tensor: param for param in params}
    _check_whole(kind, given, by_tensor, rows)
    with shown():
        made = kind(given, **settings)
    if isinstance(made, torch.optim.LBFGS):
        raise ValueError("LBFGS calls its closure several times in a step, and needs the whole gradient; it cannot work with a rank's parts, so use another "
                         "optimizer")
    _check_trained(params_of(made), parts)
    # What it keeps must not keep it: the step waits for the optimizers that are alive.
    itself = weakref.ref(made)

    def live() -> Any:
        return itself()

    def make_state() -> None:
        made = live()
        rates = [group.get("lr") for group in made.param_groups]
        making[0] = True
        try:
            with hidden_afterwards():
                for tensor in params_of(made):
                    parts[tensor].show_zeros()
                for group in made.param_groups:
                    if "lr" in group:
                        group["lr"] = torch.tensor(0.0) if isinstance(group["lr"], torch.Tensor) else 0.0
                made.step()
        finally:
            making[0] = False
            for group, rate in zip(made.param_groups, rates):
                if "lr" in group:
                    group["lr"] = rate
        for of_param in made.state.values():
            if "step" in of_param:
                of_param["step"] = of_param["step"] * 0

    @functools.wraps(type(made).add_param_group)
    def add_param_group(param_group: dict[str, Any]) -> None:
        added = _listed([param_group])
        _check_trained(_tensors(added), parts)
        _check_whole(type(live()), added, by_tensor, rows)
        with shown():
            type(live()).add_param_group(live(), added[0])

    @functools.wraps(type(made).zero_grad)
    def zero_grad(set_to_none: bool = True) -> None:
        for part in parts.values():  # which a step() that has raised has left as it was
            part.hide()
        type(live()).zero_grad(live(), set_to_none)
        zeroed(live())

    made.register_step_pre_hook(before)
    made.register_step_post_hook(after)
    made.register_state_dict_post_hook(lambda optimizer, state: _shown(optimizer, state, by_tensor, rows))
    made.register_load_state_dict_pre_hook(lambda optimizer, state: _taken(optimizer, state, by_tensor, rows))
    made.register_load_state_dict_post_hook(lambda optimizer: setattr(optimizer, "state", _State(optimizer.state, make_state)))
    made.state = _State(made.state, make_state)
    made.add_param_group, made.zero_grad = add_param_group, zero_grad
    turns.add(made)
    return made


@functools.lru_cache(maxsize=None)
def refuse_others() -> None:
    """From here the step() of an optimizer that has params of a model under fully_shard, and was not made by sharded.optimizer(), raises RuntimeError."""
    register_optimizer_step_pre_hook(_refuse_others)


def _refuse_others(optimizer: Any, *_: Any) -> None:
    if isinstance(optimizer, WeftOptimizer) or isinstance(optimizer.state, _State):
        return
    strangers = [param for param in map(managed, params_of(optimizer)) if param is not None and not param.shown]
    if strangers:
        kind = type(optimizer).__name__
        raise RuntimeError(f"the step() of a {kind} that has {len(strangers)} params of a model under fully_shard, {strangers[0].name} first: their gradients are "
                           f"in parts, which optimizers of sharded.optimizer() alone see. Make it by sharded.optimizer(torch.optim.{kind}, ...), where sharded "
                           "is what fully_shard() returned")


def _listed(given: Any) -> list[Any]:
    """Params or param groups, of which nothing can be gone through only once."""
    listed = []
    for one in given:
        if isinstance(one, dict):
            its = one["params"]
            one = {**one, "params": [its] if isinstance(its, torch.Tensor) else list(its)}
        listed.append(one)
    return listed


def _tensors(listed: Sequence[Any]) -> list[Any]:
    """Of what _listed() gave, which may be pairs with names."""
    params = (param for one in listed for param in (one["params"] if isinstance(one, dict) else [one]))
    return [param[1] if isinstance(param, tuple) else param for param in params]


def _check_whole(kind: Any, listed: Sequence[Any], params: Mapping[Any, ManagedParam], rows: Rows) -> None:
    """Raises ValueError if an optimizer that computes from whole tensors would be given parts."""
    made_by = kind.func if isinstance(kind, functools.partial) else kind
    if not isinstance(made_by, type):
        return
    layouts = [(params[tensor].name, rows.layout(params[tensor])) for tensor in _tensors(listed) if tensor in params]
    cut = [name for name, layout in layouts if layout.is_cut]
    if cut and issubclass(made_by, _OF_MATRICES):
        raise ValueError(f"{made_by.__name__} computes from whole matrices, and {len(cut)} of its params are cut between ranks, {cut[0]} first; "
                         "fully_shard(model, weft.shard.Policy(\"full_shard\", cut=\"tensor\")), or with another preset there, keeps each on one rank")
    sharded = [name for name, layout in layouts if layout.is_sharded]
    if sharded and issubclass(made_by, _OF_TENSORS_EVERYWHERE):
        raise ValueError(f"{made_by.__name__} computes from whole tensors, and {len(sharded)} of its params are sharded between ranks, {sharded[0]} first; "
                         "take the preset \"no_shard\", or an optimizer that updates each element by itself, as AdamW does")


def _check_trained(tensors: Sequence[Any], trained: Container[Any]) -> None:
    strangers = sum(tensor not in trained for tensor in tensors)
    if strangers:
        raise ValueError(f"{strangers} of the optimizer's params are none that the model trains; give it those that were the model's, and had requires_grad, "
                         "when fully_shard was called; for others call destroy(), and fully_shard again")


def _after_closure(given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The arguments of a step() whose closure, if there is one, has been called, with one in its place that returns the loss: the closure's backward makes
    the gradients, so it is before the update."""
    closure = given[1] if len(given) > 1 else named.get("closure")
    if closure is None:
        return None
    with torch.enable_grad():
        loss = closure()

    def known() -> Any:
        return loss

    return ((given[0], known, *given[2:]), named) if len(given) > 1 else (given, {**named, "closure": known})


class _State(defaultdict):  # type: ignore[type-arg]
    """The state of an optimizer of torch's. torch's checkpoints ask whether there is any, and else have the optimizer make it, by a step of zero gradients
    that are as large as the whole model. Asked that, it makes it for this rank's parts, as it is before the first step."""

    def __init__(self, state: Any, make: Callable[[], None]) -> None:
        super().__init__(dict, state)
        self._make = make

    def __bool__(self) -> bool:
        if not len(self):
            self._make()
        return True

    def __reduce__(self) -> Any:
        return defaultdict, (dict, dict(self))


class WeftOptimizer(torch.optim.Optimizer):
    """weft's optimizer of a sharded model with the interface of torch's: step() takes the learning rate of its only param group, so torch's schedulers set
    it. A dynamic loss scale is in the param group of a state. ADAMW and SGD have the settings and states of torch.optim.AdamW and SGD, by the same names; states are of float32, [part] of this rank.

    Thread-safety: as the context. Settings are the same on all ranks; step(), state_dict() and load_state_dict() are collective."""

    def __init__(self, context: Context, params: Sequence[ManagedParam], rows: Rows, update: Callable[[float], object],
                 zeroed: Callable[[Any], None], rate: float, weight_decay: float, dynamic_loss_scale: bool) -> None:
        """Of FullyShard.optimizer()."""
        if not 0 <= rate < math.inf:
            raise ValueError(f"lr is {rate}; it must be a finite number, 0 or more")
        self._context, self._rows, self._update, self._zeroed, self._weight_decay = context, rows, update, zeroed, weight_decay
        self._of_loss_scale = _OF_LOSS_SCALE if dynamic_loss_scale else ()
        self._by_tensor = {param.tensor: param for param in params}
        self._kind = context.param_group(0).numbers().kind
        super().__init__(list(self._by_tensor), {**self._settings(), "lr": rate})
        self._applied = self._numbers(self.param_groups[0])
        for tensor, param in self._by_tensor.items():  # the names of what there is, which is in the context
            self.state[tensor] = dict.fromkeys([*(["step"] if self._kind in _COUNTED else []), *(name for name, _ in self._kinds(param))])

    def step(self, closure: Any = None) -> Any:
        loss = None if closure is None else torch.enable_grad()(closure)()
        group = self.param_groups[0]
        numbers = self._numbers(group)
        if numbers != self._applied:
            self._context.param_group(0).set(**numbers)
            self._applied = numbers
        self._update(float(group["lr"]))
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        for param in self._by_tensor.values():
            param.hide_gradient()
        super().zero_grad(set_to_none)
        self._zeroed(self)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Raises RuntimeError: there is one."""
        if self.param_groups:
            raise RuntimeError("weft's optimizer has one param group; use one of torch's, fully_shard(..., optimizer=None), for several")
        super().add_param_group(param_group)

    def state_dict(self) -> Any:
        state, scalars = super().state_dict(), self._context.state_scalars()
        groups = [{**group, **{name: getattr(scalars, name) for name in self._of_loss_scale}} for group in state["param_groups"]]
        return {**state, "param_groups": groups, "state": {key: {name: _shown_one(param, name, value, self._rows) for name, value in self._read(param)}
                                                           for key, param in enumerate(self._by_tensor.values())}}

    def load_state_dict(self, state_dict: Any) -> None:
        """Of this, or of one of torch's with states by the same names. Raises ValueError if params have different counts of updates; nothing is loaded then."""
        groups = state_dict["param_groups"]
        if [len(group["params"]) for group in groups] != [len(self._by_tensor)]:
            raise ValueError(f"the state has {[len(group['params']) for group in groups]} params in its groups; weft's optimizer has one group "
                             f"of {len(self._by_tensor)}")
        taken = _taken(self, state_dict, self._by_tensor, self._rows)["state"]
        counts = {int(of_param["step"]) for of_param in taken.values() if "step" in of_param}
        if len(counts) > 1:
            raise ValueError(f"the state has params with {', '.join(map(str, sorted(counts)))} updates; weft counts those of all params together")
        for name, param in zip(groups[0]["params"], self._by_tensor.values()):
            self._write(param, taken.get(name, {}))
        scalars = {name: groups[0][name] for name in self._of_loss_scale if name in groups[0]}
        if counts:
            scalars["update_count"] = counts.pop()
        self._context.set_state_scalars(self._context.state_scalars()._replace(**scalars))
        self._context.state_written(States.MOMENTS)
        self.param_groups[0].update({key: value for key, value in groups[0].items() if key not in ("params", *_OF_LOSS_SCALE)})

    # ---- inside ----

    def _settings(self) -> dict[str, Any]:
        """As torch's optimizer of this kind has them."""
        numbers, nothing = self._context.param_group(0).numbers(), [torch.nn.Parameter(torch.empty(0))]
        known: dict[str, Any]
        of_adam = {"betas": (numbers.beta1, numbers.beta2), "eps": numbers.epsilon, "weight_decay": self._weight_decay}
        of_momentum = {"momentum": numbers.momentum, "weight_decay": self._weight_decay,
                       **({"nesterov": numbers.nesterov} if self._kind is not OptimizerKind.LARS else {})}
        if self._kind is OptimizerKind.ADAMW:
            known = torch.optim.AdamW(nothing, **of_adam).defaults
        elif self._kind is OptimizerKind.SGD:
            known = torch.optim.SGD(nothing, **of_momentum).defaults
        else:
            known = of_adam if self._kind in (OptimizerKind.LAMB, OptimizerKind.LION) else of_momentum
        return known

    def _numbers(self, group: dict[str, Any]) -> dict[str, Any]:
        """weft's, of a param group."""
        decay = group["weight_decay"]
        for name in _FLAGS_OF_TORCH:
            if group.get(name):
                raise ValueError(f"{name} is {group[name]} in the param group, and weft's {self._kind.name} has none")
        if decay and not self._weight_decay:
            raise ValueError(f'weight_decay is {decay} in the param group and was 0 in fully_shard(..., optimizer={{"weight_decay": ...}}); give one there')
        numbers: dict[str, Any] = {"weight_decay_factor": decay / self._weight_decay if self._weight_decay else 1.0}
        if "betas" in group:
            beta1, beta2 = group["betas"]
            numbers.update(beta1=float(beta1), beta2=float(beta2), **({"epsilon": float(group["eps"])} if self._kind is not OptimizerKind.LION else {}))
        if "momentum" in group:
            numbers.update(momentum=float(group["momentum"]))
        if "nesterov" in group:
            numbers.update(nesterov=bool(group["nesterov"]))
        return numbers

    def _kinds(self, param: ManagedParam) -> Iterator[tuple[str, StateKind]]:
        for name, kind in zip(_MOMENTS[self._kind], (StateKind.MOMENT1, StateKind.MOMENT2)):
            if param.param.state(kind).replicas:
                yield name, kind

    def _read(self, param: ManagedParam) -> Iterator[tuple[str, Any]]:
        if self._kind in _COUNTED:
            yield "step", torch.tensor(float(self._context.state_scalars().update_count))
        begin, count = self._rows.layout(param).part
        for name, kind in self._kinds(param):
            values = torch.empty(count)
            if count:
                param.param.read_state(kind, begin, of(values))
            yield name, values.view(self._rows.layout(param).part_shape)

    def _write(self, param: ManagedParam, states: dict[str, Any]) -> None:
        begin, count = self._rows.layout(param).part
        for name, kind in self._kinds(param):
            if count and states.get(name) is not None:
                values = states[name].to(torch.float32)
                param.param.write_state(kind, begin, of(values))


def _shown(optimizer: Any, state: dict[str, Any], params: dict[Any, ManagedParam], rows: Rows) -> dict[str, Any]:
    """A state_dict of parts as one of DTensors. Collective."""
    order = [params[tensor] for group in optimizer.param_groups for tensor in group["params"]]
    shown = {key: {name: _shown_one(order[key], name, value, rows) for name, value in of_param.items()} for key, of_param in state["state"].items()}
    return {**state, "state": shown}


def _shown_one(param: ManagedParam, name: str, value: Any, rows: Rows) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if not value.dim():
        return value.clone()  # all of a state is from one moment
    if value.shape != rows.layout(param).part_shape:
        raise ValueError(f"the optimizer's {name} of {param.name} has the shape {tuple(value.shape)}, not that of the part, so no other rank could load it")
    return rows.show(param, value.reshape(-1))


def _taken(optimizer: Any, state: dict[str, Any], params: dict[Any, ManagedParam], rows: Rows) -> dict[str, Any]:
    """The other way. Params are by number, or by the names that torch.distributed.checkpoint gives them. Collective."""
    keys = [key for group in state["param_groups"] for key in group["params"]]
    order = dict(zip(keys, (params[tensor] for group in optimizer.param_groups for tensor in group["params"])))
    taken = {key: {name: _taken_one(order[key], name, value, rows) for name, value in of_param.items()} if key in order else of_param
             for key, of_param in state["state"].items()}
    return {**state, "state": taken}


def _taken_one(param: ManagedParam, name: str, value: Any, rows: Rows) -> Any:
    if not isinstance(value, torch.Tensor) or (not value.dim() and (name == "step" or param.shape)):
        return value
    return rows.take(param, value).view(rows.layout(param).part_shape)
