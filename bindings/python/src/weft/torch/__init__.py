"""weft as a backend of torch.distributed.

    import torch.distributed as dist
    import weft.torch                           # not needed from torch 2.15 on, where the package is installed
    dist.init_process_group("weft")             # or "cpu:weft,cuda:nccl"

`weft.torch.fsdp.install(model)` and `weft.torch.ddp_hook()` have FSDP2 and DDP use memory that ranks of a node reach directly.

docs/torch.md has the rules. Nothing here is compiled against a version of torch, but what `python -m weft.torch.build_ext` makes of calls.cc.
"""
from __future__ import annotations

import importlib
from typing import Any

from weft.torch.ddp import ddp_hook
from weft.torch.groups import WeftBackend, WeftProcessGroup, register
from weft.torch.sharding.manager import FullyShard, fully_shard
from weft.torch.tracing import skip_this_package

__all__ = ["FullyShard", "WeftBackend", "WeftProcessGroup", "ddp_hook", "fsdp", "fully_shard", "register"]

register()
skip_this_package()


def __getattr__(name: str) -> Any:
    if name == "fsdp":  # imports torch.distributed.fsdp, which takes seconds
        return importlib.import_module("weft.torch.fsdp")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
