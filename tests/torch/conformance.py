"""Runs PyTorch's own tests of torch.distributed, which its wheel has, on a backend, with the CPU alone.

    python conformance.py --backend weft --gates-as gloo --world-size 2 --json weft.json
    python conformance.py --backend weft --gates-as mpi --only all_to_all
    python conformance.py --backend gloo --register as_gloo:register        # weft under gloo's name
    python conformance.py --backend gloo --json gloo.json                   # gloo itself

Decorators of the tests read the backend's name once, when their module is imported: --gates-as says which name they see, so that a backend gets tests
that are written for another one. Bodies of tests that ask for a name see the true one, so some pass only under gloo's (--register as_gloo:register).

Writes {"torch": version, "tests": {name: [result, seconds, last line of the reason]}}; result is pass, fail or skip. Exit status: 1 if one failed.
"""
import argparse
import importlib
import json
import os
import re
import sys
import tempfile
import time
import unittest

_FEATURES = ("gpu", "ddp", "subgroup", "plugin")  # what torch's tables must know of a backend that is not its own
_OWN = ("gloo", "nccl", "mpi", "ucc")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="weft")
    parser.add_argument("--register", default="weft.torch:register", metavar="MODULE:FUNCTION", help="called in every process before the tests are imported")
    parser.add_argument("--gates-as", default="", metavar="NAME", help="the backend that decorators of tests see")
    parser.add_argument("--world-size", type=int, default=2)
    parser.add_argument("--only", default="", metavar="REGEX", help="of tests' names")
    parser.add_argument("--start", default="fork", choices=("fork", "spawn"), help="how ranks are started; fork takes a tenth of the time")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def prepare(options):
    """What the tests' module reads when it is imported, and what the ranks' processes need to do the same."""
    folder = tempfile.mkdtemp(prefix="conformance_")
    for name in ("barrier", "test_dir", "init_dir"):
        os.makedirs(os.path.join(folder, name))
    os.environ.update(BACKEND=options.backend, WORLD_SIZE=str(options.world_size), TEMP_DIR=folder, MASTER_ADDR="127.0.0.1", OMP_NUM_THREADS="1",
                      CUDA_VISIBLE_DEVICES="", INIT_METHOD="file", DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="120", CONFORMANCE_REGISTER=options.register,
                      CONFORMANCE_GATES=options.gates_as, CONFORMANCE_START=options.start)


if __name__ == "__main__":
    OPTIONS = arguments()
    prepare(OPTIONS)

import torch  # noqa: E402

torch.set_num_threads(1)
_module, _, _function = os.environ["CONFORMANCE_REGISTER"].partition(":")
getattr(importlib.import_module(_module), _function)()

from torch.testing._internal import common_distributed  # noqa: E402

_backend, _gates = os.environ["BACKEND"], os.environ["CONFORMANCE_GATES"]
if _backend not in _OWN:
    for _feature in _FEATURES:
        common_distributed.DistTestCases.backend_feature[_feature].add(_backend)
os.environ["BACKEND"] = _gates or _backend
from torch.testing._internal.distributed import distributed_test  # noqa: E402

os.environ["BACKEND"] = distributed_test.BACKEND = _backend


class Conformance(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        if os.environ["CONFORMANCE_START"] == "fork":  # this process has no threads of its own
            self._start_processes(torch.multiprocessing.get_context("fork").Process)
        else:
            self._spawn_processes()


class Recorder(unittest.TextTestResult):
    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.tests, self._start = {}, 0.0

    def startTest(self, test):  # noqa: N802
        self._start = time.monotonic()
        super().startTest(test)

    def _record(self, test, result, reason=""):
        lines = [line for line in str(reason).strip().splitlines() if re.match(r"\S*(Error|Exception)\b|Process \d", line) or result == "skip"]
        self.tests[test._testMethodName] = [result, round(time.monotonic() - self._start, 2), lines[-1][:300] if lines else ""]

    def addSuccess(self, test):  # noqa: N802
        super().addSuccess(test)
        self._record(test, "pass")

    def addFailure(self, test, error):  # noqa: N802
        super().addFailure(test, error)
        self._record(test, "fail", self.failures[-1][1])

    def addError(self, test, error):  # noqa: N802
        super().addError(test, error)
        self._record(test, "fail", self.errors[-1][1])

    def addSkip(self, test, reason):  # noqa: N802
        super().addSkip(test, reason)
        self._record(test, "skip", reason)


def main():
    names = [name for name in unittest.defaultTestLoader.getTestCaseNames(Conformance) if re.search(OPTIONS.only, name)]
    run = unittest.TextTestRunner(resultclass=Recorder, verbosity=0).run(unittest.TestSuite(Conformance(name) for name in names))
    results = [result for result, _, _ in run.tests.values()]
    print(f"torch {torch.__version__}, {OPTIONS.backend} as {_gates or _backend}, {OPTIONS.world_size} ranks: "
          + ", ".join(f"{results.count(result)} {result}" for result in ("pass", "fail", "skip")))
    if OPTIONS.json:
        with open(OPTIONS.json, "w", encoding="utf-8") as file:
            json.dump({"torch": torch.__version__, "tests": run.tests}, file, indent=1)
    return 1 if "fail" in results else 0


if __name__ == "__main__":
    sys.exit(main())
