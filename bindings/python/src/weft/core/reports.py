"""What a group says of itself: why it does what it does, what it has done, why it works no longer.

Thread-safety: any thread. Nothing here waits.
"""
from __future__ import annotations

import ctypes
from typing import Literal, NamedTuple

from weft import _capi
from weft._library import library
from weft.core.calls import nanoseconds
from weft.core.errors import Error, check, empty_info, error_of, refuse_inside_check
from weft.core.group import Group
from weft.core.reductions import KINDS, AnyOp, kind_of
from weft.core.types import AnyDType, dtype_number

_MEMORY = {"private": 0, "symmetric": 1, "shared": 2}


class Stats(NamedTuple):
    """What this rank has done with a group so far. Bytes are of the callers' buffers."""

    collectives: int  # ended, well or not
    messages: int  # sends and receives, ended well or not
    failures: int  # of these, not ended well
    in_bytes: int  # read from in_
    out_bytes: int  # written to out
    pending: int  # started and not ended
    wait_s: float  # that blocking calls spent asleep or yielding for peers
    shared_bytes: int  # shared memory that this rank holds for the group
    private_bytes: int  # other memory that it holds for the group, about
    node_messages: int  # over several nodes, else 0: posted to ranks of this node
    node_bytes: int
    net_messages: int  # to ranks of other nodes
    net_bytes: int


class Reports(Group):
    """Of a communicator."""

    def explain(self, operation: str, count: int, dtype: AnyDType = "float32", op: AnyOp = "sum", *,
                memory: Literal["private", "symmetric", "shared"] = "private", algorithm: str | None = None, strict_algorithm: bool = False) -> str:
        """Lines of "name: value": which algorithm a call would take, the bytes it moves, why, and which ones it would not. `operation` is the method's
        name, `count` elements as C's call takes them (docs/api/collective.md), of _v forms the largest block. `memory`: of all buffers; "shared": and all outs
        are one place. `algorithm` and `strict_algorithm`: the call's options."""
        if memory not in _MEMORY:
            raise ValueError(f"memory is {memory!r}; it must be one of {', '.join(_MEMORY)}")
        if not 0 <= count < 1 << 63:
            raise ValueError(f"count is {count}; it must be a whole number from 0 that memory can have")
        refuse_inside_check()
        number = (KINDS.get(op) or kind_of(op)).number
        query = _capi.weft_explain_query_t(struct_size=ctypes.sizeof(_capi.weft_explain_query_t), operation=operation.encode(), count=count,
                                           dtype=dtype_number(dtype), op=number, symmetric=_MEMORY[memory],
                                           algorithm=None if algorithm is None else algorithm.encode(),
                                           fields=_capi.WEFT_CALL_STRICT_ALGORITHM if strict_algorithm else 0)
        length = ctypes.c_size_t(4096)
        while True:
            text = ctypes.create_string_buffer(length.value + 1)
            check(library.weft_explain(self._live_group(), ctypes.byref(query), text, len(text), ctypes.byref(length)))
            if length.value < len(text):
                return text.value.decode("utf-8", "replace")

    def stats(self) -> Stats:
        """Counts since the group was made."""
        refuse_inside_check()
        found = _capi.weft_group_stats_t(struct_size=ctypes.sizeof(_capi.weft_group_stats_t))
        check(library.weft_group_stats(self._live_group(), ctypes.byref(found)))
        return Stats(wait_s=found.wait_ns * 1e-9, **{name: getattr(found, name) for name in Stats._fields if name != "wait_s"})

    def failure(self) -> Error | None:
        """Why the group works no longer, without raising it; None while it does."""
        refuse_inside_check()
        result = library.weft_group_error(self._live_group())
        if not result:
            return None
        info = empty_info()
        library.weft_last_error_info(ctypes.byref(info))
        return error_of(result, library.weft_last_error(), info)

    @property
    def sequence(self) -> int:
        """Number of the last collective that this rank has issued: equal on all ranks where calls are. It stands in errors and in the flight recorder."""
        refuse_inside_check()
        number = ctypes.c_uint64()
        check(library.weft_group_sequence(self._live_group(), ctypes.byref(number)))
        return number.value

    def set_timeout(self, timeout: float | None) -> None:
        """This rank's deadline, in seconds, of operations called from now on without a timeout of their own. None: half an hour, or WEFT_TIMEOUT_S."""
        refuse_inside_check()
        check(library.weft_group_set_timeout(self._live_group(), nanoseconds(timeout)))
