"""The extension: blocking operations on one tensor in C++ (calls.cc), which `python -m weft.torch.build_ext` compiles for the torch that is installed.

`calls()` is its module, or None where there is none: then everything is Python's. docs/torch.md has the rules.
"""
from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.machinery
import importlib.util
import os
import stat
import struct
import sysconfig
import warnings
from pathlib import Path
from typing import Any

import torch

from weft import _capi
from weft._library import library
from weft.core import batch, config, interrupt
from weft.core.communicator import Communicator
from weft.core.errors import Error
from weft.torch import abort_hooks
from weft.torch.collectives import OPS
from weft.torch.events import profiler
from weft.torch.refusals import tell
from weft.torch.tensors import DTYPES
from weft.torch.works import Done, explained

NAME = "weft_torch_calls"
SOURCE = Path(__file__).parent / "calls.cc"
BUILD = "python -m weft.torch.build_ext"
_OPTION = "WEFT_TORCH_EXTENSION"
_OFF = ("0", "false", "no", "off")
_FUNCTIONS = ("weft_all_reduce", "weft_broadcast", "weft_reduce", "weft_all_gather", "weft_reduce_scatter", "weft_all_to_all", "weft_barrier")
_DIGITS = 12
_ELF_BYTES = 64  # of its header


def folder() -> Path | None:
    """Where extensions are kept: weft's part of the user's cache, as the library has it."""
    for name, below in (("XDG_CACHE_HOME", "weft"), ("HOME", ".cache/weft")):
        place = os.environ.get(name, "")
        if os.path.isabs(place):
            return Path(place) / below
    return None


@functools.lru_cache(maxsize=None)
def file_name() -> str:
    """Of the extension for this torch, this Python and this package: one of another has another name."""
    digest = hashlib.sha256(str(torch.version.git_version).encode())
    for source in (SOURCE, Path(_capi.__file__)):  # the latter is made from the headers of C
        digest.update(source.read_bytes())
    return f"torch-{torch.__version__}-{sysconfig.get_config_var('SOABI')}-{digest.hexdigest()[:_DIGITS]}.so"


def path() -> Path | None:
    """Where the extension for this torch is, or would be."""
    found = folder()
    return None if found is None else found / file_name()


class Unusable(Exception):
    """Why a file is not loaded."""


def load(file: Path) -> Any:
    """The module in `file`. Raises Unusable."""
    try:
        about = file.lstat()
        # Neither a link to elsewhere nor what somebody else could write.
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise Unusable("it is not a file of this user's alone")
        if not _is_whole(file, about.st_size):
            raise Unusable("it is cut short")
        loader = importlib.machinery.ExtensionFileLoader(NAME, str(file))
        spec = importlib.util.spec_from_file_location(NAME, file, loader=loader)
        module: Any = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        loader.exec_module(module)
        _hand_over(module)
    except Unusable:
        raise
    except Exception as failure:  # whatever the system's loader, Python or pybind11 find
        raise Unusable(f"{type(failure).__name__}: {failure}") from failure
    return module


def _is_whole(file: Path, count_bytes: int) -> bool:
    """Whether it reaches to the end of its table of sections, its last part. The system's loader maps what is missing, and whoever reads that is killed."""
    with file.open("rb") as opened:
        header = opened.read(_ELF_BYTES)
    if len(header) < _ELF_BYTES:
        return False
    (begin,), (entry_bytes, entries) = struct.unpack_from("=Q", header, 40), struct.unpack_from("=HH", header, 58)
    return bool(begin + entry_bytes * entries <= count_bytes)


def _hand_over(module: Any) -> None:
    """What the module needs of Python."""
    functions = {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in _FUNCTIONS}
    dtypes = {kind: int(number) for kind, (number, elements) in DTYPES.items() if elements == 1}
    module.use(functions, dtypes, {kind: int(number) for kind, number in OPS.items()}, vars(batch), vars(interrupt), vars(profiler), Done, _failed)


def _failed(comm: Communicator, result: int) -> None:
    """Called when an operation has failed, or a signal handler has raised meanwhile."""
    try:
        comm._failed(result)
    except Error as error:
        abort_hooks.look(comm)
        tell(comm, None, error)
        raise explained(error) from None


def _find() -> tuple[Any, str]:
    """The module or None, and what there is to say of it."""
    if os.environ.get(_OPTION, "").lower() in _OFF:
        return None, f"not used, {_OPTION} is {os.environ[_OPTION]}"
    try:
        file = path()
    except OSError as failure:  # a package without its source
        return None, f"cannot be made: {failure}"
    if file is None or not os.path.lexists(file):
        return None, f"not there, {BUILD} makes it"
    try:
        return load(file), str(file)
    except Unusable as reason:
        warnings.warn(f"weft: the extension {file} is not used: {reason}; {BUILD} makes it anew", RuntimeWarning, stacklevel=2)
        return None, f"{file} is not used: {reason}"


@functools.lru_cache(maxsize=None)
def _found() -> tuple[Any, str]:
    return _find()


def calls() -> Any:
    """The module for this torch, looked for once; None if it is not there, not usable, which a warning says once, or not wanted."""
    return _found()[0]


def about() -> str:
    """What show_config() says."""
    return f"torch: {torch.__version__}, extension: {_found()[1]}"


config.sections.append(about)
