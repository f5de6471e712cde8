"""weft.checkpoint: going on at another number of ranks and under another preset, values and tensors of the program's, and what goes wrong."""
import array
import gc
import json
import os
import pathlib
import tempfile
import threading
import time
import weakref

import ranks
from shard_ranks import DEADLINE_S, ShardTest

_ADAMW = {"kind": "adamw"}


class CheckpointTest(ShardTest):
    def setUp(self):
        super().setUp()
        import weft.checkpoint
        self.checkpoint = weft.checkpoint
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "checkpoints"

    def run_of(self, size, policy, first, last, saves=(), **options):
        """Trains from step `first`, or from the latest checkpoint if there is one, to `last`; saves after the steps named. (where it began, bits)"""
        def run(world):
            model = self.model.Perceptron(self.shard, world, policy, _ADAMW)
            with model.context, self.checkpoint.Checkpoint(world, self.folder) as checkpoint:
                checkpoint.add_context(model.context)
                loaded = checkpoint.load()
                begin = loaded.step if loaded else first
                for step in range(begin, last):
                    model.train(1, first=step)
                    if step + 1 in saves:
                        checkpoint.save(step + 1, **options)
                checkpoint.wait()
                return begin, self.model.bits(model.values())

        results = self.model.on_ranks(self.local(size), run)
        self.assertEqual([results[0]] * size, results)
        return results[0]


