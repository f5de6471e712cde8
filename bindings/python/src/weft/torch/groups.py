"""What init_process_group("weft") and new_group make: a ProcessGroup with a Backend in it, over one communicator.

Callers in Python get works of this package from the ProcessGroup, which says truly whether they are done and where a message came from.
torch's own code (batch_isend_irecv, the pipelines' schedules, checkpoints) asks for the Backend. Where several devices have backends, and where
TORCH_DISTRIBUTED_DEBUG=DETAIL wraps them, torch makes the ProcessGroup and takes the Backend alone.
"""
from __future__ import annotations

import datetime
import os
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend as _Backend

from weft.core.communicator import Communicator
from weft.core.errors import Error, Result
from weft.torch import coalescing, extension, nan_check
from weft.torch.abort_hooks import AbortHooks
from weft.torch.collectives import Collectives
from weft.torch.membership import Membership, NoCommunicator, connect
from weft.torch.memory import SymmetricPool
from weft.torch.monitored_barrier import MonitoredBarrier
from weft.torch.works import Done, explained

NAME = "weft"
# Backends that torch holds in C++ alone, where a Backend without its Python object is an empty shell; until they are shut down.
_held: set[Any] = set()
_NAME_BYTES_MAX = 63
_POLL_S = 0.0005
# How many operations torch is to remember.
_RECORDER_VARIABLE = "TORCH_FR_BUFFER_SIZE"
# torch's flag of shrink_group.
_SHRINK_ABORT = getattr(dist.distributed_c10d, "SHRINK_ABORT", 1)
# What torch has no name for is a COMM_ERROR.
_ERROR_NAMES = {Result.TIMEOUT: "TIMEOUT", Result.REMOTE_ERROR: "REMOTE_ERROR", Result.PEER_LOST: "REMOTE_ERROR"}
_recv = getattr(dist.recv, "__wrapped__", dist.recv).__code__
_OLD_NAMES = {"_allgather_base": "all_gather_single", "_reduce_scatter_base": "reduce_scatter_single", "alltoall_base": "all_to_all_single",
              "allgather_into_tensor_coalesced": "all_gather_single_coalesced", "reduce_scatter_tensor_coalesced": "reduce_scatter_single_coalesced"}


class _OneGroup(Collectives):
    """What both of torch's classes have besides operations."""

    _hooks: AbortHooks

    _membership: Membership

    def _use(self, comm: Any, barrier: MonitoredBarrier) -> None:
        self._comm, self._monitored = comm, barrier
        self._open = coalescing.OfThread()
        self._calls = None if isinstance(comm, NoCommunicator) else extension.calls()

    def rank(self) -> int:
        return self._comm.rank

    def size(self) -> int:
        return self._comm.size

    @property
    def communicator(self) -> Communicator:
        """weft's own, for what torch has no call for."""
        return self._comm

    def getBackendName(self) -> str:  # noqa: N802
        return NAME

    def _get_backend_name(self) -> str:
        return NAME

    def monitored_barrier(self, opts: Any = None, wait_all_ranks: bool = False, **named: Any) -> None:
        timeout = named.get("timeout", opts)
        timeout = getattr(timeout, "timeout", timeout)
        if timeout is None or timeout < datetime.timedelta(0):
            timeout = self._membership.timeout
        self._monitored(timeout.total_seconds(), wait_all_ranks)

    def _get_sequence_number_for_group(self) -> int:
        return self._comm.sequence

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _set_default_timeout(self, timeout: datetime.timedelta) -> None:
        self.set_timeout(timeout)

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Of the operations that are called from now on."""
        self._membership.timeout = timeout
        self._comm.set_timeout(timeout.total_seconds())

    def abort(self) -> None:
        """Ends all operations of the group, on all its ranks."""
        if self._comm._group is not None:
            self._hooks.run()
        self._comm.abort("aborted by ProcessGroup.abort()")

    @property
    def supports_abort_hooks(self) -> bool:
        return True

    def register_abort_hook(self, hook_id: int, hook: Callable[[], object]) -> None:
        """Calls `hook` when the group has failed, before a call of this process raises that, or within a moment if nobody calls."""
        self._hooks.register(hook_id, hook)

    def unregister_abort_hook(self, hook_id: int) -> None:
        self._hooks.unregister(hook_id)

    registerAbortHook, unregisterAbortHook = register_abort_hook, unregister_abort_hook  # noqa: N815

    def shutdown(self) -> None:
        """Operations under way, each of which has a deadline, end first, as with torch's own backends."""
        while self._comm._group is not None and self._comm.failure() is None and self._comm.stats().pending:
            time.sleep(_POLL_S)
        self._hooks.stop()
        self._comm.destroy()
        _held.discard(self)

    def get_error(self) -> Any:
        """The kind of the group's failure, of which communicator.failure() has the sentence; SUCCESS only while it works, or has no members yet."""
        errors = dist._ErrorType if hasattr(dist, "_ErrorType") else torch._C._distributed_c10d.ErrorType
        if self._comm._group is None:
            return errors.SUCCESS if isinstance(self._comm, NoCommunicator) else errors.COMM_ERROR
        failure = self._comm.failure()
        return errors.SUCCESS if failure is None else getattr(errors, _ERROR_NAMES.get(failure.code, "COMM_ERROR"))


