"""The order of operations, which must be the same on all ranks: that of the program, although XLA would run what is ready first.

Each operation has a size of its own, so that ranks that do not agree end with a mismatch.
"""
import random

from jax_ranks import JaxTest, main

_SEED = random.randrange(1 << 30)

_PROGRAM = """
    # Work of another length on each rank before each operation.
    lengths = np.random.default_rng([SEED, rank]).integers(0, 30, 6)
    big = [jnp.ones((96, 96)) * (i + 1) for i in range(6)]

    def busy(matrix, times):
        for _ in range(times):
            matrix = jnp.tanh(matrix @ matrix * 1e-3)
        return matrix

    def operation(i, matrix):
        return matrix.reshape(-1)[:4096 + 512 * i]

    def program(matrices):
        results = []
        for i, matrix in enumerate(matrices):
            ready = operation(i, busy(matrix, int(lengths[i])))
            results.append(wjax.all_reduce(ready, world, "max") if i % 2 else wjax.all_gather(ready, world))
        return results

    def chains(a, b):
        for i in range(4):
            a = wjax.all_reduce(jnp.tanh(a), world)
            b = wjax.all_reduce(jnp.sin(b[:-1]), world)
        return a, b
"""


class Order(JaxTest):
    def run_ranks(self, count, code, *options, **more):
        print("seed", _SEED)
        return super().run_ranks(count, _PROGRAM.replace("SEED", str(_SEED)) + code, *options, **more)

    def test_one_program(self):
        self.run_ranks(3, """
    delays = np.random.default_rng([SEED, 7, rank])
    step, pair = jax.jit(program), jax.jit(chains)
    large = jnp.ones(1 << 19) * (rank + 1)
    for _ in range(10):
        time.sleep(delays.random() * 0.02)
        results = step(big)
        a, b = pair(large, large)
    assert [result.shape for result in results] == [(4096 + 512 * i,) if i % 2 else (3, 4096 + 512 * i) for i in range(6)]
    assert a.shape == (1 << 19,) and b.shape == ((1 << 19) - 4,) and np.isfinite(b).all()
    assert (np.asarray(a) == np.asarray(wjax.broadcast(a, world))).all()
        """.replace("SEED", str(_SEED)))

    def test_several_programs(self):
        """Dispatched one after the other, and not waited for: forward and backward, in loops, from more than one communicator."""
        self.run_ranks(2, """
    halves = world.split(0)
    def looped(x):
        body = lambda c, i: (wjax.all_reduce(busy(c, int(lengths[0])), world) / size, wjax.all_gather(c[:8], halves).sum())
        return jax.lax.scan(body, x, None, length=4)
    forward = jax.jit(lambda x: looped(x)[0].sum() + wjax.all_reduce(x[:, :7].sum(), halves))
    backward = jax.jit(jax.grad(lambda x: looped(x)[0].sum() + wjax.all_gather(x[:, :7], halves).sum()))
    kept = []
    for i in range(8):
        kept.append(forward(big[i % 6]))
        kept.append(backward(big[i % 6]))
        kept.append(wjax.all_reduce(jnp.ones(64 + i), world))       # eager, in between
    jax.block_until_ready(kept)
    assert kept[-1].sum() == 2 * 71
    halves.destroy()
        """)

    def test_tokens(self):
        self.run_ranks(3, """
    def chained(matrices, token):
        results = []
        for i, matrix in enumerate(matrices):
            y, token = wjax.all_reduce(operation(i, busy(matrix, int(lengths[i]))), world, token=token)
            results.append(y.sum())
        return sum(results), token
    step = jax.jit(chained)
    by_token = jax.jit(jax.value_and_grad(lambda m, t: gathered(m, t)[0]))
    def gathered(matrices, token):
        out = 0.0
        for i, matrix in enumerate(matrices):
            y, token = wjax.all_gather(operation(i, busy(matrix, int(lengths[i]))), world, token=token)
            out = out + (y ** 2).sum()
        return out, token
    token = wjax.token()
    for _ in range(5):
        value, token = step(big, token)             # one program after the other
        token = wjax.barrier(world, token=token)
    jax.block_until_ready(value)
    value, gradients = by_token(big, wjax.token())
    assert all(np.isfinite(g).all() for g in gradients)
        """)

    def test_what_nobody_looks_at_takes_place(self):
        self.run_ranks(2, """
    import ctypes
    from weft._library import library
    @jax.jit
    def step(x):
        wjax.all_reduce(x, world)
        wjax.barrier(world)
        wjax.all_reduce(x, world)
        return x
    def sequence():
        count = ctypes.c_uint64()
        library.weft_group_sequence(world._live_group(), ctypes.byref(count))
        return count.value
    before = sequence()
    step(jnp.ones(3))
    jax.effects_barrier()
    assert sequence() == before + 3, (before, sequence())
        """)

    def test_threads(self):
        """A thread for each communicator; and threads that are ranks."""
        self.run_ranks(2, """
    groups = [world.split(0, name=f"g{i}") for i in range(2)]
    failures = []
    def train(group, seed):
        try:
            step = jax.jit(lambda x: wjax.all_reduce(jnp.tanh(x @ x), group) * 0.1)
            x = jnp.ones((64, 64)) * seed
            for _ in range(30):
                x = step(x)
            assert np.isfinite(np.asarray(x)).all()
        except BaseException as failure:
            failures.append(failure)
    threads = [threading.Thread(target=train, args=(group, i + 1)) for i, group in enumerate(groups)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures, failures

    local = weft.Communicator.local(2, timeout=30)
    sums = []
    def one(comm):
        try:
            sums.append(jax.jit(lambda x: wjax.all_reduce(x, comm))(jnp.full(1 << 12, comm.rank + 1.0)).sum().item())
        except BaseException as failure:
            failures.append(failure)
    threads = [threading.Thread(target=one, args=(comm,)) for comm in local]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures and sums == [3 << 12] * 2, (failures, sums)
        """)


if __name__ == "__main__":
    main()
