"""Finds and loads libweft.so, and refuses one whose structs are not those of _capi.

`library.weft_all_reduce(...)` calls a function, `operation("weft_all_reduce", 3)` is a quicker way to one; `PATH` is the file that was loaded,
`weftrun()` the launcher that belongs to it.

It is looked for where WEFT_LIBRARY_PATH says (a file or its folder), then in the package; a source tree has no other place.
"""
from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from weft import _capi

_NAME = "libweft.so.0"
_OWN_FOLDER = Path(__file__).resolve().parent / "lib"


def _find() -> Path:
    named = os.environ.get("WEFT_LIBRARY_PATH")
    path = Path(named) if named else _OWN_FOLDER
    if path.is_dir() or not named:
        path = path / _NAME
    if not path.exists():
        where = f"WEFT_LIBRARY_PATH is {named}" if named else "WEFT_LIBRARY_PATH may name it or its folder"
        raise ImportError(f"weft: {path} is not there; {where}, or install the package with pip")
    return path


def version_text(number: int) -> str:
    """"0.1.0" of 100."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _checked(library: _capi.Functions, path: Path) -> _capi.Functions:
    for name, struct in _capi.STRUCTS.items():
        bytes_there, bytes_here = library.weft_struct_size(name.encode()), ctypes.sizeof(struct)
        if bytes_there != bytes_here:
            raise ImportError(
                f"weft: the package is of version {_capi.WEFT_VERSION_STRING}, but {path} of version {version_text(library.weft_version())}: "
                f"{name} has {bytes_there} bytes there and {bytes_here} here; install both from one version")
    return library


def _load(path: Path) -> tuple[ctypes.CDLL, _capi.Functions]:
    try:
        loaded = ctypes.CDLL(str(path))
        return loaded, _checked(_capi.Functions(loaded), path)
    except (OSError, AttributeError) as failure:
        raise ImportError(f"weft: {path} cannot be loaded as weft {_capi.WEFT_VERSION_STRING}: {failure}") from failure


def operation(name: str, typed: int) -> Callable[..., int]:
    """A function whose arguments are converted up to number `typed` only, which takes a third less time. The others must be of ctypes, None, or small
    numbers for C's int: any other Python number would be cut."""
    function: Any = _loaded[name]
    function.restype, function.argtypes = _capi.FUNCTIONS[name][0], _capi.FUNCTIONS[name][1][:typed] or None
    return cast("Callable[..., int]", function)


def weftrun() -> Path:
    """The launcher: of the package, or of the build that the library belongs to."""
    return PATH.parent.parent / "bin" / "weftrun"


PATH = _find().absolute()
_loaded, library = _load(PATH)
