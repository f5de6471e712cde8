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

    def test_tokens_of_a_backward_pass(self):
        """It begins behind the last operation of the forward pass, although nothing of it depends on that, and no two operations are without an order."""
        self.run_ranks(2, """
    import re

    def unordered(compiled):
        \"\"\"How many operations there are, and those of which neither depends on the other.\"\"\"
        count, found = 0, []
        for computation in compiled.as_text().split("\\n\\n"):
            behind, operations = {}, []
            for line in computation.splitlines():
                match = re.match(r"\\s+(?:ROOT )?%?([\\w.-]+) = (.*)", line)
                if match is None:
                    continue
                name, text = match.groups()
                operands = re.findall(r"%([\\w.-]+)", re.split(r", (?:calls|custom_call_target|metadata|condition|body|to_apply|backend_config)=", text)[0])
                behind[name] = {other for operand in operands for other in behind.get(operand, set()) | {operand}}
                if 'custom_call_target="weft_' in text:
                    found += [(name, other) for other in operations if other not in behind[name]]
                    operations.append(name)
            count += len(operations)
        return count, found

    def delayed(value):
        if rank == 0:
            time.sleep(0.1)
        return np.asarray(value)
    slow = jax.custom_jvp(lambda v: jax.pure_callback(delayed, jax.ShapeDtypeStruct(v.shape, v.dtype), v))
    slow.defjvp(lambda primals, tangents: (slow(*primals), tangents[0]))

    TAILS = {
        "differentiated": lambda y, token: wjax.all_reduce(slow(y), world, "avg", token=token),
        "hidden": lambda y, token: wjax.all_reduce(slow(jax.lax.stop_gradient(y)), world, "max", token=token),
        "whole numbers": lambda y, token: wjax.all_gather(slow(jax.lax.stop_gradient(y)).astype(int), world, token=token),
        "barrier": lambda y, token: (y, wjax.barrier(world, token=wjax.all_reduce(slow(jax.lax.stop_gradient(y)), world, token=token)[1])),
        "message": lambda y, token: wjax.recv(y, world, 1 - rank, token=wjax.send(slow(jax.lax.stop_gradient(y)), world, 1 - rank, token=token)),
    }
    width = 256
    whole = [jnp.ones((width // 2, width)) / width + i * 1e-3 for i in range(3)]

    def forward(tail):
        def loss(parts, token):
            h = jnp.ones((width, width))
            for part in parts:
                full, token = wjax.all_gather(part, world, tiled=True, token=token)
                h = jnp.tanh(h @ full)
            value = (h ** 2).sum()
            metric, token = TAILS[tail](value, token)
            return value, (metric, token)
        return loss

    def plain(loss):
        def step(parts, token):
            (_, (metric, token)), gradient = jax.value_and_grad(loss, has_aux=True)(parts, token)
            return gradient, metric, token
        return step

    def through(loss):
        def step(parts, token):
            def both(parts, token):
                value, (metric, token) = loss(parts, token)
                return (value, token), metric
            (value, token), back, metric = jax.vjp(both, parts, token, has_aux=True)
            gradient, token = back((jnp.ones(()), token))
            return gradient, metric, token
        return step

    # An older one knows nothing in the backward pass of what the loss does not depend on: docs/jax.md says it.
    ways = {"through": through, "plain": plain} if jax.__version_info__ >= (0, 7) else {"through": through}
    for way, stepping in ways.items():
        for tail in TAILS:
            step = jax.jit(stepping(forward(tail))).lower(whole, wjax.token()).compile()
            count, found = unordered(step)
            assert count >= 7 and not found, (way, tail, count, found)
            token = wjax.token()
            for _ in range(3):
                gradient, metric, token = step(whole, token)
            jax.block_until_ready((gradient, metric, token))

    # In a loop what is gathered again and the backward pass are one chain, too: its last matrix is not needed for the gradient of that.
    @jax.checkpoint
    def layer(carry, parts):
        h, token = carry
        full, token = wjax.all_gather(parts[0], world, tiled=True, token=token)
        h = jnp.tanh(h @ full)
        full, token = wjax.all_gather(slow(parts[1]), world, tiled=True, token=token)
        return (h @ full, token), None
    def looped(parts, token):
        (h, token), _ = jax.lax.scan(layer, (jnp.ones((width, width)), token), parts)
        return (h ** 2).sum(), (0, token)
    stacked = (jnp.stack(whole), jnp.stack(whole))
    for way, stepping in ways.items():
        step = jax.jit(stepping(looped)).lower(stacked, wjax.token()).compile()
        count, found = unordered(step)
        assert count == 6 and not found, (way, count, found)
        jax.block_until_ready([step(stacked, wjax.token()) for _ in range(2)])
        """)

    def test_tokens_under_grad(self):
        """Operations without a derivative between others: the chain goes on."""
        self.run_ranks(2, """
    w = jnp.ones(3)
    def first(x, token):
        largest, token = wjax.all_reduce(jax.lax.stop_gradient(x).max(), world, "max", token=token)
        return wjax.all_reduce((x / largest).sum(), world, token=token)
    def behind(x, token):
        y, token = wjax.all_reduce((x * x).sum(), world, token=token)
        _, token = wjax.all_reduce(jax.lax.stop_gradient(y), world, "max", token=token)
        return y, token
    def numbers(x, token):
        y, token = wjax.all_gather(x, world, token=token)
        n, token = wjax.all_reduce(jnp.arange(3), world, token=token)
        return (y * n).sum(), token
    def barrier(x, token):
        y, token = wjax.all_gather(x, world, token=token)
        return y.sum(), wjax.barrier(world, token=token)
    def messages(x, token):
        y, token = wjax.all_gather(x, world, token=token)
        token = wjax.send(jnp.ones(2), world, 1 - rank, token=token)
        z, token = wjax.recv(jnp.ones(2), world, 1 - rank, token=token)
        return y.sum() * z.sum(), token
    for call, wanted in ((first, [1, 1, 1]), (behind, [2, 2, 2]), (numbers, [0, 4, 8]), (barrier, [2, 2, 2]), (messages, [4, 4, 4])):
        for form in (call, jax.jit(call), jax.checkpoint(call)):
            found, token = jax.grad(form, has_aux=True)(w, wjax.token())
            assert found.tolist() == wanted, (call.__name__, found)
            # Back again: the chain's cotangent is its end.
            (value, token), back = jax.vjp(form, w, token)
            found, token = back((jnp.ones(()), token))
            assert found.tolist() == wanted and token.shape == (), (call.__name__, found)
            # And the derivative of that.
            jax.block_until_ready(jax.jit(jax.hessian(lambda w: form(w, wjax.token())[0]))(w))
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
