"""Checkpoints: params, optimizer state, tensors and values, saved by all ranks to one directory and loaded by any number of ranks under any preset.

    checkpoint = weft.checkpoint.Checkpoint(world, "runs/a/checkpoints", keep_last=3)
    checkpoint.add_context(context)
    loaded = checkpoint.load()                  # None in a new run
    ...
    checkpoint.save(step, background=True)      # between steps; no rank waits for another
    checkpoint.wait()

    weft.checkpoint.export_model("runs/a/checkpoints", "llama", shard_bytes=5_000_000_000)      # for other programs; one process calls it
    weft.checkpoint.import_model("llama", "runs/b/checkpoints")

docs/checkpointing.md says what is promised.
"""
from __future__ import annotations

import ctypes
import enum
import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Union

from weft import _capi
from weft._library import library
from weft.core import completions, interrupt
from weft.core.buffers import writable
from weft.core.calls import nanoseconds
from weft.core.communicator import Communicator
from weft.core.errors import Error, Result
from weft.core.types import AnyDType, dtype_number
from weft.shard import callbacks
from weft.shard.context import Context
from weft.shard.enums import member
from weft.shard.handles import Borrowed, CheckpointHandle, call, in_turn
from weft.shard.param import dimensions
from weft.shard.structs import filled, of_type, sized, utf8

_wait = library.weft_checkpoint_wait


class Loaded(NamedTuple):
    """What was loaded."""

    step: int
    ranks: int  # that it was saved by; of others' files: how many they are
    path: str
    unused: tuple[str, ...] = ()  # tensors of the checkpoint that no rank has taken
    kept: tuple[str, ...] = ()  # tensors of this rank that were not loaded, and keep their values


class NotLoaded(enum.IntEnum):
    """What the first save does if keep_last would remove checkpoints in time of which none was loaded."""

    WARN = _capi.WEFT_CHECKPOINT_WARN
    REFUSE = _capi.WEFT_CHECKPOINT_REFUSE


AnyNotLoaded = Union[NotLoaded, str]


class Copied(NamedTuple):
    """What was exported or imported."""

    checkpoint: str  # the directory of the one that was exported, or made
    step: int
    tensors: int
    value_bytes: int  # as they were written
    files: int  # safetensors files that were written, or read


