"""A sharded model's state as torch has it: DTensors by rows.

`state_dict()` and `load_state_dict` of the model, and of each module in it, go through hooks of this file, so torch.distributed.checkpoint and its state_dict
functions see what they see of FSDP2.
"""
from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from weft.core.communicator import Communicator
from weft.shard import Context, StateKind, States
from weft.torch.sharding.copies import NotCopied
from weft.torch.sharding.layout import Layout
from weft.torch.sharding.params import ManagedParam
from weft.torch.tensors import of


class Rows:
    """Turns this rank's parts of params, or of what an optimizer keeps beside them, into DTensors, and back. Thread-safety: as the context."""

    def __init__(self, communicator: Communicator, mesh: Any) -> None:
        """`mesh`: as fully_shard was given it."""
        self._communicator, self._given = communicator, mesh
        self._layouts: dict[ManagedParam, Layout] = {}

    def layout(self, param: ManagedParam) -> Layout:
        found = self._layouts.get(param)
        if found is None:
            found = self._layouts[param] = Layout(param.param, param.shape, self._communicator)
        return found

    def show(self, param: ManagedParam, part: Any) -> Any:
        """The DTensor of which `part`, of one dimension, is this rank's part: sharded by rows; replicated, of a param without dimensions. Collective."""
        from torch.distributed.tensor import DTensor, Replicate, Shard  # noqa: PLC0415  (takes a second)

        shape = param.shape
        return DTensor.from_local(self.layout(param).to_rows(part), self._mesh, [Shard(0) if shape else Replicate()], run_check=False, shape=shape,
                                  stride=torch.empty(shape, device="meta").stride())

    def take(self, param: ManagedParam, whole: Any) -> Any:
        """This rank's part, of one dimension, of a DTensor of any placement, or of a tensor that is the same on all ranks. Collective. Raises ValueError for
        another shape."""
        if whole.shape != param.shape:
            raise ValueError(f"{param.name} has the shape {tuple(whole.shape)} in the state and {tuple(param.shape)} in the model")
        if hasattr(whole, "to_local"):
            from torch.distributed.tensor import Shard  # noqa: PLC0415

            if tuple(whole.placements) == (Shard(0),) and torch.equal(whole.device_mesh.mesh, self._mesh.mesh):
                return self.layout(param).to_part(whole.to_local())
            whole = whole.full_tensor()
        begin, count = self.layout(param).part
        return whole.detach().reshape(-1)[begin:begin + count].clone()

    @functools.cached_property
    def _mesh(self) -> Any:
        from torch.distributed.device_mesh import DeviceMesh  # noqa: PLC0415  (takes a second)

        given = self._given
        if isinstance(given, DeviceMesh) and given.ndim == 1 and given.device_type == "cpu":
            return given
        if given is not None and hasattr(given, "_get_backend"):
            return DeviceMesh.from_group(given, "cpu")
        return DeviceMesh("cpu", list(range(self._communicator.size)))


