"""./dev validate with the real programs: rows are right, and each planted fault turns them red,
with the first step and a tensor that differ.

The faults are options that make a run a really different one. What compares is tried by itself in
validate_comparison_test.py; the checks of every change make all rows of the short form.
"""
import contextlib
import io
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
from workbench.validate.matrix import ADAMW_OF_NO_NOISE, BITWISE, CLOSE, LLAMA, Row, rows
from workbench.validate.run import NOT_RUN, RED, RIGHT, Run
from workbench.validate.settings import Settings
from workbench.validate.trial import Trial

programs = None  # the folder of weftrun and weft_train, which the command line names

_FROM_STEP = "step {} is the first that differs: {} is "
_TENSORS = r"tensors differ at the end: \S+@value from element \d+ on, by "
# What a run does otherwise than its reference; the first step that shows it, and by which number.
_FAULTS = {
    "another seed": ({"seed": "2"}, 1, "loss"),
    "another batch": ({"batch": "18"}, 1, "loss"),
    "other tokens, one more in each sequence": ({"seq": "25"}, 1, "loss"),
    "one micro-batch fewer": ({"accumulate": 1}, 1, "(loss|grad_norm)"),
    "reduced after every micro-batch": ({"accumulation": "every"}, 1, "grad_norm"),
    "gradients rounded for their reduction": ({"reduce-dtype": "bf16"}, 1, "grad_norm"),
    "products of 16 bits": ({"dtype": "bf16"}, 1, "loss"),
    "something left out": ({"dropout": "0.01"}, 1, "loss"),
    "gradients that are not scaled down": ({"clip": "0"}, 2, "loss"),
    "another rate": ({"lr": "0.002501"}, 2, "loss"),
    "another decay of weights": ({"weight-decay": "0.11"}, 2, "loss"),
    "another rank": ({"ranks": 3}, 1, "(loss|grad_norm)"),
    "another rate after it went on": ({"legs": ((10, (("lr", "0.0026"),)),)}, 12, "loss"),
}
# Those that another order of sums cannot explain.
_FAULTS_OF_CLOSE = ("another seed", "another batch", "something left out", "another rate",
                    "gradients that are not scaled down", "another decay of weights",
                    "another rate after it went on")


def faulty(changes, kind):
    reference = Settings({"accumulate": 2, **(ADAMW_OF_NO_NOISE if kind == CLOSE else {})})
    return Row("planted", kind, reference.but({"strategy": "full-shard", **changes}), reference)


class Validation(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def made(self, some):
        """The results of rows, without those of references."""
        run = Run(some, Trial(programs, self.folder / "row"),
                  Trial(programs, self.folder / "reference"), self.folder / "red")
        with contextlib.redirect_stdout(io.StringIO()):
            run.make({})
        return [one for one in run.results if one.kind in (BITWISE, CLOSE)]

    def test_rows_of_several_starts_of_nodes_and_of_ranks_that_change_are_right(self):
        chosen = {row.family: row for row in rows(short=True)
                  if row.family in ("resume", "nodes", "elastic", "one rank")}
        found = self.made(list(chosen.values()))
        self.assertEqual(4, len(found))
        for one in found:
            self.assertEqual(RIGHT, one.verdict, f"{one.family}: {one.name}: {one.sentence}")

    def test_every_planted_fault_turns_it_red(self):
        found = self.made([faulty(changes, BITWISE) for changes, _, _ in _FAULTS.values()])
        for (fault, (_, step, number)), one in zip(_FAULTS.items(), found):
            with self.subTest(fault):
                if one.verdict == NOT_RUN:
                    self.skipTest(one.sentence)
                self.assertEqual(RED, one.verdict)
                self.assertRegex(one.sentence, _FROM_STEP.format(step, number))
                self.assertRegex(one.sentence, _TENSORS)
                self.assertGreater(one.worst["params"], 0)

    def test_faults_are_larger_than_the_tolerance_of_close(self):
        found = self.made([faulty(_FAULTS[fault][0], CLOSE) for fault in _FAULTS_OF_CLOSE])
        for fault, one in zip(_FAULTS_OF_CLOSE, found):
            with self.subTest(fault):
                self.assertEqual(RED, one.verdict)
                self.assertRegex(one.sentence, r"tensors differ at the end: \S+ from element")

    def test_a_run_that_is_refused_is_red_with_what_it_said(self):
        one, = self.made([faulty({"strategy": "hybrid", "shard-group": "3"}, BITWISE)])
        self.assertRegex(one.sentence, r"--shard-group 3 .* ended with [12]: .*\b3\b")

    def gathered(self, settings):
        """Bytes of params that the plan gathers per step."""
        Trial(programs, self.folder / "row").run(settings)
        log = (self.folder / "row" / "log").read_text()
        number, unit = re.search(r"reduced, (\S+) (\S?B) gathered", log).groups()
        return float(number) * {"B": 1, "kB": 1e3, "MB": 1e6}[unit]

    def test_fraction_keeps_some_blocks_and_not_all(self):
        for more in ({}, {"ranks": 4, "accumulate": 2}, {"ranks": 3, "accumulate": 4},
                     {"param-dtype": "bf16"}, {"param-dtype": "fp16", "accumulate": 2},
                     {"accumulate": 2, **LLAMA}, {"accumulate": 2, "head": "own"}):
            least, some, most = (self.gathered(Settings({"strategy": strategy, **more}))
                                 for strategy in ("shard-grad-op", "fraction", "full-shard"))
            self.assertLess(least, some, more)
            self.assertLess(some, most, more)


if __name__ == "__main__":
    programs = pathlib.Path(sys.argv[1]).parent
    del sys.argv[1:3]
    unittest.main()
