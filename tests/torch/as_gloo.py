"""weft under gloo's name, for tests of torch whose bodies ask for that name; and two registrations for tests of the tests."""
import torch.distributed as dist
from weft.torch import groups

_GLOO = dist.ProcessGroup.BackendType.GLOO


def nothing():
    """gloo itself."""


def register():
    dist.Backend.register_backend("gloo", lambda options, more=None: groups.create(options, more, _GLOO), extended_api=True, devices=["cpu", "cuda"],
                                  _backend_type=_GLOO)


def register_falsified():
    """weft, but the last element of a sum is off by one unit."""
    right = groups.WeftProcessGroup.allreduce

    def allreduce(self, tensors, opts=None):
        work = right(self, tensors, opts)
        work.wait()
        tensors[0].view(-1)[-1] += 1
        return work

    groups.WeftProcessGroup.allreduce = allreduce
    groups.register()