class Checkpoint:
    """What a run saves and loads, and where. It keeps its communicator, and the memory of tensors; of contexts that are destroyed saves and loads are
    BAD_STATE. destroy(), and so the end of a `with`, waits for a save that is under way.

    Thread-safety: one thread at a time, that of the calls of its contexts; a second one is refused.
    """

    def __init__(self, communicator: Communicator, directory: str | os.PathLike[str], *, keep_last: int = 0, keep_every: int = 0,
                 timeout: float | None = None, config: str | None = None, not_loaded: AnyNotLoaded = "warn") -> None:
        """`directory`, of all checkpoints, is made if its parent is there; or it is that of one checkpoint, to load it. keep_last: so many are kept, 0: all; keep_every: and those of steps that are
        multiples of it; timeout: seconds, of a save, 600 by default; config: text written beside each as config.json; not_loaded: "warn" or
        "refuse", what the first save does if keep_last would remove checkpoints of which none was loaded. Collective."""
        interrupt.do_postponed()
        group = of_type(communicator, Communicator, "communicator")._live_group()
        struct = filled(_capi.weft_checkpoint_config_t, directory=os.fsencode(directory), keep_last=keep_last, keep_every=keep_every,
                        timeout_ns=nanoseconds(timeout), config=None if config is None else utf8(config, "config"), not_loaded=member(NotLoaded, not_loaded, "not_loaded"))
        self._kept: list[object] = [group]
        owner = CheckpointHandle(None, self._kept)
        call(library.weft_checkpoint_create, group, ctypes.byref(struct), ctypes.byref(owner))
        self._handle = Borrowed(owner.value, owner, "checkpoint")
        self._contexts: list[Context] = []
        completions.live.add(self)

    def destroy(self) -> None:
        """Waits for a save that is under way, and frees everything; may be called again. Not collective."""
        callbacks.refuse()
        if self._handle.owner is None:
            return
        try:
            self.wait()
        except Error:  # who wanted to know has asked
            pass
        completions.live.discard(self)
        self._handle = self._handle.destroyed()
        self._contexts, self._kept = [], []

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None) -> None:
        self.destroy()

    # ---- what is saved ----

    def add_context(self, context: Context, name: str = "") -> None:
        """All params and numbers of a finalized context; of several each with a name of its own. Not collective."""
        of_type(context, Context, "context")._handle.live()
        in_turn(self._handle, library.weft_checkpoint_add_context, utf8(name, "name"), context._handle)
        self._contexts.append(context)

    def add_tensor(self, name: str, data: Any, *, shape: Sequence[int] | None = None, begin: int = 0) -> None:
        """A tensor of yours: writable memory, which saves read and loads write, kept until the checkpoint is destroyed. Of a tensor of which ranks have
        slices, `shape` is that of the whole and `begin` where this one begins, in elements. Not collective."""
        address, dtype, count, kept = writable(data, "data")
        whole = tuple(getattr(data, "shape", (count,))) if shape is None else tuple(shape)
        dims = dimensions(whole)
        tensor = filled(_capi.weft_checkpoint_tensor_t, name=utf8(name, "name"), shape=ctypes.addressof(dims), ndim=len(whole), dtype=dtype, begin=begin,
                        count=count, data=address)
        in_turn(self._handle, library.weft_checkpoint_add_tensor, ctypes.byref(tensor))
        self._kept.append((data, kept))

    def add_value(self, name: str, save: Callable[[], bytes], load: Callable[[bytes | None], object], *, per_rank: bool = False) -> None:
        """Bytes of yours, up to 16 MiB, more as a tensor: the state of a random number generator, the place in the data. save() returns them; load(bytes) takes them, before
        anything else is written and maybe of several checkpoints in turn, None if there are none. What load raises refuses the checkpoint, on all ranks.
        Both are called in save() and load() here, on their thread, and must not call weft. per_rank: each rank has its own, else rank 0's is
        everybody's. The same on all ranks. Not collective."""
        value: _capi.weft_checkpoint_value_t = sized(_capi.weft_checkpoint_value_t)
        types: dict[str, Any] = dict(_capi.weft_checkpoint_value_t._fields_)  # type: ignore[arg-type]
        given: list[Any] = []

        def give(_: int | None, bytes_: int, count: int) -> int:
            text = bytes(memoryview(save()))  # of a number bytes() would make as many zeros
            given[:] = [text]  # until the next time
            ctypes.c_void_p.from_address(bytes_).value = ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value
            ctypes.c_size_t.from_address(count).value = len(text)
            return _capi.WEFT_SUCCESS

        def take(_: int | None, bytes_: int | None, count: int) -> int:
            load(None if bytes_ is None else ctypes.string_at(bytes_, count))
            return _capi.WEFT_SUCCESS

        value.name, value.flags = utf8(name, "name"), _capi.WEFT_CHECKPOINT_PER_RANK if per_rank else 0
        value.save, value.load = (types[way](callbacks.guarded(function, _capi.WEFT_INVALID_ARGUMENT)) for way, function in (("save", give), ("load", take)))
        in_turn(self._handle, library.weft_checkpoint_add_value, ctypes.byref(value))
        self._kept.append(value)

    # ---- saving ----

    def save(self, step: int, *, background: bool = False, in_place: bool = False) -> None:
        """Saves, between steps or after finish, on every rank; `step` grows. Returns when it is committed; with background when this rank's part is copied,
        while a thread of weft's writes it; with in_place too, optimizer state is not copied, and the next update waits until it is written. No rank waits
        for another but for the end of its own save before, and in the first one, which is collective: BAD_STATE names another job that saves in the
        directory. A failure leaves earlier checkpoints as they are, and training may go on."""
        struct = filled(_capi.weft_checkpoint_save_config_t, step=step, background=bool(background), in_place=bool(in_place))
        held = [context._handle for context in self._contexts]
        in_turn(self._handle, library.weft_checkpoint_save, ctypes.byref(struct))
        del held

    def test(self) -> bool:
        """Whether the last save has ended, and is committed; False while it is under way. Raises why it failed. Never waits."""
        ended = ctypes.c_int()
        in_turn(self._handle, library.weft_checkpoint_test, ctypes.byref(ended))
        return bool(ended.value)

    def wait(self, timeout: float | None = None) -> None:
        """Until the last save is committed; raises why it is not. After `timeout` seconds TimeoutError, and the save goes on, as after Ctrl-C."""
        if timeout is None:
            in_turn(self._handle, _wait, 0)
            return
        try:
            if timeout > 0:
                in_turn(self._handle, _wait, nanoseconds(timeout))
                return
        except Error as error:
            if error.code != Result.TIMEOUT:
                raise
        if not self.test():  # which raises if it is the save that has timed out
            raise TimeoutError(f"the save has not ended after {timeout} s; it goes on")

    # ---- loading ----

    def load(self, step: int | None = None, *, source: str | os.PathLike[str] | None = None, values_only: bool = False, whole: bool = False,
             partial: bool = False, convert: bool = False, names: Mapping[str, str | None] | None = None) -> Loaded | None:
        """Loads the latest checkpoint that is whole, or that of `step`, into everything that was added, between steps or after finalize. None if there is
        none. values_only: params alone; with whole, too, all tensors of the checkpoint must have been added. Collective.

        source: where else than in the checkpoint's directory: another directory of checkpoints, that of one, or, with values_only, what other programs
        write: a .safetensors file, a model.safetensors.index.json, or a folder of such files. names: what the checkpoint calls tensors that are called
        otherwise here, {here: there}. With values_only also partial: what the checkpoint has not keeps its values; convert: floating-point values become
        those of the type here; and names of None: not loaded. Loaded.unused and Loaded.kept say what was left out."""
        flags = sum(flag for wanted, flag in ((values_only, _capi.WEFT_CHECKPOINT_VALUES_ONLY), (whole, _capi.WEFT_CHECKPOINT_WHOLE),
                                              (step is not None, _capi.WEFT_CHECKPOINT_STEP), (partial, _capi.WEFT_CHECKPOINT_PARTIAL),
                                              (convert, _capi.WEFT_CHECKPOINT_CONVERT)) if wanted)
        config = filled(_capi.weft_checkpoint_load_config_t, flags=flags, step=0 if step is None else step,
                        source=None if source is None else os.fsencode(source))
        here, there, config.name_count = _names(names)
        config.names, config.saved_names = ctypes.addressof(here), ctypes.addressof(there)
        loaded: _capi.weft_checkpoint_loaded_t = sized(_capi.weft_checkpoint_loaded_t)
        held = [context._handle for context in self._contexts]
        in_turn(self._handle, library.weft_checkpoint_load, ctypes.byref(config), ctypes.byref(loaded))
        del held, here, there
        if not loaded.found:
            return None
        return Loaded(loaded.step, loaded.ranks, os.fsdecode(loaded.path), _texts(loaded.unused, loaded.unused_count),
                      _texts(loaded.kept, loaded.kept_count))

    def value(self, name: str, rank: int | None = None) -> bytes | None:
        """A value of the checkpoint that was loaded last, of any rank that saved it, also of one that is gone; without `rank` one that is not per_rank. None if there is
        none. Before the next save, which may remove the checkpoint. Not collective."""
        found, count = ctypes.c_void_p(), ctypes.c_size_t()
        in_turn(self._handle, library.weft_checkpoint_value_read, utf8(name, "name"), -1 if rank is None else rank, ctypes.byref(found), ctypes.byref(count))
        return None if found.value is None else ctypes.string_at(found.value, count.value)


