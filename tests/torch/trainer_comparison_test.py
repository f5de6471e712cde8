"""./dev compare --trainer on a tiny model: every way of training it starts, takes its turns and has the same losses; shapes that cannot be measured are named."""
import json
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "python")]
import ranks  # noqa: E402

ranks.take_arguments()
if not ranks.has_packages():
    print("./dev test torch could not install torch")
    sys.exit(ranks.SKIPPED)
sys.path[:0] = [str(ranks.ROOT)]
from bench.compare import torch_calls, training  # noqa: E402


class Comparison(unittest.TestCase):
    def compare(self, *arguments):
        """(exit code, results, page) of a run without the extension, which takes a minute to build."""
        with tempfile.TemporaryDirectory() as folder, \
                unittest.mock.patch.object(training, "RELEASE", pathlib.Path(ranks.launched.program).resolve().parent.parent), \
                unittest.mock.patch.object(torch_calls, "torch_folder", lambda: ranks.packages), \
                unittest.mock.patch.object(torch_calls, "build_extension"):
            code = training.main([*arguments, "--rounds", "1", "--out", folder], lambda _: None)
            return code, json.loads(pathlib.Path(folder, "training.json").read_text()), pathlib.Path(folder, "training.md").read_text()

    def test_all_ways_have_the_same_losses(self):
        groups = training.entrants(2) if os.environ.get("TEST_CASES") == "all" else ["full-shard", "weft.torch-shard"]
        code, results, page = self.compare("--shapes", "tiny", "--dtypes", "fp32", "--groups", ",".join(groups))
        self.assertEqual((0, []), (code, results["errors"]))
        for cell in results["cells"]:
            wanted = [one for one in training.entrants(2)[cell["group"]] if "fp32" in one.dtypes]
            self.assertEqual([one.name for one in wanted], list(cell["seconds"]))
            for one in wanted:
                self.assertEqual(1, len(cell["seconds"][one.name]))
                self.assertEqual(one.ranks, len(cell["peak_bytes"][one.name]))
                self.assertIn(f"| {one.name} |", page)
        judged = {one["target"]: one["verdict"] for one in results["targets"]}
        for group in groups:
            self.assertEqual("pass", judged[f"tiny fp32 {group}: first losses within 0.0001 of torch's"])

    def test_a_shape_that_the_trainer_cannot_have_is_named_and_the_rest_goes_on(self):
        with unittest.mock.patch.dict(training.SHAPES, {"odd": {**training.SHAPES["tiny"], "heads": 3}}):
            code, results, page = self.compare("--shapes", "odd")
        self.assertEqual((1, ["odd"]), (code, [one["name"] for one in results["errors"]]))
        self.assertIn("heads", results["errors"][0]["error"])
        self.assertIn(f"- odd: {results['errors'][0]['error']}", page)


if __name__ == "__main__":
    ranks.launched.program = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
