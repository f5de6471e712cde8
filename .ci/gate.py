#!/usr/bin/env python3
"""The gate: tests as the README says, sanitizers, lint. Prints a table; fails when a stage fails.

Bars, from a clean clone on 2 cores: the first stage in 12 minutes, the two sanitizer stages together in 14.
A stage over its bar is marked, which does not fail the gate because machines differ.
"""
import json
import pathlib
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# (name, command, preset whose test summary it writes, bar it counts against)
STAGES = (
    ("release build + test", "./dev test", "release", "release"),
    ("asan+ubsan base comm shard", "./dev test --preset asan base comm shard", "asan", "sanitizers"),
    ("tsan base comm shard", "./dev test --preset tsan base comm shard", "tsan", "sanitizers"),
    ("lint of changed files", "./dev lint", None, None),
)
BARS_S = {"release": 12 * 60, "sanitizers": 14 * 60}


def run_stage(command, preset):
    """Returns (exit code, seconds, executed cases or None, failed cases or None)."""
    summary = ROOT / "build" / (preset or "") / "test-summary.json"
    if preset:
        summary.unlink(missing_ok=True)
    start = time.monotonic()
    code = subprocess.call(shlex.split(command), cwd=ROOT)
    seconds = time.monotonic() - start
    found = json.loads(summary.read_text()) if preset and summary.exists() else {}
    return code, seconds, found.get("cases"), found.get("failed")


def main():
    rows, spent = [], dict.fromkeys(BARS_S, 0.0)
    for name, command, preset, bar in STAGES:
        print(f"\n=== {name}: {command}", flush=True)
        code, seconds, cases, bad = run_stage(command, preset)
        rows.append((name, "ok" if code == 0 else f"FAILED ({code})", seconds, cases, bad))
        if bar:
            spent[bar] += seconds
    print(f"\n{'stage':<28} {'result':<12} {'seconds':>8} {'cases':>7}")
    for name, result, seconds, cases, _ in rows:
        print(f"{name:<28} {result:<12} {seconds:>8.1f} {cases if cases is not None else '-':>7}")
    print(f"{'total':<28} {'':<12} {sum(row[2] for row in rows):>8.1f} {sum(row[3] or 0 for row in rows):>7}")
    for bar, limit_s in BARS_S.items():
        verdict = "within" if spent[bar] <= limit_s else "OVER"
        print(f"{bar}: {spent[bar]:.0f} s, {verdict} the bar of {limit_s} s")
    failed = sum(row[4] or 0 for row in rows)
    print(f"{sum(row[3] or 0 for row in rows) - failed} passed, {failed} failed")
    return 0 if all(row[1] == "ok" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
