"""Data parallel training of a small network: every rank has all parameters and a part of each batch.

    python -m weft.run -n 2 jax_data_parallel.py
"""
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

import weft
import weft.jax as wjax

world = weft.init()
WIDTHS, BATCH, STEPS, RATE = (8, 64, 64, 1), 24, 20, 0.05


def network(key):
    keys = jax.random.split(key, len(WIDTHS) - 1)
    return [(jax.random.normal(k, (m, n)) / m**0.5, jnp.zeros(n)) for k, m, n in zip(keys, WIDTHS, WIDTHS[1:])]


def loss_of(layers, x, y):
    for w, b in layers[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = layers[-1]
    return jnp.mean((x @ w + b - y) ** 2)


def part(batch):
    """This rank's."""
    share = BATCH // world.size
    return batch[world.rank * share:(world.rank + 1) * share]


flat, unravel = ravel_pytree(network(jax.random.key(0)))  # one vector: one collective for all gradients


@jax.jit
def step(flat, x, y):
    def loss(flat):
        flat = wjax.replicated(flat, world)  # in the backward pass, the sum of the ranks' gradients
        return wjax.all_reduce(loss_of(unravel(flat), x, y), world, "avg")

    value, gradient = jax.value_and_grad(loss)(flat)
    return flat - RATE * gradient, value


for number in range(STEPS):
    x = jax.random.normal(jax.random.fold_in(jax.random.key(1), number), (BATCH, WIDTHS[0]))
    y = jnp.sin(x.sum(axis=1, keepdims=True))
    flat, value = step(flat, part(x), part(y))
    if world.rank == 0:
        print(f"step {number} loss {float(value):.7f}", flush=True)
