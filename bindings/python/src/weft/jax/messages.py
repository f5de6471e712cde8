"""Messages between two ranks. `destination`, `source` and `tag` are whole numbers of Python, as a program is compiled for them.

Errors, order and threads are as in collectives.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft._capi import WEFT_XLA_NOBODY
from weft.core.communicator import Communicator
from weft.core.operations import ANY_SOURCE
from weft.jax.elements import described, moved, whole
from weft.jax.groups import params_of
from weft.jax.operation import Array, Operation, Params

_TAG_MAX = (1 << 63) - 1


def _back(cotangent: Array, token: Array, x: Any, params: Params) -> tuple[Array, Array]:
    """The cotangent goes the way of the message in the other direction."""
    same = {name: value for name, value in params.items() if name not in ("ordered", "kept")}
    return SENDRECV.bind(cotangent, token, **{**same, "destination": params["source"], "source": params["destination"], "shape": x.shape, "dtype": x.dtype})


SEND: Operation = Operation("send", has_out=False)
RECV: Operation = Operation("recv", has_in=False)
SENDRECV: Operation = Operation("sendrecv", transpose=_back)


def _tag(tag: int) -> int:
    tag = whole(tag, "tag")
    if not 0 <= tag <= _TAG_MAX:
        raise ValueError(f"tag is {tag}; it must be a whole number from 0, of at most 63 bits")
    return tag


def _rank(rank: int, name: str, comm: Communicator, or_any: bool = False) -> int:
    rank = whole(rank, name)
    if not (0 <= rank < comm.size or or_any and rank == ANY_SOURCE):
        raise ValueError(f"{name} is {rank}, in a communicator of {comm.size}")
    return rank


def send(x: Array, comm: Communicator, destination: int, tag: int = 0, *, token: Array = None, timeout: float | None = None) -> Any:
    """Sends x. Returns None, or the token. No gradient."""
    return SEND.bind(moved(x), token, destination=_rank(destination, "destination", comm), tag=_tag(tag), **params_of(comm, timeout))[1]


def recv(like: Any, comm: Communicator, source: int = ANY_SOURCE, tag: int = 0, *, token: Array = None, timeout: float | None = None) -> Any:
    """A message of the shape and type of `like`, an array or a jax.ShapeDtypeStruct, from rank `source` or from whichever sends first. No gradient."""
    y, token = RECV.bind(None, token, source=_rank(source, "source", comm, or_any=True), tag=_tag(tag), **described(like), **params_of(comm, timeout))
    return y if token is None else (y, token)


def sendrecv(x: Array, comm: Communicator, destination: int, source: int, tag: int = 0, *, like: Any = None, token: Array = None,
             timeout: float | None = None) -> Any:
    """Sends x to one rank while it receives from another one an array like x, or like `like`. Gradient: the same with the ranks exchanged."""
    x = moved(x)
    return _exchange(x, comm, _rank(destination, "destination", comm), _rank(source, "source", comm), _tag(tag), x if like is None else like, token, timeout)


def permute(x: Array, comm: Communicator, pairs: Sequence[tuple[int, int]], *, token: Array = None, timeout: float | None = None) -> Any:
    """For each (source, destination) of the pairs x of the one, on the other, as jax.lax.ppermute; zeros on ranks that are nobody's destination. All ranks
    pass the same pairs. Gradient: the same with the pairs turned round."""
    pairs = [(_rank(source, "source", comm), _rank(destination, "destination", comm)) for source, destination in pairs]
    for name, ranks in (("source", [pair[0] for pair in pairs]), ("destination", [pair[1] for pair in pairs])):
        if len(set(ranks)) != len(ranks):
            raise ValueError(f"pairs have a {name} twice: {pairs}")
    x = moved(x)
    destination = next((pair[1] for pair in pairs if pair[0] == comm.rank), WEFT_XLA_NOBODY)
    source = next((pair[0] for pair in pairs if pair[1] == comm.rank), WEFT_XLA_NOBODY)
    return _exchange(x, comm, destination, source, 0, x, token, timeout)


def _exchange(x: Array, comm: Communicator, destination: int, source: int, tag: int, like: Any, token: Array, timeout: float | None) -> Any:
    y, token = SENDRECV.bind(x, token, destination=destination, source=source, tag=tag, **described(like), **params_of(comm, timeout))
    return y if token is None else (y, token)
