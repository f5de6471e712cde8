"""What programs have: a communicator, that is a process group with all its operations.

Thread-safety: any thread. Several threads that use one communicator agree on the order of their calls among the ranks.
"""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from types import TracebackType

from weft import _capi
from weft._library import library
from weft.core import interrupt, shared
from weft.core.batch import Batch
from weft.core.bound import Binder
from weft.core.collectives import Collectives
from weft.core.errors import check, refuse_inside_check
from weft.core.group import GroupHandle, config
from weft.core.lists import Lists
from weft.core.members import Members
from weft.core.messages import Messages
from weft.core.operations import rank_number
from weft.core.probes import Probes
from weft.core.reports import Reports
from weft.core.shared import SharedArray
from weft.core.stores import Bridge, Store, UniqueId
from weft.core.types import AnyDType
from weft.core.vectors import Vectors
from weft.core.work import Work


class Communicator(Members, Reports, Probes, Collectives[None, Work, int], Vectors[None, Work, int], Lists[None, Work, int], Messages[None, Work, int]):
    """Ranks that do collectives together. Made by weft.init(), split() and local(); a context manager that destroys itself."""

    @classmethod
    def from_environment(cls, *, name: str | None = None, timeout: float | None = None, init_timeout: float | None = None) -> Communicator:
        """Of all ranks that the launcher has started; alone, a communicator of one. Collective. `timeout`: deadline of each operation in seconds;
        `init_timeout`: of this call."""
        refuse_inside_check()
        interrupt.watch_main_thread()
        made, group = config(name, timeout, init_timeout), GroupHandle()
        check(library.weft_group_create_from_env(ctypes.byref(made), ctypes.byref(group)))
        return cls(group)

    @classmethod
    def from_store(cls, store: Store, rank: int, size: int, *, name: str | None = None, timeout: float | None = None,
                   init_timeout: float | None = None) -> Communicator:
        """Of `size` ranks that have one store in common. Communicators made through one store have different names. Collective. Raises what the store
        raises."""
        refuse_inside_check()
        interrupt.watch_main_thread()
        made, group = config(name, timeout, init_timeout), GroupHandle()
        with Bridge(store) as handle:
            check(library.weft_group_create_from_store(handle, size, rank, ctypes.byref(made), ctypes.byref(group)))
        return cls(group)

    @classmethod
    def from_id(cls, unique_id: UniqueId, rank: int, size: int, *, name: str | None = None, timeout: float | None = None,
                init_timeout: float | None = None) -> Communicator:
        """Of `size` ranks that have one unique id, whose maker serves it. Collective."""
        refuse_inside_check()
        interrupt.watch_main_thread()
        made, group = config(name, timeout, init_timeout), GroupHandle()
        check(library.weft_group_create_from_id(ctypes.byref(unique_id._id), size, rank, ctypes.byref(made), ctypes.byref(group)))
        return cls(group)

    @classmethod
    def local(cls, size: int, *, name: str | None = None, timeout: float | None = None) -> list[Communicator]:
        """`size` ranks in this process, each to be driven by a thread of yours. Not collective."""
        if size < 1:
            raise ValueError(f"size is {size}; a communicator has at least one rank")
        refuse_inside_check()
        made, groups = config(name, timeout, None), (ctypes.c_void_p * size)()
        check(library.weft_group_create_local(size, ctypes.byref(made), groups))
        return [cls(GroupHandle(group)) for group in groups]

    @classmethod
    def join(cls, *, name: str | None = None, timeout: float | None = None, init_timeout: float | None = None) -> Communicator:
        """Joins the communicator `name`, "world" if it is None, of a weftrun that runs: waits, `init_timeout` seconds at most, until its ranks take this process in by
        reconfigure() with weft.NEW_RANK."""
        refuse_inside_check()
        interrupt.watch_main_thread()
        made, group = config(name, timeout, init_timeout), GroupHandle()
        check(library.weft_group_join(None, ctypes.byref(made), ctypes.byref(group)))
        return cls(group)

    def subset(self, ranks: Sequence[int], *, name: str | None = None, timeout: float | None = None) -> Communicator | None:
        """The communicator of these ranks, in this order: ranks[i] becomes rank i. A rank that is not listed takes part and gets None. Collective; all pass the
        same list."""
        listed = [rank_number(rank, "a rank") for rank in ranks]
        refuse_inside_check()
        made, group = config(name, timeout, None), GroupHandle()
        check(library.weft_group_create_from_ranks(self._live_group(), (ctypes.c_int * max(len(listed), 1))(*listed), len(listed), ctypes.byref(made),
                                                   ctypes.byref(group)))
        return Communicator(group) if group.value else None

    def split(self, color: int | None, key: int = 0, *, name: str | None = None, timeout: float | None = None) -> Communicator | None:
        """Cuts the communicator into ones of equal `color`, ranked by `key` and then by rank here. color None: takes part and gets None. Collective."""
        number = _capi.WEFT_COLOR_NONE if color is None else rank_number(color, "color")
        if color is not None and number < 0:
            raise ValueError(f"color is {color}; it must be 0 or more, or None")
        refuse_inside_check()
        made, group = config(name, timeout, None), GroupHandle()
        check(library.weft_group_split(self._live_group(), number, rank_number(key, "key"), ctypes.byref(made), ctypes.byref(group)))
        return Communicator(group) if group.value else None

    def shared(self, shape: int | Sequence[int], dtype: AnyDType = "float32") -> SharedArray:
        """A new array, zeroed, that all ranks share: one block of memory, which may be the `out` of all of them at once in all_reduce, broadcast, all_gather and
        all_gather_v. All ranks pass the same. Collective."""
        return shared.make(self, shape, dtype)

    @property
    def bind(self) -> Binder:
        """The operations of this communicator, with their arguments bound once: `step = comm.bind.all_reduce(x)`, then `step()` as often as wanted."""
        return Binder(self)

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None) -> None:
        self.destroy()

    @staticmethod
    def batch() -> Batch:
        """weft.batch(): the operations of any communicators inside the `with` are started together."""
        return Batch()


def init(*, name: str | None = None, timeout: float | None = None, init_timeout: float | None = None) -> Communicator:
    """The communicator of all ranks that weftrun, torchrun, Slurm or mpiexec has started; alone, of one rank. Collective. Times in seconds."""
    return Communicator.from_environment(name=name, timeout=timeout, init_timeout=init_timeout)
