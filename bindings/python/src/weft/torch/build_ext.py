"""python -m weft.torch.build_ext: compiles the extension for the torch and the Python that run this, into the user's cache.

Process groups that are made from then on use it. Several may build at once: each builds aside, and the file appears whole.
"""
from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import torch

from weft.torch import extension

_MODE = 0o700


class _Failed(Exception):
    """Why there is no extension now."""


def _headers() -> Path:
    """The folder with weft/collective.h: of the package, or of the source tree that it lies in."""
    package = Path(extension.__file__).resolve().parents[1]
    for folder in (package / "include", package.parents[3] / "include"):
        if (folder / "weft" / "collective.h").exists():
            return folder
    raise _Failed(f"weft's headers are not in {package / 'include'}; install the package anew")


def _check_tools() -> None:
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    if not all(map(shutil.which, compiler[:1])):
        raise _Failed(f"there is no C++ compiler {compiler[0]}; install one (Debian: apt install g++), or name it by CXX")
    if not shutil.which("ninja"):
        raise _Failed("torch compiles with ninja, which is not there; install it (pip install ninja)")
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").exists():
        raise _Failed(f"Python's headers are not in {include}; install them (Debian: apt install python3-dev)")


def _compile(folder: Path) -> Path:
    """The file that is made in `folder`."""
    try:
        from torch.utils import cpp_extension  # noqa: PLC0415  (which takes seconds)

        cpp_extension.load(extension.NAME, [str(extension.SOURCE)], extra_cflags=["-O2"], extra_include_paths=[str(_headers())], build_directory=str(folder))
    except Exception as failure:  # torch's own code for this raises what it meets
        raise _Failed(f"torch {torch.__version__} could not make it of {extension.SOURCE}: {failure}") from failure
    return folder / f"{extension.NAME}.so"


def _build(path: Path) -> None:
    _check_tools()
    # A home that does not exist is not made: of a system's accounts it is none.
    if not path.parent.parent.exists():
        path.parent.parent.mkdir(mode=_MODE, exist_ok=True)
    path.parent.mkdir(mode=_MODE, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as aside:
        made = _compile(Path(aside))
        made.chmod(_MODE)
        try:
            extension.load(made)
        except extension.Unusable as reason:
            raise _Failed(f"what was compiled cannot be used: {reason}") from None
        made.replace(path)


def _state(path: Path) -> str | None:
    """Why the file at `path` cannot be used; None if it can."""
    if not os.path.lexists(path):
        return "it is not there"
    try:
        extension.load(path)
    except extension.Unusable as reason:
        return str(reason)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog=extension.BUILD, description="Compiles weft's extension for the torch that is installed, and says where it is.")
    parser.add_argument("--force", action="store_true", help="even if it is there")
    parser.add_argument("--check", action="store_true", help="compile nothing; the exit code says whether there is one that can be used")
    options = parser.parse_args()
    path = extension.path()
    if path is None:
        print("weft: there is no place for the extension: neither XDG_CACHE_HOME nor HOME is an absolute path", file=sys.stderr)
        return 1
    problem = "it is to be made anew" if options.force and not options.check else _state(path)
    if problem is not None and options.check:
        print(f"weft: no extension for torch {torch.__version__}: {path}: {problem}", file=sys.stderr)
        return 1
    if problem is not None:
        begin = time.monotonic()
        try:
            _build(path)
        except (_Failed, OSError) as failure:
            print(f"weft: {failure}", file=sys.stderr)
            return 1
        print(f"compiled in {time.monotonic() - begin:.0f} s", file=sys.stderr)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
