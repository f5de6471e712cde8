"""The collectives of weft.jax. Arrays are this rank's; all ranks pass the same shape and type. `timeout` is in seconds, None the communicator's.

What is wrong with arguments is a TypeError or ValueError when a program is traced; what fails later a JaxRuntimeError where a result is looked at.

Thread-safety: any thread. Operations of one thread take place in its order, order.py says how; threads that share a communicator agree on theirs.
"""
from __future__ import annotations

from typing import Any

from weft.core.communicator import Communicator
from weft.core.types import Op
from weft.jax.elements import AnyOp, combined, moved, whole
from weft.jax.groups import params_of
from weft.jax.operation import Array, Operation, Params
from weft.jax.versions import jnp

_SUM, _AVG = int(Op.SUM), int(Op.AVG)


def _shared(params: Params, **more: Any) -> Params:
    """The params that all operations have, for one that is another's transpose."""
    return {**{name: params[name] for name in ("group", "size", "timeout_ns") if name in params}, **more}


def _of_reduction(cotangent: Array, params: Params) -> Array:
    """Of an average each rank has its share."""
    return cotangent / params["size"] if params["op"] == _AVG else cotangent


# Each names the other as its transpose; sums and averages are the reductions that are linear.
ALL_REDUCE: Operation = Operation(
    "all_reduce", alias=True, transpose=lambda ct, token, x, params: REPLICATED.bind(_of_reduction(ct, params), token, **_shared(params)))
REPLICATED: Operation = Operation(
    "replicated", local=True, transpose=lambda ct, token, x, params: ALL_REDUCE.bind(ct, token, **_shared(params, op=_SUM)))
REDUCE: Operation = Operation(
    "reduce", alias=True, transpose=lambda ct, token, x, params: BROADCAST.bind(_of_reduction(ct, params), token, **_shared(params, root=params["root"])))
BROADCAST: Operation = Operation(
    "broadcast", alias=True, transpose=lambda ct, token, x, params: REDUCE.bind(ct, token, **_shared(params, op=_SUM, root=params["root"])))
ALL_GATHER: Operation = Operation(
    "all_gather", block_out=True, transpose=lambda ct, token, x, params: REDUCE_SCATTER.bind(ct, token, **_shared(params, op=_SUM)))
REDUCE_SCATTER: Operation = Operation(
    "reduce_scatter", block_in=True, transpose=lambda ct, token, x, params: ALL_GATHER.bind(_of_reduction(ct, params), token, **_shared(params)))
GATHER: Operation = Operation(
    "gather", block_out=True, transpose=lambda ct, token, x, params: SCATTER.bind(ct, token, **_shared(params, root=params["root"])))
SCATTER: Operation = Operation(
    "scatter", block_in=True, transpose=lambda ct, token, x, params: GATHER.bind(ct, token, **_shared(params, root=params["root"])))
ALL_TO_ALL: Operation = Operation(
    "all_to_all", block_in=True, block_out=True, alias=True, transpose=lambda ct, token, x, params: ALL_TO_ALL.bind(ct, token, **_shared(params)))
BARRIER: Operation = Operation("barrier", has_in=False, has_out=False)


def _given(result: Array, new: Array) -> Any:
    """What a function returns: with a token, both."""
    return result if new is None else (result, new)


def _axis(axis: int, dimensions: int) -> int:
    if not -dimensions <= axis < dimensions:
        raise ValueError(f"axis is {axis}, of an array with {dimensions} dimensions")
    return axis % dimensions


def _root(root: int, comm: Communicator) -> int:
    root = whole(root, "root")
    if not 0 <= root < comm.size:
        raise ValueError(f"root is {root}, in a communicator of {comm.size}")
    return root


