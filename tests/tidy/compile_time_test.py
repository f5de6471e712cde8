"""No translation unit takes more than 5 s to compile.

The build's own log (.ninja_log) names the suspects. They shared the machine with other compilers, so each is compiled
again alone. The bar is 5 s on the machine on which _CALIBRATION takes _CALIBRATION_S; a slower machine gets as much more.
A machine's speed drifts, within minutes where others share it: each suspect is compiled in turn with the calibration,
and judged by the best ratio of at most three such pairs.
"""
import json
import pathlib
import resource
import shlex
import subprocess
import sys
import tempfile
import unittest

_BAR_S = 5.0
_CALIBRATION = "#include <functional>\n#include <map>\n#include <regex>\n#include <string>\nstd::regex r(\"a+b\");\n"
_CALIBRATION_S = 2.6  # AMD EPYC 9004 (Zen 4), 2.6 GHz, g++ 12


def logged_seconds(log):
    """{output: seconds of its last build} of a .ninja_log."""
    seconds = {}
    for line in log.splitlines():
        if line.startswith("#"):
            continue
        start_ms, end_ms, _, output, _ = line.split("\t")
        seconds[output] = (int(end_ms) - int(start_ms)) / 1000
    return seconds


def by_output(entries):
    """{object file, as the log names it: entry of compile_commands.json}"""
    result = {}
    for entry in entries:
        words = shlex.split(entry["command"])
        result[words[words.index("-o") + 1]] = entry
    return result


def compile_alone(entry):
    """Processor seconds of one compilation whose result is thrown away."""
    command = shlex.split(entry["command"])
    with tempfile.TemporaryDirectory() as folder:
        command[command.index("-o") + 1] = str(pathlib.Path(folder, "object.o"))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=entry["directory"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def calibrate():
    """Processor seconds of compiling _CALIBRATION."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "calibration.cc")
        source.write_text(_CALIBRATION)
        return compile_alone({"command": f"c++ -std=c++20 -O2 -c {source} -o x.o", "directory": folder})


def judged_seconds(compile_suspect, compile_calibration):
    """What a suspect takes where the calibration takes _CALIBRATION_S, or what it takes here if that is less: of the
    first pair within the bar, or the best of three."""
    best = float("inf")
    for _ in range(3):
        taken_s = compile_suspect()
        best = min(best, taken_s / max(1.0, compile_calibration() / _CALIBRATION_S))
        if best <= _BAR_S:
            break
    return best


class CompileTime(unittest.TestCase):
    build = pathlib.Path(".")

    def test_no_unit_is_over_the_bar(self):
        seconds = logged_seconds((self.build / ".ninja_log").read_text())
        commands = by_output(json.loads((self.build / "compile_commands.json").read_text()))
        self.assertTrue(set(commands) & set(seconds), "the build's log names no object of compile_commands.json")
        suspects = sorted(output for output in commands if seconds.get(output, 0) > _BAR_S)
        for output in suspects:
            with self.subTest(output):
                judged_s = judged_seconds(lambda: compile_alone(commands[output]), calibrate)
                print(f"{output}: {seconds[output]:.1f} s in the build, {judged_s:.1f} s alone at the bar's speed")
                self.assertLessEqual(judged_s, _BAR_S, "split it, or take what makes it slow out of its headers")

    def test_a_machine_that_slows_down_is_no_excuse_and_no_fault(self):
        def judged(*pairs):
            suspects, calibrations = (iter(column) for column in zip(*pairs))
            return judged_seconds(lambda: next(suspects), lambda: next(calibrations))

        self.assertEqual(4.0, judged((4.0, _CALIBRATION_S)))  # one pair is enough
        self.assertEqual(4.0, judged((8.0, 2 * _CALIBRATION_S)))
        self.assertEqual(4.5, judged((9.0, _CALIBRATION_S), (9.0, 2 * _CALIBRATION_S)))
        self.assertEqual(5.5, judged((6.0, _CALIBRATION_S), (5.5, _CALIBRATION_S), (16.5, 2 * _CALIBRATION_S)))
        self.assertEqual(4.0, judged((4.0, _CALIBRATION_S / 2)))  # a quicker machine has the same bar

    def test_log_is_read(self):
        log = "# ninja log v5\n0\t6100\t1\ta.o\tff\n100\t200\t1\tb.o\tfe\n0\t900\t2\ta.o\tff\n"
        self.assertEqual({"a.o": 0.9, "b.o": 0.1}, logged_seconds(log))


if __name__ == "__main__":
    CompileTime.build = pathlib.Path(sys.argv.pop(1))
    unittest.main()
