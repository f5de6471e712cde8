"""A communication hook for DistributedDataParallel.

    model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    model.register_comm_hook(None, weft.torch.ddp_hook(share=True))     # or ddp_hook(dtype=torch.bfloat16)

The reduction divides, so nothing goes over the gradients once more. torch's own hook divides each rank's gradients before the sum, weft divides the
sum before it is rounded: equal bits where the number of ranks is a power of two and nothing is denormal.
"""
# No `annotations` of __future__: torch compares those of a hook with its types.
import os
import warnings
from typing import Any, Callable, Dict, Optional, Set, Tuple

import torch
import torch.distributed as dist

from weft._library import library
from weft.core import interrupt
from weft.core.errors import check
from weft.torch.memory import SymmetricPool

Hook = Callable[[Any, dist.GradBucket], torch.futures.Future[torch.Tensor]]

_SHM = "/dev/shm"
# torch makes buckets anew once, after the first step. One that is new each time is not worth moving.
_MOVES_MAX = 4


def ddp_hook(dtype: Optional[torch.dtype] = None, share: bool = False) -> Hook:
    """For `DistributedDataParallel.register_comm_hook(group, hook)`; group None: the world. One hook for one model.

    dtype: torch.bfloat16 or torch.float16: gradients travel in that type, through a buffer in weft's heap; sums are formed in float32 and rounded
    once. share: moves each bucket once, where it lies for DDP and for gradients that are views of it, into memory that ranks of the node reach, so
    that they reduce it in place; needs room for the buckets in /dev/shm. Where that cannot be, a warning says why once, and the bucket
    stays where it is. Raises ValueError for another dtype. Errors of the operation come out of backward()."""
    if dtype not in (None, torch.bfloat16, torch.float16):
        raise ValueError(f"dtype is {dtype}; gradients travel as they are, or as torch.bfloat16 or torch.float16")
    shared, pool = _SharedBuckets() if share and dtype is None else None, SymmetricPool()

    def weft_ddp_hook(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        gradients = bucket.buffer()
        if gradients.layout is not torch.strided:  # of an embedding with sparse=True: a bucket of its own
            return _sum_sparse(gradients, state)
        travelling = gradients
        if dtype is not None and gradients.is_floating_point() and gradients.dtype.itemsize > dtype.itemsize:
            travelling = pool.tensor(gradients.shape, dtype)
            travelling.copy_(gradients)
        elif shared is not None:
            shared.move(bucket)
        last = bucket.is_last()  # backward has nothing else to do then

        def received(_: Any) -> torch.Tensor:
            if travelling is not gradients:
                gradients.copy_(travelling)
            return gradients

        work = dist.all_reduce(travelling, dist.ReduceOp.AVG, group=state, async_op=not last)
        if last:
            future: Any = torch.futures.Future()
            future.set_result(received(None))
            return future
        return work.get_future().then(received)

    return weft_ddp_hook


def _sum_sparse(gradients: torch.Tensor, group: Any) -> torch.futures.Future[torch.Tensor]:
    """As they are: what travels is their elements and places, of which ranks have different ones."""
    dist.all_reduce(gradients, group=group)
    future: Any = torch.futures.Future()
    future.set_result(gradients.div_(dist.get_world_size(group)))
    return future


class _SharedBucket:
    """A registration of a bucket's memory, which lasts as long as that."""

    def __init__(self, storage: Any, descriptor: int) -> None:
        """Of a storage that is a mapping of the descriptor."""
        self._storage, self.address = storage, storage.data_ptr()
        check(library.weft_mem_register_fd(self.address, storage.nbytes(), descriptor, 0, 0))

    def __del__(self) -> None:
        interrupt.later(_Deregister(self._storage))


class _Deregister:
    def __init__(self, storage: Any) -> None:
        self._storage = storage  # unmapped after the call

    def __call__(self) -> None:
        library.weft_mem_deregister(self._storage.data_ptr())


_Place = Tuple[int, torch.dtype]


class _SharedBuckets:
    """Those of one model, by their places and types: in the first step with static_graph torch says of all that their place is 0, has one of each type, and
    the places are others in the next. It says of none that it is gone, so each is kept until another is seen in its place, or it is not among those of a
    step any more."""

    def __init__(self) -> None:
        self._buckets: Dict[_Place, _SharedBucket] = {}
        self._moves: Dict[_Place, int] = {}
        self._seen: Set[_Place] = set()  # since the last one of a step
        self._refused = False

    def move(self, bucket: dist.GradBucket) -> None:
        """Unless it is there already."""
        place, storage = (bucket.index(), bucket.buffer().dtype), bucket.buffer().untyped_storage()
        for other, registered in self._buckets.items():
            if registered.address == storage.data_ptr():
                self._buckets[place] = self._buckets.pop(other)
                break
        self._seen.add(place)
        if bucket.is_last():
            for gone in self._buckets.keys() - self._seen:
                del self._buckets[gone]
            self._seen = set()
        known = self._buckets.get(place)
        if self._refused or (known is not None and known.address == storage.data_ptr()):
            return
        self._buckets.pop(place, None)
        self._moves[place] = self._moves.get(place, 0) + 1
        reason = _why_not(storage, self._moves[place])
        if reason is None:
            try:
                descriptor, _ = storage._share_fd_cpu_()
                self._buckets[place] = _SharedBucket(storage, descriptor)
            except (RuntimeError, OSError) as failure:
                reason = str(failure).splitlines()[0]
        if reason is not None:
            self._refused = True
            warnings.warn(f"buckets of gradients are not shared with other ranks: {reason}", stacklevel=2)


def _why_not(storage: Any, moves: int) -> Optional[str]:
    if not hasattr(storage, "_share_fd_cpu_"):
        return f"torch {torch.__version__} cannot move a storage to shared memory"
    if storage.device.type != "cpu":
        return f"they are on {storage.device}"
    if moves > _MOVES_MAX:
        return "they are made anew with every step, as lazy_bucket_allocation has it"
    try:
        room = os.statvfs(_SHM)
    except OSError as failure:
        return f"{_SHM}: {failure.strerror}"
    # Others of this node may be about to take as much.
    needed, free = storage.nbytes() * dist.get_world_size(), room.f_bavail * room.f_frsize
    if needed > free:
        return f"{_SHM} has {free >> 20} MiB left, buckets of all ranks take {needed >> 20} MiB; make it larger (of a container: --shm-size)"
    return None
