"""The programs in docs/quickstart.md, and the first one in README.md, compile against the build tree and print what the pages show."""
import subprocess

from page_blocks import blocks
from page_test_case import PageTestCase, main

_DEADLINE_S = 60


class ProgramsTestCase(PageTestCase):
    def check_output(self, command, expected):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        # Ranks print when they like.
        self.assertEqual(sorted(expected.splitlines()), sorted(done.stdout.splitlines()))


class Readme(ProgramsTestCase):
    page_name = "../README.md"

    def test_program_in_c(self):
        program = self.compiled(blocks(self.page, "c")[0])
        self.check_output([self.build / "bin" / "weftrun", "-n", "2", program], blocks(self.page, "text")[0])


class Quickstart(ProgramsTestCase):
    page_name = "quickstart.md"

    def test_first_program_in_c(self):
        source = blocks(self.page, "c")[0]
        self.assertLessEqual(len(source.splitlines()), 25)
        program = self.compiled(source)
        together, alone = blocks(self.page, "text")[:2]
        self.check_output([self.build / "bin" / "weftrun", "-n", "2", program], together)
        self.check_output([program], alone)

    def test_same_program_in_cxx(self):
        program = self.compiled(blocks(self.page, "cpp")[0], "program.cc")
        self.check_output([self.build / "bin" / "weftrun", "-n", "2", program], blocks(self.page, "text")[0])

    def test_second_program_in_cxx(self):
        program = self.compiled(blocks(self.page, "cpp")[1], "program.cc")
        self.check_output([self.build / "bin" / "weftrun", "-n", "2", program], blocks(self.page, "text")[2])

    def test_cxx_is_on_the_second_screen(self):
        start = self.page.index("\n## ")
        self.assertLessEqual(self.page[start:self.page.index(blocks(self.page, "cpp")[0])].count("\n"), 40)

    def test_first_program_is_on_the_first_screen(self):
        self.assertLess(self.page.index(blocks(self.page, "text")[0]), self.page.index("\n## "))
        self.assertLessEqual(self.page[:self.page.index("\n## ")].count("\n"), 40)


if __name__ == "__main__":
    main()
