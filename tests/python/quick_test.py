"""weft.core.quick: calls that go the short way do what the others do, and what it does not take is done or refused as if it were not there.

    quick_test.py WEFTRUN LIBWEFT PACKAGES MODULE     # the last: what was built of quick.c
"""
import array
import ctypes
import gc
import os
import random
import sys
import threading
import unittest
from unittest import mock

import ranks
from ranks import LocalRanksTest

_SEED = int(os.environ.get("WEFT_TEST_SEED", random.randrange(1 << 30)))
_SIZE = 3
MODULE = ""
_CASES = 60
_CODES = "bBiIlLqQfd"
# (operation, arguments by name, parts of a rank's count in the input and in the output)
_ONE, _EACH = 1, _SIZE
_KINDS = (("all_reduce", ("op",), _ONE, _ONE), ("reduce", ("op", "root"), _ONE, _ONE), ("broadcast", ("root",), _ONE, _ONE),
          ("all_gather", (), _ONE, _EACH), ("reduce_scatter", ("op",), _EACH, _ONE), ("all_to_all", (), _EACH, _EACH))
_OPS = ("sum", "prod", "min", "max", "bit_and", "bit_xor")  # the last two of whole numbers alone


class Spy:
    """The short way of a communicator, and what it answers."""

    def __init__(self, comm):
        self._run, self.answers = comm._run, []
        comm._run = self

    def __call__(self, *arguments):
        self.answers.append(self._run(*arguments))
        return self.answers[-1]


