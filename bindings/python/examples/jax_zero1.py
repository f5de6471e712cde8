"""ZeRO-1: every rank has all parameters, and the optimizer's state of its part of them alone.

    python -m weft.run -n 2 jax_zero1.py
"""
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

import weft
import weft.jax as wjax

world = weft.init()
WIDTHS, BATCH, STEPS, RATE = (8, 64, 64, 1), 24, 20, 0.01


def network(key):
    keys = jax.random.split(key, len(WIDTHS) - 1)
    return [(jax.random.normal(k, (m, n)) / m**0.5, jnp.zeros(n)) for k, m, n in zip(keys, WIDTHS, WIDTHS[1:])]


def loss_of(layers, x, y):
    for w, b in layers[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = layers[-1]
    return jnp.mean((x @ w + b - y) ** 2)


def part(whole):
    """This rank's."""
    share = len(whole) // world.size
    return whole[world.rank * share:(world.rank + 1) * share]


flat, unravel = ravel_pytree(network(jax.random.key(0)))
count = flat.size
flat = jnp.pad(flat, (0, -count % world.size))  # so that all parts are of one size
first = second = jnp.zeros(flat.size // world.size)  # Adam's moments, of this rank's part


@jax.jit
def step(flat, first, second, number, x, y):
    value, gradient = jax.value_and_grad(lambda flat: loss_of(unravel(flat[:count]), x, y))(flat)
    gradient = wjax.reduce_scatter(gradient, world, "avg", tiled=True)
    first = 0.9 * first + 0.1 * gradient
    second = 0.999 * second + 0.001 * gradient**2
    change = first / (1 - 0.9**number) / (jnp.sqrt(second / (1 - 0.999**number)) + 1e-8)
    flat = wjax.all_gather(part(flat) - RATE * change, world, tiled=True)
    return flat, first, second, wjax.all_reduce(value, world, "avg")


for number in range(STEPS):
    x = jax.random.normal(jax.random.fold_in(jax.random.key(1), number), (BATCH, WIDTHS[0]))
    y = jnp.sin(x.sum(axis=1, keepdims=True))
    flat, first, second, value = step(flat, first, second, number + 1.0, part(x), part(y))
    if world.rank == 0:
        print(f"step {number} loss {float(value):.7f}", flush=True)
