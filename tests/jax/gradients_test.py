"""Derivatives: each operation's transpose, and programs against differences of their values and against one process.

The transposes are those of the sum of the ranks' losses: <A x, y> = <x, A' y>, with <,> summed over the ranks. all_reduce has another one by decision,
the identity, and `replicated` is its counterpart.
"""
from jax_ranks import JaxTest, main, sizes

_CHECKS = """
    jax.config.update("jax_enable_x64", True)
    def random(shape, seed):
        return jnp.asarray(np.random.default_rng([seed, rank]).normal(size=shape))

    def total(value):
        return float(wjax.all_reduce(value, world))

    root, right, left = size - 1, (rank + 1) % size, (rank - 1) % size
    pairs = [(r, r - 1) for r in range(1, size)]
    other = jax.ShapeDtypeStruct((2, 5), jnp.float64) if rank == 0 else jax.ShapeDtypeStruct((3,), jnp.float64)
    sent = (2, 5) if left == 0 and size > 1 or size == 1 else (3,)
    LINEAR = {
        "reduce": (lambda x, **k: wjax.reduce(x, world, root=root, **k), (3,)),
        "reduce avg": (lambda x, **k: wjax.reduce(x, world, "avg", root, **k), (3,)),
        "broadcast": (lambda x, **k: wjax.broadcast(x, world, root, **k), (3, 2)),
        "all_gather": (lambda x, **k: wjax.all_gather(x, world, axis=1, **k), (3, 2)),
        "all_gather tiled": (lambda x, **k: wjax.all_gather(x, world, tiled=True, **k), (3, 2)),
        "reduce_scatter": (lambda x, **k: wjax.reduce_scatter(x, world, **k), (size, 4)),
        "reduce_scatter avg": (lambda x, **k: wjax.reduce_scatter(x, world, "avg", axis=1, tiled=True, **k), (3, 2 * size)),
        "gather": (lambda x, **k: wjax.gather(x, world, root, **k), (3,)),
        "scatter": (lambda x, **k: wjax.scatter(x, world, root, **k), (size, 2)),
        "all_to_all": (lambda x, **k: wjax.all_to_all(x, world, split_axis=1, concat_axis=0, tiled=True, **k), (3, 2 * size)),
        "permute": (lambda x, **k: wjax.permute(x, world, pairs, **k), (3,)),
        "sendrecv": (lambda x, **k: wjax.sendrecv(x, world, right, left, **k), (3,)),
        "psum": (lambda x, **k: wjax.replicated(wjax.all_reduce(x, world), world) if not k
                 else (lambda y, t: wjax.replicated(y, world, token=t))(*wjax.all_reduce(x, world, token=k["token"])), (3,)),
    }
"""

# Rank `last` alone makes a loss of what operations have given; the others have the same gradients whether their program says so in numbers or in Python.
_USED_ON_ONE_RANK = """
    last, right, left = size - 1, (rank + 1) % size, (rank - 1) % size
    CALLS = [
        lambda x, **k: wjax.permute(x, world, [(0, last)], **k),
        lambda x, **k: wjax.sendrecv(x, world, right, left, **k),
        lambda x, **k: wjax.gather(x, world, last, **k),
        lambda x, **k: wjax.reduce(x, world, root=last, **k),
        lambda x, **k: wjax.all_gather(x, world, tiled=True, **k),
        lambda x, **k: wjax.replicated(x, world, **k),
        lambda x, **k: wjax.broadcast(x, world, **k),
        lambda x, **k: wjax.scatter(jnp.stack([x] * size), world, **k),
    ]

    def by_effect(x, token):
        return [call(x) for call in CALLS], token

    def by_token(x, token):
        results = []
        for call in CALLS:
            y, token = call(x, token=token)
            results.append(y)
        return results, token

    def in_scan(call):
        def body(carry, _):
            results, token = call(*carry)
            return (carry[0] * 1.5, token), results
        def looped(x, token):
            (_, token), results = jax.lax.scan(body, (x, token), None, length=2)
            return results, token
        return looped

    def doubled(call):
        return lambda x, token: (lambda results, token: ([2 * y for y in results], token))(*call(x, token))

    NESTED = {
        "plain": lambda call: call,
        "jit": jax.jit,
        "checkpoint": jax.checkpoint,
        "scan": lambda call: in_scan(jax.checkpoint(call)),
        "cond": lambda call: lambda x, token: jax.lax.cond(x[0] > 0, call, doubled(call), x, token),
        "vmap": lambda call: lambda x, token: jax.vmap(call, (0, None), (0, None))(jnp.stack([x, 2 * x]), token),
    }

    def gradients(call, otherwise):
        def loss(x):
            results, token = call(x, wjax.token())
            total = lambda: sum((i + 1) * (y ** 2).sum() for i, y in enumerate(results))
            if otherwise is None:
                return jnp.where(rank == last, total(), 0.0), token
            return total() if rank == last else otherwise(x), token
        return jax.grad(loss, has_aux=True)

    x = jnp.array([1.0, 2.0, 3.0]) * (rank + 1)
    wanted = {}
    for nested, around in NESTED.items():
        for ordered, call in (("effect", by_effect), ("token", by_token)):
            wanted[nested, ordered] = jax.jit(gradients(around(call), None))(x)[0]
            assert jnp.abs(wanted[nested, ordered]).min() > 0, (nested, ordered, wanted)
"""


