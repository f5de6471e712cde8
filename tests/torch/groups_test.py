"""Process groups of torch on weft: how they are made, split, named and ended; works and futures; what is refused; peers that die."""
import contextlib
import datetime
import functools
import gc
import os
import signal
import threading
import time
import weakref

import torch_ranks
from torch_ranks import TorchRanksTest, dist, torch

from torch.nn.parallel import DistributedDataParallel


def expect_raises(kind, sentence, call):
    try:
        call()
    except kind as error:
        assert all(part in str(error) for part in sentence.split("...")), f"{error!r} does not say {sentence!r}"
        return error
    raise AssertionError(f"nothing was raised; {sentence!r} was expected")


def interrupt(call):
    """Ctrl-C while it waits."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        call()
        raise AssertionError("no KeyboardInterrupt")
    except KeyboardInterrupt:
        timer.join()


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.001)


class Groups(TorchRanksTest):
    def test_names_and_numbers(self):
        def run(rank):
            world = dist.group.WORLD
            assert dist.get_backend() == "weft" and world.name() == "weft" and dist.get_rank() == rank == world.rank() and world.size() == 3
            assert world._get_backend(torch.device("cpu")).name() == "weft"
            assert world.communicator.rank == rank
            odd = dist.new_group([1, 2], timeout=datetime.timedelta(seconds=10), group_desc="odd")
            if rank:
                assert odd.size() == 2 and odd.group_desc == "odd"
                x, before = torch.ones(2) * rank, odd._get_sequence_number_for_group()
                dist.all_reduce(x, group=odd)
                assert x.tolist() == [3.0, 3.0] and odd._get_sequence_number_for_group() == before + 1
                dist.destroy_process_group(odd)
                import weft
                expect_raises(weft.Error, "is destroyed", lambda: odd.allreduce([torch.ones(1)], dist.AllreduceOptions()))
            dist.barrier()
            for _ in range(5):  # names come again
                group = dist.new_group([0, 2])
                if rank != 1:
                    dist.barrier(group=group)
                    dist.destroy_process_group(group)
        self.run_ranks(3, run)

    def test_again_after_destroy(self):
        store = self.folder / "again"

        def run(rank):
            for turn in range(3):
                dist.init_process_group("weft", init_method=f"file://{store}{turn}", rank=rank, world_size=2)
                x = torch.ones(1)
                dist.all_reduce(x)
                assert x.item() == 2
                dist.destroy_process_group()
        self.run_ranks(2, run, backend=None)

    def test_split(self):
        def run(rank):
            group = dist.split_group(split_ranks=[[0, 2], [1]])
            x = torch.ones(1)
            dist.all_reduce(x, group=group)
            assert x.item() == (1 if rank == 1 else 2)
        self.run_ranks(3, run)

    def test_for_several_devices(self):
        def run(rank):
            assert dist.get_backend_config() == "cpu:weft,cuda:weft", dist.get_backend_config()
            x = torch.ones(2)
            dist.all_reduce(x)
            work = dist.all_reduce(x, async_op=True)
            work.wait()
            assert x.tolist() == [4.0, 4.0]
        self.run_ranks(2, run, backend="cpu:weft,cuda:weft")

    def test_beside_another_backend(self):
        import torch.testing._internal.distributed.fake_pg  # noqa: F401, PLC0415

        def run(rank):
            x = torch.ones(2)
            dist.all_reduce(x)
            everything = [None] * 2
            dist.all_gather_object(everything, rank)
            assert everything == [0, 1] and x.tolist() == [2.0, 2.0]
            assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "weft"
            if rank == 0:  # torch has no sender of such a group's messages, and the message is not lost
                expect_raises(RuntimeError, "name the source, or call irecv", lambda: dist.recv(x))
                dist.irecv(x).wait()
                assert x.tolist() == [7.0, 7.0]
            else:
                dist.send(torch.full((2,), 7.0), 0)
        self.run_ranks(2, run, backend="cpu:weft,meta:fake")

    def test_debug_detail(self):
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
        self.addCleanup(os.environ.pop, "TORCH_DISTRIBUTED_DEBUG")

        def run(rank):
            dist.set_debug_level_from_env()
            group = dist.new_group([0, 1])
            x = torch.ones(2)
            dist.all_reduce(x, group=group)
            assert x.tolist() == [2.0, 2.0]
            gc.collect()
            dist.all_gather_into_tensor(torch.empty(4), x, group=group)
            expect_raises(RuntimeError, "mismatch", lambda: dist.all_reduce(torch.ones(2 + rank), group=group))
        self.run_ranks(2, run)

    def test_timeouts(self):
        def run(rank):
            import weft
            group = dist.new_group([0, 1])
            if rank == 0:
                start = time.monotonic()
                error = expect_raises(weft.Error, "rank 1... did not arrive within 0.2 s; the timeout", lambda: dist.barrier(group=group, timeout=datetime.timedelta(seconds=0.2)))
                assert error.code is weft.Result.TIMEOUT and 0.15 < time.monotonic() - start < 5
            group = dist.new_group([0, 1])
            group.set_timeout(datetime.timedelta(seconds=0.3))
            if rank == 0:
                expect_raises(weft.Error, "within 0.3 s", lambda: dist.all_reduce(torch.ones(1), group=group))
            dist.barrier()
        self.run_ranks(2, run)

    def test_interrupted_while_ranks_are_missing(self):
        """Ctrl-C in new_group and in monitored_barrier: the others are told by whom."""
        def run(rank):
            import weft
            calls = ((0, lambda: dist.monitored_barrier(timeout=datetime.timedelta(seconds=120)), RuntimeError, "rank 0 was interrupted: KeyboardInterrupt"),
                     *((victim, lambda: dist.new_group([0, 1, 2], timeout=datetime.timedelta(seconds=120)), weft.Error,
                        f"rank {victim} was interrupted by its program while the group was made") for victim in (0, 1)))
            for victim, call, kind, sentence in calls:
                if rank == victim:
                    interrupt(call)
                elif rank != 2:
                    expect_raises(kind, sentence, call)
                dist.barrier()
        self.run_ranks(3, run)

    def test_monitored_barrier(self):
        def run(rank):
            dist.monitored_barrier()
            dist.monitored_barrier(timeout=datetime.timedelta(seconds=10), wait_all_ranks=True)
            if rank == 0:
                expect_raises(RuntimeError, "Ranks 1, 2 failed to pass monitoredBarrier",
                              lambda: dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.2), wait_all_ranks=True))
            dist.barrier()  # the group goes on
        self.run_ranks(3, run)

    def test_monitored_barriers_of_groups_one_after_the_other(self):
        """With one store and one name: what an earlier group has left there is not taken for the later one's."""
        path = str(self.folder / "shared")

        def run(rank):
            store = dist.FileStore(path, 2)
            for _ in range(2):
                dist.init_process_group("weft", store=store, rank=rank, world_size=2, timeout=datetime.timedelta(seconds=20))
                if rank == 0:
                    expect_raises(RuntimeError, "Rank 1 failed to pass monitoredBarrier", lambda: dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.2)))
                dist.barrier()
                if rank == 1:
                    expect_raises(RuntimeError, "received errors while waiting", lambda: dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.2)))
                dist.barrier()
                counted = dist.distributed_c10d._get_default_store().num_keys()
                dist.barrier()
                for _ in range(3):
                    dist.monitored_barrier()
                dist.barrier()
                assert dist.distributed_c10d._get_default_store().num_keys() <= counted, "keys are left"
                dist.barrier()  # before the next group has keys there
                dist.destroy_process_group()
        self.run_ranks(2, run, backend=None)

    def test_abort_ends_what_is_under_way_everywhere(self):
        def run(rank):
            import weft
            group = dist.new_group([0, 1])
            if rank == 0:
                work = dist.all_reduce(torch.ones(1), group=group, async_op=True)
                group.abort()
                dist.distributed_c10d._get_default_store().set("aborted", "")
                error = expect_raises(weft.Error, "", work.wait)
            else:
                dist.distributed_c10d._get_default_store().wait(["aborted"])
                error = expect_raises(weft.Error, "aborted by ProcessGroup.abort()", lambda: dist.barrier(group=group))
            assert error.code is weft.Result.ABORTED, error
            dist.barrier()
        self.run_ranks(2, run)


