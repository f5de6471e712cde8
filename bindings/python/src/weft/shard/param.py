"""Params: one tensor each, a view into its unit."""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

from weft import _capi
from weft._library import library
from weft.core.buffers import readable, writable
from weft.core.types import DType
from weft.shard.arrays import Array, Lent, place_of
from weft.shard.enums import AnyState, StateKind, member
from weft.shard.handles import Borrowed, any_thread, in_turn
from weft.shard.optimizer import ParamGroup
from weft.shard.records import ParamInfo, record
from weft.shard.structs import filled, int32, sized, utf8

EVERY_RANK: int = _capi.WEFT_SHARD_EVERY_RANK

_View = _capi.weft_shard_view_t
_VIEW_BYTES = ctypes.sizeof(_View)
_view = library.weft_shard_param_view
_grad_ready = library.weft_shard_grad_ready


class View(NamedTuple):
    """Addresses of an unsharded param; 0 where there is none."""

    data: int
    grad: int
    count: int  # type: ignore[assignment]
    dtype: DType
    grad_dtype: DType
    grad_unset: bool  # as Param.grad_unset


class Part(NamedTuple):
    """What this rank keeps of a param: elements [begin, begin + count), in one dimension. `data` is None if it is offloaded, `grad` if it is frozen; the
    latter is reduced, from finish until step_end."""

    data: Array | None
    grad: Array | None
    begin: int
    count: int  # type: ignore[assignment]


class StatePart(NamedTuple):
    """What this rank keeps of a state of a param: elements [begin, begin + count), of which it is to write [write_begin, write_begin + write_count) to
    a checkpoint. `data` is None if it is offloaded, and if no rank keeps such a state, when `replicas` is 0."""

    data: Array | None
    begin: int
    count: int  # type: ignore[assignment]
    write_begin: int
    write_count: int
    dtype: DType
    replica: int
    replicas: int
    offloaded: bool


