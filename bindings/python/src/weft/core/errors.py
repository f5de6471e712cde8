"""weft's failures as exceptions."""
from __future__ import annotations

import ctypes
import enum
from typing import Any, NoReturn

from weft import _capi
from weft._library import library
from weft.core import interrupt


class Result(enum.IntEnum):
    """Why a call failed; docs/errors.md explains each."""

    SUCCESS = _capi.WEFT_SUCCESS
    DEVICE_ERROR = _capi.WEFT_DEVICE_ERROR
    SYSTEM_ERROR = _capi.WEFT_SYSTEM_ERROR
    INTERNAL_ERROR = _capi.WEFT_INTERNAL_ERROR
    INVALID_ARGUMENT = _capi.WEFT_INVALID_ARGUMENT
    INVALID_USAGE = _capi.WEFT_INVALID_USAGE
    REMOTE_ERROR = _capi.WEFT_REMOTE_ERROR
    IN_PROGRESS = _capi.WEFT_IN_PROGRESS
    TIMEOUT = _capi.WEFT_TIMEOUT
    MISMATCH = _capi.WEFT_MISMATCH
    PEER_LOST = _capi.WEFT_PEER_LOST
    UNREACHABLE = _capi.WEFT_UNREACHABLE
    ABORTED = _capi.WEFT_ABORTED
    UNSUPPORTED = _capi.WEFT_UNSUPPORTED
    OUT_OF_MEMORY = _capi.WEFT_OUT_OF_MEMORY
    CORRUPT = _capi.WEFT_CORRUPT
    BAD_STATE = _capi.WEFT_BAD_STATE
    NO_QUORUM = _capi.WEFT_NO_QUORUM
    AUTH_FAILED = _capi.WEFT_AUTH_FAILED
    FORKED = _capi.WEFT_FORKED
    INTERRUPTED = _capi.WEFT_INTERRUPTED


class Error(RuntimeError):
    """A failure that the library reports. The text is its whole sentence; what it does not know is None."""

    code: Result
    rank: int | None  # of the culprit, in the group
    host: str | None
    pid: int | None
    op: str | None  # "all_reduce"
    sequence: int | None  # number of the operation within the group, from 1
    group: str | None
    unit: str | None  # of a shard context, that it is about
    param: str | None
    device: int | None  # the accelerator that failed
    device_code: int | None  # what its driver returned (CUresult)

    def __init__(self, sentence: str, code: Result, *, rank: int | None = None, host: str | None = None, pid: int | None = None,
                 op: str | None = None, sequence: int | None = None, group: str | None = None, unit: str | None = None,
                 param: str | None = None, device: int | None = None, device_code: int | None = None) -> None:
        super().__init__(sentence)
        self.code, self.rank, self.host, self.pid = code, rank, host, pid
        self.op, self.sequence, self.group, self.unit, self.param = op, sequence, group, unit, param
        self.device, self.device_code = device, device_code

    def __reduce__(self) -> tuple[object, ...]:
        return _made_again, (str(self), {name: getattr(self, name) for name in _FIELDS})


_FIELDS = ("code", "rank", "host", "pid", "op", "sequence", "group", "unit", "param", "device", "device_code")


def _made_again(sentence: str, fields: dict[str, Any]) -> Error:
    return Error(sentence, **fields)


def _number(value: int) -> int | None:
    return None if value == -1 else value


def _text(value: bytes) -> str | None:
    return value.decode("utf-8", "replace") or None


def empty_info() -> _capi.weft_error_info_t:
    info = _capi.weft_error_info_t()
    info.struct_size = ctypes.sizeof(info)
    return info


def error_of(result: int, sentence: bytes, info: _capi.weft_error_info_t) -> Error:
    return Error(sentence.decode("utf-8", "replace"), Result(result), rank=_number(info.rank), host=_text(info.host), pid=_number(info.pid),
                 op=_text(info.operation), sequence=_number(info.sequence), group=_text(info.group), unit=_text(info.unit), param=_text(info.param),
                 device=_number(info.device), device_code=_number(info.device_code))


def fail(result: int) -> NoReturn:
    """Raises this thread's last failure, or what a signal handler has raised if that ended the call."""
    interrupt.raise_pending()
    info = empty_info()
    library.weft_last_error_info(ctypes.byref(info))
    raise error_of(result, library.weft_last_error(), info)


def check(result: int) -> None:
    """After a call that may wait or fail."""
    if result:
        fail(result)
    if interrupt.raised:
        interrupt.raise_pending()


def refuse_inside_check() -> None:
    if interrupt.inside():
        raise Error("weft cannot be called from a signal handler, or from what it runs, that has interrupted a call of weft on this thread; let the "
                    "handler raise an exception, which ends that call", Result.INVALID_USAGE)
