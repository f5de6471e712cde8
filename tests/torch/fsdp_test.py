"""weft.torch.fsdp: FSDP2 over shared and symmetric memory computes what it does over plain collectives, and its blocks are written when nobody needs them."""
import contextlib
import ctypes
import gc
import os
import random
import time
import traceback
import unittest
import warnings
from unittest import mock

import torch_ranks
import torch._dynamo  # noqa: F401  (optimizers import it; once, not in each rank)
from torch_ranks import TorchRanksTest, dist, torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

_SEED = int(os.environ.get("WEFT_TEST_SEED", random.randrange(1 << 30)))
_FEATURES = 13  # no number of ranks divides it
_LAYERS = 4
_BATCH = 12
_PRIVATE, _SYMMETRIC, _SHARED = 0, 1, 3


def kind_of(address):
    """weft_mem_kind_t."""
    from weft import _capi
    from weft._library import library
    info = _capi.weft_mem_info_t(struct_size=ctypes.sizeof(_capi.weft_mem_info_t))
    assert library.weft_mem_query(address, ctypes.byref(info)) == 0
    return info.kind


def network(dtype=torch.float32):
    torch.manual_seed(5)
    layers = [torch.nn.Sequential(torch.nn.Linear(_FEATURES, 3 * _FEATURES), torch.nn.Tanh(), torch.nn.Linear(3 * _FEATURES, _FEATURES)) for _ in range(_LAYERS)]
    return torch.nn.Sequential(*layers).to(dtype)


def sharded(mesh, change=None, network=network, **arguments):
    model = network()
    for layer in model:
        fully_shard(layer, mesh=mesh, **arguments)
    fully_shard(model, mesh=mesh, **arguments)
    if change:
        change(model)
    return model


def modules_of(model):
    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def batches(rank, size, steps):
    generator = torch.Generator().manual_seed(7)
    for _ in range(steps):
        yield torch.randn(_BATCH, _FEATURES, generator=generator)[rank::size]


def train(model, rank, size, steps=4, accumulate=1):
    """Losses, and the gradients of the last step."""
    optimizer, losses = torch.optim.SGD(model.parameters(), 0.1), []
    for step, batch in enumerate(batches(rank, size, steps * accumulate)):
        last = step % accumulate == accumulate - 1
        if accumulate > 1:
            model.set_requires_gradient_sync(last)
        loss = model(batch).float().square().mean()
        loss.backward()
        losses.append(loss.item())
        if last:
            gradients = [parameter.grad.full_tensor().clone() for parameter in model.parameters() if parameter.grad is not None]
            optimizer.step()
            optimizer.zero_grad()
    return losses, gradients


def prefetch(model):
    layers = list(model)
    for place, layer in enumerate(layers):
        layer.set_modules_to_forward_prefetch(layers[place + 1:place + 3])
        layer.set_modules_to_backward_prefetch(layers[max(place - 2, 0):place][::-1])


def asynchronous(model):
    for module in modules_of(model):
        module._set_unshard_async_op(True)


def divided(model):
    for module in modules_of(model):
        module.set_gradient_divide_factor(5.0)


def several_types():
    model = network()
    for layer in model:
        layer.register_parameter("frozen", torch.nn.Parameter(torch.ones(7, dtype=torch.bfloat16), requires_grad=False))
    return model


# (what, keywords of fully_shard, what else is set, keywords of train)
_VARIANTS = (
    ("plain", {}, None, {}),
    ("kept after forward", {"reshard_after_forward": False}, None, {}),
    ("prefetch", {}, prefetch, {}),
    ("asynchronous", {}, asynchronous, {}),
    ("no_sync", {}, None, {"accumulate": 3, "steps": 2}),
    ("several types", {"network": several_types}, None, {}),
)
# What Gloo has not, or computes in another type.
_OURS = (
    ("bfloat16", {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)}, None, {}),
    ("bfloat16 throughout", {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)}, prefetch, {}),
    ("float16 gradients", {"mp_policy": MixedPrecisionPolicy(reduce_dtype=torch.float16)}, None, {}),
    ("factor", {}, divided, {}),
)


