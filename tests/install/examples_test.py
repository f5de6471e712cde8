"""examples/, copied elsewhere, builds against an installed weft by CMake and by pkg-config; each program does what its comment says.

The comment at the top of a program has a session, which is run as it stands: after "$ " a command, below it what the command prints.
Lines of ranks may come in any order; "..." is any text within a line."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

_EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
_WARNINGS = "-Wall -Wextra -Wpedantic -Werror"
_DEADLINE_S = 120
_LONGEST = 130


def top_comment(text):
    """The lines of the comment that a source begins with, without its marks."""
    lines = []
    for line in text.splitlines():
        if line.startswith(("//", "/*", " *")) and line != " */":
            lines.append(re.sub(r"^(// ?|/\* ?| \* ?)", "", line))
        else:
            break
    return lines


def session(lines):
    """[(command, lines that it prints)] of a comment."""
    found = []
    for line in lines:
        if line.startswith("  $ "):
            found.append((line[4:], []))
        elif line.startswith("  ") and found:
            found[-1][1].append(line[2:])
    return found


def is_said(printed, said):
    """Whether the lines are those that were promised, in any order."""
    rest = list(printed)
    for line in sorted(said, key=lambda line: "..." in line):  # exact ones first
        pattern = re.compile(".*".join(re.escape(part) for part in line.split("...")))
        match = next((other for other in rest if pattern.fullmatch(other)), None)
        if match is None:
            return False
        rest.remove(match)
    return not rest


class Examples(unittest.TestCase):
    build = pathlib.Path(".")

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft-examples-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.prefix = cls.folder / "prefix"
        cls.run_command("cmake", "--install", cls.build, "--prefix", cls.prefix)
        library = next(cls.prefix.glob("lib*/**/libweft.so")).parent
        cls.installed = next(cls.prefix.glob("share/doc/*/examples"))
        cls.environment = dict(os.environ, PATH=f"{cls.prefix / 'bin'}:{os.environ['PATH']}", LD_LIBRARY_PATH=str(library),
                               PKG_CONFIG_PATH=str(library / "pkgconfig"), WEFT_TIMEOUT_S="60")
        cls.sources = sorted(path for path in _EXAMPLES.iterdir() if path.suffix in (".c", ".cc"))

    @classmethod
    def run_command(cls, *command, **options):
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=_DEADLINE_S, check=False, **options)
        if done.returncode:
            raise AssertionError(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_folder_is_installed(self):
        def names(folder):
            return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

        self.assertEqual(names(_EXAMPLES), names(self.installed))

    def test_all_build_by_cmake(self):
        copy = self.folder / "copy"
        shutil.copytree(self.installed, copy)
        self.run_command("cmake", "-S", copy, "-B", copy / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}",
                         "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_C_FLAGS={_WARNINGS}", f"-DCMAKE_CXX_FLAGS={_WARNINGS}")
        self.run_command("cmake", "--build", copy / "build")
        for source in self.sources:
            self.assertTrue((copy / "build" / source.stem).exists(), f"{source.name} is not in CMakeLists.txt")

    def test_each_does_what_its_comment_says(self):
        self.assertGreaterEqual(len(self.sources), 6)
        for source in self.sources:
            with self.subTest(source.name):
                folder = self.folder / source.stem
                folder.mkdir()
                shutil.copy(source, folder)
                commands = session(top_comment(source.read_text()))
                build = "cc -std=c99" if source.suffix == ".c" else "c++ -std=c++17"
                self.assertEqual(f"{build} {source.name} -o {source.stem} $(pkg-config --cflags --libs weft)", commands[0][0])
                for ranks in (2, 3):
                    self.assertTrue(any(re.search(rf"-n {ranks} \./|\./{source.stem} {ranks}$", command) for command, _ in commands),
                                    f"no session with {ranks} ranks")
                for command, said in commands:
                    printed = self.run_command("sh", "-c", command, cwd=folder, env=self.environment).splitlines()
                    self.assertTrue(is_said(printed, said), f"$ {command}\n" + "\n".join([*printed, "in place of", *said]))

    def test_each_is_short_and_stands_in_the_table(self):
        table = (_EXAMPLES / "README.md").read_text()
        for source in self.sources:
            self.assertLessEqual(source.read_text().count("\n"), _LONGEST, source.name)
            self.assertIn(f"| [{source.name}]({source.name}) |", table)

    def test_a_line_that_differs_is_found(self):
        self.assertEqual([("a", ["1", "2"]), ("b", [])], session(top_comment("/* x\n *\n *   $ a\n *   1\n *   2\n *   $ b\n */\nint c;")))
        self.assertEqual([("a", ["1"])], session(top_comment("// x\n//\n//   $ a\n//   1\nint c;  //   $ b")))
        self.assertTrue(is_said(["[1] b 17 us", "[0] a"], ["[0] a", "[1] b ... us"]))
        for printed in (["[0] a"], ["[0] a", "[1] b 17 ms"], ["[0] a", "[1] b 17 us", "[2] c"]):
            self.assertFalse(is_said(printed, ["[0] a", "[1] b ... us"]))


if __name__ == "__main__":
    Examples.build = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
