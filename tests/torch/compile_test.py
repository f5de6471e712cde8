"""torch.compile around what weft does: groups, DDP, FSDP2 and fully_shard give what they give without it, by every backend of the compiler."""
import itertools
import os
import shutil
import subprocess
import sysconfig

import torch_ranks
from torch_ranks import TorchRanksTest, dist, torch

from torch import nn
from torch.nn.parallel import DistributedDataParallel

_STEPS = 3


def _inductor():
    """Whether there is what it needs to compile for the CPU."""
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    source = "#include <Python.h>\nint main() { return 0; }\n"
    return compiler and subprocess.run([compiler, "-fopenmp", "-x", "c++", "-fsyntax-only", f"-I{sysconfig.get_paths()['include']}", "-"], input=source, text=True,
                                        capture_output=True, check=False).returncode == 0


INDUCTOR = ("inductor",) if _inductor() else ()


def backends(ways, some, one):
    """(backend, way): every way by eager, some by aot_eager, and one by inductor, which takes seconds for each graph."""
    return [*itertools.product(("eager",), ways), *itertools.product(("aot_eager",), some), *itertools.product(INDUCTOR, one)]


class Block(nn.Module):
    def __init__(self, norm=False):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(6, 8), nn.BatchNorm1d(8) if norm else nn.Identity(), nn.Linear(8, 6)

    def forward(self, x):
        return x + self.down(torch.tanh(self.norm(self.up(x))))


class Model(nn.Module):
    def __init__(self, norm=False):
        super().__init__()
        torch.manual_seed(0)
        self.layers, self.head = nn.ModuleList(Block(norm) for _ in range(2)), nn.Linear(6, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def batch(rank, step):
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(10 * step + rank))


def trained(call, optimizer, rank):
    losses = []
    for step in range(_STEPS):
        optimizer.zero_grad()
        loss = call(batch(rank, step)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def expect_close(found, wanted, about):
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, msg=lambda text: f"{about}: {text}")


def graphs(backend):
    """(torch.compile's settings, a list that has a number for each graph that was compiled)."""
    compiled = []
    if backend != "eager":
        return {"backend": backend}, compiled

    def count(graph, _):
        compiled.append(len(graph.graph.nodes))
        return graph.forward
    return {"backend": count}, compiled


# ---- functions with operations in them ----

def started(x):
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    work.wait()
    return y + 1


def barrier(x):
    y = x + 1
    dist.barrier()
    return y * 2


def broadcast(x):
    y = x.clone()
    dist.broadcast(y, 1)
    return y * 2


def reduce(x):
    y = x.clone()
    dist.reduce(y, 0)
    return y + 1 if dist.get_rank() == 0 else x


def average(x):
    y = x.clone()
    dist.all_reduce(y, op=dist.ReduceOp.AVG)
    return y * 3


def gathered(x):
    parts = [torch.zeros(4) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x)
    return torch.stack(parts).sum(0)


def gathered_into_one(x):
    y = torch.zeros(4 * dist.get_world_size())
    dist.all_gather_into_tensor(y, x)
    return y.view(-1, 4).sum(0)


def scattered(x):
    y = torch.zeros(4)
    dist.reduce_scatter(y, [x + k for k in range(dist.get_world_size())])
    return y * 2


def exchanged(x):
    y = torch.zeros(4)
    dist.all_to_all_single(y, x)
    return y * 2


def messages(x):
    y, peer = torch.zeros(4), dist.get_rank() ^ 1
    work = dist.isend(x.contiguous(), peer)
    dist.recv(y, peer)
    work.wait()
    return y + x


def batched_messages(x):
    y, peer = torch.zeros(4), dist.get_rank() ^ 1
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, peer), dist.P2POp(dist.irecv, y, peer)]):
        work.wait()
    return y + x


def by_future(x):
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    return work.get_future().wait()[0] + 1


def by_communicator(x):
    y = x + 1
    COMMUNICATOR[0].all_reduce(y)
    return y * 2


COMMUNICATOR = []


class Functions(TorchRanksTest):
    def test_with_operations(self):
        functions = (started, barrier, broadcast, reduce, average, gathered, gathered_into_one, scattered, exchanged, messages, batched_messages, by_future,
                     by_communicator)

        def run(rank):
            COMMUNICATOR.append(dist.group.WORLD.communicator)
            for backend, function in backends(functions, (started, messages), (started,)):
                torch._dynamo.reset()
                compiled = torch.compile(function, backend=backend)
                for turn in range(2):
                    x = torch.arange(4.0) + rank + turn
                    expect_close(compiled(x), function(x), (backend, function.__name__))
        self.run_ranks(2, run)

    def test_what_is_not_weft_is_compiled(self):
        """The graphs before and after an operation."""
        def run(rank):
            torch._dynamo.reset()
            settings, found = graphs("eager")
            torch.compile(barrier, **settings)(torch.ones(4))
            assert len(found) == 2, found
        self.run_ranks(2, run)


# ---- DDP ----

def outside(backend):
    return lambda model: torch.compile(DistributedDataParallel(model), backend=backend)


def inside(backend):
    return lambda model: DistributedDataParallel(torch.compile(model, backend=backend))


def in_place(backend):
    def make(model):
        model.compile(backend=backend)
        return DistributedDataParallel(model)
    return make


def in_a_function(backend):
    def make(model):
        ddp = DistributedDataParallel(model)
        return torch.compile(lambda x: ddp(x), backend=backend)
    return make


