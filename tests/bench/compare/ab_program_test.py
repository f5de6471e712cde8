"""A build of weft measured as --ab measures it.

    ab_program_test.py WEFT_PERF
"""
import os
import pathlib
import sys
import tempfile
import unittest

import samples
from bench.compare import sweeps
from bench.compare.builds import Build, BuildUnusable

PROGRAM = ""


class Program(unittest.TestCase):
    def setUp(self):
        self.build = Build("after", pathlib.Path(PROGRAM).parent.parent)

    def test_every_operation_is_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            for memory in sweeps.MEMORIES:
                for sweep in sweeps.sweeps_of([2], sweeps.OPERATIONS, ["float32"], ["hot"], [memory], [512, 4096]):
                    with self.subTest(sweep=sweep):
                        times = sweeps.measure(sweep, self.build, os.environ, 3, folder)
                        places = 1 if sweep.op in sweeps.ONE_PLACE else 2
                        self.assertEqual(places * len(sweep.sizes), len(times))
                        self.assertGreater(min(times.values()), 0)

    def test_a_build_loads_its_own_library(self):
        self.build.check(os.environ)
        description = self.build.describe()
        self.assertEqual(64, len(description["library_sha256"]))

    def test_a_program_that_loads_another_library_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for part in ("bin", "lib"):
                pathlib.Path(folder, part).mkdir()
            pathlib.Path(folder, "bin", "weft_perf").symlink_to(self.build.program)
            pathlib.Path(folder, "lib", "libweft.so").write_text("")
            with self.assertRaisesRegex(BuildUnusable, "this would measure another build"):
                Build("before", folder).check(os.environ)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
