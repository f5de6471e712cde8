"""What weft_train leaves for people to look at: metrics with the phases of steps, and the report of a run."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

weftrun, weft_train = None, None  # from the command line

_DEADLINE_S = 120
_WORDS = ("template ", "typename ", "class ", "int ", "return ", "const ", "auto ", "{\n", "}\n", "; ")
_SMALL = ("--data", "text", "--seq", "16", "--layers", "2", "--heads", "2", "--width", "24", "--batch", "8", "--warmup", "2", "--eval-every", "0")
_PHASES = ["data", "forward", "backward", "gather", "reduce", "optimizer", "checkpoint"]


class ReportProgramTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        words = random.Random(1)
        (self.root / "text").write_text("".join(words.choice(_WORDS) for _ in range(5000)))

    def train(self, name, *options, ranks=2, code=0):
        launched = [weftrun, "-n", str(ranks), weft_train] if ranks > 1 else [weft_train]
        done = subprocess.run([*launched, *_SMALL, "--name", name, *options], cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=_DEADLINE_S, check=False)
        self.assertEqual(code, done.returncode, done.stdout)
        return done.stdout

    def metrics(self, name):
        return [json.loads(line) for line in (self.root / "runs" / name / "metrics.jsonl").read_text().splitlines()]

    def test_phases_add_up_to_the_step_on_every_rank(self):
        for strategy in ("ddp", "full-shard"):
            self.train(strategy, "--steps", "120", "--strategy", strategy, "--checkpoint-every", "50")
            lines = self.metrics(strategy)
            self.assertEqual(120, len(lines))
            for line in lines:
                self.assertEqual(2, line["version"])
                self.assertEqual(_PHASES, list(line["phases_s"]))
                # Rounded to a microsecond each.
                self.assertLess(sum(line["phases_s"].values()), line["step_s"] + 1e-5, line)
                self.assertGreaterEqual(line["loss_max"], line["loss"])
            self.assertGreater(sum(sum(line["phases_s"].values()) for line in lines), 0.5 * sum(line["step_s"] for line in lines))
            saved = [line["step"] for line in lines if line["phases_s"]["checkpoint"] > 0]
            self.assertEqual([50, 100, 120], saved)
            self.assertEqual([100, 120], [line["step"] for line in lines if "ranks" in line])
            for line in lines:
                for rank in line.get("ranks", []):
                    self.assertEqual(line["step"] - (100 if line["step"] > 100 else 0), rank["steps"])
                    self.assertEqual(0, rank["machine"])
                    self.assertGreater(rank["tok_s"], 0)
                    self.assertGreater(rank["peak_bytes"], 1 << 20)
                    self.assertLess(sum(rank["phases_s"].values()), rank["step_s"] + 1e-5)
                    self.assertGreater(sum(rank["phases_s"].values()), 0.5 * rank["step_s"])
                if "ranks" in line:
                    self.assertEqual(2, len(line["ranks"]))
                    self.assertIn(line["slowest_rank"], (0, 1))


if __name__ == "__main__":
    weftrun, weft_train = (os.path.abspath(path) for path in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
