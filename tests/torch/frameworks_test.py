"""What torch builds on process groups, on weft: the same losses and parameters as one process has, or as the definition says."""
import copy

import torch_ranks
from torch_ranks import TorchRanksTest, dist, torch

from torch import nn

_STEPS = 3
_ROWS = 12  # of a batch, over all ranks


def model(width=16):
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 4))


def batch(step, rank=0, size=1):
    generator = torch.Generator().manual_seed(100 + step)
    x, y = torch.randn(_ROWS, 8, generator=generator), torch.randn(_ROWS, 4, generator=generator)
    rows = _ROWS // size
    return x[rank * rows:(rank + 1) * rows], y[rank * rows:(rank + 1) * rows]


def loss_of(module, step, rank=0, size=1):
    x, y = batch(step, rank, size)
    return nn.functional.mse_loss(module(x), y)


def train(module, rank=0, size=1, optimizer=None, steps=range(_STEPS)):
    """The parameters' sum after some steps, and the losses."""
    optimizer = optimizer or torch.optim.AdamW(module.parameters(), lr=0.05)
    losses = []
    for step in steps:
        optimizer.zero_grad()
        loss = loss_of(module, step, rank, size)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def alone():
    module = model()
    train(module)
    return [parameter.detach() for parameter in module.parameters()]


def expect_as_alone(parameters, tolerance=1e-5):
    for got, wanted in zip(parameters, alone(), strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=tolerance)


def whole(module):
    return [parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter.detach() for parameter in module.parameters()]


class DataParallel(TorchRanksTest):
    def test_ddp(self):
        def run(rank):
            for settings in ({}, {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.0005}, {"static_graph": True}):
                module = nn.parallel.DistributedDataParallel(model(), **settings)
                train(module, rank, 3)
                expect_as_alone(module.parameters())
        self.run_ranks(3, run)

    def test_ddp_accumulates_and_takes_hooks(self):
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        def run(rank):
            module = nn.parallel.DistributedDataParallel(model())
            for hook in (default_hooks.allreduce_hook, default_hooks.bf16_compress_hook):
                module = nn.parallel.DistributedDataParallel(model())
                module.register_comm_hook(None, hook)
                with module.no_sync():
                    loss_of(module, 0, rank, 2).backward()
                loss_of(module, 1, rank, 2).backward()
                plain = model()
                (loss_of(plain, 0) + loss_of(plain, 1)).backward()
                for got, wanted in zip(module.parameters(), plain.parameters()):
                    torch.testing.assert_close(got.grad, wanted.grad, rtol=0, atol=1e-6 if hook is default_hooks.allreduce_hook else 2e-2)
        self.run_ranks(2, run)

    def test_ddp_of_unequal_inputs(self):
        def run(rank):
            module = nn.parallel.DistributedDataParallel(model())
            with module.join():
                train(module, rank, 2, torch.optim.SGD(module.parameters(), lr=0.1), range(1 + rank))
            everything = [None] * 2
            dist.all_gather_object(everything, [parameter.detach() for parameter in module.parameters()])
            for first, second in zip(*everything):
                assert torch.equal(first, second)
        self.run_ranks(2, run)

    def test_zero_redundancy_optimizer(self):
        from torch.distributed.optim import ZeroRedundancyOptimizer

        def run(rank):
            module = nn.parallel.DistributedDataParallel(model())
            train(module, rank, 2, ZeroRedundancyOptimizer(module.parameters(), torch.optim.AdamW, lr=0.05))
            expect_as_alone(module.parameters())
        self.run_ranks(2, run)


