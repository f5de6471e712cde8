"""Who is in a group of torch's, and how others take their place: torch's _get_reconfigure_handle and _reconfigure.

Processes exchange handles by a way of their program's, and those that are listed then go on together. All have the same list, so what stands in the handles
decides for all of them in the same way how the group is made:

- in place (weft_group_reconfigure), where all listed ones are in one group and all others of it are known to be gone: in a few milliseconds, without the
  store, which may have ended with a rank;
- in place within a moment, where it has lost a rank and more of its ranks are not listed: these may have ended, too. If one lives the attempt ends alike on
  all that are listed, and they meet in the store;
- in the store where processes are listed that were not in the group, or ranks that live are not.

Thread-safety: one thread at a time.
"""
from __future__ import annotations

import datetime
import hashlib
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

import torch.distributed as dist

from weft.core.communicator import Communicator
from weft.core.errors import Error, Result
from weft.torch.stores import StoreOfTorch

_MARK = "weft"
_NOBODY = -1
_IN_NO_GROUP = "0"
_DIGITS = 16
# Ranks that are in no list and were not found dead by then count as alive.
_MOMENT = datetime.timedelta(seconds=1)
_CALL = "_reconfigure(uuid, handles)"


class Handle(NamedTuple):
    """What a process says of itself. A string for torch."""

    process: str  # this group's in this process, unlike any other
    group: str  # in which it is now: the same on all its ranks, and never again
    rank: int  # in that; before the first _reconfigure what init_process_group was given
    size: int
    first_rank: int  # of the process, in the whole job
    lost: int  # the rank by whose end the group has failed

    def __str__(self) -> str:
        return ":".join(map(str, (_MARK, *self)))

    @classmethod
    def parse(cls, text: str) -> Handle:
        mark, *fields = text.split(":")
        try:
            if mark == _MARK:
                process, group, *numbers = fields
                rank, size, first_rank, lost = map(int, numbers)
                return cls(process, group, rank, size, first_rank, lost)
        except ValueError:
            pass
        refuse(f"{text!r} is no handle of weft's; pass what _get_reconfigure_handle() has returned on each member, as it is")


class NoCommunicator:
    """In the place of one until the first _reconfigure of a group that was made with enable_reconfigure=True."""

    _group = None

    def __init__(self, name: str, rank: int, size: int) -> None:
        self.name, self.rank, self.size, self.sequence = name, rank, size, 0

    def failure(self) -> None:
        return None

    def set_timeout(self, _: float) -> None:
        pass

    def abort(self, _: str) -> None:
        pass

    def destroy(self) -> None:
        pass

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Error(f"group {self.name} has no members yet, because it was made with enable_reconfigure=True; call torch.distributed.{_CALL} first",
                    Result.BAD_STATE, group=self.name)


def refuse(sentence: str) -> NoReturn:
    raise Error(f"{_CALL}: {sentence}", Result.INVALID_ARGUMENT)


def connect(store: Any, rank: int, size: int, name: str, timeout: datetime.timedelta, limit: datetime.timedelta) -> Communicator:
    """The communicator of `size` ranks that meet in `store` within `limit`. Collective."""
    return Communicator.from_store(StoreOfTorch(store), rank, size, name=name, timeout=timeout.total_seconds(), init_timeout=limit.total_seconds())


class Membership:
    """Of one group in this process."""

    def __init__(self, store: Any, name: str, first_rank: int, timeout: datetime.timedelta, group: str = _IN_NO_GROUP) -> None:
        """`timeout`: of operations. `group`: a text that all ranks of the first communicator, and no others, have."""
        self.store, self.timeout, self.group = store, timeout, group
        self._name, self._first_rank = name, first_rank
        self._process = secrets.token_hex(8)
        self._used: set[int] = set()
        self.first_ranks: list[int] = []  # of the members, since the last reconfigure()

    def handle(self, comm: Any) -> Handle:
        failure = comm.failure() if comm._group is not None else None
        lost = failure.rank if failure is not None and failure.code is Result.PEER_LOST and failure.rank is not None else _NOBODY
        return Handle(self._process, self.group, comm.rank, comm.size, self._first_rank, lost)

    def reconfigure(self, comm: Any, options: Any) -> Communicator:
        """The communicator of those that are listed: `comm`, made anew, or another one, after which `comm` is destroyed."""
        handles = self._ordered(options.handles)
        place = self._place(handles)
        if options.uuid in self._used:
            refuse(f"uuid {options.uuid} was already used by this group; each call needs one that is new, and the same on all members")
        self._used.add(options.uuid)
        limit = options.timeout or self.timeout
        digest = hashlib.sha256("\n".join([str(options.uuid), *map(str, handles)]).encode()).hexdigest()[:_DIGITS]
        made: Communicator = comm
        if not self._in_place(comm, handles, limit):
            store = dist.PrefixStore(f"weft/reconfigure/{options.uuid}/{digest}/", self.store)
            made = connect(store, place, len(handles), self._name, self.timeout, limit)
            if comm._group is not None:
                comm.abort("it is being reconfigured")
            comm.destroy()
        self.group, self.first_ranks = digest, [handle.first_rank for handle in handles]
        return made

    def _ordered(self, given: Iterable[str]) -> list[Handle]:
        handles = [Handle.parse(text) for text in given]
        if isinstance(given, (set, frozenset)):
            handles.sort(key=lambda handle: (handle.first_rank, handle.rank, handle.process))
        if not handles:
            refuse("there is no handle; list one of each member")
        if len({handle.process for handle in handles}) < len(handles):
            refuse("a process is listed twice; list one handle of each member")
        return handles

    def _place(self, handles: Sequence[Handle]) -> int:
        for place, handle in enumerate(handles):
            if handle.process == self._process:
                if handle.group != self.group:
                    refuse(f"this process's handle is from before its last _reconfigure (rank {handle.rank} then); exchange what "
                           "_get_reconfigure_handle() returns now")
                return place
        refuse("this process's handle is not among them; only members call it")

    def _in_place(self, comm: Any, handles: Sequence[Handle], limit: datetime.timedelta) -> bool:
        """True if the group has been made so; False, on all members, if it is to be made in the store."""
        if self.group == _IN_NO_GROUP or any(handle.group != self.group for handle in handles):
            return False
        members = [handle.rank for handle in handles]
        lost = {handle.lost for handle in handles} - {_NOBODY}
        unknown = set(range(comm.size)) - set(members) - lost
        if unknown and not lost:
            return False
        try:
            comm.reconfigure(members, init_timeout=min(limit, _MOMENT).total_seconds() if unknown else limit.total_seconds())
        except Error as error:
            # These come on all members.
            if error.code is Result.UNSUPPORTED or (unknown and error.code in (Result.TIMEOUT, Result.MISMATCH)):
                return False
            raise
        return True
