"""The tensors in what modules are given and in what they return."""
from __future__ import annotations

import array
import collections
import contextlib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

# Without tensors in them, whatever they have.
_ATOMS = (type(None), bool, int, float, complex, str, bytes, bytearray, memoryview, range, array.array, slice, type, types.ModuleType, types.FunctionType,
          types.BuiltinFunctionType, types.MethodType, types.GeneratorType, torch.dtype, torch.device, torch.Size, torch.Generator, nn.Module)
# What an object leads to is its own matter: a result that refers to a data set is not searched to the end.
_OBJECTS_MAX = 10000


def arguments(given: Any) -> Iterator[Any]:
    """Tensors with gradients that are arguments themselves, or in tuples of them. What callers may change, lists say, is theirs: it is not copied, so what is
    in it stays as it is."""
    for one in given:
        if isinstance(one, torch.Tensor):
            if one.requires_grad:
                yield one
        elif _is_tuple(one):
            yield from arguments(one)


def with_arguments(given: Any, tensors: dict[int, Any]) -> Any:
    """The tuple with other tensors in place of these, by id."""
    parts = [tensors.get(id(one), one) if isinstance(one, torch.Tensor) else with_arguments(one, tensors) if _is_tuple(one) else one for one in given]
    return type(given)(*parts) if hasattr(given, "_fields") else tuple(parts)


def results(returned: Any) -> list[Any]:
    """Tensors with gradients in what a module returned: in mappings, sequences, sets, dataclasses, objects with attributes, what torch's pytree knows, and in
    all of these within each other. Attributes are those that an object keeps, so no property is called."""
    if isinstance(returned, torch.Tensor):
        return [returned] if returned.requires_grad else []
    found: list[Any] = []
    seen: dict[int, Any] = {}  # by number, and kept, so that no number is used again
    waiting = collections.deque([returned])
    while waiting and len(seen) < _OBJECTS_MAX:
        one = waiting.popleft()
        if id(one) in seen:
            continue
        if isinstance(one, torch.Tensor):
            seen[id(one)] = one
            if one.requires_grad:
                found.append(one)
        elif not isinstance(one, _ATOMS):
            seen[id(one)] = one
            waiting.extend(_parts(one))
    return found


def _parts(one: Any) -> Iterator[Any]:
    if isinstance(one, Mapping):
        yield from one.values()
    elif isinstance(one, (Sequence, Set, collections.deque)):
        yield from one
    elif type(one) in pytree.SUPPORTED_NODES:
        yield from pytree.SUPPORTED_NODES[type(one)].flatten_fn(one)[0]
    yield from getattr(one, "__dict__", {}).values()
    for kind in type(one).__mro__:
        if "__slots__" in vars(kind):
            for slot in vars(kind).values():
                if isinstance(slot, types.MemberDescriptorType):
                    with contextlib.suppress(AttributeError):  # nothing was put there
                        yield slot.__get__(one)


def _is_tuple(one: Any) -> bool:
    return type(one) is tuple or (isinstance(one, tuple) and hasattr(one, "_fields"))


def with_bases(tensors: Iterable[Any]) -> Iterator[Any]:
    """A view whose caller changes it in place has its gradient by the tensor that it is of."""
    for tensor in tensors:
        yield tensor
        if tensor._is_view() and tensor._base.grad_fn is not None:
            yield tensor._base
