"""A barrier that says who did not come, through the store: it works while the group is stuck, and breaks nothing when it fails."""
from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

from weft.core.errors import Error, Result
from weft.torch.stores import comes

_PREFIX = "weft/monitored/"
_SEE_RANK_0 = "Please check rank 0 logs for faulty rank."


class MonitoredBarrier:
    """Of one rank. All ranks call the same number of times. One store may see several groups of one name, one after the other, so keys have a name that rank 0
    makes up for each."""

    def __init__(self, store: Any, rank: int, size: int, life: str = "") -> None:
        """Before the group is made, of which nobody has its part before rank 0 has come to here. `life`: that name, where all ranks have one anyway."""
        self._store, self._rank, self._size, self._calls, self.life = store, rank, size, 0, life
        self._failure: Callable[[], Error | None] = lambda: None
        if rank == 0 and not life:
            self.life = secrets.token_hex(8)
            store.set(f"{_PREFIX}life", self.life)

    def join(self, failure: Callable[[], Error | None]) -> None:
        """As soon as the group is made. `failure` is why it has ended."""
        self._failure = failure
        self.life = self.life or self._store.get(f"{_PREFIX}life").decode()

    def __call__(self, timeout: float, wait_all_ranks: bool = False) -> None:
        """Rank 0 waits up to `timeout` seconds for the others, and names the first, or with wait_all_ranks all, that did not come; the others wait for
        rank 0."""
        self._calls += 1
        name = f"{_PREFIX}{self.life}/{self._calls}/"
        if self._rank != 0:
            self._store.set(f"{name}{self._rank}", "")
            why = self._answer(name) if comes(self._store, f"{name}all", timeout, lambda: self._loss_of(0)) else self._loss_of(0) or _SEE_RANK_0
            if why:
                raise RuntimeError(f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. {why}")
            return
        try:
            self._collect(name, timeout, wait_all_ranks)
        except Exception:
            raise
        except BaseException as interrupt:  # whatever a signal handler has raised
            self._store.set(f"{name}all", f"rank 0 was interrupted: {interrupt!r}")
            raise
        if self._size > 1:
            self._store.set(f"{name}all", "")

    def _answer(self, name: str) -> str:
        """Rank 0's, to another rank. The keys go: the rank's own, and with the last one that has its answer those of all."""
        why: str = self._store.get(f"{name}all").decode()
        self._store.delete_key(f"{name}{self._rank}")
        if self._store.add(f"{name}answered", 1) == self._size - 1:
            self._store.delete_key(f"{name}all")
            self._store.delete_key(f"{name}answered")
        return why

    def _loss_of(self, rank: int) -> str:
        """How that rank has ended, if the group has ended by it."""
        failure = self._failure()
        return str(failure) if failure is not None and failure.code is Result.PEER_LOST and failure.rank == rank else ""

    def _collect(self, name: str, timeout: float, wait_all_ranks: bool) -> None:
        """Rank 0: all others, or RuntimeError."""
        end = time.monotonic() + timeout
        missing: list[int] = []
        for rank in range(1, self._size):
            left = end - time.monotonic()
            if left <= 0 and not missing:
                raise RuntimeError(f"Rank 0 timed out in monitoredBarrier after {timeout * 1000:.0f} ms. "
                                   f"The ranks from {rank} on were not asked after.")
            if not comes(self._store, f"{name}{rank}", left, lambda rank=rank: self._loss_of(rank)):  # type: ignore[misc]
                loss = self._loss_of(rank)
                if loss:
                    self._store.set(f"{name}all", loss)
                    raise RuntimeError(f"Rank {rank} failed to pass monitoredBarrier: {loss}")
                missing.append(rank)
                if not wait_all_ranks:
                    break
        if missing:
            who = f"Rank {missing[0]}" if len(missing) == 1 else f"Ranks {', '.join(map(str, missing))}"
            raise RuntimeError(f"{who} failed to pass monitoredBarrier in {timeout * 1000:.0f} ms")
