"""Every operation of weft.jax against numpy: run by each rank, which knows what the others give.

Numbers are small and whole, so that every type has every result.
"""
import itertools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

import weft.jax as wjax

_COMBINED = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "bool"]
_MOVED = [*_COMBINED, "int16", "uint16", "complex64", "complex128", "float8_e4m3b11fnuz"]
_REDUCTIONS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "avg": np.add, "bit_and": np.bitwise_and, "bit_or": np.bitwise_or,
               "bit_xor": np.bitwise_xor}


def numpy_type(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def given(dtype, shape, rank):
    """What a rank gives."""
    numbers = np.random.default_rng([rank, *shape]).integers(0, 3, shape)
    if dtype.startswith("complex"):
        numbers = numbers + 1j * numbers[::-1]
    return numbers.astype(numpy_type(dtype))


def combined(op, parts):
    dtype = parts[0].dtype
    if dtype == bool:
        return (np.logical_and if op in ("prod", "min", "bit_and") else np.logical_xor if op == "bit_xor" else np.logical_or).reduce(parts)
    wide = dtype if op.startswith("bit") or dtype.kind == "c" else np.float64 if dtype.kind not in "iu" else np.int64
    total = parts[0].astype(wide)
    for part in parts[1:]:
        total = _REDUCTIONS[op](total, part.astype(wide))
    if op == "avg":
        total = np.trunc(total / len(parts)) if dtype.kind in "iu" else total / len(parts)
    return total.astype(dtype)


def types_of(op):
    if op.startswith("bit"):
        return [name for name in _COMBINED if "int" in name or name == "bool"]
    if op == "avg":
        return [name for name in _COMBINED if name != "bool"] + ["complex64", "complex128"]
    return _COMBINED + (["complex64", "complex128"] if op == "sum" else [])


class Checks:
    def __init__(self, world):
        self.world, self.rank, self.size = world, world.rank, world.size
        self.done = 0

    def check(self, what, call, shape, expected, types=("float32",)):
        """call(x, token=) of each type, compiled; of one type eager and with tokens, too. expected([x of each rank])."""
        parts = {dtype: [given(dtype, shape, rank) for rank in range(self.size)] for dtype in types}
        mine = [jnp.asarray(parts[dtype][self.rank]) for dtype in types]

        def with_tokens(xs, token):
            results = []
            for x in xs:
                result, token = call(x, token=token)
                results.append(result)
            return results, token

        ways = {"compiled": jax.jit(lambda xs: [call(x) for x in xs])(mine), "eager": [call(mine[0])], "with tokens": jax.jit(with_tokens)(mine[:1], wjax.token())[0]}
        for way, results in ways.items():
            for dtype, result in zip(types, results):
                wanted = expected(parts[dtype])
                result = np.asarray(result)
                assert result.dtype == numpy_type(dtype), (what, way, dtype, result.dtype)
                assert result.shape == wanted.shape and (result == wanted).all(), f"{what}, {way}, {dtype}, rank {self.rank}: {result}, not {wanted}"
                self.done += 1

    def reductions(self):
        root = self.size - 1
        for op in _REDUCTIONS:
            def on_root(parts, op=op):
                return combined(op, parts) if self.rank == root else np.zeros_like(parts[0])
            self.check(f"all_reduce {op}", lambda x, op=op, **k: wjax.all_reduce(x, self.world, op, **k), (3, 5), lambda parts, op=op: combined(op, parts), types_of(op))
            some = types_of(op)[:4] if op != "sum" else types_of(op)
            self.check(f"reduce {op}", lambda x, op=op, **k: wjax.reduce(x, self.world, op, root, **k), (7,), on_root, some)
            self.check(f"reduce_scatter {op}", lambda x, op=op, **k: wjax.reduce_scatter(x, self.world, op, **k), (self.size, 3),
                       lambda parts, op=op: combined(op, parts)[self.rank], some)

    def moves(self):
        world, root, rank, size = self.world, self.size // 2, self.rank, self.size
        self.check("broadcast", lambda x, **k: wjax.broadcast(x, world, root, **k), (3, 5), lambda parts: parts[root], _MOVED)
        self.check("all_gather", lambda x, **k: wjax.all_gather(x, world, **k), (2, 3), np.stack, _MOVED)
        self.check("gather", lambda x, **k: wjax.gather(x, world, root, **k), (2, 3), lambda parts: np.stack(parts) if rank == root else np.zeros((size, 2, 3), parts[0].dtype), _MOVED)
        self.check("scatter", lambda x, **k: wjax.scatter(x, world, root, **k), (size, 4), lambda parts: parts[root][rank], _MOVED)
        self.check("all_to_all", lambda x, **k: wjax.all_to_all(x, world, **k), (size, 3), lambda parts: np.stack([part[rank] for part in parts]), _MOVED)
        self.check("replicated", lambda x, **k: wjax.replicated(x, world, **k), (3,), lambda parts: parts[rank])
        right, left = (rank + 1) % size, (rank - 1) % size
        self.check("sendrecv", lambda x, **k: wjax.sendrecv(x, world, right, left, 5, **k), (3, 5), lambda parts: parts[left], _MOVED)
        pairs = [(r, r - 1) for r in range(1, size)]
        self.check("permute", lambda x, **k: wjax.permute(x, world, pairs, **k), (4,), lambda parts: parts[rank + 1] if rank + 1 < size else np.zeros_like(parts[0]), _MOVED)

    def shapes(self):
        """Axes, tiles, arrays without elements or dimensions."""
        world, rank, size = self.world, self.rank, self.size
        for axis, tiled in itertools.product((0, 1, -1), (False, True)):
            self.check("all_gather", lambda x, **k: wjax.all_gather(x, world, axis=axis, tiled=tiled, **k), (2, 3), lambda parts: (np.concatenate if tiled else np.stack)(parts, axis))
            shape = [4, 5]
            shape[axis] = 2 * size if tiled else size
            self.check("reduce_scatter", lambda x, **k: wjax.reduce_scatter(x, world, axis=axis, tiled=tiled, **k), tuple(shape),
                       lambda parts: np.split(combined("sum", parts), size, axis)[rank] if tiled else np.take(combined("sum", parts), rank, axis))
            for concat in (0, 1):
                self.check("all_to_all", lambda x, **k: wjax.all_to_all(x, world, split_axis=axis, concat_axis=concat, tiled=tiled, **k), tuple(shape),
                           lambda parts: np.concatenate([np.split(part, size, axis)[rank] for part in parts], concat) if tiled
                           else np.stack([np.take(part, rank, axis) for part in parts], concat))
        self.check("no elements", lambda x, **k: wjax.all_reduce(x, world, **k), (0, 3), lambda parts: parts[0])
        self.check("no elements", lambda x, **k: wjax.all_gather(x, world, axis=1, tiled=True, **k), (0, 3), lambda parts: np.zeros((0, 3 * size), np.float32))
        self.check("no dimensions", lambda x, **k: wjax.all_gather(x, world, **k), (), np.stack)
        self.check("large", lambda x, **k: wjax.all_reduce(x, world, **k), (1 << 16,), lambda parts: combined("sum", parts))

    def transformed(self):
        """Under vmap, in loops and in branches."""
        world, rank, size = self.world, self.rank, self.size
        def mapped(call, in_axis=0, out_axis=0):
            def over(x, token=None):
                if token is None:
                    return jax.vmap(call, in_axes=in_axis, out_axes=out_axis)(x)
                return jax.vmap(lambda v, t: call(v, token=t), in_axes=(in_axis, None), out_axes=(out_axis, None))(x, token)
            return over

        stack = np.stack
        self.check("vmap", mapped(lambda x, **k: wjax.all_reduce(x, world, **k), 1, 1), (3, 4), lambda parts: combined("sum", parts))
        self.check("vmap", mapped(lambda x, **k: wjax.all_gather(x, world, **k), 1), (3, 4), lambda parts: stack([stack(parts)[:, :, i] for i in range(4)]))
        self.check("vmap", mapped(lambda x, **k: wjax.reduce_scatter(x, world, tiled=True, **k), 1), (2 * size, 3),
                   lambda parts: combined("sum", parts)[2 * rank:2 * rank + 2].T)
        self.check("vmap", mapped(lambda x, **k: wjax.all_to_all(x, world, **k), 1, 1), (size, 3), lambda parts: stack([part[rank] for part in parts]))
        self.check("vmap", mapped(lambda x, **k: wjax.permute(x, world, [(r, (r + 1) % size) for r in range(size)], **k)), (3, 2), lambda parts: parts[rank - 1])
        self.check("vmap of vmap", mapped(mapped(lambda x, **k: wjax.all_gather(x, world, **k))), (2, 3, 4), lambda parts: stack(parts).transpose(1, 2, 0, 3))

        def looped(loop):
            def over(x, token=None):
                carried = (x, wjax.token() if token is None else token)
                def body(carry):
                    x, t = carry
                    return (wjax.all_reduce(x, world, "max") + 1, t) if token is None else (lambda y, t: (y + 1, t))(*wjax.all_reduce(x, world, "max", token=t))
                x, t = loop(body, carried)
                return x if token is None else (x, t)
            return over

        def most(parts):
            return combined("max", parts) + 3
        self.check("scan", looped(lambda body, carry: jax.lax.scan(lambda c, _: (body(c), None), carry, None, length=3)[0]), (3,), most)
        self.check("fori_loop", looped(lambda body, carry: jax.lax.fori_loop(0, 3, lambda i, c: body(c), carry)), (3,), most)
        self.check("while_loop", looped(lambda body, carry: jax.lax.while_loop(lambda c: c[1] < 3, lambda c: (body(c[0]), c[1] + 1), (carry, 0))[0]), (3,), most)
        self.check("cond", looped(lambda body, carry: body(body(jax.lax.cond(carry[0].sum() >= 0, body, lambda c: c, carry)))), (3,), most)
        self.check("switch in scan", looped(lambda body, carry: jax.lax.scan(lambda c, i: (jax.lax.switch(i, [lambda c: c, body], c), None), carry, jnp.array([1, 0, 1, 1]))[0]), (3,), most)
        self.check("remat", looped(lambda body, carry: jax.checkpoint(lambda c: body(body(body(c))))(carry)), (3,), most)

    def in_place(self):
        """A donated operand is the result; one that is not stays as it is."""
        x = jnp.full((1 << 12,), self.rank + 1.0, jnp.float32)
        kept = np.asarray(x).copy()
        step = jax.jit(lambda x: wjax.all_reduce(x, self.world))
        step(x)
        assert (np.asarray(x) == kept).all()
        y = jnp.copy(x)
        address = y.unsafe_buffer_pointer()
        assert jax.jit(lambda x: wjax.all_reduce(x, self.world), donate_argnums=0)(y).unsafe_buffer_pointer() == address

    def messages(self):
        """send and recv in one compiled program, by the effect and by tokens; a barrier."""
        world, rank, size = self.world, self.rank, self.size
        wjax.barrier(world)
        if size == 1:
            return
        like = jax.ShapeDtypeStruct((3,), jnp.float32)

        def ring(x, token):
            plain = token is None
            y = None
            for step in range(size - 1):        # a chain: rank r hears from r - 1 what that has heard
                if rank == step:
                    token = wjax.send(x if rank == 0 else y + 1, world, rank + 1, 7, token=token)
                elif rank == step + 1:
                    got = wjax.recv(like, world, step, 7, token=token)
                    y, token = (got, None) if plain else got
            token = wjax.barrier(world, token=token)
            return (x if rank == 0 else y), token

        x = jnp.full((3,), 10.0, jnp.float32)
        for token in (None, wjax.token()):
            assert (np.asarray(jax.jit(ring)(x, token)[0]) == 10 + max(rank - 1, 0)).all()
        wjax.barrier(world, timeout=10)
