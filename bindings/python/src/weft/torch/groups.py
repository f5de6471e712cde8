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
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend as _Backend

from weft.core.communicator import Communicator
from weft.core.errors import Error
from weft.torch import coalescing, extension, nan_check
from weft.torch.collectives import Collectives
from weft.torch.memory import SymmetricPool
from weft.torch.monitored_barrier import MonitoredBarrier
from weft.torch.stores import StoreOfTorch
from weft.torch.works import explained

NAME = "weft"
# Backends that torch holds in C++ alone, where a Backend without its Python object is an empty shell; until they are shut down.
_held: set[Any] = set()
_NAME_BYTES_MAX = 63
_POLL_S = 0.0005
# How many operations torch is to remember.
_RECORDER_VARIABLE = "TORCH_FR_BUFFER_SIZE"
_recv = getattr(dist.recv, "__wrapped__", dist.recv).__code__
_OLD_NAMES = {"_allgather_base": "all_gather_single", "_reduce_scatter_base": "reduce_scatter_single", "alltoall_base": "all_to_all_single",
              "allgather_into_tensor_coalesced": "all_gather_single_coalesced", "reduce_scatter_tensor_coalesced": "reduce_scatter_single_coalesced"}


class _OneGroup(Collectives):
    """What both of torch's classes have besides operations."""

    def _use(self, comm: Communicator, store: Any, barrier: MonitoredBarrier, timeout: datetime.timedelta) -> None:
        self._comm, self._kept_store, self._monitored, self._timeout = comm, store, barrier, timeout
        self._open = coalescing.OfThread()

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
            timeout = self._timeout
        self._monitored(timeout.total_seconds(), wait_all_ranks)

    def _get_sequence_number_for_group(self) -> int:
        return self._comm.sequence

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _set_default_timeout(self, timeout: datetime.timedelta) -> None:
        self.set_timeout(timeout)

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Of the operations that are called from now on."""
        self._timeout = timeout
        self._comm.set_timeout(timeout.total_seconds())

    def abort(self) -> None:
        """Ends all operations of the group, on all its ranks."""
        self._comm.abort("aborted by ProcessGroup.abort()")

    def shutdown(self) -> None:
        """Operations under way, each of which has a deadline, end first, as with torch's own backends."""
        while self._comm._group is not None and self._comm.failure() is None and self._comm.stats().pending:
            time.sleep(_POLL_S)
        self._comm.destroy()
        _held.discard(self)

    def get_error(self) -> Any:
        errors = dist._ErrorType if hasattr(dist, "_ErrorType") else torch._C._distributed_c10d.ErrorType
        return errors.SUCCESS if self._comm._group is not None and self._comm.failure() is None else errors.COMM_ERROR


for _old, _new in _OLD_NAMES.items():
    setattr(_OneGroup, _old, getattr(_OneGroup, _new))


class WeftBackend(_OneGroup, _Backend):
    """c10d's Backend over weft."""

    def __init__(self, comm: Communicator, store: Any, barrier: MonitoredBarrier, timeout: datetime.timedelta) -> None:
        _Backend.__init__(self, comm.rank, comm.size)
        self._use(comm, store, barrier, timeout)
        self._calls = extension.calls()
        self._options = _Backend.Options(NAME, timeout=timeout)
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
        return make_backend(store, ranks.index(self._comm.rank), len(ranks), getattr(opts, "_timeout", self._timeout),
                            getattr(opts, "group_name", "") or f"{self._comm.name}/split", type(self))

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
        self._use(backend._comm, store, backend._monitored, backend._timeout)
        self._backend, self._calls = backend, backend._calls
        self._register_backend(torch.device("cpu"), kind, backend)
        self._set_default_backend(kind)

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


def make_backend(store: Any, rank: int, size: int, timeout: datetime.timedelta, name: str, kind: type[WeftBackend] = WeftBackend) -> WeftBackend:
    """Of `size` ranks that meet in `store`. Collective."""
    seconds = timeout.total_seconds()
    name = name.encode()[-_NAME_BYTES_MAX:].decode("utf-8", "ignore") or NAME
    barrier = MonitoredBarrier(store, rank, size)
    try:
        comm = Communicator.from_store(StoreOfTorch(dist.PrefixStore("weft/", store)), rank, size, name=name, timeout=seconds, init_timeout=seconds)
    except Error as error:
        raise explained(error) from None
    barrier.join(comm.failure)
    return kind(comm, store, barrier, timeout)


def create(options: Any, _: Any = None, kind: Any = None) -> Any:
    """What register_backend is given, with its extended interface."""
    alone = _alone()
    backend_kind, group_kind = (CheckedBackend, CheckedProcessGroup) if alone and nan_check.wanted() else (WeftBackend, WeftProcessGroup)
    backend = make_backend(options.store, options.group_rank, options.group_size, options.timeout, f"torch:{options.group_id}", backend_kind)
    if not alone:
        _held.add(backend)
        return backend
    return group_kind(backend, options.store, kind if kind is not None else dist.ProcessGroup.BackendType.CUSTOM)


def _alone() -> bool:
    """Whether the group has one backend, which torch is not going to wrap or, asked for its flight recorder, to record. A ProcessGroup that is returned is
    the whole group then. torch says nowhere which backends a group is to have but in the caller's frame; not finding that there, the Backend is the safe
    answer."""
    if os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL" or dist.get_debug_level() == dist.DebugLevel.DETAIL:
        return False
    if (os.environ.get(_RECORDER_VARIABLE) or "0") != "0":
        return False
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
