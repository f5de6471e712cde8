"""Events of torch's profilers: "weft:all_reduce" while a call of one runs, and "weft:all_reduce:wait" while a program waits for one that it started, with
shapes, and by the names that torch's other backends have for them the elements, type and group.

Thread-safety: any thread. While no profiler runs, all of it is the question whether one does: profiler._is_profiler_enabled.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.autograd import profiler

from weft.core.communicator import Communicator

__all__ = ["call_event", "profiler", "wait_event"]

_PREFIX = "weft_"
# Functions of several tensors, "weft_all_reduce_iov" say, are the same operations.
_SUFFIXES = ("_iov",)


def call_event(function: Callable[..., int], comm: Communicator, outputs: Any, kept: object) -> Any:
    """A context manager. `outputs` and `kept`: what _run has of the tensors of a call."""
    name = _name(function)
    taken, given = list(_tensors(outputs)), list(_tensors(kept))
    first = (given or taken)[:1]
    about = {"Collective name": name, "Group size": comm.size, "Process Group Name": comm.name, "In msg nelems": sum(one.numel() for one in first),
             "Out msg nelems": sum(one.numel() for one in taken), "dtype": str(first[0].dtype).removeprefix("torch.") if first else ""}
    return _event(f"weft:{name}", first, about)


def wait_event(function: Callable[..., int]) -> Any:
    """A context manager."""
    return _event(f"weft:{_name(function)}:wait", [], {})


def _name(function: Any) -> str:
    name = str(function.__name__).removeprefix(_PREFIX)
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def _tensors(given: Any) -> Iterator[Any]:
    if isinstance(given, torch.Tensor):
        yield given
    elif isinstance(given, (list, tuple)):
        for one in given:
            yield from _tensors(one)


def _event(name: str, tensors: list[Any], about: dict[str, Any]) -> Any:
    fast = getattr(torch._C._profiler, "_RecordFunctionFast", None)
    try:
        return fast(name, tensors, about)  # type: ignore[misc]
    except TypeError:  # a torch that has it not, or without metadata
        return profiler.record_function(name)
