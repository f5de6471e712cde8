"""torch.compile leaves weft's functions as they are: a graph ends before a call of one, and another begins after it.

torch's compiler traces what it meets in a compiled function, hooks and process groups in Python included, and cannot trace calls of C. It is told of this
package when it is imported, which takes seconds and which most programs never do.

Thread-safety: the import system's.
"""
from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

# Which files torch's compiler skips.
_RULES = "torch._dynamo.trace_rules"
_PACKAGE = __name__.partition(".")[0]


def skip_this_package() -> None:
    """Now, or when the compiler is imported."""
    loaded = sys.modules.get(_RULES)
    if loaded is not None:
        _tell(loaded)
    else:
        sys.meta_path.insert(0, _WhenImported())


def _tell(rules: ModuleType) -> None:
    add = getattr(rules, "add", None)
    if add is not None:
        add(_PACKAGE)


class _WhenImported(importlib.abc.MetaPathFinder):
    """Finds the rules as they are found without it, and tells them when they have been executed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if name != _RULES:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def execute_and_tell(module: ModuleType) -> None:
                execute(module)
                _tell(module)

            loader.exec_module = execute_and_tell
        return spec
