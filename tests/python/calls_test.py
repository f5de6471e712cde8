"""Options of calls, pairs, reductions made at run time, and what the _v and _iov forms refuse."""
import array
import ctypes
import gc
import os
import pathlib
import shutil
import subprocess
import tempfile

import ranks
from operations_test import on_threads

# Matrices of 2 x 2, whose product is associative and does not commute.
_PRODUCT = """
#include <stddef.h>
void product(const void* left, const void* right, void* out, size_t count, int dtype, void* user) {
  for (size_t i = 0; i + 3 < count; i += 4) {
    const double *a = (const double*)left + i, *b = (const double*)right + i;
    double c[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
    for (int k = 0; k < 4; ++k) ((double*)out)[i + k] = c[k];
  }
}
"""


class Pair(ctypes.Structure):
    _fields_ = [("value", ctypes.c_float), ("index", ctypes.c_int64)]


class Calls(ranks.LocalRanksTest):
    def refused(self, error, sentence, function, *arguments, **options):
        with self.assertRaisesRegex(error, sentence):
            function(*arguments, **options)

    def test_options(self):
        def check(world):
            x = array.array("i", [1] * 1000)
            for options in ({"timeout": 10}, {"priority": -3}, {"tag": 2**64 - 1}, {"algorithm": None}, {"algorithm": "auto", "strict_algorithm": True}, {"numerics": "fast"}, {"background": True},
                            {"tag": 1, "timeout": 5.5, "priority": 2, "numerics": "canonical"}):
                world.all_reduce(x, op="max", **options)
                world.all_reduce(x, op="max", async_op=True, **options).wait()
            # By priority, which makes up for different orders of the calls.
            with self.weft.batch():
                for one in (0, 1) if world.rank == 0 else (1, 0):
                    if one:
                        world.barrier(priority=1)
                    else:
                        world.all_reduce(x, op="max", priority=0)

        on_threads(self.communicators(2), check)
        world, = self.communicators(1)
        for error, sentence, options in ((TypeError, "unexpected keyword argument 'opp'", {"opp": 1}), (ValueError, "numerics is 'exact'", {"numerics": "exact"}),
                                         (ValueError, "priority is 2147483648", {"priority": 1 << 31}), (ValueError, "tag is -1", {"tag": -1}),
                                         (ValueError, "timeout is -1", {"timeout": -1}), (TypeError, "unhashable", {"tag": []})):
            self.refused(error, sentence, world.barrier, **options)
        self.refused(self.weft.Error, "no such thing", world.all_reduce, bytearray(8), algorithm="no such thing")

    def test_numerics_that_differ_are_a_mismatch(self):
        codes = []

        def check(world):
            try:
                world.all_reduce(array.array("f", [1]), numerics=("fast", "canonical")[world.rank])
            except self.weft.Error as error:
                codes.append(error.code)

        on_threads(self.communicators(2), check)
        self.assertEqual([self.weft.Result.MISMATCH] * 2, codes)

    def test_pairs(self):
        def check(world):
            n, me = world.size, world.rank
            given = (Pair * 3)((5 - me, me), (me, 10 + me), (7, n - me))
            out = (Pair * 3)()
            world.all_reduce(given, out, "min_loc")
            assert [(one.value, one.index) for one in out] == [(6 - n, n - 1), (0, 10), (7, 1)], list(out)
            world.reduce(given, out, self.weft.Op.MAX_LOC, root=n - 1)
            if me == n - 1:
                assert [(one.value, one.index) for one in out] == [(5, 0), (n - 1, 9 + n), (7, 1)]
            # The part of each rank begins at 16 bytes times its place.
            whole = (Pair * (2 * n))(*((i * n + me, i) for i in range(2 * n)))
            world.reduce_scatter(whole, op="max_loc")
            assert [(one.value, one.index) for one in whole[2 * me:2 * me + 2]] == [((2 * me + k) * n + n - 1, 2 * me + k) for k in (0, 1)]
            whole = (Pair * (2 * n))(*((i * n + me, i) for i in range(2 * n)))
            world.reduce_scatter_v(whole, None, [2] * n, op="max_loc")
            assert whole[2 * me].value == 2 * me * n + n - 1
            world.all_reduce((ctypes.addressof(out), "float32", 3), op="max_loc")
            world.all_reduce((Pair * 0)(), op="max_loc")
            world.all_reduce_iov([(given, out), whole], op="max_loc")

        on_threads(self.communicators(3), check)
        world, = self.communicators(1)
        self.refused(TypeError, "format '<f' with 4 bytes; min_loc and max_loc take pairs", world.all_reduce, (ctypes.c_float * 2)(), op="min_loc")
        self.refused(TypeError, "in_ is a list without", world.all_reduce, [1], op="min_loc")
        self.refused(TypeError, "in_ has elements of format 'T{", world.all_reduce, (Pair * 2)())
        self.refused(ValueError, "in_ is read-only", world.all_reduce, memoryview((Pair * 2)()).toreadonly(), op="min_loc")
        self.refused(ValueError, "in_ has gaps", world.all_reduce, memoryview((Pair * 4)())[::2], op="min_loc")

    def test_pairs_of_numpy(self):
        if not ranks.has_packages():
            self.skipTest("./dev setup could not install numpy")
        import numpy as np
        communicators = self.communicators(2)

        def check(world):
            for value in ("i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8"):
                for index in ("i8", "q"):
                    x = np.zeros((2, 2), np.dtype([("value", value), ("index", index)], align=True))
                    x["value"], x["index"] = [[1 + world.rank, 2], [3, 4 - world.rank]], world.rank
                    world.all_reduce(x, op="max_loc")
                    assert x["value"].tolist() == [[2, 2], [3, 4]] and x["index"].tolist() == [[1, 0], [0, 0]], (value, x)

        on_threads(communicators, check)
        world, = self.communicators(1)
        for refused in (np.zeros(2, [("value", "f4"), ("index", "i8")]), np.zeros(2, np.dtype([("value", "f4"), ("index", "u8")], align=True)),
                        np.zeros(2, np.dtype([("value", "i2"), ("index", "i8")], align=True)), np.zeros(2, np.dtype([("value", ">f4"), ("index", "i8")], align=True)),
                        np.zeros(2, np.dtype([("value", "?"), ("index", "i8")], align=True)), np.zeros(2, np.dtype([("index", "i8"), ("value", "f8")]))):
            self.refused(TypeError, "take pairs of 16 bytes", world.all_reduce, refused, op="min_loc")

    def test_premul_sum(self):
        Reduction = self.weft.Reduction

        def check(world):
            for code, dtype, factor in (("f", "float32", 0.5), ("d", "float64", 0.5), ("i", "int32", 3), ("Q", self.weft.DType.UINT64, 3)):
                scaled = Reduction.premul_sum(factor * (world.rank + 1), dtype)
                x = array.array(code, [2, 4])
                world.all_reduce(x, op=scaled)
                assert x.tolist() == [2 * factor * 3, 4 * factor * 3], (dtype, x)
                x = array.array(code, [1, 1])
                work = world.all_reduce(x, op=scaled, async_op=True)
                step = world.bind.all_reduce(x, op=Reduction.premul_sum(array.array(code, [1])))
                assert "premul_sum of " in repr(scaled)
                del scaled
                gc.collect()
                work.wait()
                assert x[0] == factor * 3
                step()
                assert x[0] == factor * 6

        on_threads(self.communicators(2), check)
        self.refused(ValueError, "'float99' is no element type", Reduction.premul_sum, 1, "float99")
        self.refused(ValueError, "cannot be made a bfloat16", Reduction.premul_sum, 1, "bfloat16")
        self.refused(ValueError, "factor has 2 elements", Reduction.premul_sum, array.array("f", [1, 2]))
        self.refused(TypeError, "", Reduction.premul_sum, "a", "float32")
        self.refused(self.weft.Error, "bool", Reduction.premul_sum, memoryview(b"\1").cast("?"))
        world, = self.communicators(1)
        self.refused(self.weft.Error, "float32", world.all_reduce, array.array("d", [1]), op=Reduction.premul_sum(1, "float32"))

    def test_user_reduction(self):
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            self.skipTest("no compiler of C")
        with tempfile.TemporaryDirectory() as folder:
            source, file = pathlib.Path(folder) / "product.c", pathlib.Path(folder) / "product.so"
            source.write_text(_PRODUCT)
            subprocess.run([compiler, "-shared", "-fPIC", "-o", file, source], check=True)
            function = ctypes.CDLL(os.fspath(file)).product

        class Compiled:     # as numba's cfunc
            address = ctypes.cast(function, ctypes.c_void_p).value

        def check(world):
            expected = [1, 0, 0, 1]
            for rank in range(world.size):
                a, b = expected, [1, rank + 1, rank + 2, 1]
                expected = [a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]]
            for given in (function, Compiled(), Compiled.address):
                product = self.weft.Reduction.user(given, name="product")
                x = array.array("d", [1, world.rank + 1, world.rank + 2, 1])
                world.all_reduce(x, op=product)
                assert x.tolist() == expected, x
            product = self.weft.Reduction.user(function, name="product", element_count=4)
            many = array.array("d", [1, world.rank + 1, world.rank + 2, 1] * 40001)
            world.all_reduce(many, op=product)
            assert many.tolist() == expected * 40001
            self.refused(self.weft.Error, "count 6 is not a multiple of 4", world.all_reduce, array.array("d", [0] * 6), op=product)

        on_threads(self.communicators(3), check)
        user = self.weft.Reduction.user
        self.refused(ValueError, "element_count is 0", user, function, name="x", element_count=0)
        self.refused(TypeError, "runs Python", user, ctypes.CFUNCTYPE(None)(lambda: None), name="x")
        self.refused(TypeError, "must be the address", user, lambda: None, name="x")
        self.refused(self.weft.Error, "name", user, Compiled(), name="x" * 64)
        self.refused(self.weft.Error, "", user, 0, name="x")

    def test_reductions_that_are_dropped_leave_nothing(self):
        numbers = [self.weft.Reduction.premul_sum(1.0, "float32") + 0 for _ in range(5000)]
        self.assertLess(len(set(numbers)), 5001)

    def test_refusals_of_vectors(self):
        world, _ = self.communicators(2)
        x, y = array.array("f", [0] * 4), array.array("f", [0] * 2)
        for sentence, call in (
                ("counts has 1 numbers; it must have one for each of 2", lambda: world.all_gather_v(y, x, [4])),
                ("counts has -2; its numbers must be 0 or more", lambda: world.all_gather_v(y, x, [-2, 6])),
                ("counts are 5 elements together, and out has 4", lambda: world.all_gather_v(y, x, [2, 3])),
                ("the block of rank 1 is elements 3 to 5 of out, which has 4", lambda: world.all_gather_v(y, x, [2, 2], [0, 3])),
                ("in_ has 2 elements, and counts say 1 of rank 0", lambda: world.all_gather_v(y, x, [1, 3])),
                ("in_ has elements of float32, out of int32", lambda: world.all_gather_v(y, array.array("i", [0] * 4), [2, 2])),
                ("out has 2 elements, and counts say 3 of rank 0", lambda: world.reduce_scatter_v(x, y, [3, 1])),
                ("counts is None; root needs", lambda: world.gather_v(y, x)),
                ("counts is None; root needs", lambda: world.scatter_v(x, y)),
                ("out_counts are 5 elements together, and out has 2", lambda: world.all_to_all_v(x, y, [2, 2], [1, 4])),
                ("in_counts are 3 elements together, and in_ has 4", lambda: world.all_to_all_v(x, None, [2, 1])),
                ("in place they are those of in_", lambda: world.all_to_all_v(x, None, [2, 2], [2, 2])),
                ("in_ of part 0 has 4 elements and out of part 0 has 2", lambda: world.all_reduce_iov([(x, y)])),
                ("part 0 has elements of float32, part 1 of int32", lambda: world.all_reduce_iov([x, array.array("i", [1])])),
                ("in_ of part 1 has 3 elements, which 2 ranks cannot share", lambda: world.reduce_scatter_iov([x, array.array("f", [1] * 3)]))):
            self.refused(ValueError, sentence, call)
        self.refused(TypeError, "'float' object cannot be interpreted as an integer", world.all_gather_v, y, x, [2.0, 2])
        self.refused(TypeError, "out of part 0 is a NoneType", world.all_gather_iov, [x])
        self.refused(self.weft.Error, "overlap", world.all_gather_v, y, x, [2, 2], [0, 1])
        self.refused(ValueError, "in_ has elements of float32, out of int32", world.sendrecv, x, 1, array.array("i", [1]))


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
