"""How ranks find each other without a launcher: by a store that the program has, or by an id that it sends to them.

Thread-safety: a store's functions are called on the thread that makes the communicator, while it is made.
"""
from __future__ import annotations

import ctypes
import threading
from typing import Any, Protocol

from weft import _capi
from weft._library import library
from weft.core import interrupt
from weft.core.errors import check

_NS = 1_000_000_000
_LOOK_NS = 1_000_000  # a get of so long only looks
_TIMES = 2  # that a set is tried if it is interrupted: whether it has written nobody knows


class Store(Protocol):
    """What a program's store must have. Keys are text, values bytes of at most 1 MiB. What a function raises ends the making of the communicator and is
    raised there."""

    def set(self, key: str, value: bytes) -> object:
        """Writes `value` under `key`, replacing what was there."""

    def get(self, key: str, timeout: float) -> bytes:
        """Waits up to `timeout` seconds for `key`, then raises TimeoutError."""

    def add(self, key: str, amount: int) -> int:
        """Adds to the decimal number under `key`, 0 if there is none, and returns the sum. Atomic among all ranks."""

    def remove(self, key: str) -> object:
        """Removes `key` if it is there."""


class UniqueId:
    """Names a rendezvous and carries its secret, as an ncclUniqueId does: `UniqueId()` on one rank, which serves it from then on; its `bytes` go to the
    others, by whatever way the program trusts."""

    def __init__(self) -> None:
        self._id = _capi.weft_unique_id_t()
        check(library.weft_unique_id_create(ctypes.byref(self._id)))

    @classmethod
    def from_bytes(cls, data: bytes) -> UniqueId:
        if len(data) != _capi.WEFT_UNIQUE_ID_BYTES:
            raise ValueError(f"a unique id has {_capi.WEFT_UNIQUE_ID_BYTES} bytes, not {len(data)}")
        made = cls.__new__(cls)
        made._id = _capi.weft_unique_id_t.from_buffer_copy(data)
        return made

    def __bytes__(self) -> bytes:
        return bytes(memoryview(self._id))


class Bridge:
    """A weft_store_t over a program's store, for a `with`. The exception of a function that failed is raised at its end, in place of C's.

    KeyboardInterrupt, and whatever else is no Exception, is a signal handler's and says nothing of the store: C goes on with it, to tell the other
    ranks, and gives up."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._raised: BaseException | None = None
        fields: dict[str, Any] = {field[0]: field[1] for field in _capi.weft_store_callbacks_t._fields_}
        # The thunks live as long as this.
        self._callbacks = _capi.weft_store_callbacks_t(struct_size=ctypes.sizeof(_capi.weft_store_callbacks_t), set=fields["set"](self._set),
                                                       get=fields["get"](self._get), add=fields["add"](self._add))
        if getattr(store, "remove", None) is not None:
            self._callbacks.remove = fields["remove"](self._remove)

    def __enter__(self) -> ctypes.c_void_p:
        self._handle = ctypes.c_void_p()
        check(library.weft_store_create_callbacks(ctypes.byref(self._callbacks), ctypes.byref(self._handle)))
        return self._handle

    def __exit__(self, *_: object) -> None:
        library.weft_store_destroy(self._handle)
        if self._raised is not None:
            raise self._raised

    def _failed(self, exception: BaseException) -> int:
        self._raised = exception
        return _capi.WEFT_SYSTEM_ERROR

    def _interrupted(self, exception: BaseException) -> bool:
        """Whether that is what `exception` says. Not on other threads, which nothing interrupts."""
        if isinstance(exception, Exception) or threading.current_thread() is not threading.main_thread():
            return False
        interrupt.note(exception)
        return True

    def _set(self, _: object, key: bytes, value: int | None, size: int) -> int:
        for _ in range(_TIMES):
            try:
                self._store.set(key.decode(), ctypes.string_at(value, size) if value else b"")
                return _capi.WEFT_SUCCESS
            except BaseException as exception:
                if not self._interrupted(exception):
                    return self._failed(exception)
        return _capi.WEFT_SYSTEM_ERROR

    def _get(self, _: object, key: bytes, value: int | None, size: int, timeout_ns: int) -> int:
        room = ctypes.c_size_t.from_address(size)
        if interrupt.raised and timeout_ns > _LOOK_NS:
            return _capi.WEFT_TIMEOUT
        try:
            found = bytes(self._store.get(key.decode(), timeout_ns / _NS))
        except TimeoutError:
            return _capi.WEFT_TIMEOUT
        except BaseException as exception:
            return _capi.WEFT_TIMEOUT if self._interrupted(exception) else self._failed(exception)
        fits, room.value = len(found) <= room.value, len(found)
        if fits and value:
            ctypes.memmove(value, found, len(found))
        return _capi.WEFT_SUCCESS if fits else _capi.WEFT_INVALID_ARGUMENT

    def _add(self, _: object, key: bytes, amount: int, result: int) -> int:
        try:
            ctypes.c_int64.from_address(result).value = self._store.add(key.decode(), amount)
            return _capi.WEFT_SUCCESS
        except BaseException as exception:
            return self._failed(exception)

    def _remove(self, _: object, key: bytes) -> int:
        try:
            self._store.remove(key.decode())
            return _capi.WEFT_SUCCESS
        except BaseException as exception:
            return self._failed(exception)
