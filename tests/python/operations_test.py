"""Every operation, type, and a few counts against a plain reference: ranks as processes and as threads, blocking and started, in place and not."""
import threading

import ranks
from ranks import RanksTest


def on_threads(communicators, function):
    """Calls it for each on a thread of its own; raises what one of them raised."""
    failures = []

    def run(communicator):
        try:
            function(communicator)
        except BaseException as failure:
            failures.append(failure)
            communicator.abort("a check failed")

    threads = [threading.Thread(target=run, args=(communicator,)) for communicator in communicators]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Operations(RanksTest):
    def test_processes(self):
        for count in (2, 3):
            self.run_ranks(count, "import operation_checks, vector_checks\noperation_checks.check(world)\nvector_checks.check(world)")

    def test_threads(self):
        import operation_checks
        import vector_checks
        import weft
        for size in (1, 2, 5):
            communicators = weft.Communicator.local(size, timeout=30)
            on_threads(communicators, operation_checks.check)
            on_threads(communicators, vector_checks.check)
            for communicator in communicators:
                communicator.destroy()

    def test_split(self):
        self.run_ranks(3, """
            import array
            part = world.split(world.rank % 2, key=-world.rank, name=f"half{world.rank % 2}")
            x = array.array("i", [world.rank + 1])
            part.all_reduce(x)
            assert (part.size, part.rank, part.name, x[0]) == ((2, 1 if world.rank == 0 else 0, "half0", 4), (1, 0, "half1", 2))[world.rank % 2], (part, x)
            none = world.split(None if world.rank else 0)
            assert (none is None) == (world.rank != 0)
            """)

    def test_batch(self):
        self.run_ranks(3, """
            import array
            me, n = world.rank, world.size
            got, x = array.array("q", [0]), array.array("f", [me])
            told = []
            with world.batch() as outer:
                world.send(array.array("q", [me]), (me + 1) % n)
                assert world.recv(got, (me - 1) % n) == -1
                with weft.batch():
                    work = world.all_reduce(x, async_op=True)
                try:
                    work.wait()
                    raise AssertionError("a work of a batch that has not ended was waited for")
                except weft.Error as error:
                    assert error.code == weft.Result.BAD_STATE, error
                work.add_done_callback(told.append)
                world.barrier(async_op=True)     # dropped
            assert got[0] == (me - 1) % n
            work.wait()
            assert x[0] == 3
            while not told: time.sleep(0.001)
            assert told == [work]
            # What fails inside is raised, and nothing was started.
            other = world.split(0)
            try:
                with weft.batch():
                    other.all_reduce(x)
                    raise KeyError("mine")
            except KeyError:
                pass
            try:
                other.barrier()
                raise AssertionError("the communicator of a cancelled batch goes on")
            except weft.Error as error:
                assert error.code == weft.Result.ABORTED, error
            world.barrier()
            """)


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