@unittest.skipUnless(sys.version_info >= (3, 11), "quick.c is for Python 3.11 and later")
class Quick(LocalRanksTest):
    def setUp(self):
        super().setUp()
        print(f"WEFT_TEST_SEED={_SEED}", flush=True)
        from weft.core import quick
        self.quick = quick
        self.random = random.Random(_SEED)

    def on_all(self, comms, call):
        """What call(rank, communicator) returns or raises on each rank."""
        ends = [None] * len(comms)

        def run(rank):
            try:
                ends[rank] = call(rank, comms[rank])
            except Exception as error:  # noqa: BLE001  (compared)
                ends[rank] = (type(error), str(error))
        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(comms))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(ranks.LOCAL_DEADLINE_S)
            self.assertFalse(thread.is_alive())
        return ends

    def test_is_there(self):
        from weft import _library
        self.assertTrue(self.quick.loaded)
        self.assertTrue(os.path.samefile(MODULE, _library.PATH.parent / "weft_quick.abi3.so"))

    def test_results_are_those_of_the_long_way(self):
        short, long = self.communicators(_SIZE), self.communicators(_SIZE)
        spies = [Spy(comm) for comm in short]
        for comm in long:
            comm._run = self.quick.never
        for case in range(_CASES):
            name, takes, in_parts, out_parts = self.random.choice(_KINDS)
            code, count = self.random.choice(_CODES), self.random.choice((1, 2, 3, 17, 1000))
            ops = _OPS if code not in "fd" else _OPS[:4]
            chosen = {"op": self.random.choice(ops), "root": self.random.randrange(_SIZE)}
            arguments = {one: chosen[one] for one in takes}
            places = ["apart"] + (["in place"] if name != "all_gather" else ["own part"])
            place = self.random.choice(places)
            given = [array.array(code, [self.random.randrange(3) for _ in range(in_parts * count)]) for _ in range(_SIZE)]

            def call(rank, comm, name=name, given=given, place=place, arguments=arguments, out=out_parts * count, code=code):
                in_, result = array.array(code, given[rank]), array.array(code, [0] * out)
                if place == "own part":
                    part = len(result) // _SIZE
                    result[rank * part:(rank + 1) * part] = in_
                pair = {"apart": (in_, result), "in place": (in_, None), "own part": (None, result)}[place]
                self.assertIsNone(getattr(comm, name)(*pair, **arguments))
                return in_.tobytes(), result.tobytes()
            before = len(spies[0].answers)
            with self.subTest(case=case, name=name, place=place, code=code, count=count, **arguments):
                self.assertEqual(self.on_all(long, call), self.on_all(short, call))
                self.assertEqual([True], spies[0].answers[before:])
        for spy in spies:
            self.assertEqual([True] * _CASES, spy.answers)

    def test_what_is_not_taken(self):
        """Refused with the same words, or done: read-only inputs, Reductions, pairs, tuples, strided and empty ones, formats of other sizes, wrong counts."""
        reduction = self.weft.Reduction.premul_sum(2, "int32")
        four, six = array.array("i", [1, 2, 3, 4]), array.array("i", range(6))
        long_array = (ctypes.c_long * 3)(1, 2, 3)  # ctypes writes the format of four bytes
        calls = {
            "read-only in place": lambda comm: comm.all_reduce(bytes(8)),
            "read-only input": lambda comm: comm.all_reduce(bytes(8), bytearray(8)),
            "read-only output": lambda comm: comm.all_reduce(bytearray(8), bytes(8)),
            "strided": lambda comm: comm.all_reduce(memoryview(array.array("i", range(8)))[::2]),
            "empty": lambda comm: comm.all_reduce(array.array("i")),
            "another type": lambda comm: comm.all_reduce(array.array("i", [1]), array.array("f", [1])),
            "another count": lambda comm: comm.all_reduce(array.array("i", [1]), array.array("i", [1, 2])),
            "uneven": lambda comm: comm.reduce_scatter(array.array("i", [1, 2, 3, 4])),
            "gathered into too little": lambda comm: comm.all_gather(four, array.array("i", [0] * 11)),
            "gathered in place": lambda comm: comm.all_gather(four, None),
            "nothing": lambda comm: comm.all_reduce(None),
            "a number": lambda comm: comm.broadcast(5),
            "unknown op": lambda comm: comm.all_reduce(array.array("i", [1]), op="mean square"),
            "unhashable op": lambda comm: comm.all_reduce(array.array("i", [1]), op=[]),
            "root beyond": lambda comm: comm.broadcast(array.array("i", [1]), root=_SIZE),
            "root below": lambda comm: comm.broadcast(array.array("i", [1]), root=-1),
            "root too large": lambda comm: comm.reduce(array.array("i", [1]), op="sum", root=1 << 40),
            "root no number": lambda comm: comm.broadcast(array.array("i", [1]), root="0"),
            "a reduction": lambda comm: comm.all_reduce(six, array.array("i", [0] * 6), op=reduction),
            "a tuple": lambda comm: comm.all_reduce((six.buffer_info()[0], "int32", 6), array.array("i", [0] * 6)),
            "c_long": lambda comm: comm.all_reduce(long_array, (ctypes.c_long * 3)()),
            "half": lambda comm: comm.all_reduce(memoryview(bytearray(4)).cast("c")),
        }
        for name, call in calls.items():
            ends = []
            for way in ("short", "long"):
                comms = self.communicators(_SIZE)
                for comm in comms:
                    if way == "long":
                        comm._run = self.quick.never
                ends.append(self.on_all(comms, lambda _, comm, call=call: call(comm)))
                names = {comm.name for comm in comms}
                ends[-1] = [str(end).replace(one, "NAME") for end in ends[-1] for one in names]
            with self.subTest(name):
                self.assertEqual(ends[1], ends[0])

    def test_keywords_and_batches_are_not_taken(self):
        comm, = self.communicators(1)
        spy, x = Spy(comm), array.array("i", [7])
        comm.all_reduce(x, timeout=5.0)
        comm.all_reduce(x, async_op=True).wait()
        with self.weft.batch():
            comm.all_reduce(x)
        self.assertEqual([], spy.answers)

    def test_failures_are_raised(self):
        comm, = self.communicators(1)
        spy, x = Spy(comm), array.array("i", [7])
        comm.abort("for a test")
        with self.assertRaisesRegex(self.weft.Error, "for a test"):
            comm.all_reduce(x)
        self.assertEqual(1, len(spy.answers))
        self.assertIsInstance(spy.answers[0], int)
        comm.destroy()
        with self.assertRaisesRegex(self.weft.Error, "is destroyed"):
            comm.all_reduce(x)

    def test_nothing_is_held_afterwards(self):
        comm, = self.communicators(1)
        x, y = bytearray(8), bytearray(8)
        before = sys.getrefcount(x), sys.getrefcount(None), sys.getrefcount(comm._group)
        for _ in range(10_000):
            comm.all_reduce(x, y)
            comm.all_gather(None, y)
            comm.broadcast(x)
            try:
                comm.all_reduce(x, bytearray(9))
            except ValueError:
                pass
        after = sys.getrefcount(x), sys.getrefcount(None), sys.getrefcount(comm._group)
        self.assertEqual((before[0], before[2]), (after[0], after[2]))
        self.assertLess(abs(after[1] - before[1]), 1000)
        x.extend(b"more")  # refused while it is held
        y.extend(b"more")

    def test_a_communicator_ends_with_its_last_reference(self):
        comm, = self.weft.Communicator.local(1)
        run, handle = comm._run, comm._group
        comm.destroy()
        self.assertIs(comm._run, self.quick.never)
        references = sys.getrefcount(handle)
        del run
        gc.collect()
        self.assertEqual(references - 1, sys.getrefcount(handle))

    def test_another_version_is_not_loaded(self):
        from weft import _capi
        with mock.patch.object(_capi, "WEFT_VERSION_STRING", "0.0.1"):
            self.assertIsNone(self.quick._load())


if __name__ == "__main__":
    MODULE = sys.argv.pop(4)
    ranks.take_arguments()
    ranks.main()
