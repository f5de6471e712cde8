"""PyTorch's contestants of ./dev compare --trainer: the trainer's model as a user of torch writes and trains it, on command.

    torch_trainer.py WAY FOLDER SHAPE [RANKS]      WAY: one of WAYS; SHAPE: JSON with layers, width, heads, seq, vocabulary, batch, dtype, threads

FOLDER has the inputs that trainer_bench wrote: everybody begins with the same weights and reads the same tokens. Each rank answers
commands as trainer_bench does (bench/compare/jobs.py). Without a launcher's RANK this process starts RANKS of them.
"""
import contextlib
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

# WAY: (backend of torch.distributed, how the model is wrapped). Of "fake", torch's own for tests, every collective returns at once.
WAYS = {"single": (None, "plain"), "ddp": ("gloo", "ddp"), "ddp-silent": ("fake", "ddp-silent"), "fsdp2": ("gloo", "fsdp2"),
        "fsdp2-policy": ("gloo", "fsdp2-policy"), "fsdp2-silent": ("fake", "fsdp2"), "no_shard": ("weft", "no_shard"),
        "full_shard": ("weft", "full_shard")}


def start_ranks(size):
    """Starts this program once for each rank and waits."""
    environment = dict(os.environ, WORLD_SIZE=str(size))
    ranks = [subprocess.Popen([sys.executable, "-B", *sys.argv], env=dict(environment, RANK=str(rank))) for rank in range(size)]
    return max(abs(process.wait()) for process in ranks)


