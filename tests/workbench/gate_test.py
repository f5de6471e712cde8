"""What .ci/gate.py makes of test programs that fail: a tree with programs of its own, which ctest runs as it does weft's."""
import contextlib
import importlib.util
import io
import json
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# Runs the tests as ./dev test does.
_DEV = """#!/bin/sh
rm -rf build/release/test-results
exec ctest --preset release --no-tests=error --output-junit "$PWD/build/release/ctest.xml"
"""
# $runs counts the runs of a program; as weft's, it writes GoogleTest's XML, unless it crashes.
_PROGRAM = """
runs=$(($(cat {runs} 2>/dev/null || echo 0) + 1)); echo $runs >{runs}
right() {{ mkdir -p {results}; printf '<testsuites><testsuite>%s%s</testsuite></testsuites>' \\
  '<testcase name="a" status="run" result="completed"/><testcase name="b" status="run" result="completed"/>' \\
  '<testcase name="c" status="run" result="skipped"/>' >{results}/{name}.xml; }}
wrong() {{ echo 'a_test.cc:7: Failure'; mkdir -p {results}; printf '<testsuites><testsuite>%s%s</testsuite></testsuites>' \\
  '<testcase name="a" status="run" result="completed"><failure message="1 is not 2"/></testcase>' \\
  '<testcase name="b" status="run" result="completed"/>' >{results}/{name}.xml; exit 1; }}
crashed() {{ echo 'terminate called: said by {name}'; kill -SEGV $$; }}
late() {{ echo 'Failure of {name} to end'; exec sleep 30; }}
script_right() {{ printf 'Ran 5 tests in 0.1s\\n\\nOK (skipped=1)\\n'; }}
script_wrong() {{ printf 'ERROR: test_x\\nRan 5 tests in 0.1s\\n\\nFAILED (errors=1)\\n'; exit 1; }}
left_out() {{ exit 77; }}
"""


