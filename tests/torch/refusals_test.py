"""A rank that refuses an operation tells the others at once; what all ranks refuse leaves the group as it was."""
import os
import time
import warnings

import torch_ranks
from torch_ranks import TorchRanksTest, dist, torch

import weft

# Of 60 s, after which a rank would give up.
_SOON_S, _TIMEOUT_S = 20, 60
warnings.filterwarnings("ignore", category=UserWarning)  # of torch's: sparse tensors of that layout are in beta state
warnings.filterwarnings("ignore", category=FutureWarning)  # and all_reduce_coalesced is to go


def sparse():
    return torch.eye(3).to_sparse_csr()


def on_no_device():
    return torch.ones(4, device="meta")


def options(kind, **values):
    made = kind()
    for name, value in values.items():
        setattr(made, name, value)
    return made


# By what torch calls it: the name that others are told, what is refused, and what is right.
_OPERATIONS = {
    "all_reduce of a sparse tensor": ("all_reduce", lambda g: dist.all_reduce(sparse(), group=g), lambda g: dist.all_reduce(torch.ones(4), group=g)),
    "all_reduce of another device": ("all_reduce", lambda g: dist.all_reduce(on_no_device(), group=g), lambda g: dist.all_reduce(torch.ones(4), group=g)),
    "all_reduce of a type": ("all_reduce", lambda g: dist.all_reduce(torch.ones(4, dtype=torch.int16), group=g), lambda g: dist.all_reduce(torch.ones(4), group=g)),
    "all_reduce, started": ("all_reduce", lambda g: dist.all_reduce(sparse(), async_op=True, group=g), lambda g: dist.all_reduce(torch.ones(4), async_op=True, group=g).wait()),
    "broadcast": ("broadcast", lambda g: dist.broadcast(on_no_device(), 0, group=g), lambda g: dist.broadcast(torch.ones(4), 0, group=g)),
    "reduce": ("reduce", lambda g: dist.reduce(sparse(), 0, group=g), lambda g: dist.reduce(torch.ones(4), 0, group=g)),
    "all_gather": ("all_gather", lambda g: dist.all_gather([sparse() for _ in range(3)], torch.ones(4), group=g),
                   lambda g: dist.all_gather([torch.ones(4) for _ in range(3)], torch.ones(4), group=g)),
    "all_gather_into_tensor": ("all_gather", lambda g: dist.all_gather_into_tensor(torch.ones(5), torch.ones(4), group=g),
                               lambda g: dist.all_gather_into_tensor(torch.ones(4 * 3), torch.ones(4), group=g)),
    "reduce_scatter_tensor": ("reduce_scatter", lambda g: dist.reduce_scatter_tensor(torch.ones(4), torch.ones(5), group=g),
                              lambda g: dist.reduce_scatter_tensor(torch.ones(4), torch.ones(4 * 3), group=g)),
    "all_to_all_single": ("all_to_all", lambda g: dist.all_to_all_single(torch.ones(7), torch.ones(7), group=g),
                          lambda g: dist.all_to_all_single(torch.ones(2 * 3), torch.ones(2 * 3), group=g)),
    "gather": ("gather", lambda g: g.gather([], [on_no_device()], options(dist.GatherOptions, rootRank=0)),
               lambda g: dist.gather(torch.ones(4), [torch.ones(4) for _ in range(3)] if dist.get_rank() == 0 else None, group=g)),
    "coalesced": ("all_reduce", lambda g: dist.all_reduce_coalesced([torch.ones(4), on_no_device()], group=g), lambda g: dist.all_reduce_coalesced([torch.ones(4), torch.ones(3)], group=g)),
}


def refusal_of(operation, *group):
    try:
        operation(*group)
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"
    return None


