"""torchrun starts what weftrun starts: communicators of weft's own, and process groups of torch on weft."""
import subprocess
import sys
import unittest

import torch_ranks
from torch_ranks import ranks

_PROGRAM = """\
import torch, torch.distributed as dist
import weft, weft.torch
dist.init_process_group("weft")
x = torch.ones(3)
dist.all_reduce(x)
with weft.init() as world:
    y = torch.full((2,), float(world.rank))
    world.all_reduce(y)                      # a tensor is a buffer, by DLPack
    world.all_gather(y, torch.empty(2 * world.size))
    z = torch.tensor([1.5, 2.5], dtype=torch.bfloat16)
    world.all_reduce(z, op="max")
    print(f"rank {world.rank} of {world.size}: {x.tolist()} {y.tolist()} {z.tolist()}\\n", end="", flush=True)
dist.destroy_process_group()
"""


class Launchers(ranks.RanksTest):
    def test_torchrun(self):
        done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", self.program(_PROGRAM, start="")],
                              env=ranks.environment(), capture_output=True, text=True, timeout=torch_ranks.DEADLINE_S, check=False)
        self.assertEqual((0, [f"rank {rank} of 2: [2.0, 2.0, 2.0] [1.0, 1.0] [1.5, 2.5]" for rank in range(2)]),
                         (done.returncode, sorted(line for line in done.stdout.splitlines() if line.startswith("rank"))), done.stderr)


if __name__ == "__main__":
    ranks.launched.program = sys.argv[1]
    unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[2:]])
