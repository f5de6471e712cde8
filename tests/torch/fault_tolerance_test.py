"""torch's fault tolerance on weft: handles and _reconfigure, in place and in the store; get_error; abort hooks; shrink_group; ranks that are killed."""
import contextlib
import datetime
import os
import signal
import threading
import time

import torch_ranks
from torch_ranks import TorchRanksTest, dist, torch

from groups_test import expect_raises, wait_until

SIZE = 3
LIMIT = datetime.timedelta(seconds=30)
CPU = torch.device("cpu")


def backend():
    return dist.group.WORLD._get_backend(CPU)


def reconfigure(uuid, handles):
    assert dist._reconfigure(uuid, handles, timeout=LIMIT).wait()


def check_sum(size=None, shift=0):
    """Of the ranks that the group has now."""
    if size is not None:
        assert dist.get_world_size() == dist.group.WORLD.size() == size, dist.get_world_size()
    rank, size = dist.get_rank(), dist.get_world_size()
    assert rank == dist.group.WORLD.rank() == backend().rank() and backend().size() == size
    x = torch.full((4,), rank + 1.0 + shift)
    dist.all_reduce(x)
    assert x.tolist() == [size * (size + 1) / 2 + size * shift] * 4, x
    everybody = [None] * size
    dist.all_gather_object(everybody, rank)
    assert everybody == list(range(size)), everybody


def error_kinds():
    return torch._C._distributed_c10d.ErrorType


class FaultToleranceTest(TorchRanksTest):
    def run_dynamic(self, function, size=SIZE, **options):
        """Ranks of a group that has no members before the first _reconfigure."""
        path = self.folder / f"dynamic{self._runs}"

        def run(rank):
            self.store = dist.FileStore(str(path), size)
            self.store.set_timeout(LIMIT)
            dist.init_process_group("weft", store=self.store, rank=rank, world_size=size, timeout=LIMIT, enable_reconfigure=True)
            return function(rank)
        return self.run_ranks(size, run, backend=None, **options)

    def run_made(self, function, size=SIZE, **options):
        """Ranks of an ordinary group."""
        path = self.folder / f"made{self._runs}"

        def run(rank):
            self.store = dist.FileStore(str(path), size)
            self.store.set_timeout(LIMIT)
            dist.init_process_group("weft", store=self.store, rank=rank, world_size=size, timeout=LIMIT)
            return function(rank)
        return self.run_ranks(size, run, backend=None, **options)

    def collect(self, key, ranks):
        """The handles of `ranks`, of which this is one: numbers that processes keep."""
        self.store.set(f"{key}/{self.me}", dist._get_reconfigure_handle())
        return [self.store.get(f"{key}/{rank}").decode() for rank in ranks]

    def meet(self, key, ranks):
        self.store.set(f"{key}/{self.me}", "")
        for rank in ranks:
            self.store.get(f"{key}/{rank}")

    def first(self, rank, uuid=100):
        """All ranks, and their handles afterwards."""
        self.me = rank
        reconfigure(uuid, self.collect("first", range(SIZE)))
        check_sum(SIZE)
        return self.collect("after first", range(SIZE))


