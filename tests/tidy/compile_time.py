"""Lists the translation units that take more than 5 s to compile: compile_time.py BUILD prints them as JSON.

The build's own log (.ninja_log) names the suspects. They shared the machine with other compilers, so each is compiled
again alone. The limit is 5 s on the machine on which _CALIBRATION takes CALIBRATION_S; a slower machine gets as much more.
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

LIMIT_S = 5.0
_SUSPECTS_MAX = 40
_CALIBRATION = "#include <functional>\n#include <map>\n#include <regex>\n#include <string>\nstd::regex r(\"a+b\");\n"
CALIBRATION_S = 2.6  # AMD EPYC 9004 (Zen 4), 2.6 GHz, g++ 12


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
    """What a suspect takes where the calibration takes CALIBRATION_S, or what it takes here if that is less: of the
    first pair within the limit, or the best of three."""
    best = float("inf")
    for _ in range(3):
        taken_s = compile_suspect()
        best = min(best, taken_s / max(1.0, compile_calibration() / CALIBRATION_S))
        if best <= LIMIT_S:
            break
    return best


def suspects(seconds, outputs):
    """Those of `outputs` that the log says were over the limit, slowest first. On a loaded machine most of them are: the
    slowest are enough."""
    over = [output for output in outputs if seconds.get(output, 0) > LIMIT_S]
    return sorted(over, key=lambda output: -seconds[output])[:_SUSPECTS_MAX]


def slow_units(build):
    """[{unit, build_s, alone_s}] of what is over the limit, slowest first."""
    seconds = logged_seconds((build / ".ninja_log").read_text())
    commands = by_output(json.loads((build / "compile_commands.json").read_text()))
    found = []
    for output in suspects(seconds, commands):
        alone_s = judged_seconds(lambda entry=commands[output]: compile_alone(entry), calibrate)
        if alone_s > LIMIT_S:
            found.append({"unit": output, "build_s": seconds[output], "alone_s": round(alone_s, 1)})
    return sorted(found, key=lambda unit: -unit["alone_s"])


if __name__ == "__main__":
    print(json.dumps(slow_units(pathlib.Path(sys.argv[1])), indent=1))
