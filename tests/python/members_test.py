"""What a communicator says of itself, subsets, and going on with other ranks."""
import array

import ranks
from operations_test import on_threads


class Reports(ranks.LocalRanksTest):
    def test_explain(self):
        world, _ = self.communicators(2)
        texts = [world.explain("all_reduce", 1 << 20, memory=memory) for memory in ("private", "symmetric", "shared")]
        for text in texts:
            self.assertRegex(text, r"(?m)^algorithm: \w+\n")
        self.assertEqual(3, len(set(texts)))
        self.assertIn("all_to_all_v", world.explain("all_to_all_v", 1, "int8", "max"))
        for error, sentence, call in ((ValueError, "memory is 'all'", lambda: world.explain("all_reduce", 1, memory="all")),
                                      (ValueError, "count is -1", lambda: world.explain("all_reduce", -1)), (self.weft.Error, "nothing", lambda: world.explain("nothing", 1)),
                                      (ValueError, "no element type", lambda: world.explain("all_reduce", 1, "x")),
                                      (ValueError, "no reduction", lambda: world.explain("all_reduce", 1, op="x"))):
            with self.assertRaisesRegex(error, sentence):
                call()

    def test_stats_sequence_failure(self):
        first, second = self.communicators(2)
        on_threads([first, second], lambda world: world.all_reduce(array.array("f", [1] * 10)))
        with self.weft.batch():
            first.send(b"abc", 1)
            second.recv(bytearray(3))
        stats = first.stats()
        self.assertEqual((1, 1, 0, 43, 40, 0), (stats.collectives, stats.messages, stats.failures, stats.in_bytes, stats.out_bytes, stats.pending))
        self.assertIsInstance(stats.wait_s, float)
        self.assertEqual((1, 1, 1, None), (first.sequence, second.sequence, first.epoch, first.failure()))
        first.abort("enough")
        failure = second.failure()
        self.assertEqual((self.weft.Result.ABORTED, True), (failure.code, "enough" in str(failure)))

    def test_refuse(self):
        first, second = self.communicators(2)
        for communicator in (first, second):
            communicator.refuse("not with these arguments", "all_reduce")
        on_threads([first, second], lambda world: world.all_reduce(array.array("f", [1] * 10)))
        self.assertEqual((2, 0), (first.sequence, first.stats().pending))
        first.refuse("the array is empty", "all_reduce")
        with self.assertRaises(self.weft.Error) as raised:
            second.all_reduce(array.array("f", [1]))
        self.assertEqual((self.weft.Result.MISMATCH, 0), (raised.exception.code, raised.exception.rank))
        self.assertIn("rank 0 refused all_reduce", str(raised.exception))
        self.assertIn("rank 0 says: the array is empty", str(raised.exception))

    def test_set_timeout(self):
        first, _ = self.communicators(2)
        first.set_timeout(0.05)
        with self.assertRaises(self.weft.Error) as raised:
            first.barrier()
        self.assertEqual(self.weft.Result.TIMEOUT, raised.exception.code)
        self.assertRaises(ValueError, first.set_timeout, -1)

    def test_subset(self):
        seen = {}

        def check(world):
            part = world.subset([2, 0], name="two")
            seen[world.rank] = None if part is None else (part.rank, part.size, part.name)
            if part is not None:
                x = array.array("i", [world.rank])
                part.broadcast(x)
                assert x[0] == 2

        on_threads(self.communicators(3), check)
        self.assertEqual({0: (1, 2, "two"), 1: None, 2: (0, 2, "two")}, seen)
        world, = self.communicators(1)
        for members in ([], [1], [0, 0]):
            self.assertRaises(self.weft.Error, world.subset, members)

    def test_reconfigure(self):
        codes = []

        def check(world):
            step, started, received = world.bind.barrier(), world.bind.barrier(async_op=True), world.bind.recv(bytearray(1))
            step()
            member = world.reconfigure([2, 0])
            assert member == (world.rank != 1 or world.size == 2), world
            for call in (step, started, received):
                try:
                    call()
                except self.weft.Error as error:
                    codes.append(error.code)
            if member:
                x = array.array("i", [world.rank])
                world.all_reduce(x)
                assert (world.size, x[0], world.epoch) == (2, 1, 2)
                world.bind.barrier()()

        def destroyed(world):
            world.reconfigure([0])
            assert ("destroyed" in repr(world)) == (world.size == 2), world

        communicators = self.communicators(3)
        on_threads(communicators, check)
        self.assertEqual([self.weft.Result.BAD_STATE] * 9, codes)
        self.assertIn("destroyed", repr(communicators[1]))
        on_threads(self.communicators(2), destroyed)
        world, = self.communicators(1)
        for members in ([0, 0], [3], []):
            self.assertRaises(self.weft.Error, world.reconfigure, members)

    def test_shared_arrays_are_not_pulled_away(self):
        world, = self.communicators(1)
        shared = world.shared(10)
        memory = shared.memory
        del shared
        self.assertRaisesRegex(BufferError, "shared arrays or views", world.reconfigure)
        memory[3] = 1
        del memory
        self.assertTrue(world.reconfigure())


class Members(ranks.RanksTest):
    def test_without_and_with_others(self):
        """Rank 1 dies; the others go on; weftrun starts it again, and it joins."""
        code, out, err = self.launch_ranks(3, """
            import array, signal
            newcomer = world.epoch > 1
            if not newcomer:
                if world.rank == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                try:
                    world.barrier()
                except weft.Error as error:
                    assert error.code == weft.Result.PEER_LOST and error.rank == 1, error
                assert world.reconfigure()
                x = array.array("i", [1])
                world.all_reduce(x)
                assert (x[0], world.size) == (2, 2)
                waiting = array.array("i", [0])
                while not waiting[0]:
                    if world.rank == 0:
                        waiting[0] = world.newcomers()
                    world.broadcast(waiting)
                    time.sleep(0.02)
                assert world.reconfigure([0, weft.NEW_RANK, 1], init_timeout=30)
            x = array.array("i", [world.rank])
            world.all_reduce(x)
            say(world.rank, world.size, x[0], newcomer)
            world.barrier()
            """, "--elastic", "--max-restarts", "1").finish()
        self.assertEqual(["0 3 3 False", "1 3 3 True", "2 3 3 False"], sorted(line.split("] ")[1] for line in out), (out, err))


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