class Members(FaultToleranceTest):
    def test_nothing_is_waited_for_before_the_first_reconfigure(self):
        """One rank alone is made, and says what is missing."""
        def run(rank):
            import weft
            if rank == 0:
                assert dist._supports_reconfigure() and backend().supports_reconfigure
                assert (dist.get_rank(), dist.get_world_size()) == (0, SIZE)
                assert backend().get_error() == error_kinds().SUCCESS
                x = torch.ones(2)
                for call in (lambda: dist.all_reduce(x), lambda: dist.all_reduce(x, async_op=True), lambda: dist.send(x, 1), dist.barrier,
                             lambda: dist.group.WORLD.communicator.stats()):
                    error = expect_raises(weft.Error, "has no members yet..._reconfigure(uuid, handles) first", call)
                    assert error.code is weft.Result.BAD_STATE
                dist.group.WORLD.set_timeout(LIMIT)
                dist.group.WORLD.abort()
        self.run_dynamic(run)

    def test_then_operations(self):
        """By position; messages through the Backend; blocking, started, coalesced, monitored."""
        def run(rank):
            self.first(rank)
            assert dist.get_rank() == rank
            peers = ((rank + 1) % SIZE, (rank - 1) % SIZE)
            sent, received = torch.full((4,), rank + 1.0), torch.zeros(4)
            works = [backend().send([sent], peers[0], 0), backend().recv([received], peers[1], 0)]
            for work in works:
                work.wait()
            assert received.tolist() == [peers[1] + 1.0] * 4
            dist.monitored_barrier(timeout=LIMIT)
            group = dist.new_group([0, 2])
            if rank != 1:
                dist.barrier(group=group)
        self.run_dynamic(run)

    def test_sets_are_in_the_order_of_the_first_ranks(self):
        def run(rank):
            self.me = rank
            reconfigure(1, set(self.collect("set", range(SIZE))))
            assert dist.get_rank() == rank
            check_sum(SIZE)
        self.run_dynamic(run)

    def test_other_numbers(self):
        """A list assigns ranks, in place."""
        def run(rank):
            handles = self.first(rank)
            comm = dist.group.WORLD.communicator
            reconfigure(101, [handles[2], handles[0], handles[1]])
            assert dist.get_rank() == (rank + 1) % SIZE and dist.group.WORLD.communicator is comm and comm.epoch == 2
            check_sum(SIZE)
        self.run_dynamic(run)

    def test_a_living_rank_is_left_out(self):
        """The last and one in the middle, which do nothing for it, of made groups too."""
        def run(rank):
            self.me, kept = rank, range(SIZE)
            handles = self.collect("made", kept)
            for uuid, excluded in ((400, 2), (401, 0)):
                if rank == excluded:
                    break
                kept = [number for number in kept if number != excluded]
                reconfigure(uuid, [handles[number] for number in kept])
                assert dist.get_rank() == kept.index(rank)
                check_sum(len(kept))
                assert dist.distributed_c10d.get_process_group_ranks(dist.group.WORLD) == list(range(len(kept)))
                x = torch.full((4,), 42.0 if dist.get_rank() == 0 else 0.0)
                dist.broadcast(x, group_src=0)
                assert x.tolist() == [42.0] * 4
                handles = dict(zip(kept, self.collect(f"without {excluded}", kept)))
            self.meet("left out", range(SIZE))
        self.run_made(run)

    def test_down_to_one_and_up_again(self):
        def run(rank):
            self.me = rank
            reconfigure(600 + rank, [dist._get_reconfigure_handle()])
            check_sum(1)
            reconfigure(603, self.collect("up", range(SIZE)))
            assert dist.get_rank() == rank
            check_sum(SIZE)
            reconfigure(604 + rank, [dist._get_reconfigure_handle()])
            check_sum(1)
            self.meet("down", range(SIZE))
        self.run_dynamic(run)

    def test_the_same_again(self):
        def run(rank):
            handles = self.first(rank)
            work = dist.all_reduce(torch.ones(2), async_op=True)
            work.wait()
            reconfigure(801, handles)
            check_sum(SIZE)
        self.run_dynamic(run)

    def test_one_comes_later(self):
        def run(rank):
            self.me = rank
            handles = self.collect("initial", range(SIZE))
            if rank < 2:
                reconfigure(900, handles[:2])
                check_sum(2)
            reconfigure(901, self.collect("all", range(SIZE)))
            check_sum(SIZE)
        self.run_dynamic(run)

    def test_parts_and_together(self):
        """Two groups at once with one uuid, which do not meet; out of none and out of one."""
        def run(rank):
            self.me = rank
            handles = self.collect("none", range(4))
            for turn in range(2):
                reconfigure(1000 + 2 * turn, handles[:2] if rank < 2 else handles[2:])
                check_sum(2)
                reconfigure(1001 + 2 * turn, self.collect(f"together {turn}", range(4)))
                check_sum(4)
                handles = self.collect(f"again {turn}", range(4))
        self.run_dynamic(run, size=4)

    def test_what_is_refused(self):
        """On one rank, at once, and the group goes on."""
        def run(rank):
            import weft
            self.me = rank
            own = dist._get_reconfigure_handle()
            reconfigure(1100 + rank, [own])
            now = dist._get_reconfigure_handle()
            others = [handle for number, handle in enumerate(self.collect("now", range(SIZE))) if number != rank]
            for sentence, uuid, handles in ((f"uuid {1100 + rank} was already used", 1100 + rank, [now]), ("from before its last _reconfigure", 1, [own]),
                                            ("no handle; list", 1, []), ("listed twice", 1, [now, now]), ("is not among them", 1, others),
                                            ("'gloo:0:1:2:' is no handle of weft's", 1, [now, "gloo:0:1:2:"]), ("is no handle", 1, [now, now + "x"])):
                error = expect_raises(weft.Error, sentence, lambda: dist._reconfigure(uuid, handles))
                assert error.code is weft.Result.INVALID_ARGUMENT, error
            check_sum(1)
        self.run_dynamic(run)

    def test_a_member_that_does_not_come_is_named(self):
        def run(rank):
            import weft
            handles = self.first(rank)
            if rank != 1:
                error = expect_raises(weft.Error, "rank 1... did not call weft_group_reconfigure",
                                      lambda: dist._reconfigure(2, handles, timeout=datetime.timedelta(seconds=0.5)))
                assert error.code is weft.Result.TIMEOUT
            self.meet("timed out", range(SIZE))
            reconfigure(3, self.collect("all", range(SIZE)))
            check_sum(SIZE)
        self.run_dynamic(run)

    def test_of_several_backends(self):
        """torch's group has one rank and size for all."""
        def run(rank):
            for device in ("cpu", "meta"):
                assert not dist.group.WORLD._get_backend(torch.device(device)).supports_reconfigure
            for call in (lambda: backend().get_reconfigure_handle(), lambda: backend().reconfigure(dist.distributed_c10d.ReconfigureOptions())):
                expect_raises(RuntimeError, "several backends", call)
            check_sum(2)
        import torch.testing._internal.distributed.fake_pg  # noqa: F401, PLC0415
        self.run_ranks(2, run, backend="cpu:weft,meta:fake")

    def test_torch_wraps_no_group_that_changes(self):
        """Which would keep rank and size in C++."""
        for variable, value in (("TORCH_DISTRIBUTED_DEBUG", "DETAIL"), ("TORCH_FR_BUFFER_SIZE", "100")):
            with self.subTest(variable):
                os.environ[variable] = value
                try:
                    def run(rank):
                        dist.set_debug_level_from_env()
                        handles = self.first(rank)
                        reconfigure(2, [handles[1], handles[2], handles[0]])
                        check_sum(SIZE)
                    self.run_dynamic(run)
                finally:
                    del os.environ[variable]

    def test_a_group_beside_the_first_one(self):
        def run(rank):
            self.me = rank
            group = dist.new_group([1, 2])
            if rank:
                handles = [self.store.get(f"beside/{number}").decode() for number in (1, 2)
                           if self.store.set(f"beside/{rank}", dist._get_reconfigure_handle(group)) is None]
                assert dist._reconfigure(7, handles[::-1], group=group).wait()
                assert group.rank() == 2 - rank and dist.get_process_group_ranks(group) == [2, 1]
                assert dist.get_group_rank(group, rank) == 2 - rank
                x = torch.full((1,), float(rank))
                dist.broadcast(x, src=2, group=group)
                assert x.item() == 2
            check_sum(SIZE)
        self.run_made(run)


