"""Meshes: named axes over the ranks of a communicator."""
from __future__ import annotations

import ctypes
from collections.abc import Mapping

from weft import _capi
from weft._library import library
from weft.core import interrupt
from weft.core.communicator import Communicator
from weft.shard.handles import MeshHandle, call
from weft.shard.structs import int32, of_type, sized, utf8


class _MeshGroup(ctypes.c_void_p):
    """A group that belongs to its mesh."""

    mesh: MeshHandle


class Mesh:
    """Named axes over the ranks of a communicator, the last one varying fastest.

        mesh = Mesh(world, {"node": 2, "gpu": 4})

    It keeps the communicator's group, and contexts keep it: all may be destroyed or dropped in any order. Thread-safety: any thread.
    """

    def __init__(self, communicator: Communicator, axes: Mapping[str, int] | None = None) -> None:
        """Without axes one, "data", of all ranks. With several it is collective: it splits the communicator."""
        interrupt.do_postponed()
        group, handle = of_type(communicator, Communicator, "communicator")._live_group(), MeshHandle()
        config = _config(axes or {"data": communicator.size})
        handle.kept = group
        call(library.weft_mesh_create, group, ctypes.byref(config), ctypes.byref(handle))
        self._handle, self._axes, self._rank = handle, _axes_of(config), communicator.rank

    @classmethod
    def dry(cls, axes: Mapping[str, int], rank: int = 0) -> Mesh:
        """Of ranks that do not exist, seen by one of them: contexts on it can be declared and planned. Not collective."""
        config, handle = _config(axes), MeshHandle()
        call(library.weft_mesh_create_dry, ctypes.byref(config), int32(rank, "rank"), ctypes.byref(handle))
        mesh = cls.__new__(cls)
        mesh._handle, mesh._axes, mesh._rank = handle, _axes_of(config), rank
        return mesh

    @property
    def axes(self) -> dict[str, int]:
        """Sizes by name, the last one varying fastest."""
        return dict(self._axes)

    @property
    def rank(self) -> int:
        """This rank's number in the communicator."""
        return self._rank

    def axis(self, name: str | int) -> Communicator:
        """The communicator of this rank along an axis: the ranks that differ in this coordinate alone. It belongs to the mesh, and keeps it."""
        group = _MeshGroup()
        index = self._index(name) if isinstance(name, str) else int32(name, "name")
        call(library.weft_mesh_axis_group, self._handle, index, ctypes.byref(group))
        group.mesh = self._handle
        return Communicator(group)

    def group(self, *names: str) -> Communicator:
        """The communicator of this rank along several axes, in the order of the mesh: the ranks that differ in these coordinates alone. It
        belongs to the mesh, and keeps it. The first call with a set of names makes it, and is collective over the mesh's ranks."""
        for name in names:
            self._index(name)
        interrupt.do_postponed()
        group = _MeshGroup()
        call(library.weft_mesh_group, self._handle, (ctypes.c_char_p * max(len(names), 1))(*(utf8(name, "name") for name in names)), len(names),
             ctypes.byref(group))
        group.mesh = self._handle
        return Communicator(group)

    def _index(self, name: str) -> int:
        if of_type(name, str, "name") not in self._axes:
            raise ValueError(f"the mesh has no axis {name!r}; there are {', '.join(self._axes)}")
        return list(self._axes).index(name)

    def __repr__(self) -> str:
        return f"<weft.shard.Mesh {' x '.join(f'{name} {size}' for name, size in self._axes.items())}>"


def _config(axes: Mapping[str, int]) -> _capi.weft_mesh_config_t:
    if len(axes) > _capi.WEFT_MESH_AXES_MAX:
        raise ValueError(f"axes has {len(axes)} of them; up to {_capi.WEFT_MESH_AXES_MAX} are possible")
    config: _capi.weft_mesh_config_t = sized(_capi.weft_mesh_config_t)
    config.axis_count = len(axes)
    for i, (name, size) in enumerate(axes.items()):
        config.axis_names[i], config.axis_sizes[i] = utf8(name, "name"), int32(size, f"size of axis {name}")
    return config


def _axes_of(config: _capi.weft_mesh_config_t) -> dict[str, int]:
    return {config.axis_names[i].decode(): config.axis_sizes[i] for i in range(config.axis_count)}