class FullySharded(TorchRanksTest):
    def sharded(self, mesh, **settings):
        from torch.distributed.fsdp import fully_shard
        module = model()
        for layer in module:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh, **settings)
        fully_shard(module, mesh=mesh, **settings)
        return module

    def test_fsdp2_and_hsdp(self):
        from torch.distributed.device_mesh import init_device_mesh

        def run(rank):
            size = dist.get_world_size()
            meshes = [init_device_mesh("cpu", (size,))] + ([init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))] if size == 4 else [])
            for mesh in meshes:
                for settings in ({}, {"reshard_after_forward": False}):
                    module = self.sharded(mesh, **settings)
                    train(module, rank, size)
                    expect_as_alone(whole(module))
        for size in (2, 3, 4):
            self.run_ranks(size, run)

    def test_mixed_precision_and_clipping(self):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy

        def run(rank):
            module = self.sharded(init_device_mesh("cpu", (2,)), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
            x, y = batch(0, rank, 2)
            nn.functional.mse_loss(module(x.bfloat16()).float(), y).backward()
            norm = nn.utils.clip_grad_norm_(module.parameters(), 0.1).full_tensor()
            plain = model()
            loss_of(plain, 0).backward()
            torch.testing.assert_close(norm, nn.utils.clip_grad_norm_(plain.parameters(), 0.1), rtol=2e-2, atol=0)
            optimizer.step()
        self.run_ranks(2, run)

    def test_compiled(self):
        from torch.distributed.device_mesh import init_device_mesh

        def run(rank):
            module = self.sharded(init_device_mesh("cpu", (2,)))
            train(torch.compile(module, backend="aot_eager"), rank, 2, torch.optim.AdamW(module.parameters(), lr=0.05))
            expect_as_alone(whole(module))
        self.run_ranks(2, run)


class TensorParallel(TorchRanksTest):
    def test_colwise_rowwise_and_sequence(self):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        def run(rank):
            mesh = init_device_mesh("cpu", (2,))
            for sequence in (False, True):
                module, plain = model(), model()
                parallelize_module(module, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel(output_layouts=Shard(0) if sequence else None)})
                x, _ = batch(0)
                got = module[:3](x)
                wanted = plain[:3](x)
                torch.testing.assert_close(got, wanted.chunk(2)[rank] if sequence else wanted)
                got.sum().backward()
                wanted.sum().backward()
                if not sequence:
                    torch.testing.assert_close(module[0].weight.grad.full_tensor(), plain[0].weight.grad)
        self.run_ranks(2, run)

    def test_redistribute(self):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

        def run(rank):
            mesh, x = init_device_mesh("cpu", (3,)), torch.arange(42.0).reshape(7, 6)
            tensor = distribute_tensor(x, mesh, [Shard(0)])
            for placement in (Shard(1), Replicate(), Shard(0), Replicate(), Shard(1)):
                tensor = tensor.redistribute(mesh, [placement])
                assert torch.equal(tensor.full_tensor(), x), placement
            partial = torch.distributed.tensor.DTensor.from_local(x * (rank + 1), mesh, [Partial()])
            assert torch.equal(partial.full_tensor(), x * 6)
            assert torch.equal(partial.redistribute(mesh, [Shard(0)]).full_tensor(), x * 6)
            for op, wanted in (("avg", x * 2), ("max", x * 3)):
                assert torch.equal(torch.distributed.tensor.DTensor.from_local(x * (rank + 1), mesh, [Partial(op)]).full_tensor(), wanted), op
        self.run_ranks(3, run)

    def test_functional_collectives(self):
        import torch.distributed._functional_collectives as functional

        def run(rank):
            x, group = torch.arange(4.0) + rank, dist.group.WORLD
            assert functional.all_reduce(x, "sum", group).tolist() == [1.0, 3.0, 5.0, 7.0]
            assert functional.all_gather_single(x, 0, group).tolist() == [0.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0]
            assert functional.reduce_scatter_single(x, "avg", 0, group).tolist() == [[0.5, 1.5], [2.5, 3.5]][rank]
            assert functional.broadcast(x, 1, group).tolist() == [1.0, 2.0, 3.0, 4.0]
            assert functional.all_to_all_single(x, [1, 3] if rank == 0 else [3, 1], [1, 3] if rank == 0 else [3, 1], group).shape == (4,)
            many = functional.all_reduce_coalesced([x, x * 2], "max", group)
            assert [one.tolist() for one in many] == [[1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 6.0, 8.0]]
            compiled = torch.compile(lambda t: functional.all_reduce(t * 2, "sum", group) + 1, backend="aot_eager", fullgraph=True)
            assert compiled(x).tolist() == [3.0, 7.0, 11.0, 15.0]
        self.run_ranks(2, run)


class Pipelines(TorchRanksTest):
    def test_schedules(self):
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

        def run(rank):
            for schedule_of in (ScheduleGPipe, Schedule1F1B):
                plain, x, y = model(), *batch(0)
                stages = model()
                part = stages[:3] if rank == 0 else stages[3:]
                stage = PipelineStage(part, rank, 2, torch.device("cpu"))
                schedule = schedule_of(stage, 4, loss_fn=nn.functional.mse_loss)
                losses = []
                if rank == 0:
                    schedule.step(x)
                else:
                    schedule.step(target=y, losses=losses)
                nn.functional.mse_loss(plain(x), y).backward()
                for got, wanted in zip(part.parameters(), (plain[:3] if rank == 0 else plain[3:]).parameters()):
                    torch.testing.assert_close(got.grad, wanted.grad)
        self.run_ranks(2, run)


class Checkpoints(TorchRanksTest):
    def test_saved_and_loaded_by_another_number_of_ranks(self):
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        def state(size):
            module = fully_shard(model(), mesh=init_device_mesh("cpu", (size,)))
            return module, torch.optim.AdamW(module.parameters(), lr=0.05)

        for asynchronous in (False, True):
            place = self.folder / f"checkpoint{asynchronous}"

            def save(rank):
                module, optimizer = state(3)
                train(module, rank, 3, optimizer)
                named = dict(zip(("model", "optimizer"), get_state_dict(module, optimizer)))
                if asynchronous:
                    saving = dcp.async_save(named, checkpoint_id=place, process_group=dist.new_group([0, 1, 2]))
                    train(model())  # beside it
                    saving.result(30)
                else:
                    dcp.save(named, checkpoint_id=place)

            def load(rank):
                module, optimizer = state(2)
                named = dict(zip(("model", "optimizer"), get_state_dict(module, optimizer)))
                dcp.load(named, checkpoint_id=place)
                set_state_dict(module, optimizer, model_state_dict=named["model"], optim_state_dict=named["optimizer"])
                expect_as_alone(whole(module))
                train(module, rank, 2, optimizer, range(_STEPS, 5))
                plain = model()
                other = torch.optim.AdamW(plain.parameters(), lr=0.05)
                train(plain, optimizer=other, steps=range(5))
                for got, wanted in zip(whole(module), plain.parameters()):
                    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-5)

            self.run_ranks(3, save)
            self.run_ranks(2, load)

    def test_one_rank_reads_for_all(self):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        def run(rank):
            module = fully_shard(model(), mesh=init_device_mesh("cpu", (2,)))
            wanted = {name: tensor + 1 for name, tensor in copy.deepcopy(model()).state_dict().items()}
            set_model_state_dict(module, dict(wanted) if rank == 0 else {}, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
            got = get_model_state_dict(module, options=StateDictOptions(full_state_dict=True))
            for name, tensor in got.items():
                assert torch.equal(tensor, wanted[name]), name
        self.run_ranks(2, run)


if __name__ == "__main__":
    torch_ranks.main()
