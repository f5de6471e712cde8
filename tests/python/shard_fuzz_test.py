"""Random calls of weft.shard and weft.checkpoint, good and bad, on one thread and on several: exceptions, never a crash or a hang."""
import gc
import inspect
import os
import pathlib
import random
import tempfile
import threading
import traceback

import ranks
from shard_ranks import DEADLINE_S, ShardTest

_SEEDS = 300 if os.environ.get("TEST_CASES") == "all" else 8
_CALLS = 150
_KINDS = ("contexts", "units", "params", "groups", "arrays", "checkpoints")
_PRESETS = ("no_shard", "zero1", "zero2", "grad_op", "full_shard", "fraction")


class Calls:
    """One sequence, of a communicator of one rank, or of two of which the other does the same."""

    def __init__(self, test, seed, communicator, folder):
        self.shard, self.checkpoint, self.numpy, self.weft = test.shard, test.checkpoint, test.numpy, test.weft
        self.random, self.world, self.folder = random.Random(seed), communicator, folder
        self.held = {kind: [] for kind in _KINDS}
        self.unexpected = []
        self.memory = []            # made of arrays, and used after whatever has happened to them
        self.refused = (test.weft.Error, TypeError, ValueError, OverflowError, BufferError, TimeoutError)
        self.kinds = {"contexts": test.shard.Context, "units": test.shard.Unit, "params": test.shard.Param, "groups": test.shard.ParamGroup,
                      "arrays": test.shard.Array, "checkpoints": test.checkpoint.Checkpoint}

    def run(self):
        for _ in range(_CALLS):
            self.attempt(self.random.choice([self.declare, self.train, self.train, self.save, self.drop, self.together] + [self.any_call] * 10))
            for kept in self.held.values():
                del kept[:-6]
            for array in self.memory[-4:]:
                array.sum()
            del self.memory[:-4]
        self.held = None
        gc.collect()

    def attempt(self, call):
        try:
            return call()
        except self.refused:
            return None
        except BaseException:
            self.unexpected.append(traceback.format_exc())
            return None

    def declare(self):
        options = {"offload": str(self.folder)} if self.random.random() < 0.2 else {}
        context = self.shard.Context(self.world, timeout=0.5, stable_views=self.random.choice(["move", "stable"]), poison=self.random.random() < 0.3, **options)
        self.held["contexts"].append(context)
        if self.random.random() < 0.8:
            context.set_optimizer(self.random.choice(["adamw", "sgd", "own", "lamb"]))
        for i in range(self.random.randint(1, 3)):
            with context.add_unit(f"u{i}", self.random.choice(_PRESETS)) as unit:
                for j in range(self.random.randint(1, 2)):
                    self.held["params"].append(unit.add_param(f"p{i}{j}", (50,), self.random.choice(["float32", "float32", "bfloat16"])))
            self.held["units"].append(unit)
        if self.random.random() < 0.95:
            context.finalize()

    def train(self):
        if not self.held["contexts"]:
            return
        context = self.random.choice(self.held["contexts"])
        with context.step(self.random.choice(["train", "train", "eval"]), self.random.randint(0, 1)):
            with context.microbatch():
                for unit in context.units:
                    with unit.forward():
                        self.memory += [self.numpy.asarray(param.data) for param in unit.params]
                for unit in reversed(context.units):
                    with unit.backward():
                        for param in unit.params:
                            param.grad_ready()
            context.finish()
            if self.random.random() < 0.7:
                context.optimizer_step(0.1)
            elif self.random.random() < 0.5:
                context.drop_gradients()

    def save(self):
        checkpoint = self.checkpoint.Checkpoint(self.world, self.folder / f"c{self.random.randint(0, 3)}", timeout=0.5)
        self.held["checkpoints"].append(checkpoint)
        if self.held["contexts"]:
            checkpoint.add_context(self.random.choice(self.held["contexts"]))
        self.attempt(checkpoint.load)
        checkpoint.save(self.random.randint(0, 99), background=self.random.random() < 0.7)

    def drop(self):
        for kept in self.held.values():
            if kept and self.random.random() < 0.3:
                kept.pop(self.random.randrange(len(kept)))
        if self.random.random() < 0.2:
            gc.collect()

    def together(self):
        threads = [threading.Thread(target=self.attempt, args=(self.any_call,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def any_call(self):
        kind = self.random.choice(_KINDS)
        if not self.held[kind]:
            return
        thing, name = self.random.choice(self.held[kind]), self.random.choice([name for name in vars(self.kinds[kind]) if not name.startswith("_")])
        if name in ("destroy", "abort_step") and self.random.random() < 0.7:
            return
        made = getattr(thing, name)
        if callable(made):
            made = made(**self.arguments(made, name))
        for kind, type_ in self.kinds.items():
            if isinstance(made, type_):
                self.held[kind].append(made)
        if isinstance(made, self.shard.Array):
            self.memory.append(self.numpy.asarray(made))

    def arguments(self, call, name):
        given = {}
        for argument, parameter in inspect.signature(call).parameters.items():
            if parameter.default is inspect.Parameter.empty or self.random.random() < 0.2:
                given[argument] = self.bad() if self.random.random() < 0.3 else self.likely(argument)
        return given

    def likely(self, argument):
        def held(kind):
            return self.random.choice(self.held[kind]) if self.held[kind] else None

        return {"unit": held("units"), "units": list(self.held["units"][-2:]), "param": held("params"), "context": held("contexts"), "group": held("groups"),
                "name": self.random.choice(["u0", "p00", "new"]), "policy": "full_shard", "shape": (50,), "dtype": "float32", "rank": 0, "index": 0, "root": 0,
                "values": self.numpy.ones(50, self.numpy.float32), "out": self.numpy.ones(50, self.numpy.float32), "in_": self.numpy.ones(50, self.numpy.float32),
                "grad": self.numpy.ones(50, self.numpy.float32), "kind": self.random.choice(["value", "moment1", "adamw"]), "begin": 0, "offset": 0,
                "learning_rate": 0.1, "reason": "no reason", "samples": b"abc", "step": self.random.randint(0, 99), "timeout": 0.2, "mode": "train",
                "destination": bytearray(4096), "data": bytearray(64), "save": lambda: b"x", "load": lambda _: None}.get(argument, 1)

    def bad(self):
        return self.random.choice([None, 0, -1, 5, 1 << 70, 1.5, float("nan"), "x", "a\0b", b"y", [1], (1, 2), object(), self.numpy.zeros(3, self.numpy.float32),
                                   self.numpy.zeros(50), bytearray(200), len, self.world])


class Fuzz(ShardTest):
    def test_random_calls(self):
        import weft.checkpoint
        self.checkpoint = weft.checkpoint
        first = int(os.environ.get("WEFT_TEST_SEED", random.randrange(1 << 30)))
        print("WEFT_TEST_SEED", first, flush=True)
        for seed in range(first, first + _SEEDS):
            with tempfile.TemporaryDirectory() as folder:
                size = 2 if seed % 4 == 0 else 1
                communicators = self.weft.Communicator.local(size, timeout=0.5)
                sequences = [Calls(self, seed, communicator, pathlib.Path(folder)) for communicator in communicators]
                threads = [threading.Thread(target=sequence.run, daemon=True) for sequence in sequences]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(DEADLINE_S)
                self.assertFalse(any(thread.is_alive() for thread in threads), f"seed {seed} hangs")
                for sequence in sequences:
                    self.assertEqual([], sequence.unexpected, f"seed {seed}")
                for communicator in communicators:
                    communicator.destroy()


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
