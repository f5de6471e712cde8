"""Parameters and gradients of FSDP2 in memory that all ranks of a node reach.

    fully_shard(...)                  # torch's, over a mesh of groups of weft
    weft.torch.fsdp.install(model)

An all_gather has one result for all ranks of the group, in a block that they share: FSDP's own copy of a rank's shard into that is the whole
transfer. A reduce_scatter reads its peers' gradients where they lie.

Who may write to a block next is agreed on without waiting. With each all_gather a rank says which blocks it has no tensor on any more, in words
behind the result. When that has ended, all ranks know all words, so all take the same block for the next one: one that everybody had
released, or else a new one. A rank that is late, prefetching, or a tensor that somebody keeps, costs a block and never a result.

Thread-safety: as FSDP2, whose hooks these are: one thread at a time, one order of calls on all ranks.
"""
from __future__ import annotations

import ctypes
import math
import warnings
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

try:
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter
    from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultAllGather, DefaultReduceScatter
except ImportError as failure:
    raise ImportError(f"weft.torch.fsdp needs a torch whose fully_shard takes collectives of others (2.15 does); this is {torch.__version__}: {failure}") from failure

from weft._library import library
from weft.core.communicator import Communicator
from weft.core.errors import Error, Result, check
from weft.torch.groups import communicator_of
from weft.torch.memory import Block, SymmetricPool, pages
from weft.torch.works import explained

__all__ = ["install", "uninstall"]

_all_gather: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter: Any = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
# A word has a bit for each.
_BLOCKS_MAX = 64
_LINE_BYTES = 64
_WORDS_PER_LINE = _LINE_BYTES // 8


def install(model: torch.nn.Module) -> None:
    """Has all FSDPModules of `model` gather and reduce as above. May be called again, for modules that were added. Not collective, but all ranks
    call it for the same modules and before any of them is gathered.

    Left alone, with a warning that names them: modules with several groups of parameters (shard_placement_fn with meshes), for which torch takes no
    hooks. Raises ValueError if parameters are not on the CPU or their group is not weft's; nothing is installed then."""
    left_alone, wanted = [], []
    for name, module in _modules(model):
        groups = _param_groups(module)
        if len(groups) > 1:
            left_alone.append(name or "the root")
            continue
        for group in groups:
            if not hasattr(group.mesh_info, "shard_process_group"):
                continue  # replicated: nothing to gather
            if group.device.type != "cpu":
                raise ValueError(f"the parameters of {name or 'the root'} are on {group.device}; weft.torch.fsdp works on the CPU's memory")
            if communicator_of(group.mesh_info.shard_process_group) is None:
                raise ValueError(f"{name or 'the root'} is sharded over a group of {dist.get_backend(group.mesh_info.shard_process_group)}; "
                                 'weft.torch.fsdp needs one of weft, as of init_process_group("weft")')
            wanted.append((module, group))
    if left_alone:
        warnings.warn(f"weft.torch.fsdp leaves modules with several groups of parameters as they are, torch has no hooks for them: {', '.join(left_alone)}",
                      stacklevel=2)
    gradients = next((group._reduce_scatter_comm.pool for _, group in wanted if isinstance(group._reduce_scatter_comm, _Reduce)), None) or SymmetricPool()
    for module, group in wanted:
        if not isinstance(group._all_gather_comm, _Gather):
            module.set_custom_all_gather(_Gather(group))
            module.set_custom_reduce_scatter(_Reduce(gradients))


def uninstall(model: torch.nn.Module) -> None:
    """Gives `model` torch's own operations back, and the system the blocks that nobody uses. Collective over the groups of the model. Without it,
    shared blocks last as long as their group, for the next model that is sharded over that; memory of gradients goes with the model."""
    pools = []
    for _, module in _modules(model):
        for group in _param_groups(module):
            if isinstance(group._all_gather_comm, _Gather):
                pools += [pool for pool in group._all_gather_comm.pools if pool not in pools]
                module.set_custom_all_gather(DefaultAllGather())
                module.set_custom_reduce_scatter(DefaultReduceScatter())
    for pool in pools:
        pool.free()


