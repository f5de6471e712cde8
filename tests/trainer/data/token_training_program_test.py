"""weft_train trains on files of tokens: whatever they are cut into, on any ranks, and on from a checkpoint; other vocabularies are refused."""
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

weftrun, weft_train = None, None  # from the command line

_DEADLINE_S = 120
_WORDS = ("the ", "cat's ", "return x;\n", "\n\n", "template <typename T> ", "const ", "auto ")
_MODEL = ("--layers", "1", "--heads", "1", "--width", "16", "--batch", "6", "--eval-every", "0", "--warmup", "2", "--dtype", "fp32")


class TokenTrainingTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        generator = random.Random(1)
        (self.root / "text").write_text("".join(generator.choice(_WORDS) for _ in range(5000)))

    def run_it(self, *command, code=0):
        done = subprocess.run(command, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=_DEADLINE_S, check=False)
        self.assertEqual(code, done.returncode, done.stdout)
        return done.stdout

    def tokenize(self, out, tokenizer="byte", *more):
        return self.run_it(weft_train, "tokenize", "--tokenizer", tokenizer, "--out", out, *more, "text")

    def train(self, name, data, *more, ranks=2, steps=9):
        return self.run_it(weftrun, "-n", str(ranks), weft_train, "--name", name, "--data", data, "--seq", "16", "--steps", str(steps), *_MODEL, *more)

    def losses(self, name):
        lines = (self.root / "runs" / name / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["loss"] for line in lines]

    def test_files_that_tokens_are_cut_into_change_no_bit(self):
        self.tokenize("whole/a")
        self.tokenize("cut/a", "byte", "--shard-tokens", "5000")
        self.assertGreater(len(list((self.root / "cut").glob("*.bin"))), 5)
        printed = self.train("whole", "whole")
        self.assertIn("nats per token", printed)
        self.assertNotIn("order", printed)
        self.train("cut", "cut", "--strategy", "full-shard")
        self.assertEqual(9, len(self.losses("whole")))
        self.assertEqual(self.losses("whole"), self.losses("cut"))
        self.train("three", "cut/*.bin", ranks=3)
        for one, other in zip(self.losses("whole"), self.losses("three"), strict=True):
            self.assertAlmostEqual(one, other, delta=1e-5)

    def test_the_model_takes_the_vocabulary_of_the_tokens_and_its_sample_is_text(self):
        self.tokenize("data/t", "bpe:300")
        more = ("--param-dtype", "bf16", "--checkpoint-every", "4", "--dropout", "0.1")
        printed = self.train("run", "data", *more)
        self.assertEqual(300, json.loads((self.root / "runs/run/config.json").read_text())["vocabulary"])
        self.assertRegex(printed, r"valid  \d+\.\d+ nats per token = ")
        sample = (self.root / "runs/run/sample.txt").read_text(errors="replace")
        self.assertRegex(sample[:40], r"the|cat|return|template|const|auto")
        self.train("run", "data", *more, "--resume", "auto", ranks=3, steps=12)
        self.assertEqual(12, len(self.losses("run")))
        # A larger model draws the tokens that there are, of text too.
        self.train("large", "data", "--vocabulary", "5000", ranks=1, steps=1)
        self.train("bytes", "text", "--vocabulary", "5000", ranks=1, steps=1)
        self.assertGreater(len((self.root / "runs/bytes/sample.txt").read_bytes()), 400)

    def test_what_cannot_be_read_is_refused_with_one_sentence(self):
        self.tokenize("data/t", "bpe:300")
        (self.root / "wrong.bin").write_bytes(b"x" * 4096)
        (self.root / "short").mkdir()
        self.tokenize("short/s")
        cases = ((("--data", "data", "--vocabulary", "280"), r"of a vocabulary of 300 .*, and the model has 280"),
                 (("--data", "wrong.bin"), r"wrong\.bin"),
                 (("--data", "data", "text"), r"text.*tokens|tokens.*text"),
                 (("--data", "text", "--vocabulary", "100"), r"bytes as tokens, 256 of them, and the model 100; give --vocabulary 256"),
                 (("--data", "data", "--seq", "4000"), r"--seq 4000"))
        for options, expected in cases:
            with self.subTest(options):
                seq = () if "--seq" in options else ("--seq", "16")
                printed = self.run_it(weft_train, *_MODEL, *seq, *options, code=2)
                self.assertRegex(printed.splitlines()[-1], r"\Aweft_train: .*(?:" + expected + ")")


if __name__ == "__main__":
    weftrun, weft_train = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
