"""PyTorch's own tests of torch.distributed (conformance.py) on weft: all that pass on gloo, and all_to_all, which gloo has in part.

expectations.json has their names by the number of ranks: `gloo` what gloo passes, `all_to_all` what weft passes of the tests that are written for MPI, `by_name` of
gloo's those whose bodies ask for the name gloo, with the reason: they are run on weft under that name. 2 and 4 ranks; all cases: 8 as well, and spawned processes.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch_ranks
from torch_ranks import ranks

_HERE = pathlib.Path(__file__).resolve().parent
_DEADLINE_S = 1500
_EXPECTED = json.loads((_HERE / "expectations.json").read_text())


class Conformance(unittest.TestCase):
    maxDiff = None

    def run_tests(self, size, *options, only=()):
        """{test: result}, and the driver's exit code and output."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "results.json"
            names = ["--only", f"^({'|'.join(only)})$"] if only else []
            environment = {**ranks.environment(), "PYTHONDONTWRITEBYTECODE": "1"}
            done = subprocess.run([sys.executable, "-B", _HERE / "conformance.py", "--world-size", str(size), "--json", path, *options, *names], cwd=folder,
                                  env=environment, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
            said = done.stdout + done.stderr
            self.assertTrue(path.exists(), said[-4000:])
            return {name: result for name, (result, _, _) in json.loads(path.read_text())["tests"].items()}, done.returncode, said

    def expect(self, size, *options):
        expected = {key: _EXPECTED[key][str(size)] for key in ("gloo", "all_to_all")}
        results = self.run_tests(size, "--gates-as", "gloo", *options, only=[name for name in expected["gloo"] if name not in _EXPECTED["by_name"]])[0]
        results |= self.run_tests(size, "--backend", "gloo", "--register", "as_gloo:register", *options,
                                  only=[name for name in expected["gloo"] if name in _EXPECTED["by_name"]])[0]
        to_all = self.run_tests(size, "--gates-as", "mpi", *options, only=expected["all_to_all"])[0]
        self.assertEqual({}, {name: results.get(name) for name in expected["gloo"] if results.get(name) != "pass"})
        self.assertEqual({}, {name: to_all.get(name) for name in expected["all_to_all"] if to_all.get(name) != "pass"})
        print(f"{size} ranks: {len(results)} of gloo's, {len(to_all)} of all_to_all")

    def test_2_ranks(self):
        self.expect(2)

    def test_4_ranks(self):
        self.expect(4)

    @unittest.skipUnless(os.environ.get("TEST_CASES") == "all", "only with TEST_CASES=all")
    def test_8_ranks(self):
        self.expect(8)

    @unittest.skipUnless(os.environ.get("TEST_CASES") == "all", "only with TEST_CASES=all")
    def test_2_spawned_ranks(self):
        self.expect(2, "--start", "spawn")

    def test_some_spawned_ranks(self):
        only = ["test_all_reduce_sum", "test_send_recv"]
        self.assertEqual(dict.fromkeys(only, "pass"), self.run_tests(2, "--gates-as", "gloo", "--start", "spawn", only=only)[0])

    def test_a_wrong_result_is_seen(self):
        """torch's test_all_reduce_sum itself looks at no result; operations_test does."""
        results, code, said = self.run_tests(2, "--register", "as_gloo:register_falsified", only=["test_DistributedDataParallelCPU", "test_broadcast"])
        self.assertEqual((1, {"test_DistributedDataParallelCPU": "fail", "test_broadcast": "pass"}), (code, results), said[-4000:])
        self.assertIn("1 pass, 1 fail, 0 skip", said)


if __name__ == "__main__":
    torch_ranks.main()