class Resuming(CheckpointTest):
    def test_goes_on_under_another_preset_with_the_same_bits(self):
        whole = self.run_of(2, "no_shard", 0, 6)[1]
        for number, (policy, how) in enumerate((("full_shard", {}), ("zero1", {"background": True}), ("no_shard", {"background": True, "in_place": True}))):
            self.folder = self.folder.with_name(f"run{number}")
            self.run_of(2, policy, 0, 5, saves=(2, 4), **how)
            for other in ("zero2", "full_shard"):
                self.assertEqual((4, whole), self.run_of(2, other, 0, 6), (policy, other))

    def test_goes_on_with_another_number_of_ranks(self):
        _, saved = self.run_of(3, "full_shard", 0, 3, saves=(3,))
        for size, policy in ((1, "no_shard"), (2, "zero1"), (5, "full_shard")):
            self.assertEqual((3, saved), self.run_of(size, policy, 0, 3))
        ones = [self.run_of(1, policy, 0, 5) for policy in ("no_shard", "full_shard")]
        self.assertEqual(ones[0], ones[1])

    def test_values_and_tensors(self):
        def run(world, other):
            model = self.model.Perceptron(self.shard, world, "full_shard", _ADAMW)
            mine, slice_ = {"all": b"", "each": b""}, array.array("d", [world.rank] * 3)
            with self.checkpoint.Checkpoint(world, self.folder, config='{"a": 1}', keep_last=1) as checkpoint:
                checkpoint.add_context(model.context, "model")
                checkpoint.add_value("all", lambda: f"of {world.rank}".encode(), lambda given: mine.update(all=given))
                checkpoint.add_value("each", lambda: bytes([world.rank]) * world.rank, lambda given: mine.update(each=given), per_rank=True)
                checkpoint.add_tensor("slices", slice_, shape=(6,), begin=3 * world.rank)
                whole = self.numpy.arange(6, dtype=self.numpy.int32).reshape(2, 3) + 0 * world.rank
                checkpoint.add_tensor("whole", whole)
                if other is None:
                    self.assertIsNone(checkpoint.load())
                    checkpoint.save(1)
                    checkpoint.save(2, background=True)
                    checkpoint.wait(timeout=DEADLINE_S)
                    self.assertTrue(checkpoint.test())
                    self.assertEqual(b"", mine["all"])
                whole[:] = slice_[0] = 9
                loaded = checkpoint.load()
                self.assertEqual(([[0, 1, 2], [3, 4, 5]], [world.rank] * 3), (whole.tolist(), list(slice_)))
                self.assertEqual((2, 2, str(self.folder / "step-00000002"), (), ()), loaded)
                return mine

        for other in (None, "a second run"):
            results = self.model.on_ranks(self.local(2), lambda world: run(world, other))
            self.assertEqual([{"all": b"of 0", "each": b""}, {"all": b"of 0", "each": b"\1"}], results)
        self.assertEqual({"config.json", "manifest.json"} & {path.name for path in (self.folder / "step-00000002").iterdir()}, {"config.json", "manifest.json"})
        self.assertEqual(1, len([path for path in self.folder.iterdir() if path.name.startswith("step-")]))

    def test_large_values_also_of_ranks_that_are_gone(self):
        # The manifest had all bytes of values: three of these for each of five ranks were more than its reader takes, after the save had been well.
        size, count, many = 1 << 20, 3, 5

        def value(rank, number):
            return bytes([rank, number]) * (size // 2)

        def run(world, save):
            got = {}
            with self.checkpoint.Checkpoint(world, self.folder) as checkpoint:
                for number in range(count):
                    checkpoint.add_value(f"rng{number}", lambda number=number: value(world.rank, number),
                                         lambda given, number=number: got.update({number: given}), per_rank=True)
                if save:
                    checkpoint.save(1)
                    return True
                self.refused("BAD_STATE", "no checkpoint was loaded", checkpoint.value, "rng0", 0)
                self.assertEqual(many, checkpoint.load().ranks)
                self.assertEqual([value(world.rank, number) for number in range(count)], [got[number] for number in range(count)])
                self.assertTrue(all(checkpoint.value(f"rng{number}", rank) == value(rank, number) for rank in range(many) for number in range(count)))
                self.assertEqual((None, None), (checkpoint.value("rng0"), checkpoint.value("other", 1)))
                return True

        self.assertTrue(all(self.model.on_ranks(self.local(many), lambda world: run(world, True))))
        self.assertLess((self.folder / "step-00000001" / "manifest.json").stat().st_size, 8192)
        self.assertTrue(all(self.model.on_ranks(self.local(2), lambda world: run(world, False))))

    def test_values_only(self):
        self.run_of(1, "full_shard", 0, 2, saves=(1, 2))
        world = self.local(1)[0]
        model = self.model.Perceptron(self.shard, world, "full_shard")
        with self.checkpoint.Checkpoint(world, self.folder) as checkpoint:
            checkpoint.add_context(model.context)
            self.refused("INVALID_ARGUMENT", "", checkpoint.load)          # it has moments that nobody takes
            self.assertEqual(2, checkpoint.load(values_only=True, whole=True).step)
            self.assertEqual(1, checkpoint.load(1, values_only=True).step)
            self.assertIsNone(checkpoint.load(7, values_only=True))

    def write_tensors(self, path, tensors):
        """{name: (dtype, array)}, as other programs do."""
        header, data = {}, b""
        for name, (dtype, values) in tensors.items():
            header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [len(data), len(data) + values.nbytes]}
            data += values.tobytes()
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + data)

    def test_files_of_others(self):
        draw = self.numpy.random.default_rng(3)
        theirs = {name: draw.standard_normal(shape).astype("float16") for name, shape in zip(self.model.NAMES, self.model.SHAPES)}
        self.folder.mkdir()
        folder = self.folder.with_name("theirs")
        folder.mkdir()
        there = {"up.weight": "encoder.weight", "down.bias": None}
        self.write_tensors(folder / "model-00001-of-00002.safetensors", {"encoder.weight": ("F16", theirs["up.weight"]), "up.bias": ("F16", theirs["up.bias"])})
        self.write_tensors(folder / "model-00002-of-00002.safetensors", {"down.bias": ("F16", theirs["down.bias"][:2]), "down.weight": ("F16", theirs["down.weight"])})

        def run(world, policy, offloaded):
            more = {"offload": self.shard.Offload(self.folder.parent, 1 << 20, params=True)} if offloaded else {}
            model = self.model.Perceptron(self.shard, world, policy, _ADAMW, **more)
            with model.context, self.checkpoint.Checkpoint(world, self.folder) as checkpoint:
                checkpoint.add_context(model.context)
                before = model.values()
                self.refused("INVALID_ARGUMENT", "values alone", checkpoint.load, source=folder)
                self.refused("INVALID_ARGUMENT", "as F16", checkpoint.load, source=folder, values_only=True, names=there)
                self.refused("INVALID_ARGUMENT", "shape", checkpoint.load, source=folder, values_only=True, convert=True, partial=True)
                loaded = checkpoint.load(source=folder, values_only=True, convert=True, names=there)
                self.assertEqual((0, 2, str(folder), ("down.bias",), ("down.bias",)), loaded)
                expected = {name: values.astype("float32") for name, values in theirs.items()} | {"down.bias": before["down.bias"]}
                self.assertEqual(self.model.bits(expected), self.model.bits(model.values()))
                model.train(1)
                checkpoint.save(1)
                return self.model.bits(model.values())

        first = None
        for size, policy, offloaded in ((1, "no_shard", False), (2, "full_shard", False), (3, "zero1", False), (2, "full_shard", True)):
            results = self.model.on_ranks(self.local(size), lambda world: run(world, policy, offloaded))
            self.assertEqual([results[0]] * size, results)
            first = first if size != 2 else (first or results[0])
            self.assertTrue(size != 2 or first == results[0])

    def test_files_for_others_and_back(self):
        _, trained = self.run_of(3, "full_shard", 0, 2, saves=(1, 2))
        folder = self.folder.with_name("ours")
        there = {"up.weight": "encoder.weight", "down.bias": None}
        copied = self.checkpoint.export_model(self.folder, folder, shard_bytes=64, names=there)
        self.assertEqual((str(self.folder / "step-00000002"), 2, 3), copied[:3])
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        self.assertEqual({"encoder.weight", "up.bias", "down.weight"}, set(index["weight_map"]))
        self.assertEqual(copied.files, len(set(index["weight_map"].values())))
        self.assertEqual(copied.value_bytes, index["metadata"]["total_size"])
        self.refused("INVALID_ARGUMENT", "exists already", self.checkpoint.export_model, self.folder, folder, shard_bytes=64)

        whole = self.folder.with_name("model.safetensors")
        self.checkpoint.export_model(self.folder / "step-00000002", whole)
        others = self.folder.with_name("others")
        made = self.checkpoint.import_model(whole, others, step=7)
        self.assertEqual((str(others / "step-00000007"), 7, 4, copied.value_bytes + 4 * len(self.model.on_ranks(self.local(1), self.bias_of)[0]), 1), made)

        def load(world):
            model = self.model.Perceptron(self.shard, world, "zero1", _ADAMW)
            with model.context, self.checkpoint.Checkpoint(world, self.folder.with_name("unused")) as checkpoint:
                checkpoint.add_context(model.context)
                self.assertEqual(7, checkpoint.load(source=others, values_only=True, whole=True).step)
                self.assertEqual(trained, self.model.bits(model.values()))
                half = self.folder.with_name("half.safetensors")
                if world.rank == 0:
                    self.checkpoint.export_model(others, half, floats_as="float16")
                world.barrier()
                checkpoint.load(source=half, values_only=True, convert=True)
                return {name: values.astype("float16").astype("float32").tobytes() == values.tobytes() for name, values in model.values().items()}

        for exact in self.model.on_ranks(self.local(2), load):
            self.assertEqual(dict.fromkeys(self.model.NAMES, True), exact)

    def bias_of(self, world):
        model = self.model.Perceptron(self.shard, world, "no_shard", _ADAMW)
        with model.context:
            return model.values()["down.bias"]

    def test_offloaded_state(self):
        whole = self.run_of(2, "full_shard", 0, 4)[1]

        def run(world):
            offload = self.shard.Offload(self.folder.parent, 1 << 20, params=True)
            model = self.model.Perceptron(self.shard, world, "full_shard", _ADAMW, offload=offload)
            with model.context, self.checkpoint.Checkpoint(world, self.folder) as checkpoint:
                checkpoint.add_context(model.context)
                model.train(2)
                checkpoint.save(2, background=True)
                model.train(2, first=2)
                return self.model.bits(model.values())

        self.assertEqual([whole] * 2, self.model.on_ranks(self.local(2), run))
        self.assertEqual((2, whole), self.run_of(2, "zero1", 0, 4))


    def test_what_a_rank_has_against_a_checkpoint_all_ranks_hear(self):
        def run(world):
            def take(given):
                if given is not None and world.rank == 1:
                    raise ValueError("the text of rank 1 is another one")

            with self.checkpoint.Checkpoint(world, self.folder) as checkpoint:
                checkpoint.add_value("place", lambda: b"17", take)
                checkpoint.save(1)
                try:
                    checkpoint.load()
                except ValueError as error:
                    return str(error)
                except self.weft.Error as error:
                    return f"{error.code.name}: {error}"

        first, second = self.model.on_ranks(self.local(2), run)
        self.assertEqual("the text of rank 1 is another one", second)
        self.assertRegex(first, "INVALID_ARGUMENT: .*rank 1: the function that loads value place answered invalid_argument: ValueError: the text of rank 1 is another one")


