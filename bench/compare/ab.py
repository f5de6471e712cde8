"""./dev compare --ab BEFORE AFTER: measures two builds of weft in turns, and fails when the second one is slower."""
import argparse
import datetime
import json
import pathlib
import tempfile
import time

from bench.compare import ab_page, cells, install, launch, machine, sweeps
from bench.compare.arguments import parse_size, several
from bench.compare.builds import Build, BuildUnusable
from bench.compare.sweeps import SweepFailed

VERSION = 1
TURN_S = 0.12           # what the timed calls of one process should take
LEAST_CALLS = 3
MOST_CALLS = 20000
_FIRST_CALLS = (200, 20, 3)  # of the calibration: up to 4 KiB, up to 256 KiB, above
_PROGRESS_S = 15        # between two lines of progress
_QUICK_OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall")


def options_of(arguments):
    """The parsed command line, which has no --ab any more."""
    parser = argparse.ArgumentParser(prog="./dev compare --ab", description=__doc__,
                                     epilog="Exit code 1: a cell is slower, or a measurement failed.")
    parser.add_argument("before", metavar="BEFORE", help="a build folder with bin/weft_perf and lib/libweft.so")
    parser.add_argument("after", metavar="AFTER", help="the build that must not be slower")
    parser.add_argument("--quick", action="store_true", help="2 ranks, private memory, five operations, 5 rounds")
    parser.add_argument("--ops", type=several(str, sweeps.OPERATIONS), default=None, metavar="LIST",
                        help="default " + ",".join(sweeps.OPERATIONS))
    parser.add_argument("--ranks", type=several(int), default=None, metavar="LIST", help="default 2,4")
    parser.add_argument("--memory", type=several(str, sweeps.MEMORIES), default=None, metavar="LIST",
                        help="default private,symmetric")
    parser.add_argument("--sizes", type=several(parse_size), default=list(sweeps.SIZES), metavar="LIST",
                        help="default 8 to 16M by eights")
    parser.add_argument("--dtypes", type=several(str, cells.DTYPES), default=["float32"], metavar="LIST", help="default float32")
    parser.add_argument("--buffers", type=several(str, cells.BUFFERS), default=["hot"], metavar="LIST", help="default hot")
    parser.add_argument("--rounds", type=int, default=None, help="default 9")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="default runs/compare/ab-DATE")
    options = parser.parse_args(arguments)
    quick = {"ops": list(_QUICK_OPERATIONS), "ranks": [2], "memory": ["private"], "rounds": 5}
    full = {"ops": list(sweeps.OPERATIONS), "ranks": [2, 4], "memory": list(sweeps.MEMORIES), "rounds": 9}
    for name, value in (quick if options.quick else full).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.rounds < 1 or min(options.ranks) < 2 or min(options.sizes) < 1:
        parser.error("at least 1 round, 2 ranks and 1 byte")
    return options


def call_count(microseconds):
    """How many calls of each size a process times, if one call of each takes that long together."""
    return round(min(max(TURN_S * 1e6 / max(microseconds, 1e-3), LEAST_CALLS), MOST_CALLS))


