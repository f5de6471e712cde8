"""./dev validate reads what weft_train leaves: numbers of each step, and tensors wherever they are
cut; what is not whole is refused."""
import json
import pathlib
import struct
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
from workbench.validate.outcome import Unreadable, read_outcome


class Outcomes(unittest.TestCase):
    """The folder of a run, as weft_train leaves it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        lines = [{"step": step, "loss": 5.0 - step, "grad_norm": 1.0, "loss_max": 6.0, "lr": 0.1,
                  "step_s": step} for step in (1, 2, 3, 4)]
        lines[0]["val_loss"] = lines[1]["val_loss"] = 4.5
        lines[2].update(skipped=True, loss_scale=2.0)
        self.write_metrics(lines)
        self.write_checkpoint("step-00000002", {"wte@value[0:4)": (9, 9, 9, 9)})
        self.write_checkpoint("step-00000004", {"wte@value[0:4)": (8, 8, 8, 8)})
        # Of a run that went on, so it is the latest one of step 4.
        self.write_checkpoint("step-00000004.r1", {"wte@value[1:4)": (2, 3, 4)},
                              {"wte@value[0:1)": (1,), "wte@moment1[0:4)": (5, 6, 7, 8)})

    def write_metrics(self, lines):
        (self.folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n"
                                                           for line in lines))

    def write_checkpoint(self, name, *ranks):
        path = self.folder / "checkpoints" / name
        path.mkdir(parents=True, exist_ok=True)
        for number, entries in enumerate(ranks):
            header, data = {"__metadata__": {"format": "weft"}}, b""
            for entry, values in entries.items():
                more = struct.pack(f"<{len(values)}f", *values)
                header[entry] = {"dtype": "F32", "shape": [len(values)],
                                 "data_offsets": [len(data), len(data) + len(more)]}
                data += more
            text = json.dumps(header).encode()
            (path / f"rank-{number:05}.safetensors").write_bytes(struct.pack("<Q", len(text))
                                                                + text + data)
        tensors = [{"name": "wte", "shape": [2, 2]}]
        (path / "manifest.json").write_text(json.dumps({"tensors": tensors}))

    def read(self):
        return read_outcome(self.folder, steps=4, validated_every=2)

    def check_refused(self, sentence):
        with self.assertRaisesRegex(Unreadable, sentence):
            self.read()

    def test_what_must_be_the_same_is_read_and_cuts_do_not_show(self):
        outcome = self.read()
        self.assertEqual({"loss": 4.0, "grad_norm": 1.0, "loss_max": 6.0}, outcome.steps[0])
        self.assertEqual(4.5, outcome.steps[1]["val_loss"])
        self.assertEqual((True, 2.0), (outcome.steps[2]["skipped"], outcome.steps[2]["loss_scale"]))
        self.assertEqual([1, 2, 3, 4], list(outcome.tensors["wte@value"].numbers()))
        self.assertEqual([5, 6, 7, 8], list(outcome.tensors["wte@moment1"].numbers()))
        self.write_checkpoint("step-00000004.r1", {"wte@value[0:2)": (1, 2),
                                                   "wte@moment1[0:4)": (5, 6, 7, 8)},
                              {"wte@value[2:4)": (3, 4)})
        self.assertEqual(outcome.digest(), self.read().digest())

    def test_holes_and_parts_are_refused(self):
        self.write_checkpoint("step-00000004.r1", {"wte@value[0:1)": (1,)},
                              {"wte@value[2:4)": (3, 4)})
        self.check_refused("wte@value has a hole or an overlap at element 2")
        self.write_checkpoint("step-00000004.r1", {"wte@value[0:3)": (1, 2, 3)}, {})
        self.check_refused("step-00000004.r1 has not all 4 values of wte")
        self.write_checkpoint("step-00000004.r1", {"wte@moment1[0:4)": (1, 2, 3, 4)}, {})
        self.check_refused("step-00000004.r1 has not all 4 values of wte")

    def test_a_checkpoint_without_its_manifest_is_none(self):
        for name in ("step-00000004", "step-00000004.r1"):
            (self.folder / "checkpoints" / name / "manifest.json").unlink()
        self.check_refused("there is no checkpoint of step 4, but of step-00000002")

    def test_lines_that_are_missing_twice_or_no_json_are_refused(self):
        lines = [{"step": step, "loss": 1.0} for step in (1, 2, 2, 3)]
        self.write_metrics(lines)
        self.check_refused(r"metrics.jsonl has the steps \[1, 2, 2, 3\], not 1 to 4")
        (self.folder / "metrics.jsonl").write_text('{"step": 1')
        self.check_refused("metrics.jsonl cannot be read")
        (self.folder / "metrics.jsonl").unlink()
        self.check_refused("metrics.jsonl cannot be read")


if __name__ == "__main__":
    unittest.main()
