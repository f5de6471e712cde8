"""./dev compare --python: weft and mpi4py from Python, on numpy arrays, in one run, interleaved.

mpi4py over MPICH's and Open MPI's wheels, six operations, plain calls and, of weft, bound ones and those on memory of weft's. Results: docs/formats/compare.md, "python.json".
"""
import argparse
import datetime
import json
import pathlib
import tempfile
import time

from bench.compare import cells, install, intervals, launch, machine, markdown, measure, targets
from bench.compare.arguments import parse_size, several
from bench.compare.jobs import Job, JobFailed
from bench.compare.peers import PYTHON_PEERS

VERSION = 1
OPERATIONS = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all")
SIZES = (8, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20, 64 << 20)
LARGE_BYTES = 4 << 10  # from here on no cell may be slower than a peer's
WEFT = ("weft/plain", "weft/bound", "weft/symmetric")
_START_S = 60
_CELL_S = 60


def options_of(arguments):
    """The parsed command line."""
    parser = argparse.ArgumentParser(prog="./dev compare --python", description=__doc__)
    names = [peer.name for peer in PYTHON_PEERS]
    parser.add_argument("--ops", type=several(str, OPERATIONS), default=list(OPERATIONS), metavar="LIST", help="default all: " + ",".join(OPERATIONS))
    parser.add_argument("--sizes", type=several(parse_size), default=list(SIZES), metavar="LIST", help="default 8 to 64M by eights")
    parser.add_argument("--ranks", type=int, default=2, help="default 2")
    parser.add_argument("--peers", type=several(str, names), default=names, metavar="LIST", help="default all: " + ",".join(names))
    parser.add_argument("--rounds", type=int, default=9, help="default 9")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="default runs/compare/python-DATE")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.ranks < 2:
        parser.error("at least 1 round and 2 ranks")
    return options


