"""Tensors whose elements do not lie by rows: transposed, channels last, parts of others, views that torch negates. Every operation takes the
elements in the order of rows, on each rank wherever they lie there."""
import itertools
import math
import warnings

import torch_ranks
from torch_ranks import TorchRanksTest, dist, torch

_SIZE, _SHAPE = 2, (4, 6)


def number(rank, *shape):
    return (torch.arange(math.prod(shape), dtype=torch.float32) * (rank + 1) + rank).view(shape)


def transposed(x):
    return x.t().contiguous().t()


def every_second(x):
    wide = torch.zeros(x.shape[0], 2 * x.shape[1], dtype=x.dtype)
    wide[:, ::2] = x
    return wide[:, ::2]


def negated(x):
    return torch._neg_view(-x)


def by_rows(x):
    return x.clone()


def all_reduce(give, take, mine, all_, **how):
    x = give(mine)
    return x, sum(all_), dist.all_reduce(x, **how)


def broadcast(give, take, mine, all_, **how):
    x = give(mine)
    return x, all_[1], dist.broadcast(x, 1, **how)


def reduce(give, take, mine, all_, **how):
    x = give(mine)
    return x, sum(all_) if dist.get_rank() == 0 else mine, dist.reduce(x, 0, **how)


def all_gather_into_tensor(give, take, mine, all_, **how):
    y = take(torch.zeros(8, 6))
    return y, torch.cat(all_), dist.all_gather_into_tensor(y, give(mine), **how)


def reduce_scatter_tensor(give, take, mine, all_, **how):
    y, first = take(torch.zeros(2, 6)), 2 * dist.get_rank()
    return y, sum(all_)[first:first + 2], dist.reduce_scatter_tensor(y, give(mine), **how)


def all_to_all_single(give, take, mine, all_, **how):
    y, first = take(torch.zeros(_SHAPE)), 2 * dist.get_rank()
    return y, torch.cat([one[first:first + 2] for one in all_]), dist.all_to_all_single(y, give(mine), **how)


def all_to_all_with_splits(give, take, mine, all_, **how):
    rows = (1, 3)[dist.get_rank()]
    y = take(torch.zeros(2 * rows, 6))
    return y, torch.cat([one[:1] if rows == 1 else one[1:] for one in all_]), dist.all_to_all_single(y, give(mine), [rows, rows], [1, 3], **how)


def all_gather(give, take, mine, all_, **how):
    outputs = [take(torch.zeros(_SHAPE)), give(torch.zeros(_SHAPE))]
    return outputs, all_, dist.all_gather(outputs, give(mine), **how)


def all_gather_of_different_sizes(give, take, mine, all_, **how):
    outputs = [take(torch.zeros(4, 6)), take(torch.zeros(2, 6))]
    work = dist.group.WORLD.allgather([outputs], [give(mine)[:(4, 2)[dist.get_rank()]]])
    work.wait()
    return outputs, [all_[0], all_[1][:2]], None


def gather(give, take, mine, all_, **how):
    outputs = [take(torch.zeros(_SHAPE)), give(torch.zeros(_SHAPE))] if dist.get_rank() == 0 else None
    return outputs or [], all_ if outputs else [], dist.gather(give(mine), outputs, 0, **how)


def scatter(give, take, mine, all_, **how):
    y = take(torch.zeros(_SHAPE))
    return y, all_[dist.get_rank()], dist.scatter(y, [give(one) for one in all_] if dist.get_rank() == 0 else None, 0, **how)


def reduce_scatter(give, take, mine, all_, **how):
    y = take(torch.zeros(_SHAPE))
    return y, sum(all_) + _SIZE * dist.get_rank(), dist.reduce_scatter(y, [give(mine), take(mine + 1)], **how)


def all_to_all(give, take, mine, all_, **how):
    outputs = [take(torch.zeros(_SHAPE)), give(torch.zeros(_SHAPE))]
    return outputs, [one + dist.get_rank() for one in all_], dist.all_to_all(outputs, [give(mine), take(mine + 1)], **how)


