"""weft.torch.ddp_hook: DDP with it computes what it does without, wherever its buckets lie."""
import ctypes
import gc
import os
import time
import unittest
import warnings
from types import SimpleNamespace
from unittest import mock

import torch_ranks
import torch._dynamo  # noqa: F401  (optimizers import it; once, not in each rank)
from torch_ranks import TorchRanksTest, dist, torch
from torch.nn.parallel import DistributedDataParallel

_FEATURES = 32
_BATCH = 12
_PRIVATE, _REGISTERED = 0, 2


def kind_of(address):
    """weft_mem_kind_t."""
    from weft import _capi
    from weft._library import library
    info = _capi.weft_mem_info_t(struct_size=ctypes.sizeof(_capi.weft_mem_info_t))
    assert library.weft_mem_query(address, ctypes.byref(info)) == 0
    return info.kind


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(_FEATURES, _FEATURES) for _ in range(8))
        self.unused = torch.nn.Linear(_FEATURES, _FEATURES)

    def forward(self, x, with_unused=True):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.unused(x) if with_unused else x


def data_parallel(hook=None, group=None, **arguments):
    """Buckets of 8 KiB: several, which the second step makes anew."""
    model = DistributedDataParallel(Network(), bucket_cap_mb=0.008, process_group=group, **arguments)
    if hook is not None:
        model.register_comm_hook(group, hook)
    return model


def train(model, rank, size, steps=4, accumulate=1, with_unused=True):
    """Losses, and the gradients of the last step."""
    optimizer, losses, generator = torch.optim.SGD(model.parameters(), 0.1), [], torch.Generator().manual_seed(7)
    for _ in range(steps):
        optimizer.zero_grad()
        for part in range(accumulate):
            batch = torch.randn(_BATCH, _FEATURES, generator=generator)[rank::size]
            model.require_backward_grad_sync = part == accumulate - 1
            loss = model(batch, with_unused).square().mean()
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
    return [torch.tensor(losses), *(parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None)]


_VARIANTS = (
    ({}, {}),
    ({"gradient_as_bucket_view": True}, {"accumulate": 2, "steps": 3}),
    ({"find_unused_parameters": True, "gradient_as_bucket_view": True}, {"with_unused": False}),
    ({"static_graph": True}, {}),
)


class Training(TorchRanksTest):
    def test_equals_ddp_without_it_and_with_gloo(self):
        def rank(me):
            import weft.torch
            size, gloo = dist.get_world_size(), dist.new_group(backend="gloo")
            for arguments, how in _VARIANTS:
                plain, over_gloo = train(data_parallel(**arguments), me, size, **how), train(data_parallel(group=gloo, **arguments), me, size, **how)
                for share in (False, True):
                    for left, right, other in zip(train(data_parallel(weft.torch.ddp_hook(share=share), **arguments), me, size, **how), plain, over_gloo):
                        if size == 2:
                            assert torch.equal(left, right), (arguments, share)
                        torch.testing.assert_close(left, right, rtol=0, atol=1e-6)
                        torch.testing.assert_close(left, other, rtol=0, atol=1e-6)
        for size in (2, 3):
            self.run_ranks(size, rank)

    def test_16_bits_on_the_wire(self):
        def rank(me):
            import weft.torch
            plain = train(data_parallel(), me, 3, steps=1)
            for dtype, tolerance in ((torch.bfloat16, 2 ** -7), (torch.float16, 2 ** -10)):
                for share in (False, True):
                    travelled = train(data_parallel(weft.torch.ddp_hook(dtype, share)), me, 3, steps=1)
                    for left, right in zip(travelled[1:], plain[1:]):
                        assert torch.equal(left, left.to(dtype).float())
                        torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance * right.abs().max().item())
        self.run_ranks(3, rank)

    def test_sparse_gradients(self):
        """As they are, whatever the hook is to do with dense ones."""
        def rank(me):
            import weft.torch

            def train(hook):
                torch.manual_seed(0)
                model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Embedding(5, 4, sparse=True), torch.nn.Linear(4, 1)))
                if hook is not None:
                    model.register_comm_hook(None, hook)
                optimizer = torch.optim.SGD(model.parameters(), 0.1)
                for _ in range(3):
                    optimizer.zero_grad()
                    model(torch.tensor([1 + me, 2, 2])).square().mean().backward()
                    optimizer.step()
                return model.module[0].weight.detach()
            plain = train(None)
            for arguments, tolerance in (({}, 0), ({"share": True}, 0), ({"dtype": torch.bfloat16}, 1e-2)):
                torch.testing.assert_close(train(weft.torch.ddp_hook(**arguments)), plain, rtol=0, atol=tolerance)
        self.run_ranks(2, rank)

    def test_sum_of_large_float16(self):
        """Sums are formed in float32: no overflow where the average is finite."""
        def rank(_):
            import weft.torch
            hook = weft.torch.ddp_hook(torch.float16)
            bucket = SimpleNamespace(buffer=lambda: gradients, index=lambda: 0, is_last=lambda: False)
            gradients = torch.full((5000,), 60000.0)
            assert hook(None, bucket).wait().eq(60000).all()
        self.run_ranks(2, rank)

    def test_wrong_type(self):
        import weft.torch
        for dtype in (torch.float32, torch.int8, "bfloat16"):
            with self.assertRaisesRegex(ValueError, "dtype is .*; gradients travel as they are, or as torch.bfloat16 or torch.float16"):
                weft.torch.ddp_hook(dtype)