for _old, _new in _OLD_NAMES.items():
    setattr(_OneGroup, _old, getattr(_OneGroup, _new))


class WeftBackend(_OneGroup, _Backend):
    """c10d's Backend over weft."""

    def __init__(self, comm: Any, barrier: MonitoredBarrier, membership: Membership) -> None:
        _Backend.__init__(self, comm.rank, comm.size)
        self._use(comm, barrier)
        self._hooks, self._membership = AbortHooks(comm), membership
        self._group: weakref.ref[WeftProcessGroup] | None = None  # around it, if that is weft's, too
        self._shrinks = 0
        self._options = _Backend.Options(NAME, timeout=membership.timeout)
        self._pool = SymmetricPool()

    @property
    def options(self) -> Any:
        return self._options

    @property
    def supports_coalescing(self) -> bool:
        return True

    @property
    def supports_splitting(self) -> bool:
        return True

    def split(self, store: Any, ranks: list[int], opts: Any) -> Any:
        """The backend of some of the ranks, which call it; they meet in `store`."""
        if self._comm.rank not in ranks:
            return None
        return make_backend(store, ranks.index(self._comm.rank), len(ranks), getattr(opts, "_timeout", self._membership.timeout),
                            getattr(opts, "group_name", "") or f"{self._comm.name}/split", type(self))

    @property
    def supports_reconfigure(self) -> bool:
        """Where torch makes the ProcessGroup, in C++, that keeps the rank and size that it had at first."""
        return self._group is not None

    def get_reconfigure_handle(self) -> str:
        self._whole_group()
        return str(self._membership.handle(self._comm))

    def reconfigure(self, opts: Any) -> Any:
        """Makes the group anew of those whose handles are listed; it has ended when it returns. Collective over these."""
        group = self._whole_group()
        comm = self._membership.reconfigure(self._comm, opts)
        barrier = MonitoredBarrier(self._membership.store, comm.rank, comm.size, self._membership.group)
        barrier.join(comm.failure)
        self._use(comm, barrier)
        group._use(comm, barrier)
        self._hooks.follow(comm)
        _note_ranks(group, self._membership.first_ranks)
        return Done([])

    def _whole_group(self) -> WeftProcessGroup:
        group = self._group() if self._group is not None else None
        if group is None:
            raise RuntimeError("a group that torch has made around weft's backend (of several backends, by shrink_group, with TORCH_DISTRIBUTED_DEBUG=DETAIL or "
                               "TORCH_FR_BUFFER_SIZE and without enable_reconfigure=True) cannot be reconfigured, since it keeps its rank and size; make another one")
        return group

    @property
    def supports_shrinking(self) -> bool:
        return True

    def shrink(self, ranks_to_exclude: list[int], shrink_flags: int = 0, opts_override: Any = None) -> Any:
        """The backend of the other ranks, which call it; they meet in the store. This one stays as it is, or ends with SHRINK_ABORT."""
        if shrink_flags & _SHRINK_ABORT:
            self.abort()
        left = [rank for rank in range(self._comm.size) if rank not in ranks_to_exclude]
        self._shrinks += 1
        store = dist.PrefixStore(f"weft/shrink/{self._membership.group}/{self._shrinks}/{'.'.join(map(str, left))}/", self._membership.store)
        backend = make_backend(store, left.index(self._comm.rank), len(left), getattr(opts_override, "_timeout", self._membership.timeout), self._comm.name, type(self))
        _held.add(backend)
        return backend

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> Any:
        if self in _held and _is_called_by_recv():
            raise RuntimeError("recv without a source could not say which one it was, because torch hides that behind works of its own where a group has "
                               "several backends, with TORCH_DISTRIBUTED_DEBUG=DETAIL and with TORCH_FR_BUFFER_SIZE; name the source, or call irecv and wait for it")
        return super().recv_anysource(tensors, tag)

    def eager_connect_single_device(self, device: Any) -> None:
        pass

    def supports_tensor_alloc(self, device: Any) -> bool:
        """Whether allocate_tensor does: Python asks with a device. C++, of which DDP asks, with a number, and could not make its options an argument of it."""
        return isinstance(device, torch.device) and device.type == "cpu"

    def allocate_tensor(self, size: int, *, dtype: Any, device: Any = None) -> Any:
        """A tensor of one dimension in this rank's part of weft's heap, where peers of the node read it in place. Uninitialized; the memory goes with the
        last tensor on it, and is used again. Raises weft.Error: OUT_OF_MEMORY, SYSTEM_ERROR, FORKED."""
        return self._pool.tensor((size,), dtype)