class Refusals(TorchRanksTest):
    def test_one_rank_tells_the_others_at_once(self):
        def rank(number):
            told = []
            for name, (weft_name, refused, right) in _OPERATIONS.items():
                group = dist.new_group()  # each ends with its operation
                begin, failure = time.monotonic(), None
                try:
                    if number == 1:
                        told.append((name, refusal_of(refused, group)))
                    else:
                        right(group)
                except weft.Error as error:
                    failure = error
                while failure is None and time.monotonic() - begin < _SOON_S:  # it may have done its part
                    failure = group.communicator.failure()
                assert time.monotonic() - begin < _SOON_S, name
                told.append((name, weft_name, failure.code, failure.rank, str(failure)))
            return told

        results = self.run_ranks(3, rank, timeout=_TIMEOUT_S, destroy=False)
        exceptions = dict(one for one in results[1] if len(one) == 2)
        for told in results:
            for name, weft_name, code, culprit, sentence in (one for one in told if len(one) > 2):
                with self.subTest(name):
                    self.assertEqual((code, culprit), (weft.Result.MISMATCH, 1), sentence)
                    self.assertIn(f" refused {weft_name}", sentence)
                    self.assertIn(f"rank 1 says: {exceptions[name]}"[:300], sentence)

    def test_what_all_ranks_refuse_leaves_the_group_as_it_was(self):
        def rank(number):
            raised = []
            for name, (_, refused, _) in _OPERATIONS.items():
                for _ in range(3):
                    raised.append((name, refusal_of(refused, dist.group.WORLD) is not None))
                x = torch.full((5,), float(number))
                dist.all_reduce(x)
                assert x.tolist() == [3.0] * 5, x
            # Each for a reason of its own.
            refusal_of(lambda: (dist.all_reduce(sparse()) if number else dist.broadcast(on_no_device(), 0)))
            with_works = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(3)]
            assert refusal_of(lambda: dist.all_reduce(sparse())) is not None
            for work in with_works:
                work.wait()
            dist.barrier()
            return raised

        for raised in self.run_ranks(3, rank, timeout=_TIMEOUT_S):
            self.assertEqual([name for name, was in raised if not was], [])

    def test_over_nodes(self):
        os.environ["WEFT_FAKE_NODES"] = "2"
        self.addCleanup(os.environ.pop, "WEFT_FAKE_NODES")

        def rank(number):
            assert refusal_of(lambda: dist.all_reduce(sparse())) is not None
            x = torch.ones(1000)
            dist.all_reduce(x)
            assert x[0] == 4
            begin = time.monotonic()
            try:
                dist.all_reduce(sparse() if number == 3 else x)
            except ValueError:
                return "refused"
            except weft.Error as error:
                assert time.monotonic() - begin < _SOON_S
                return str(error)

        results = self.run_ranks(4, rank, timeout=_TIMEOUT_S, destroy=False)
        self.assertEqual(results[3], "refused")
        self.assertEqual(len(set(results[:3])), 1, results)
        self.assertIn("refused all_reduce", results[0])
        self.assertIn("rank 3 says: ValueError: ", results[0])

    def test_an_exception_of_a_signal_handler_is_no_refusal(self):
        import signal  # noqa: PLC0415

        def rank(number):
            def handler(*_):
                raise KeyError("the handler's")

            signal.signal(signal.SIGALRM, handler)
            group = dist.new_group()
            if number == 1:
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                return refusal_of(lambda: dist.barrier(group))
            while group.communicator.failure() is None:
                time.sleep(0.001)
            return group.communicator.failure().code

        code, raised = self.run_ranks(2, rank, timeout=_TIMEOUT_S, destroy=False)
        self.assertEqual(raised, "KeyError: \"the handler's\"")
        self.assertNotEqual(code, weft.Result.MISMATCH)

    def test_nobody_waits_for_a_rank_that_refuses_alone_to_go(self):
        def rank(number):
            if number == 0:
                assert refusal_of(lambda: dist.all_reduce(sparse())) is not None

        self.run_ranks(2, rank, timeout=_TIMEOUT_S)


if __name__ == "__main__":
    torch_ranks.main()
