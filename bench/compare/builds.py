"""A build of weft that takes part in --ab: its folder, its libraries, its source.

    build = Build("before", "/tmp/weft-before/build/release")
    build.check(environment)         # raises BuildUnusable, with a sentence
    subprocess.run([build.program, ...], env=build.environment(environment))
"""
import hashlib
import pathlib
import re
import subprocess
import sys

from bench.compare import install

_COUNTER = install.ROOT / "tests" / "bindings" / "instruction_count_test.py"
_COUNTED = ("InstructionCount.test_one_rank", "InstructionCount.test_two_ranks_without_waiting")
_COUNT_TIMEOUT_S = 300


class BuildUnusable(Exception):
    """Why a folder cannot be measured."""


class Build:
    """See above. Constant after construction."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = pathlib.Path(folder).resolve()
        self.program = self.folder / "bin" / "weft_perf"
        self._library = self.folder / "lib" / "libweft.so"

    def environment(self, base):
        """`base`, in which programs find this build's libraries first, wherever the build was made."""
        rest = base.get("LD_LIBRARY_PATH")
        return dict(base, LD_LIBRARY_PATH=f"{self.folder / 'lib'}" + (f":{rest}" if rest else ""))

    def check(self, base):
        """Raises BuildUnusable unless weft_perf starts and loads the library of this build."""
        for path in (self.program, self._library):
            if not path.exists():
                raise BuildUnusable(f"{path} is missing; --ab takes two build folders with bin/weft_perf and lib/libweft.so")
        environment = dict(self.environment(base), LD_TRACE_LOADED_OBJECTS="1")
        try:
            listed = subprocess.run([self.program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True, errors="replace", timeout=30, check=False).stdout
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BuildUnusable(f"{self.program} cannot be started: {error}") from None
        loaded = re.search(r"libweft\.so\S* => (/\S+)", listed)
        if loaded and pathlib.Path(loaded[1]).resolve() != self._library.resolve():
            raise BuildUnusable(f"{self.program} loads {loaded[1]}, not {self._library}: this would measure another build")

    def describe(self):
        """The build as it stands in the results."""
        return {"folder": str(self.folder), "commit": self._commit(),
                "library_sha256": hashlib.sha256(self._library.read_bytes()).hexdigest()}

    def count_instructions(self, base):
        """{ranks: instructions of a small all_reduce}, as the test instruction_count counts them; empty where it cannot."""
        program = self.folder / "tests" / "steady_all_reduce"
        if not program.exists():
            return {}
        try:
            done = subprocess.run([sys.executable, "-B", _COUNTER, program, *_COUNTED], env=self.environment(base), text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_COUNT_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return {}
        return {ranks: int(count) for ranks, count in re.findall(r"(\d+) ranks: (\d+) instructions per call", done.stdout)}

    def _commit(self):
        """`git describe` of the source, or None: a folder that was copied away from its source has none."""
        try:
            cache = (self.folder / "CMakeCache.txt").read_text(errors="replace")
        except OSError:
            return None
        source = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.+)$", cache, re.MULTILINE)
        if not source or not self.folder.is_relative_to(pathlib.Path(source[1]).resolve()):
            return None
        done = subprocess.run(["git", "-C", source[1], "describe", "--always", "--dirty"], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL, check=False)
        return done.stdout.strip() or None