class Training(TorchRanksTest):
    def test_equals_plain_weft_and_gloo(self):
        def rank(me):
            import weft.torch
            size = dist.get_world_size()
            mesh, gloo = init_device_mesh("cpu", (size,)), DeviceMesh.from_group(dist.new_group(backend="gloo"), "cpu")
            for variants, others in ((_VARIANTS, (mesh, gloo)), (_OURS, (mesh,))):
                for name, arguments, change, how in variants:
                    ours = sharded(mesh, change, **arguments)
                    weft.torch.fsdp.install(ours)
                    weft.torch.fsdp.install(ours)
                    losses, gradients = train(ours, me, size, **how)
                    for other in others:
                        other_losses, other_gradients = train(sharded(other, change, **arguments), me, size, **how)
                        for left, right in zip((torch.tensor(losses), *gradients), (torch.tensor(other_losses), *other_gradients)):
                            if other is mesh:
                                assert torch.equal(left, right), (name, left, right)
                            else:
                                torch.testing.assert_close(left, right, rtol=0, atol=1e-6, msg=lambda text: f"{name}: {text}")
        for size in (2, 3):
            self.run_ranks(size, rank)

    def test_meshes(self):
        """Replicas of shards, and shards that stay in smaller groups after forward."""
        def rank(me):
            import weft.torch
            for mesh, arguments in ((init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")), {}),
                                    (init_device_mesh("cpu", (4,)), {"reshard_after_forward": 2})):
                ours, plain = sharded(mesh, **arguments), sharded(mesh, **arguments)
                weft.torch.fsdp.install(ours)
                for left, right in zip(*(train(model, me, 4)[1] for model in (ours, plain))):
                    assert torch.equal(left, right), arguments
        self.run_ranks(4, rank)

    def test_debug_detail(self):
        def rank(me):
            import weft.torch
            dist.init_process_group("weft", init_method=f"file://{self.folder}/detail", rank=me, world_size=2)
            ours = sharded(init_device_mesh("cpu", (2,)))
            weft.torch.fsdp.install(ours)
            assert train(ours, me, 2)[0]
            assert len(modules_of(ours)[-1]._get_fsdp_state()._fsdp_param_groups[0]._all_gather_comm.pools) == 1
            dist.destroy_process_group()
        dist.set_debug_level(dist.DebugLevel.DETAIL)
        self.addCleanup(dist.set_debug_level, dist.DebugLevel.OFF)
        self.run_ranks(2, rank, backend=None)


class Memory(TorchRanksTest):
    def test_where_it_lies_and_that_it_does_not_grow(self):
        def rank(me):
            import weft.torch
            from weft.torch import fsdp
            model, kinds = sharded(init_device_mesh("cpu", (2,))), set()

            def spy(kind):
                call = kind.__call__

                def seen(self, output_tensor, input_tensor, *rest, **named):
                    kinds.add((kind.__name__, kind_of(input_tensor.data_ptr()), kind_of(output_tensor.data_ptr())))
                    return call(self, output_tensor, input_tensor, *rest, **named)
                return mock.patch.object(kind, "__call__", seen)

            fsdp.install(model)
            with spy(fsdp._Gather), spy(fsdp._Reduce):
                train(model, me, 2, steps=3)
            assert kinds == {("_Gather", _SHARED, _SHARED), ("_Reduce", _SYMMETRIC, _SYMMETRIC)}, kinds
            pool, = fsdp._pools.values()
            gradients = modules_of(model)[-1]._get_fsdp_state()._fsdp_param_groups[0]._reduce_scatter_comm.pool

            def addresses():
                return [block.address for block in (*pool._blocks, *sorted(gradients._blocks, key=lambda one: one.address))]
            before = addresses()
            train(model, me, 2, steps=6)
            assert addresses() == before
            assert len(pool._blocks) == 3, len(pool._blocks)  # in use, kept by FSDP until the next, and the one before that
            again = sharded(init_device_mesh("cpu", (2,)))
            fsdp.install(again)
            train(again, me, 2, steps=2)
            assert len(pool._blocks) == 3 and len(fsdp._pools) == 1
            kept = next(model.parameters())
            blocks = [block.address for block in gradients._blocks]
            fsdp.uninstall(model)
            fsdp.uninstall(model)
            assert not pool._blocks
            train(model, me, 2, steps=1)
            train(again, me, 2, steps=1)
            del model, gradients, kept
            gc.collect()
            assert {kind_of(address) for address in blocks} == {_PRIVATE}
        self.run_ranks(2, rank)

    def test_gradients_outlive_model_and_group(self):
        def rank(me):
            from weft.torch import fsdp
            model = sharded(init_device_mesh("cpu", (2,)))
            fsdp.install(model)
            model(next(batches(me, 2, 1))).square().mean().backward()
            gradients = [parameter.grad._local_tensor for parameter in model.parameters()]
            copies = [gradient.clone() for gradient in gradients]
            dist.destroy_process_group()
            del model
            gc.collect()
            assert all(torch.equal(gradient, copy) for gradient, copy in zip(gradients, copies))
            assert {kind_of(gradient.data_ptr()) for gradient in gradients} == {_SYMMETRIC}
        self.run_ranks(2, rank, destroy=False)

    def test_pool_of_a_rank(self):
        from weft.torch.memory import SymmetricPool
        pool, rng = SymmetricPool(), random.Random(_SEED)
        held = []
        for step in range(300):
            count = rng.choice((0, 1, 1000, 1024, 1025, 5000, 100000))
            tensor = pool.tensor((count,), rng.choice((torch.float32, torch.bfloat16, torch.uint8))).fill_(step % 100)
            held.append((tensor[count // 2:], step % 100))
            del tensor
            for view, value in held:
                self.assertTrue(bool((view == value).all()), f"seed {_SEED}")
            while len(held) > rng.randrange(1, 12):
                held.pop(rng.randrange(len(held)))
        self.assertLessEqual(sum(block.bytes for block in pool._blocks), 2 * pool._used_bytes_max)
        addresses = [block.address for block in pool._blocks]
        del pool, view
        held.clear()
        self.assertEqual({_PRIVATE}, {kind_of(address) for address in addresses})


def any_program(pool, me, size, seed, steps=120):
    """All_gathers of which each rank keeps other results, is late at other times, and is interrupted elsewhere."""
    together, alone, kept = random.Random(seed), random.Random(seed * 100 + me), []
    for step in range(steps):
        count, async_op = together.choice((1, 3, 1000, 20000, 70000)), together.random() < 0.3
        if alone.random() < 0.1:
            time.sleep(alone.random() * 0.01)
        output = pool.tensor((size * count,), torch.float32)
        if alone.random() < 0.1:  # as if an exception had come here, and the program had gone on
            output.view(size, count)[me].fill_(-1)
            if alone.random() < 0.5:
                del output
            output = pool.tensor((size * count,), torch.float32)
        output.view(size, count)[me].fill_(step * size + me)
        work = pool.gather(output, output.narrow(0, me * count, count), dist.group.WORLD, async_op)
        if async_op and alone.random() < 0.5:
            work.wait()
        expected = torch.arange(step * size, (step + 1) * size, dtype=torch.float32).view(size, 1)
        kept.append((output.view(size, count), expected, work if async_op else None))
        del output
        for result, values, under_way in kept:
            if under_way is None or under_way.is_completed():
                assert bool((result == values).all()), f"seed {seed}, step {step}"
        while len(kept) > alone.randrange(1, 7):
            kept.pop(alone.randrange(len(kept)))


class Agreement(TorchRanksTest):
    def test_no_result_is_written_while_a_rank_keeps_it(self):
        def rank(me):
            from weft.torch import fsdp
            size, comm = dist.get_world_size(), dist.group.WORLD.communicator
            pool = fsdp._SharedPool(comm)
            any_program(pool, me, size, _SEED)
            assert 3 <= len(pool._blocks) <= 6 * size + 2, len(pool._blocks)
            pool.free()
            assert not pool._blocks
        for size in (2, 3, 5):
            self.run_ranks(size, rank)

    def test_more_than_it_has_blocks_for(self):
        def rank(me):
            from weft.torch import fsdp
            pool, kept = fsdp._SharedPool(dist.group.WORLD.communicator), []
            with mock.patch.object(fsdp, "_BLOCKS_MAX", 4):
                for step in range(9):
                    output = pool.tensor((20,), torch.int64)
                    output[10 * me:10 * me + 10] = 2 * step + me
                    pool.gather(output, output[10 * me:10 * me + 10], dist.group.WORLD, False)
                    kept.append(output)
            assert len(pool._blocks) == 4
            assert [kind_of(output.data_ptr()) for output in kept] == 4 * [_SHARED] + 5 * [_SYMMETRIC]
            assert all(output.tolist() == 10 * [2 * step] + 10 * [2 * step + 1] for step, output in enumerate(kept))
            pool.free()
            assert len(pool._blocks) == 4  # all are kept
        self.run_ranks(2, rank)

    def test_groups_that_cannot_share(self):
        def rank(me):
            import weft
            from weft.torch import fsdp
            pool = fsdp._SharedPool(dist.group.WORLD.communicator)
            with mock.patch.object(fsdp, "_SharedBlock", side_effect=weft.Error("several nodes", weft.Result.UNSUPPORTED)):
                any_program(pool, me, 2, _SEED, steps=30)
            assert not pool._blocks
        self.run_ranks(2, rank)


class Refused(TorchRanksTest):
    def test_groups_of_others(self):
        def rank(_):
            from weft.torch import fsdp
            with self.assertRaisesRegex(ValueError, 'is sharded over a group of gloo; weft.torch.fsdp needs one of weft'):
                fsdp.install(sharded(init_device_mesh("cpu", (2,))))
            fsdp.install(network())     # nothing to do
        self.run_ranks(2, rank, backend="gloo")

    def test_modules_with_several_groups_of_parameters(self):
        def rank(me):
            from torch.distributed.fsdp._fully_shard._fsdp_common import FSDPMeshInfo, ShardPlacementResult
            from weft.torch import fsdp
            mesh, other = init_device_mesh("cpu", (2,)), DeviceMesh.from_group(dist.new_group(), "cpu")
            info = FSDPMeshInfo(other, shard_mesh_dim=0)
            model = network()
            weights = {id(parameter) for parameter in model[1].parameters() if parameter.dim() == 2}
            fully_shard(model[1], mesh=mesh, shard_placement_fn=lambda one: ShardPlacementResult(None, info) if id(one) in weights else None)
            fully_shard(model[0], mesh=mesh)
            fully_shard(model, mesh=mesh)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                fsdp.install(model)
            assert ["weft.torch.fsdp leaves modules with several groups of parameters as they are, torch has no hooks for them: 1"] == [
                str(one.message) for one in caught if "weft" in str(one.message)], [str(one.message) for one in caught]
            assert train(model, me, 2)[0]
        self.run_ranks(2, rank)


class Failures(TorchRanksTest):
    def test_a_rank_that_dies(self):
        def rank(me):
            import weft
            from weft.torch import fsdp
            model = sharded(init_device_mesh("cpu", (3,)))
            fsdp.install(model)
            train(model, me, 3, steps=1)
            if me == 1:
                model[2].register_forward_pre_hook(lambda *_: os._exit(9))
            start = time.monotonic()
            with contextlib.suppress(AssertionError), self.assertRaisesRegex(weft.Error, "rank 1.*(died|ended|exited|killed|lost)") as raised:
                train(model, me, 3, steps=2)
            return raised.exception.code.name, time.monotonic() - start
        results = self.run_ranks(3, rank, destroy=False, expect_codes=[0, 9, 0])
        self.assertEqual({"PEER_LOST"}, {results[place][0] for place in (0, 2)}, results)

    def test_a_group_that_is_destroyed(self):
        def rank(me):
            import weft
            from weft.torch import fsdp
            model = sharded(init_device_mesh("cpu", (2,)))
            fsdp.install(model)
            train(model, me, 2, steps=1)
            dist.destroy_process_group()
            with self.assertRaisesRegex(weft.Error, "the process group of a model is destroyed"):
                train(model, me, 2, steps=1)
        self.run_ranks(2, rank, destroy=False)

    def test_a_forked_child(self):
        def rank(me):
            import weft
            from weft.torch import fsdp
            model = sharded(init_device_mesh("cpu", (2,)))
            fsdp.install(model)
            train(model, me, 2, steps=2)
            gradients = modules_of(model)[-1]._get_fsdp_state()._fsdp_param_groups[0]._reduce_scatter_comm.pool
            child = os.fork()
            if not child:
                try:
                    for call in (lambda: model(next(batches(me, 2, 1))), lambda: gradients.tensor((1000,), torch.float32)):
                        with self.assertRaises(weft.Error) as raised:
                            call()
                        assert raised.exception.code == weft.Result.FORKED, raised.exception
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            train(model, me, 2, steps=1)
        self.run_ranks(2, rank)

    def test_ranks_that_gather_different_sizes(self):
        def rank(me):
            import weft
            from weft.torch import fsdp
            pool = fsdp._SharedPool(dist.group.WORLD.communicator)
            with self.assertRaisesRegex(weft.Error, "mem_alloc_shared|bytes") as raised:
                pool.tensor((5000 * (me + 1),), torch.float32)
            assert raised.exception.code == weft.Result.MISMATCH
        self.run_ranks(2, rank, destroy=False)


if __name__ == "__main__":
    torch_ranks.main()
