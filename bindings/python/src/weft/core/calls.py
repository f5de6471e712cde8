"""The options that every operation takes behind its own arguments, as C wants them.

Structs are made once for each combination of options and never changed, so that a call passes an address.
"""
from __future__ import annotations

import ctypes
from operator import index
from typing import Literal, TypedDict

from weft import _capi

_NS = 1_000_000_000
_KNOWN_MAX = 256
_NUMERICS = {"canonical": _capi.WEFT_NUMERICS_CANONICAL, "fast": _capi.WEFT_NUMERICS_FAST}
Reference = object  # what ctypes.byref() makes


class MessageOptions(TypedDict, total=False):
    """Of send, recv and sendrecv."""

    timeout: float | None  # seconds until TIMEOUT; None: the communicator's
    priority: int  # larger starts first within a batch
    background: bool  # nobody will wait for the work soon: it is moved from its start on


class CallOptions(TypedDict, total=False):
    """Of collectives. What is left out is the default."""

    timeout: float | None  # seconds until TIMEOUT; None: the communicator's
    algorithm: str | None  # a name that explain() prints, the same on all ranks; None: weft chooses. A hint over several nodes
    strict_algorithm: bool  # no hint: UNSUPPORTED where it cannot be taken
    numerics: Literal["canonical", "fast"]  # order of additions, the same on all ranks; "fast" pays between nodes alone
    priority: int  # larger starts first within a batch
    tag: int  # yours; stands in the flight recorder
    background: bool  # nobody will wait for the work soon: it is moved from its start on


_references: dict[tuple[tuple[str, object], ...], Reference] = {}


def reference(call: CallOptions | MessageOptions) -> Reference:
    """The struct of these options. It lives as long as the reference."""
    key = tuple(call.items())
    known = _references.get(key)
    if known is None:
        known = ctypes.byref(_options(**call))
        if len(_references) < _KNOWN_MAX:
            _references[key] = known
    return known


def _options(timeout: float | None = None, algorithm: str | None = None, numerics: str = "canonical", priority: int = 0, tag: int = 0,
             background: bool = False, strict_algorithm: bool = False) -> _capi.weft_call_t:
    if numerics not in _NUMERICS:
        raise ValueError(f"numerics is {numerics!r}; it must be {' or '.join(map(repr, _NUMERICS))}")
    priority = index(priority)
    if not -1 << 31 <= priority < 1 << 31:
        raise ValueError(f"priority is {priority}; it must be a whole number of 32 bits")
    return _capi.weft_call_t(
        struct_size=ctypes.sizeof(_capi.weft_call_t), timeout_ns=nanoseconds(timeout), algorithm=None if algorithm is None else algorithm.encode(),
        fields=(_capi.WEFT_CALL_BACKGROUND if background else 0) | (_capi.WEFT_CALL_STRICT_ALGORITHM if strict_algorithm else 0), numerics=_NUMERICS[numerics], priority=priority, tag=tag_number(tag))


def tag_number(tag: int) -> int:
    """Of an operation or of a message."""
    tag = index(tag)
    if not 0 <= tag < 1 << 64:
        raise ValueError(f"tag is {tag}; it must be a whole number from 0, of at most 64 bits")
    return tag


def nanoseconds(timeout: float | None) -> int:
    """0 of None, which stands for the default."""
    if timeout is None:
        return 0
    if not timeout > 0:
        raise ValueError(f"timeout is {timeout}; it must be above 0 s, or None")
    return max(1, int(min(timeout, 9e9) * _NS))