class Sharing(TorchRanksTest):
    def test_buckets_are_moved_and_let_go(self):
        def rank(me):
            import weft.torch
            model = data_parallel(weft.torch.ddp_hook(share=True), gradient_as_bucket_view=True)
            other = data_parallel(weft.torch.ddp_hook(share=True))
            expected = train(data_parallel(), me, 2)
            moves, made = [], []
            with mock.patch.object(weft.torch.ddp, "_why_not", side_effect=lambda *_: made.append(None)):
                for steps in (1, 3, 1):
                    train(model, me, 2, steps)
                    moves.append(len(made))
            assert 1 <= moves[0] < moves[1] == moves[2], moves  # torch makes them anew once
            addresses = {parameter.grad.data_ptr() for parameter in model.parameters()}
            assert {kind_of(address) for address in addresses} == {_REGISTERED}
            for left, right in zip(train(other, me, 2), expected):
                assert torch.equal(left, right)
            gradient = next(model.parameters()).grad
            copy = gradient.clone()
            del model
            gc.collect()
            assert {kind_of(address) for address in addresses} == {_PRIVATE}
            assert torch.equal(gradient, copy)
        self.run_ranks(2, rank)

    def test_static_graph_and_several_types(self):
        """torch calls all buckets of the first step bucket 0, and gives them their places in the next."""
        class Mixed(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1).double()

            def forward(self, x):
                return self.second(self.first(x).double())

        def rank(me):
            import weft.torch
            model = DistributedDataParallel(Mixed(), static_graph=True, gradient_as_bucket_view=True)
            model.register_comm_hook(None, weft.torch.ddp_hook(share=True))
            moved, real = [], weft.torch.ddp._SharedBucket

            def noted(storage, descriptor):
                moved.append(storage.nbytes())
                return real(storage, descriptor)
            with warnings.catch_warnings(), mock.patch.object(weft.torch.ddp, "_SharedBucket", side_effect=noted):
                warnings.simplefilter("error")
                for _ in range(6):
                    model.zero_grad(set_to_none=False)
                    model(torch.ones(6, 4) * me).square().mean().backward()
            assert sorted(moved) == [72, 72, 160, 160], moved  # each twice: torch makes them anew once
            assert {kind_of(parameter.grad.data_ptr()) for parameter in model.parameters()} == {_REGISTERED}
        self.run_ranks(2, rank)

    def test_where_it_cannot_be(self):
        def warned(rank, model):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                result = train(model, rank, 2)
            return result, [str(one.message) for one in caught if "are not shared" in str(one.message)]

        def rank(me):
            import weft.torch
            expected = train(data_parallel(), me, 2)
            small, gone = SimpleNamespace(f_bavail=1, f_frsize=4096), FileNotFoundError(2, "No such file or directory")
            for patch, sentence in ((mock.patch("os.statvfs", return_value=small), "/dev/shm has 0 MiB left, buckets of all ranks take 0 MiB; make it larger"),
                                    (mock.patch("os.statvfs", side_effect=gone), "/dev/shm: No such file or directory"),
                                    (mock.patch.object(torch.UntypedStorage, "_share_fd_cpu_", side_effect=RuntimeError("no room\nmore")), "no room"),
                                    (mock.patch.object(weft.torch.ddp, "_MOVES_MAX", 1), "they are made anew with every step")):
                # One rank alone: the others' buckets are shared, and its own is not.
                with patch if me == 0 else warnings.catch_warnings():
                    result, sentences = warned(me, data_parallel(weft.torch.ddp_hook(share=True)))
                assert len(sentences) == (me == 0), sentences
                assert all("buckets of gradients are not shared with other ranks: " + sentence in one for one in sentences), sentences
                for left, right in zip(result, expected):
                    assert torch.equal(left, right), sentence
        self.run_ranks(2, rank)


class Failures(TorchRanksTest):
    def test_a_rank_that_dies(self):
        def rank(me):
            import weft.torch
            model = data_parallel(weft.torch.ddp_hook(share=True))
            train(model, me, 3, steps=2)
            if me == 1:
                model.module.layers[4].weight.register_hook(lambda _: os._exit(9))
            start = time.monotonic()
            with self.assertRaisesRegex(Exception, "rank 1.*(died|ended|exited|killed|lost)"):
                train(model, me, 3, steps=1)
            return time.monotonic() - start
        self.run_ranks(3, rank, destroy=False, expect_codes=[0, 9, 0])


if __name__ == "__main__":
    torch_ranks.main()