class AbRun:
    """A whole run. One thread."""

    def __init__(self, options, say):
        """say(text) shows progress."""
        self._options = options
        self._say = say
        self._builds = [Build("before", options.before), Build("after", options.after)]
        self._out = (options.out or install.ROOT / "runs" / "compare" / f"ab-{datetime.datetime.now():%Y-%m-%d-%H%M%S}").resolve()
        self._calls = {}    # sweep -> calls per process
        self._turn_s = {}   # sweep -> seconds of its last process
        self._entries = {}  # cell -> its entry of the results
        self._results = {}
        self._folder = None
        self._said = 0.0

    def run(self):
        """The exit code. Raises BuildUnusable."""
        for build in self._builds:
            build.check(self._environment(2))
        self._results = {"version": VERSION, "machine": machine.describe(install.ROOT), "rounds": self._options.rounds,
                         "builds": {build.name: build.describe() for build in self._builds}, "instructions": {}, "errors": [],
                         "cells": []}
        self._out.mkdir(parents=True, exist_ok=True)
        began, steal_s = time.monotonic(), machine.steal_s()
        with tempfile.TemporaryDirectory(prefix="weft-ab-") as self._folder:
            everything = self._calibrate()
            seconds = 2 * self._options.rounds * sum(self._turn_s[sweep] for sweep in everything)
            self._say(f"{len(self._entries)} cells in {len(everything)} sweeps, {self._options.rounds} rounds: about "
                      f"{seconds / 60:.0f} min, and cells that seem slower are measured again")
            self._measure(everything)
            self._measure_again(everything)
            self._results["instructions"] = {build.name: build.count_instructions(self._environment(2)) for build in self._builds}
        self._results["seconds"] = round(time.monotonic() - began)
        self._results["steal_s"] = round(machine.steal_s() - steal_s, 2)
        return self._conclude()

    def _environment(self, ranks):
        """The costs of this machine are measured once, by the first process, and both builds read the same file."""
        return dict(launch.environment_for(ranks), XDG_CACHE_HOME=str(self._folder or self._out))

    def _calibrate(self):
        """The sweeps that take part, each with its number of calls."""
        options = self._options
        everything = sweeps.sweeps_of(options.ranks, options.ops, options.dtypes, options.buffers, options.memory, options.sizes)
        self._say(f"calibrating {len(everything)} sweeps")
        usable = []
        for sweep in everything:
            first = _FIRST_CALLS[sweeps.class_of(sweep.sizes[-1])]
            began = time.monotonic()
            times = self._guarded(sweep, self._builds[0], first)
            if not times:
                continue
            whole_s = time.monotonic() - began
            together_us = sum(times.values())
            self._calls[sweep] = call_count(together_us)
            self._turn_s[sweep] = whole_s + max(self._calls[sweep] - first, 0) * together_us / 1e6
            for cell in times:
                self._entries[cell] = {**ab_page.fields_of(cell), "calls": self._calls[sweep], "before_us": [], "after_us": [],
                                       "again_before_us": [], "again_after_us": []}
            usable.append(sweep)
        self._results["cells"] = list(self._entries.values())
        return usable

    def _measure(self, some, prefix=""):
        """All rounds. In each, every sweep is measured with both builds, one right after the other; the first to go changes."""
        rounds = self._options.rounds
        for turn in range(rounds):
            for number, sweep in enumerate(some):
                times = {build.name: self._guarded(sweep, build, self._calls[sweep])
                         for build in (self._builds if (turn + number) % 2 == 0 else self._builds[::-1])}
                for cell in set(times["before"]) & set(times["after"]):
                    for name, found in times.items():
                        self._entries[cell][f"{prefix}{name}_us"].append(round(found[cell], 4))
                left_s = 2 * sum(self._turn_s[one] * (rounds - turn - (place <= number)) for place, one in enumerate(some))
                if time.monotonic() - self._said > _PROGRESS_S:
                    self._progress(f"[round {turn + 1}/{rounds}, {left_s / 60:.0f} min left] {sweep.label}")
            self._save()

    def _measure_again(self, everything):
        """Among hundreds of intervals some are far off by chance, so what seems slower has to be slower in rounds of its own."""
        suspects = {ab_page.cell_of(entry) for entry in self._results["cells"] if ab_page.judge(entry).seems_slower}
        again = [sweep for sweep in everything
                 if any(cell in suspects for size in sweep.sizes for cell in sweep.cells(size).values())]
        if again:
            self._say(f"{len(suspects)} cells seem slower; their {len(again)} sweeps are measured again")
            self._measure(again, "again_")

    def _guarded(self, sweep, build, calls):
        """{cell: microseconds}; a failure is told and gives nothing."""
        began = time.monotonic()
        try:
            times = sweeps.measure(sweep, build, self._environment(sweep.ranks), calls, self._folder)
        except SweepFailed as error:
            self._results["errors"].append(str(error))
            self._say(str(error))
            return {}
        self._turn_s[sweep] = time.monotonic() - began
        return times

    def _conclude(self):
        """Writes the results and the page; the exit code."""
        found = [ab_page.judge(entry) for entry in self._results["cells"]]
        self._save()
        (self._out / "ab.md").write_text(ab_page.render(self._results, found))
        for line in ab_page.summary(self._results, found):
            self._say(line)
        self._say(f"wrote {self._out}")
        return 1 if self._results["errors"] or not found or any(one.verdict in ("slower", "not measured") for one in found) else 0

    def _progress(self, text):
        self._said = time.monotonic()
        self._say(text)

    def _save(self):
        """After every round, so that a run that is cut off has something to show."""
        draft = self._out / "ab.json.new"
        draft.write_text(json.dumps(self._results) + "\n")
        draft.replace(self._out / "ab.json")


def main(arguments, say):
    """The exit code."""
    try:
        return AbRun(options_of(arguments), say).run()
    except BuildUnusable as error:
        say(str(error))
        return 1
