"""weft.shard in training: the same bits under every preset, and what an optimizer of the program's, scales, ties and groups do."""
import array
import hashlib
import pathlib
import tempfile

import ranks
from shard_ranks import ShardTest

_PRESETS = ("no_shard", "zero1", "zero2", "grad_op", "full_shard", "fraction")


class Training(ShardTest):
    def test_every_preset_gives_the_same_bits(self):
        for size in (1, 2, 3):
            runs = {}
            for preset in _PRESETS:
                runs[preset] = self.trained(size, lambda ranks_: self.model.Perceptron(self.shard, ranks_, preset, {"kind": "adamw"}))
            for preset in ("stable", "apart"):
                runs[preset] = self.trained(size, lambda ranks_: self.model.Perceptron(self.shard, ranks_, "full_shard", {"kind": "adamw"},
                                                                                       stable_views=preset))
            runs["at the end"] = self.trained(size, lambda ranks_: self.model.Perceptron(self.shard, ranks_, "zero2", {"kind": "adamw"}, overlap=False))
            for name, run in runs.items():
                self.assertEqual(runs["no_shard"], run, (size, name))

    def test_processes_have_the_bits_of_threads(self):
        program = """
            import hashlib
            import shard_model, weft.shard
            for preset in ("zero1", "full_shard"):
                model = shard_model.Perceptron(weft.shard, world, preset, {"kind": "adamw"})
                with model.context:
                    model.train(4)
                    values = model.values()
                if world.rank == 2:
                    say(preset, hashlib.sha256(b"".join(values[name].tobytes() for name in shard_model.NAMES)).hexdigest())
            """
        launched = ranks.RanksTest()
        launched.setUp()
        self.addCleanup(launched.doCleanups)
        values = self.trained(3, lambda world: self.model.Perceptron(self.shard, world, "no_shard", {"kind": "adamw"}))
        digest = hashlib.sha256(b"".join(values[name] for name in self.model.NAMES)).hexdigest()
        self.assertEqual([f"[2] {preset} {digest}" for preset in ("full_shard", "zero1")], launched.run_ranks(3, program))

    def test_one_rank_is_plain_numpy(self):
        """The step as such, against the formulas: SGD without momentum."""
        values, lr = self.model.initial(), self.numpy.float32(0.05)
        for step in range(3):
            draw = self.numpy.random.default_rng([step, 0, 0])
            x, y = (draw.standard_normal((self.model.ROWS, count), self.numpy.float32) for count in (self.model.INPUTS, self.model.OUTPUTS))
            before = x @ values["up.weight"].T + values["up.bias"]
            hidden = self.numpy.maximum(before, 0)
            gradient = (hidden @ values["down.weight"].T + values["down.bias"] - y) * self.numpy.float32(1 / self.model.ROWS)
            back = (gradient @ values["down.weight"]) * (before > 0)
            for name, change in zip(self.model.NAMES, (back.T @ x, back.sum(0), gradient.T @ hidden, gradient.sum(0))):
                values[name] = values[name] - lr * change
        model = self.alone("full_shard", {"kind": "sgd"})
        model.train(3, update=lambda model, _: model.context.optimizer_step(0.05))
        for name, value in model.values().items():
            self.numpy.testing.assert_allclose(value, values[name], rtol=2e-5, atol=1e-6)

    def test_hybrid_presets_on_a_mesh(self):
        def on_mesh(preset):
            return lambda world: self.model.Perceptron(self.shard, self.shard.Mesh(world, {"node": 2, "gpu": 2}), preset, {"kind": "adamw"})

        flat = self.trained(4, on_mesh("no_shard"), 2)
        for preset in ("hybrid_shard", "hpz", self.shard.Policy("hybrid", between="whole")):
            self.assertEqual(flat, self.trained(4, on_mesh(preset), 2), preset)

    def test_micro_batches(self):
        for accumulation, presets in (("local_then_reduce", _PRESETS), ("reduce_every", ("no_shard", "full_shard"))):
            runs = [self.trained(2, lambda world: self.model.Perceptron(self.shard, world, preset, {"kind": "adamw"}, accumulation=accumulation,
                                                                        microbatches=3), 2, microbatches=3) for preset in presets]
            self.assertEqual([runs[0]] * len(runs), runs, accumulation)

    def test_own_optimizer_on_this_ranks_parts(self):
        numpy = self.numpy

        def update(model, _):
            for param in model.context.params:
                part = param.part()
                begin, count = param.interval(model.rank)
                self.assertEqual((begin, count, (count,)), (part.begin, part.count, part.data.shape))
                data = numpy.asarray(part.data)
                data -= numpy.float32(0.05) * numpy.asarray(part.grad)
            model.context.params_updated()

        runs = [self.trained(3, lambda world: self.model.Perceptron(self.shard, world, preset), update=update) for preset in _PRESETS]
        self.assertEqual([runs[0]] * len(runs), runs)

    def test_own_kind_with_wefts_loss_scale_and_clipping(self):
        numpy, told = self.numpy, []

        def update(model, step):
            result = model.context.optimizer_step(0, norm_max=0.5, gradient_factor=0.5, requests=1 << model.rank if step == 1 else 0)
            if model.rank == 0:
                told.append((result.requests, result.skipped))
            if step == 0:      # too early
                self.refused("BAD_STATE", "params_updated", model.context.step_end)
            for param in model.context.params:
                part = param.part()
                data = numpy.asarray(part.data)
                data -= numpy.float32(0.05) * numpy.asarray(part.grad)
            model.context.params_updated()

        optimizer = {"kind": "own", "loss_scale": 4}
        runs = [self.trained(2, lambda world: self.model.Perceptron(self.shard, world, preset, optimizer), 2, update=update)
                for preset in ("no_shard", "full_shard")]
        self.assertEqual(runs[0], runs[1])
        self.assertEqual([(0, False), (3, False)] * 2, told)

    def test_clipping_and_the_norm_apart(self):
        def run(world):
            model = self.model.Perceptron(self.shard, world, "full_shard", {"kind": "sgd"})
            with model.context as context, context.step():
                model.microbatch(0)
                context.finish()
                norm = context.gradient_norm()
                parts = [self.numpy.asarray(param.part().grad).astype(float) for param in context.params]
                mine = self.numpy.array([sum((part * part).sum() for part in parts)])
                world.all_reduce(mine)
                self.assertAlmostEqual(norm.norm, float(mine[0]) ** 0.5, delta=1e-6 * norm.norm)
                twice = norm + norm
                self.assertAlmostEqual(twice.norm, norm.norm * 2 ** 0.5, delta=1e-9)
                result = context.optimizer_step(0.1, norm_max=norm.norm / 3, norm=norm)
                self.assertEqual(norm.norm, result.grad_norm)
                return norm.norm

        first, second = self.model.on_ranks(self.local(2), run)
        self.assertEqual(first, second)

    def test_loss_scale_and_gradients_that_are_not_finite(self):
        model = self.alone("full_shard", {"kind": "adamw", "dynamic_loss_scale": True, "loss_scale": 8, "loss_scale_hysteresis": 1, "nonfinite": "skip"})
        context, before = model.context, self.model.bits(model.values())
        with context.step():
            self.assertEqual(8, context.loss_scale)
            with self.numpy.errstate(invalid="ignore"):
                model.microbatch(0, scale=float("inf"))
            context.finish()
            result = context.optimizer_step(0.1)
        self.assertEqual((True, 4, 0), (result.skipped, result.loss_scale, result.update_count))
        self.assertGreater(result.nonfinite, 0)
        self.assertEqual((4, before), (context.loss_scale, self.model.bits(model.values())))
        with context.step():
            model.microbatch(1, scale=context.loss_scale)
            context.finish()
            self.assertFalse(context.optimizer_step(0.1).skipped)

    def test_frozen_params(self):
        for preset in ("no_shard", "full_shard"):
            model = self.alone(preset, {"kind": "adamw"}, frozen=("up.weight", "down.bias"))
            model.train(2)
            values, first = model.values(), self.model.initial()
            self.assertEqual([True, False, False, True], [values[name].tobytes() == first[name].tobytes() for name in self.model.NAMES])
            weight, bias = model.up.params
            self.assertEqual((True, False), (weight.info().frozen, bias.info().frozen))
            self.assertIsNone(weight.part().grad)

    def test_tied_params_are_one(self):
        numpy = self.numpy
        for preset in ("zero1", "full_shard"):
            context = self.shard.Context(self.local(1)[0])
            context.set_optimizer("sgd")
            with context.add_unit("embedding", preset) as first:
                table = first.add_param("table", value=numpy.ones((3, 2), numpy.float32))
            with context.add_unit("head", preset) as second:
                head = second.tie_param("head.weight", table)
            context.hint_order([first, second])
            context.finalize()
            self.assertEqual(("table", None), (head.info().tied_to, table.info().tied_to))
            with context.step():
                with context.microbatch():
                    with first.forward():
                        pass
                    with second.forward():
                        self.assertEqual(numpy.asarray(head.data).tolist(), [[1, 1]] * 3)
                    for unit, param, factor in ((second, head, 2), (first, table, 1)):
                        with unit.backward():
                            param.grad_ready(numpy.full((3, 2), factor, numpy.float32))
                context.finish()
                context.optimizer_step(0.5)
            out = numpy.empty((3, 2), numpy.float32)
            head.read(out)
            self.assertEqual([[1 - 0.5 * 3] * 2] * 3, out.tolist())
            context.destroy()

    def test_hinted_runs(self):
        numpy = self.numpy
        for preset in ("no_shard", "full_shard"):
            context = self.shard.Context(self.local(1)[0])
            context.set_optimizer("sgd", momentum=0)
            with context.add_unit("stage", preset) as unit:
                weight = unit.add_param("w", value=numpy.zeros(3, numpy.float32))
            with self.assertRaisesRegex(ValueError, "a run is 'sideways'"):
                context.hint_runs([("sideways", unit)])
            context.hint_runs((kind, unit) for kind in ("forward", "backward") * 2)
            context.finalize()
            with context.step():
                with context.microbatch():
                    for _ in range(2):
                        with unit.forward():
                            pass
                        with unit.backward():
                            weight.grad_ready(numpy.ones(3, numpy.float32))
                context.finish()
                context.optimizer_step(1)
            out = numpy.empty(3, numpy.float32)
            weight.read(out)
            self.assertEqual([-2] * 3, out.tolist())
            context.destroy()

    def test_a_gradient_that_is_written_is_unset_until_it_is_ready(self):
        numpy = self.numpy
        for preset in ("no_shard", "full_shard"):
            context = self.shard.Context(self.local(1)[0])
            context.set_optimizer("sgd", momentum=0)
            with context.add_unit("linear", preset) as unit:
                weight = unit.add_param("w", value=numpy.zeros(3, numpy.float32), writes_grad=True)
                bias = unit.add_param("b", value=numpy.zeros(3, numpy.float32))
            context.finalize()
            self.assertEqual((True, False), (weight.info().writes_grad, bias.info().writes_grad))
            with context.step():
                for index, last in enumerate((False, True)):
                    with context.microbatch(index, last=last):
                        with unit.forward():
                            pass
                        with unit.backward():
                            self.assertEqual((not last, False), (weight.grad_unset, bias.grad_unset))
                            self.assertEqual(weight.grad_unset, weight.view().grad_unset)
                            numpy.asarray(bias.grad)[:] += 1
                            if weight.grad_unset:
                                numpy.asarray(weight.grad)[:] = 1
                                weight.grad_ready()
                            else:
                                weight.grad_ready(numpy.ones(3, numpy.float32))
                            bias.grad_ready()
                context.finish()
                context.optimizer_step(1)
            out = numpy.empty(3, numpy.float32)
            for param in (weight, bias):
                param.read(out)
                self.assertEqual([-2] * 3, out.tolist())
            context.destroy()

    def test_param_groups(self):
        model = self.shard.Context(self.local(1)[0])
        model.set_optimizer("adamw", beta1=0, weight_decay=0.25)
        slow = model.add_param_group(learning_rate_factor=0, weight_decay_factor=2)
        sgd = model.add_param_group(kind="sgd", momentum=0.5)
        with model.add_unit("all", "zero1") as unit:
            first = unit.add_param("first", (4,), group=slow)
            second = unit.add_param("second", (4,), "float32")
            second.set_group(sgd)
        model.finalize()
        self.assertEqual(([0, 1, 2], 1, 2), ([model.param_group(0).index, slow.index, sgd.index], first.info().group, second.info().group))
        self.assertEqual((self.shard.OptimizerKind.ADAMW, 0, 2, 0), slow.numbers()[:4])
        self.assertEqual((self.shard.OptimizerKind.SGD, 0.5), (sgd.numbers().kind, sgd.numbers().momentum))
        slow.set(learning_rate_factor=0.125, beta1=0.5)
        self.assertEqual((0.125, 0.5), (slow.numbers().learning_rate_factor, slow.numbers().beta1))
        self.refused("INVALID_ARGUMENT", "", sgd.set, momentum=0)
        model.destroy()
        self.refused("BAD_STATE", "context was destroyed", slow.numbers)

    def test_a_rank_without_data_joins(self):
        def run(world):
            model = self.model.Perceptron(self.shard, world, "full_shard", {"kind": "sgd"}, uneven=True)
            active = []
            with model.context as context:
                for step in range(4):
                    with context.step():
                        if step < 2 + world.rank:
                            model.microbatch(step)
                        else:
                            active.append(context.join())
                            if not active[-1]:
                                break
                        active.append(context.finish().active_ranks)
                        context.optimizer_step(0.1)
            return active

        self.assertEqual([[2, 2, 1, 1, 0], [2, 2, 1, 0]], self.model.on_ranks(self.local(2), run))

    def test_evaluation(self):
        model = self.alone("full_shard")
        with model.context.step("eval", tag=3), model.context.microbatch():
            model.forward(self.numpy.zeros((2, self.model.INPUTS), self.numpy.float32))

    def test_units_from_a_list(self):
        context, spec = self.shard.Context(self.local(1)[0]), self.shard.ParamSpec
        units = context.add_units([spec("embed", (5, 2)), *(spec(f"blocks.{i}.{name}", (4,), decay=False) for i in range(2) for name in "ab"),
                                   spec("head", value=array.array("f", [1, 2, 3]), frozen=True)], by_prefix="blocks.*", policy="full-shard")
        context.finalize()
        self.assertEqual([("embed", 1), ("blocks.0", 2), ("blocks.1", 2), ("head", 1)], [(unit.name, len(unit.params)) for unit in units])
        self.assertEqual((tuple(units), context.unit("blocks.1"), context.param("blocks.1.b")), (context.units, units[2], units[2].params[1]))
        info = context.param("blocks.0.a").info()
        self.assertEqual(("blocks.0", (4,), False, False), (info.unit_name, info.shape, info.frozen, info.decay))
        out = array.array("f", [0] * 3)
        context.param("head").read(out)
        self.assertEqual([1, 2, 3], list(out))
        self.refused("INVALID_ARGUMENT", "grouping|by_prefix", context.add_units, [spec("x", (1,))])
        context.destroy()

    def test_products_of_the_program(self):
        numpy, shapes = self.numpy, []

        def product(a, b, c):
            shapes.append((a.shape, b.shape, c.shape))
            numpy.matmul(a, b, out=numpy.asarray(c))

        runs = []
        for given in (None, product):
            context = self.shard.Context(self.local(1)[0])
            context.set_optimizer("muon", product=given)
            with context.add_unit("u") as unit:
                weight = unit.add_param("w", value=numpy.eye(6, 3, dtype=numpy.float32))
            context.finalize()
            with context.step():
                with context.microbatch():
                    with unit.forward():
                        pass
                    with unit.backward():
                        weight.grad_ready(numpy.arange(18, dtype=numpy.float32))
                context.finish()
                context.optimizer_step(0.1)
            out = numpy.empty((6, 3), numpy.float32)
            weight.read(out)
            runs.append(out)
            context.destroy()
        numpy.testing.assert_allclose(runs[0], runs[1], rtol=1e-4, atol=1e-5)
        self.assertEqual(15, len(shapes))

    def test_offload(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = self.trained(2, lambda world: self.model.Perceptron(self.shard, world, "full_shard", {"kind": "adamw"}))
            for offload in (folder, self.shard.Offload(pathlib.Path(folder), 1 << 20, params=True)):
                self.assertEqual(kept, self.trained(2, lambda world: self.model.Perceptron(self.shard, world, "full_shard", {"kind": "adamw"},
                                                                                           offload=offload)))
            model = self.alone("full_shard", {"kind": "adamw"}, offload=self.shard.Offload(folder, params=True))
            self.assertGreater(model.plan.offload_bytes, 0)
            model.train(1)
            weight = model.up.params[0]
            self.assertIsNone(weight.part().data)
            state = weight.state("moment1")
            self.assertTrue(state.offloaded)
            moments = self.numpy.zeros(weight.shape, self.numpy.float32)
            weight.read_state("moment1", 0, moments)
            self.assertTrue(moments.any())


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
