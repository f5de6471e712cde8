"""Random sequences of calls, random_calls.py: no crash, no hang, no exception but those that say what was wrong. `./dev test --all-cases` tries 500 seeds.

With TEST_PRELOAD, the runtime of AddressSanitizer, the interpreter takes a library that was built for it.
"""
import os
import pathlib
import random
import subprocess
import sys

import ranks

_ALL_CASES = os.environ.get("TEST_CASES") == "all"
_PRELOAD = os.environ.get("TEST_PRELOAD")
_PYTHON = [*(["env", f"LD_PRELOAD={_PRELOAD}", "ASAN_OPTIONS=detect_leaks=0"] if _PRELOAD else []), sys.executable, "-B"]
_PROGRAM = pathlib.Path(__file__).with_name("random_calls.py")
_THREAD_SEEDS, _PROCESS_SEEDS = (500, 50) if _ALL_CASES else (25, 2)


class Random(ranks.RanksTest):
    def setUp(self):
        super().setUp()
        self.first = random.randrange(1 << 20)

    def ended_well(self, code, text):
        self.assertEqual(0, code, f"the last seed is what to try again:\n{text[-6000:]}")

    def test_threads(self):
        done = subprocess.run([*_PYTHON, _PROGRAM, "threads", str(self.first), str(_THREAD_SEEDS)], env=ranks.environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=3000 if _ALL_CASES else ranks.launched.DEADLINE_S, check=False)
        self.ended_well(done.returncode, done.stdout)
        self.assertTrue(done.stdout.endswith("done\n"), done.stdout[-6000:])

    def test_processes(self):
        for seed in range(self.first, self.first + _PROCESS_SEEDS):
            code, out, err = self.launch("-n", 2 + seed % 2, "--elastic", *_PYTHON, _PROGRAM, "processes", seed, 1, environment=ranks.environment()).finish()
            self.ended_well(code, "\n".join([*out, *err]))
            self.assertEqual(2 + seed % 2, sum(line.endswith("done") for line in out), "\n".join([*out, *err]))


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
