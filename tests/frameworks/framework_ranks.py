"""Runs training programs of frameworks as ranks, over gloo and over weft.

    class Lightning(FrameworkTest):
        def test_it(self):
            self.compare(["lightning"], sys.executable, "-B", HERE / "lightning_training.py", BACKEND)

    if __name__ == "__main__":
        main()      # arguments: weftrun, libweft.so, the folder of what ./dev test frameworks installs; skipped without it
"""
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))
import ranks  # noqa: E402
from ranks import launched  # noqa: E402

launched.DEADLINE_S = 600  # torch and a framework take a minute to import on a busy machine
BACKEND = object()
_SIZE = 2  # of two terms, gloo and weft form the same sum


class FrameworkTest(ranks.RanksTest):
    maxDiff = None

    def train(self, backend, command):
        """What each rank says of each training (training.say)."""
        paths = [ranks.SOURCE, HERE, ranks.packages, ranks.packages.parent / "torch"]
        environment = {**ranks.environment(), "PYTHONPATH": os.pathsep.join(map(str, paths)), "CUDA_VISIBLE_DEVICES": "", "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1",
                       "HF_HUB_OFFLINE": "1"}
        code, out, err = self.launch("-n", _SIZE, *(backend if word is BACKEND else word for word in command), environment=environment).finish()
        self.assertEqual(0, code, "\n".join(out + err))
        said = [[json.loads(line.partition(" ")[2]) for line in out if line.startswith(f'[{rank}] {{"name"')] for rank in range(_SIZE)]
        return said, "\n".join(out + err)

    def compare(self, names, *command):
        """What the command trains has the same losses and parameters over weft as over gloo, and its gradients went through weft."""
        expected, _ = self.train("gloo", command)
        found, text = self.train("weft", command)
        for wanted, got in zip(expected, found):
            self.assertEqual((names, names), ([one["name"] for one in wanted], [one["name"] for one in got]), text)
            for one, other in zip(wanted, got):
                with self.subTest(one["name"]):
                    self.assertGreater(len(one["losses"]), 1)
                    self.assertEqual((["gloo"], ["weft"]), (one["backends"], other["backends"]))
                    self.assertEqual((one["losses"], one["parameters"]), (other["losses"], other["parameters"]))
                    self.assertGreaterEqual(other["in_bytes"], other["gradient_bytes"])


def main():
    ranks.take_arguments()
    if not ranks.has_packages() or not (ranks.packages.parent / "torch" / "requirements.txt").exists():
        print("./dev test frameworks could not install them")
        sys.exit(ranks.SKIPPED)
    ranks.main()
