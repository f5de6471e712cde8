"""Calls of weft.shard beside training, wrong ones, and what is dropped."""
import array
import gc
import os
import threading
import time
import weakref

import ranks
from shard_ranks import DEADLINE_S, ShardTest, resident_pages


class Checks(ShardTest):
    def test_values_that_differ(self):
        def run(world):
            context = self.shard.Context(world)
            with context.add_unit("u") as unit:
                weight = unit.add_param("w", value=self.numpy.full(3, world.rank, self.numpy.float32))
            failure = self.refused("MISMATCH", "parameter w: .*values", context.finalize, self.shard.EVERY_RANK)
            self.assertEqual(("u", "w"), (failure.unit, failure.param))
            weight.load(self.numpy.full(3, 7, self.numpy.float32) if world.rank == 1 else None, root=1)
            self.numpy.asarray(weight.data)[0] = world.rank
            self.refused("MISMATCH", "parameter w", context.verify)
            context.broadcast(1)
            context.verify()
            self.refused("MISMATCH", "same samples", context.check_samples, b"the same")
            context.check_samples(None if world.rank else array.array("i", [1]))
            context.set(prefetch=0, verify_steps=5)
            report = context.report()
            self.assertEqual((3, 3, 12), (report.rank_count, len(report.ranks), report.ranks[2].element_count * 4))
            out = self.numpy.empty(3, self.numpy.float32)
            weight.read(out if world.rank == 2 else None, root=2)
            context.destroy()
            return out.tolist() if world.rank == 2 else None

        self.assertEqual([1, 7, 7], self.model.on_ranks(self.local(3), run)[2])

    def test_plans(self):
        mesh = self.shard.Mesh.dry({"node": 128, "gpu": 8}, rank=3)
        context = self.shard.Context(mesh, microbatches=2)
        context.set_optimizer()
        with context.add_unit("u", "full_shard") as unit:
            weight = unit.add_param("w", (1024, 1024), "bfloat16")
        plan = context.plan()
        self.assertEqual((1, 1 << 20, (1 << 20) // 1024 * 2), (plan.unit_count, plan.element_count, plan.param_bytes))
        self.assertEqual((3 << 10, 1 << 10), weight.interval(3))
        self.refused("INVALID_USAGE", "dry", context.finalize)
        self.refused("INVALID_USAGE", "dry", mesh.axis, "gpu")
        self.refused("INVALID_USAGE", "dry", mesh.group, "gpu", "node")
        self.assertEqual(({"node": 128, "gpu": 8}, 3), (mesh.axes, mesh.rank))

    def test_axes(self):
        def run(world):
            mesh = self.shard.Mesh(world, {"a": 2, "b": 2})
            across, along = mesh.axis("a"), mesh.axis(1)
            x = array.array("i", [world.rank])
            along.all_reduce(x)
            del mesh
            y = array.array("i", [world.rank])
            across.all_reduce(y)
            return x[0], y[0], along.rank, across.rank

        self.assertEqual([(1, 2, 0, 0), (1, 4, 1, 0), (5, 2, 0, 1), (5, 4, 1, 1)], self.model.on_ranks(self.local(4), run))
        mesh = self.shard.Mesh(self.local(1)[0])
        self.assertRaisesRegex(ValueError, "no axis 'x'; there are data", mesh.axis, "x")
        self.refused("INVALID_ARGUMENT", "axis is 4", mesh.axis, 4)
        self.refused("INVALID_ARGUMENT", "", self.shard.Mesh, self.local(1)[0], {"a": 2})
        self.assertRaisesRegex(ValueError, "has 7 of them; up to 6 are possible", self.shard.Mesh, self.local(1)[0], dict.fromkeys("abcdefg", 1))
        self.assertEqual(dict.fromkeys("abcdef", 1), self.shard.Mesh(self.local(1)[0], dict.fromkeys("abcdef", 1)).axes)

    def test_groups_of_several_axes(self):
        def run(world):
            mesh = self.shard.Mesh(world, {"dp": 2, "cp": 2, "tp": 2})
            data, again = mesh.group("cp", "dp"), mesh.group("dp", "cp")
            everybody, alone = mesh.group("tp", "dp", "cp"), mesh.group("tp")
            names = data.name, again.name, everybody.name, alone.name
            del mesh
            x = array.array("i", [1 << world.rank])
            data.all_reduce(x)
            return x[0], data.rank, data.size, everybody.size, alone.size, names

        for rank, (members, *numbers, names) in enumerate(self.model.on_ranks(self.local(8), run)):
            self.assertEqual((0b01010101 << rank % 2, [rank // 2, 4, 8, 2]), (members, numbers))
            # All axes but the last one: the group that HYBRID_SHARD has, too.
            self.assertEqual((names[1], f"{names[2]}.outer", f"{names[2]}.tp"), (names[0], names[0], names[3]))
        mesh = self.shard.Mesh(self.local(1)[0], {"dp": 1, "tp": 1})
        self.assertRaisesRegex(ValueError, "no axis 'x'; there are dp, tp", mesh.group, "dp", "x")
        self.assertRaisesRegex(TypeError, "name is a int", mesh.group, 0)
        self.refused("INVALID_ARGUMENT", "axis dp is named twice", mesh.group, "dp", "dp")
        self.refused("INVALID_ARGUMENT", "n is 0", mesh.group)

    def test_a_context_along_several_axes(self):
        def run(world):
            mesh = self.shard.Mesh(world, {"dp": 2, "cp": 2, "tp": 2})
            context = self.shard.Context(mesh.group("dp", "cp"))
            context.set_optimizer()
            with context.add_unit("u", "full_shard") as unit:
                weight = unit.add_param("w", (3,), value=array.array("f", [world.rank + 1.0] * 3))
            context.finalize()
            out = array.array("f", [0] * 3)
            weight.read(out)
            return list(out)

        self.assertEqual([[rank % 2 + 1.0] * 3 for rank in range(8)], self.model.on_ranks(self.local(8), run))

    def test_state(self):
        """Two ranks' state is put into a context of one, by intervals."""
        def run(world):
            model = self.model.Perceptron(self.shard, world, "full_shard", {"kind": "adamw"})
            model.train(2)
            written = {}
            for param in model.context.params:
                for kind in self.shard.StateKind:
                    part = param.state(kind)
                    if not part.replicas:
                        self.assertEqual((kind.name, None), ("MAIN", part.data))
                        continue
                    values = self.numpy.asarray(part.data)[part.write_begin - part.begin:][:part.write_count]
                    written[param.name, kind] = (part.write_begin, values.copy())
            values = model.values()
            scalars = model.context.state_scalars()
            model.context.destroy()
            return written, values, scalars

        results = self.model.on_ranks(self.local(2), run)
        model = self.alone("zero1", {"kind": "adamw"})
        model.context.set_state_scalars(results[0][2])
        for written, _, _ in results:
            for (name, kind), (begin, values) in written.items():
                model.context.param(name).write_state(kind, begin, values)
        model.context.state_written(self.shard.States.ALL)
        self.assertEqual(self.model.bits(results[0][1]), self.model.bits(model.values()))
        self.assertEqual((2, results[0][2]), (model.context.state_scalars().update_count, model.context.state_scalars()))
        weight, out = model.up.params[0], self.numpy.empty(3, self.numpy.float32)
        weight.read_state("moment2", 5, out)
        self.assertEqual(out.tolist(), self.numpy.asarray(weight.state("moment2").data)[5:8].tolist())
        self.assertRaisesRegex(ValueError, "has float32", weight.read_state, "value", 0, array.array("d", [0]))
        self.refused("INVALID_ARGUMENT", "", weight.read_state, "value", weight.count, out)

    def test_slices_of_tensors(self):
        context = self.shard.Context(self.local(1)[0])
        with context.add_unit("u") as unit:
            first, second = unit.add_param("a", (2, 3)), unit.add_param("b", (2, 3))
            first.set_global("w", (4, 3), 0)
            second.set_global("w", (4, 3), 3)
        self.refused("INVALID_ARGUMENT", "of global tensor w", context.plan)
        second.set_global("w", (4, 3), 6)
        context.finalize()
        self.refused("BAD_STATE", "", first.set_global, "w", (4, 3), 0)


class Refused(ShardTest):
    def test_arguments(self):
        world = self.local(1)[0]
        for call, sentence in ((lambda: self.shard.Context(world, accumulation="never"), "accumulation is 'never'; there are local_then_reduce"),
                               (lambda: self.shard.Context(world, stable_views=9), "stable_views is 9"),
                               (lambda: self.shard.Context(world, timeout=0), "timeout is 0"),
                               (lambda: self.shard.Context(world, bucket_bytes=-1), "bucket_bytes is -1, which is out of range"),
                               (lambda: self.shard.Context(world, prefetch=1 << 32), "prefetch is 4294967296, which is out of range"),
                               (lambda: self.shard.Context(world).broadcast(1 << 32), "root is 4294967296, which is out of range"),
                               (lambda: self.shard.Context(world).add_unit("a\0b"), "must not have a NUL")):
            self.assertRaisesRegex(ValueError, sentence, call)
        for call, sentence in ((lambda: self.shard.Context("world"), "ranks is a str; it must be a Communicator"),
                               (lambda: self.shard.Context(world).add_unit(5), "name is a int; it must be a str"),
                               (lambda: self.shard.Context(world).add_units(["w"]), "a param is a str; it must be a ParamSpec"),
                               (lambda: self.shard.Context(world).hint_order([1]), "a unit is a int; it must be a Unit"),
                               (lambda: self.shard.Context(world).hint_runs([("forward", 1)]), "a unit is a int; it must be a Unit"),
                               (lambda: self.shard.Context(world).broadcast(None), "root is a NoneType; it must be a whole number")):
            self.assertRaisesRegex(TypeError, sentence, call)
        self.refused("INVALID_ARGUMENT", "microbatches", self.shard.Context, world, microbatches=-1)
        self.refused("INVALID_ARGUMENT", "buffer_bytes", self.shard.Context, world, offload=self.shard.Offload("/tmp", 5))
        context = self.shard.Context(world)
        self.refused("INVALID_ARGUMENT", "", context.add_unit, "u", "sharded")
        self.assertRaisesRegex(ValueError, "cut is 'diagonal'", context.add_unit, "u", self.shard.Policy(cut="diagonal"))
        self.refused("INVALID_ARGUMENT", "", context.add_unit, "u", self.shard.Policy(params="sharded", gradients="whole"))
        unit = context.add_unit("u", self.shard.Preset.FULL_SHARD)
        for call, sentence in ((lambda: unit.add_param("w"), "neither shape nor value"), (lambda: unit.add_param("w", (1,), "complex64"), "'complex64'"),
                               (lambda: unit.add_param("w", value=[1.0]), "value is a list"),
                               (lambda: context.set_optimizer("adam"), "kind is 'adam'; there are adamw"),
                               (lambda: context.set_optimizer(loss_scale=0), "loss_scale is 0; it must be above 0"),
                               (lambda: context.set_optimizer(loss_scale=float("nan")), "loss_scale is nan"),
                               (lambda: context.set_optimizer(loss_scale_growth_steps=0), "loss_scale_growth_steps is 0"),
                               (lambda: context.set_optimizer(loss_scale_hysteresis=-1), "loss_scale_hysteresis is -1"),
                               (lambda: context.optimizer_step(1, gradient_factor=0), "gradient_factor is 0")):
            self.assertRaisesRegex((ValueError, TypeError), sentence, call)
        self.refused("INVALID_ARGUMENT", "", unit.add_param, "w", (-1,))
        self.refused("INVALID_ARGUMENT", "", unit.add_param, "w", (2,), "int32")
        self.refused("INVALID_ARGUMENT", "beta1", context.set_optimizer, beta1=2)
        weight = unit.add_param("w", (2, 2))
        self.refused("INVALID_ARGUMENT", "", unit.add_param, "w", (2,))
        self.refused("BAD_STATE", "", lambda: weight.data)
        self.refused("BAD_STATE", "sealed|seal", context.finalize)
        self.refused("BAD_STATE", "", context.step_begin)
        unit.seal()
        self.refused("BAD_STATE", "", unit.seal)
        context.finalize()
        for values, kind, sentence in ((array.array("d", [0] * 4), ValueError, "4 elements of float64; w has 4 of float32"),
                                       (array.array("f", [0] * 3), ValueError, "3 elements of float32; w has 4"), ("w", TypeError, "values is a str")):
            self.assertRaisesRegex(kind, sentence, weight.load, values)
        self.assertRaisesRegex(ValueError, "read-only", weight.read, bytes(16))
        self.refused("INVALID_ARGUMENT", "", weight.read)
        self.refused("INVALID_ARGUMENT", "", weight.load, None, 5)
        self.refused("INVALID_ARGUMENT", "", context.unit, "nobody")
        self.refused("INVALID_ARGUMENT", "", context.param, "nobody")
        self.refused("BAD_STATE", "", context.optimizer_step, 0.1)
        self.refused("BAD_STATE", "no optimizer", context.drop_gradients)
        self.refused("BAD_STATE", "", lambda: context.loss_scale)
        for number in (-1, float("nan"), float("inf")):
            self.refused("INVALID_ARGUMENT", "learning_rate is", context.optimizer_step, number)
            self.refused("INVALID_ARGUMENT", "norm_max is", context.optimizer_step, 1, norm_max=number)
            for name in ("learning_rate_factor", "weight_decay_factor", "beta1", "beta2", "epsilon", "momentum", "trust"):
                self.refused("INVALID_ARGUMENT", name, context.param_group(0).set, **{name: number})

    def test_gradients(self):
        model = self.alone("full_shard")
        weight, bias = model.up.params
        self.refused("BAD_STATE", "", weight.grad_ready)
        with model.context.step():
            model.context.microbatch_begin()
            with model.up.forward():
                self.assertIsNone(weight.grad)
            with model.up.backward():
                self.assertRaisesRegex(ValueError, "grad has 3 elements of float32; that of up.weight has", weight.grad_ready, array.array("f", [0] * 3))
                self.assertRaisesRegex(ValueError, "of float64", bias.grad_ready, array.array("d", [0] * bias.count))
                given = self.numpy.ones(bias.count, self.numpy.float32)
                bias.grad_ready(given.ctypes.data)
                self.refused("BAD_STATE", "grad_ready once", bias.grad_ready)
                weight.grad_ready((given.ctypes.data, "float32", weight.count) if weight.count <= given.size else None)
            self.refused("BAD_STATE", "", model.up.post_backward)
            model.context.microbatch_end()
            model.context.finish()

    def test_order_of_calls(self):
        model = self.alone("full_shard")
        self.refused("BAD_STATE", "pre_forward", model.up.pre_forward)
        self.refused("BAD_STATE", "", model.context.finish)
        self.refused("BAD_STATE", "", model.context.step_end)
        model.context.step_begin()
        self.refused("BAD_STATE", "", model.context.step_begin)
        self.refused("BAD_STATE", "", model.values)
        self.refused("BAD_STATE", "", model.context.join)
        model.context.microbatch_begin()
        model.context.microbatch_end()
        self.refused("BAD_STATE", "pass last=False", model.context.microbatch_begin)
        model.context.finish()
        model.context.step_end()

    def test_a_step_ends_after_its_gradients_are_used_or_dropped(self):
        for kind in self.shard.OptimizerKind:
            if kind == self.shard.OptimizerKind.MUON:  # for matrices only
                continue
            with self.subTest(kind):
                model = self.alone("full_shard", {"kind": kind})
                before = self.model.bits(model.values())
                with self.assertRaisesRegex(self.weft.Error, "nothing has used the step's gradients .* give the gradients up with drop_gradients"):
                    with model.context.step():
                        model.microbatch(0)
                        model.context.finish()
                model.context.drop_gradients()
                self.refused("BAD_STATE", "drop_gradients has dropped the gradients", model.context.optimizer_step, 0.1)
                model.context.step_end()
                self.assertEqual(before, self.model.bits(model.values()))
                with model.context.step("eval"), model.context.microbatch():
                    pass

    def test_destroyed_communicators_and_contexts(self):
        world = self.local(1)[0]
        context = self.shard.Context(world)
        with context.add_unit("u") as unit:
            weight = unit.add_param("w", value=array.array("f", [3]))
        world.destroy()
        self.refused("BAD_STATE", "communicator .* is destroyed", self.shard.Context, world)
        context.finalize()          # keeps the ranks
        out = array.array("f", [0])
        weight.read(out)
        self.assertEqual(3, out[0])
        self.assertNotIn("destroyed", repr(context))
        context.destroy()
        context.destroy()
        self.assertIn("destroyed", repr(context))
        for call in (context.plan, context.step_begin, unit.pre_forward, weight.view, weight.grad_ready, lambda: context.add_unit("v"), unit.info,
                     lambda: context.units, lambda: context.abort_step("x"), lambda: context.hint_order([unit]), lambda: unit.tie_param("x", weight)):
            self.refused("BAD_STATE", "the context was destroyed", call)

    def test_aborted_group(self):
        model = self.alone("full_shard", {"kind": "sgd"})
        first, second = self.local(2)
        context = self.shard.Context(first)
        with context.add_unit("u", "full_shard") as unit:
            unit.add_param("w", (5,))
        second.abort("enough")
        self.refused("ABORTED", "enough", context.finalize)
        context.destroy()
        model.train(1)

    def test_interrupt(self):
        """Ctrl-C while the other rank does not come."""
        first, second = self.local(2)
        context = self.shard.Context(first)
        with context.add_unit("u") as unit:
            unit.add_param("w", (5,))
        self.interrupted(context.finalize)
        self.refused("ABORTED", "rank 0", second.barrier)
        context.destroy()

    def test_a_second_thread_is_refused(self):
        first, second = self.local(2)
        context = self.shard.Context(first)
        with context.add_unit("u") as unit:
            unit.add_param("w", (5,))
        thread = threading.Thread(target=lambda: self.assertRaises(self.weft.Error, context.finalize))
        thread.start()
        end = time.monotonic() + DEADLINE_S
        while not context._handle.owner.holder and time.monotonic() < end:
            time.sleep(0.001)
        self.refused("BAD_STATE", "another thread is in a call of the same context", context.plan)
        second.abort("that will do")
        thread.join(DEADLINE_S)
        context.plan()
        context.destroy()

    def test_a_step_that_an_exception_leaves_ends_on_all_ranks(self):
        def run(world, kind, fail, sentence):
            model = self.model.Perceptron(self.shard, world, "full_shard", {"kind": "sgd"})
            with model.context as context:
                world.barrier()
                if world.rank == 1:
                    with self.assertRaises(kind), context.step():
                        fail()
                else:
                    with self.assertRaisesRegex(self.weft.Error, f"rank 1 .*{kind.__name__}: {sentence}") as raised:
                        model.train(1)
                    self.assertEqual((self.weft.Result.ABORTED, 1), (raised.exception.code, raised.exception.rank))

        for kind, fail, sentence in ((ZeroDivisionError, lambda: 1 / 0, "division by zero"), (ValueError, lambda: int("x"), "invalid literal"),
                                     (TypeError, lambda: len(1), "object of type 'int'")):
            with self.subTest(kind):
                self.model.on_ranks(self.local(2), lambda world: run(world, kind, fail, sentence))  # noqa: B023

    def test_a_wrong_call_inside_a_step_leaves_it_open(self):
        """Made by all ranks or by one, wherever in the step: the right call follows, and the result is that of a run without."""
        wanted = self.trained(2, lambda world: self.model.Perceptron(self.shard, world, "full_shard", {"kind": "adamw"}), steps=5)
        wrong = [(self.weft.Error, lambda context: context.optimizer_step(-1)), (self.weft.Error, lambda context: context.optimizer_step(float("nan"))),
                 (ValueError, lambda context: context.optimizer_step(1, gradient_factor=0)), (TypeError, lambda context: context.optimizer_step("1")),
                 (TypeError, lambda context: context.optimizer_step(1, norm=3)), (self.weft.Error, lambda context: context.finish()),
                 (self.weft.Error, lambda context: context.microbatch_begin()), (self.weft.Error, lambda context: context.param("up.weight").data),
                 (ValueError, lambda context: context.step_begin("training")), (self.weft.Error, lambda context: context.step_end())]

        def run(world, wrong_ranks):
            model = self.model.Perceptron(self.shard, world, "full_shard", {"kind": "adamw"})
            with model.context as context:
                for step in range(5):
                    kind, call = wrong[2 * step + world.rank]
                    try:
                        with context.step():
                            model.microbatch(step)
                            context.finish()
                            if world.rank in wrong_ranks:
                                call(context)
                            context.optimizer_step(0.05, norm_max=1)
                    except kind:
                        context.optimizer_step(0.05, norm_max=1)
                        context.step_end()
                world.barrier()
                return self.model.bits(model.values())

        for wrong_ranks in ({0, 1}, {1}):
            self.assertEqual([wanted, wanted], self.model.on_ranks(self.local(2), lambda world: run(world, wrong_ranks)))  # noqa: B023

    def test_a_step_with_a_wrong_call_can_be_given_up(self):
        def run(world):
            model = self.model.Perceptron(self.shard, world, "full_shard", {"kind": "adamw"})
            with model.context as context:
                with self.assertRaisesRegex(self.weft.Error, "pass last=False"), context.step():
                    model.microbatch(0)
                    model.microbatch(0)
                self.refused("BAD_STATE", "call finish", context.step_begin)
                context.finish()
                context.drop_gradients()
                context.step_end()
                with self.assertRaisesRegex(self.weft.Error, "is not unsharded"), context.step(), context.microbatch():
                    model.up.reshard()
                context.microbatch_end()
                context.finish()
                context.drop_gradients()
                context.step_end()
                model.train(4)
                return self.model.bits(model.values())

        wanted = self.trained(2, lambda world: self.model.Perceptron(self.shard, world, "full_shard", {"kind": "adamw"}))
        self.assertEqual([wanted, wanted], self.model.on_ranks(self.local(2), run))

    def test_a_step_ends_if_nothing_else_is_left_or_nobody_has_updated(self):
        def run(world):
            model = self.model.Perceptron(self.shard, world, "full_shard", {"kind": "adamw", "nonfinite": "fail"})
            with model.context as context:
                with self.assertRaisesRegex(self.weft.Error, "optimizer_step has used the gradients"), context.step():
                    model.microbatch(0)
                    context.finish()
                    context.optimizer_step(0.05, norm_max=1)
                    context.optimizer_step(0.05, norm_max=1)
                for update, sentence in ((lambda: context.optimizer_step(1 + world.rank), "passed learning_rate"),
                                         (lambda: context.optimizer_step(1) if world.rank else context.drop_gradients(), "called drop_gradients")):
                    with self.assertRaisesRegex(self.weft.Error, sentence) as raised, context.step():
                        model.microbatch(1)
                        context.finish()
                        update()
                    self.assertEqual(self.weft.Result.MISMATCH, raised.exception.code)
                with self.assertRaisesRegex(self.weft.Error, "infinite or NaN") as raised, context.step(), self.numpy.errstate(all="ignore"):
                    model.microbatch(1, scale=float("inf"))
                    context.finish()
                    context.optimizer_step(0.05)
                self.assertEqual(self.weft.Result.CORRUPT, raised.exception.code)
                model.train(3, first=1)
                return self.model.bits(model.values())

        wanted = self.trained(2, lambda world: self.model.Perceptron(self.shard, world, "full_shard", {"kind": "adamw"}))
        self.assertEqual([wanted, wanted], self.model.on_ranks(self.local(2), run))


class Dropped(ShardTest):
    def test_contexts_that_are_dropped_leave_nothing(self):
        world = self.local(1)[0]

        def aligned(size, alignment, _):
            block = self.numpy.empty(size + alignment, self.numpy.uint8)
            return block[-block.ctypes.data % alignment:][:size]

        def some(number):
            for i in range(number):
                context = self.shard.Context(world, allocator=aligned if i % 3 == 0 else None)
                context.set_optimizer()
                with context.add_unit("u", "full_shard") as unit:
                    weight = unit.add_param("w", (50,))
                context.finalize()
                with context.step():
                    context.microbatch_begin()
                    unit.pre_forward()
                    unit.post_forward()
                    unit.pre_backward()
                    self.numpy.asarray(weight.grad)[:] = 1
                    weight.grad_ready()
                    unit.post_backward()
                    context.microbatch_end()
                    context.finish()
                    context.drop_gradients()
                if i % 2:
                    context.destroy()

        some(50)
        gc.collect()
        pages, descriptors = resident_pages(), len(os.listdir("/proc/self/fd"))
        some(300)
        gc.collect()
        self.assertLessEqual(len(os.listdir("/proc/self/fd")), descriptors)
        self.assertLess(resident_pages() - pages, 400)

    def test_what_is_left_keeps_what_it_needs(self):
        world = self.local(1)[0]
        context = self.shard.Context(world)
        with context.add_unit("u") as unit:
            weight = unit.add_param("w", value=array.array("f", [1, 2]))
        context.finalize()
        gone = weakref.ref(context)
        del context, world
        self.assertIsNone(gone())
        self.assertEqual([1, 2], list(weight.data.memory))      # the param keeps the context of C
        del unit, weight

    def test_dropped_in_the_middle_of_a_step(self):
        def run(world):
            model = self.model.Perceptron(self.shard, world, "full_shard", {"kind": "sgd"})
            model.train(1)
            model.context.step_begin()
            if world.rank == 0:
                model.context.microbatch_begin()
                model.up.pre_forward()
                made = self.numpy.asarray(model.up.params[0].data)
                del model
                return float(made.sum())       # still there
            with self.assertRaisesRegex(self.weft.Error, "rank 0 aborted step 2: its context was destroyed"):
                model.microbatch(1)
                model.context.finish()
            return 0

        self.model.on_ranks(self.local(2), run)

    def test_destroyed_while_another_thread_is_inside(self):
        first, second = self.local(2)
        context, failed = self.shard.Context(first), []
        with context.add_unit("u") as unit:
            unit.add_param("w", (5,))

        def finalize():
            try:
                context.finalize()
            except self.weft.Error as error:
                failed.append(error.code)

        thread = threading.Thread(target=finalize)
        thread.start()
        end = time.monotonic() + DEADLINE_S
        while not context._handle.owner.holder and time.monotonic() < end:
            time.sleep(0.001)
        context.destroy()
        self.refused("BAD_STATE", "context was destroyed", context.plan)
        second.abort("nobody comes")
        thread.join(DEADLINE_S)
        self.assertEqual([self.weft.Result.ABORTED], failed)

    def test_exit_in_the_middle_of_a_step(self):
        job = ranks.RanksTest()
        job.setUp()
        self.addCleanup(job.doCleanups)
        out = job.run_ranks(2, """
            import weft.shard
            context = weft.shard.Context(world)
            with context.add_unit("u", "full_shard") as unit:
                weight = unit.add_param("w", (1000,))
            context.finalize()
            context.step_begin()
            context.microbatch_begin()
            unit.pre_forward()
            kept = weight.data.memory
            say("left")
            world.barrier()
            """)
        self.assertEqual(["[0] left", "[1] left"], out)

    def test_a_program_that_ends_in_a_step_left_open_by_a_wrong_call_is_told_of(self):
        job = ranks.RanksTest()
        job.setUp()
        self.addCleanup(job.doCleanups)
        out = job.run_ranks(2, """
            import weft.shard
            context = weft.shard.Context(world)
            with context.add_unit("u", "full_shard") as unit:
                weight = unit.add_param("w", (1000,))
            context.finalize()
            try:
                with context.step():
                    with context.microbatch():
                        if world.rank == 1:
                            unit.reshard()
                        with unit.forward():
                            pass
                        with unit.backward():
                            pass
                    context.finish()
            except weft.Error as error:
                say(error.code.name, error.rank)
            """)
        self.assertEqual(["[0] ABORTED 1", "[1] BAD_STATE None"], sorted(out))


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
