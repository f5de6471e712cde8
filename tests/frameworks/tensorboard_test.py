"""The tensorboard package reads what weft_train --tensorboard writes: every scalar of every step, also of a run that went on from a checkpoint."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

_SKIPPED = 77  # as CMake knows it
WEFT_TRAIN, *PACKAGES = sys.argv[1:]
sys.path[:0] = PACKAGES
try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    print(f"skipped: {error}; ./dev test frameworks installs it")
    sys.exit(_SKIPPED)

_OPTIONS = ("--data", "text", "--name", "a", "--seq", "16", "--layers", "1", "--heads", "1", "--width", "16", "--batch", "4", "--eval-every", "10",
            "--checkpoint-every", "20", "--tensorboard")


class TensorBoard(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        (self.root / "text").write_text("".join(f"int v{i} = {i * 7919 % 997};\n" for i in range(2000)))

    def train(self, *options):
        done = subprocess.run([WEFT_TRAIN, *_OPTIONS, *options], cwd=self.root, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(0, done.returncode, done.stderr)

    def compare(self):
        accumulator = EventAccumulator(str(self.root / "runs" / "a"), size_guidance={"scalars": 0})
        accumulator.Reload()
        lines = [json.loads(line) for line in (self.root / "runs" / "a" / "metrics.jsonl").read_text().splitlines()]
        for tag, field in (("loss/train", "loss"), ("loss/largest of a rank", "loss_max"), ("loss/validation", "val_loss"),
                           ("optimizer/learning rate", "lr"), ("optimizer/gradient norm", "grad_norm"), ("speed/tokens per second", "tok_s")):
            want = {line["step"]: line[field] for line in lines if field in line}
            found = {event.step: event.value for event in accumulator.Scalars(tag)}
            self.assertEqual(list(want), list(found), tag)
            for step, value in want.items():
                self.assertAlmostEqual(1, found[step] / value, delta=1e-6, msg=f"{tag}, step {step}")
        for phase, seconds in lines[0]["phases_s"].items():
            self.assertAlmostEqual(seconds, accumulator.Scalars(f"phases/{phase}")[0].value, delta=1e-6)

    def test_scalars(self):
        self.train("--steps", "30")
        self.compare()

    def test_a_run_that_went_on(self):
        self.train("--steps", "30")
        # As after a crash: steps 21 to 30 are made anew.
        self.train("--steps", "40", "--resume", "20")
        self.compare()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