class Works(TorchRanksTest):
    def test_futures_come_by_themselves(self):
        def run(rank):
            called = []
            x = torch.ones(1000) * (rank + 1)
            future = dist.all_reduce(x, async_op=True).get_future()
            chained = future.then(lambda done: called.append(threading.current_thread().name) or done.value()[0].sum().item())
            wait_until(chained.done)
            assert future.value()[0] is x and chained.value() == 3000.0 and len(called) == 1
            done = dist.barrier(async_op=True).get_future()
            wait_until(done.done)
        self.run_ranks(2, run)

    def test_futures_of_several_operations(self):
        def run(rank):
            import weft
            for wait in (lambda future: future.wait(), torch._C.Future.wait):  # as callers in Python do, and in C++
                outputs = [torch.zeros(2), torch.zeros(2)]
                future = dist.all_to_all(outputs, [torch.full((2,), rank + 1.0)] * 2, async_op=True).get_future()
                assert all(one is other for one, other in zip(wait(future), outputs))
                assert [output.tolist() for output in outputs] == [[1.0, 1.0], [2.0, 2.0]]
            group = dist.new_group([0, 1])
            outputs, inputs = [torch.zeros(2), torch.zeros(2)], [torch.zeros(2), torch.zeros(3 - rank)]
            exchange = functools.partial(dist.all_to_all, outputs, inputs, group=group, async_op=True)
            if rank == 0:  # whose part may be done before
                with contextlib.suppress(weft.Error):
                    exchange().wait()
            else:  # the call itself raises if it comes after rank 0 has learnt of it
                error = expect_raises(weft.Error, "rank 0 sent 3 float32", lambda: exchange().get_future().wait())
                assert error.code in (weft.Result.MISMATCH, weft.Result.ABORTED), error
            dist.barrier()
        self.run_ranks(2, run)

    def test_ctrl_c_ends_a_wait_for_a_future(self):
        def run(rank):
            store, x = dist.distributed_c10d._get_default_store(), torch.ones(2)
            if rank == 1:
                store.wait(["rank 0 was interrupted"])
            future = dist.all_reduce(x, async_op=True).get_future()
            if rank == 0:
                interrupt(future.wait)
                store.set("rank 0 was interrupted", "")
            assert future.wait()[0] is x and x.tolist() == [2.0, 2.0]
        self.run_ranks(2, run)

    def test_dropped_works_keep_their_tensors(self):
        def run(rank):
            store = dist.distributed_c10d._get_default_store()
            if rank == 1:
                store.wait(["rank 0 has looked"])
            x = torch.ones(100_000)
            kept = weakref.ref(x)
            dist.all_reduce(x, async_op=True)
            parts = [torch.zeros(1000) for _ in range(2)]
            dist.all_gather(parts, torch.full((1000,), float(rank)), async_op=True)
            first = parts[0]
            del x, parts
            gc.collect()
            if rank == 0:
                assert kept() is not None, "given back while the operation was under way"
                store.set("rank 0 has looked", "")
            dist.barrier()
            wait_until(lambda: kept() is None and first[0].item() == 0 and gc.collect() is not None)
        self.run_ranks(2, run)

    def test_destroying_waits_for_what_is_under_way(self):
        def run(rank):
            if rank == 1:
                time.sleep(0.3)
            x = torch.ones(1000)
            work = dist.all_reduce(x, async_op=True)
            dist.destroy_process_group()
            assert work.is_completed() and x.tolist() == [2.0] * 1000
        self.run_ranks(2, run, destroy=False)

    def test_failures_are_the_works(self):
        def run(rank):
            import weft
            group = dist.new_group([0, 1])
            work = dist.all_reduce(torch.ones(2 + rank), group=group, async_op=True)
            future = work.get_future()
            error = expect_raises(weft.Error, "all_reduce", work.wait)
            assert error.code is weft.Result.MISMATCH and work.exception() is error and not work.is_success() and work.is_completed()
            expect_raises(RuntimeError, "all_reduce", future.wait)
            expect_raises(weft.Error, "", lambda: dist.barrier(group=group))
            dist.barrier()
        self.run_ranks(2, run)

    def test_a_wait_may_end_before_the_work(self):
        def run(rank):
            if rank == 0:
                x = torch.empty(2)
                work = dist.irecv(x, 1)
                assert not work.is_completed()
                expect_raises(RuntimeError, "not ended after the timeout of 0.05 s", lambda: work.wait(datetime.timedelta(seconds=0.05)))
                dist.send(torch.zeros(1), 1)
                work.wait()
                assert x.tolist() == [5.0, 5.0]
            else:
                dist.recv(torch.zeros(1), 0)
                dist.send(torch.full((2,), 5.0), 0)
        self.run_ranks(2, run)

    def test_coalescing_is_of_one_thread(self):
        """While one has it open, another one's operations of the same group are carried out."""
        def run(rank):
            store, count = dist.distributed_c10d._get_default_store(), 1 << 20
            if rank == 1:
                x, y = torch.zeros(count), torch.zeros(2)
                store.wait(["rank 0 has waited"])
                dist.recv(x, 0, tag=2)
                dist.recv(y, 0, tag=1)
                assert x.eq(5).all() and y.tolist() == [1.0, 1.0], (x, y)
                return
            inside, sent = threading.Event(), threading.Event()

            def coalesce():
                with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
                    dist.isend(torch.ones(2), 1, tag=1)
                    inside.set()
                    assert sent.wait(20)
                manager.wait()
            thread = threading.Thread(target=coalesce)
            thread.start()
            assert inside.wait(20)
            big = torch.full((count,), 5.0)
            work = dist.isend(big, 1, tag=2)
            expect_raises(RuntimeError, "not ended after the timeout", lambda: work.wait(datetime.timedelta(seconds=0.05)))
            store.set("rank 0 has waited", "")
            work.wait()
            big.fill_(-1)
            sent.set()
            thread.join(20)
        self.run_ranks(2, run)

    def test_threads(self):
        """As checkpoints do it: one group per thread."""
        def run(rank):
            groups, sums = [dist.new_group([0, 1]) for _ in range(4)], [None] * 4

            def work(place):
                x = torch.zeros(100)
                for turn in range(200):
                    x += dist.get_rank() + turn
                    dist.all_reduce(x, group=groups[place], async_op=bool(turn % 2)) and None
                    x = x / 2 if not turn % 2 else torch.zeros(100)
                sums[place] = x
            threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
            assert all(one is not None for one in sums)
        self.run_ranks(2, run)


