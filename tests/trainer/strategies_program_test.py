"""weft_train with every strategy on ranks that are processes: the same numbers, and the plan before step 1."""
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

weftrun, weft_train = None, None  # from the command line

_WORDS = ("template ", "typename ", "class ", "int ", "return ", "const ", "auto ", "{\n", "}\n", "; ")
_STRATEGIES = {
    "ddp": [],
    "zero1": [],
    "zero2": [],
    "zero3": ["--prefetch", "0"],
    "full-shard": ["--prefetch", "3"],
    "shard-grad-op": ["--no-overlap"],
    "fraction": ["--memory-budget", "1MB"],
}


def train(directory, strategy, *more, ranks=2, nodes=""):
    """Runs 21 steps; returns what was printed and the lines of metrics.jsonl without times. `nodes`: fake ones."""
    command = [weftrun, "-n", str(ranks), weft_train, "--data", "text", "--name", strategy, "--overwrite", "--steps", "21", "--seq", "16",
               "--layers", "2", "--heads", "3", "--width", "15", "--batch", "8", "--accumulate", "2", "--eval-every", "10",
               "--strategy", strategy, *more]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False,
                          env=os.environ | {"WEFT_FAKE_NODES": nodes})
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    with open(os.path.join(directory, "runs", strategy, "metrics.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    kept = ("step", "loss", "val_loss", "lr", "grad_norm")
    return done.stdout, [{key: line.get(key) for key in kept} for line in lines]


class StrategiesProgramTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        words = random.Random(1)
        with open(os.path.join(self.directory.name, "text"), "w", encoding="utf-8") as file:
            file.write("".join(words.choice(_WORDS) for _ in range(5000)))

    def test_all_strategies_write_the_same_numbers(self):
        for accumulation in ("local", "every"):
            expected = None
            for strategy, options in _STRATEGIES.items():
                _, numbers = train(self.directory.name, strategy, "--accumulation", accumulation, *options)
                self.assertEqual(len(numbers), 21)
                expected = expected or numbers
                self.assertEqual(numbers, expected, f"{strategy}, {accumulation}")

    def test_ranks_of_several_nodes_write_the_numbers_of_one(self):
        _, expected = train(self.directory.name, "ddp", ranks=4)
        for strategy, nodes in (("ddp", "2"), ("full-shard", "2"), ("hybrid", "2"), ("full-shard", "0,0,0,1"), ("zero1", "0,1,0,1")):
            _, numbers = train(self.directory.name, strategy, ranks=4, nodes=nodes)
            self.assertEqual(numbers, expected, f"{strategy}, nodes {nodes}")

    def test_optimizer_state_in_files_changes_no_number(self):
        for optimizer in ("adamw", "muon"):
            _, expected = train(self.directory.name, "ddp", "--optimizer", optimizer)
            for strategy in ("ddp", "zero1", "full-shard"):
                output, numbers = train(self.directory.name, strategy, "--optimizer", optimizer, "--offload", self.directory.name)
                self.assertEqual(numbers, expected, f"{strategy}, {optimizer}")
                self.assertRegex(output, r"\S+ kB of optimizer state in \S+, per step \S+ kB read, \S+ kB written")
                if strategy != "full-shard":
                    continue
                output, numbers = train(self.directory.name, strategy, "--optimizer", optimizer, "--offload", self.directory.name, "--offload-params")
                self.assertEqual(numbers, expected, f"{strategy}, {optimizer}, weights")
                self.assertRegex(output, r"\S+ kB of weights and optimizer state in \S+, per step \S+ kB read, \S+ kB written")
        # Nothing is left of them.
        self.assertEqual({"runs", "text"}, set(os.listdir(self.directory.name)))

    def test_a_directory_for_optimizer_state_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(AssertionError, "/proc/none/at/all"):
            train(self.directory.name, "zero1", "--offload", "/proc/none/at/all")

    def test_the_plan_comes_before_the_first_step(self):
        output, _ = train(self.directory.name, "full-shard")
        before = output.partition("step 1/21")[0]
        self.assertRegex(before, r"2 ranks \(full-shard\), 4 gradient buckets")
        pattern = r"memory (\S+) kB of parameters, (\S+) kB of gradients, (\S+) kB of optimizer state, (\S+) kB of pool, (\S+) kB of activations: " \
                  r"(\S+) kB per rank, \S+ \S+ of it padding"
        self.assertRegex(before, pattern)
        *parts, together = (float(text) for text in re.search(pattern, before).groups())
        self.assertAlmostEqual(sum(parts), together, delta=0.3)
        self.assertRegex(before, r"per step \S+ kB reduced, \S+ kB gathered, 1 unit ahead")

    def test_checks_change_nothing_and_the_ranks_are_reported(self):
        for strategy in ("ddp", "zero1", "full-shard"):
            _, plain = train(self.directory.name, strategy, "--check-samples", "0")
            output, checked = train(self.directory.name, strategy, "--check-samples", "1", "--verify-every", "2")
            self.assertEqual(checked, plain, strategy)
            found = re.search(r"ranks  (\d+) \(rank ([01])\) to (\d+) \(rank ([01])\) parameters each, "
                              r"\S+ kB to \S+ kB of memory", output.partition("step 1/21")[0])
            self.assertIsNotNone(found, output)
            least, _, most, _ = map(int, found.groups())
            self.assertTrue(0 < least <= most, found.group())
            self.assertEqual(least == most, strategy == "ddp", found.group())


if __name__ == "__main__":
    weftrun, weft_train = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
