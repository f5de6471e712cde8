"""Arrays in weft's memory: views of them, what keeps them, sharing, registering."""
import array
import gc
import mmap
import os

import ranks
from operations_test import on_threads
from works_test import resident_pages

_DEADLINE_S = 30
_DROPPED = 100000 if os.environ.get("TEST_CASES") == "all" else 800


class Taker:
    """A producer of DLPack that numpy takes a capsule from, with a version of its choice."""

    def __init__(self, inner, **options):
        self.inner, self.options = inner, options

    def __dlpack_device__(self):
        return self.inner.__dlpack_device__()

    def __dlpack__(self, **_):
        return self.inner.__dlpack__(**self.options)


class Arrays(ranks.LocalRanksTest):
    def kind(self, buffer):
        return self.weft.query(buffer).kind.name

    def test_zeros(self):
        weft = self.weft
        a = weft.zeros((2, 3), "int32")
        self.assertEqual(((2, 3), weft.DType.INT32, 6, 24, 0), (a.shape, a.dtype, a.size, a.nbytes, a.address % 4096))
        memory = a.memory
        self.assertEqual(([[0] * 3] * 2, (2, 3), "i"), (memory.tolist(), memory.shape, memory.format))
        memory[1, 2] = 7
        self.assertEqual(7, a.memory[1, 2])
        self.assertEqual("SYMMETRIC", self.kind(a))
        self.assertEqual(("SYMMETRIC", a.address), (self.kind(memory), weft.query(memory).base))
        self.assertEqual("PRIVATE", self.kind(bytearray(3)))
        self.assertEqual(((5,), weft.DType.FLOAT32), (weft.zeros(5).shape, weft.zeros(5).dtype))
        self.assertEqual(((), 1), (weft.zeros(()).shape, weft.zeros(()).size))
        self.assertEqual((0, 0, 0), (weft.zeros((3, 0)).size, weft.zeros(0).address, len(weft.zeros(0).memory)))
        for dtype in weft.DType:
            self.assertEqual(weft.zeros(5, dtype).nbytes, weft.zeros(5, dtype).memory.nbytes)
        for error, call in ((ValueError, lambda: weft.zeros(-1)), (TypeError, lambda: weft.zeros(1.5)), (ValueError, lambda: weft.zeros(1, "int7")),
                            (ValueError, lambda: weft.zeros(1 << 62)), (weft.Error, lambda: weft.zeros(1 << 56)), (TypeError, lambda: weft.zeros(("a",)))):
            self.assertRaises(error, call)

    def test_in_operations(self):
        def check(world):
            for dtype in ("float32", "bfloat16", "bool"):
                a, b = self.weft.zeros(1000, dtype), self.weft.zeros((2, 500), dtype)
                world.all_reduce(a)
                world.all_reduce(a, b, async_op=True).wait()
                world.bind.broadcast(b)()
            a = self.weft.zeros((10, 10), "int64")
            a.memory[3, 4] = 5 + world.rank
            world.all_reduce(a)
            assert a.memory[3, 4] == 11
            world.all_reduce(self.weft.zeros(0))

        on_threads(self.communicators(2), check)

    def test_memory_lives_as_long_as_a_view(self):
        weft = self.weft
        a = weft.zeros(1 << 20, "uint8")
        address, memory = a.address, a.memory
        del a
        gc.collect()
        self.assertEqual(1, weft.query((address, "uint8", 1)).references)
        memory[-1] = 9
        part = memory[-10:]
        del memory
        gc.collect()
        self.assertEqual(9, part[-1])
        del part
        gc.collect()
        self.assertNotEqual("SYMMETRIC", self.kind((address, "uint8", 1)))

    def test_numpy_and_dlpack(self):
        if not ranks.has_packages():
            self.skipTest("./dev setup could not install numpy")
        import ml_dtypes
        import numpy as np
        from weft.core import dlpack
        weft = self.weft
        for dtype in weft.DType:
            a = weft.zeros((3, 2), dtype)
            x = np.asarray(a)
            self.assertEqual(((3, 2), a.address), (x.shape, x.__array_interface__["data"][0]))
            self.assertEqual(a.nbytes, x.nbytes)
            x[1, 1] = 1
            self.assertEqual("SYMMETRIC", self.kind(x))
            if dtype in (weft.DType.BFLOAT16, weft.DType.FLOAT8_E4M3, weft.DType.FLOAT8_E5M2):
                self.assertIs(x.dtype.type, getattr(ml_dtypes, dtype.name.lower() + ("fn" if dtype == weft.DType.FLOAT8_E4M3 else "")))
                self.assertRaises(Exception, np.from_dlpack, a)     # numpy cannot
                for options in ({}, {"max_version": (1, 0)}):
                    described = dlpack.describe(Taker(a, **options))
                    self.assertEqual((a.address, dtype, 6), (described.address, described.dtype, described.elements))
                continue
            self.assertEqual(dtype.name.lower(), str(x.dtype))
            for options in ({}, {"max_version": (0, 8)}, {"max_version": (1, 0)}, {"max_version": (1, 1), "dl_device": (1, 0), "copy": False}):
                y = np.from_dlpack(Taker(a, **options))
                self.assertEqual((1, a.address), (y[1, 1], y.__array_interface__["data"][0]), options)
            del a, x
            gc.collect()
            y[0, 0] = 1
            self.assertEqual("SYMMETRIC", self.kind(y))
        a = weft.zeros(3)
        self.assertEqual(np.float64, np.asarray(a, dtype=np.float64).dtype)
        self.assertNotEqual(a.address, np.array(a, copy=True).__array_interface__["data"][0])
        self.assertRaises(ValueError, a.__array__, np.float64, False)
        self.assertEqual((0, 4), np.from_dlpack(weft.zeros((0, 4))).shape)
        for options in ({"stream": 1}, {"dl_device": (2, 0)}, {"copy": True}):
            self.assertRaises(BufferError, a.__dlpack__, **options)

    def test_capsules_that_nobody_takes(self):
        weft = self.weft
        a = weft.zeros(3)
        for _ in range(20):
            a.__dlpack__(max_version=(1, 0))
            self.assertLessEqual(weft.query(a).references, 3)
        kept = [a.__dlpack__(max_version=(1, 0)) for _ in range(3)]
        a.__dlpack__(max_version=(1, 0))
        self.assertGreaterEqual(weft.query(a).references, 4)
        del kept
        weft.zeros(1).__dlpack__(max_version=(1, 0))
        self.assertEqual(1, weft.query(a).references)

    def test_dropped_arrays_leave_nothing(self):
        weft = self.weft

        def some(number):
            for _ in range(number):
                a = weft.zeros(100)
                a.__dlpack__(max_version=(1, 0))
                a.memory[0] = 1

        some(200)
        gc.collect()
        pages = resident_pages()
        some(_DROPPED)
        gc.collect()
        self.assertLess(resident_pages() - pages, 300)     # a page of each would be 800 at least

    def test_shared(self):
        def check(world):
            n, me = world.size, world.rank
            whole = world.shared((n, 1000), "int32")
            assert whole.shape == (n, 1000) and self.kind(whole) == "SHARED" and "SharedArray" in repr(whole)
            view = whole.memory
            for i in range(1000):
                view[me, i] = me + i
            world.all_gather(None, whole)
            assert all(view[rank, 999] == rank + 999 for rank in range(n))
            total, mine = world.shared(500, "float64"), array.array("d", [me] * 500)
            world.all_reduce(mine, total)
            assert total.memory.tolist() == [n * (n - 1) / 2] * 500
            try:
                whole.free()
                raise AssertionError("freed with a view")
            except BufferError:
                pass
            del view
            whole.free()
            for call in (lambda: whole.memory, lambda: world.all_reduce(whole), whole.free):
                try:
                    call()
                    raise AssertionError("used when it was given back")
                except ValueError as error:
                    assert "was given back" in str(error)
            for shape in (0, (2, 0), -1):
                try:
                    world.shared(shape)
                    raise AssertionError(shape)
                except ValueError:
                    pass

        on_threads(self.communicators(3), check)

    def test_shared_outlives_its_communicator(self):
        first, second = self.weft.Communicator.local(2, timeout=_DEADLINE_S)
        made = []
        on_threads([first, second], lambda world: made.append(world.shared(5000, "int32")))
        views = [one.memory for one in made]
        del made
        first.destroy()
        second.destroy()
        gc.collect()
        views[0][4999] = 3
        self.assertEqual(3, views[1][4999])

    def test_shared_of_numpy(self):
        if not ranks.has_packages():
            self.skipTest("./dev setup could not install numpy")
        import numpy as np
        first, second = self.communicators(2)
        made = {}
        on_threads([first, second], lambda world: made.update({world.rank: world.shared(10, "float32")}))
        x, y = np.asarray(made[0]), np.from_dlpack(made[1])
        x[3] = 2
        self.assertEqual(2, y[3])
        self.assertRaises(BufferError, made[0].free)

    def test_register(self):
        weft = self.weft
        world, = self.communicators(1)
        block = mmap.mmap(-1, 8192, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        block[5000] = 7
        with weft.register(block) as registration:
            self.assertEqual("REGISTERED", self.kind(block))
            self.assertRaises(BufferError, block.close)
            world.broadcast(block)
        self.assertEqual(("PRIVATE", 7), (self.kind(block), block[5000]))
        registration.end()
        dropped = weft.register(block)
        del dropped
        gc.collect()
        self.assertEqual("PRIVATE", self.kind(block))
        # In use: it ends when it is not.
        first, second = self.communicators(2)
        work = first.all_reduce(block, async_op=True)
        registration = None
        try:
            registration = weft.register(block)
        except weft.Error:
            pass
        second.all_reduce(bytearray(8192))
        work.wait()
        del registration
        block.close()
        with self.assertRaises(weft.Error):
            weft.register(bytearray(8192 * 2 + 1))

    def test_register_a_file(self):
        weft = self.weft
        fd = os.memfd_create("weft-test")
        os.ftruncate(fd, 10000)
        with mmap.mmap(fd, 10000) as block:
            view = memoryview(block)[100:9000]
            with weft.register(view, fd=fd, offset=100):
                self.assertEqual("REGISTERED", self.kind(view))
            view.release()
        with self.assertRaises(weft.Error):
            weft.register(bytearray(10), fd=fd)
        os.close(fd)


class ArrayRanks(ranks.RanksTest):
    def test_processes(self):
        self.run_ranks(3, """
            a = weft.zeros(100000, "float64")
            view = a.memory
            view[5] = world.rank + 1
            world.all_reduce(a)
            assert view[5] == 6
            shared = world.shared((3, 100), "int64")
            mine = shared.memory
            mine[world.rank, 7] = world.rank + 10
            world.barrier()
            assert [mine[rank, 7] for rank in range(3)] == [10, 11, 12]
            world.barrier()
            del mine
            shared.free()
            kept = world.shared(10), weft.zeros(3)     # lives at exit
            """)


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