def with_weft_hook(backend):
    def make(model):
        import weft.torch
        ddp = DistributedDataParallel(model)
        ddp.register_comm_hook(None, weft.torch.ddp_hook())
        return torch.compile(ddp, backend=backend)
    return make


class Ddp(TorchRanksTest):
    def test_compiled_in_all_ways(self):
        def run(rank):
            def train(make):
                torch._dynamo.reset()
                model = Model(norm=True)  # whose buffers DDP broadcasts
                return trained(make(model), torch.optim.SGD(model.parameters(), lr=0.1), rank)
            plain = train(DistributedDataParallel)
            for backend, way in backends((outside, inside, in_place, in_a_function, with_weft_hook), (outside, with_weft_hook), (outside,)):
                expect_close(train(way(backend)), plain, (backend, way.__name__))
        self.run_ranks(2, run)


# ---- FSDP2 ----

class Fsdp2(TorchRanksTest):
    def test_compiled_with_memory_of_wefts(self):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        def run(rank):
            import weft.torch

            def train(backend, blocks):
                torch._dynamo.reset()
                model, mesh = Model(), init_device_mesh("cpu", (2,))
                for layer in model.layers:
                    if backend and blocks:
                        layer.compile(backend=backend)
                    fully_shard(layer, mesh=mesh)
                fully_shard(model, mesh=mesh)
                weft.torch.fsdp.install(model)
                call = torch.compile(model, backend=backend) if backend and not blocks else model
                return trained(call, torch.optim.SGD(model.parameters(), lr=0.1), rank)
            plain = train(None, False)
            for backend, blocks in backends((False, True), (False,), (True,)):
                expect_close(train(backend, blocks), plain, (backend, blocks))
        self.run_ranks(2, run)


# ---- fully_shard ----

def shard(model, preset, wrap=Block):
    import weft.torch
    sharded = weft.torch.fully_shard(model, preset, wrap=wrap)
    return sharded, sharded.optimizer(torch.optim.SGD, lr=0.1)


def blocks_before(model, preset, settings):
    for layer in model.layers:
        layer.compile(**settings)
    return *shard(model, preset), model


def blocks_after(model, preset, settings):
    sharded = shard(model, preset)
    for layer in model.layers:
        layer.compile(**settings)
    return *sharded, model


def blocks_of_torchtitan(model, preset, settings):
    """Each block one graph, then sharded."""
    for name, layer in list(model.layers.named_children()):
        model.layers.register_module(name, torch.compile(layer, fullgraph=True, **settings))
    return *shard(model, preset), model


def layers_in_blocks(model, preset, settings):
    for layer in model.layers:
        layer.up = torch.compile(layer.up, **settings)
    return *shard(model, preset, (Block, nn.Linear)), model


def whole_outside(model, preset, settings):
    return *shard(model, preset), torch.compile(model, **settings)


def whole_in_place(model, preset, settings):
    sharded = shard(model, preset)
    model.compile(**settings)
    return *sharded, model


def of_a_compiled_model(model, preset, settings):
    compiled = torch.compile(model, **settings)
    return *shard(compiled, preset), compiled


def forwards(model, preset, settings):
    for layer in model.layers:
        layer.forward = torch.compile(layer.forward, **settings)
    return *shard(model, preset), model


def step_function(model, preset, settings):
    sharded = shard(model, preset)
    return *sharded, torch.compile(lambda x: model(x) * 1.0, **settings)


_ONE_GRAPH = (blocks_of_torchtitan,)
_WAYS = (*_ONE_GRAPH, blocks_before, blocks_after, layers_in_blocks, whole_outside, whole_in_place, of_a_compiled_model, forwards, step_function)


class FullyShard(TorchRanksTest):
    def test_compiled_in_all_ways(self):
        def run(rank):
            for preset, some, one in (("zero2", (), ()), ("full_shard", (blocks_before, blocks_of_torchtitan, whole_outside), (blocks_of_torchtitan,))):
                sharded, optimizer = shard(Model(), preset)
                losses, state = trained(sharded.module, optimizer, rank), sharded.full_state_dict()
                for backend, way in backends(_WAYS, some, one):
                    torch._dynamo.reset()
                    settings, compiled = graphs(backend)
                    sharded, optimizer, call = way(Model(), preset, settings)
                    about = (preset, backend, way.__name__)
                    expect_close(trained(call, optimizer, rank), losses, about)
                    found = {name.replace("_orig_mod.", ""): tensor for name, tensor in sharded.full_state_dict().items()}
                    expect_close(found, dict(state), about)
                    assert compiled or backend != "eager", about
                    with torch.no_grad():  # and evaluates
                        call(batch(rank, 0))
                    sharded.destroy()
        self.run_ranks(2, run)

    def test_forwards_that_raise(self):
        """In a compiled block, too, whose hooks torch does not call then while it traces."""
        class Picky(Block):
            def forward(self, x):
                if x.shape[0] == 3:
                    raise ValueError("three rows")
                return super().forward(x)

        def run(rank):
            for way in [way for way in _WAYS if way not in _ONE_GRAPH]:  # one graph raises nothing
                torch._dynamo.reset()
                model = Model()
                model.layers[1].__class__ = Picky
                sharded, optimizer, call = way(model, "full_shard", {"backend": "eager"})
                for _ in range(2):
                    with self.assertRaisesRegex(Exception, "three rows"):
                        call(torch.ones(3, 6))
                    optimizer.zero_grad()
                    sharded.discard()
                    trained(call, optimizer, rank)
        self.run_ranks(2, run)


if __name__ == "__main__":
    torch_ranks.main()
