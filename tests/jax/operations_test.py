"""Every operation, type and transformation against numpy; what is refused before anything is compiled."""
from jax_ranks import JaxTest, main, sizes


class Operations(JaxTest):
    def check(self, counts, parts, least):
        for size in counts:
            out = self.run_ranks(size, f"""
                jax.config.update("jax_enable_x64", True)
                from operation_checks import Checks
                checks = Checks(world)
                {parts}
                say("checked", checks.done)
                """)
            self.assertEqual(size, len(out))
            self.assertGreaterEqual(int(out[0].split()[-1]), least)

    def test_reductions(self):
        self.check(sizes(3), "checks.reductions()", 180)

    def test_moves(self):
        self.check(sizes(1, 3), "checks.moves(); checks.messages(); checks.in_place()", 140)

    def test_shapes(self):
        self.check(sizes(2), "checks.shapes()", 70)

    def test_transformed(self):
        self.check(sizes(3), "checks.transformed()", 30)

    def test_the_communicators_own_calls_write_to_no_array_of_jax(self):
        self.run_ranks(2, """
            for dtype in (jnp.float32, jnp.bfloat16, jnp.bool_):
                x = jnp.ones(4, dtype)
                for call in (lambda: world.all_reduce(x, op="max"), lambda: world.recv(x, 0), lambda: world.broadcast(x)):
                    try:
                        call()
                        raise AssertionError(dtype)
                    except ValueError as error:
                        assert "is read-only, and weft would write to it" in str(error), error
                world.all_gather(x, weft.zeros(8, x.dtype.name))
            """)

    def test_bad_arguments(self):
        """Said when the program is traced: nothing has been sent, and all goes on."""
        self.run_ranks(2, """
            import re
            x = jnp.ones((3, 4))
            for call, sentence in (
                (lambda: wjax.all_reduce(x, world, "total"), "ValueError: 'total' is no reduction; there are sum, "),
                (lambda: wjax.all_reduce(x, world, "bit_or"), "TypeError: x has elements of float32, which bit_or does not combine"),
                (lambda: wjax.all_reduce(x.astype(jnp.int16), world), "TypeError: x has elements of int16, which sum"),
                (lambda: wjax.all_reduce(x > 0, world, "avg"), "TypeError: x has elements of bool, which avg"),
                (lambda: wjax.all_reduce(x.astype(complex), world, "max"), "TypeError: x has elements of complex64, which max"),
                (lambda: wjax.all_reduce(x, 3), "TypeError: comm is a int; it must be a weft.Communicator"),
                (lambda: wjax.all_reduce(x, world, timeout=0), "ValueError: timeout is 0; it must be above 0 s"),
                (lambda: wjax.broadcast(jax.random.key(0), world), "TypeError: x has elements of key<fry>, which weft cannot move; pass jax.random.key_data"),
                (lambda: wjax.broadcast(x.astype(jnp.int4), world), "TypeError: x has elements of int4"),
                (lambda: wjax.broadcast("x", world), "TypeError: .*"),
                (lambda: wjax.reduce(x, world, root=2), "ValueError: root is 2, in a communicator of 2"),
                (lambda: wjax.reduce(x, world, root=0.5), "TypeError: root is 0.5; it must be a whole number"),
                (lambda: wjax.broadcast(x, world, root=jnp.float32(1)), "TypeError: root is .*; it must be a whole number"),
                (lambda: wjax.send(x, world, 0.5), "TypeError: destination is 0.5; it must be a whole number"),
                (lambda: wjax.send(x, world, 0, 1.5), "TypeError: tag is 1.5; it must be a whole number"),
                (lambda: wjax.permute(x, world, [(0.5, 1)]), "TypeError: source is 0.5; it must be a whole number"),
                (lambda: wjax.recv([1.0], world), "TypeError: like is a list; it must be an array or a jax.ShapeDtypeStruct"),
                (lambda: wjax.reduce_scatter(x, world), "ValueError: x has 3 elements along axis 0; 2 are needed"),
                (lambda: wjax.reduce_scatter(x, world, tiled=True), "ValueError: x has 3 elements along axis 0; a multiple of 2 are needed"),
                (lambda: wjax.scatter(x, world), "ValueError: x has 3 elements along axis 0"),
                (lambda: wjax.all_to_all(x, world, split_axis=1), "ValueError: x has 4 elements along axis 1"),
                (lambda: wjax.all_gather(x, world, axis=3), "ValueError: axis is 3, of an array with 3 dimensions"),
                (lambda: wjax.all_gather(x, world, axis=2, tiled=True), "ValueError: axis is 2, of an array with 2 dimensions"),
                (lambda: wjax.send(x, world, 2), "ValueError: destination is 2"),
                (lambda: wjax.send(x, world, 0, tag=-1), "ValueError: tag is -1"),
                (lambda: wjax.recv(x, world, -3), "ValueError: source is -3"),
                (lambda: wjax.recv(jax.ShapeDtypeStruct((), jnp.int4), world), "TypeError: like has elements of int4"),
                (lambda: wjax.sendrecv(x, world, 0, -1), "ValueError: source is -1"),
                (lambda: wjax.permute(x, world, [(0, 1), (1, 1)]), "ValueError: pairs have a destination twice"),
                (lambda: wjax.permute(x, world, [(0, 1), (0, 0)]), "ValueError: pairs have a source twice"),
                (lambda: wjax.permute(x, world, [(0, 7)]), "ValueError: destination is 7"),
                (lambda: jax.grad(lambda x: wjax.all_reduce(x, world, "max").sum())(x), "TypeError: weft.jax.all_reduce has no derivative"),
                (lambda: jax.grad(lambda x: (wjax.send(x, world, 0), x.sum())[1])(x), "TypeError: weft.jax.send has no derivative"),
                (lambda: jax.vmap(lambda x, t: wjax.all_reduce(x, world, token=t))(x, jnp.zeros(3)), "ValueError: weft.jax.all_reduce: vmap maps the token"),
            ):
                for form in (call, jax.jit(call)):
                    try:
                        form()
                    except Exception as error:
                        said = f"{type(error).__name__}: {error}"
                        assert re.match(sentence.replace("<fry>", ".fry."), said), (sentence, said)
                    else:
                        raise AssertionError(sentence)
            assert wjax.all_reduce(x, world).sum() == 24
            """)

    def test_like_has_the_type_that_jax_gives_it(self):
        """send makes an array of JAX of what it is given, without jax_enable_x64 one of 32 bits."""
        self.run_ranks(2, """
            for like in (np.zeros(3), jax.ShapeDtypeStruct((3,), np.float64), np.zeros(3, np.int64), np.zeros(3, np.complex128)):
                given = np.full(3, rank + 1, like.dtype)
                for form in (lambda call: call(), lambda call: jax.jit(call)()):
                    if rank == 0:
                        form(lambda: wjax.send(given, world, np.int64(1)))
                    else:
                        got = form(lambda: wjax.recv(like, world, 0))
                        assert got.dtype == jnp.asarray(given).dtype and got.tolist() == [1, 1, 1], got
                    got = form(lambda: wjax.sendrecv(given, world, 1 - rank, 1 - rank, like=like))
                    assert got.dtype == jnp.asarray(given).dtype and got.tolist() == [2 - rank] * 3, got
            """)

    def test_importing_weft_takes_no_jax_with_it(self):
        self.run_ranks(1, "import weft, sys; assert 'jax' not in sys.modules and 'weft.jax' not in sys.modules", start="")


if __name__ == "__main__":
    main()
