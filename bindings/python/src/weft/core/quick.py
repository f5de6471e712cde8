"""The shortest way of a call to C: quick.c, where it was built and this Python can load it.

It takes blocking calls on buffers without gaps and with no keywords. What it does not take, and all calls where it is not there, go through ctypes; results,
checks and sentences are the same.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from typing import Any

from weft import _capi, _library
from weft.core import buffers
from weft.core.reductions import KINDS

# Order as in quick.c.
ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL = range(6)
# Of the ops in KINDS, but for those of pairs, which are not taken.
OPS: dict[object, int] = {key: kind.number for key, kind in KINDS.items() if kind.readable is buffers.readable}

# (kind, in_, out, op, root) -> True: done; a number: what C returned; None: not taken, nothing was done.
Run = Callable[[int, object, object, int, int], Any]


def never(kind: int, in_: object, out: object, op: int, root: int) -> None:
    """A Run that takes nothing."""


def _load() -> Any:
    """The module, or None. It is compiled for the limited API of 3.11, which a Python without a global lock has not."""
    path = _library.PATH.parent / "weft_quick.abi3.so"
    if sys.version_info < (3, 11) or "t" in sys.abiflags or not path.exists():
        return None
    loader = ExtensionFileLoader("weft_quick", str(path))
    try:
        module: Any = loader.create_module(ModuleSpec("weft_quick", loader, origin=str(path)))
        loader.exec_module(module)
    except ImportError:
        return None
    if module.VERSION != _capi.WEFT_VERSION_STRING:
        return None
    module.set_formats(buffers.FORMATS)
    return module


_module = _load()
loaded = _module is not None


def run_of(group: Any, rank: int, size: int) -> Run:
    """Of a group's handle, an object of ctypes, which the result keeps."""
    if _module is None:
        return never
    run: Run = _module.Quick(group.value, group, rank, size).run
    return run