class Run:
    """A whole run. One thread."""

    def __init__(self, options, say):
        self._options, self._say = options, say
        out = options.out or install.ROOT / "runs" / "compare" / f"python-{datetime.datetime.now():%Y-%m-%d-%H%M%S}"
        self._out = out.resolve()
        self._results = {"version": VERSION, "machine": machine.describe(install.ROOT), "rounds": options.rounds, "ranks": options.ranks,
                         "versions": {}, "errors": [], "cells": []}
        self._jobs = {}  # by the name before the slash of a contestant

    def run(self):
        """Returns the exit code."""
        began = time.monotonic()
        peers = self._installed()
        self._out.mkdir(parents=True, exist_ok=True)
        # Sockets of the peers lie here; their paths must be short.
        with tempfile.TemporaryDirectory(prefix="weft-compare-") as folder:
            try:
                self._start(peers, pathlib.Path(folder))
                chosen = [(op, size) for op in self._options.ops for size in self._options.sizes]
                for number, (op, size) in enumerate(chosen, 1):
                    self._results["cells"].append(self._measure(op, size))
                    self._save()
                    self._say(f"[{number}/{len(chosen)}] {op} {cells.size_text(size)}: {one_line(self._results['cells'][-1])}")
            finally:
                for job in self._jobs.values():
                    job.end()
        self._results["seconds"] = round(time.monotonic() - began)
        self._results["targets"] = judged(self._results)
        self._save()
        (self._out / "python.md").write_text(render(self._results))
        for target in self._results["targets"]:
            self._say(targets.said(target))
        self._say(f"wrote {self._out}")
        return 0

    def _installed(self):
        install.make_environment()
        usable = []
        for peer in (peer for peer in PYTHON_PEERS if peer.name in self._options.peers):
            try:
                install.install_peer(peer)
                usable.append(peer)
            except install.InstallFailed as error:
                self._report(peer.name, f"takes no part: {error}")
        if not usable:
            raise install.InstallFailed("none of the peers, whose numpy weft takes")
        return usable

    def _start(self, peers, folder):
        crowded = self._options.ranks > machine.core_count()
        for name, (command, environment) in launch.python_commands(peers, self._options.ranks, crowded).items():
            job = Job(name, command, environment, self._options.ranks, folder / name)
            try:
                job.start(_START_S)
            except JobFailed as error:
                job.end()
                self._report(name, str(error))
                continue
            self._jobs[name] = job
            self._results["versions"][name] = job.version
            self._say(f"{name}: {job.version}")
        if "weft" not in self._jobs:
            raise JobFailed("weft does not take part")

    def _measure(self, op, size):
        """One cell: {contestant: microseconds of its rounds}."""
        names = [*WEFT, *(f"{name}/plain" for name in self._jobs if name != "weft")]
        before = machine.steal_s()
        samples, calls = {name: [] for name in names}, {}
        for name in names:
            self._ask(op, size, name, 1, 1, True)
            few = 20 if size <= 1 << 20 else 1
            calls[name] = measure.call_count(self._ask(op, size, name, few, 1, False) / 1e6)
        for turn in range(self._options.rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                samples[name].append(round(self._ask(op, size, name, calls[name], min(max(calls[name] // 10, 1), 50), False), 4))
        return {"op": op, "bytes": size, "calls": calls, "us": samples, "steal_s": round(machine.steal_s() - before, 2)}

    def _ask(self, op, size, name, calls, warmup, check):
        """Microseconds per call."""
        library, _, call = name.partition("/")
        answers = self._jobs[library].ask(f"op={op} bytes={size} call={call} calls={calls} warmup={warmup} check={int(check)}", _CELL_S)
        wrong = sum(answer.get("wrong", 0) for answer in answers)
        if wrong:
            raise JobFailed(f"{name}: {wrong} values of {op} of {size} bytes are wrong")
        return measure.slowest_us(answers, calls)

    def _report(self, name, sentence):
        self._results["errors"].append({"name": name, "error": sentence})
        self._say(f"{name}: {sentence}")

    def _save(self):
        path = self._out / "python.json"
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(self._results) + "\n")
        draft.replace(path)


# ---- what it says ----


def peers_of(cell):
    return [name for name in cell["us"] if not name.startswith("weft/")]


def ratio_to(cell, peer, ours):
    """(peer's time / ours, low, high)."""
    return intervals.ratio_interval(cell["us"][peer], cell["us"][ours])


def one_line(cell):
    """For the progress line."""
    return ", ".join(f"{name} {markdown.time_text(intervals.median(times))}" for name, times in cell["us"].items())


def _least(name, chosen, ours, limit, rounds):
    """The target that against no peer a cell's ratio is below `limit`."""
    found = [(f"{cell['op']} {cells.size_text(cell['bytes'])} {peer.partition('/')[0]}", ratio_to(cell, peer, ours)) for cell in chosen for peer in peers_of(cell)]
    if not found:
        return targets.target_of(name, None, "not measured")
    below = [(label, ratio) for label, ratio in found if ratio[2] < limit]
    unsure = [(label, ratio) for label, ratio in found if ratio[1] < limit <= ratio[2]]
    detail = [f"{title}: " + ", ".join(f"{label} {ratio[0]:.2f}" for label, ratio in some) for title, some in (("below", below), ("not certain", unsure)) if some]
    return targets.target_of(name, min(ratio[0] for _, ratio in found), targets.verdict_of(below, unsure, rounds), "; ".join(detail))


def judged(results):
    """All targets in order."""
    rounds = results["rounds"]
    large = [cell for cell in results["cells"] if cell["bytes"] >= LARGE_BYTES]
    tiny = [cell for cell in results["cells"] if cell["bytes"] == 8]
    reduces = [cell for cell in tiny if cell["op"] == "all_reduce"]
    mean = intervals.geometric_mean([ratio_to(cell, peer, "weft/plain")[0] for cell in large for peer in peers_of(cell)])
    name = "from 4 KiB: geometric mean of peer / weft at least 1.3"
    return [
        _least("from 4 KiB: never below mpi4py", large, "weft/plain", 1.0, rounds),
        targets.target_of(name, mean, "not measured" if mean is None else targets.verdict_of(mean < 1.3, False, rounds)),
        _least("all_reduce 8 B: at most 1.5 times mpi4py's time (as a ratio, 0.667)", reduces, "weft/plain", 1 / 1.5, rounds),
        _least("all_reduce 8 B, bound: at most mpi4py's time", reduces, "weft/bound", 1.0, rounds),
        _least("8 B, all operations: at most 1.5 times mpi4py's time (as a ratio, 0.667)", tiny, "weft/plain", 1 / 1.5, rounds),
        _least("8 B, all operations, bound: at most mpi4py's time", tiny, "weft/bound", 1.0, rounds),
    ]


def render(results):
    """python.md."""
    peers = sorted({peer for cell in results["cells"] for peer in peers_of(cell)})
    lines = [f"# weft and mpi4py from Python, {results['ranks']} ranks", "", *(f"- {name}: {version}" for name, version in results["versions"].items()),
             *(f"- {error['name']}: {error['error']}" for error in results["errors"]), "",
             "Medians of the rounds in microseconds per call, the slowest rank's; in brackets quartiles. Ratios: peer / weft, with their 95 % interval.", "",
             "| op | bytes | " + " | ".join([*WEFT, *peers]) + " | " + " | ".join(f"{peer.partition('/')[0]} / weft" for peer in peers) + " |",
             "|---" * (2 + len(WEFT) + 2 * len(peers)) + "|"]
    for cell in results["cells"]:
        times = [markdown.spread_text(cell["us"][name]) for name in (*WEFT, *peers)]
        ratios = ["{:.2f} [{:.2f}, {:.2f}]".format(*ratio_to(cell, peer, "weft/plain")) for peer in peers]
        lines.append(f"| {cell['op']} | {cells.size_text(cell['bytes'])} | " + " | ".join([*times, *ratios]) + " |")
    lines += ["", "| target | figure | verdict | |", "|---|---|---|---|"]
    lines += [f"| {target['target']} | {'' if target['figure'] is None else format(target['figure'], '.3g')} | {target['verdict']} | {target['detail']} |"
              for target in results["targets"]]
    return "\n".join(lines) + "\n"


def main(arguments, say):
    try:
        return Run(options_of(arguments), say).run()
    except (JobFailed, install.InstallFailed) as error:
        say(str(error))
        return 1
