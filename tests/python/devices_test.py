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
            most = weft.device_zeros(150 << 20, device=1)
            for call in (lambda: weft.device_info(2), weft.device_info, lambda: weft.device_zeros(3), lambda: weft.device_zeros(1 << 40, device=1),
                         lambda: weft.device_zeros(150 << 20, device=1)):
                try:
                    call()
                except weft.Error as error:
                    print(error.code.name, error.device, error.device_code)
            """)
        self.assertEqual(["2", "1 weft fake device GPU- 1073741824 (9, 0) True True 13000", *["INVALID_ARGUMENT None None"] * 3,
                          "OUT_OF_MEMORY 1 None", "OUT_OF_MEMORY 1 2"], said)

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
            for arguments in ({"stream": 7, "max_version": (1, 0)}, {"max_version": (1, 0), "dl_device": (1, 0)}, {"stream": 7}, {"copy": True, "max_version": (1, 0)}):
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
        refused = ("BufferError the array is ordered by stream 0x1, and stream 0x7, in which it is wanted, could not be put behind that: cuStreamWaitEvent returned 400; "
                   "pass stream=-1 when its work has ended")
        self.assertEqual([
            "<weft.DeviceArray of bfloat16, shape (4, 3), on device 1> 12 24 1 0",
            "SYMMETRIC 1 1 True 512 False",
            "(2, 1) {'version': 3, 'shape': (4, 3), 'typestr': '|V2', 'data': None, 'strides': None, 'stream': 1}",
            "2",
            refused,
            "BufferError weft's memory is not copied",
            refused,
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

    def test_no_stream_is_the_legacy_one(self):
        said = self.run_with(DRIVER, """
            a = weft.device_zeros(3, device=0)
            for stream in (0, 1, 9):
                other = type(a)(a._block, a.shape, a.dtype, 0, stream)
                try:
                    print(type(other.__dlpack__(max_version=(1, 0))).__name__, type(other.__dlpack__(stream=-1, max_version=(1, 0))).__name__)
                except BufferError as error:
                    print(str(error)[:71])
            """)
        self.assertEqual(["PyCapsule PyCapsule", "PyCapsule PyCapsule", "the array is ordered by stream 0x9, and stream 0x1, in which it is want"], said)

    def test_another_stream_waits_for_the_array_s(self):
        said = self.run_with(DRIVER, """
            from weft.core import streams
            import os
            fake = ctypes.CDLL(os.environ["WEFT_CUDA_LIBRARY"]).weft_fake_driver
            fake.restype = ctypes.POINTER(ctypes.c_void_p)
            set_paused = ctypes.CFUNCTYPE(None, ctypes.c_bool)(fake()[2])
            first = weft.device_zeros(3, device=0)
            driver, context, stream = streams._Driver(), ctypes.c_void_p(), ctypes.c_void_p()
            driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ctypes.c_int(0))
            driver.call("cuCtxPushCurrent", context)
            driver.call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(1))   # one that the legacy stream does not wait for
            driver.call("cuCtxPopCurrent", ctypes.byref(context))
            query = driver.find("cuStreamQuery")
            set_paused(True)
            a = weft.device_zeros(3, device=0)
            print(query(stream))
            capsules = a.__dlpack__(stream=stream.value), a.__dlpack__(stream=stream.value, max_version=(1, 0))
            print(query(stream))
            set_paused(False)
            driver.call("cuStreamSynchronize", stream)
            print(query(stream))
            """)
        self.assertEqual(["0", "600", "0"], said)

    def test_older_receivers_get_an_older_capsule(self):
        if not ranks.has_packages():
            self.skipTest("./dev setup could not install numpy")
        said = self.run_with(DRIVER, """
            from weft.core import dlpack
            def tell(capsule):
                tensor = dlpack._Tensor.from_address(dlpack._get_pointer(capsule, b"dltensor"))
                shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
                print(tensor.device_type, tensor.device_id, shape, tensor.code, tensor.bits, tensor.lanes, tensor.data == address)
            for dtype in weft.DType:
                a = weft.device_zeros((4, 3), dtype, device=1)
                address = a.address
                for arguments in ({}, {"stream": 1}, {"stream": -1, "max_version": (0, 8)}):
                    capsule = a.__dlpack__(**arguments)
                    tell(capsule)
                del a
                print(weft.query((address, "uint8", 1)).kind.name)      # the capsule keeps it
                del capsule
                print(weft.query((address, "uint8", 1)).kind.name)
            """)
        codes = ["0 8 1", "1 8 1", "0 32 1", "1 32 1", "0 64 1", "1 64 1", "2 16 1", "4 16 1", "2 32 1", "2 64 1"]
        self.assertEqual({f"2 1 (4, 3) {code} True" for code in (*codes, "6 8 1", "10 8 1", "12 8 1")} | {"SYMMETRIC", "PRIVATE"}, set(said))
        self.assertEqual(len(said), 13 * 5)
        self.assertEqual(["SYMMETRIC", "PRIVATE"] * 13, [line for line in said if line.isalpha()])

    def test_what_is_dropped_is_freed_behind_the_legacy_stream(self):
        said = self.run_with(DRIVER, """
            import os, time
            driver = ctypes.CDLL(os.environ["WEFT_CUDA_LIBRARY"]).weft_fake_driver
            driver.restype = ctypes.POINTER(ctypes.c_void_p)
            set_paused = ctypes.CFUNCTYPE(None, ctypes.c_bool)(driver()[2])
            def made():
                return weft.device_zeros(1 << 20, "uint8", device=0)
            def made_at(address):       # once it comes back
                deadline = time.monotonic() + 60
                while time.monotonic() < deadline:
                    a = made()
                    if a.address == address:
                        return a
                return None
            a, b = made(), made()
            address, later = a.address, b.address
            del b
            b = made_at(later)                                          # the stream has zeroed a
            set_paused(True)
            work = weft.device_zeros(1, "uint8", device=0)              # in the legacy stream
            del a
            others = [made() for _ in range(4)]
            print(address in [other.address for other in others])       # work may still use it
            set_paused(False)
            del others
            print(made_at(address) is not None)
            """)
        self.assertEqual(["False", "True"], said)

    def test_what_cannot_be_freed_yet_is_freed_later(self):
        said = self.run_with(DRIVER, """
            from weft.core import devices
            class Refusing:     # as while the legacy stream is in capture
                def __getattr__(self, name):
                    return getattr(library, name)
                def weft_mem_free_on(self, memory, stream):
                    return weft.Result.UNSUPPORTED
            library, devices.library = devices.library, Refusing()
            a = weft.device_zeros(3, device=0)
            address = a.address
            del a
            other = weft.device_zeros(3, device=0)
            print(weft.query((address, "uint8", 1)).kind.name)
            devices.library = library
            larger = weft.device_zeros(1 << 22, device=0)
            print(weft.query((address, "uint8", 1)).kind.name, len(devices._refused))
            """)
        self.assertEqual(["SYMMETRIC", "PRIVATE 0"], said)

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
            from weft.core import dlpack
            def where(capsule):
                if dlpack._is_valid(capsule, b"dltensor"):
                    tensor = dlpack._Tensor.from_address(dlpack._get_pointer(capsule, b"dltensor"))
                else:
                    tensor = dlpack._Versioned.from_address(dlpack._get_pointer(capsule, b"dltensor_versioned")).tensor
                return tensor.device_type, tensor.device_id, tensor.data == a.address
            print(where(capsule), where(a.__dlpack__(max_version=(1, 0), dl_device=(3, 0))), where(a.__dlpack__(max_version=(1, 0), dl_device=(1, 0))))
            try:
                a.__dlpack__(dl_device=(2, 0))
            except BufferError as error:
                print("BufferError", error)
            del capsule
            weft.zeros(1).__dlpack__(max_version=(1, 0))      # which deletes what nobody has taken
            print(weft.query(a).references)
            try:
                import numpy
            except ImportError:
                print("no numpy")
            else:
                print(where(a.__dlpack__()), where(a.__dlpack__(dl_device=(3, 0))), numpy.from_dlpack(a).tolist())
            """)
        self.assertEqual(["SYMMETRIC None True [0, 0, 7, 0, 0] (1, 0)", "2", "(1, 0, True) (3, 0, True) (1, 0, True)",
                          "BufferError weft's memory is the host's, without streams, and is not copied", "1"], said[:5])
        self.assertIn(said[5], ("(1, 0, True) (3, 0, True) [0, 0, 7, 0, 0]", "no numpy"))


if __name__ == "__main__":
    DRIVER = sys.argv.pop(4)
    assert os.path.exists(DRIVER), DRIVER
    ranks.take_arguments()
    ranks.main()