class ModelState:
    """The hooks of a model and of all modules in it. Values have the type of their main copy, if weft keeps one of float32; loading takes any."""

    def __init__(self, module: Any, params: Sequence[ManagedParam], context: Context, rows: Rows) -> None:
        self._module, self._context, self._rows = module, context, rows
        self._whole = False  # values are shown as whole tensors
        self._last: dict[ManagedParam, tuple[weakref.ref[Any], str]] = {}  # of those with several names: what was shown last, and by which
        by_tensor = {param.tensor: param for param in params}
        self._handles = [handle for one in module.modules() for handle in self._hooks(one, by_tensor)]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def whole_state_dict(self) -> dict[str, Any]:
        """The model's state_dict(), other hooks of its modules included, with whole tensors of the params' own types, on every rank. Collective."""
        self._whole = True
        try:
            state: dict[str, Any] = self._module.state_dict()
            return state
        finally:
            self._whole = False

    def show(self, param: ManagedParam, name: str, state: dict[str, Any]) -> None:
        """As `name` of a state_dict(). Collective."""
        shown = self._shown_before(param, name, state)
        if shown is None:
            shown = whole(param) if self._whole else self._rows.show(param, self._values(param))
            if len(param.names) > 1:
                self._last[param] = weakref.ref(shown), name
        state[name] = shown

    def load(self, names: Mapping[ManagedParam, Sequence[str]], state: dict[str, Any], prefix: str, errors: list[str]) -> None:
        """Of the load_state_dict() of a module with these params, which has copied the dict, and finds the Parameters themselves in it afterwards. Modules
        inside it get dicts made of this one, so there is nothing left to load for them. Collective."""
        written = States(0)
        for param, its_names in names.items():
            given = {prefix + name: state[prefix + name] for name in its_names if prefix + name in state}
            values = next((one for one in given.values() if one is not param.tensor), None)
            if values is None:
                continue
            state.update(dict.fromkeys(given, param.tensor))
            try:
                part = self._rows.take(param, values)
            except ValueError as failure:
                errors.append(str(failure))
                continue
            written |= self._write(param, part)
        if written:
            self._context.state_written(written)

    # ---- inside ----

    def _hooks(self, module: Any, by_tensor: Mapping[Any, ManagedParam]) -> Iterator[Any]:
        own = [(name, by_tensor[tensor]) for name, tensor in module.named_parameters(recurse=False, remove_duplicate=False)]
        names: dict[ManagedParam, list[str]] = {}
        for name, tensor in module.named_parameters(remove_duplicate=False):
            names.setdefault(by_tensor[tensor], []).append(name)
        hooks = _Hooks(self, own, names)
        if own:
            handle = module.register_state_dict_post_hook(hooks)
            module._state_dict_hooks.move_to_end(handle.id, last=False)  # the program's, which may rename, see what it shows
            yield handle
        if names:
            yield module.register_load_state_dict_pre_hook(hooks.load)

    def _shown_before(self, param: ManagedParam, name: str, state: dict[str, Any]) -> Any:
        """What this state_dict() has of it under an earlier one of its names."""
        last, by = self._last.get(param, (None, ""))
        if last is None or state.get(by) is None or state[by] is not last():
            return None
        pair = _without_common_words(by, name)
        earlier = any(pair == _without_common_words(one, other) for place, other in enumerate(param.names) for one in param.names[:place])
        return state[by] if earlier else None

    def _values(self, param: ManagedParam) -> Any:
        main = self._has_main(param)
        begin, count = self._rows.layout(param).part
        values = torch.empty(count, dtype=torch.float32 if main else param.tensor.dtype)
        if count:
            param.param.read_state(StateKind.MAIN if main else StateKind.VALUE, begin, of(values))
        return values

    def _write(self, param: ManagedParam, part: Any) -> States:
        begin, count = self._rows.layout(param).part
        main = self._has_main(param)
        if count:
            values = part.to(param.tensor.dtype)
            param.param.write_state(StateKind.VALUE, begin, of(values))
            if main:
                values = part.to(torch.float32)
                param.param.write_state(StateKind.MAIN, begin, of(values))
        return States.VALUES | States.MAINS if main else States.VALUES

    def _has_main(self, param: ManagedParam) -> bool:
        return param.param.state(StateKind.MAIN).replicas > 0


class _Hooks(NotCopied):
    """Of one module. `own`: its own params, by name; `names`: of all params in it."""

    def __init__(self, state: ModelState, own: Sequence[tuple[str, ManagedParam]], names: Mapping[ManagedParam, Sequence[str]]) -> None:
        self._state, self._own, self._names = state, own, names

    def __call__(self, _: Any, state: dict[str, Any], prefix: str, __: Any) -> None:
        """After state_dict() of the module. Those inside it come before it, each with its own."""
        for name, param in self._own:
            if prefix + name in state:
                self._state.show(param, prefix + name, state)

    def load(self, _: Any, state: dict[str, Any], prefix: str, __: Any, ___: bool, ____: list[str], _____: list[str], errors: list[str]) -> None:
        """Before load_state_dict() of the module. Those inside it come after it."""
        self._state.load(self._names, state, prefix, errors)


def whole(param: ManagedParam) -> Any:
    """Collective."""
    values = torch.empty(param.shape, dtype=param.tensor.dtype)
    if values.numel():
        param.param.read(of(values))
    return values


def _without_common_words(one: str, other: str) -> tuple[list[str], list[str]]:
    """Names without the modules that both begin with."""
    words, others = one.split("."), other.split(".")
    while words and others and words[0] == others[0]:
        del words[0], others[0]
    return words, others