class BadInput(TorchRanksTest):
    def test_refused_before_anything_is_sent(self):
        def run(rank):
            x = torch.ones(6, 6)
            for kind, sentence, call in (
                    (ValueError, "of expand()", lambda: dist.all_reduce(x[:1].expand(6, 6))),
                    (ValueError, "of expand()", lambda: dist.all_gather_into_tensor(torch.empty(12, 1).expand(12, 6), x)),
                    (ValueError, "of expand()", lambda: dist.all_gather([x, torch.empty(1, 6).expand(6, 6)], x)),
                    (ValueError, "on meta ...cpu:weft", lambda: dist.group.WORLD.allreduce([torch.ones(2, device="meta")], dist.AllreduceOptions())),
                    (ValueError, "layout torch.sparse_coo", lambda: dist.broadcast(torch.eye(2).to_sparse(), 0)),
                    (TypeError, "torch.int16", lambda: dist.all_reduce(torch.ones(2, dtype=torch.int16))),
                    (TypeError, "torch.int16", lambda: dist.all_reduce(torch.ones(2, dtype=torch.int16).to_sparse())),
                    (RuntimeError, "'Half'", lambda: dist.all_reduce(torch.ones(2, dtype=torch.float16).to_sparse())),
                    (ValueError, "output has 5 elements, it must have 4", lambda: dist.all_gather_into_tensor(torch.empty(5), torch.ones(2))),
                    (ValueError, "the input has 5 elements, it must have 4", lambda: dist.reduce_scatter_tensor(torch.empty(2), torch.ones(5))),
                    (TypeError, "different dtypes", lambda: dist.group.WORLD.all_gather_single(torch.empty(4), torch.ones(2, dtype=torch.float64))),
                    (ValueError, "1 outputs were given in a group of 2 ranks", lambda: dist.group.WORLD.allgather([[torch.empty(1)]], [torch.ones(1)])),
                    (ValueError, "does not divide equally", lambda: dist.all_to_all_single(torch.empty(3), torch.ones(3))),
                    (ValueError, "the output has 3 rows, and there are 2 ranks", lambda: dist.all_to_all_single(torch.empty(3, 2), torch.ones(3, 2))),
                    (ValueError, "the input has 3 rows", lambda: dist.all_to_all_single(torch.empty(2, 3), torch.ones(3, 2))),
                    (ValueError, "Split sizes", lambda: dist.all_to_all_single(torch.empty(3), torch.ones(3), [1, 1], [1, 2])),
                    (ValueError, "Number of tensor splits", lambda: dist.all_to_all_single(torch.empty(3), torch.ones(3), [3], [1, 2])),
                    (ValueError, "of expand()", lambda: dist.all_to_all([torch.empty(6, 6), torch.empty(1).expand(6, 6)], [x, x])),
                    (TypeError, "torch.int16", lambda: dist.group.WORLD.allreduce_coalesced([x, x.to(torch.int16)], _coalesced_options())),
                    (ValueError, "tag is -1", lambda: dist.send(x, 1 - rank, tag=-1)),
                    (ValueError, "rank 5 is not in the group, which has ranks 0 to 1", lambda: dist.irecv(x, 5)),
                    (ValueError, "one tensor per rank", lambda: dist.group.WORLD.allreduce([x, x], dist.AllreduceOptions())),
                    (ValueError, "complex", lambda: dist.group.WORLD.allreduce([x.to(torch.complex64)], _options(dist.ReduceOp.MAX))),
            ):
                expect_raises(kind, sentence, call)
            y = torch.ones(2)
            dist.all_reduce(y)
            assert y.tolist() == [2.0, 2.0]
        self.run_ranks(2, run)

    def test_a_batch_that_is_refused_leaves_nothing_behind(self):
        """torch does not end coalescing then."""
        import torch.testing._internal.distributed.fake_pg  # noqa: F401, PLC0415

        def run(rank):
            peer, good, group, got = 1 - rank, torch.full((2,), 1.0 + rank), dist.new_group([0, 1]), torch.zeros(2)
            for bad, sentence in ((dist.P2POp(dist.irecv, torch.zeros(1).expand(2), peer), "of expand()"),
                                  (dist.P2POp(dist.isend, good, 5), "rank 5 is not in the group")):
                operations = [dist.P2POp(dist.irecv, got, peer), bad]
                expect_raises(ValueError, sentence, lambda operations=operations: dist.batch_isend_irecv(operations))
                for one in (group, None):
                    x = torch.ones(2)
                    dist.all_reduce(x, group=one)
                    assert x.tolist() == [2.0, 2.0] and got.tolist() == [0.0, 0.0], (sentence, x, got)

            def fail():
                with dist._coalescing_manager(device=torch.device("cpu")):
                    works.append(dist.isend(good, peer))
                    works[0].wait()
                    raise LookupError("of the program's")
            works = []
            expect_raises(LookupError, "of the program's", fail)
            assert not works[0].is_completed()
            expect_raises(RuntimeError, "not started, because an exception", works[0].wait)
            with dist._coalescing_manager(device=torch.device("cpu")):
                expect_raises(ValueError, "of expand()", lambda: dist.irecv(torch.zeros(1).expand(2), peer))
                dist.isend(good, peer)
                dist.irecv(got, peer)
            assert got.tolist() == [1.0 + peer] * 2, got
        for backend in ("weft", "cpu:weft,meta:fake"):
            self.run_ranks(2, run, backend=backend)

    def test_ranks_that_differ_are_named(self):
        def run(rank):
            import weft
            for call in (lambda group: dist.all_reduce(torch.ones(2 + rank), group=group),
                         lambda group: dist.all_reduce(torch.ones(2, dtype=(torch.float32, torch.int64)[rank]), group=group),
                         lambda group: (dist.barrier, lambda group: dist.broadcast(torch.ones(1), 0, group=group))[rank](group),
                         lambda group: dist.all_reduce(torch.ones(2), (dist.ReduceOp.SUM, dist.ReduceOp.MAX)[rank], group=group)):
                group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=20))
                error = expect_raises(weft.Error, "rank", lambda: call(group))
                assert error.code is weft.Result.MISMATCH, error
        self.run_ranks(2, run)

    def test_sparse_tensors_that_differ_are_named_and_the_group_goes_on(self):
        def run(rank):
            import weft
            torch.sparse.check_sparse_tensor_invariants.enable()
            for shape, dtype in (((5,), torch.float32), ((4,), torch.float64), ((4, 2), torch.float32)):
                x = (torch.ones(shape, dtype=dtype) if rank else torch.ones(4)).to_sparse()
                error = expect_raises(weft.Error, f"rank 1 has {dtype} of shape {shape}...rank 0 has torch.float32 of shape (4,)", lambda x=x: dist.all_reduce(x))
                assert error.code is weft.Result.MISMATCH and error.rank == 1
            x = torch.ones(4).to_sparse()
            dist.all_reduce(x)
            assert x.to_dense().tolist() == [2.0] * 4
        self.run_ranks(2, run)

    def test_a_dead_peer_is_named_within_a_second(self):
        def run(rank):
            import weft
            if rank == 1:
                dist.barrier()
                os.kill(os.getpid(), signal.SIGKILL)
            dist.barrier()
            start = time.monotonic()
            error = expect_raises(weft.Error, "rank 1", lambda: dist.all_reduce(torch.ones(3)))
            assert error.code is weft.Result.PEER_LOST and error.rank == 1 and time.monotonic() - start < 5, error
            # No goodbye: the peers that live are not to be asked.
            os._exit(7)
        self.run_ranks(3, run, expect_codes=[7, -signal.SIGKILL, 7])

    def test_a_dead_peer_ends_monitored_barrier(self):
        for victim in (0, 2):
            def run(rank, victim=victim):
                dist.barrier()
                if rank == victim:
                    os.kill(os.getpid(), signal.SIGKILL)
                start = time.monotonic()
                expect_raises(RuntimeError, f"rank {victim}...killed by signal 9" if rank == 0 or victim == 0 else "received errors...killed by signal 9",
                              lambda: dist.monitored_barrier(timeout=datetime.timedelta(seconds=60)))
                assert time.monotonic() - start < 10
                time.sleep(0.5)  # the others are to be told by this rank
                os._exit(7)
            with self.subTest(victim=victim):
                self.run_ranks(3, run, expect_codes=[-signal.SIGKILL if rank == victim else 7 for rank in range(3)])

    def test_a_dead_peer_ends_the_backward_of_ddp(self):
        """Where C++ waits for the futures of works, and looks into them."""
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
        hooks = {"none": lambda model: None, "weft's": lambda model: model.register_comm_hook(None, weft_hook()),
                 "torch's": lambda model: model.register_comm_hook(None, default_hooks.fp16_compress_hook)}

        def weft_hook():
            import weft.torch
            return weft.torch.ddp_hook()

        for name, register in hooks.items():
            def run(rank, register=register):
                model = DistributedDataParallel(torch.nn.Linear(8, 8))
                register(model)
                for _ in range(3):
                    model(torch.ones(1, 8)).sum().backward()
                if rank == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                expect_raises(RuntimeError, "rank 1...killed by signal 9", lambda: model(torch.ones(1, 8)).sum().backward())
                os._exit(7)
            with self.subTest(hook=name):
                self.run_ranks(2, run, expect_codes=[7, -signal.SIGKILL])

    def test_forked_children_are_refused(self):
        def run(rank):
            import weft
            child = os.fork()
            if child == 0:
                try:
                    dist.all_reduce(torch.ones(1))
                except weft.Error as error:
                    os._exit(3 if error.code is weft.Result.FORKED else 4)
                os._exit(5)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
            dist.barrier()
        self.run_ranks(2, run)


def _coalesced_options():
    from torch._C._distributed_c10d import AllreduceCoalescedOptions
    return AllreduceCoalescedOptions()


def _options(op):
    options = dist.AllreduceOptions()
    options.reduceOp = op
    return options


if __name__ == "__main__":
    torch_ranks.main()
