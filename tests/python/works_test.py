"""Works: waiting, callbacks, await, and what happens to those, and to communicators, that nobody holds any more."""
import array
import asyncio
import gc
import os
import signal
import sys
import threading
import time
import unittest
import weakref

import ranks

_DEADLINE_S = 30
_DROPPED = 100000 if os.environ.get("TEST_CASES") == "all" else 10000


def resident_pages():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1])


def wait_until(condition):
    end = time.monotonic() + _DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.001)


class Works(unittest.TestCase):
    def setUp(self):
        import weft
        self.weft = weft
        self.first, self.second = weft.Communicator.local(2, timeout=_DEADLINE_S)

    def tearDown(self):
        self.first.destroy()
        self.second.destroy()

    def test_a_work_is_waited_for_any_number_of_times(self):
        x, y = array.array("i", [1]), array.array("i", [2])
        work = self.first.all_reduce(x, async_op=True)
        self.assertFalse(work.done())
        self.assertIn("under way", repr(work))
        waiting = threading.Thread(target=work.wait, args=(1e300,))
        waiting.start()
        for timeout in (0.01, 0):
            with self.assertRaisesRegex(TimeoutError, "has not ended"):
                work.wait(timeout=timeout)
        with self.assertRaises(TimeoutError):
            work.exception(timeout=0.01)
        self.second.all_reduce(y)
        waiting.join()
        for timeout in (None, float("inf")):
            work.wait(timeout)
            self.assertIsNone(work.exception())
        self.assertTrue(work.done())
        self.assertEqual((3, 3, None), (x[0], y[0], work.source))

    def test_a_failure_comes_with_every_question(self):
        work = self.first.all_reduce(array.array("i", [1]), async_op=True)
        self.second.abort("enough of it")
        for _ in range(2):
            with self.assertRaisesRegex(self.weft.Error, "enough of it") as raised:
                work.wait()
        self.assertIs(raised.exception, work.exception())
        self.assertEqual(self.weft.Result.ABORTED, raised.exception.code)
        self.assertIn("failed", repr(work))
        told = []
        work.add_done_callback(told.append)
        self.assertEqual([work], told)

    def test_callbacks(self):
        threads, order, unraisable = [], [], []
        work = self.first.barrier(async_op=True)
        work.add_done_callback(lambda done: order.append((1, done is work)))
        work.add_done_callback(lambda _: 1 / 0)
        work.add_done_callback(lambda _: threads.append(threading.current_thread().name))
        work.add_done_callback(lambda _: order.append(2))
        before, sys.unraisablehook = sys.unraisablehook, unraisable.append
        try:
            self.second.barrier()
            wait_until(lambda: len(order) == 2)
            work.add_done_callback(lambda _: [].pop())     # here and now
        finally:
            sys.unraisablehook = before
        with self.assertRaises(KeyboardInterrupt):  # a Ctrl-C that comes in it
            work.add_done_callback(lambda _: signal.raise_signal(signal.SIGINT))
        self.assertEqual(([(1, True), 2], ["weft-completions"]), (order, threads))
        self.assertEqual([ZeroDivisionError, IndexError], [hook.exc_type for hook in unraisable])

    def test_callback_may_start_and_wait(self):
        done = threading.Event()

        def again(_):
            self.first.barrier(timeout=_DEADLINE_S)
            done.set()

        self.first.barrier(async_op=True).add_done_callback(again)
        self.second.barrier()
        self.second.barrier()
        self.assertTrue(done.wait(_DEADLINE_S))

    def test_await(self):
        async def both():
            x, y = array.array("f", [1]), array.array("f", [2])
            works = self.first.all_reduce(x, async_op=True), self.second.all_reduce(y, async_op=True)
            for work in works:
                await work
            await works[0]
            return x[0], y[0]

        async def late():
            work = self.first.barrier(async_op=True)
            ticks = 0

            async def tick():
                nonlocal ticks
                while not work.done():
                    ticks += 1
                    if ticks == 3:
                        self.second.barrier(async_op=True)
                    await asyncio.sleep(0.001)

            async def wait():
                await work

            await asyncio.gather(tick(), wait())
            return ticks

        async def failing():
            work = self.first.barrier(async_op=True)
            self.second.abort("no more")
            await work

        self.assertEqual((3, 3), asyncio.run(both()))
        self.assertGreaterEqual(asyncio.run(late()), 3)
        with self.assertRaisesRegex(self.weft.Error, "no more"):
            asyncio.run(failing())

    def test_cancelled_task_leaves_the_operation(self):
        async def run():
            work = self.first.barrier(async_op=True)

            async def wait():
                await work

            task = asyncio.create_task(wait())
            await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.second.barrier(async_op=True)
            await work

        asyncio.run(run())

    def test_dropped_work_keeps_its_buffer_until_it_has_ended(self):
        class Block(bytearray):
            pass

        block = Block(8)
        gone = weakref.ref(block)
        self.first.all_reduce(block, async_op=True)
        del block
        gc.collect()
        self.assertIsNotNone(gone())
        self.second.all_reduce(bytearray(8))
        wait_until(lambda: gone() is None)

    def test_a_work_in_a_cycle_of_garbage_keeps_its_buffer(self):
        class Block(bytearray):
            pass

        class Request:
            pass

        gone = []
        for _ in range(3):
            request, block = Request(), Block(8)
            request.itself, request.work = request, self.first.all_reduce(block, async_op=True)
            gone.append(weakref.ref(block))
            del request, block
        gc.collect()
        self.assertTrue(all(block() is not None for block in gone))
        for _ in gone:
            self.second.all_reduce(bytearray(8))
        wait_until(lambda: all(block() is None for block in gone))

    def test_finalizers_of_buffers_may_ask_for_works(self):
        class Block(bytearray):
            pass

        asked, other = [], self.first.barrier(async_op=True)
        block = Block(8)
        weakref.finalize(block, lambda: asked.append((other.done(), other.add_done_callback(asked.append))))
        work = self.first.all_reduce(block, async_op=True)
        del block
        self.second.barrier()
        self.second.all_reduce(bytearray(8))
        work.wait()
        self.assertEqual([other, (True, None)], asked)

    def test_batches_of_tasks_overlap(self):
        """The first begun ends first: all starts with the end of the last."""
        weft, x, y = self.weft, array.array("f", [1]), array.array("f", [2])

        async def one():
            with weft.batch():
                work = self.first.all_reduce(x, async_op=True)
                await asyncio.sleep(0.01)
            return work

        async def two():
            with weft.batch():
                work = self.second.all_reduce(y, async_op=True)
                await asyncio.sleep(0.05)
            return work

        async def both():
            for work in await asyncio.gather(one(), two()):
                await work

        asyncio.run(both())
        self.assertEqual((3, 3), (x[0], y[0]))
        batch = weft.batch().__enter__()
        refused = []

        def end():
            try:
                batch.__exit__(None, None, None)
            except weft.Error as error:
                refused.append(error.code)

        thread = threading.Thread(target=end)
        thread.start()
        thread.join()
        batch.__exit__(None, None, None)
        end()
        self.assertEqual([weft.Result.INVALID_USAGE] * 2, refused)

    def test_works_and_communicators_that_are_dropped_leave_nothing(self):
        from weft.core import completions
        x, y = array.array("f", [1] * 64), array.array("f", [1] * 64)

        def some(number):
            for i in range(number):
                self.first.all_reduce(x, op="max", async_op=True)
                work = self.second.all_reduce(y, op="max", async_op=True)
                if i % 50 == 0:
                    work.wait()
                    # Those of which the thread is still to learn take memory, too, which would seem lost.
                    wait_until(lambda: len(completions._service._waiting) < 200)
            work.wait()
            for _ in range(number):
                lone, = self.weft.Communicator.local(1)
                lone.bind.barrier()()

        some(1000)
        gc.collect()
        pages, descriptors = resident_pages(), len(os.listdir("/proc/self/fd"))
        some(_DROPPED)
        gc.collect()
        self.assertLessEqual(len(os.listdir("/proc/self/fd")), descriptors)
        # 40,000 objects at least: a leak of 100 bytes each would be 970 pages.
        self.assertLess(resident_pages() - pages, 600)

    def test_destroyed_communicator(self):
        weft = self.weft
        work = self.first.barrier(async_op=True)
        self.first.destroy()
        self.first.destroy()
        self.assertIn("destroyed", repr(self.first))
        with self.assertRaises(weft.Error):
            work.wait()
        for call in (lambda: self.first.barrier(), lambda: self.first.all_reduce(array.array("f", [1])), lambda: self.first.barrier(async_op=True),
                     lambda: self.first.split(0), lambda: self.first.abort(), lambda: self.first.send(b"a", 1)):
            with self.assertRaisesRegex(weft.Error, "local.* is destroyed|communicator .* is destroyed") as raised:
                call()
            self.assertEqual(weft.Result.BAD_STATE, raised.exception.code)

    def test_destroyed_while_another_thread_waits(self):
        failed = []

        def wait():
            try:
                self.first.barrier(timeout=0.3)
            except self.weft.Error as error:
                failed.append(error.code)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.05)
        self.first.destroy()
        thread.join(_DEADLINE_S)
        self.assertEqual([self.weft.Result.TIMEOUT], failed)

    def test_context_manager(self):
        with self.weft.Communicator.local(1)[0] as world:
            self.assertEqual((0, 1), (world.rank, world.size))
        self.assertIn("destroyed", repr(world))


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
