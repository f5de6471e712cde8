"""FSDP: every rank has a part of each layer and gathers a layer when it is its turn. Nothing but JAX's own differentiation makes the rest of it.

    python -m weft.run -n 2 jax_fsdp.py
"""
import jax
import jax.numpy as jnp

import weft
import weft.jax as wjax

world = weft.init()
WIDTHS, BATCH, STEPS, RATE = (8, 64, 64, 1), 24, 20, 0.05
LAYERS = list(zip(WIDTHS, WIDTHS[1:]))


def part(whole):
    """This rank's share of the first axis, filled up with zeros."""
    share = -(-len(whole) // world.size)
    padded = jnp.pad(whole, [(0, share * world.size - len(whole))] + [(0, 0)] * (whole.ndim - 1))
    return padded[world.rank * share:(world.rank + 1) * share]


def shards(key):
    """Of each layer one vector of weights and biases, cut."""
    keys = jax.random.split(key, len(LAYERS))
    return [part(jnp.append(jax.random.normal(k, (m * n,)) / m**0.5, jnp.zeros(n))) for k, (m, n) in zip(keys, LAYERS)]


def layer(shard, x, m, n):
    whole = wjax.all_gather(shard, world, tiled=True)  # its transpose is the reduce_scatter of the gradients
    return x @ whole[:m * n].reshape(m, n) + whole[m * n:m * n + n]


# Forgets what it has gathered, and gathers it again in the backward pass.
layer = jax.checkpoint(layer, static_argnums=(2, 3))


@jax.jit
def step(shards, x, y):
    def loss(shards):
        h = x
        for shard, (m, n) in zip(shards[:-1], LAYERS):
            h = jnp.tanh(layer(shard, h, m, n))
        return jnp.mean((layer(shards[-1], h, *LAYERS[-1]) - y) ** 2) / world.size

    value, gradients = jax.value_and_grad(loss)(shards)
    return [shard - RATE * gradient for shard, gradient in zip(shards, gradients)], wjax.all_reduce(value, world)


shards = shards(jax.random.key(0))
for number in range(STEPS):
    x = jax.random.normal(jax.random.fold_in(jax.random.key(1), number), (BATCH, WIDTHS[0]))
    y = jnp.sin(x.sum(axis=1, keepdims=True))
    shards, value = step(shards, part(x), part(y))
    if world.rank == 0:
        print(f"step {number} loss {float(value):.7f}", flush=True)
