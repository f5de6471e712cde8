"""What clang-tidy is run on, so that every changed file is looked at once.

    tidy_inputs(names, commands)     # names: changed sources and headers; commands: of compile_commands.json

A header is looked at with the source beside it, or else alone. Headers of kernels do not compile alone: cmake/kernels.cmake
defines WEFT_KERNEL_ISA for the sources that include them, so they are looked at with such a source.
"""
import os
import re

from workbench.commands import ROOT

_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
KERNEL_DEFINITION = "WEFT_KERNEL_ISA"


class _Includes:
    """Of files of one tree, each read once."""

    def __init__(self, root):
        self.root = root
        self.texts = {}

    def text(self, name):
        if name not in self.texts:
            path = self.root / name
            self.texts[name] = path.read_text() if path.is_file() else ""
        return self.texts[name]

    def reached(self, name):
        """`name` and all that it includes, directly or not."""
        found, left = {name}, [name]
        while left:
            name = left.pop()
            for included in _INCLUDE.findall(self.text(name)):
                beside = os.path.normpath(os.path.join(os.path.dirname(name), included))
                for path in (included, beside):
                    if path not in found and (self.root / path).is_file():
                        found.add(path)
                        left.append(path)
        return found

    def needs_kernel(self, header):
        return any(KERNEL_DEFINITION in self.text(name) for name in self.reached(header))


def tidy_inputs(names, commands, root=ROOT):
    """Sorted, relative to `root`, as `names` are."""
    compiled = {os.path.relpath(entry["file"], root) for entry in commands}
    kernels = sorted({os.path.relpath(entry["file"], root) for entry in commands if KERNEL_DEFINITION in entry["command"]})
    includes = _Includes(root)
    inputs = set()
    for name in names:
        source = re.sub(r"\.h$", ".cc", name)
        if name in compiled or source in compiled:
            inputs.add(name if name in compiled else source)
        elif name.endswith((".h", ".hpp")):
            with_it = [kernel for kernel in kernels if name in includes.reached(kernel)] if includes.needs_kernel(name) else []
            inputs.add(with_it[0] if with_it else name)
    return sorted(inputs)
