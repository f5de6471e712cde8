"""What tests of pages of docs/ have in common: the page, a folder of each test's own, programs compiled against the build tree.

    class Recovery(PageTestCase):
        page_name = "recovery.md"

        def test_it_runs(self):
            program = self.compiled(block(self.page, "c"))

    if __name__ == "__main__":
        main()      # its argument is the build tree
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
_COMPILE_DEADLINE_S = 120


class PageTestCase(unittest.TestCase):
    build = pathlib.Path(".")
    page_name = ""

    def setUp(self):
        self.page = (ROOT / "docs" / self.page_name).read_text()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compiled(self, text, name="program.c"):
        """The program of that text, in C or, if the name says so, in C++; a warning is an error."""
        source = self.folder / name
        source.write_text(text)
        program = source.with_suffix("")
        compiler = ["cc", "-std=c99"] if source.suffix == ".c" else ["c++", "-std=c++17"]
        done = subprocess.run([*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT / 'include'}", source, "-o", program,
                               f"-L{self.build / 'lib'}", "-lweft", f"-Wl,-rpath,{self.build / 'lib'}"], check=False,
                              capture_output=True, text=True, timeout=_COMPILE_DEADLINE_S)
        self.assertEqual(0, done.returncode, done.stderr)
        return program


def main():
    PageTestCase.build = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