def _modules(model: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    return ((name, module) for name, module in model.named_modules() if isinstance(module, FSDPModule))


def _param_groups(module: Any) -> list[Any]:
    """torch has no public name for them, and its hooks need them: allocate() is not told for which group."""
    try:
        return list(module._get_fsdp_state()._fsdp_param_groups)
    except AttributeError as failure:
        raise RuntimeError(f"weft.torch.fsdp does not know the FSDP2 of torch {torch.__version__}: {failure}") from None


class _SharedBlock(Block):
    """Of weft_mem_alloc_shared, with a line for each rank's word behind what tensors get. Lasts until it is freed, or the group destroyed."""

    def __init__(self, comm: Communicator, count_bytes: int) -> None:
        memory = ctypes.c_void_p()
        _check(library.weft_mem_alloc_shared(comm._group, count_bytes + comm.size * _LINE_BYTES, ctypes.byref(memory)))
        super().__init__(memory.value or 0, count_bytes)
        self.words = (ctypes.c_uint64 * (comm.size * _WORDS_PER_LINE)).from_address(self.address + count_bytes)

    def free(self, comm: Communicator) -> None:
        _check(library.weft_mem_free_shared(comm._group, self.address))


class _SharedPool:
    """The blocks of one group: the same ones, in the same order, on all of its ranks.

    What `_released` is at any call of tensor() is the same on all ranks: the words of the last all_gather that has ended, and blocks that are newer
    than that. So is the choice, also when a rank asks again after an exception between tensor() and gather()."""

    def __init__(self, comm: Communicator) -> None:
        self._comm = weakref.ref(comm)
        self._blocks: list[_SharedBlock] = []
        self._released = 0  # a bit for each block
        self._under_way: tuple[_SharedBlock, Any] | None = None
        self._shares = True
        self._private = SymmetricPool()  # for what cannot be shared

    def tensor(self, size: Sequence[int], dtype: torch.dtype) -> Tensor:
        """For the result of the next all_gather. Collective where the pool grows, which it does until it has as many blocks as are in use at once."""
        self._live_comm()
        self._learn()
        needed = pages(math.prod(size) * dtype.itemsize)
        released = [block for place, block in enumerate(self._blocks) if self._released >> place & 1]
        fitting = [block for block in released if block.bytes >= needed]
        block = min(fitting, key=lambda one: one.bytes) if fitting else self._grow(needed, released)
        return self._private.tensor(size, dtype) if block is None else block.tensor(size, dtype)

    def gather(self, output: Tensor, given: Tensor, group: Any, async_op: bool) -> Any:
        """The all_gather, which says what this rank has released."""
        address = output.data_ptr()
        block = next((one for one in self._blocks if one.address == address), None)
        if block is None:  # nobody shares it
            return _all_gather(output, given, group=group, async_op=async_op)
        # Whoever reads it has ended this all_gather, and nobody ends that before all have begun it.
        block.words[self._live_comm().rank * _WORDS_PER_LINE] = sum(1 << place for place, one in enumerate(self._blocks) if one.idle)
        work = _all_gather(output, given, group=group, async_op=async_op)
        self._under_way = (block, work if async_op else None)
        if not async_op:
            self._learn()
        return work

    def free(self) -> None:
        """All blocks that all ranks have released. Collective."""
        comm = self._comm()
        if comm is None or comm._group is None or not self._blocks:
            return
        self._learn()
        word = (ctypes.c_uint64 * 1)(sum(1 << place for place, block in enumerate(self._blocks) if block.idle))
        comm.all_reduce(word, op="bit_and")
        for place in reversed(range(len(self._blocks))):
            if word[0] >> place & 1:
                self._blocks.pop(place).free(comm)
        self._released = 0

    def _learn(self) -> None:
        """Reads the words of the last all_gather, once it has ended."""
        if self._under_way is not None:
            block, work = self._under_way
            if work is not None:
                work.wait()
            self._under_way = None
            self._released = (1 << len(self._blocks)) - 1
            for word in block.words[::_WORDS_PER_LINE]:
                self._released &= word

    def _grow(self, needed: int, released: list[_SharedBlock]) -> _SharedBlock | None:
        """A block in place of the largest that nobody uses and that is too small, if there is one. None: the group cannot share, or has enough blocks."""
        if not self._shares or (len(self._blocks) == _BLOCKS_MAX and not released):
            return None
        comm = self._live_comm()
        if released:
            place = self._blocks.index(max(released, key=lambda one: one.bytes))
            self._blocks.pop(place).free(comm)
            self._released = _without(self._released, place)
        try:
            block = _SharedBlock(comm, needed)
        except Error as error:
            if error.code is Result.UNSUPPORTED:  # a group over several nodes
                self._shares = False
                return None
            raise
        self._released |= 1 << len(self._blocks)
        self._blocks.append(block)
        return block

    def _live_comm(self) -> Communicator:
        """Raises weft.Error if the blocks are not there any more: in a forked child, or once the group is destroyed."""
        comm = self._comm()
        if comm is None or comm._group is None:
            raise Error("the process group of a model is destroyed; it cannot be gathered any more", Result.BAD_STATE)
        number = ctypes.c_uint64()
        _check(library.weft_group_sequence(comm._group, ctypes.byref(number)))
        return comm


def _without(bits: int, place: int) -> int:
    """The bits of a list from which the element at `place` is taken."""
    return bits & (1 << place) - 1 | bits >> place + 1 << place


def _check(result: int) -> None:
    try:
        check(result)
    except Error as error:
        raise explained(error) from None


# One of each communicator, for all models that are sharded over it; they go with the communicator.
_pools: weakref.WeakKeyDictionary[Communicator, _SharedPool] = weakref.WeakKeyDictionary()


class _Gather(AllGather):
    """Of the parameters of one FSDPModule."""

    def __init__(self, group: Any) -> None:
        self._param_group = group
        self.pools: list[_SharedPool] = []

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        comm = communicator_of(self._param_group._all_gather_process_group)
        if comm is None:  # reshard_after_forward into a group of another backend
            return torch.empty(*size, dtype=dtype, device=device)
        return self._pool(comm).tensor(size, dtype)

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, group: Any, async_op: bool = False) -> Any:
        comm = communicator_of(group)
        if comm is None:
            return _all_gather(output_tensor, input_tensor, group=group, async_op=async_op)
        return self._pool(comm).gather(output_tensor, input_tensor, group, async_op)

    def _pool(self, comm: Communicator) -> _SharedPool:
        pool = _pools.get(comm)
        if pool is None:
            pool = _pools[comm] = _SharedPool(comm)
        if pool not in self.pools:
            self.pools.append(pool)
        return pool


class _Reduce(ReduceScatter):
    """Of the gradients: given and reduced ones lie in this rank's part of weft's heap, where peers read the former. The reduced ones are the gradients
    that the optimizer sees, and keep their block as long as anybody keeps one of them."""

    def __init__(self, pool: SymmetricPool) -> None:
        self.pool = pool  # the model's

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return self.pool.tensor(size, dtype)

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, group: Any, op: Any, async_op: bool = False) -> Any:
        return _reduce_scatter(output_tensor, input_tensor, group=group, op=op, async_op=async_op)
