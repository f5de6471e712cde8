#!/usr/bin/env python3
"""The checks: tests as the README says, sanitizers, lint. Prints a table; fails when a stage fails.

Limits, from a clean clone on 2 idle cores: the first stage in 12 minutes, all in 30. What is over its limit is marked, which
does not fail the checks because machines differ.
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent


def sanitized_shares():
    """(ASan's, TSan's) half of the tests, the other way round for every other commit; nightly runs all with both."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    first = int(head or "0", 16) % 2
    return f"{first}/2", f"{1 - first}/2"


def stages():
    """(name, command, preset whose test summary it writes)"""
    asan, tsan = sanitized_shares()
    return (
        ("release build + test", "./dev test", "release"),
        ("torch", "./dev test torch", "release"),
        (f"asan+ubsan, share {asan}", f"./dev test --preset asan --share {asan} base comm shard", "asan"),
        (f"tsan, share {tsan}", f"./dev test --preset tsan --share {tsan} base comm shard", "tsan"),
        ("lint of changed files", "./dev lint", None),
    )


RELEASE_LIMIT_S = 12 * 60
TOTAL_LIMIT_S = 30 * 60
# Of what a failed test printed, again in the end: from the first failure on, and the last. Of a long log often the end alone is kept.
REPEATED_LINES = 40


def run_stage(command, preset):
    """Returns (exit code, seconds, executed cases or None, failed cases or None, what failed tests printed)."""
    folder = ROOT / "build" / (preset or "")
    summary, report = folder / "test-summary.json", folder / "ctest.xml"
    if preset:
        summary.unlink(missing_ok=True)
        report.unlink(missing_ok=True)
    start = time.monotonic()
    code = subprocess.call(shlex.split(command), cwd=ROOT)
    seconds = time.monotonic() - start
    found = json.loads(summary.read_text()) if preset and summary.exists() else {}
    return code, seconds, found.get("cases"), found.get("failed"), failures_in(report) if preset and code else ""


def failures_in(report):
    """What each test that failed printed around its first failure and last, by ctest's own report."""
    if not report.exists():
        return ""
    said = []
    for test in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        if test.get("status") == "fail":
            lines = (test.findtext("system-out") or "").splitlines()
            first = next((number for number, line in enumerate(lines) if re.search(r"Failure|Error|FAIL|ERROR|terminate", line)), len(lines))
            last = max(first + REPEATED_LINES, len(lines) - REPEATED_LINES)
            said += [f"\n--- {test.get('name')}", *lines[first:first + REPEATED_LINES], "[...]", *lines[last:]]
    return "\n".join(said)


def main():
    rows, failures = [], []
    for name, command, preset in stages():
        print(f"\n=== {name}: {command}", flush=True)
        code, seconds, cases, bad, said = run_stage(command, preset)
        failures += [said] if said else []
        rows.append((name, "ok" if code == 0 else f"FAILED ({code})", seconds, cases, bad))
    print("\n".join(failures))
    print(f"\n{'stage':<28} {'result':<12} {'seconds':>8} {'cases':>7}")
    for name, result, seconds, cases, _ in rows:
        print(f"{name:<28} {result:<12} {seconds:>8.1f} {cases if cases is not None else '-':>7}")
    print(f"{'total':<28} {'':<12} {sum(row[2] for row in rows):>8.1f} {sum(row[3] or 0 for row in rows):>7}")
    for name, seconds, limit_s in (("first stage", rows[0][2], RELEASE_LIMIT_S),
                                   ("total", sum(row[2] for row in rows), TOTAL_LIMIT_S)):
        print(f"{name}: {seconds:.0f} s, {'within' if seconds <= limit_s else 'OVER'} the limit of {limit_s} s")
    failed = sum(row[4] or 0 for row in rows)
    print(f"{sum(row[3] or 0 for row in rows) - failed} passed, {failed} failed")
    return 0 if all(row[1] == "ok" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
