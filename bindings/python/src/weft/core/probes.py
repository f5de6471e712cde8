"""What is known of a message before it is received.

Thread-safety: any thread. A message that one thread has found another one may receive.
"""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, NamedTuple

from weft import _capi
from weft._library import library, operation
from weft.core import batch as batches
from weft.core.calls import MessageOptions, tag_number
from weft.core.errors import Error, Result, check, refuse_inside_check
from weft.core.group import Group
from weft.core.operations import ANY_SOURCE, rank_number
from weft.core.types import DType

if TYPE_CHECKING:
    from typing_extensions import Unpack

ANY_TAG: int = _capi.WEFT_ANY_TAG

_probe = operation("weft_probe", 3)


class Probed(NamedTuple):
    """A message that can be received."""

    source: int  # the rank that sent it
    tag: int
    elements: int
    dtype: DType


class Probes(Group):
    """Of a communicator."""

    def probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, **call: Unpack[MessageOptions]) -> Probed:
        """Waits for a message from `source` with `tag` and leaves it where it is: a receive with the source and the tag of the result gets it. Not in a
        batch, which starts nothing before its end."""
        if batches.is_open():
            raise Error("probe: a batch starts what is called in it at its end, so there is nothing to wait for", Result.INVALID_USAGE)
        info = _empty()
        self._issue(_probe, (rank_number(source, "source"), tag_number(tag), ctypes.byref(info)), info, False, call)
        return _probed(info)

    def iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Probed | None:
        """As probe, but does not wait: None if there is no such message now."""
        refuse_inside_check()
        info, found = _empty(), ctypes.c_int()
        check(library.weft_iprobe(rank_number(source, "source"), tag_number(tag), ctypes.byref(found), ctypes.byref(info), self._live_group()))
        return _probed(info) if found.value else None


def _empty() -> _capi.weft_message_info_t:
    return _capi.weft_message_info_t(struct_size=ctypes.sizeof(_capi.weft_message_info_t))


def _probed(info: _capi.weft_message_info_t) -> Probed:
    return Probed(info.source, info.tag, info.count, DType(info.dtype))
