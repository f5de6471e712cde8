"""What may be passed as a buffer, and what is refused with a sentence before anything is started."""
import array
import ctypes
import mmap
import unittest

import ranks


class OnlyDlpack:
    """A producer without the buffer protocol, as torch's tensors are."""

    def __init__(self, inner, **options):
        self.inner, self.options = inner, options

    def __dlpack_device__(self):
        return self.options.get("device", (1, 0))

    def __dlpack__(self, **arguments):
        if self.options.get("old") and arguments:
            raise TypeError("no such argument")
        return self.inner.__dlpack__(**arguments)


class Buffers(unittest.TestCase):
    def setUp(self):
        import weft
        self.weft = weft
        self.world, = weft.Communicator.local(1, timeout=10)

    def sum_of(self, given, out):
        self.world.all_reduce(given, out)
        return out

    def test_what_has_the_buffer_protocol(self):
        for code, kind in (("b", "INT8"), ("B", "UINT8"), ("i", "INT32"), ("I", "UINT32"), ("q", "INT64"), ("Q", "UINT64"), ("l", "INT64"),
                           ("L", "UINT64"), ("f", "FLOAT32"), ("d", "FLOAT64")):
            given, out = array.array(code, [1, 2, 3]), array.array(code, [0, 0, 0])
            self.assertEqual(given, self.sum_of(given, out), kind)
            # The same type by its name, or refused.
            self.world.all_reduce(given, (out.buffer_info()[0], kind.lower(), 3))
            with self.assertRaisesRegex(ValueError, "elements of"):
                self.world.all_reduce(given, (out.buffer_info()[0], "bfloat16", 3))
        self.assertEqual(bytearray(b"abc"), self.sum_of(b"abc", bytearray(3)))
        self.assertEqual(b"bc", bytes(self.sum_of(memoryview(b"abcd")[1:3], memoryview(bytearray(2)))))
        numbers = (ctypes.c_double * 2)(1.5, 2)
        self.assertEqual([1.5, 2], list(self.sum_of(numbers, (ctypes.c_double * 2)())))
        self.assertEqual([7], list(self.sum_of((ctypes.c_long * 1)(7), array.array("l", [0]))))
        self.assertEqual([True, False], list(self.sum_of(memoryview(b"\1\0").cast("?"), memoryview(bytearray(2)).cast("?"))))
        with mmap.mmap(-1, 4096) as mapped:
            self.world.broadcast(mapped)
        self.world.all_reduce(array.array("f"))
        self.world.all_reduce((0, "float32", 0))
        self.world.all_reduce((0, self.weft.DType.FLOAT8_E5M2, 0), op=self.weft.Op.MAX)

    def test_memory_is_kept_while_it_is_used(self):
        data = bytearray(b"abc")
        with self.world.batch():
            self.world.broadcast(data)
            with self.assertRaises(BufferError):
                data.append(1)
        data.append(1)

    def refused(self, error, sentence, function, *arguments, **options):
        with self.assertRaisesRegex(error, sentence):
            function(*arguments, **options)

    def test_refusals(self):
        world, weft = self.world, self.weft
        x = array.array("f", [1, 2, 3, 4])
        two_by_two = memoryview(x).cast("B").cast("f", (2, 2))
        self.refused(ValueError, "in_ is read-only", world.all_reduce, b"abc")
        self.refused(ValueError, "out is read-only", world.all_reduce, b"abc", b"abc")
        self.refused(ValueError, "out is read-only", world.recv, b"abc", 0)
        self.refused(ValueError, "in_ has gaps", world.all_reduce, memoryview(x)[::2])
        self.refused(ValueError, "in_ has gaps", world.send, memoryview(x)[::-1], 0)
        world.all_reduce(two_by_two)
        self.refused(TypeError, "format 'h' with 2 bytes; weft has int8, ", world.all_reduce, array.array("h", [1]))
        self.refused(TypeError, "in_ is a list; it must have the buffer protocol", world.all_reduce, [1, 2])
        self.refused(TypeError, "in_ is a NoneType", world.all_reduce, None)
        self.refused(TypeError, "in_ is a str", world.broadcast, "abc")
        self.refused(ValueError, "in_ has 4 elements and out has 3; out must have 4", world.all_reduce, x, array.array("f", [0] * 3))
        self.refused(ValueError, "in_ has elements of float32, out of int32", world.all_reduce, x, array.array("i", [0] * 4))
        self.refused(ValueError, "a tuple is \\(address, dtype, count\\)", world.all_reduce, (1, 2))
        self.refused(ValueError, "'complex64' is no element type; there are int8", world.all_reduce, (1, "complex64", 1))
        self.refused(ValueError, "must be whole numbers", world.all_reduce, (1.5, "int8", 1))
        for address, count in ((1, -1), (1, 1 << 64), (1 << 64, 1)):
            self.refused(ValueError, "must be whole numbers", world.all_reduce, (address, "int8", count))
        self.refused(ValueError, "factor is 300, which is no int8", weft.Reduction.premul_sum, 300, "int8")
        self.refused(ValueError, "factor is -1, which is no uint64", weft.Reduction.premul_sum, -1, "uint64")
        self.refused(ValueError, "'mean' is no reduction; there are sum, prod", world.all_reduce, x, op="mean")
        self.refused(ValueError, "timeout is 0", world.all_reduce, x, timeout=0)
        self.refused(ValueError, "timeout is nan", world.all_reduce, x, timeout=float("nan"))
        self.refused(ValueError, "tag is -1", world.send, x, 0, -1)
        self.refused(ValueError, "color is -2", world.split, -2)
        self.refused(ValueError, "size is 0", weft.Communicator.local, 0)
        for call in (lambda: world.broadcast(x, root=1), lambda: world.broadcast(x, root=-1), lambda: world.send(x, 5),
                     lambda: world.all_reduce(memoryview(bytearray(1)).cast("?"), op="avg"), lambda: world.all_reduce(x, op="bit_or"),
                     lambda: world.all_reduce((0, "int8", 1)), lambda: world.all_reduce((8, "int64", 1 << 62)),
                     lambda: world.all_reduce(memoryview(x)[:3], memoryview(x)[1:])):
            with self.assertRaises(weft.Error) as raised:
                call()
            self.assertEqual(weft.Result.INVALID_ARGUMENT, raised.exception.code)
            self.assertTrue(raised.exception.op)
        world.all_reduce(x)
        self.assertEqual([1, 2, 3, 4], list(x))

    def test_counts_that_ranks_cannot_share(self):
        communicators = self.weft.Communicator.local(2, timeout=10)
        world = communicators[1]
        x = array.array("f", [1, 2, 3])
        self.refused(ValueError, "in_ has 3 elements, which 2 ranks cannot share", world.all_to_all, x)
        self.refused(ValueError, "in_ has 3 elements, which 2 ranks cannot share", world.reduce_scatter, x)
        self.refused(ValueError, "out has 3 elements, which 2 ranks cannot share", world.all_gather, None, x)
        self.refused(ValueError, "in_ has 3 elements and out has 3; out must have 6", world.all_gather, x, x)
        self.refused(ValueError, "out has 3 elements and in_ has 3; in_ must have 6", world.reduce_scatter, x, x)

    def test_numpy(self):
        if not ranks.has_packages():
            self.skipTest("./dev setup could not install numpy")
        import ml_dtypes
        import numpy as np
        for dtype in ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bool", "longlong"):
            given, out = np.arange(5).astype(dtype), np.zeros(5, dtype)
            self.assertTrue((self.sum_of(given, out) == given).all(), dtype)
        for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
            given, out = np.arange(5).astype(dtype), np.zeros(5, dtype)
            self.assertTrue((self.sum_of(given, out) == given).all(), dtype)
            given.flags.writeable = False
            self.sum_of(given, out)
            self.refused(ValueError, "read-only", self.world.all_reduce, given)
            self.refused(ValueError, "gaps", self.world.all_reduce, out[::2])
        self.refused(TypeError, "in_: .*dtypes", self.world.all_reduce, np.zeros(3, ml_dtypes.float8_e4m3))
        square = np.ones((3, 4), np.float32)
        self.world.all_reduce(square)
        self.world.all_reduce(square[1:, :])
        self.world.all_reduce(np.float32(3), np.zeros((), np.float32))
        self.world.all_reduce(np.zeros((0, 4)))
        for refused in (square.T, square[:, 1], square[:, 1:]):
            self.refused(ValueError, "gaps", self.world.all_reduce, refused)
        for refused in (square.astype(">f4"), square.astype(complex), np.zeros(3, "i2"), np.zeros(3, "M8[s]"), np.array([None])):
            self.refused(TypeError, "^in_[ :]", self.world.all_reduce, refused)

    def test_dlpack(self):
        if not ranks.has_packages():
            self.skipTest("./dev setup could not install numpy")
        import numpy as np
        for dtype in ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bool"):
            for old in (False, True):
                given, out = np.arange(6).astype(dtype).reshape(2, 3), np.zeros((2, 3), dtype)
                self.sum_of(OnlyDlpack(given, old=old), OnlyDlpack(out, old=old))
                self.assertTrue((out == given).all(), dtype)
        fixed = np.arange(3.0)
        fixed.flags.writeable = False
        self.sum_of(OnlyDlpack(fixed), np.zeros(3))
        self.refused(ValueError, "in_ is read-only", self.world.all_reduce, OnlyDlpack(fixed))
        self.refused(ValueError, "in_ has gaps", self.world.all_reduce, OnlyDlpack(np.zeros((3, 4))[:, 1]))
        self.refused(TypeError, "in_: OnlyDlpack is not in host memory \\(DLPack device 2\\)", self.world.all_reduce, OnlyDlpack(fixed, device=(2, 0)))
        self.refused(TypeError, "in_: OnlyDlpack has elements of DLPack type 5", self.world.all_reduce, OnlyDlpack(np.zeros(3, complex)))


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
