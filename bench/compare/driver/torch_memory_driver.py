"""One rank of ./dev compare --torch: the memory of a GPT-2's training steps, under one contestant.

    torch_memory_driver.py OPTIONS     started by weftrun; OPTIONS is JSON, each rank writes a line of JSON

A rank's memory is what the kernel counts as its share (Pss): memory that ranks share is counted once, divided among those that have touched it. It is looked at
after each block's forward, before each one's backward, after the backward of all, and after the update. What was there before the model does not count, nor what a
first small model leaves (imports, threads, transports). "ours" is of weft's own memory alone, at the end of the last step.
"""
import contextlib
import ctypes
import gc
import json
import os
import sys

RANK = int(os.environ["RANK"])

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812
import weft.torch  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch_driver import GPT, Block  # noqa: E402

_TINY = {"layers": 2, "width": 64, "heads": 2, "vocabulary": 256, "context": 64}
_STEPS = 3


def held():
    """Bytes of this process, without what its allocators could give back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return now()


def now():
    with open("/proc/self/smaps_rollup") as rollup:
        return next(int(line.split()[1]) << 10 for line in rollup if line.startswith("Pss:"))


def ours():
    """Bytes of weft's heap."""
    total, inside = 0, False
    with open("/proc/self/smaps") as mappings:
        for line in mappings:
            if "-" in line.split()[0]:
                inside = "memfd:weft-heap" in line
            elif inside and line.startswith("Pss:"):
                total += int(line.split()[1]) << 10
    return total


class Watch:
    """The most that is seen."""

    def __init__(self, model):
        self.most = 0
        for module in model.modules():
            if isinstance(module, Block):
                module.register_forward_hook(self._after_forward)

    def look(self, *_):
        self.most = max(self.most, now())

    def _after_forward(self, module, given, result):
        self.look()
        if result.requires_grad:
            result.register_hook(self.look)


def made(contestant, model):
    """(what updates, what clears gradients, bytes of weft's plan)"""
    if contestant.startswith("managed"):
        sharded = weft.torch.fully_shard(model, "full_shard", wrap=Block, optimizer="adamw" if contestant == "managed+" else None)
        plan = sharded.plan.peak_bytes
        if contestant == "managed+":
            return lambda: sharded.step(1e-4), lambda: None, plan
        optimizer = sharded.optimizer(torch.optim.AdamW, lr=1e-4)
        return optimizer.step, optimizer.zero_grad, plan
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    if contestant == "weft+":
        weft.torch.fsdp.install(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return optimizer.step, optimizer.zero_grad, None


def steps(contestant, shape, tokens):
    """What is said of them."""
    before, ours_before = held(), ours()
    torch.manual_seed(1)
    model = GPT(**shape)
    update, clear, plan = made(contestant, model)
    watch = Watch(model)
    data = torch.randint(0, shape["vocabulary"], (1, tokens + 1), generator=torch.Generator().manual_seed(RANK))
    for _ in range(_STEPS):
        loss = F.cross_entropy(model(data[:, :-1]).view(-1, shape["vocabulary"]), data[0, 1:])
        loss.backward()
        watch.look()
        del loss
        update()
        watch.look()
        clear()
    return {"contestant": contestant, "rank": RANK, "peak": watch.most - before, "rest": held() - before, "ours": ours() - ours_before, "plan": plan}


def main():
    options = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo" if options["contestant"] == "gloo" else "weft")
    for shape in (_TINY, options["model"]):
        found = steps(options["contestant"], shape, min(options["tokens"], shape["context"]))
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
