"""TORCH_DIST_NAN_CHECK=1 for groups that are weft's alone: whoever gives an operation NaN is told so, before anything is sent.

torch's own check is in its ProcessGroup, so it has groups with several backends, and none that are of a class in Python.

Thread-safety: as the operations.
"""
from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from typing import Any

import torch

from weft.core.communicator import Communicator
from weft.torch.refusals import refusing

_VARIABLE = "TORCH_DIST_NAN_CHECK"


def wanted() -> bool:
    return os.environ.get(_VARIABLE, "0") == "1"


def _of_root(rank: int, tensors: Any, opts: Any) -> Any:
    return tensors if rank == opts.rootRank else []


def _flat(lists: Iterable[Any]) -> Any:
    return [tensor for tensors in lists for tensor in tensors]


# By method: the name that messages have, and which of its arguments, after this rank, are read.
_READ: dict[str, tuple[str, Callable[..., Any]]] = {
    "allreduce": ("all_reduce", lambda _, tensors, *__: tensors),
    "broadcast": ("broadcast", _of_root),
    "reduce": ("reduce", lambda _, tensors, *__: tensors),
    "all_gather_single": ("all_gather", lambda _, output, given, *__: [given]),
    "reduce_scatter_single": ("reduce_scatter", lambda _, output, given, *__: [given]),
    "all_to_all_single": ("all_to_all", lambda _, output, given, *__: [given]),
    "allgather": ("all_gather", lambda _, outputs, inputs, *__: inputs),
    "gather": ("gather", lambda _, outputs, inputs, *__: inputs),
    "scatter": ("scatter", lambda _, outputs, inputs, *__: _flat(inputs)),
    "reduce_scatter": ("reduce_scatter", lambda _, outputs, inputs, *__: _flat(inputs)),
    "alltoall": ("all_to_all", lambda _, outputs, inputs, *__: inputs),
    "allreduce_coalesced": ("all_reduce", lambda _, tensors, *__: tensors),
    "all_gather_single_coalesced": ("all_gather", lambda _, outputs, inputs, *__: inputs),
    "reduce_scatter_single_coalesced": ("reduce_scatter", lambda _, outputs, inputs, *__: inputs),
    "allgather_coalesced": ("all_gather", lambda _, outputs, inputs, *__: inputs),
    "send": ("send", lambda _, tensors, *__: tensors),
}


# These have messages, whose receivers are not told.
_BY_MESSAGES = ("alltoall", "send")


def checked(kind: type[Any], old_names: dict[str, str]) -> type[Any]:
    """A subclass of a group or backend of weft's whose operations check what they read."""
    methods = {method: _checked(getattr(kind, method), method, name, read) for method, (name, read) in _READ.items()}
    return type(f"Checked{kind.__name__}", (kind,), {**methods, **{old: methods[new] for old, new in old_names.items()}})


def _checked(operation: Callable[..., Any], method: str, name: str, read: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(operation)
    def call(self: Any, *given: Any, **named: Any) -> Any:
        for place, tensor in enumerate(read(self._comm.rank, *given)):
            refuse_nan(self._comm, name, place, tensor)
        return operation(self, *given, **named)

    return call if method in _BY_MESSAGES else refusing(name)(call)


def refuse_nan(comm: Communicator, name: str, place: int, tensor: Any) -> None:
    """Raises RuntimeError if there is NaN in what this rank gives."""
    values = tensor._values() if tensor.layout is torch.sparse_coo else tensor
    if values.device.type != "cpu" or not (values.is_floating_point() or values.is_complex()):
        return
    found = torch.isnan(values if values.dtype.itemsize > 1 else values.to(torch.float32))
    count = int(found.sum())
    if count:
        raise RuntimeError(f"{name} on {comm.name}: rank {comm.rank} gives NaN, {count} of {values.numel()} elements of its tensor {place} ({values.dtype}, "
                           f"{list(values.shape)}), the first at {found.nonzero()[0].tolist()}; nothing was sent ({_VARIABLE}=1 looks)")
