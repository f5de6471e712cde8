"""One rank of ./dev compare --torch: torch.distributed over weft, with and without its extension, and over Gloo, all in this process, in turns.

    torch_driver.py OPTIONS     started by weftrun; OPTIONS is JSON, rank 0 writes a line of JSON for each cell

Whoever has no turn sleeps: Gloo's threads in a poll, weft's agent in a wait. A turn begins with a barrier. Times are of the slowest rank.
"""
import datetime
import gc
import json
import os
import sys
import tempfile
import time

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
CORES = os.environ.get("COMPARE_CORES")
if CORES:
    os.sched_setaffinity(0, {int(CORES.split(",")[RANK])})  # before anybody makes threads

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812
import weft.torch  # noqa: E402
from weft.torch import extension  # noqa: E402
from weft.torch.groups import WeftBackend, WeftProcessGroup, make_backend  # noqa: E402
from weft.torch.works import Done  # noqa: E402

_TURN_S = 0.02
_CALLS_MAX = 2000
_FUTURES = ("future", "future_wait")  # of works that are started, which are Python's anyway


class _Silent:
    """Does nothing from `quiet()` on; what it would have cost is the communication."""

    silent = False

    def _run(self, function, arguments, opts, outputs, kept=None, finish=None):
        if _Silent.silent:
            return Done(outputs)
        return super()._run(function, arguments, opts, outputs, kept, finish)


class _SilentBackend(_Silent, WeftBackend):
    pass


class _SilentGroup(_Silent, WeftProcessGroup):
    pass


def _make_silent(options, _=None, kind=None):
    backend = make_backend(options.store, options.group_rank, options.group_size, options.timeout, f"silent {options.group_id}")
    backend.__class__, backend._calls = _SilentBackend, None
    return _SilentGroup(backend, options.store, dist.ProcessGroup.BackendType.CUSTOM)