class WeftProcessGroup(_OneGroup, dist.ProcessGroup):
    """c10d's ProcessGroup over weft, with a WeftBackend for the CPU in it."""

    def __init__(self, backend: WeftBackend, store: Any, kind: Any) -> None:
        dist.ProcessGroup.__init__(self, store, backend.rank(), backend.size())
        backend._group = weakref.ref(self)
        self._backend, self._hooks, self._membership = backend, backend._hooks, backend._membership
        self._use(backend._comm, backend._monitored)
        self._register_backend(torch.device("cpu"), kind, backend)
        self._set_default_backend(kind)

    def getRank(self) -> int:  # noqa: N802
        return self._comm.rank

    def getSize(self) -> int:  # noqa: N802
        return self._comm.size

    @property
    def supports_reconfigure(self) -> bool:
        return True

    def get_reconfigure_handle(self) -> str:
        return self._backend.get_reconfigure_handle()

    def reconfigure(self, opts: Any) -> Any:
        return self._backend.reconfigure(opts)

    def barrier(self, opts: Any = None, **named: Any) -> Any:
        return Collectives.barrier(self, named.get("opts", opts))

    def _start_coalescing(self, device: Any) -> None:
        self.start_coalescing()

    def _end_coalescing(self, device: Any) -> Any:
        return self.end_coalescing()


def communicator_of(group: Any) -> Communicator | None:
    """weft's, of a process group that has a backend of weft's for the CPU."""
    if isinstance(group, WeftProcessGroup):
        return group.communicator
    try:
        backend = group._get_backend(torch.device("cpu"))
    except RuntimeError:  # it has none
        return None
    backend = getattr(backend, "wrapped_pg", backend)  # TORCH_DISTRIBUTED_DEBUG=DETAIL
    return backend.communicator if isinstance(backend, WeftBackend) else None


