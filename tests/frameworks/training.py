"""What the training programs of this folder share: a model, rows, and what a rank tells the test."""
import hashlib
import json

import torch
import torch.distributed as dist
from torch import nn

import weft.torch
from weft.torch.groups import communicator_of

ROWS = 4  # of one rank in one step
SIZE = 2
_STEPS = 6

_said_bytes = 0


def model():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))


def rows():
    """Of all steps and ranks."""
    generator = torch.Generator().manual_seed(7)
    return torch.utils.data.TensorDataset(*(torch.randn(_STEPS * ROWS * SIZE, width, generator=generator) for width in (8, 4)))


def loss_of(module, x, y):
    return nn.functional.mse_loss(module(x).float(), y)


def say(name, losses, parameters):
    """One line: what was trained, losses, a digest of the parameters, the backends of all groups, and the bytes that weft took since the last one."""
    global _said_bytes
    parameters = [parameter.detach().contiguous() for parameter in parameters]
    groups = list(dist.distributed_c10d._world.pg_map)
    in_bytes = sum(communicator.stats().in_bytes for group in groups if (communicator := communicator_of(group)))
    print(json.dumps({"name": name, "losses": losses, "parameters": hashlib.sha256(b"".join(parameter.numpy().tobytes() for parameter in parameters)).hexdigest(),
                      "backends": sorted({dist.get_backend(group) for group in groups}), "in_bytes": in_bytes - _said_bytes,
                      "gradient_bytes": len(losses) * sum(parameter.nbytes for parameter in parameters)}), flush=True)
    _said_bytes = in_bytes