class Driver:
    """The groups and what is measured on them. One thread."""

    def __init__(self, options):
        self._rounds = options["rounds"]
        dist.Backend.register_backend("silent", _make_silent, extended_api=True, devices=["cpu"])
        dist.init_process_group("weft", timeout=datetime.timedelta(seconds=120))
        self.weft, self.gloo, self.silent = dist.group.WORLD, dist.new_group(backend="gloo"), dist.new_group(backend="silent")
        self.extension = dist.new_group(backend="weft") if extension.calls() is not None else None
        self.weft._calls = self.weft._get_backend(torch.device("cpu"))._calls = None  # all of it in Python
        self._times = torch.zeros(1, dtype=torch.float64)

    def slowest(self, seconds):
        """Of all ranks."""
        self._times[0] = seconds
        dist.all_reduce(self._times, dist.ReduceOp.MAX, group=self.weft)
        return self._times.item()

    def turns(self, contestants, turn):
        """{name: [seconds, one for each round]}; turn(contestant) returns its seconds. Who begins changes."""
        names, result = list(contestants), {name: [] for name in contestants}
        for round_number in range(self._rounds):
            first = round_number % len(names)
            for name in names[first:] + names[:first]:
                dist.barrier(group=self.weft)
                result[name].append(self.slowest(turn(contestants[name])))
        return result

    def cell(self, operation, total_bytes):
        """Of an operation on float32, `total_bytes` of the whole vector."""
        count = total_bytes // 4
        whole, part = torch.ones(count), torch.ones(max(count // SIZE, 1))
        own = whole.view(SIZE, -1)[RANK] if count % SIZE == 0 else part  # all_reduce and all_gather run in place
        calls = {
            "all_reduce": lambda group: lambda: dist.all_reduce(whole, group=group),
            "all_gather": lambda group: lambda: dist.all_gather_into_tensor(whole, own, group=group),
            "reduce_scatter": lambda group: lambda: dist.reduce_scatter_tensor(part, whole, group=group),
            # As callers in C++ wait, who leave the operation to others; and as those in Python.
            "future": lambda group: lambda: torch._C.Future.wait(dist.all_reduce(whole, group=group, async_op=True).get_future()),
            "future_wait": lambda group: lambda: dist.all_reduce(whole, group=group, async_op=True).get_future().wait(),
        }[operation]
        groups = {"weft": self.weft, "gloo": self.gloo}
        if self.extension is not None and operation not in _FUTURES:
            groups["extension"] = self.extension
        contestants = {name: calls(group) for name, group in groups.items()}
        counts = {}
        for name, call in contestants.items():
            for _ in range(3):
                call()
            begin = time.perf_counter()
            for _ in range(3):
                call()
            counts[name] = int(min(max(_TURN_S / self.slowest((time.perf_counter() - begin) / 3), 3), _CALLS_MAX))

        def turn(contestant):
            name, call = contestant
            for _ in range(max(counts[name] // 10, 1)):
                call()
                whole.fill_(1)
            spent = 0.0
            for _ in range(counts[name]):
                if operation in _FUTURES:
                    whole.fill_(1)  # so that it does not overflow, and ranks do not meet by chance
                begin = time.perf_counter()
                call()
                spent += time.perf_counter() - begin
            whole.fill_(1)
            return spent / counts[name]

        return {"op": operation, "bytes": total_bytes, "calls": counts,
                "us": {name: [round(1e6 * one, 3) for one in times] for name, times in self.turns({name: (name, call) for name, call in contestants.items()}, turn).items()}}

    def steps(self, kind, model_of, tokens, vocabulary):
        """Of a model: forward and backward. The optimizer's step is not timed."""
        generator = torch.Generator().manual_seed(RANK)
        data = torch.randint(0, vocabulary, (1, tokens + 1), generator=generator)
        contestants, losses = {}, {}
        _Silent.silent = False
        for name in ("silent", "gloo", "weft", "weft+", "managed"):
            torch.manual_seed(1)
            make = self._managed if name == "managed" else self._data_parallel if kind == "ddp" else self._fully_sharded
            contestants[name] = (name, *make(kind if name == "managed" else name, model_of()))
            losses[name] = []
            gc.collect()

        def turn(contestant):
            name, model, optimizer = contestant
            _Silent.silent = name == "silent"
            begin = time.perf_counter()
            logits = model(data[:, :-1])
            loss = F.cross_entropy(logits.view(-1, vocabulary), data[0, 1:])
            loss.backward()
            spent = time.perf_counter() - begin
            losses[name].append(loss.item())
            if name != "silent":
                optimizer.step()
            optimizer.zero_grad()
            _Silent.silent = False
            return spent

        for contestant in contestants.values():  # buckets and blocks are made in the first two steps
            for _ in range(2):
                turn(contestant)
        times = self.turns(contestants, turn)
        return {"kind": kind, "tokens": tokens, "ms": {name: [round(1e3 * one, 3) for one in samples] for name, samples in times.items()},
                "losses": {name: samples for name, samples in losses.items() if name != "silent"},
                "parameters": sum(parameter.numel() for parameter in contestants["weft"][1].parameters())}

    def _managed(self, kind, model):
        sharded = weft.torch.fully_shard(model, "no_shard" if kind == "ddp" else "full_shard", wrap=Block, mesh=self.weft)
        return model, sharded.optimizer(torch.optim.SGD, lr=0.01)

    def _data_parallel(self, name, model):
        group = {"gloo": self.gloo, "silent": self.silent}.get(name, self.weft)
        model = torch.nn.parallel.DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True)
        if name == "weft+":
            model.register_comm_hook(group, weft.torch.ddp_hook(share=True))
        return model, torch.optim.SGD(model.parameters(), 0.01)

    def _fully_sharded(self, name, model):
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard
        mesh = DeviceMesh.from_group({"gloo": self.gloo, "silent": self.silent}.get(name, self.weft), "cpu")
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        if name == "weft+":
            weft.torch.fsdp.install(model)
        return model, torch.optim.SGD(model.parameters(), 0.01)


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.projection = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (part.view(batch, tokens, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.projection(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(torch.nn.Module):
    """GPT-2's shape: learned positions, tied output."""

    def __init__(self, layers, width, heads, vocabulary, context):
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(context, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        torch.nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, indices):
        x = self.tokens(indices) + self.positions.weight[:indices.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main():
    options = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # what the silent one leaves in its outputs is anything

    def say(result):
        if RANK == 0:
            print(json.dumps(result), flush=True)

    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", folder)
        driver = Driver(options)
        say({"versions": {"torch": torch.__version__, "weft": weft.__version__}})
        for operation, size in options["cells"]:
            say(driver.cell(operation, size))
        shape = options["model"]
        for kind in options["kinds"]:
            say(driver.steps(kind, lambda: GPT(**shape), options["tokens"], shape["vocabulary"]))
            gc.collect()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
