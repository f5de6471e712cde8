"""./dev compare --python: which cells each target looks at, its page, and weft's driver asked as the run asks it.

    python_calls_test.py WEFTRUN LIBWEFT PACKAGES     # the last: the folder of what ./dev setup installs for tests
"""
import os
import pathlib
import sys
import tempfile
import unittest

import samples  # noqa: F401  (finds the tree)
from bench.compare import launch, python_calls
from bench.compare.jobs import Job

WEFTRUN = LIBRARY = PACKAGES = ""


def cell(op, size, plain, bound, **peers):
    return {"op": op, "bytes": size, "us": {"weft/plain": [plain] * 9, "weft/bound": [bound] * 9, "weft/symmetric": [bound] * 9, **{f"{name}/plain": [time] * 9 for name, time in peers.items()}}}


def results(*chosen):
    return {"rounds": 9, "ranks": 2, "versions": {"weft": "weft 1"}, "errors": [], "cells": list(chosen)}


class Page(unittest.TestCase):
    def test_targets(self):
        found = python_calls.judged(results(cell("all_reduce", 8, 2.0, 1.0, a=1.4, b=1.2), cell("broadcast", 8, 2.0, 1.0, a=0.5, b=3.0),
                                            cell("all_reduce", 4096, 5.0, 4.0, a=4.0, b=10.0), cell("reduce", 512, 9.0, 9.0, a=1.0, b=1.0)))
        self.assertEqual(["fail", "fail", "fail", "pass", "fail", "fail"], [target["verdict"] for target in found])
        self.assertEqual([0.8, 0.6, 1.2, 0.25, 0.5], [round(found[i]["figure"], 3) for i in (0, 2, 3, 4, 5)])
        self.assertAlmostEqual((0.8 * 2.0) ** 0.5, found[1]["figure"])
        self.assertEqual("below: all_reduce 4 Ki a 0.80", found[0]["detail"])
        self.assertEqual({"not measured"}, {target["verdict"] for target in python_calls.judged(results())})

    def test_page(self):
        chosen = results(cell("all_reduce", 8, 2.0, 1.0, a=1.4))
        chosen["targets"] = python_calls.judged(chosen)
        text = python_calls.render(chosen)
        self.assertIn("| all_reduce | 8 | 2.00 (2.00-2.00) | 1.00 (1.00-1.00) | 1.00 (1.00-1.00) | 1.40 (1.40-1.40) | 0.70 [0.70, 0.70] |", text)
        self.assertIn("| all_reduce 8 B, bound: at most mpi4py's time | 1.4 | pass |  |", text)


class Driver(unittest.TestCase):
    def test_every_operation_is_right(self):
        if not (pathlib.Path(PACKAGES) / "numpy").exists():
            self.skipTest("./dev setup could not install numpy")
        source = launch.install.ROOT / "bindings" / "python" / "src"
        for ranks in (2, 3):
            with tempfile.TemporaryDirectory() as folder:
                environment = dict(launch.environment_for(ranks), PYTHONPATH=os.pathsep.join((str(source), PACKAGES)), WEFT_LIBRARY_PATH=LIBRARY)
                job = Job("weft", [WEFTRUN, "-n", str(ranks), sys.executable, "-B", launch.DRIVER / "python_driver.py", "weft"], environment, ranks,
                          pathlib.Path(folder, "job"))
                self.addCleanup(job.end)
                job.start(60)
                for op in python_calls.OPERATIONS:
                    for size in (8, 4096, 100000):
                        for call in ("plain", "bound", "symmetric"):
                            with self.subTest(op=op, size=size, call=call):
                                answers = job.ask(f"op={op} bytes={size} call={call} calls=3 warmup=2 check=1", 60)
                                self.assertEqual([0] * ranks, [answer["wrong"] for answer in answers])
                job.end()


if __name__ == "__main__":
    WEFTRUN, LIBRARY, PACKAGES = sys.argv[1:4]
    del sys.argv[1:4]
    unittest.main()
