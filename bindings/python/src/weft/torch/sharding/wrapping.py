"""Which modules become units, and whose params are in them."""
from __future__ import annotations

import fnmatch
from collections.abc import Callable
from typing import Any, NamedTuple, Union

from torch import nn

# Classes, names with wildcards ("blocks.*"), a predicate of (name, module), or the bytes of params from which on a module is a unit.
Wrap = Union[None, int, type, str, Callable[[str, Any], bool], "list[Any]", "tuple[Any, ...]"]
# Their forward is not called, so nothing could be gathered for it.
_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
# What is in one of these is not called either: their own forward reads its params.
_READ_THEIR_CHILDREN = (nn.MultiheadAttention,)
ROOT = "root"


class Wrapped(NamedTuple):
    """A unit to be. `params` are by the names that the whole model has for them: several, if a param is tied or in a module that has several. `outer`: the
    units whose modules it is part of, the innermost first."""

    name: str
    module: Any
    params: list[tuple[list[str], Any]]
    outer: list[str]


def units_of(model: Any, wrap: Wrap) -> list[Wrapped]:
    """The model itself first, with the params that are in no other unit or in several, then the others in the order in which the model has them, which is
    to be that of forward; each after those that it is part of. Raises ValueError if `wrap` matches nothing."""
    chosen = {id(model): ROOT}
    never_called = {id(child) for module in model.modules() if isinstance(module, _READ_THEIR_CHILDREN) for child in module.modules() if child is not module}
    if isinstance(wrap, int) and not isinstance(wrap, bool):
        _choose_by_size(model, "", wrap, chosen)
    elif wrap is not None:
        matches, first = _matcher(wrap), {id(module): name for name, module in model.named_modules()}
        for name, module in model.named_modules(remove_duplicate=False):
            if name and not isinstance(module, _CONTAINERS) and id(module) not in never_called and matches(name, module):
                chosen.setdefault(id(module), first[id(module)])
        if len(chosen) == 1:
            raise ValueError(f"wrap={wrap!r} matches no module of the model")
    chosen = _outside_of_compiled(model, chosen)
    modules = {id(module): module for module in model.modules()}
    chosen = {key: chosen[key] for key in modules if key in chosen}
    params: dict[int, Any] = {}
    names: dict[int, list[str]] = {}
    users: dict[int, set[str]] = {}  # units
    at = dict(model.named_modules(remove_duplicate=False))
    # Under all names, as state_dict() has them: those of a module that is registered several times, too.
    for name, param in model.named_parameters(remove_duplicate=False):
        params[id(param)] = param
        names.setdefault(id(param), []).append(name)
        users.setdefault(id(param), set()).add(_user(name, at, chosen))
    # What several units use must be there while any of them is in use, as the model's own params are.
    owner = {key: next(iter(units)) if len(units) == 1 else ROOT for key, units in users.items()}
    return [Wrapped(unit, modules[key], [(names[param], params[param]) for param in params if owner[param] == unit], _outer(unit, set(chosen.values())))
            for key, unit in chosen.items()]


def _outside_of_compiled(model: Any, chosen: dict[int, str]) -> dict[int, str]:
    """With what torch.compile(module) has returned in place of the module: hooks are then outside of what is compiled, which may be one graph."""
    around = {id(module._orig_mod): id(module) for module in model.modules() if "_orig_mod" in module._modules}
    outside: dict[int, str] = {}
    for key, name in chosen.items():
        while key in around:
            key, name = around[key], name.removesuffix("._orig_mod")
        outside.setdefault(key, chosen.get(key, name))
    return outside


def _outer(unit: str, units: set[str]) -> list[str]:
    if unit == ROOT:
        return []
    words = unit.split(".")
    return [name for name in (".".join(words[:count]) for count in range(len(words) - 1, 0, -1)) if name in units] + [ROOT]


def _matcher(wrap: Any) -> Callable[[str, Any], bool]:
    if isinstance(wrap, type):
        return lambda _, module: isinstance(module, wrap)
    if isinstance(wrap, str):
        # "blocks.*" is each block, not what is inside of one.
        return lambda name, _: fnmatch.fnmatchcase(name, wrap) and name.count(".") == wrap.count(".")
    if isinstance(wrap, (list, tuple, set, frozenset)):
        each = [_matcher(one) for one in wrap]
        return lambda name, module: any(one(name, module) for one in each)
    if callable(wrap):
        return wrap  # type: ignore[no-any-return]
    raise TypeError(f"wrap is a {type(wrap).__name__}; it must be classes, names, a predicate or a number of bytes")


def _choose_by_size(module: Any, name: str, least: int, chosen: dict[int, str]) -> int:
    """Returns the bytes below the module that are in no unit yet."""
    whole = isinstance(module, _READ_THEIR_CHILDREN)
    size: int = sum(param.nbytes for param in module.parameters(recurse=whole))
    for child_name, child in () if whole else module.named_children():
        if id(child) not in chosen:
            size += _choose_by_size(child, f"{name}.{child_name}" if name else child_name, least, chosen)
    if size >= least and id(module) not in chosen and not isinstance(module, _CONTAINERS):
        chosen[id(module)] = name
        return 0
    return size


def _user(name: str, at: dict[str, Any], chosen: dict[int, str]) -> str:
    """The unit whose module is the innermost one around the param with this name."""
    place = name.rpartition(".")[0]
    while id(at[place]) not in chosen:
        place = place.rpartition(".")[0]
    return chosen[id(at[place])]