class Wrong(CheckpointTest):
    def one(self, **options):
        world = self.local(1)[0]
        model = self.model.Perceptron(self.shard, world, "full_shard", _ADAMW)
        checkpoint = self.checkpoint.Checkpoint(world, self.folder, **options)
        self.addCleanup(checkpoint.destroy)
        self.addCleanup(model.context.destroy)
        checkpoint.add_context(model.context)
        return world, model, checkpoint

    def test_arguments(self):
        world, model, checkpoint = self.one()
        self.assertRaisesRegex(ValueError, "timeout is 0", self.checkpoint.Checkpoint, world, self.folder, timeout=0)
        self.refused("INVALID_ARGUMENT", "directory", self.checkpoint.Checkpoint, world, "")
        self.refused("INVALID_ARGUMENT", "keep_last", self.checkpoint.Checkpoint, world, self.folder, keep_last=-1)
        self.assertRaisesRegex(ValueError, "not_loaded is 'ignore'; there are warn, refuse", self.checkpoint.Checkpoint, world, self.folder,
                               not_loaded="ignore")
        self.refused("INVALID_ARGUMENT", 'named ""', checkpoint.add_context, model.context)
        self.assertRaisesRegex(ValueError, "read-only", checkpoint.add_tensor, "t", b"abc")
        self.assertRaisesRegex(TypeError, "data is a list", checkpoint.add_tensor, "t", [1])
        self.refused("INVALID_ARGUMENT", "elements", checkpoint.add_tensor, "t", bytearray(4), begin=1)
        self.refused("INVALID_ARGUMENT", "name of a tensor is empty", checkpoint.add_tensor, "", bytearray(4))
        self.refused("INVALID_ARGUMENT", "metadata of safetensors", checkpoint.add_tensor, "__metadata__", bytearray(4))
        self.refused("INVALID_ARGUMENT", "longer than 4096 bytes", checkpoint.add_value, "v" * 4097, bytes, print)
        checkpoint.add_value("v", bytes, print)
        self.refused("INVALID_ARGUMENT", "a value named", checkpoint.add_value, "v", bytes, print)
        self.refused("INVALID_ARGUMENT", "without background", checkpoint.save, 1, in_place=True)
        checkpoint.save(3)
        self.refused("INVALID_ARGUMENT", "does not follow step 3", checkpoint.save, 3)
        with model.context.step("eval"):
            self.refused("BAD_STATE", "", checkpoint.save, 4)

    def test_arguments_of_exports_and_imports(self):
        export, import_ = self.checkpoint.export_model, self.checkpoint.import_model
        self.refused("INVALID_ARGUMENT", "there is no checkpoint", export, self.folder, self.folder.with_name("model.safetensors"))
        self.refused("INVALID_ARGUMENT", "source is NULL or empty", export, "", "model.safetensors")
        self.refused("INVALID_ARGUMENT", "floats_as is 2", export, self.folder, "model.safetensors", floats_as="int32")
        self.assertRaisesRegex(ValueError, "floats_as is 'int8'", export, self.folder, "model.safetensors", floats_as="int8")
        self.assertRaisesRegex(ValueError, "'float31' is no element type", export, self.folder, "model.safetensors", floats_as="float31")
        self.assertRaisesRegex(TypeError, "names is a list", export, self.folder, "model.safetensors", names=["a"])
        self.assertRaisesRegex(ValueError, "shard_bytes is -1", export, self.folder, "model", shard_bytes=-1)
        self.refused("SYSTEM_ERROR", "nowhere", import_, self.folder.with_name("nowhere"), self.folder)
        self.refused("INVALID_ARGUMENT", "step is -1", import_, os.devnull, self.folder, step=-1)

    def test_checkpoints_of_another_model(self):
        self.run_of(1, "no_shard", 0, 1, saves=(1,))
        world = self.local(1)[0]
        context = self.shard.Context(world)
        with context.add_unit("u") as unit:
            unit.add_param("up.weight", (2, 2))
        context.finalize()
        with self.checkpoint.Checkpoint(world, self.folder) as checkpoint:
            checkpoint.add_context(context)
            self.refused("INVALID_ARGUMENT", "up.weight", checkpoint.load)
        context.destroy()

    def test_what_was_not_loaded_is_not_pushed_out_if_that_is_refused(self):
        self.run_of(1, "no_shard", 0, 2, saves=(1, 2))
        _, _, checkpoint = self.one(keep_last=1, not_loaded="refuse")
        self.refused("BAD_STATE", "2 checkpoints that this run has not loaded, step-00000001, step-00000002", checkpoint.save, 3)
        self.assertEqual(2, checkpoint.load().step)
        checkpoint.save(3)
        self.assertEqual({"lock.json", "step-00000003.r1"}, {path.name for path in self.folder.iterdir()})

    def test_another_one_that_saves_there_is_refused_until_the_first_has_ended(self):
        _, _, checkpoint = self.one()
        checkpoint.save(1)
        _, _, other = self.one()
        self.refused("BAD_STATE", f"another job saves in {self.folder}: process {os.getpid()} on host ", other.save, 2)
        self.assertEqual(1, other.load().step)
        checkpoint.destroy()
        other.save(2)

    def test_damaged_ones_are_passed_over(self):
        self.run_of(1, "no_shard", 0, 2, saves=(1, 2))
        for step, expected in ((2, 1), (1, None)):
            path, = (self.folder / f"step-0000000{step}").glob("*.safetensors")
            blob = bytearray(path.read_bytes())
            blob[-1] ^= 1
            path.write_bytes(blob)
            _, _, checkpoint = self.one()
            if expected is None:
                self.refused("CORRUPT", "", checkpoint.load)
            else:
                self.assertEqual(expected, checkpoint.load().step)

    def test_functions_of_values_that_raise(self):
        _, model, checkpoint = self.one()
        failing = {"save": True, "load": True}

        def save():
            if failing["save"]:
                raise KeyError("nothing to save")
            return b"x"

        def load(_):
            if failing["load"]:
                raise IndexError("cannot use it")

        checkpoint.add_value("v", save, load)
        self.assertRaisesRegex(KeyError, "nothing to save", checkpoint.save, 1)
        failing["save"] = False
        checkpoint.save(2)
        before = self.model.bits(model.values())
        model.train(1)
        after = self.model.bits(model.values())
        self.assertRaisesRegex(IndexError, "cannot use it", checkpoint.load)
        self.assertEqual(after, self.model.bits(model.values()))
        failing["load"] = False
        self.assertEqual((2, before), (checkpoint.load().step, self.model.bits(model.values())))
        checkpoint.add_value("calls", lambda: model.context.plan(), print)
        self.refused("INVALID_USAGE", "cannot be called from a function", checkpoint.save, 3)
        checkpoint.destroy()
        _, _, other = self.one()
        other.add_value("v", lambda: "text", print)
        self.assertRaises(TypeError, other.save, 4)

    def test_a_directory_that_cannot_be_made(self):
        self.folder = self.folder / "not" / "there"
        _, _, checkpoint = self.one()
        self.refused("SYSTEM_ERROR", "not/there|not", checkpoint.save, 1)

    def test_a_save_that_waits_for_a_rank(self):
        first, second = self.local(2)
        made = self.model.on_ranks([first, second], lambda world: self.checkpoint.Checkpoint(world, self.folder, timeout=1))
        self.model.on_ranks([first, second], lambda world: made[world.rank].save(1))  # the first one is collective
        begin = time.monotonic()
        made[0].save(2, background=True)
        self.assertFalse(made[0].test())
        self.assertRaisesRegex(TimeoutError, "it goes on", made[0].wait, timeout=0.1)
        self.assertRaisesRegex(TimeoutError, "after 0 s", made[0].wait, timeout=0)
        for call in (made[0].wait, made[0].test):
            self.refused("TIMEOUT", "rank 1 had not written to the end within 1 s", call)
        self.assertLess(time.monotonic() - begin, DEADLINE_S / 2)
        made[0].destroy()

    def test_interrupt(self):
        """Ctrl-C while rank 1 does not save: rank 0's wait ends, and the save in the background goes on."""
        first, second = self.local(2)
        made = self.model.on_ranks([first, second], lambda world: self.checkpoint.Checkpoint(world, self.folder, timeout=DEADLINE_S))
        self.model.on_ranks([first, second], lambda world: made[world.rank].save(1))  # the first one is collective
        made[0].save(2, background=True)
        for call, arguments in ((made[0].wait, ()), (made[0].wait, (DEADLINE_S,)), (made[0].save, (3,)), (made[0].destroy, ())):
            self.interrupted(call, *arguments)
        self.assertFalse(made[0].test())
        made[1].save(2)
        made[0].wait()
        self.interrupted(made[0].save, 3)
        self.refused("SYSTEM_ERROR", "rank 0 .*interrupted", made[1].save, 3)
        self.model.on_ranks([first, second], lambda world: made[world.rank].save(4))

    def test_destroyed_and_dropped(self):
        world, model, checkpoint = self.one()
        block = array.array("f", [1, 2])
        gone = weakref.ref(block)
        checkpoint.add_tensor("t", block)
        del block
        checkpoint.save(1, background=True)
        checkpoint.destroy()
        checkpoint.destroy()
        self.assertIsNone(gone())
        self.assertTrue((self.folder / "step-00000001" / "manifest.json").exists())
        for call in (checkpoint.test, checkpoint.load, checkpoint.wait, lambda: checkpoint.save(2), lambda: checkpoint.add_context(model.context)):
            self.refused("BAD_STATE", "the checkpoint was destroyed", call)
        world, model, checkpoint = self.one()
        checkpoint.save(2, background=True)
        reference = weakref.ref(checkpoint)
        self.doCleanups()
        del checkpoint
        gc.collect()
        self.assertIsNone(reference())
        world, model, checkpoint = self.one()
        model.context.destroy()
        self.refused("BAD_STATE", "context 0 of those that were added was destroyed", checkpoint.save, 3)
        self.refused("BAD_STATE", "context 0", checkpoint.load)
        self.refused("BAD_STATE", "the context was destroyed", checkpoint.add_context, model.context, "again")

    def test_a_second_thread_is_refused(self):
        first, second = self.local(2)
        made = self.model.on_ranks([first, second], lambda world: self.checkpoint.Checkpoint(world, self.folder, timeout=DEADLINE_S))
        thread = threading.Thread(target=made[0].save, args=(1,))
        thread.start()
        end = time.monotonic() + DEADLINE_S
        while not made[0]._handle.owner.holder and time.monotonic() < end:
            time.sleep(0.001)
        self.refused("BAD_STATE", "another thread is in a call of the same checkpoint", made[0].test)
        made[1].save(1)
        thread.join(DEADLINE_S)
        self.assertTrue(made[0].test())


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
