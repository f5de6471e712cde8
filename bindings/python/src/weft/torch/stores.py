"""torch's Store: as weft.Store, and waiting for a key of it."""
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

_SLEEP_S, _SLEEP_MAX_S = 0.0005, 0.02


def comes(store: Any, key: str, timeout: float, over: Callable[[], object] = lambda: False) -> bool:
    """Whether the key is there within `timeout` seconds, or before it is over(). Looks again and again: during a wait() of torch's Python runs no signal handlers, a file store's
    takes whole seconds, and a TCP store writes two warnings about one that ends by its timeout."""
    end, sleep = time.monotonic() + timeout, _SLEEP_S
    while not store.check([key]):
        left = end - time.monotonic()
        if left <= 0:
            return False
        if over():
            return bool(store.check([key]))  # it may have come before
        time.sleep(min(sleep, left))
        sleep = min(sleep * 1.5, _SLEEP_MAX_S)
    return True


class StoreOfTorch:
    """A torch.distributed.Store as weft.Store."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def set(self, key: str, value: bytes) -> None:
        self._store.set(key, value)

    def get(self, key: str, timeout: float) -> bytes:
        if not comes(self._store, key, timeout):
            raise TimeoutError(f"{key} did not come within {timeout} s")
        return bytes(self._store.get(key))

    def add(self, key: str, amount: int) -> int:
        return int(self._store.add(key, amount))

    def remove(self, key: str) -> None:
        self._store.delete_key(key)
