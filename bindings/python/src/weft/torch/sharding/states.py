"""A sharded model's state as torch has it: DTensors by rows.

`model.state_dict()` and `load_state_dict` of the model go through hooks of this file, so torch.distributed.checkpoint and its state_dict functions see what
they see of FSDP2.
"""
from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from weft.core.communicator import Communicator
from weft.shard import Context, StateKind, States
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
    """The hooks of a model. Values have the type of their main copy, if weft keeps one of float32; loading takes any."""

    def __init__(self, module: Any, params: Sequence[ManagedParam], context: Context, rows: Rows) -> None:
        self._params, self._context, self._rows = params, context, rows
        # torch sets attributes on the former, which methods do not take.
        self._handles = [module.register_state_dict_post_hook(lambda *given: self._show(*given)), module.register_load_state_dict_pre_hook(self._load)]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _show(self, _: Any, state: dict[str, Any], prefix: str, __: Any) -> None:
        """Of state_dict(). Collective."""
        for param in self._params:
            names = [prefix + name for name in param.names if prefix + name in state]
            if names:
                state.update(dict.fromkeys(names, self._rows.show(param, self._values(param))))

    def _load(self, _: Any, state: dict[str, Any], prefix: str, __: Any, ___: bool, ____: list[str], _____: list[str], errors: list[str]) -> None:
        """Of load_state_dict(), which has copied the dict, and finds the Parameters themselves in it afterwards. Collective."""
        written = States(0)
        for param in self._params:
            names = [prefix + name for name in param.names if prefix + name in state]
            if not names:
                continue
            given = state[names[0]]
            state.update(dict.fromkeys(names, param.tensor))
            try:
                part = self._rows.take(param, given)
            except ValueError as failure:
                errors.append(str(failure))
                continue
            written |= self._write(param, part)
        if written:
            self._context.state_written(written)

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


def full_state_dict(module: Any, params: Sequence[ManagedParam]) -> dict[str, Any]:
    """Whole tensors of the params' own types, on every rank. Collective."""
    values = {name: values for param in params for values in [whole(param)] for name in param.names}
    buffers = {name: buffer for name, buffer in module.named_buffers(remove_duplicate=False)}
    return {**values, **{name: buffer.detach() for name, buffer in buffers.items() if name not in _not_persistent(module)}}


def whole(param: ManagedParam) -> Any:
    """Collective."""
    values = torch.empty(param.shape, dtype=param.tensor.dtype)
    if values.numel():
        param.param.read(of(values))
    return values


def _not_persistent(module: Any) -> set[str]:
    return {f"{prefix}.{name}" if prefix else name for prefix, one in module.named_modules(remove_duplicate=False) for name in one._non_persistent_buffers_set}
