"""What memory is to weft, and how memory of the program's own becomes reachable for peers.

    with weft.register(block):        # a private mapping of whole pages, or one of a file of memory with its fd
        comm.all_reduce(block)

Thread-safety: any thread. While register() runs nobody may touch the memory.
"""
from __future__ import annotations

import ctypes
import enum
from types import TracebackType
from typing import Any, NamedTuple

from weft import _capi
from weft._library import library
from weft.core import interrupt
from weft.core.buffers import readable, writable
from weft.core.devices import DeviceArray
from weft.core.errors import check, refuse_inside_check
from weft.core.types import ITEM_BYTES


class MemoryKind(enum.IntEnum):
    """What memory is to weft."""

    PRIVATE = _capi.WEFT_MEM_PRIVATE  # the program's, or pinned memory that no peer reaches
    SYMMETRIC = _capi.WEFT_MEM_SYMMETRIC  # weft.zeros, shard contexts
    REGISTERED = _capi.WEFT_MEM_REGISTERED  # weft.register
    SHARED = _capi.WEFT_MEM_SHARED  # comm.shared


class MemoryInfo(NamedTuple):
    """The block or range that holds a buffer's first element."""

    kind: MemoryKind
    base: int  # address of its beginning; 0 of the program's memory
    nbytes: int  # of it: of blocks with what they are rounded up by, of ranges as registered; 0 of the program's memory
    references: int  # of blocks: who keeps it; else 0
    device: int | None = None  # CUDA's ordinal; None of the host
    pinned: bool = False  # memory of the host that devices reach


def query(buffer: Any) -> MemoryInfo:
    """What the memory of a buffer, or of a DeviceArray, is to weft."""
    refuse_inside_check()
    address = buffer.address if isinstance(buffer, DeviceArray) else readable(buffer, "buffer")[0]
    info = _capi.weft_mem_info_t(struct_size=ctypes.sizeof(_capi.weft_mem_info_t))
    check(library.weft_mem_query(address, ctypes.byref(info)))
    return MemoryInfo(MemoryKind(info.kind), info.base or 0, info.bytes, info.references,
                      info.device if info.device_kind == _capi.WEFT_DEVICE_CUDA else None, bool(info.flags & _capi.WEFT_MEM_PINNED))


class Registration:
    """Memory of the program's that peers reach directly, until end() or the end of a `with`. It keeps the buffer, which must not be unmapped, moved or
    resized; dropped, it ends by itself once no operation uses the memory."""

    def __init__(self, address: int, kept: object) -> None:
        """Of the package's own use."""
        self._range: _Range | None = _Range(address, kept)

    def end(self) -> None:
        """Makes the memory private again, with its contents. While an operation of this process uses it: weft.Error with BAD_STATE, and nothing changes.
        May be called again."""
        registered = self._range
        if registered is not None:
            refuse_inside_check()
            check(library.weft_mem_deregister(registered.address))
            registered.address, self._range = 0, None
            _again()

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None) -> None:
        self.end()


class _Range:
    """A registered range, deregistered with the last reference to it."""

    def __init__(self, address: int, kept: object) -> None:
        self.address, self._kept = address, kept

    def __del__(self) -> None:
        if self.address:
            interrupt.later(_End(self.address, self._kept))


class _End:
    def __init__(self, address: int, kept: object) -> None:
        self.address, self.kept = address, kept

    def __call__(self) -> None:
        if library.weft_mem_deregister(self.address) == _capi.WEFT_BAD_STATE:  # an operation uses it
            _used.append(self)


# Ranges that were dropped while operations used them.
_used: list[_End] = []


def _again() -> None:
    waiting, _used[:] = _used[:], []
    for end in waiting:
        end()


def register(buffer: Any, *, fd: int | None = None, offset: int = 0) -> Registration:
    """Makes a buffer as reachable as an array of weft.zeros. Without `fd` it is whole pages of a private mapping, such as mmap.mmap(-1, bytes,
    flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS). With `fd` it is a shared mapping of that memfd, or file of tmpfs, from byte `offset` on, such as a
    multiprocessing.shared_memory.SharedMemory."""
    refuse_inside_check()
    interrupt.do_postponed()
    _again()
    address, dtype, count, kept = writable(buffer, "buffer")
    bytes_ = count * ITEM_BYTES[dtype]
    check(library.weft_mem_register(address, bytes_, 0) if fd is None else library.weft_mem_register_fd(address, bytes_, fd, offset, 0))
    return Registration(address, kept)
