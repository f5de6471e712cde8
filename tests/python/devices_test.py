"""Devices over the fake driver: what is known of them, arrays in their memory, pinned arrays.

    devices_test.py WEFTRUN LIBWEFT PACKAGES DRIVER     # the last: tests/device/fake_driver as a library
"""
import os
import subprocess
import sys
import textwrap

import ranks
from ranks import RanksTest, launched

DRIVER = ""


class Devices(RanksTest):
    def run_with(self, driver, code):
        """What a program prints that has this driver of CUDA."""
        start = "import ctypes, gc, sys, weft\n"
        done = subprocess.run([sys.executable, "-B", "-c", start + textwrap.dedent(code)], capture_output=True, text=True, timeout=launched.DEADLINE_S, check=False,
                              env={**ranks.environment(), "WEFT_CUDA_LIBRARY": driver, "FAKE_CUDA_DEVICES": "2"})
        said = done.stderr.splitlines()
        self.assertEqual((0, []), (done.returncode, said), done.stdout)
        return done.stdout.splitlines()

    def test_are_described(self):
        said = self.run_with(DRIVER, """
            print(weft.device_count())
            info = weft.device_info(1)
            print(info.device, info.name, info.uuid[:4], info.total_bytes, info.compute_capability, info.virtual_memory, info.posix_descriptors, info.driver_version)
            for call in (lambda: weft.device_info(2), weft.device_info, lambda: weft.device_zeros(3), lambda: weft.device_zeros(1 << 40, device=1)):
                try:
                    call()
                except weft.Error as error:
                    print(error.code.name, error.device, error.device_code)
            """)
        self.assertEqual(["2", "1 weft fake device GPU- 1073741824 (9, 0) True True 13000", *["INVALID_ARGUMENT None None"] * 3,
                          "OUT_OF_MEMORY 1 2"], said)

    def test_without_a_driver_one_sentence_says_so(self):
        said = self.run_with("/proc/none/libcuda.so", """
            for call in (weft.device_count, lambda: weft.device_zeros(3, device=0), lambda: weft.zeros(3, pinned=True)):
                try:
                    call()
                except weft.Error as error:
                    print(error.code.name, "/proc/none/libcuda.so, was looked for where WEFT_CUDA_LIBRARY says" in str(error))
            print(weft.zeros(3).nbytes)
            """)
        self.assertEqual([*["UNSUPPORTED True"] * 3, "12"], said)

    def test_arrays(self):
        said = self.run_with(DRIVER, """
            a = weft.device_zeros((4, 3), "bfloat16", device=1)
            print(repr(a), a.size, a.nbytes, a.device, a.address % 512)
            info = weft.query(a)
            print(info.kind.name, info.device, info.references, info.base == a.address, info.nbytes, info.pinned)
            print(a.__dlpack_device__(), {**a.__cuda_array_interface__, "data": None})
            capsule = a.__dlpack__(stream=1, max_version=(1, 0))
            print(weft.query(a).references)
            for arguments in ({"stream": 7, "max_version": (1, 0)}, {"max_version": (1, 0), "dl_device": (1, 0)}, {"stream": 1}, {"copy": True, "max_version": (1, 0)}):
                try:
                    a.__dlpack__(**arguments)
                except BufferError as error:
                    print("BufferError", error)
            with weft.Communicator.local(1)[0] as world:
                try:
                    world.all_reduce(a)
                except TypeError as error:
                    print("TypeError", error)
            del capsule
            a.free_on()
            print(a.size, a.address)
            empty = weft.device_zeros((0, 2), device=0)
            print(empty.size, empty.address)
            """)
        self.assertEqual([
            "<weft.DeviceArray of bfloat16, shape (4, 3), on device 1> 12 24 1 0",
            "SYMMETRIC 1 1 True 512 False",
            "(2, 1) {'version': 3, 'shape': (4, 3), 'typestr': '|V2', 'data': None, 'strides': None, 'stream': 1}",
            "2",
            "BufferError the array is ordered by stream 0x0, and is wanted in stream 0x7; receive it where that is the current stream, or pass stream=-1 when its work has ended",
            "BufferError weft's memory is not copied",
            "BufferError the array is passed by DLPack 1, which the receiver does not ask for (max_version)",
            "BufferError weft's memory is not copied",
            "TypeError in_: DeviceArray is not in host memory (DLPack device 2); weft's groups work on host memory",
            "0 0",
            "0 0"], said)

    def test_what_is_dropped_is_freed(self):
        said = self.run_with(DRIVER, """
            arrays = [weft.device_zeros(1 << 20, device=0) for _ in range(20)]
            address = arrays[3].address
            capsules = [a.__dlpack__(max_version=(1, 0)) for a in arrays[:2]]
            kept = arrays[0].address
            del arrays
            gc.collect()
            print(weft.query((kept, "uint8", 1)).references, weft.query((address, "uint8", 1)).kind.name)
            del capsules
            capsule = weft.zeros(1).__dlpack__(max_version=(1, 0))      # which deletes what nobody has taken
            print(weft.query((kept, "uint8", 1)).kind.name)
            """)
        self.assertEqual(["1 PRIVATE", "PRIVATE"], said)

    def test_pinned_arrays_are_the_host_s(self):
        said = self.run_with(DRIVER, """
            a = weft.zeros(5, "int32", pinned=True)
            a.memory[2] = 7
            info = weft.query(a)
            print(info.kind.name, info.device, info.pinned, a.memory.tolist(), a.__dlpack_device__())
            with weft.Communicator.local(1)[0] as world:
                world.all_reduce(a)
            capsule = a.__dlpack__(max_version=(1, 0))
            print(weft.query(a).references)
            try:
                a.__dlpack__()
            except BufferError as error:
                print("BufferError", error)
            """)
        self.assertEqual(["SYMMETRIC None True [0, 0, 7, 0, 0] (3, 0)", "2",
                          "BufferError pinned memory is passed by DLPack 1, which the receiver does not ask for (max_version)"], said)


if __name__ == "__main__":
    DRIVER = sys.argv.pop(4)
    assert os.path.exists(DRIVER), DRIVER
    ranks.take_arguments()
    ranks.main()