def export_model(source: str | os.PathLike[str], target: str | os.PathLike[str], *, shard_bytes: int = 0, floats_as: AnyDType | None = None,
                 names: Mapping[str, str | None] | None = None) -> Copied:
    """A checkpoint's tensors, each whole, in safetensors files for other programs, such as transformers. `source`: the directory of a checkpoint, or of
    several, of which the latest that is whole is meant. `target`: the file to be made, or with shard_bytes a folder: files of up to so many bytes of values, and
    model.safetensors.index.json. What is there is never replaced. floats_as: the type of all floating-point values, rounded to nearest even; names:
    what the files call tensors that the checkpoint calls otherwise, {saved: file's}, None: left out. One process calls it. No group is needed; Ctrl-C ends it, and
    leaves nothing."""
    saved, others, count = _names(names)
    config = filled(_capi.weft_checkpoint_export_config_t, source=os.fsencode(source), target=os.fsencode(target), shard_bytes=shard_bytes,
                    floats_as=_float_type(floats_as), names=ctypes.addressof(saved), file_names=ctypes.addressof(others),
                    name_count=count)
    return _copied(library.weft_checkpoint_export, config)


def import_model(source: str | os.PathLike[str], directory: str | os.PathLike[str], *, step: int = 0) -> Copied:
    """A checkpoint of other programs' files, with checksums, which is then the latest in its directory. `source`: a .safetensors file, a
    model.safetensors.index.json, or a folder of such files. load(values_only=True) loads it, on any number of ranks. Such files can be loaded as they are, too
    (load(source=...)). Otherwise as export_model."""
    config = filled(_capi.weft_checkpoint_import_config_t, source=os.fsencode(source), directory=os.fsencode(directory), step=step)
    return _copied(library.weft_checkpoint_import, config)


def _copied(function: Callable[..., int], config: ctypes.Structure) -> Copied:
    interrupt.do_postponed()
    copied: _capi.weft_checkpoint_copied_t = sized(_capi.weft_checkpoint_copied_t)
    call(function, ctypes.byref(config), ctypes.byref(copied))
    return Copied(os.fsdecode(copied.checkpoint), copied.step, copied.tensor_count, copied.value_bytes, copied.file_count)


def _float_type(floats_as: AnyDType | None) -> int:
    """0 says that each tensor keeps its own."""
    if floats_as is None:
        return 0
    number = dtype_number(floats_as)
    if number == 0:
        raise ValueError(f"floats_as is {floats_as!r}; use a floating-point type, or None")
    return number


def _names(names: Mapping[str, str | None] | None) -> tuple[ctypes.Array[Any], ctypes.Array[Any], int]:
    """A map as C takes it: two arrays, which the caller keeps."""
    if names is not None and not isinstance(names, Mapping):
        raise TypeError(f"names is a {type(names).__name__}; it must be a mapping")
    pairs = list((names or {}).items())
    kind = ctypes.c_char_p * len(pairs)
    return (kind(*(utf8(name, "names") for name, _ in pairs)), kind(*(None if name is None else utf8(name, "names") for _, name in pairs)), len(pairs))


def _texts(address: int | None, count: int) -> tuple[str, ...]:
    if not address:
        return ()
    return tuple((text or b"").decode() for text in (ctypes.c_char_p * count).from_address(address))
