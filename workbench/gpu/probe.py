"""Which devices the machine has, asked of the driver alone, in a process of its own because a driver may hang; prints one JSON object.

    {"library", "driver": 13000, "cards": ["NVIDIA H100 80GB HBM3"]}    or {"library", "why": SENTENCE}: there is none
"""
import ctypes
import json
import os
import sys

LIBRARY = "libcuda.so.1"  # unless WEFT_CUDA_LIBRARY names another: the tests' driver without a device
ENTRY_VERSION = 12000
LEGACY_STREAM = 1  # CU_GET_PROC_ADDRESS_LEGACY_STREAM


def function(library, name):
    """By its name, or as the driver says."""
    if hasattr(library, name):
        return getattr(library, name)
    found, status = ctypes.c_void_p(), ctypes.c_int()
    if library.cuGetProcAddress_v2(name.encode(), ctypes.byref(found), ENTRY_VERSION, ctypes.c_uint64(LEGACY_STREAM), ctypes.byref(status)) != 0 or not found.value:
        raise OSError(f"it has no {name}")
    return ctypes.CFUNCTYPE(ctypes.c_int)(found.value)


def probe(name):
    library = ctypes.CDLL(name)

    def call(what, *arguments):
        code = function(library, what)(*arguments)
        if code != 0:
            raise OSError(f"{what} of {name} says {code}")

    call("cuInit", ctypes.c_uint(0))
    version, count = ctypes.c_int(), ctypes.c_int()
    call("cuDriverGetVersion", ctypes.byref(version))
    call("cuDeviceGetCount", ctypes.byref(count))
    cards = []
    for i in range(count.value):
        device, text = ctypes.c_int(), ctypes.create_string_buffer(128)
        call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(i))
        call("cuDeviceGetName", text, ctypes.c_int(len(text)), device)
        cards.append(text.value.decode(errors="replace"))
    if not cards:
        raise OSError(f"{name} knows no device")
    return {"driver": version.value, "cards": cards}


def main():
    name = os.environ.get("WEFT_CUDA_LIBRARY") or LIBRARY
    try:
        found = probe(name)
    except (OSError, AttributeError) as error:
        found = {"why": str(error)}
    json.dump({"library": name, **found}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