class Param:
    """One tensor of a context, made by Unit.add_param.

    Thread-safety: `data`, `grad`, `view` and `grad_ready` from any thread; the rest as the calls of its context.
    """

    __slots__ = ("_handle", "_lent", "_name", "_shape", "_count", "_dtype", "_grad_dtype", "_data", "_grad", "__weakref__")

    def __init__(self, handle: Borrowed, lent: Lent) -> None:
        """Of the package's own use."""
        self._handle, self._lent = handle, lent
        info = self.info()
        self._name, self._shape, self._count, self._dtype = info.name, info.shape, info.count, info.dtype
        self._grad_dtype: DType | None = None  # known from the first view
        self._data: Array | None = None
        self._grad: Array | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def count(self) -> int:
        """Elements."""
        return self._count

    @property
    def dtype(self) -> DType:
        return self._dtype

    def __repr__(self) -> str:
        return f"<weft.shard.Param {self._name}: {self._dtype.name.lower()}{list(self._shape)}>"

    # ---- where it is ----

    @property
    def data(self) -> Array:
        """The whole param, where it is now. Of sharded params only between the pre_ and post_ calls of their unit: else weft.Error, BAD_STATE. The same
        object as long as it stays there."""
        view = self._ask()
        address, known = view.data or 0, self._data
        if known is None or known.address != address:
            known = self._data = Array(address, self._dtype, self._shape, self._lent, place_of(self._handle, _data_address))
        return known

    @property
    def grad(self) -> Array | None:
        """Where its gradient is to be written or added, zeroed before unless `grad_unset`. None of a frozen one, and where gradients are sharded, outside of backward."""
        view = self._ask()
        address, known = view.grad or 0, self._grad
        if not address and (self._count or view.grad is None and self.info().frozen):
            return None
        if known is None or known.address != address:
            known = self._grad = Array(address, view.grad_dtype, self._shape, self._lent, place_of(self._handle, _grad_address))
        return known

    @property
    def grad_unset(self) -> bool:
        """Whether `grad` holds nothing yet: write all of it. Of a param that was declared with writes_grad, in backward until grad_ready."""
        return bool(self._ask().grad_unset)

    def view(self) -> View:
        """Both as addresses, for bindings: one call, and nothing is kept."""
        view = self._ask()
        if self._grad_dtype is None:
            self._grad_dtype = DType(view.grad_dtype)
        return View(view.data or 0, view.grad or 0, self._count, self._dtype, self._grad_dtype, bool(view.grad_unset))

    def part(self) -> Part:
        """What this rank keeps. For an optimizer of your own: update `data` from `grad` after finish, then call Context.params_updated."""
        part: _capi.weft_shard_part_t = sized(_capi.weft_shard_part_t)
        any_thread(self._handle, library.weft_shard_param_part, ctypes.byref(part))
        none = not part.count
        return Part(Array(part.data or 0, part.dtype, (part.count,), self._lent) if part.data or none else None,
                    Array(part.grad or 0, part.grad_dtype, (part.count,), self._lent) if part.grad or none else None, part.begin, part.count)

    def interval(self, rank: int) -> tuple[int, int]:
        """(begin, count) of the part that a mesh rank keeps. As soon as all units are sealed, on a dry mesh, too."""
        begin, count = ctypes.c_size_t(), ctypes.c_size_t()
        any_thread(self._handle, library.weft_shard_param_interval, int32(rank, "rank"), ctypes.byref(begin), ctypes.byref(count))
        return begin.value, count.value

    # ---- its gradient ----

    def grad_ready(self, grad: Any = None) -> None:
        """The gradient is complete for this micro-batch. None: it was written to `grad`; a buffer [count] of its type is added to that during the call;
        an int is the address of one, which nobody checks."""
        if grad is not None and not isinstance(grad, int):
            grad = self._checked_grad(grad)
            any_thread(self._handle, _grad_ready, grad[0], None)
        else:
            any_thread(self._handle, _grad_ready, grad, None)

    # ---- values ----

    def load(self, values: Any = None, root: int = 0) -> None:
        """Sets the whole param to those of mesh rank `root`; others may pass None. EVERY_RANK: each passes its own, which are compared. Between steps.
        Collective."""
        given = None if values is None else self._fitting(readable(values, "values"), "values")
        load = filled(_capi.weft_shard_load_t, values=given[0] if given else None, root=root)
        in_turn(self._handle, library.weft_shard_param_load, ctypes.byref(load))

    def read(self, out: Any = None, root: int = EVERY_RANK) -> None:
        """Writes the whole param to `out` [count], on mesh rank `root` or on every rank; who gets none may pass None. Between steps or after finish.
        Collective."""
        taken = None if out is None else self._fitting(writable(out, "out"), "out")
        read = filled(_capi.weft_shard_read_t, values=taken[0] if taken else None, root=root)
        in_turn(self._handle, library.weft_shard_param_read, ctypes.byref(read))

    # ---- declaring ----

    def set_group(self, group: ParamGroup | int) -> None:
        """Before finalize."""
        in_turn(self._handle, library.weft_shard_param_set_group, group.index if isinstance(group, ParamGroup) else int32(group, "group"))

    def set_global(self, name: str, shape: Sequence[int], offset: int) -> None:
        """Before finalize: it is elements [offset, offset + count) of this tensor of the whole model, in row-major order. Where ranks hold slices of one,
        as in tensor parallelism, a checkpoint has it under one name."""
        dims = dimensions(shape)
        whole = filled(_capi.weft_shard_global_t, name=utf8(name, "name"), shape=ctypes.addressof(dims), ndim=len(shape), offset=offset)
        in_turn(self._handle, library.weft_shard_param_global, ctypes.byref(whole))

    def info(self) -> ParamInfo:
        """As it was declared."""
        info: _capi.weft_shard_param_info_t = sized(_capi.weft_shard_param_info_t)
        any_thread(self._handle, library.weft_shard_param_info, ctypes.byref(info))
        tied_to = None
        if info.tied_to:
            whole: _capi.weft_shard_param_info_t = sized(_capi.weft_shard_param_info_t)
            any_thread(Borrowed(info.tied_to, self._handle.owner), library.weft_shard_param_info, ctypes.byref(whole))
            tied_to = whole.name.decode("utf-8", "replace")
        return record(ParamInfo, info, tied_to=tied_to, shape=tuple(info.shape[:info.ndim]), frozen=bool(info.flags & _capi.WEFT_SHARD_PARAM_FROZEN),
                      decay=not info.flags & _capi.WEFT_SHARD_PARAM_NO_DECAY,
                      writes_grad=bool(info.flags & _capi.WEFT_SHARD_PARAM_WRITES_GRAD),
                      counted=not info.flags & _capi.WEFT_SHARD_PARAM_NOT_COUNTED)

    # ---- state, for checkpoints of your own ----

    def state(self, kind: AnyState) -> StatePart:
        """Where this rank keeps a state, between steps or after finish."""
        part: _capi.weft_shard_state_part_t = sized(_capi.weft_shard_state_part_t)
        in_turn(self._handle, library.weft_shard_state_part, member(StateKind, kind, "kind"), ctypes.byref(part))
        there = part.replicas and not part.offloaded
        data = Array(part.data or 0, part.dtype, (part.count,), self._lent) if there else None
        return record(StatePart, part, data=data)

    def read_state(self, kind: AnyState, begin: int, out: Any) -> None:
        """Reads the elements from `begin` on, which must be of this rank's part, to `out` of the state's type, wherever they are."""
        given = StateKind(member(StateKind, kind, "kind"))
        address, dtype, count, _ = writable(out, "out")
        self._check_state_type(given, dtype, "out")
        in_turn(self._handle, library.weft_shard_state_read, given, _size(begin), count, address)

    def write_state(self, kind: AnyState, begin: int, in_: Any) -> None:
        """Writes them from `in_`. Then call Context.state_written."""
        given = StateKind(member(StateKind, kind, "kind"))
        address, dtype, count, _ = readable(in_, "in_")
        self._check_state_type(given, dtype, "in_")
        in_turn(self._handle, library.weft_shard_state_write, given, _size(begin), count, address)

    # ---- inside ----

    def _ask(self) -> _capi.weft_shard_view_t:
        view = _View(_VIEW_BYTES)
        any_thread(self._handle, _view, ctypes.byref(view))
        return view

    def _checked_grad(self, grad: Any) -> tuple[int, object]:
        if self._grad_dtype is None:
            self._grad_dtype = DType(self._ask().grad_dtype)
        address, dtype, count, kept = readable(grad, "grad")
        if (dtype, count) != (self._grad_dtype, self._count):
            raise ValueError(f"grad has {count} elements of {DType(dtype).name.lower()}; that of {self._name} has {self._count} of "
                             f"{self._grad_dtype.name.lower()}")
        return address, kept

    def _fitting(self, view: tuple[int, int, int, object], name: str) -> tuple[int, int, int, object]:
        if view[1:3] != (self._dtype, self._count):
            raise ValueError(f"{name} has {view[2]} elements of {DType(view[1]).name.lower()}; {self._name} has {self._count} of {self._dtype.name.lower()}")
        return view

    def _check_state_type(self, kind: StateKind, dtype: int, name: str) -> None:
        wanted = self._dtype if kind == StateKind.VALUE else DType.FLOAT32
        if dtype != wanted:
            raise ValueError(f"{name} has elements of {DType(dtype).name.lower()}; the {kind.name.lower()} of {self._name} has {wanted.name.lower()}")

    def _forget_addresses(self) -> None:
        """The pool was given up for a larger one, say, and should not be kept."""
        self._data = self._grad = None


def _data_address(handle: Borrowed) -> int:
    view = _View(_VIEW_BYTES)
    any_thread(handle, _view, ctypes.byref(view))
    return view.data or 0


def _grad_address(handle: Borrowed) -> int:
    view = _View(_VIEW_BYTES)
    any_thread(handle, _view, ctypes.byref(view))
    return view.grad or 0


def dimensions(shape: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    """For C, which has 64 bits for each."""
    for extent in shape:
        if not -(1 << 63) <= extent < 1 << 63:
            raise ValueError(f"shape has {extent}, which is out of range")
    return (ctypes.c_int64 * len(shape))(*shape)


def _size(begin: int) -> int:
    if not 0 <= begin < 1 << 63:
        raise ValueError(f"begin is {begin}; it must be a whole number from 0")
    return begin
