"""Units: params that are gathered and reduced together."""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from weft import _capi
from weft._library import library
from weft.core.buffers import readable, writable
from weft.core.errors import Error
from weft.core.types import ITEM_BYTES, AnyDType, DType, dtype_number
from weft.shard.arrays import Lent
from weft.shard.handles import Borrowed, any_thread, in_turn
from weft.shard.optimizer import ParamGroup
from weft.shard.param import Param, dimensions
from weft.shard.records import UnitInfo, record
from weft.shard.structs import of_type, utf8

_Info = _capi.weft_shard_unit_info_t
_INFO_BYTES = ctypes.sizeof(_Info)
_pre_forward = library.weft_shard_pre_forward
_post_forward = library.weft_shard_post_forward
_pre_backward = library.weft_shard_pre_backward
_post_backward = library.weft_shard_post_backward


class Unit:
    """Params that are gathered and reduced together, usually one transformer block. Made by Context.add_unit; a `with` seals it.

    Thread-safety: as the calls of its context: one thread at a time.
    """

    __slots__ = ("_handle", "_lent", "_name", "_params", "_values", "_destination", "__weakref__")

    def __init__(self, handle: Borrowed, name: str, lent: Lent, values: list[tuple[Param, Any]]) -> None:
        """Of the package's own use. `values` are what finalize loads."""
        self._handle, self._name, self._lent, self._values = handle, name, lent, values
        self._params: list[Param] = []
        self._destination: int | None = None  # that is weft's until reshard

    @property
    def name(self) -> str:
        return self._name

    @property
    def params(self) -> tuple[Param, ...]:
        """In the order of declaration, tied ones included."""
        return tuple(self._params)

    def __repr__(self) -> str:
        return f"<weft.shard.Unit {self._name}: {len(self._params)} params>"

    # ---- declaring ----

    def add_param(self, name: str, shape: Sequence[int] | None = None, dtype: AnyDType | None = None, *, value: Any = None, frozen: bool = False,
                  decay: bool = True, group: ParamGroup | int | None = None, writes_grad: bool = False, counted: bool = True) -> Param:
        """A param, in the order in which forward uses them. Shape and type are those of `value` if they are not given (else float32); finalize loads it.
        frozen: no gradient; decay False: no weight decay; group: of Context.add_param_group; writes_grad: its gradients are not zeroed, so write all of
        one where Param.grad_unset is True, or pass gradients to grad_ready; counted False: another part of the model has it too, and counts it in the
        global norm."""
        shape, number = shape_and_type(shape, dtype, value)
        handle = Borrowed(None, self._handle.owner)
        config, kept = param_struct(name, shape, number, frozen, decay, writes_grad, counted)
        in_turn(self._handle, library.weft_shard_unit_add_param, ctypes.byref(config), ctypes.byref(handle))
        del kept
        param = self._added(handle)
        if group is not None:
            param.set_group(group)
        if value is not None:
            self._values.append((param, value))
        return param

    def tie_param(self, name: str, param: Param) -> Param:
        """Uses a param of an earlier unit under this name, too, as a head does that shares the token table: one storage, one gradient."""
        handle = Borrowed(None, self._handle.owner)
        of_type(param, Param, "param")._handle.live()
        in_turn(self._handle, library.weft_shard_unit_tie_param, utf8(name, "name"), param._handle, ctypes.byref(handle))
        return self._added(handle)

    def seal(self) -> None:
        """Closes it."""
        in_turn(self._handle, library.weft_shard_unit_seal)

    def __enter__(self) -> Unit:
        return self

    def __exit__(self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None:
            self.seal()

    def info(self) -> UnitInfo:
        """Its policy as it is carried out, and whether it is unsharded now."""
        return record(UnitInfo, self._ask())

    @property
    def unsharded(self) -> bool:
        """Whether its params are there now, as in info()."""
        return bool(self._ask().unsharded)

    # ---- a step ----

    def pre_forward(self) -> None:
        """Its params are valid from here, until post_forward if they are sharded. In backward this is recomputing."""
        in_turn(self._handle, _pre_forward, None)

    def post_forward(self) -> None:
        """Forward reads its params no longer."""
        in_turn(self._handle, _post_forward, None)

    def pre_backward(self) -> None:
        """Its params are valid and its gradients may be written from here."""
        in_turn(self._handle, _pre_backward, None)

    def post_backward(self) -> None:
        """Backward is done: params without grad_ready have no gradient in this micro-batch."""
        in_turn(self._handle, _post_backward, None)

    def forward(self) -> Scope:
        """with unit.forward(): ...   calls pre_forward, and post_forward at the end."""
        return Scope(self, _pre_forward, _post_forward)

    def backward(self) -> Scope:
        """with unit.backward(): ...   calls pre_backward, and post_backward at the end."""
        return Scope(self, _pre_backward, _post_backward)

    # ---- communication ordered by the program ----

    def unshard_start(self, destination: Any = None) -> None:
        """Begins to gather its params, at any time of a micro-batch. `destination`: writable memory of yours for them, 64-byte aligned and of
        info().unsharded_bytes at least, kept until reshard; None: in the pool."""
        if destination is None:
            in_turn(self._handle, library.weft_shard_unshard_start, None)
            return
        address, dtype, count, kept = writable(destination, "destination")
        size = count * ITEM_BYTES[dtype]
        options = _capi.weft_shard_unshard_t(ctypes.sizeof(_capi.weft_shard_unshard_t), address, size, None)
        self._lent.add(address, size, (destination, kept))
        try:
            in_turn(self._handle, library.weft_shard_unshard_start, ctypes.byref(options))
        except BaseException:
            self._lent.remove(address)
            raise
        self._destination = address

    def unshard_wait(self) -> None:
        """Waits for the gather: it is unsharded from here until reshard."""
        in_turn(self._handle, library.weft_shard_unshard_wait, None)

    def reshard(self) -> None:
        """Ends the use that unshard_start began."""
        in_turn(self._handle, library.weft_shard_reshard, None)
        if self._destination is not None:
            self._lent.remove(self._destination)
            self._destination = None

    def reduce_wait(self) -> None:
        """Waits for its reductions: the gradients of Param.part are reduced from here."""
        in_turn(self._handle, library.weft_shard_reduce_wait, None)

    # ---- inside ----

    def _ask(self) -> _capi.weft_shard_unit_info_t:
        info = _Info(_INFO_BYTES)
        any_thread(self._handle, library.weft_shard_unit_info, ctypes.byref(info))
        return info

    def _added(self, handle: Borrowed) -> Param:
        param = Param(handle, self._lent)
        self._params.append(param)
        return param


class Scope:
    """A use of a unit, for `with`."""

    __slots__ = ("_unit", "_pre", "_post")

    def __init__(self, unit: Unit, pre: Callable[..., int], post: Callable[..., int]) -> None:
        """Of the package's own use."""
        self._unit, self._pre, self._post = unit, pre, post

    def __enter__(self) -> Unit:
        in_turn(self._unit._handle, self._pre, None)
        return self._unit

    def __exit__(self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            in_turn(self._unit._handle, self._post, None)
        except Error:
            if kind is None:  # else what was raised first says more
                raise


def shape_and_type(shape: Sequence[int] | None, dtype: AnyDType | None, value: Any) -> tuple[tuple[int, ...], int]:
    """Of a param that is declared."""
    if value is not None:
        _, found, count, _ = readable(value, "value")
        if shape is None:
            shape = tuple(map(int, getattr(value, "shape", (count,))))
        if dtype is None:
            dtype = DType(found)
    if shape is None:
        raise ValueError("neither shape nor value is given; a param needs one of them")
    return tuple(shape), DType.FLOAT32 if dtype is None else dtype_number(dtype)


def param_struct(name: str, shape: Sequence[int], dtype: int, frozen: bool, decay: bool,
                 writes_grad: bool, counted: bool) -> tuple[_capi.weft_shard_param_config_t, object]:
    """The struct of C, and what must live until the call has returned."""
    dims = dimensions(shape)
    flags = ((_capi.WEFT_SHARD_PARAM_FROZEN if frozen else 0) | (0 if decay else _capi.WEFT_SHARD_PARAM_NO_DECAY)
             | (_capi.WEFT_SHARD_PARAM_WRITES_GRAD if writes_grad else 0) | (0 if counted else _capi.WEFT_SHARD_PARAM_NOT_COUNTED))
    return _capi.weft_shard_param_config_t(ctypes.sizeof(_capi.weft_shard_param_config_t), utf8(name, "name"), ctypes.addressof(dims), len(shape), dtype,
                                           flags), dims