def _gate():
    spec = importlib.util.spec_from_file_location("gate", ROOT / ".ci" / "gate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Gate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.build = self.root / "build" / "release"
        self.build.mkdir(parents=True)
        (self.root / "CMakePresets.json").write_text(json.dumps({
            "version": 6, "configurePresets": [{"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/release"}],
            "testPresets": [{"name": "release", "configurePreset": "release", "output": {"outputOnFailure": True}}]}))
        (self.root / "dev").write_text(_DEV)
        (self.root / "dev").chmod(0o755)

    def run_gate(self, programs, stages=1, dev=None):
        """The exit code and the lines of the checks. `programs`: {name: what it does in its first run, its second, ...}."""
        for path in self.root.glob("*.runs"):
            path.unlink()
        lines = []
        for name, runs in programs.items():
            text = _PROGRAM.format(name=name, runs=self.root / (name + ".runs"), results=self.build / "test-results")
            cases = "".join(f"{i + 1}) {what} ;; " for i, what in enumerate(runs[:-1]))
            script = self.root / (name + ".sh")
            script.write_text(f"{text}case $runs in {cases}*) {runs[-1]} ;; esac\n")
            lines.append(f'add_test({name} "/bin/sh" "{script}")')
            lines.append(f"set_tests_properties({name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT {1 if 'late' in runs else 60})")
        (self.build / "CTestTestfile.cmake").write_text("\n".join(lines) + "\n")
        if dev:
            (self.root / "dev").write_text(dev)
        gate = _gate()
        gate.ROOT = self.root
        gate.stages = lambda: tuple(gate.Stage(f"stage {i}", "./dev test", "release") for i in range(stages))
        gate.subprocess = _Quiet()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = gate.main()
        return code, printed.getvalue().splitlines()

    def runs_of(self, name):
        return int((self.root / (name + ".runs")).read_text())

    def check(self, programs, code, last, runs, stages=1):
        """The exit code, the last line and how often the programs ran; returns all that was printed."""
        found, lines = self.run_gate(programs, stages)
        text = "\n".join(lines)
        self.assertEqual((code, last), (found, lines[-1]), text)
        self.assertEqual(runs, {name: self.runs_of(name) for name in runs}, text)
        return text

    def test_what_is_right_runs_once(self):
        text = self.check({"a": ["right"], "b": ["script_right"]}, 0, "6 passed, 0 failed", {"a": 1, "b": 1})
        self.assertNotIn("UNSTABLE", text)
        self.assertRegex(text, r"stage 0 +ok ")

    def test_failed_once_and_right_three_times_alone_is_unstable(self):
        for name, first, right, cases in (("fails", "wrong", "right", 2), ("crashes", "crashed", "right", 2), ("ends_late", "late", "right", 2),
                                          ("script", "script_wrong", "script_right", 4)):
            with self.subTest(name):
                text = self.check({name: [first, right], "other": ["right"]}, 0, f"{cases + 2} passed, 0 failed", {name: 4, "other": 1})
                self.assertRegex(text, r"stage 0 +UNSTABLE ")
                self.assertIn(f"--- {name} UNSTABLE: it failed once, and was right 3 times alone\n", text)
                self.assertIn({"wrong": "a_test.cc:7: Failure", "crashed": "terminate called: said by crashes", "late": "Failure of ends_late to end",
                               "script_wrong": "ERROR: test_x"}[first], text)
                self.assertIn(f"UNSTABLE: {name} (stage 0)", text)

    def test_failed_again_is_failed(self):
        text = self.check({"a": ["wrong", "right", "wrong"]}, 1, "1 passed, 1 failed", {"a": 3})
        self.assertIn("--- a FAILED again, in try 2 of 3 alone\na_test.cc:7: Failure", text)
        self.assertRegex(text, r"stage 0 +FAILED \(8\) ")
        for again in ("crashed", "late", "left_out"):  # left out is not right
            with self.subTest(again):
                name = f"then_{again}"
                self.check({name: ["wrong", "right", "right", again]}, 1, "1 passed, 1 failed", {name: 4})

    def test_one_that_is_unstable_does_not_hide_one_that_fails(self):
        text = self.check({"a": ["crashed", "right"], "b": ["wrong"]}, 1, "3 passed, 1 failed", {"a": 4, "b": 2})
        self.assertIn("--- a UNSTABLE", text)
        self.assertIn("--- b FAILED again, in try 1 of 3 alone", text)

    def test_two_may_be_unstable_and_a_third_one_fails(self):
        two = {"a": ["wrong", "right"], "b": ["crashed", "right"]}
        self.check(two, 0, "4 passed, 0 failed", {"a": 4, "b": 4})
        text = self.check(dict(two, c=["wrong", "right"]), 1, "2 passed, 3 failed", {"a": 1, "b": 1, "c": 1})
        self.assertIn("FAILED, not tried again: 3 failed, and 2 more may be unstable", text)

    def test_the_limit_is_that_of_all_stages(self):
        # The second stage counts the programs' runs on: a fails in the first, b and c in the second.
        programs = {"a": ["wrong", "right"], "b": ["right", "wrong", "right"], "c": ["right", "crashed", "right"]}
        text = self.check(programs, 1, "9 passed, 2 failed", {"a": 5, "b": 2, "c": 2}, stages=2)
        self.assertIn("FAILED, not tried again: 2 failed, and 1 more may be unstable", text)
        self.assertRegex(text, r"stage 0 +UNSTABLE ")
        self.assertRegex(text, r"stage 1 +FAILED \(8\) ")

    def test_what_is_not_a_test_that_failed_is_not_tried_again(self):
        dev = _DEV.replace("exec ", "") + "exit 3\n"  # the tests, and then something else
        code, lines = self.run_gate({"a": ["wrong", "right"]}, dev=dev)
        self.assertEqual((1, "1 passed, 1 failed", 1), (code, lines[-1], self.runs_of("a")))
        code, lines = self.run_gate({"b": ["right"]}, dev="#!/bin/sh\nexit 8\n")  # no report
        self.assertEqual((1, "0 passed, 0 failed"), (code, lines[-1]))

    def test_a_program_that_was_not_built_fails(self):
        dev = f"#!/bin/sh\necho 'add_test(gone \"{self.root}/gone\")' >>build/release/CTestTestfile.cmake\n" + _DEV
        code, lines = self.run_gate({"a": ["wrong", "right"]}, dev=dev)
        self.assertEqual((1, "1 passed, 2 failed", 1), (code, lines[-1], self.runs_of("a")))


class _Quiet:
    """subprocess whose children print nothing: what is looked at is what the checks themselves print."""

    @staticmethod
    def call(*arguments, **options):
        return subprocess.call(*arguments, **options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    unittest.main()
