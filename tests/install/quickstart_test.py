"""The programs in docs/quickstart.md compile against the build tree and print what the page says they print."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

from page_blocks import blocks

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "quickstart.md"
_DEADLINE_S = 60


def run(*command, **options):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=_DEADLINE_S, check=False, **options)


class Quickstart(unittest.TestCase):
    build = pathlib.Path(".")

    def setUp(self):
        self.page = PAGE.read_text()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compile(self, source, compiler, *options):
        path = self.folder / ("program.c" if compiler == "cc" else "program.cc")
        path.write_text(source)
        program = self.folder / "program"
        done = run(compiler, *options, "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT / 'include'}", path, "-o", program,
                   f"-L{self.build / 'lib'}", "-lweft", f"-Wl,-rpath,{self.build / 'lib'}")
        self.assertEqual(0, done.returncode, done.stderr)
        return program

    def check_output(self, command, expected):
        done = run(*command)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        # Ranks print when they like.
        self.assertEqual(sorted(expected.splitlines()), sorted(done.stdout.splitlines()))

    def test_first_program_in_c(self):
        source = blocks(self.page, "c")[0]
        self.assertLessEqual(len(source.splitlines()), 25)
        program = self.compile(source, "cc", "-std=c99")
        together, alone = blocks(self.page, "text")[:2]
        self.check_output([self.build / "bin" / "weftrun", "-n", "2", program], together)
        self.check_output([program], alone)

    def test_same_program_in_cxx(self):
        program = self.compile(blocks(self.page, "cpp")[0], "c++", "-std=c++17")
        self.check_output([self.build / "bin" / "weftrun", "-n", "2", program], blocks(self.page, "text")[0])

    def test_second_program_in_cxx(self):
        program = self.compile(blocks(self.page, "cpp")[1], "c++", "-std=c++17")
        self.check_output([self.build / "bin" / "weftrun", "-n", "2", program], blocks(self.page, "text")[2])

    def test_cxx_is_on_the_second_screen(self):
        start = self.page.index("\n## ")
        self.assertLessEqual(self.page[start:self.page.index(blocks(self.page, "cpp")[0])].count("\n"), 40)

    def test_first_program_is_on_the_first_screen(self):
        self.assertLess(self.page.index(blocks(self.page, "text")[0]), self.page.index("\n## "))
        self.assertLessEqual(self.page[:self.page.index("\n## ")].count("\n"), 40)


if __name__ == "__main__":
    Quickstart.build = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
