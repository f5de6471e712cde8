"""Sequences of calls by seed: right and wrong arguments, dropped works, threads, destroyed communicators, ranks that leave the common way.

    random_calls.py threads SEED COUNT     # for each seed ranks that are threads
    weftrun -n 3 random_calls.py processes SEED COUNT

All ranks draw the same script from the seed, and each for itself what it does beside it. Any call may fail, by an exception of _EXPECTED; what must not happen
is another one, a crash, or a wait beyond the deadlines. Each seed is printed before it begins.
"""
import array
import faulthandler
import gc
import random
import sys
import threading

import weft

_EXPECTED = (weft.Error, TypeError, ValueError, BufferError, TimeoutError)
_TIMEOUT_S = 0.3
_SEED_DEADLINE_S = 60
_DTYPES = {"int8": "b", "int32": "i", "int64": "q", "float32": "f", "float64": "d"}


class Block(array.array):
    """Can be watched by weak references, so that dropping it is seen by the garbage collector."""


class Rank:
    def __init__(self, world, seed, own):
        self.world, self.common, self.own = world, random.Random(seed), random.Random(own)
        self.kept, self.unexpected, self.extra = [], [], []

    def attempt(self, call):
        """Its result, or None if it failed as it may."""
        try:
            return call()
        except _EXPECTED:
            return None
        except BaseException as exception:
            self.unexpected.append(exception)
            raise

    def run(self):
        steps = self.common.randint(5, 25)
        for _ in range(steps):
            kind = self.common.choices(("operation", "batch", "made", "apart", "end"), (70, 10, 12, 6, 2))[0]
            if self.own.random() < 0.5:
                self.attempt(self.beside)
            getattr(self, kind)()
        for work in self.kept:
            if isinstance(work, weft.Work):
                self.attempt(lambda work=work: work.wait(timeout=_TIMEOUT_S * 3))
        self.kept.clear()
        if self.own.random() < 0.7:
            self.world.destroy()
        for thread in self.extra:
            thread.join()

    # ---- what all ranks do ----

    def operation(self):
        name, arguments, options = self.drawn(self.common)
        style = self.common.choices(("blocking", "kept", "dropped", "called back", "bound"), (40, 20, 15, 10, 15))[0]

        def call():
            if style == "blocking":
                getattr(self.world, name)(*arguments, **options)
            elif style == "bound":
                step = getattr(self.world.bind, name)(*arguments, **options)
                for _ in range(2):
                    step()
            else:
                work = getattr(self.world, name)(*arguments, async_op=True, **options)
                if style == "kept":
                    self.kept.append(work)
                elif style == "called back":
                    work.add_done_callback(lambda done: done.exception())

        self.attempt(call)

    def batch(self):
        count, spoiled = self.common.randint(1, 4), self.own.random() < 0.1

        def call():
            with weft.batch():
                for _ in range(count):
                    name, arguments, options = self.drawn(self.common)
                    work = getattr(self.world, name)(*arguments, async_op=self.own.random() < 0.3, **options)
                    if self.own.random() < 0.3:
                        self.kept.append(work)
                    if spoiled:
                        raise ValueError("mine")

        self.attempt(call)

    def made(self):
        kind = self.common.choice(("split", "subset", "shared", "reconfigure"))
        if kind == "split":
            part = self.attempt(lambda: self.world.split(self.common.randint(0, 1), self.own.randint(0, 3), timeout=_TIMEOUT_S))
            if part is not None:
                self.attempt(part.barrier)
                if self.own.random() < 0.5:
                    self.kept.append(part)
        elif kind == "subset":
            ranks = [rank for rank in range(self.world.size) if self.common.random() < 0.7] or [0]
            self.attempt(lambda: self.world.subset(ranks))
        elif kind == "shared":
            shared = self.attempt(lambda: self.world.shared(self.common.randint(1, 3000), "int32"))
            if shared is not None:
                self.attempt(lambda: self.world.all_reduce(array.array("i", [1] * shared.size), shared))
                if self.common.random() < 0.5:
                    self.attempt(shared.free)
                else:
                    self.kept.append(shared.memory)
        else:
            self.attempt(lambda: self.world.reconfigure(init_timeout=_TIMEOUT_S))

    def apart(self):
        """Here each does as it likes."""
        self.attempt(self.own.choice((
            lambda: None, self.world.barrier, lambda: self.world.all_reduce(bytearray(8)), lambda: self.world.abort("by chance"), self.aside,
            lambda: self.world.recv(bytearray(3), self.own.randrange(self.world.size)), lambda: self.world.send(b"abc", self.own.randrange(self.world.size)))))

    def aside(self):
        """A thread of its own calls on the same communicator."""
        def run(own=random.Random(self.own.random())):
            for _ in range(5):
                name, arguments, options = self.drawn(own)
                self.attempt(lambda: getattr(self.world, name)(*arguments, **options))

        self.extra.append(threading.Thread(target=run))
        self.extra[-1].start()

    def end(self):
        if self.own.random() < 0.3:
            self.world.destroy()

    def drawn(self, source):
        """An operation with arguments that suit: its name, what stands before the keywords, and those."""
        n, me = self.world.size, self.world.rank
        dtype, count = source.choice(list(_DTYPES)), source.choice((0, 1, 3, 100, 5000, 70000))
        root, op = source.randrange(n), source.choice(("sum", "max", "min", weft.Op.PROD))
        options = source.choice(({}, {}, {}, {"timeout": _TIMEOUT_S}, {"priority": 1}, {"background": True}))
        in_place, memory = source.random() < 0.4, source.random()

        def x(length):
            if memory < 0.1:
                return weft.zeros(length, dtype)
            return Block(_DTYPES[dtype], bytes(length * array.array(_DTYPES[dtype]).itemsize))

        counts = [source.choice((0, 1, count)) for _ in range(n)]
        name = source.choice(("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "scan", "exscan", "gather", "scatter", "all_to_all", "barrier", "all_gather_v",
                              "reduce_scatter_v", "gather_v", "scatter_v", "all_to_all_v", "all_reduce_iov", "all_gather_iov", "reduce_scatter_iov", "sendrecv"))
        each, whole = count, n * count
        arguments = {
            "all_reduce": lambda: (x(each), None if in_place else x(each), op), "reduce": lambda: (x(each), None if in_place else x(each), op, root),
            "scan": lambda: (x(each), None if in_place else x(each), op), "exscan": lambda: (x(each), None if in_place else x(each), op),
            "broadcast": lambda: (x(each), None, root), "all_gather": lambda: (None if in_place else x(each), x(whole)),
            "reduce_scatter": lambda: (x(whole), None if in_place else x(each), op), "gather": lambda: (x(each), x(whole), root),
            "scatter": lambda: (x(whole), x(each), root), "all_to_all": lambda: (x(whole), None if in_place else x(whole)), "barrier": lambda: (),
            "all_gather_v": lambda: (None if in_place else x(counts[me]), x(sum(counts)), counts),
            "reduce_scatter_v": lambda: (x(sum(counts)), None if in_place else x(counts[me]), counts, None, op),
            "gather_v": lambda: (x(counts[me]), x(sum(counts)), counts, None, root), "scatter_v": lambda: (x(sum(counts)), x(counts[me]), counts, None, root),
            "all_to_all_v": lambda: (x(whole), None if in_place else x(whole), [each] * n), "all_reduce_iov": lambda: ([x(each), (x(1), x(1)), x(7)], op),
            "all_gather_iov": lambda: ([(x(each), x(whole)), (None, x(n))],), "reduce_scatter_iov": lambda: ([x(whole), (x(n), x(1))], op),
            "sendrecv": lambda: (x(each), (me + 1) % n, x(each), (me - 1) % n)}[name]()
        return name, arguments, options

    # ---- what a rank does for itself ----

    def beside(self):
        world, own = self.world, self.own
        x = Block("f", [1] * own.randint(0, 5))
        address = x.buffer_info()[0]
        self.attempt(own.choice((
            gc.collect, lambda: self.kept and self.kept.pop(own.randrange(len(self.kept))), lambda: world.all_reduce(b"abc"), lambda: world.all_reduce([1]),
            lambda: world.all_reduce(x, x[:1]), lambda: world.all_reduce(x, op="mean"), lambda: world.all_reduce(x, op="min_loc"),
            lambda: world.all_reduce(memoryview(x)[::2]), lambda: world.all_reduce(memoryview(x)[:2], memoryview(x)[1:3]),
            lambda: world.all_reduce((address, "float32", -1)), lambda: world.all_reduce((0, "float32", 5)), lambda: world.all_reduce((8, "int64", 1 << 62)),
            lambda: world.broadcast(x, root=own.choice((-1, 99, 1 << 40, "a", 1.5))), lambda: world.send(x, own.choice((-7, 99, None))),
            lambda: world.send(x, 0, own.choice((-1, 1 << 64, "a"))), lambda: world.barrier(timeout=own.choice((0, -1, float("nan"), "a"))),
            lambda: world.barrier(nothing=1), lambda: world.all_reduce(x, algorithm="none"), lambda: world.all_gather_v(x, x, [own.randint(-1, 3)] * own.randint(0, 4)),
            lambda: world.all_gather_v(x, x, [1.5] * world.size), lambda: world.gather_v(x, x), lambda: world.all_to_all_v(x, None, [1], [1]),
            lambda: world.all_reduce_iov([x, b"abc"]), lambda: world.all_reduce_iov(5), lambda: world.all_gather_iov([x]), lambda: world.sendrecv(x, 0, b"abc"),
            lambda: world.bind.all_reduce(b"abc"), lambda: world.explain("all_reduce", own.randint(-1, 1 << 20)), lambda: (world.stats(), world.failure(), world.sequence),
            lambda: world.subset([own.randint(-1, 9)] * 2), lambda: world.split(-5), lambda: world.shared(0), lambda: weft.zeros(own.choice((-1, 0, 10, 1 << 62))),
            lambda: weft.query(own.choice((x, b"abc", (address, "int8", 1), None))), lambda: weft.register(x), lambda: weft.Reduction.premul_sum(2.0, "float32"),
            lambda: weft.Reduction.premul_sum(x), lambda: weft.Reduction.user(own.choice((0, print, None)), name="x"), lambda: weft.zeros(5).__dlpack__(max_version=(1, 0)),
            lambda: weft.Communicator.local(own.randint(-1, 3)), lambda: repr((world, self.kept)), lambda: world.set_timeout(_TIMEOUT_S))))


def run_threads(seed):
    source = random.Random(seed)
    communicators = weft.Communicator.local(source.randint(1, 3), timeout=_TIMEOUT_S)
    ranks = [Rank(world, seed, seed * 1000 + world.rank) for world in communicators]
    del communicators
    threads = [threading.Thread(target=rank.run) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(rank.unexpected for rank in ranks), [rank.unexpected for rank in ranks]


def main(kind, first, count):
    world = weft.init(timeout=_TIMEOUT_S, init_timeout=30) if kind == "processes" else None
    for seed in range(first, first + count):
        print(f"seed {seed}", flush=True)
        faulthandler.dump_traceback_later(_SEED_DEADLINE_S, exit=True)
        if kind == "threads":
            run_threads(seed)
        else:
            rank = Rank(world, seed, seed * 1000 + world.rank)
            rank.run()
            assert not rank.unexpected
    faulthandler.cancel_dump_traceback_later()
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
