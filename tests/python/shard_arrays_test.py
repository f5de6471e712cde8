"""Arrays of weft.shard: types, places, lifetimes, memory of the program's."""
import array
import gc
import weakref

import ranks
from shard_ranks import ShardTest, resident_pages


class Arrays(ShardTest):
    def test_types(self):
        import ml_dtypes
        numpy = self.numpy
        context = self.shard.Context(self.local(1)[0])
        types = {"float32": numpy.float32, "float64": numpy.float64, "float16": numpy.float16, "bfloat16": ml_dtypes.bfloat16,
                 "float8_e4m3": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2, "int8": numpy.int8, "uint8": numpy.uint8,
                 "int32": numpy.int32, "uint32": numpy.uint32, "int64": numpy.int64, "uint64": numpy.uint64, "bool": numpy.bool_}
        self.assertEqual({dtype.name.lower() for dtype in self.weft.DType}, set(types))
        with context.add_unit("u") as unit:
            for name, dtype in types.items():
                unit.add_param(name, value=numpy.array([[1, 0, 1]]).astype(dtype), frozen=not name.startswith(("float32", "float64", "float16", "bfloat16")))
        context.finalize()
        for param in unit.params:
            array_ = numpy.asarray(param.data)
            self.assertEqual((types[param.name], (1, 3), [[1, 0, 1]]), (array_.dtype, array_.shape, array_.astype(int).tolist()), param.name)
            self.assertEqual((param.dtype, self.weft.DType[param.name.upper()]), (param.data.dtype, param.dtype))
            self.assertIs(array_, numpy.asarray(param.data))
            self.assertEqual(param.data.address, array_.ctypes.data)
            memory = param.data.memory
            self.assertEqual(array_.nbytes, memory.nbytes)
            if "16" not in param.name and "8_" not in param.name:
                self.assertEqual((1, 3, 1), (*memory.shape, memory[0, 2]))
                self.assertEqual([[1, 0, 1]], numpy.from_dlpack(param.data).astype(int).tolist())
        self.assertEqual(float, numpy.asarray(unit.params[0].data, dtype=float).dtype)
        self.assertFalse(numpy.shares_memory(numpy.array(unit.params[0].data), numpy.asarray(unit.params[0].data)))
        context.destroy()

    def test_empty_params_and_scalars(self):
        numpy = self.numpy
        context = self.shard.Context(self.local(1)[0])
        with context.add_unit("u", "full_shard") as unit:
            empty, scalar = unit.add_param("empty", (3, 0)), unit.add_param("scalar", ())
        context.finalize()
        with context.step():
            context.microbatch_begin()
            unit.pre_forward()
            unit.post_forward()
            unit.pre_backward()
            self.assertEqual([(3, 0)] * 2, [numpy.asarray(given).shape for given in (empty.data, empty.grad)])
            self.assertEqual((3, 0), numpy.from_dlpack(empty.data).shape)
            self.assertEqual(0, len(empty.data.memory))
            numpy.asarray(scalar.grad)[...] = 3
            self.assertEqual((3, ()), (scalar.grad.memory[()], scalar.grad.shape))
            self.assertRaises(TypeError, len, scalar.grad)
            unit.post_backward()
            context.microbatch_end()
            context.finish()

    def test_no_copy_and_no_change_of_address(self):
        model = self.alone("full_shard", stable_views="stable")
        seen = set()
        for mode in ("eval", "eval", "eval"):
            with model.context.step(mode), model.context.microbatch():
                for unit in model.units:
                    with unit.forward():
                        seen |= {(param.name, param.data.address, id(param.data)) for param in unit.params}
                        view = unit.params[0].view()
                        self.assertEqual((unit.params[0].data.address, 0, unit.params[0].count, unit.params[0].dtype), view[:4])
        self.assertEqual(4, len(seen))

    def test_arrays_outlive_their_params_and_say_so(self):
        numpy = self.numpy
        model = self.alone("full_shard", {"kind": "sgd"})
        weight = model.up.params[0]
        with model.context.step("eval"), model.context.microbatch():
            with model.up.forward():
                kept, made = weight.data, numpy.asarray(weight.data)
                copy, memory = made.copy(), kept.memory
            for use in (lambda: numpy.asarray(kept), lambda: kept.memory, lambda: numpy.from_dlpack(kept), lambda: weight.data, weight.view):
                self.refused("BAD_STATE", "up is not in use|unit up", use)
        made += 0           # of whatever lies there now
        model.context.destroy()
        self.refused("BAD_STATE", "context of the array was destroyed", lambda: kept.memory)
        self.refused("BAD_STATE", "context was destroyed", lambda: weight.data)
        self.assertEqual(copy.shape, made.shape)
        self.assertEqual(copy.nbytes, memory.nbytes)
        made += 1

    def test_dlpack(self):
        numpy = self.numpy
        model = self.alone()
        weight = model.up.params[0]
        world, = self.local(1)
        world.all_reduce(weight.data, op="sum")       # an array is a buffer for the rest of the package
        weight.load(weight.data)
        self.assertEqual(self.model.initial()["up.weight"].tolist(), numpy.asarray(weight.data).tolist())
        self.assertTrue(numpy.shares_memory(numpy.from_dlpack(weight.data), numpy.asarray(weight.data)))
        for options in ({"max_version": (1, 0), "copy": True}, {"max_version": (1, 0), "dl_device": (2, 0)}):
            with self.assertRaises(BufferError):
                weight.data.__dlpack__(**options)
        pages = None
        for i in range(3000):
            weight.data.__dlpack__(max_version=(1, 0))      # that nobody takes
            numpy.from_dlpack(weight.data)
            pages = resident_pages() if i == 1000 else pages
        self.assertLess(resident_pages() - pages, 100)

    def test_memory_of_the_program(self):
        numpy, given = self.numpy, []

        class Memory(numpy.ndarray):
            pass

        def allocate(size, alignment, tier):
            block = numpy.zeros(size + alignment, numpy.uint8).view(Memory)
            begin = -block.ctypes.data % alignment
            given.append((tier, weakref.ref(block)))
            return block[begin:begin + size]

        def make(world):
            return self.model.Perceptron(self.shard, world, "full_shard", {"kind": "adamw"}, allocator=allocate)

        usual = self.trained(1, lambda world: self.model.Perceptron(self.shard, world, "full_shard", {"kind": "adamw"}))
        model = make(self.local(1)[0])
        model.train(4)
        self.assertEqual(usual, self.model.bits(model.values()))
        self.assertEqual(set(self.shard.Tier), {tier for tier, _ in given})
        part = model.up.params[0].part()
        made = numpy.asarray(part.data)
        self.assertTrue(numpy.shares_memory(numpy.from_dlpack(part.data), made))
        model.context.destroy()
        gc.collect()
        alive = [tier for tier, reference in given if reference() is not None]
        self.assertLessEqual(len(alive), 2)       # those of the part
        made += 1
        del part, made
        gc.collect()

    def test_allocators_that_fail(self):
        for allocator, expected in ((lambda *_: None, self.weft.Error), (lambda *_: 1 / 0, ZeroDivisionError), (lambda *_: bytes(1 << 16), ValueError),
                                    (lambda *_: bytearray(8), ValueError), (lambda *_: (1 << 20, "uint8", 3), ValueError),
                                    (lambda *_: self.local(1)[0].barrier() or context.plan(), self.weft.Error)):
            context = self.shard.Context(self.local(1)[0], allocator=allocator)
            with context.add_unit("u") as unit:
                unit.add_param("w", (64,))
            with self.assertRaises(expected):
                context.finalize()
            context.destroy()

    def test_destinations(self):
        numpy = self.numpy
        model = self.alone("full_shard")
        size = model.up.info().unsharded_bytes
        block = numpy.empty(size + 64, numpy.uint8)
        room = block[-block.ctypes.data % 64:][:size]
        context, weight = model.context, model.up.params[0]
        with context.step("eval"), context.microbatch():
            self.assertRaises(ValueError, model.up.unshard_start, bytes(8))
            self.refused("INVALID_ARGUMENT", "bytes", model.up.unshard_start, room[:64])
            model.up.unshard_start(room)
            model.up.unshard_wait()
            self.assertTrue(room.ctypes.data <= weight.data.address < room.ctypes.data + size)
            self.assertEqual(self.model.initial()["up.weight"].tolist(), numpy.asarray(weight.data).tolist())
            model.up.reshard()
            model.down.unshard_start()
            model.down.unshard_wait()
            model.down.reshard()
            self.refused("BAD_STATE", "", model.up.reshard)

    def test_reduce_wait(self):
        model = self.alone("full_shard")
        context = model.context
        with context.step():
            with context.microbatch():
                model.forward(self.numpy.ones((1, self.model.INPUTS), self.numpy.float32))
                model.backward(self.numpy.ones((1, self.model.OUTPUTS), self.numpy.float32))
                for unit in reversed(model.units):
                    unit.reduce_wait()
                early = self.numpy.asarray(model.down.params[1].part().grad).tolist()
            context.finish()
            self.assertEqual([1.0] * self.model.OUTPUTS, early)
            self.assertEqual([1.0] * self.model.OUTPUTS, self.numpy.asarray(model.down.params[1].part().grad).tolist())


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