def _cut(x: Array, axis: int, tiled: bool, size: int) -> Array:
    """x with the axis of its blocks, one for each rank, in front."""
    axis = _axis(axis, x.ndim)
    length = x.shape[axis]
    if tiled and length % size == 0:
        x = x.reshape(*x.shape[:axis], size, length // size, *x.shape[axis + 1:])
    elif length != size or tiled:
        raise ValueError(f"x has {length} elements along axis {axis}; {'a multiple of ' if tiled else ''}{size} are needed, the size of the communicator")
    return jnp.moveaxis(x, axis, 0)


def _put_together(y: Array, axis: int, tiled: bool) -> Array:
    """The other way round."""
    axis = _axis(axis, y.ndim - tiled)
    y = jnp.moveaxis(y, 0, axis)
    return y.reshape(*y.shape[:axis], -1 if y.size else y.shape[axis] * y.shape[axis + 1], *y.shape[axis + 2:]) if tiled else y


def all_reduce(x: Array, comm: Communicator, op: AnyOp = "sum", *, token: Array = None, timeout: float | None = None) -> Any:
    """op over all ranks of x, on every rank. Gradient (sum, avg): that of the result, which all ranks are taken to have alike; avg: divided by the size."""
    x, number = combined(x, op)
    return _given(*ALL_REDUCE.bind(x, token, op=number, **params_of(comm, timeout)))


def replicated(x: Array, comm: Communicator, *, token: Array = None, timeout: float | None = None) -> Any:
    """x, which all ranks have alike. Gradient: the sum of the ranks' gradients, by an all_reduce. Parameters of a model whose ranks have different data."""
    return _given(*REPLICATED.bind(combined(x, "sum")[0], token, **params_of(comm, timeout)))


def reduce(x: Array, comm: Communicator, op: AnyOp = "sum", root: int = 0, *, token: Array = None, timeout: float | None = None) -> Any:
    """op over all ranks of x on rank `root`; zeros on the others. Gradient (sum, avg): the root's, by a broadcast."""
    x, number = combined(x, op)
    return _given(*REDUCE.bind(x, token, op=number, root=_root(root, comm), **params_of(comm, timeout)))


def broadcast(x: Array, comm: Communicator, root: int = 0, *, token: Array = None, timeout: float | None = None) -> Any:
    """x of rank `root`, on every rank; all pass the same shape. Gradient: the ranks' sum on the root, by a reduce, if x depends on what is differentiated on
    all ranks; zeros on the others."""
    return _given(*BROADCAST.bind(moved(x), token, root=_root(root, comm), **params_of(comm, timeout)))


def all_gather(x: Array, comm: Communicator, *, axis: int = 0, tiled: bool = False, token: Array = None, timeout: float | None = None) -> Any:
    """All ranks' x, on every rank: along a new axis of the communicator's size, or, tiled, one after the other along an axis that x has. Gradient: of each
    rank's part the sum of the ranks' gradients, by a reduce_scatter."""
    y, token = ALL_GATHER.bind(moved(x), token, **params_of(comm, timeout))
    return _given(_put_together(y, axis, tiled), token)


def reduce_scatter(x: Array, comm: Communicator, op: AnyOp = "sum", *, axis: int = 0, tiled: bool = False, token: Array = None,
                   timeout: float | None = None) -> Any:
    """Of op over all ranks of x this rank's part: its element along the axis, which has the communicator's size and goes, or, tiled, its share of the
    axis. Gradient (sum, avg): all ranks' parts, by an all_gather."""
    x, number = combined(x, op)
    return _given(*REDUCE_SCATTER.bind(_cut(x, axis, tiled, comm.size), token, op=number, **params_of(comm, timeout)))


def gather(x: Array, comm: Communicator, root: int = 0, *, token: Array = None, timeout: float | None = None) -> Any:
    """All ranks' x along a new first axis, on rank `root`; zeros on the others. Gradient: this rank's part of the root's, by a scatter."""
    return _given(*GATHER.bind(moved(x), token, root=_root(root, comm), **params_of(comm, timeout)))


def scatter(x: Array, comm: Communicator, root: int = 0, *, token: Array = None, timeout: float | None = None) -> Any:
    """x[rank] of rank `root`'s x, whose first axis has the communicator's size; of the other ranks' x nothing but the shape counts. Gradient: all ranks', on
    the root, by a gather, if x depends on what is differentiated on all ranks; zeros on the others."""
    return _given(*SCATTER.bind(_cut(moved(x), 0, False, comm.size), token, root=_root(root, comm), **params_of(comm, timeout)))


def all_to_all(x: Array, comm: Communicator, *, split_axis: int = 0, concat_axis: int = 0, tiled: bool = False, token: Array = None,
               timeout: float | None = None) -> Any:
    """x is cut along one axis into a part for each rank; what comes from the ranks is put together along another, as in jax.lax.all_to_all. Gradient: the
    same, backwards."""
    y, token = ALL_TO_ALL.bind(_cut(moved(x), split_axis, tiled, comm.size), token, **params_of(comm, timeout))
    return _given(_put_together(y, concat_axis, tiled), token)


def barrier(comm: Communicator, *, token: Array = None, timeout: float | None = None) -> Any:
    """Ends on no rank before every rank has come to it; so do operations that are ordered behind it. Returns None, or the token."""
    return BARRIER.bind(None, token, **params_of(comm, timeout))[1]
