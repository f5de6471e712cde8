"""Communicators as compiled programs name them."""
from __future__ import annotations

import ctypes
from typing import Any

from weft._library import library
from weft.core.communicator import Communicator
from weft.core.errors import check


def params_of(comm: Communicator, timeout: float | None) -> dict[str, Any]:
    """What all operations of it have: its number, its size, the deadline."""
    if not isinstance(comm, Communicator):
        raise TypeError(f"comm is a {type(comm).__name__}; it must be a weft.Communicator")
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout is {timeout}; it must be above 0 s, or None")
    number = ctypes.c_int64()
    check(library.weft_xla_group_number(comm._live_group(), ctypes.byref(number)))
    params: dict[str, Any] = {"group": number.value, "size": comm.size}
    if timeout is not None:
        params["timeout_ns"] = max(1, int(min(timeout, 9e9) * 1_000_000_000))
    return params
