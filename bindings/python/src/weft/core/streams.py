"""Order between streams of one device, by the driver that weft has open.

    order(0, first, then)       # what comes into `then` from now on runs after what is in `first` now; nothing waits here

Thread-safety: any thread.
"""
from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

_LIBRARY = "libcuda.so.1"  # unless WEFT_CUDA_LIBRARY names another
_VERSION, _LEGACY_STREAM = ctypes.c_int(12000), ctypes.c_uint64(1)  # 0 is the legacy stream in what cuGetProcAddress finds
_WITHOUT_TIMES = ctypes.c_uint(2)  # CU_EVENT_DISABLE_TIMING
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED: captures of other threads go on


class _Driver:
    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ.get("WEFT_CUDA_LIBRARY") or _LIBRARY)

    def find(self, name: str) -> Callable[..., int] | None:
        found, status = ctypes.c_void_p(), ctypes.c_int()
        code = self._library.cuGetProcAddress_v2(name.encode(), ctypes.byref(found), _VERSION, _LEGACY_STREAM, ctypes.byref(status))
        return ctypes.CFUNCTYPE(ctypes.c_int)(found.value) if code == 0 and found.value else None

    def call(self, name: str, *arguments: Any) -> None:
        function = self.find(name)
        code = "not there" if function is None else function(*arguments)
        if code != 0:
            raise OSError(f"{name} is {code}" if function is None else f"{name} returned {code}")


def order(device: int, first: int, then: int) -> None:
    """Raises OSError, and nothing is ordered then."""
    driver = _Driver()
    handle, context, event = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuDeviceGet", ctypes.byref(handle), ctypes.c_int(device))
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
    try:
        driver.call("cuCtxPushCurrent", context)
        try:
            exchange, mode = driver.find("cuThreadExchangeStreamCaptureMode"), ctypes.c_int(_RELAXED)
            exchanged = exchange is not None and exchange(ctypes.byref(mode)) == 0
            try:
                driver.call("cuEventCreate", ctypes.byref(event), _WITHOUT_TIMES)
                try:
                    driver.call("cuEventRecord", event, ctypes.c_void_p(first))
                    driver.call("cuStreamWaitEvent", ctypes.c_void_p(then), event, ctypes.c_uint(0))
                finally:
                    driver.call("cuEventDestroy", event)  # once it has passed
            finally:
                if exchange is not None and exchanged:
                    exchange(ctypes.byref(mode))
        finally:
            driver.call("cuCtxPopCurrent", ctypes.byref(context))
    finally:
        driver.call("cuDevicePrimaryCtxRelease", handle)
