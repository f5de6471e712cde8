"""Calls bound once: they do what the plain ones do, again and again, and end with their communicator."""
import array
import gc
import threading
import time
import weakref

import ranks
from operations_test import on_threads

_DEADLINE_S = 30


def _operations(world):
    """name, arguments (array -> one of the buffers): of each operation, on rank and size of this communicator."""
    n, me, root = world.size, world.rank, world.size - 1
    right, left = (me + 1) % n, (me - 1) % n

    def x(count):
        return array.array("i", [me + 1] * count)

    each, whole, counts = x(2), x(2 * n), [2] * n
    return [("all_reduce", (x(5),)), ("all_reduce", (x(5), x(5), "max")), ("reduce", (x(3), x(3), "sum", root)), ("broadcast", (x(4), None, root)),
            ("scan", (x(3), x(3), "max")), ("exscan", (x(3),)),
            ("all_gather", (each, whole)), ("reduce_scatter", (whole, each, "min")), ("gather", (each, whole, root)), ("scatter", (whole, each, root)),
            ("all_to_all", (whole,)), ("barrier", ()), ("all_gather_v", (each, whole, counts)), ("reduce_scatter_v", (whole, each, counts, None, "max")),
            ("gather_v", (each, whole, counts, None, root)), ("scatter_v", (whole, each, counts, None, root)), ("all_to_all_v", (whole, x(2 * n), counts)),
            ("all_reduce_iov", ([x(3), (x(2), x(2))], "max")), ("all_gather_iov", ([(each, whole)],)), ("reduce_scatter_iov", ([whole, x(n)],)),
            ("sendrecv", (x(3), right, x(3), left))]


def _numbers(arguments):
    for one in arguments:
        if isinstance(one, array.array):
            yield from one
        elif isinstance(one, (list, tuple)):
            yield from _numbers(one)


class Bound(ranks.LocalRanksTest):
    def test_every_operation(self):
        from weft.core.bound import Binder

        def check(world):
            for (name, plain), (_, bound), (_, started) in zip(_operations(world), _operations(world), _operations(world)):
                step, start = getattr(world.bind, name)(*bound), getattr(world.bind, name)(*started, async_op=True)
                for _ in range(3):
                    result = getattr(world, name)(*plain)
                    assert step() == result, name
                    work = start()
                    work.wait()
                    assert work.source == (result if name == "sendrecv" else None)
                    assert list(_numbers(plain)) == list(_numbers(bound)) == list(_numbers(started)), name
                assert name in repr(step)
            sent, got = array.array("q", [world.rank]), array.array("q", [-1])
            send, recv = world.bind.send(sent, 0, async_op=True), world.bind.recv(got)
            for _ in range(3):
                work = send()
                if world.rank == 0:
                    assert sorted(recv() for _ in range(world.size)) == list(range(world.size))
                work.wait()
                world.barrier()

        for size in (1, 3):
            on_threads(self.communicators(size), check)
        tested = {name for name, _ in _operations(self.communicators(1)[0])} | {"send", "recv"}
        self.assertEqual({name for name in dir(Binder) if not name.startswith("_")}, tested)

    def test_arguments_are_checked_when_they_are_bound(self):
        world, = self.communicators(1)
        for error, make in ((ValueError, lambda: world.bind.all_reduce(b"abc")), (ValueError, lambda: world.bind.all_reduce(bytearray(3), op="mean")),
                            (TypeError, lambda: world.bind.all_gather([1], bytearray(3))), (ValueError, lambda: world.bind.barrier(timeout=-1)),
                            (TypeError, lambda: world.bind.barrier(time=1))):
            self.assertRaises(error, make)
        block = bytearray(8)
        step = world.bind.all_reduce(block)
        self.assertRaises(BufferError, block.append, 1)
        step()
        del step
        block.append(1)

    def test_in_a_batch(self):
        first, second = self.communicators(2)
        x, y = array.array("i", [1]), array.array("i", [2])
        steps = first.bind.all_reduce(x), second.bind.all_reduce(y)
        for expected in (3, 6):
            with self.weft.batch():     # one thread for both ranks: each alone would wait for the other
                for step in steps:
                    step()
            self.assertEqual((expected, expected), (x[0], y[0]))

    def test_timeout(self):
        first, _ = self.communicators(2)
        step = first.bind.barrier(timeout=0.05)
        with self.assertRaises(self.weft.Error) as raised:
            step()
        self.assertEqual(self.weft.Result.TIMEOUT, raised.exception.code)

    def test_ends_with_its_communicator(self):
        first, second = self.communicators(2)
        x = array.array("f", [1])
        steps = [first.bind.all_reduce(x), first.bind.all_reduce(x, async_op=True), first.bind.recv(x), first.bind.recv(x, async_op=True)]
        first.destroy()
        with self.assertRaises(self.weft.Error) as raised:     # the group is gone though they live
            second.barrier()
        self.assertEqual(self.weft.Result.PEER_LOST, raised.exception.code)
        for step in steps:
            with self.assertRaisesRegex(self.weft.Error, "is destroyed") as raised:
                step()
            self.assertEqual(self.weft.Result.BAD_STATE, raised.exception.code)
        with self.assertRaisesRegex(self.weft.Error, "is destroyed"):
            first.bind.barrier()

    def test_destroyed_while_other_threads_call(self):
        for _ in range(20):
            world, = self.communicators(1)
            steps = [world.bind.all_reduce(array.array("f", [1] * 8)), world.bind.barrier()]
            ended = []

            def run(step):
                try:
                    while True:
                        step()
                except self.weft.Error as error:
                    ended.append(error.code)

            threads = [threading.Thread(target=run, args=(step,)) for step in steps]
            for thread in threads:
                thread.start()
            time.sleep(0.002)
            world.destroy()
            for thread in threads:
                thread.join(_DEADLINE_S)
            self.assertEqual([self.weft.Result.BAD_STATE] * 2, ended)

    def test_dropped_ones_leave_nothing(self):
        class Block(bytearray):
            pass

        world, = self.communicators(1)
        block = Block(8)
        gone = weakref.ref(block)
        step = world.bind.all_reduce(block)
        del block
        gc.collect()
        step()
        self.assertIsNotNone(gone())
        del step
        gc.collect()
        self.assertIsNone(gone())
        # A Bound keeps its communicator, as a bound method does.
        step = self.weft.Communicator.local(1)[0].bind.barrier()
        step()


class BoundRanks(ranks.RanksTest):
    def test_interrupt(self):
        self.run_ranks(1, """
            import array, signal, threading
            a, b = weft.Communicator.local(2, timeout=30)
            step = a.bind.barrier()
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                step()
                raise AssertionError("no KeyboardInterrupt")
            except KeyboardInterrupt:
                pass
            try:
                step()
                raise AssertionError("the communicator goes on")
            except weft.Error as error:
                assert error.code == weft.Result.ABORTED, error
            """)


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