class Failures(FaultToleranceTest):
    def test_after_abort(self):
        def run(rank):
            self.first(rank)
            self.meet("before", range(SIZE))
            backend().abort()
            assert backend().get_error() == error_kinds().COMM_ERROR
            assert dist.group.WORLD._get_backend(CPU).communicator.failure() is not None
            reconfigure(1201, self.collect("aborted", range(SIZE)))
            assert backend().get_error() == error_kinds().SUCCESS
            check_sum(SIZE)
        self.run_dynamic(run)

    def test_after_a_timeout(self):
        """The hook is called though nobody waits; all say TIMEOUT; it is not called again for what comes afterwards."""
        def run(rank):
            import weft
            self.first(rank)
            called, hook = threading.Event(), []
            assert backend().supports_abort_hooks and dist.group.WORLD.supports_abort_hooks
            dist.group.WORLD.register_abort_hook(5, lambda: (hook.append(1), called.set()))
            backend().set_timeout(datetime.timedelta(seconds=0.5))
            if rank != 0:
                work = dist.all_reduce(torch.ones(4), async_op=True)
                assert called.wait(20)
                assert backend().get_error() == error_kinds().TIMEOUT
                expect_raises(weft.Error, "rank 0... did not arrive within 0.5 s", lambda: dist.all_reduce(torch.ones(4)))
                expect_raises(weft.Error, "rank 0", work.wait)
            wait_until(lambda: backend().get_error() == error_kinds().TIMEOUT)  # on rank 0, too
            wait_until(called.is_set)
            assert hook == [1]
            self.meet("seen", range(SIZE))
            backend().set_timeout(LIMIT)
            reconfigure(1301, self.collect("timed out", range(SIZE)))
            assert backend().get_error() == error_kinds().SUCCESS
            check_sum(SIZE)
            self.meet("going on", range(SIZE))
            backend().abort()
            assert hook == [1, 1]
            dist.group.WORLD.unregister_abort_hook(5)
        self.run_dynamic(run)

    def test_the_hook_comes_before_the_exception(self):
        """Of a call and of a work; one that raises harms nothing; one that is unregistered is not called."""
        def run(rank):
            import weft
            for wait in (False, True):
                group, seen = dist.new_group([0, 1]), []
                for number, hook in enumerate((lambda: 1 / 0, lambda: seen.append(group._get_backend(CPU).get_error()), lambda: seen.append("never"))):
                    group.register_abort_hook(number, hook)
                group.unregister_abort_hook(2)
                call = (lambda: dist.all_reduce(torch.ones(1 + rank), group=group, async_op=True).wait()) if wait else (
                    lambda: dist.all_reduce(torch.ones(1 + rank), group=group))
                with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):  # of the hook that raises
                    error = expect_raises(weft.Error, "float32", call)
                assert error.code is weft.Result.MISMATCH and seen == [error_kinds().COMM_ERROR], seen
                dist.barrier()
        self.run_ranks(2, run)

    def test_a_killed_rank(self):
        """Also rank 0, and two at once; each time the others go on in place, with handles that they have exchanged among themselves."""
        for size, killed in ((4, [1]), (4, [0]), (5, [0, 3])):
            with self.subTest(size=size, killed=killed):
                def run(rank):
                    import weft
                    self.me, kept = rank, [number for number in range(size) if number not in killed]
                    comm = dist.group.WORLD.communicator
                    dist.barrier()
                    if rank in killed:
                        os.kill(os.getpid(), signal.SIGKILL)
                    seen = []
                    backend().register_abort_hook(1, lambda: seen.append(1))
                    error = expect_raises(weft.Error, "killed", lambda: dist.all_reduce(torch.ones(2)))
                    assert error.code is weft.Result.PEER_LOST and error.rank in killed and seen == [1]
                    assert backend().get_error() == error_kinds().REMOTE_ERROR
                    failure = comm.failure()
                    assert failure.code is weft.Result.PEER_LOST and "killed" in str(failure)
                    reconfigure(1, self.collect("left", kept))
                    assert dist.group.WORLD.communicator is comm and comm.epoch == 2  # in place
                    assert dist.get_rank() == kept.index(rank) and backend().get_error() == error_kinds().SUCCESS
                    check_sum(len(kept))
                    reconfigure(2, self.collect("again", kept)[::-1])
                    check_sum(len(kept))
                codes = [-signal.SIGKILL if rank in killed else 0 for rank in range(size)]
                self.run_made(run, size, expect_codes=codes)

    def test_another_rank_is_killed_before_it_comes(self):
        """The others are told, and go on with newer handles."""
        def run(rank):
            import weft
            self.me = rank
            dist.barrier()
            if rank == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            expect_raises(weft.Error, "", lambda: dist.all_reduce(torch.ones(2)))
            handles = self.collect("three", range(3))
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            error = expect_raises(weft.Error, "rank 1", lambda: reconfigure(1, handles))
            assert error.code is weft.Result.PEER_LOST, error
            reconfigure(2, self.collect("two", (0, 2)))
            check_sum(2)
        self.run_made(run, 4, expect_codes=[0, -signal.SIGKILL, 0, -signal.SIGKILL])

    def test_the_dead_and_a_living_rank_are_left_out(self):
        """By no handle is it known that the latter lives: a moment later the others meet in the store."""
        def run(rank):
            import weft
            self.me = rank
            dist.barrier()
            if rank == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            expect_raises(weft.Error, "", lambda: dist.all_reduce(torch.ones(2)))
            if rank != 3:
                reconfigure(1, self.collect("two", (1, 2)))
                check_sum(2)
            self.meet("end", (1, 2, 3))
        self.run_made(run, 4, expect_codes=[-signal.SIGKILL, 0, 0, 0])

    def test_another_process_comes_in_place_of_a_killed_one(self):
        """With the rank that was killed, in a process that joins a job that runs."""
        def run(rank):
            import weft
            self.me = rank
            if rank == 3:  # the new one, which begins with them
                handles = self.collect("new", (0, 2, 3))
                reconfigure(2, [handles[0], handles[2], handles[1]])
                assert dist.get_rank() == 1
                check_sum(3, shift=1)
                return
            reconfigure(1, self.collect("first", range(3)))
            check_sum(3)
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            expect_raises(weft.Error, "", lambda: [dist.all_reduce(torch.ones(2)) for _ in range(2)])
            handles = self.collect("new", (0, 2, 3))
            reconfigure(2, [handles[0], handles[2], handles[1]])
            assert dist.get_rank() == rank
            check_sum(3, shift=1)
        self.run_dynamic(run, size=4, expect_codes=[0, -signal.SIGKILL, 0, 0])

    def test_shrink_group(self):
        """torch's own way: a new group, of which the killed one or a living one is no part."""
        def run(rank):
            import weft
            self.me = rank
            if rank == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            expect_raises(weft.Error, "", lambda: [dist.all_reduce(torch.ones(2)) for _ in range(2)])
            group = dist.distributed_c10d.shrink_group([3])
            assert group.size() == dist.get_world_size() == 3 and dist.get_rank() == rank
            x = torch.ones(2)
            dist.all_reduce(x)
            assert x.tolist() == [3.0] * 2
            if rank != 0:
                dist.distributed_c10d.shrink_group([0], shrink_flags=dist.distributed_c10d.SHRINK_ABORT)
                assert dist.get_rank() == rank - 1
                dist.all_reduce(x)
                assert x.tolist() == [6.0] * 2
            self.meet("end", range(3))
        self.run_made(run, 4, expect_codes=[0, 0, 0, -signal.SIGKILL])


if __name__ == "__main__":
    torch_ranks.main()
