#!/usr/bin/env python3
"""The checks: tests as the README says, sanitizers, lint. Prints a table; fails when a stage fails.

A test program that fails is run three more times, alone. If it is right three times it is UNSTABLE, and its stage passes: a change
is not refused for a race that it did not make. What the failure printed is printed again, so that somebody mends it. Two programs
per run may be unstable; with a third one the checks fail.

Limits, from a clean clone on 2 idle cores: the first stage in 12 minutes, all in 40. What is over its limit is marked, which
does not fail the checks because machines differ.
"""
import dataclasses
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT))
from workbench import results
from workbench.commands import environment, show

RELEASE_LIMIT_S = 12 * 60
TOTAL_LIMIT_S = 40 * 60
UNSTABLE_MAX = 2
TRIES_ALONE = 3
TESTS_FAILED = 8  # ctest's exit code, which ./dev test passes on


def sanitized_shares():
    """(ASan's, TSan's) half of the tests, the other way round for every other commit; nightly runs all with both."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    first = int(head or "0", 16) % 2
    return f"{first}/2", f"{1 - first}/2"


@dataclasses.dataclass
class Stage:
    """A command, and the preset whose test report it writes, if it runs tests; then how it went."""
    name: str
    command: str
    preset: str = None
    code: int = 0
    seconds: float = 0
    entries: list = dataclasses.field(default_factory=list)  # of ctest's report
    unstable: list = dataclasses.field(default_factory=list)  # names
    said: list = dataclasses.field(default_factory=list)  # what failed programs printed

    def passed(self):
        return self.code == 0

    def result(self):
        return f"FAILED ({self.code})" if self.code else "UNSTABLE" if self.unstable else "ok"

    def cases(self):
        return sum(entry.cases for entry in self.entries) if self.entries else None

    def failed(self):
        return sum(entry.failed for entry in self.entries)


def stages():
    asan, tsan = sanitized_shares()
    return (
        Stage("release build + test", "./dev test", "release"),
        # A sample by the commit, if there are many; nightly runs all tests beside a load.
        Stage("changed tests beside a load", "./dev flaky --changed --rounds 10 --load 2 --minutes 5"),
        Stage("training has the same bits", "./dev validate --quick"),
        Stage("torch", "./dev test torch", "release"),
        Stage(f"asan+ubsan, share {asan}", f"./dev test --preset asan --share {asan} base comm shard", "asan"),
        Stage(f"tsan, share {tsan}", f"./dev test --preset tsan --share {tsan} base comm shard", "tsan"),
        Stage("lint of changed files", "./dev lint"),
    )


def run_stage(stage, unstable_left):
    """Runs it, and what failed in it again; at most `unstable_left` programs may turn out to be unstable."""
    folder = ROOT / "build" / (stage.preset or "")
    report = folder / "ctest.xml"
    if stage.preset:
        report.unlink(missing_ok=True)
    start = time.monotonic()
    stage.code = subprocess.call(shlex.split(stage.command), cwd=ROOT)
    if stage.preset:
        stage.entries = results.read(report, folder / "test-results")
        judge(stage, unstable_left, lambda name: run_alone(stage.preset, name))
    stage.seconds = time.monotonic() - start


def judge(stage, unstable_left, run_again):
    """What failed in a stage's tests, and whether the stage passes all the same. `run_again(name)` returns the entry of one more
    run, or None if there was none."""
    failing = [entry for entry in stage.entries if entry.status in ("fail", "missing")]
    if stage.code == 0:
        return
    if stage.code != TESTS_FAILED or not failing or any(entry.status == "missing" for entry in failing):
        stage.said += [said_by(entry, "FAILED") for entry in failing]
        return  # not for a test alone: there is no report, or a program was not built
    if len(failing) > unstable_left:
        why = f"FAILED, not tried again: {len(failing)} failed, and {unstable_left} more may be unstable"
        stage.said += [said_by(entry, why) for entry in failing]
        return
    for entry in failing:
        again = []
        while len(again) < TRIES_ALONE and (not again or is_right(again[-1])):
            again.append(run_again(entry.name))
        if is_right(again[-1]):
            stage.unstable.append(entry.name)
            stage.said.append(said_by(entry, f"UNSTABLE: it failed once, and was right {TRIES_ALONE} times alone"))
            stage.entries[stage.entries.index(entry)] = again[-1]
        else:
            stage.said.append(said_by(entry, f"FAILED again, in try {len(again)} of {TRIES_ALONE} alone"))
    if len(stage.unstable) == len(failing):
        stage.code = 0


def is_right(entry):
    return entry is not None and entry.status == "run"


def said_by(entry, verdict):
    return f"\n--- {entry.name} {verdict}\n{entry.excerpt()}"


def run_alone(preset, name):
    """One more run of a test program with nothing else running, as ctest runs it: its entry, or None."""
    folder = ROOT / "build" / preset
    report = folder / "ctest-alone.xml"
    report.unlink(missing_ok=True)
    (folder / "test-results" / f"{name}.xml").unlink(missing_ok=True)
    command = ["ctest", "--preset", preset, "--tests-regex", f"^{re.escape(name)}$", "--no-tests=error", "--output-junit", str(report)]
    show(command)
    subprocess.call(command, cwd=ROOT, env=environment())
    return next((entry for entry in results.read(report, folder / "test-results") if entry.name == name), None)


def print_table(done):
    print("\n".join(said for stage in done for said in stage.said))
    print(f"\n{'stage':<28} {'result':<12} {'seconds':>8} {'cases':>7}")
    for stage in done:
        cases = stage.cases()
        print(f"{stage.name:<28} {stage.result():<12} {stage.seconds:>8.1f} {cases if cases is not None else '-':>7}")
    total_s, total = sum(stage.seconds for stage in done), sum(stage.cases() or 0 for stage in done)
    print(f"{'total':<28} {'':<12} {total_s:>8.1f} {total:>7}")
    for name, seconds, limit_s in (("first stage", done[0].seconds, RELEASE_LIMIT_S), ("total", total_s, TOTAL_LIMIT_S)):
        print(f"{name}: {seconds:.0f} s, {'within' if seconds <= limit_s else 'OVER'} the limit of {limit_s} s")
    for stage in done:
        for name in stage.unstable:
            print(f"UNSTABLE: {name} ({stage.name}); find its race, ./dev flaky --only '^{name}$' shows it again")
    failed = sum(stage.failed() for stage in done)
    print(f"{total - failed} passed, {failed} failed")


def main():
    done = []
    for stage in stages():
        print(f"\n=== {stage.name}: {stage.command}", flush=True)
        run_stage(stage, UNSTABLE_MAX - sum(len(earlier.unstable) for earlier in done))
        done.append(stage)
    print_table(done)
    return 0 if all(stage.passed() for stage in done) else 1


if __name__ == "__main__":
    sys.exit(main())
