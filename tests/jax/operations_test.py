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

    def test_importing_weft_takes_no_jax_with_it(self):
        self.run_ranks(1, "import weft, sys; assert 'jax' not in sys.modules and 'weft.jax' not in sys.modules", start="")


if __name__ == "__main__":
    main()