def coalesced(give, take, mine, all_, **how):
    tensors = [give(mine), take(mine + 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tensors, [sum(all_), sum(all_) + _SIZE], dist.all_reduce_coalesced(tensors, **how)


def coalesced_of_two_types(give, take, mine, all_, **how):
    tensors, options = [give(mine), take(mine.double())], torch._C._distributed_c10d.AllreduceCoalescedOptions()
    options.asyncOp = how["async_op"]
    return tensors, [sum(all_), sum(all_).double()], dist.group.WORLD.allreduce_coalesced(tensors, options)


def in_a_manager(give, take, mine, all_, async_op):
    x, y = give(mine), take(mine + 1)
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=async_op) as manager:
        dist.all_reduce(x)
        dist.all_reduce(y)
    return [x, y], [sum(all_), sum(all_) + _SIZE], manager


def messages(give, take, mine, all_, async_op):
    x, y, peer = give(mine), take(torch.zeros(_SHAPE)), 1 - dist.get_rank()
    if not async_op:
        for function in (dist.send, dist.recv)[::1 if dist.get_rank() else -1]:
            function(*((x, peer) if function is dist.send else (y, peer)))
        return y, all_[peer], None
    sent, received = dist.isend(x, peer), dist.irecv(y)
    sent.wait()
    return y, all_[peer], received


_OPERATIONS = (all_reduce, broadcast, reduce, all_gather_into_tensor, reduce_scatter_tensor, all_to_all_single, all_to_all_with_splits, all_gather,
               all_gather_of_different_sizes, gather, scatter, reduce_scatter, all_to_all, coalesced, coalesced_of_two_types, in_a_manager, messages)


def equal(found, wanted):
    if isinstance(found, list):
        return len(found) == len(wanted) and all(map(equal, found, wanted))
    return torch.equal(found, wanted)


class Strides(TorchRanksTest):
    def test_every_operation(self):
        def run(rank):
            all_ = [number(place, *_SHAPE) for place in range(_SIZE)]
            for operation, give, take, asynchronous in itertools.product(_OPERATIONS, (transposed, every_second, negated, by_rows),
                                                                         (transposed, every_second, negated, by_rows), (False, True)):
                ways = (give, take) if rank else (take, give)  # other strides on other ranks
                found, wanted, work = operation(*ways, all_[rank].clone(), all_, async_op=asynchronous)
                if asynchronous and work is not None:
                    work.wait()
                assert equal(found, wanted), (operation, give, take, asynchronous, found, wanted)
        self.run_ranks(_SIZE, run)

    def test_with_several_backends(self):
        """torch has the works then, and asks for futures."""
        import torch.testing._internal.distributed.fake_pg  # noqa: F401, PLC0415

        def run(rank):
            x = transposed(number(rank, *_SHAPE))
            future = dist.all_reduce(x, async_op=True).get_future()
            future.wait()
            assert torch.equal(x, sum(number(place, *_SHAPE) for place in range(_SIZE)))
        self.run_ranks(_SIZE, run, backend="cpu:weft,meta:fake")

    def test_complex_numbers_and_images(self):
        def run(rank):
            total = sum(number(place, *_SHAPE) for place in range(_SIZE))
            z = transposed(torch.complex(number(rank, *_SHAPE), -number(rank, *_SHAPE)))
            dist.all_reduce(z)
            assert torch.equal(z.real, total) and torch.equal(z.imag, -total), z
            for format_, other in ((torch.channels_last, torch.contiguous_format), (torch.channels_last, torch.channels_last)):
                x = number(rank, 2, 3, 4, 5).contiguous(memory_format=other if rank else format_)
                strides = x.stride()
                dist.all_reduce(x)
                assert torch.equal(x, sum(number(place, 2, 3, 4, 5) for place in range(_SIZE))) and x.stride() == strides
        self.run_ranks(_SIZE, run)

    def test_of_models_whose_images_lie_channels_last(self):
        from torch.distributed.algorithms.model_averaging.utils import average_parameters
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
        from torch.distributed.optim import ZeroRedundancyOptimizer

        def model(last, seed):
            torch.manual_seed(seed)
            made = torch.nn.Conv2d(3, 4, 3)
            return made.to(memory_format=torch.channels_last) if last else made

        def run(rank):
            weights = []
            for last in (False, True):
                trained = torch.nn.parallel.DistributedDataParallel(model(last, 0))
                optimizer = ZeroRedundancyOptimizer(trained.parameters(), torch.optim.SGD, lr=0.1)
                for _ in range(2):
                    optimizer.zero_grad()
                    trained(torch.ones(1, 3, 4, 4)).sum().backward()
                    optimizer.step()
                weights.append(trained.module.weight.detach())
            torch.testing.assert_close(weights[1].contiguous(), weights[0])
            # Channels last on one rank alone.
            averaged = model(rank, rank)
            average_parameters(averaged.parameters(), dist.group.WORLD)
            torch.testing.assert_close(averaged.weight.detach().contiguous(), ((model(False, 0).weight + model(False, 1).weight) / 2).detach())
            full = {name: tensor.clone() for name, tensor in model(True, 7).state_dict().items()} if rank == 0 else {}
            loaded = model(rank, rank)
            set_model_state_dict(loaded, full, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
            assert torch.equal(loaded.weight, model(False, 7).weight)
        self.run_ranks(_SIZE, run)


if __name__ == "__main__":
    torch_ranks.main()
