"""Devices, and arrays in their memory.

    if weft.device_count() > 0:                     # weft.Error without CUDA's driver
        a = weft.device_zeros((4, 3), "float32")    # torch.from_dlpack(a), cupy.asarray(a): views of the same memory

An array's memory lives as long as the array or any view of it by DLPack; a view by __cuda_array_interface__ is of the array, and does not keep the memory
beyond free_on. What is dropped comes back behind CUDA's legacy stream.

Thread-safety: as memory has it.
"""
from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from weft import _capi
from weft._library import library
from weft.core import dlpack, interrupt
from weft.core.arrays import Shaped, View, older_tensor_of, shape_of, tensor_of, typestr
from weft.core.errors import check, refuse_inside_check
from weft.core.streams import order
from weft.core.types import ITEM_BYTES, AnyDType, DType, dtype_number

CURRENT = _capi.WEFT_DEVICE_CURRENT
_LEGACY = 1  # of DLPack and of __cuda_array_interface__


class _Block(ctypes.c_void_p):
    """A block of a device's memory, given back behind CUDA's legacy stream with the last reference to it."""

    def __del__(self) -> None:
        if self.value:
            interrupt.later(_Free(self.value))


class _Free:
    def __init__(self, address: int) -> None:
        self._address = address

    def __call__(self) -> None:
        if library.weft_mem_free_on(self._address, None) not in (_capi.WEFT_SUCCESS, _capi.WEFT_FORKED):
            _refused.append(self)


# Blocks that could not be given back when they were dropped: the legacy stream was in capture, say. Streams may use them, so they are not freed plainly.
_refused: list[_Free] = []


def _again() -> None:
    waiting, _refused[:] = _refused[:], []
    for free in waiting:
        free()


class DeviceInfo(NamedTuple):
    """A device, as CUDA numbers it in this process."""

    device: int
    name: str
    bus_id: str
    uuid: str  # "GPU-..."
    total_bytes: int
    compute_capability: tuple[int, int]
    multiprocessors: int
    driver_version: int  # 13000: that of CUDA 13.0
    virtual_memory: bool
    posix_descriptors: bool


def device_count() -> int:
    """How many CUDA devices the process may use. weft.Error with UNSUPPORTED where there is no driver, or it finds none."""
    refuse_inside_check()
    count = ctypes.c_int32()
    check(library.weft_device_count(_capi.WEFT_DEVICE_CUDA, ctypes.byref(count)))
    return count.value


def device_info(device: int = CURRENT) -> DeviceInfo:
    """What is known of a device, or of the thread's current one."""
    refuse_inside_check()
    info = _capi.weft_device_info_t(struct_size=ctypes.sizeof(_capi.weft_device_info_t))
    check(library.weft_device_info(_capi.WEFT_DEVICE_CUDA, device, ctypes.byref(info)))
    return DeviceInfo(info.device, info.name.decode(), info.bus_id.decode(), info.uuid.decode(), info.total_bytes, (info.compute_major, info.compute_minor),
                      info.multiprocessors, info.driver_version, bool(info.flags & _capi.WEFT_DEVICE_VIRTUAL_MEMORY),
                      bool(info.flags & _capi.WEFT_DEVICE_POSIX_DESCRIPTORS))


class DeviceArray(Shaped):
    """Elements in rows without gaps in a device's memory, to be viewed: `torch.from_dlpack`, `cupy.asarray`, `jax.numpy.from_dlpack`."""

    def __init__(self, block: _Block | None, shape: tuple[int, ...], dtype: DType, device: int, stream: int) -> None:
        """Of the package's own use."""
        self._block, self._shape, self._dtype, self._device, self._stream = block, shape, dtype, device, stream

    @property
    def device(self) -> int:
        """CUDA's ordinal."""
        return self._device

    @property
    def address(self) -> int:
        """0 of no elements."""
        return 0 if self._block is None else self._block.value or 0

    def free_on(self, stream: int = 0) -> None:
        """Gives the memory up to what is in the stream now, which may still use it. Views of it by DLPack that were made before keep it; others must not
        be used any more."""
        block = self._block
        if block is None:
            return
        refuse_inside_check()
        check(library.weft_mem_free_on(block, stream))
        block.value, self._block, self._shape = None, None, (0,)

    def __repr__(self) -> str:
        return f"<weft.DeviceArray of {self._dtype.name.lower()}, shape {self._shape}, on device {self._device}>"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "shape": self._shape, "typestr": typestr(self._dtype), "data": (self.address, False), "strides": None,
                "stream": self._stream or _LEGACY}

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self._device

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None,
                   copy: bool | None = None) -> Any:
        if dl_device not in (None, self.__dlpack_device__()) or copy:
            raise BufferError("weft's memory is not copied")
        wanted = _LEGACY if stream is None else stream
        if self._block is None:
            raise BufferError("the array has no elements, and so no memory on its device")
        if wanted not in (-1, self._stream or _LEGACY):
            try:
                order(self._device, self._stream or _LEGACY, wanted)
            except OSError as error:
                raise BufferError(f"the array is ordered by stream {self._stream or _LEGACY:#x}, and stream {wanted:#x}, in which it is wanted, could not be put "
                                  f"behind that: {error}; pass stream=-1 when its work has ended") from None
        device = self.__dlpack_device__()
        if max_version is None or max_version[0] < 1:
            return older_tensor_of(View(self._block, self.address, self._shape, f"|V{ITEM_BYTES[self._dtype]}"), self._dtype, device)
        return tensor_of(self.address, self._shape, self._dtype, device)


def device_zeros(shape: int | Sequence[int], dtype: AnyDType = "float32", *, device: int = CURRENT, stream: int = 0) -> DeviceArray:
    """A new array in a device's memory, which `stream` (a cudaStream_t; 0: CUDA's legacy stream) zeroes. Waits for nothing."""
    lengths, number = shape_of(shape), DType(dtype_number(dtype))
    ordinal = device_info(device).device
    interrupt.do_postponed()
    _again()
    block, bytes_ = _Block(), math.prod(lengths) * ITEM_BYTES[number]
    if bytes_ == 0:
        return DeviceArray(None, lengths, number, ordinal, stream)
    if bytes_ >= 1 << 63:
        raise ValueError(f"an array of {lengths} {number.name.lower()} has {bytes_} bytes, more than there are addresses")
    config = _capi.weft_mem_config_t(struct_size=ctypes.sizeof(_capi.weft_mem_config_t), bytes=bytes_, device_kind=_capi.WEFT_DEVICE_CUDA, device=ordinal,
                                     stream=stream)
    check(library.weft_mem_alloc_on(ctypes.byref(config), ctypes.byref(block)))
    return DeviceArray(block, lengths, number, ordinal, stream)
