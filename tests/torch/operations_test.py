"""Every operation of torch.distributed on weft against what its definition says, for all types, shapes of lists and ranks, blocking and started."""
import itertools
import random
import unittest

import torch_ranks
from torch_ranks import TorchRanksTest, dist, torch

_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_INTEGERS = (torch.int8, torch.uint8, torch.int32, torch.int64)
_MOVED = (*_FLOATS, *_INTEGERS, torch.bool, torch.int16, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2)
_BYTES = (torch.float8_e4m3fn, torch.float8_e5m2)  # torch compares none of these
_COUNTS = (1, 5, 1000, 70000)


def numbers(rank, count, dtype, seed=0):
    """What a rank has: small whole numbers, whose sums and products every type has exactly."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    return torch.randint(0, 3, (count,), generator=generator).to(torch.float32).to(dtype)


def of_all(size, count, dtype, seed=0):
    return torch.stack([numbers(rank, count, dtype, seed).to(torch.complex128 if dtype.is_complex else torch.float64) for rank in range(size)])


def reduced(op, values):
    if op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
        return values.sum(0) / (len(values) if op == dist.ReduceOp.AVG else 1)
    return {dist.ReduceOp.PRODUCT: lambda: values.prod(0), dist.ReduceOp.MAX: lambda: values.max(0).values,
            dist.ReduceOp.MIN: lambda: values.min(0).values}[op]()


def expect_equal(got, wanted, what):
    """`wanted` may be of a wider type, whose values are rounded; those of integers are cut."""
    wanted = wanted.to(got.dtype)
    same = torch.equal(got, wanted) if got.dtype not in _BYTES else torch.equal(got.view(torch.uint8), wanted.view(torch.uint8))
    assert same, f"{what}: {got.flatten()[:8]} is not {wanted.flatten()[:8]}"


def finish(work, asynchronous):
    if asynchronous:
        assert work is not None
        work.wait()
        assert work.is_completed() and work.is_success() and work.exception() is None
    else:
        assert work is None


class Operations(TorchRanksTest):
    def test_reductions(self):
        def rank_of(size):
            def run(rank):
                ops = (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.AVG)
                for op, dtype, count in itertools.product(ops, (*_FLOATS, *_INTEGERS), _COUNTS[:3]):
                    wanted = reduced(op, of_all(size, count, dtype))
                    for asynchronous in (False, True):
                        x = numbers(rank, count, dtype)
                        finish(dist.all_reduce(x, op, async_op=asynchronous), asynchronous)
                        expect_equal(x, wanted, f"all_reduce {op} {dtype} {count}")
                        x, root = numbers(rank, count, dtype), count % size
                        finish(dist.reduce(x, root, op, async_op=asynchronous), asynchronous)
                        if rank == root:
                            expect_equal(x, wanted, f"reduce {op} {dtype} {count}")
                        part = torch.empty(count, dtype=dtype)
                        finish(dist.reduce_scatter_tensor(part, numbers(rank, count * size, dtype), op, async_op=asynchronous), asynchronous)
                        expect_equal(part, reduced(op, of_all(size, count * size, dtype))[rank * count:(rank + 1) * count], f"reduce_scatter {op} {dtype} {count}")
            return run
        for size in (1, 2, 3):
            self.run_ranks(size, rank_of(size))

    def test_bits_bools_complex_and_factors(self):
        def run(rank):
            for op, wanted in ((dist.ReduceOp.BAND, 0b1000), (dist.ReduceOp.BOR, 0b1111), (dist.ReduceOp.BXOR, 0b0111)):
                for dtype in _INTEGERS:
                    x = torch.full((3,), 0b1100 if rank == 0 else 0b1011, dtype=dtype)
                    dist.all_reduce(x, op)
                    assert x.tolist() == [wanted] * 3, (op, dtype, x)
            for op, wanted in ((dist.ReduceOp.MAX, [True, True, False]), (dist.ReduceOp.MIN, [False, True, False]), (dist.ReduceOp.SUM, [True, True, False])):
                x = torch.tensor([rank == 1, True, False])
                dist.all_reduce(x, op)
                assert x.tolist() == wanted, (op, x)
            for dtype in (torch.complex64, torch.complex128):
                for op, wanted in ((dist.ReduceOp.SUM, 2 + 1j), (dist.ReduceOp.AVG, 1 + 0.5j)):
                    x = torch.full((4,), complex(1, rank), dtype=dtype)
                    dist.all_reduce(x, op)
                    assert x.tolist() == [wanted] * 4, (op, x)
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                x = torch.full((5,), 2.0 + rank, dtype=dtype)
                dist.all_reduce(x, dist._make_nccl_premul_sum(0.5 * (rank + 1)))
                assert x.tolist() == [4.0] * 5, x
            for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
                x = torch.tensor([1.0, 2.0, 0.5]).to(dtype)
                dist.all_reduce(x)
                assert x.to(torch.float32).tolist() == [2.0, 4.0, 1.0], x
        self.run_ranks(2, run)

    def test_moves(self):
        def rank_of(size):
            def run(rank):
                for dtype, count, asynchronous in itertools.product(_MOVED, _COUNTS, (False, True)):
                    what = f"{dtype} {count}"
                    everything = [numbers(r, count, dtype) for r in range(size)]
                    root = count % size
                    x = everything[rank].clone()
                    finish(dist.broadcast(x, root, async_op=asynchronous), asynchronous)
                    expect_equal(x, everything[root], f"broadcast {what}")
                    whole = torch.empty(size * count, dtype=dtype)
                    finish(dist.all_gather_into_tensor(whole, everything[rank], async_op=asynchronous), asynchronous)
                    expect_equal(whole, torch.cat(everything), f"all_gather_into_tensor {what}")
                    # One list of tensors that stand alone, one of a tensor's chunks.
                    for parts in ([torch.empty(count, dtype=dtype) for _ in range(size)], list(torch.empty(size * count, dtype=dtype).chunk(size))):
                        finish(dist.all_gather(parts, everything[rank], async_op=asynchronous), asynchronous)
                        for part, wanted in zip(parts, everything):
                            expect_equal(part, wanted, f"all_gather {what}")
                    parts = [torch.empty(count, dtype=dtype) for _ in range(size)] if rank == root else None
                    finish(dist.gather(everything[rank], parts, root, async_op=asynchronous), asynchronous)
                    for part, wanted in zip(parts or [], everything):
                        expect_equal(part, wanted, f"gather {what}")
                    part = torch.empty(count, dtype=dtype)
                    finish(dist.scatter(part, [numbers(root, count, dtype, r + 1) for r in range(size)] if rank == root else None, root, async_op=asynchronous),
                           asynchronous)
                    expect_equal(part, numbers(root, count, dtype, rank + 1), f"scatter {what}")
                    parts = [torch.empty(count, dtype=dtype) for _ in range(size)]
                    finish(dist.all_to_all(parts, [numbers(rank, count, dtype, r + 1) for r in range(size)], async_op=asynchronous), asynchronous)
                    for r, part in enumerate(parts):
                        expect_equal(part, numbers(r, count, dtype, rank + 1), f"all_to_all {what}")
                    whole = torch.empty(size * count, dtype=dtype)
                    finish(dist.all_to_all_single(whole, torch.cat([numbers(rank, count, dtype, r + 1) for r in range(size)]), async_op=asynchronous), asynchronous)
                    expect_equal(whole, torch.cat([numbers(r, count, dtype, rank + 1) for r in range(size)]), f"all_to_all_single {what}")
            return run
        for size in (1, 2, 3):
            self.run_ranks(size, rank_of(size))

    def test_parts_of_different_sizes(self):
        seed = random.randrange(1 << 30)
        print("seed", seed)

        def run(rank):
            size, draw = 3, random.Random(seed)
            for _ in range(20):
                counts = [draw.choice((0, 1, 3, 700)) for _ in range(size)]
                columns = draw.choice((1, 4))
                given = torch.arange(counts[rank] * columns, dtype=torch.float32).reshape(-1, columns) + 1000 * rank
                parts = [torch.empty(count, columns) for count in counts]
                if sum(counts):
                    dist.all_gather(parts, given)
                    for r, part in enumerate(parts):
                        assert torch.equal(part, torch.arange(counts[r] * columns, dtype=torch.float32).reshape(-1, columns) + 1000 * r)
                    part = torch.empty(counts[rank], columns)
                    dist.reduce_scatter(part, [torch.full((count, columns), float(rank + r)) for r, count in enumerate(counts)])
                    assert torch.equal(part, torch.full_like(part, 3.0 + 3 * rank)), part
                table = [[draw.choice((0, 1, 5, 300)) for _ in range(size)] for _ in range(size)]  # [from][to]
                into, out_of = [table[r][rank] for r in range(size)], table[rank]
                taken = torch.empty(sum(into), columns)
                dist.all_to_all_single(taken, torch.cat([torch.full((count, columns), float(10 * rank + r)) for r, count in enumerate(out_of)]), into, out_of)
                assert torch.equal(taken, torch.cat([torch.full((count, columns), float(10 * r + rank)) for r, count in enumerate(into)]))
                parts = [torch.empty(count, columns) for count in into]
                dist.all_to_all(parts, [torch.full((count, columns), float(10 * rank + r)) for r, count in enumerate(out_of)])
                for r, part in enumerate(parts):
                    assert torch.equal(part, torch.full_like(part, 10.0 * r + rank))
        self.run_ranks(3, run)

    def test_coalesced(self):
        def run(rank):
            for asynchronous in (False, True):
                for dtypes in ((torch.float32,) * 3, (torch.float32, torch.int64, torch.bfloat16)):
                    xs = [numbers(rank, 10 * (place + 1), dtype, place) for place, dtype in enumerate(dtypes)]
                    with dist._coalescing_manager(async_ops=asynchronous) as manager:
                        for x in xs:
                            dist.all_reduce(x)
                    if asynchronous:
                        manager.wait()
                    for place, (x, dtype) in enumerate(zip(xs, dtypes)):
                        expect_equal(x, of_all(2, 10 * (place + 1), dtype, place).sum(0), f"coalesced all_reduce {dtype}")
                    wholes = [torch.empty(2 * 10 * (place + 1), dtype=dtype) for place, dtype in enumerate(dtypes)]
                    with dist._coalescing_manager(async_ops=asynchronous) as manager:
                        for place, (whole, dtype) in enumerate(zip(wholes, dtypes)):
                            dist.all_gather_into_tensor(whole, numbers(rank, 10 * (place + 1), dtype, place))
                    if asynchronous:
                        manager.wait()
                    for place, (whole, dtype) in enumerate(zip(wholes, dtypes)):
                        expect_equal(whole, of_all(2, 10 * (place + 1), dtype, place).flatten(), f"coalesced all_gather {dtype}")
                    parts = [torch.empty(10 * (place + 1), dtype=dtype) for place, dtype in enumerate(dtypes)]
                    with dist._coalescing_manager(async_ops=asynchronous) as manager:
                        for place, (part, dtype) in enumerate(zip(parts, dtypes)):
                            dist.reduce_scatter_tensor(part, numbers(rank, 2 * 10 * (place + 1), dtype, place))
                    if asynchronous:
                        manager.wait()
                    for place, (part, dtype) in enumerate(zip(parts, dtypes)):
                        expect_equal(part, of_all(2, 2 * 10 * (place + 1), dtype, place).sum(0).chunk(2)[rank], f"coalesced reduce_scatter {dtype}")
            with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
                x, y = torch.ones(3), torch.ones(5) * rank
                dist.broadcast(y, 1)
                dist.reduce(x, 0)
            manager.wait()
            assert y.tolist() == [1.0] * 5 and (rank or x.tolist() == [2.0] * 3)
        self.run_ranks(2, run)

    def test_sparse(self):
        def run(rank):
            torch.sparse.check_sparse_tensor_invariants.enable()
            for count in (0, 1, 4):
                x = torch.sparse_coo_tensor([[(rank + i) % 5 for i in range(count + rank)]], torch.ones(count + rank, 2), (5, 2))
                dense = torch.stack([torch.sparse_coo_tensor([[(r + i) % 5 for i in range(count + r)]], torch.ones(count + r, 2), (5, 2)).to_dense()
                                     for r in range(3)]).sum(0)
                dist.all_reduce(x)
                assert torch.equal(x.to_dense(), dense), (x, dense)
        self.run_ranks(3, run)


    def test_lists_of_views_that_torch_negates(self):
        def run(rank):
            for give in (torch._neg_view, lambda x: torch.complex(x, x).conj().imag):
                part, parts = torch.empty(3), [give(torch.full((3,), rank + 1.0)).contiguous(), give(torch.full((6,), rank + 1.0))[:3]]
                assert parts[1].is_neg()
                dist.reduce_scatter(part, parts)
                assert part.tolist() == [-3.0] * 3, part
            taken = torch._neg_view(torch.zeros(6)).chunk(2)
            dist.all_gather(list(taken), torch.full((3,), rank + 1.0))
            assert [one.tolist() for one in taken] == [[1.0] * 3, [2.0] * 3], taken
        self.run_ranks(2, run)


class Messages(TorchRanksTest):
    def test_between_all_with_tags_and_types(self):
        def run(rank):
            size = 3
            for dtype, count in itertools.product(_MOVED, (1, 70000)):
                received = {(peer, tag): torch.empty(count, dtype=dtype) for peer in range(size) if peer != rank for tag in (0, 7)}
                works = [dist.irecv(tensor, peer, tag=tag) for (peer, tag), tensor in received.items()]
                works += [dist.isend(numbers(rank, count, dtype, tag), peer, tag=tag) for peer in range(size) if peer != rank for tag in (7, 0)]
                for work in works:
                    work.wait()
                for (peer, tag), tensor in received.items():
                    expect_equal(tensor, numbers(peer, count, dtype, tag), f"message {dtype} {count}")
        self.run_ranks(3, run)

    def test_from_anybody(self):
        def run(rank):
            if rank == 0:
                x = torch.empty(4)
                seen = {dist.recv(x) for _ in range(2)}
                assert seen == {1, 2}, seen
                work = dist.irecv(x)
                work.wait()
                assert work._source_rank() == x[0] == 2
            else:
                dist.send(torch.full((4,), float(rank)), 0)
                dist.barrier(dist.new_group([1, 2], use_local_synchronization=True))
                if rank == 2:
                    dist.send(torch.full((4,), 2.0), 0)
        self.run_ranks(3, run)

    def test_batches(self):
        def run(rank):
            for count in (1, 100_000):
                right, left, got = (rank + 1) % 3, (rank + 2) % 3, [torch.empty(count) for _ in range(2)]
                works = dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((count,), float(rank)), right), dist.P2POp(dist.irecv, got[0], left),
                                                dist.P2POp(dist.isend, torch.full((count,), 10.0 + rank), left), dist.P2POp(dist.irecv, got[1], right)])
                for work in works:
                    work.wait()
                assert got[0].unique().tolist() == [float(left)] and got[1].unique().tolist() == [10.0 + right]
        self.run_ranks(3, run)

    def test_objects(self):
        def run(rank):
            everything = [None] * 3
            dist.all_gather_object(everything, {"rank": rank, "text": "x" * rank * 1000})
            assert [one["rank"] for one in everything] == [0, 1, 2] and len(everything[2]["text"]) == 2000
            listed = [[rank], None] if rank == 1 else [None, None]
            dist.broadcast_object_list(listed, 1)
            assert listed == [[1], None]
            one = [None]
            dist.scatter_object_list(one, [f"for {r}" for r in range(3)] if rank == 2 else None, 2)
            assert one == [f"for {rank}"]
            gathered = [None] * 3 if rank == 0 else None
            dist.gather_object(rank, gathered)
            assert rank or gathered == [0, 1, 2]
        self.run_ranks(3, run)


if __name__ == "__main__":
    torch_ranks.main()
