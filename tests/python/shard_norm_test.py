"""Norms of weft.shard over the parts of a model: Norm.sum, params that are not counted."""
import ranks
from shard_ranks import ShardTest


class NormOfParts(ShardTest):
    def stage(self, communicator, names, counted, preset):
        context = self.shard.Context(communicator)
        context.set_optimizer("sgd", dynamic_loss_scale=True, loss_scale=8, loss_scale_hysteresis=1, nonfinite="skip")
        with context.add_unit("unit", preset) as unit:
            for name in names:
                unit.add_param(name, value=self.numpy.zeros(5, self.numpy.float32), counted=name in counted)
        context.finalize()
        return context, unit

    def backward(self, context, unit, gradients):
        with context.microbatch():
            with unit.forward():
                pass
            with unit.backward():
                for param, gradient in zip(unit.params, gradients):
                    param.grad_ready(self.numpy.full(5, gradient, self.numpy.float32))
        context.finish()

    def values(self, unit):
        out = self.numpy.empty(5, self.numpy.float32)
        values = []
        for param in unit.params:
            param.read(out)
            values.append(float(out[0]))
        return values

    def test_two_stages_have_one_norm_one_clip_and_one_loss_scale(self):
        """The second stage has a copy of the first one's table. Steps: a good one, and one in which the copy's stage has an infinity."""
        infinity = float("inf")

        def run(world):
            stage, preset = world.rank % 2, "full_shard"
            data, parts = world.split(stage), world.split(world.rank // 2)
            names = ("head", "table") if stage else ("table",)
            context, unit = self.stage(data, names, ("head",) if stage else ("table",), preset)
            self.assertEqual([True, False] if stage else [True], [param.info().counted for param in unit.params])
            told = []
            for head in (4.0, infinity):
                with context.step():
                    self.backward(context, unit, (head * 8, 3.0 * 8) if stage else (3.0 * 8,))
                    own = context.gradient_norm()
                    whole = own.sum(parts)
                    self.assertEqual((80.0 if stage else 45.0) ** 0.5 if head == 4 else own.norm, own.norm)
                    result = context.optimizer_step(1.0, norm=whole, norm_max=1.0)
                told.append((whole.norm, whole.nonfinite, result.skipped, result.loss_scale, self.values(unit)[-1]))
            context.destroy()
            return told

        results = self.model.on_ranks(self.local(4), run)
        for told in results:
            self.assertEqual(repr(results[0]), repr(told))
        good, bad = results[0]
        self.assertEqual((125.0 ** 0.5, 0, False, 8.0), good[:4])
        self.assertAlmostEqual(-3 / (125.0 ** 0.5 + 1e-6), good[4], places=6)
        self.assertEqual((5, True, 4.0), bad[1:4])
        self.assertEqual(good[4], bad[4])

    def test_a_list_of_params_has_the_flag(self):
        context = self.shard.Context(self.local(1)[0])
        units = context.add_units([self.shard.ParamSpec("a", (3,)), self.shard.ParamSpec("b", (3,), counted=False)], min_bytes=1 << 20)
        self.assertEqual([True, False], [param.info().counted for unit in units for param in unit.params])
        context.destroy()

    def test_another_loss_scale_is_a_mismatch_on_both(self):
        def run(world):
            context = self.shard.Context(world.split(world.rank))
            context.set_optimizer("sgd", loss_scale=2 ** world.rank)
            with context.add_unit("unit") as unit:
                unit.add_param("w", value=self.numpy.zeros(5, self.numpy.float32))
            context.finalize()
            with context.step():
                self.backward(context, unit, (3.0,))
                norm = context.gradient_norm()
                before = norm.norm
                self.refused("MISMATCH", "rank 1 have loss scale 2, those of rank 0 have 1", norm.sum, world)
                self.assertEqual(before, norm.norm)
                self.assertEqual(before, norm.sum(world.split(world.rank)).norm)
                context.optimizer_step(0.5)
            context.destroy()

        self.model.on_ranks(self.local(2), run)

    def test_what_is_no_communicator_is_refused(self):
        model = self.alone("no_shard", {"kind": "sgd"})
        with model.context.step():
            model.microbatch(0)
            model.context.finish()
            norm = model.context.gradient_norm()
            self.assertRaisesRegex(TypeError, "communicator is a int; it must be a Communicator", norm.sum, 5)
            gone = self.local(1)[0]
            gone.destroy()
            self.assertRaises(self.weft.Error, norm.sum, gone)
            model.context.optimizer_step(0.5)


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
