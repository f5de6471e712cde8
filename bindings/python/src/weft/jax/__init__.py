"""weft.jax: collectives inside programs that JAX compiles, on the CPU.

    import weft
    import weft.jax as wjax
    world = weft.init()
    step = jax.jit(lambda x: wjax.all_reduce(x, world))

docs/jax.md has the rules. Of the package's modules none but these imports JAX.
"""
from __future__ import annotations

from weft.jax import interruption
from weft.jax.collectives import all_gather, all_reduce, all_to_all, barrier, broadcast, gather, reduce, reduce_scatter, replicated, scatter
from weft.jax.messages import permute, recv, send, sendrecv
from weft.jax.order import token

__all__ = ["all_gather", "all_reduce", "all_to_all", "barrier", "broadcast", "gather", "permute", "recv", "reduce", "reduce_scatter", "replicated", "scatter",
           "send", "sendrecv", "token"]

interruption.install()
