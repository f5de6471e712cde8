"""docs/tutorials/embed_autograd.md is embed_autograd.c, which prints what the page says, the same for all presets; docs/tutorials/optimizers.md
is optimizers.cc, which learns in each of its ways."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from page_blocks import blocks

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "tutorials" / "embed_autograd.md"
SOURCE = HERE / "embed_autograd.c"
OPTIMIZERS_PAGE = ROOT / "docs" / "tutorials" / "optimizers.md"
OPTIMIZERS = HERE / "optimizers.cc"
_DEADLINE_S = 60
_PRESETS = {0: "NO_SHARD", 1: "ZERO1", 2: "ZERO2", 3: "GRAD_OP", 4: "FULL_SHARD", 7: "FRACTION"}


def code_lines(text):
    return [line for line in text.splitlines() if line.strip()]


def run(*command):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=_DEADLINE_S, check=False)


class Tutorial(unittest.TestCase):
    build = pathlib.Path(".")

    @classmethod
    def setUpClass(cls):
        cls.page = PAGE.read_text()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.program = pathlib.Path(folder.name) / "embed_autograd"
        cls.compiled = run("cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT / 'include'}", SOURCE, "-o",
                           cls.program, f"-L{cls.build / 'lib'}", "-lweft", "-lm", f"-Wl,-rpath,{cls.build / 'lib'}")

    def setUp(self):
        self.assertEqual(0, self.compiled.returncode, self.compiled.stderr)

    def launch(self, ranks, *arguments):
        return run(self.build / "bin" / "weftrun", "-n", ranks, self.program, *arguments)

    def trained(self, ranks, preset):
        """What all ranks print in the end, which must be one line, and the bytes that each keeps."""
        done = self.launch(ranks, preset)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        ends = set(re.findall(r"^\[\d+\] (loss .*)$", done.stdout, re.MULTILINE))
        kept = re.findall(r"^\[\d+\] params: (\d+) bytes", done.stdout, re.MULTILINE)
        self.assertEqual((1, ranks), (len(ends), len(kept)), done.stdout)
        return ends.pop(), [int(count) for count in kept]

    def test_page_is_the_program(self):
        self.assertEqual(code_lines(SOURCE.read_text()), code_lines("".join(blocks(self.page, "c"))))

    def test_program_is_short(self):
        self.assertLess(SOURCE.read_text().count("\n"), 160)
        self.assertIn(f", {SOURCE.read_text().count(chr(10))} lines", self.page)

    def test_prints_what_the_page_says(self):
        done = self.launch(2)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        # Ranks print when they like.
        self.assertEqual(sorted(blocks(self.page, "text")[0].splitlines()), sorted(done.stdout.splitlines()))

    def test_every_preset_learns_the_same_bits(self):
        for ranks in (1, 2, 3):
            expected, whole = self.trained(ranks, 0)
            loss = float(re.match(r"loss ([^,]+),", expected)[1])
            self.assertLess(loss, 1e-3)
            for preset, name in _PRESETS.items():
                with self.subTest(ranks=ranks, preset=name):
                    end, kept = self.trained(ranks, preset)
                    self.assertEqual(expected, end)
                    if preset >= 3:
                        self.assertEqual(whole[0], sum(kept))

    def test_a_loss_that_is_not_finite_ends_all_ranks(self):
        done = self.launch(2, 4, "1e30")
        self.assertNotEqual(0, done.returncode)
        self.assertRegex(done.stderr, r"\[0\] .*rank \d aborted step 2: the loss is not finite")
        self.assertRegex(done.stderr, r"\[1\] .*rank \d aborted step 2: the loss is not finite")

    def test_a_preset_that_needs_another_mesh_says_so(self):
        done = self.launch(2, 5)
        self.assertNotEqual(0, done.returncode)
        self.assertIn(re.search(r"^    (finalize: .*)$", self.page, re.MULTILINE)[1], done.stderr)


class Optimizers(unittest.TestCase):
    build = pathlib.Path(".")

    @classmethod
    def setUpClass(cls):
        cls.page = OPTIMIZERS_PAGE.read_text()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.program = pathlib.Path(folder.name) / "optimizers"
        cls.compiled = run("c++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT / 'include'}", OPTIMIZERS,
                           "-o", cls.program, f"-L{cls.build / 'lib'}", "-lweft", f"-Wl,-rpath,{cls.build / 'lib'}")

    def setUp(self):
        self.assertEqual(0, self.compiled.returncode, self.compiled.stderr)

    def losses(self, ranks, mode):
        """The last loss of each rank."""
        done = run(self.build / "bin" / "weftrun", "-n", ranks, self.program, mode)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        printed = dict(re.findall(rf"^\[(\d+)\] {mode}: loss (.*)$", done.stdout, re.MULTILINE))
        self.assertEqual(ranks, len(printed), done.stdout)
        return printed

    def test_page_is_the_program(self):
        self.assertEqual(code_lines(OPTIMIZERS.read_text()), code_lines("".join(blocks(self.page, "cpp"))))
        self.assertIn(f", {OPTIMIZERS.read_text().count(chr(10))} lines", self.page)

    def test_every_way_learns(self):
        for ranks in (1, 2, 3):
            for mode, most in (("groups", 1e-10), ("own", 1e-10), ("two", 0.01)):
                with self.subTest(ranks=ranks, mode=mode):
                    for loss in self.losses(ranks, mode).values():
                        self.assertLess(float(loss), most)

    def test_one_context_and_two_have_the_same_bits(self):
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                self.assertEqual(self.losses(ranks, "one"), self.losses(ranks, "two"))


if __name__ == "__main__":
    Tutorial.build = Optimizers.build = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