def prepare():
    """Before torch makes threads: this rank's core, if there is one for each, and its end with its launcher's."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # a rank is stopped most of the time: nothing else would end it
    if os.environ.get("COMPARE_CORES"):
        os.sched_setaffinity(0, {int(os.environ["COMPARE_CORES"].split(",")[int(os.environ["RANK"])])})


def make_model(shape):
    """A GPT-2: learned positions, pre-norm blocks, tanh GELU, the head tied to the token table. (model, class of its blocks)"""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812
    width, heads = shape["width"], shape["heads"]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, seq, _ = x.shape
            q, k, v = (part.view(batch, seq, heads, -1).transpose(1, 2) for part in self.qkv(self.ln1(x)).chunk(3, -1))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(mixed.transpose(1, 2).reshape(batch, seq, width))
            return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(shape["vocabulary"], width), nn.Embedding(shape["seq"], width)
            self.blocks = nn.ModuleList(Block() for _ in range(shape["layers"]))
            self.lnf = nn.LayerNorm(width)
            self.head = nn.Linear(width, shape["vocabulary"], bias=False)
            self.head.weight = self.wte.weight

        def forward(self, tokens, targets):
            x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
            for block in self.blocks:
                x = block(x)
            return F.cross_entropy(self.head(self.lnf(x)).flatten(0, 1), targets.flatten())

    with torch.device("meta"):
        model = Model()
    model.to_empty(device="cpu")
    model.head.weight = model.wte.weight
    return model, Block


def load(model, folder, inputs, shape):
    """Gives it the trainer's initial weights, in torch's layout of them."""
    import torch
    ours = torch.from_file(str(folder / "weights.f32"), size=os.path.getsize(folder / "weights.f32") // 4, dtype=torch.float32)
    theirs, at = dict(model.named_parameters()), 0
    heads, width = shape["heads"], shape["width"]
    for param in inputs["params"]:
        values = ours[at:at + torch.Size(param["shape"]).numel()].view(param["shape"])
        at += values.numel()
        name = param["name"].replace("block.", "blocks.").replace("attn.", "").replace("mlp.", "")
        if ".qkv." in name:  # rows [heads, 3, ...] there, [3, heads, ...] here
            values = values.view(heads, 3, width // heads, -1).transpose(0, 1).reshape(values.shape)
        if name.endswith(("proj.weight", "down.weight")):  # [in, out] there
            values = values.T
        name += ".weight" if name in ("wte", "wpe") else ""
        with torch.no_grad():
            own = theirs.pop(name)
            own.copy_(values[:len(own)])  # the trainer pads the token table
    if theirs:
        raise ValueError(f"weights without values: {sorted(theirs)}")


class Contestant:
    """The wrapped model, its optimizer and its share of the tokens. One thread."""

    def __init__(self, way, folder, shape, rank, size):
        import torch
        self._torch, self._rank, self._size, self._done = torch, rank, size, 0
        self._backend, self._kind = WAYS[way]
        torch.set_num_threads(shape["threads"])
        torch.set_flush_denormal(True)  # what nobody sent may be anything
        inputs = json.loads((folder / "inputs.json").read_text())
        self._clip = inputs["clip"]
        self._bf16 = shape["dtype"] == "bf16"
        tokens = torch.from_file(str(folder / "tokens.i32"), size=os.path.getsize(folder / "tokens.i32") // 4, dtype=torch.int32)
        self._tokens = tokens.view(-1, shape["batch"], shape["seq"] + 1).tensor_split(size, 1)[rank].long()
        self._connect()
        self._load_libraries()
        self.before_bytes = int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        model, block = make_model(shape)
        load(model, folder, inputs, shape)
        self._wrap(model, block)
        self._optimizer = self._make_optimizer(inputs)

    def _connect(self):
        if self._backend is None:
            return
        from torch import distributed
        if self._backend == "weft":
            import weft.torch  # noqa: F401  (registers itself)
            distributed.init_process_group("weft")
        elif self._backend == "fake":
            from torch.testing._internal.distributed.fake_pg import FakeStore
            distributed.init_process_group("fake", store=FakeStore(), rank=self._rank, world_size=self._size)
        else:
            distributed.init_process_group("gloo", init_method=f"file://{os.environ['COMPARE_PIPES']}/store", rank=self._rank,
                                           world_size=self._size)

    def _load_libraries(self):
        """What torch loads when it is first used is not the model's memory."""
        torch = self._torch
        if self._kind.startswith("fsdp2"):
            from torch.distributed import fsdp  # noqa: F401
        probe = torch.nn.Linear(8, 8)
        optimizer = torch.optim.AdamW(probe.parameters(), fused=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self._bf16):
            probe(torch.ones(1, 8)).sum().backward()
        torch.nn.utils.clip_grad_norm_(probe.parameters(), 1.0)
        optimizer.step()

    def _wrap(self, model, block):
        torch = self._torch
        self._sharded, self._model = None, model
        if self._kind.startswith("ddp"):
            self._model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        elif self._kind.startswith("fsdp2"):
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
            policy = {}
            if self._kind == "fsdp2-policy":
                policy = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)}
            mesh = init_device_mesh("cpu", (self._size,))
            for part in model.blocks:
                fully_shard(part, mesh=mesh, **policy)
            fully_shard(model, mesh=mesh, **policy)
        elif self._kind in ("no_shard", "full_shard"):
            import weft.torch
            self._sharded = weft.torch.fully_shard(model, self._kind, wrap=block, mesh=torch.distributed.group.WORLD)

    def _make_optimizer(self, inputs):
        """torch's AdamW in its fused form, with weight decay of matrices."""
        params = list(self._model.parameters())
        groups = [{"params": [one for one in params if one.dim() > 1], "weight_decay": inputs["weight_decay"]},
                  {"params": [one for one in params if one.dim() == 1], "weight_decay": 0.0}]
        settings = {"lr": inputs["lr"], "betas": tuple(inputs["betas"]), "eps": inputs["epsilon"], "fused": True}
        if self._sharded is not None:
            return self._sharded.optimizer(self._torch.optim.AdamW, groups, **settings)
        return self._torch.optim.AdamW(groups, **settings)

    def _step(self):
        """One step; its loss, as a float as weft_train has it for its metrics."""
        torch = self._torch
        windows = self._tokens[self._done]
        self._done += 1
        nothing = contextlib.nullcontext()
        cast = torch.autocast("cpu", torch.bfloat16) if self._bf16 and self._kind != "fsdp2-policy" else nothing
        with self._model.no_sync() if self._kind == "ddp-silent" else nothing:  # its reducer wants answers of those that are sent
            with cast:
                loss = self._model(windows[:, :-1], windows[:, 1:])
            loss.backward()
        if self._sharded is not None:
            self._sharded.clip_grad_norm_(self._clip)
        else:
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._clip)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def steps(self, count):
        """Makes so many; a barrier first, so that no rank waits in them for one that was told later."""
        if self._done + count > len(self._tokens):
            raise ValueError(f"there are inputs for {len(self._tokens)} steps")
        if self._backend is not None:
            self._torch.distributed.barrier()
        begin = time.monotonic()
        losses = [self._step() for _ in range(count)]
        return {"seconds": time.monotonic() - begin, "losses": losses}


def obey(way, folder, shape, rank, size):
    """Answers commands until the last; the exit code."""
    pipes = os.environ["COMPARE_PIPES"]
    with open(f"{pipes}/command.{rank}", encoding="utf-8") as commands, open(f"{pipes}/answer.{rank}", "w", encoding="utf-8") as answers:
        def answer(**found):
            print(json.dumps(found), file=answers, flush=True)

        try:
            import torch
            contestant = Contestant(way, folder, shape, rank, size)
            answer(pid=os.getpid(), size=size, version=f"torch {torch.__version__}", before_bytes=contestant.before_bytes)
            for line in commands:
                if line == "quit\n":
                    return 0
                answer(**contestant.steps(int(line.removeprefix("steps="))))
        except Exception as error:  # noqa: BLE001  (whatever it is, the other side must hear of it)
            answer(failure=f"{type(error).__name__}: {error}".replace("\n", " ")[:500])
            raise
    return 1


def main():
    way, folder, shape = sys.argv[1], pathlib.Path(sys.argv[2]), json.loads(sys.argv[3])
    size = int(sys.argv[4])
    if "RANK" not in os.environ:
        return start_ranks(size)
    prepare()
    return obey(way, folder, shape, int(os.environ["RANK"]), size)


if __name__ == "__main__":
    sys.exit(main())