class Gradients(JaxTest):
    def test_results_that_one_rank_uses(self):
        self.run_ranks(3, _USED_ON_ONE_RANK + """
    if jax.__version_info__ >= (0, 7):      # an older one loses what nothing on this rank depends on, docs/jax.md says it
        for otherwise, cases in ((lambda x: 0.0 * x.sum(), NESTED), (lambda x: jnp.zeros(()), {"plain": NESTED["plain"]})):
            for nested, around in cases.items():
                for ordered, call in (("effect", by_effect), ("token", by_token)):
                    for compiled in [True] + [False] * (nested == "plain"):
                        found = gradients(around(call), otherwise)
                        found = (jax.jit(found) if compiled else found)(x)[0]
                        assert np.allclose(found, wanted[nested, ordered]), (nested, ordered, compiled, found, wanted[nested, ordered])
    # No message is left over.
    assert (np.asarray(wjax.sendrecv(jnp.full(3, float(rank)), world, right, left)) == left).all()
            """)

    def test_operands_that_count_on_the_root_alone(self):
        """What the others pass has to depend on what is differentiated, as docs/jax.md says."""
        self.run_ranks(3, """
    x = jnp.array([1.0, 2.0, 3.0])
    stacked = lambda x: jnp.arange(1.0, size + 1)[:, None] * x

    def gradient(call):
        return jax.jit(jax.grad(lambda x: (call(x) * (rank + 2)).sum()))(x).tolist()

    def by_token(call):
        @jax.jit
        def step(x, token):
            (_, token), back = jax.vjp(lambda x, token: (lambda y, token: ((y * (rank + 2)).sum(), token))(*call(x, token)), x, token)
            return back((jnp.ones(()), token))
        return step(x, wjax.token())[0].tolist()

    for given in (lambda x: jnp.where(rank == 1, x, 0.0), lambda x: x if rank == 1 else 0.0 * x):
        for found in (gradient(lambda x: wjax.scatter(stacked(given(x)), world, 1)),
                      by_token(lambda x, token: wjax.scatter(stacked(given(x)), world, 1, token=token))):
            assert found == ([1 * 2 + 2 * 3 + 3 * 4] * 3 if rank == 1 else [0] * 3), found
        for found in (gradient(lambda x: wjax.broadcast(given(x), world, 1)), by_token(lambda x, token: wjax.broadcast(given(x), world, 1, token=token))):
            assert found == ([2 + 3 + 4] * 3 if rank == 1 else [0] * 3), found
            """)

    def test_transposes(self):
        for size in sizes(3):
            self.run_ranks(size, _CHECKS + """
    def check(call, x, direction):
        value, back = jax.vjp(call, x)
        y = jnp.cos(jnp.arange(value.size, dtype=value.dtype)).reshape(value.shape) * (rank + 2)
        gradient, = back(y)
        _, forward = jax.jvp(call, (x,), (direction,))
        twice, = jax.linear_transpose(lambda y: back(y)[0], y)(direction)      # the transpose of the transpose
        return (forward * y).sum(), (direction * gradient).sum(), forward - call(direction), forward - twice

    inputs = {name: (random(shape, 1), random(shape, 2)) for name, (call, shape) in LINEAR.items()}
    with_tokens = {name: jax.jit(lambda x, d, call=call: check(lambda x: call(x, token=wjax.token())[0], x, d)) for name, (call, shape) in list(LINEAR.items())[::2]}
    for found in (jax.jit(lambda inputs: {name: check(LINEAR[name][0], *inputs[name]) for name in inputs})(inputs),
                  jax.jit(lambda inputs: {name: check(jax.checkpoint(LINEAR[name][0]), *inputs[name]) for name in inputs})(inputs),
                  {name: jax.block_until_ready(call(*inputs[name])) for name, call in with_tokens.items()}):
        for name, (over, under, *nothing) in found.items():
            a, b = total(over), total(under)
            assert abs(a - b) < 1e-12 * (1 + abs(a)), (name, rank, a, b)
            assert all(float(jnp.abs(zero).max()) < 1e-12 for zero in nothing), (name, rank)
                """)

    def test_all_reduce_is_the_counterpart_of_replicated(self):
        self.run_ranks(3, """
            x = jnp.arange(3.0) + rank
            y = jnp.array([1.0, 2.0, 3.0]) * (rank + 1)
            back = lambda call: jax.vjp(call, x)[1](y)[0].tolist()
            assert back(lambda x: wjax.all_reduce(x, world)) == y.tolist()
            assert np.allclose(back(lambda x: wjax.all_reduce(x, world, "avg")), y / 3)
            assert back(lambda x: wjax.replicated(x, world)) == [6, 12, 18]
            assert back(lambda x: wjax.all_reduce(x, world, token=wjax.token())[0]) == y.tolist()
            assert back(lambda x: wjax.replicated(x, world, token=wjax.token())[0]) == [6, 12, 18]
            summed = jax.custom_vjp(lambda x: wjax.all_reduce(x, world))
            summed.defvjp(lambda x: (summed(x), None), lambda _, g: (wjax.all_reduce(g, world),))
            assert jax.jit(jax.grad(lambda x: (summed(x) * y).sum()))(x).tolist() == [6, 12, 18]
            # No derivative is asked for: none is needed.
            scaled = lambda x: (x / wjax.all_reduce(jax.lax.stop_gradient(jnp.abs(x)), world, "max")).sum()
            assert np.allclose(jax.grad(scaled)(x), 1 / np.array([2, 3, 4]))
            z = jnp.ones(2, jnp.complex64) * (1 + 2j)
            assert np.allclose(jax.grad(lambda z: wjax.all_reduce(z, world).real.sum(), holomorphic=False)(z), 1)
            """)

    def test_programs(self):
        """Loss and gradient of a network whose layers are gathered, in a scan, with and without remat: against one process with whole matrices."""
        self.run_ranks(3, """
            jax.config.update("jax_enable_x64", True)
            layers, width, batch = 4, 2 * size, 5
            whole = jnp.asarray(np.random.default_rng(1).normal(size=(layers, width, width)))
            data = jnp.asarray(np.random.default_rng(2).normal(size=(size * batch, width)))
            def layer(h, matrix):
                return jnp.tanh(h @ matrix), None
            def reference(whole):
                return (jax.lax.scan(layer, data, whole)[0] ** 2).sum()
            wanted = jax.jit(jax.grad(reference))(whole)
            second = jax.jit(lambda w: jax.jvp(jax.grad(reference), (w,), (w,))[1])(whole)        # and its derivative

            mine = slice(2 * rank, 2 * rank + 2)
            x = data[batch * rank:batch * rank + batch]
            def by_effect(h, part):
                return layer(h, wjax.all_gather(part, world, tiled=True))
            def by_token(carry, part):
                matrix, token = wjax.all_gather(part, world, tiled=True, token=carry[1])
                return (layer(carry[0], matrix)[0], token), None
            for name, body, start, end in (("effect", by_effect, x, lambda c: c), ("remat", jax.checkpoint(by_effect), x, lambda c: c),
                                           ("token", by_token, (x, wjax.token()), lambda c: c[0]), ("token, remat", jax.checkpoint(by_token), (x, wjax.token()), lambda c: c[0]),
                                           ("offloadable dots", jax.checkpoint(by_effect, policy=jax.checkpoint_policies.dots_saveable), x, lambda c: c)):
                loss = lambda parts: (end(jax.lax.scan(body, start, parts)[0]) ** 2).sum()
                parts = whole[:, mine]
                value, gradient = jax.jit(jax.value_and_grad(loss))(parts)
                assert abs(float(wjax.all_reduce(value, world)) - float(reference(whole))) < 1e-9, name
                assert jnp.abs(gradient - wanted[:, mine]).max() < 1e-9, name
                if name == "remat":
                    assert jnp.abs(jax.jit(lambda p: jax.jvp(jax.grad(loss), (p,), (p,))[1])(parts) - second[:, mine]).max() < 1e-8, name
            looped = jax.jit(jax.grad(lambda parts: (jax.lax.fori_loop(0, layers, lambda i, h: by_effect(h, parts[i])[0], x) ** 2).sum()))(whole[:, mine])
            assert jnp.abs(looped - wanted[:, mine]).max() < 1e-9
            branch = lambda parts, flag: jax.lax.cond(flag, lambda p: by_effect(x, p[0])[0], lambda p: by_effect(x, 2 * p[1])[0], parts).sum()
            chosen = jax.jit(jax.grad(branch))(whole[:, mine], True)
            assert jnp.abs(chosen[0]).min() > 0 and jnp.abs(chosen[1:]).max() == 0
            """)


if __name__ == "__main__":
    main()
