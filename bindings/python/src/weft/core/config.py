"""What is installed, for people and bug reports."""
from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable

from weft import _capi, _library
from weft._library import library
from weft.core import quick

# What modules that are imported add, a line each.
sections: list[Callable[[], str]] = []


def show_config() -> None:
    """Prints versions, files and settings."""
    modules = sorted(path.name for path in _library.PATH.parent.glob("libweft_*.so"))
    print(f"weft {_capi.WEFT_VERSION_STRING}, library {_library.version_text(library.weft_version())}")
    print(f"library: {_library.PATH}")
    print(f"modules beside it: {', '.join(modules) or 'none'}")
    print(f"weftrun: {_library.weftrun()}{'' if _library.weftrun().exists() else ' (not there)'}")
    print(f"Python: {sys.version.split()[0]} ({sys.executable}), {os.uname().machine}, {os.cpu_count()} CPUs")
    print(f"calls: {'compiled' if quick.loaded else 'by ctypes'}")
    settings = []
    for i in range(library.weft_option_count()):
        option = _capi.weft_option_info_t(struct_size=ctypes.sizeof(_capi.weft_option_info_t))
        if library.weft_option_at(i, ctypes.byref(option)) == _capi.WEFT_SUCCESS:
            name = option.environment.decode()
            if name in os.environ:
                settings.append(f"{name}={os.environ[name]}")
    print(f"settings: {', '.join(settings) or 'none'}")
    for section in sections:
        print(section())