CheckedBackend: Any = nan_check.checked(WeftBackend, _OLD_NAMES)
CheckedProcessGroup: Any = nan_check.checked(WeftProcessGroup, _OLD_NAMES)


def make_backend(store: Any, rank: int, size: int, timeout: datetime.timedelta, name: str, kind: type[WeftBackend] = WeftBackend, first_rank: int | None = None,
                 members_come: bool = True) -> WeftBackend:
    """Of `size` ranks that meet in `store`. Collective, unless they come only by reconfigure(). `first_rank`: this one's in the whole job, if that is not `rank`."""
    name = name.encode()[-_NAME_BYTES_MAX:].decode("utf-8", "ignore") or NAME
    first_rank = rank if first_rank is None else first_rank
    if not members_come:
        return kind(NoCommunicator(name, rank, size), MonitoredBarrier(store, rank, size, name), Membership(store, name, first_rank, timeout))
    barrier = MonitoredBarrier(store, rank, size)
    try:
        comm = connect(dist.PrefixStore("weft/", store), rank, size, name, timeout, timeout)
    except Error as error:
        raise explained(error) from None
    barrier.join(comm.failure)
    return kind(comm, barrier, Membership(store, name, first_rank, timeout, barrier.life))


def create(options: Any, _: Any = None, kind: Any = None) -> Any:
    """What register_backend is given, with its extended interface."""
    ranks = options.global_ranks_in_group
    # Where several backends are torch makes the group, and none of them can be reconfigured.
    dynamic = getattr(options, "enable_reconfigure", False) and _is_only_backend()
    alone = dynamic or (_is_only_backend() and not _is_to_be_wrapped())
    backend_kind, group_kind = (CheckedBackend, CheckedProcessGroup) if alone and nan_check.wanted() else (WeftBackend, WeftProcessGroup)
    backend = make_backend(options.store, options.group_rank, options.group_size, options.timeout, f"torch:{options.group_id}", backend_kind,
                           ranks[options.group_rank] if ranks else options.group_rank, not dynamic)
    if not alone:
        _held.add(backend)
        return backend
    return group_kind(backend, options.store, kind if kind is not None else dist.ProcessGroup.BackendType.CUSTOM)


def _note_ranks(group: Any, first_ranks: list[int]) -> None:
    """Tells torch's own list of who is in which group. Ranks of the first group are what torch has for numbers of the whole job."""
    listed = getattr(dist.distributed_c10d._world, "pg_group_ranks", {})
    if group in listed:
        numbers = range(len(first_ranks)) if group is dist.group.WORLD else first_ranks
        listed[group] = {number: rank for rank, number in enumerate(numbers)}


def _is_to_be_wrapped() -> bool:
    """Whether torch is going to wrap the group's backend or, asked for its flight recorder, to record it. A ProcessGroup that is returned is the whole group."""
    if os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL" or dist.get_debug_level() == dist.DebugLevel.DETAIL:
        return True
    return (os.environ.get(_RECORDER_VARIABLE) or "0") != "0"


def _is_only_backend() -> bool:
    """torch says nowhere which backends a group is to have but in the caller's frame; not finding that there, the Backend alone is the safe answer."""
    frame = sys._getframe()
    while frame is not None:
        config = frame.f_locals.get("backend_config")
        if isinstance(config, dist.distributed_c10d.BackendConfig):
            return len(set(config.get_device_backend_map().values())) == 1
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _is_called_by_recv() -> bool:
    """dist.recv() asks for the sender when it has the message."""
    frame: Any = sys._getframe()
    while frame is not None and frame.f_code is not _recv:
        frame = frame.f_back
    return frame is not None


def register() -> None:
    """Makes "weft" known to torch.distributed. torch 2.15 and later call this by themselves (entry point torch.distributed.backends)."""
    if NAME.upper() not in dist.Backend._plugins:
        dist.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu"])
