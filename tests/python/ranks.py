"""Runs Python programs as ranks for tests of the package.

    class Works(RanksTest):
        def test_it(self):
            self.run_ranks(2, "world.all_reduce(x)")      # `weft` is imported, `world` is the communicator; fails if a rank does

    if __name__ == "__main__":
        main()      # arguments: weftrun, libweft.so, the folder of what ./dev setup installs for tests
"""
import os
import pathlib
import re
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "bindings" / "python" / "src"
sys.path[:0] = [str(SOURCE), str(ROOT / "tests" / "cli"), str(ROOT / "tests" / "python")]
SKIPPED = 77  # as CMake knows it
LOCAL_DEADLINE_S = 30

import launched  # noqa: E402

packages = None  # what ./dev setup installs for tests
# weft says so, and it is true, where the machine is busy and a rank still imports its packages.
_WAITS = re.compile(r"weft: warning: .* has waited \d+ s for ")
_START = """\
import os, sys, time
import weft
def say(*words): print(*words, flush=True)
world = weft.init(timeout=30)
"""


def has_packages():
    return packages is not None and (packages / "requirements.txt").exists()


class RanksTest(launched.LaunchedTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, code, start=_START):
        path = self.folder / f"ranks{len(list(self.folder.iterdir()))}.py"
        path.write_text(start + textwrap.dedent(code))
        return path

    def launch_ranks(self, count, code, *options, start=_START):
        """weftrun under way, whose ranks run the code."""
        return self.launch("-n", count, *options, sys.executable, "-B", self.program(code, start), environment=environment())

    def run_ranks(self, count, code, *options, start=_START):
        """What they write to stdout, with the rank's prefix; fails unless all end well and nothing is written to stderr, but for _WAITS."""
        code, out, err = self.launch_ranks(count, code, *options, start=start).finish()
        self.assertEqual((0, []), (code, [line for line in err if not _WAITS.search(line)]), "\n".join(out))
        return sorted(out)


class LocalRanksTest(unittest.TestCase):
    """Ranks that are threads of the test."""

    def setUp(self):
        import weft  # noqa: PLC0415  (the library is known from the arguments)
        self.weft = weft

    def communicators(self, size):
        made = self.weft.Communicator.local(size, timeout=LOCAL_DEADLINE_S)
        for one in made:
            self.addCleanup(one.destroy)
        return made


def programs_of(document):
    """[(code, shown)] of its blocks of Python; what the block of text behind one shows of its output, or ""."""
    return re.findall(r"^```python\n(.*?)^```$(?:\n+```text\n(.*?)^```$)?", document.read_text(), re.MULTILINE | re.DOTALL)


def environment():
    paths = [SOURCE, ROOT / "tests" / "python", *([packages] if has_packages() else [])]
    return launched.clean_environment(PYTHONPATH=os.pathsep.join(map(str, paths)), WEFT_LIBRARY_PATH=os.environ["WEFT_LIBRARY_PATH"], WEFT_TUNE="static",
                                      WEFT_TORCH_EXTENSION=os.environ.get("WEFT_TORCH_EXTENSION", "0"))  # not what happens to be built


def take_arguments():
    """Before `import weft`: where its parts are. Leaves the rest to unittest."""
    global packages
    library, packages_path = sys.argv[2:4]
    del sys.argv[2:4]
    os.environ["WEFT_LIBRARY_PATH"] = library
    packages = pathlib.Path(packages_path)
    if has_packages():
        sys.path.append(packages_path)


def main():
    launched.main()
